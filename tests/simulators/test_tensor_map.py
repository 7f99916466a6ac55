"""Tensor maps: the driver's rules one by one, the bytes that hold one, and `Device.tensor_map`."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileproof.kernels.tensor import Tensor
from tileproof.oracle.addresses.tensor_map import Interleave, SwizzleMode, TensorMapRequest, TensorType
from tileproof.oracle.addresses.tma_tile import Fill
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.tensor_map import NoTensorMap, TensorMap, check, decode, encode

LEGAL = TensorMapRequest(
    data_type=TensorType.UINT16,
    address=0x7000_0000_0000,
    shape=(256, 40, 7),
    strides_bytes=(512, 20480),
    box=(32, 8, 2),
    element_strides=(1, 1, 1),
    swizzle=SwizzleMode.SPAN_64,
)
SLICED = replace(LEGAL, interleave=Interleave.BYTES_32, swizzle=SwizzleMode.NONE, box=(8, 8, 2))
WIDE = replace(LEGAL, swizzle=SwizzleMode.NONE, box=(256, 256, 1))  # 131,072 bytes


# Just legal, just illegal.
LIMITS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "address by 16": ({"address": 0x7000_0000_0010}, {"address": 0x7000_0000_0008}),
    "address below 2^57": ({"address": (1 << 57) - 16}, {"address": 1 << 57}),
    "address 0": ({"address": 0}, {"address": 1}),
    "shape of 2^32": ({"shape": (1 << 32, 40, 7)}, {"shape": ((1 << 32) + 1, 40, 7)}),
    "shape of 0": ({"shape": (1, 40, 7)}, {"shape": (0, 40, 7)}),
    "outer shape of 0": ({"shape": (256, 1, 7)}, {"shape": (256, 0, 7)}),
    "stride by 16": ({"strides_bytes": (528, 20480)}, {"strides_bytes": (520, 20480)}),
    "stride below 2^40": ({"strides_bytes": (512, (1 << 40) - 16)}, {"strides_bytes": (512, 1 << 40)}),
    "stride of 0": ({"strides_bytes": (0, 0)}, {"strides_bytes": (1, 0)}),
    "box of 256": ({"box": (32, 256, 2)}, {"box": (32, 257, 2)}),
    "box of 0": ({"box": (32, 1, 2)}, {"box": (32, 0, 2)}),
    "row by 16 bytes": ({"box": (24, 8, 2)}, {"box": (28, 8, 2)}),
    "row within the span": ({"box": (32, 8, 2)}, {"box": (40, 8, 2)}),
    "element stride of 8": ({"element_strides": (1, 8, 1)}, {"element_strides": (1, 9, 1)}),
    "element stride of 0": ({"element_strides": (1, 1, 1)}, {"element_strides": (0, 1, 1)}),
    "fill of floats": (
        {"data_type": TensorType.BFLOAT16, "fill": Fill.NAN},
        {"data_type": TensorType.UINT16, "fill": Fill.NAN},
    ),
    "swizzles of sm_90": ({"swizzle": SwizzleMode.SPAN_128}, {"swizzle": SwizzleMode.SPAN_128_ATOM_32}),
}


@pytest.mark.parametrize(("taken", "refused"), LIMITS.values(), ids=LIMITS.keys())
def test_each_limit_of_the_driver_holds_on_both_sides(taken: dict[str, Any], refused: dict[str, Any]) -> None:
    check(replace(LEGAL, **taken), 90)
    with pytest.raises(Refusal):
        check(replace(LEGAL, **refused), 90)


def test_a_box_holds_228_kib_counted_with_truncated_element_strides() -> None:
    check(replace(WIDE, box=(256, 228, 2)), 90)
    with pytest.raises(Refusal, match="holds 234496 bytes, the limit is 233472"):
        check(replace(WIDE, box=(256, 229, 2)), 90)
    check(replace(WIDE, box=(256, 229, 3), element_strides=(1, 1, 2)), 90)  # 3 // 2 is 1
    check(replace(WIDE, box=(256, 229, 2), element_strides=(2, 1, 1)), 90)  # counts, although copies ignore it
    vast = replace(WIDE, shape=(9,) * 4, strides_bytes=(32,) * 3, box=(256, 256, 256, 1))
    check(replace(vast, element_strides=(1, 1, 1, 2)), 90)  # 1 // 2 makes it 0 bytes
    with pytest.raises(Refusal):
        check(replace(vast, element_strides=(1, 1, 1, 1)), 90)


def test_interleaved_maps_have_rank_3_a_wider_alignment_and_any_swizzle() -> None:
    for mode in list(SwizzleMode)[:4]:
        check(replace(SLICED, swizzle=mode, box=(128, 8, 2)), 90)
    for wrong in (
        {"address": LEGAL.address + 16},
        {"strides_bytes": (528, 20480)},
        {"box": (4, 8, 2)},
        {"shape": (256, 40), "strides_bytes": (512,), "box": (8, 8), "element_strides": (1, 1)},
    ):
        with pytest.raises(Refusal):
            check(replace(SLICED, **wrong), 90)


def test_packed_types_and_newer_swizzles_are_refused_on_sm_90_and_not_modelled_later() -> None:
    for change in ({"data_type": TensorType.U4_ALIGN8}, {"swizzle": SwizzleMode.SPAN_128_ATOM_64}):
        with pytest.raises(Refusal) as old:
            check(replace(LEGAL, **change), 90)
        assert not isinstance(old.value, NotModelled)
        with pytest.raises(NotModelled):
            check(replace(LEGAL, **change), 100)


def test_tensor_maps_need_sm_90() -> None:
    with pytest.raises(Refusal, match="sm_89"):
        check(LEGAL, 89)


@pytest.mark.parametrize(
    "request_",
    [
        LEGAL,
        SLICED,
        replace(LEGAL, shape=(1 << 32, 1 << 32, 1), strides_bytes=(0, (1 << 40) - 16), address=(1 << 57) - 16),
        replace(LEGAL, shape=(64,), strides_bytes=(), box=(32,), element_strides=(8,), fill=Fill.NAN),
        replace(LEGAL, shape=(9,) * 5, strides_bytes=(16,) * 4, box=(8, 1, 2, 3, 256), element_strides=(1, 2, 3, 4, 8)),
    ],
)
def test_128_bytes_hold_all_of_a_map(request_: TensorMapRequest) -> None:
    raw = encode(request_, 12).tobytes()
    assert len(raw) == 128
    assert decode(raw) == TensorMap(request_, 12)


def test_bytes_that_are_no_map_are_recognised() -> None:
    raw = encode(LEGAL, 1).tobytes()
    for wrong in (bytes(128), bytes(range(128)), raw[1:] + raw[:1]):
        with pytest.raises(NoTensorMap, match="no tensor map"):
            decode(wrong)
    for place in range(8, 128):
        with pytest.raises(NoTensorMap, match="changed"):
            decode(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])


def test_a_device_makes_maps_of_its_buffers_and_of_views_into_them() -> None:
    device = Device()
    buffer = device.upload(np.zeros((40, 256), np.uint8))
    made = device.tensor_map(
        buffer, dtype="uint8", shape=(256, 40), strides_bytes=(256,), box=(64, 8), swizzle=64, fill="zero"
    )
    assert decode(made.tobytes()).request.address == buffer.address
    view = Tensor(buffer, np.dtype(np.uint8), (39, 256), (256, 1), offset_bytes=256)
    shifted = device.tensor_map(view, shape=(256, 39), strides_bytes=(256,), box=(64, 8))
    assert decode(shifted.tobytes()).request.address == buffer.address + 256
    with pytest.raises(Refusal, match="another device"):
        Device().tensor_map(buffer, shape=(256, 40), strides_bytes=(256,), box=(64, 8))


@pytest.mark.parametrize("dtype", ["bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)])
def test_element_types_are_named_or_numpy_s(dtype: object) -> None:
    device = Device()
    buffer = device.upload(np.zeros(256, np.uint8))
    made = device.tensor_map(buffer, dtype=dtype, shape=(64,), box=(32,), fill="nan")
    assert decode(made.tobytes()).request.data_type is TensorType.BFLOAT16


@pytest.mark.parametrize(
    "wrong",
    [
        {"dtype": "float8_e4m3fn"},
        {"swizzle": 16},
        {"swizzle": True},
        {"fill": "ones"},
        {"interleave": 1},
        {"l2_promotion": 32},
        {"shape": (256,)},
        {"shape": (256, 40, 1, 1, 1, 1)},
        {"box": (64,)},
        {"strides_bytes": (256, 256)},
        {"element_strides": (1,)},
        {"shape": (256, -1)},
        {"box": (64, 1 << 32)},
        {"box": (64, 2.0)},
        {"box": None},
        {"shape": 256},
    ],
    ids=str,
)
def test_what_the_driver_has_no_word_for_is_refused(wrong: dict[str, Any]) -> None:
    device = Device()
    buffer = device.upload(np.zeros((40, 256), np.uint8))
    right: dict[str, Any] = {"shape": (256, 40), "strides_bytes": (256,), "box": (64, 8)}
    device.tensor_map(buffer, **right)
    with pytest.raises(Refusal):
        device.tensor_map(buffer, **{**right, **wrong})


def test_a_map_needs_a_shape_a_box_and_a_buffer() -> None:
    device = Device()
    buffer: Any = device.upload(np.zeros((40, 256), np.uint8))
    right: dict[str, Any] = {"shape": (256, 40), "strides_bytes": (256,), "box": (64, 8)}
    for missing in ("shape", "box"):
        with pytest.raises(Refusal, match=f"{missing} = None"):
            device.tensor_map(buffer, **{name: value for name, value in right.items() if name != missing})
    with pytest.raises(Refusal, match="host memory"):
        device.tensor_map(buffer.download(), **right)
