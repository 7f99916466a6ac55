"""Argument checks, routes and addresses, on a device that only records what is launched."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileproof.kernels import fp8_quantize_rows
from tileproof.kernels.compile import CompiledModule
from tileproof.kernels.device import (
    Argument,
    Array,
    Buffer,
    Device,
    DeviceError,
    DeviceFinding,
    Extent3,
    KnowsItsBuffers,
)
from tileproof.kernels.fp8_quantize_rows import QuantizeRows, select_route
from tileproof.kernels.launcher import MAX_GRID, Dimension, Kernel, Layout, Role, TensorRule, check_tensors, is_aligned
from tileproof.kernels.tensor import Tensor, contiguous_strides
from tileproof.oracle.refusal import Refusal

BF16 = np.dtype(ml_dtypes.bfloat16)
F16 = np.dtype(np.float16)
F32 = np.dtype(np.float32)
U8 = np.dtype(np.uint8)


@dataclass(frozen=True)
class FakeReport:
    findings: tuple[DeviceFinding, ...] = ()
    notes: tuple[object, ...] = ()


@dataclass(frozen=True, eq=False)
class FakeBuffer:
    """An address range without memory behind it, so it may be larger than any machine's."""

    device: "FakeDevice"
    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def download(self) -> Array:
        raise NotImplementedError


@dataclass
class FakeFunction:
    name: str
    launched: list[tuple[str, Extent3, Extent3, tuple[Argument, ...]]]

    def launch(
        self,
        *,
        grid: Extent3,
        block: Extent3,
        args: Sequence[Argument],
        shared_bytes: int = 0,
        cluster: Extent3 = (1, 1, 1),
    ) -> FakeReport:
        self.launched.append((self.name, grid, block, tuple(args)))
        return FakeReport()


@dataclass
class FakeDevice:
    name: str = "fake"
    arch: str = "sm_90a"
    launched: list[tuple[str, Extent3, Extent3, tuple[Argument, ...]]] = field(default_factory=list)
    next_address: int = 0x10000

    def upload(self, array: Array) -> FakeBuffer:
        return self.allocate(array.shape, array.dtype)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> FakeBuffer:
        buffer = FakeBuffer(self, self.next_address, shape, dtype)
        self.next_address += -(-buffer.nbytes // 256) * 256 + 256
        return buffer

    def free(self, buffer: Any) -> None:
        raise NotImplementedError

    def owns(self, buffer: Any) -> bool:
        return isinstance(buffer, FakeBuffer) and buffer.device is self

    def load(self, module: CompiledModule) -> Mapping[str, FakeFunction]:
        return {name: FakeFunction(name, self.launched) for name in module.entries}


_DEVICE_PROTOCOL: type[Device] = FakeDevice  # the fakes are held to the protocols by the type checker
_BUFFER_PROTOCOL: type[Buffer] = FakeBuffer
_OWNER_PROTOCOL: type[KnowsItsBuffers] = FakeDevice


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


def new(device: FakeDevice, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
    return Tensor.whole(device.allocate(shape, dtype))


def arguments(device: FakeDevice, tokens: int = 3, columns: int = 64, dtype: np.dtype[Any] = BF16) -> dict[str, Tensor]:
    return {
        "x": new(device, (tokens, columns), dtype),
        "codes": new(device, (tokens, columns), U8),
        "scales": new(device, (tokens,), F32),
    }


def refused(device: FakeDevice, tensors: Mapping[str, Tensor]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        QuantizeRows(device)(**tensors)
    assert device.launched == []
    return caught.value


def values(device: FakeDevice) -> list[int]:
    """The arguments of the only launch."""
    ((_, _, _, args),) = device.launched
    return [int(argument) for argument in args if isinstance(argument, np.integer)]


@pytest.mark.parametrize(("dtype", "element"), [(BF16, "bf16"), (F16, "f16"), (F32, "f32")])
def test_a_legal_call_launches_one_block_a_row_with_the_declared_arguments(
    device: FakeDevice, dtype: np.dtype[Any], element: str
) -> None:
    tensors = arguments(device, 5, 129, dtype)
    launch = QuantizeRows(device)(**tensors)
    entry = f"fp8_quantize_rows_{element}_scalar"
    assert (launch.kernel, launch.entry, launch.route) == ("fp8_quantize_rows", entry, "scalar")
    assert launch.report == FakeReport()
    ((name, grid, block, args),) = device.launched
    assert (name, grid, block) == (entry, (5, 1, 1), (256, 1, 1))
    assert [type(argument) for argument in args] == [np.uint64, np.int64, np.uint64, np.int64, np.uint64, np.int64]
    x, codes, scales = (tensors[name].address for name in ("x", "codes", "scales"))
    assert values(device) == [x, 129, codes, 129, scales, 129]


def test_no_rows_means_nothing_to_launch(device: FakeDevice) -> None:
    launch = QuantizeRows(device)(**arguments(device, tokens=0))
    assert (launch.route, launch.report, launch.grid) == ("empty", None, (0, 1, 1))
    assert device.launched == []


def test_extents_of_a_narrow_integer_type_do_not_wrap(device: FakeDevice) -> None:
    """2^16 rows of 2^16 elements are 0 elements modulo 2^32, which would be a legal, empty tensor."""
    side: Any = np.int32(2**16)
    tensors = arguments(device)
    huge = {name: Tensor(one.buffer, one.dtype, (side, side), (side, 1)) for name, one in tensors.items()}
    assert "covers bytes 0 to 8589934592" in str(refused(device, tensors | {"x": huge["x"]}))


@pytest.mark.parametrize(
    "numbers", [{"shape": (3, 64.0)}, {"strides": (64, True)}, {"shape": (np.array([3]), 64)}, {"offset_bytes": 0.5}]
)
def test_a_view_of_numbers_that_are_not_whole_is_refused(device: FakeDevice, numbers: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="is no whole number"):
        replace(new(device, (3, 64), F32), **numbers)


def test_no_rows_are_still_checked(device: FakeDevice) -> None:
    tensors = arguments(device, tokens=0)
    assert "x has element type int8" in str(refused(device, tensors | {"x": new(device, (0, 64), np.dtype(np.int8))}))


@pytest.mark.parametrize(
    ("name", "dtype", "message"),
    [
        ("x", np.dtype(np.float64), "x has element type float64; it must be bfloat16 or float16 or float32"),
        ("x", np.dtype(np.float32).newbyteorder(), "x has element type float32 of the other byte order; it must be"),
        ("codes", np.dtype(np.int8), "codes has element type int8; it must be uint8"),
        ("scales", BF16, "scales has element type bfloat16; it must be float32"),
    ],
)
def test_a_wrong_element_type_is_refused_by_name(
    device: FakeDevice, name: str, dtype: np.dtype[Any], message: str
) -> None:
    tensors = arguments(device)
    assert message in str(refused(device, tensors | {name: new(device, tensors[name].shape, dtype)}))


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("x", (2, 3, 64), "x has 3 dimensions (2, 3, 64); it must have 2: [T, K]"),
        ("codes", (192,), "codes has 1 dimensions (192,); it must have 2: [T, K]"),
        ("scales", (3, 1), "scales has 2 dimensions (3, 1); it must have 1: [T]"),
        ("x", (3, 0), "x has K = 0; the least is 1"),
        ("codes", (3, 63), "codes has K = 63, but x has K = 64"),
        ("codes", (4, 64), "codes has T = 4, but x has T = 3"),
        ("scales", (2,), "scales has T = 2, but x has T = 3"),
    ],
)
def test_a_wrong_shape_is_refused_by_name_value_and_limit(
    device: FakeDevice, name: str, shape: tuple[int, ...], message: str
) -> None:
    tensors = arguments(device)
    assert message in str(refused(device, tensors | {name: new(device, shape, tensors[name].dtype)}))


def test_more_rows_than_a_grid_has_blocks_are_refused(device: FakeDevice) -> None:
    message = str(refused(device, arguments(device, tokens=MAX_GRID[0] + 1, columns=1)))
    assert "x has T = 2147483648; the most is 2147483647" in message
    assert "hint: split T over several calls" in message


def test_as_many_rows_as_a_grid_has_blocks_are_launched(device: FakeDevice) -> None:
    QuantizeRows(device)(**arguments(device, tokens=MAX_GRID[0], columns=1))
    assert device.launched[0][1] == (MAX_GRID[0], 1, 1)


@pytest.mark.parametrize("name", ["x", "codes"])
@pytest.mark.parametrize(
    ("strides", "message"),
    [
        ((-64, 1), "has stride -64 in dimension 0; the least is 0"),
        ((64, -1), "has stride -1 in dimension 1; the least is 0"),
        ((63, 1), "has stride 63 in dimension 0; the least is 64: rows would overlap"),
        ((0, 1), "has stride 0 in dimension 0; the least is 64: rows would overlap"),
        ((64, 2), "has stride 2 in dimension 1; it must be 1"),
        ((1, 3), "has stride 3 in dimension 1; it must be 1"),
        ((64,), "has 1 strides (64,) for 2 dimensions"),
    ],
)
def test_strides_that_are_not_rows_are_refused(
    device: FakeDevice, name: str, strides: tuple[int, ...], message: str
) -> None:
    tensors = arguments(device)
    assert f"{name} {message}" in str(refused(device, tensors | {name: replace(tensors[name], strides=strides)}))


def test_scales_with_gaps_are_refused(device: FakeDevice) -> None:
    tensors = arguments(device)
    scales = replace(new(device, (6,), F32), shape=(3,), strides=(2,))
    message = str(refused(device, tensors | {"scales": scales}))
    assert "scales has stride 2 in dimension 0; it must be 1, because scales must be contiguous" in message


def test_padded_rows_are_accepted_and_their_stride_is_passed(device: FakeDevice) -> None:
    tensors = arguments(device)
    x = replace(new(device, (3, 67), BF16), shape=(3, 64))
    codes = replace(new(device, (3, 69), U8), shape=(3, 64))
    QuantizeRows(device)(**tensors | {"x": x, "codes": codes})
    assert [values(device)[position] for position in (1, 3, 5)] == [67, 69, 64]


def test_the_strides_of_a_single_row_and_of_a_single_column_may_be_anything(device: FakeDevice) -> None:
    one_row = arguments(device, tokens=1)
    QuantizeRows(device)(**one_row | {"x": replace(one_row["x"], strides=(5, 1))})
    one_column = arguments(device, columns=1)
    QuantizeRows(device)(**one_column | {"x": replace(one_column["x"], strides=(1, 9))})
    assert len(device.launched) == 2


@pytest.mark.parametrize(
    ("dtype", "offset", "message"),
    [
        (F32, 2, "x begins at byte 2 past a multiple of 4; float32 must be aligned to 4 bytes"),
        (BF16, 1, "x begins at byte 1 past a multiple of 2; bfloat16 must be aligned to 2 bytes"),
        (F16, 3, "x begins at byte 1 past a multiple of 2; float16 must be aligned to 2 bytes"),
    ],
)
def test_a_base_that_is_misaligned_for_the_type_is_refused(
    device: FakeDevice, dtype: np.dtype[Any], offset: int, message: str
) -> None:
    room = device.allocate((4096,), U8)
    x = Tensor(room, dtype, (3, 64), (64, 1), offset)
    assert message in str(refused(device, arguments(device) | {"x": x}))


def test_misaligned_scales_are_refused(device: FakeDevice) -> None:
    scales = Tensor(device.allocate((64,), U8), F32, (3,), (1,), 6)
    assert "scales begins at byte 2 past a multiple of 4" in str(
        refused(device, arguments(device) | {"scales": scales})
    )


@pytest.mark.parametrize(
    ("name", "offset", "message"),
    [
        ("x", 2, "x covers bytes 2 to 386 of a buffer of 384 bytes"),
        ("x", -2, "x covers bytes -2 to 382 of a buffer of 384 bytes"),
        ("codes", 1, "codes covers bytes 1 to 193 of a buffer of 192 bytes"),
        ("scales", 4, "scales covers bytes 4 to 16 of a buffer of 12 bytes"),
    ],
)
def test_a_view_that_leaves_its_buffer_is_refused(device: FakeDevice, name: str, offset: int, message: str) -> None:
    tensors = arguments(device)
    assert message in str(refused(device, tensors | {name: replace(tensors[name], offset_bytes=offset)}))


def test_a_view_may_end_with_its_buffer_although_its_last_row_has_no_padding(device: FakeDevice) -> None:
    room = device.allocate((2 * 100 + 64,), BF16)
    QuantizeRows(device)(**arguments(device) | {"x": Tensor(room, BF16, (3, 64), (100, 1))})
    assert len(device.launched) == 1


@pytest.mark.parametrize("name", ["x", "codes", "scales"])
def test_a_tensor_of_another_device_is_refused_by_name(device: FakeDevice, name: str) -> None:
    tensors = arguments(device)
    stranger = new(FakeDevice(), tensors[name].shape, tensors[name].dtype)
    assert f"{name} lies on another device than fake" in str(refused(device, tensors | {name: stranger}))


@pytest.mark.parametrize(
    ("x_at", "codes_at", "scales_at", "message"),
    [
        (0, 382, 1024, "codes (output) overlaps x (input) in 2 bytes"),
        (192, 1, 1024, "codes (output) overlaps x (input) in 1 bytes"),
        (0, 512, 380, "scales (output) overlaps x (input) in 4 bytes"),
        (0, 512, 512 + 188, "scales (output) overlaps codes (output) in 4 bytes"),
        (0, 0, 1024, "codes (output) overlaps x (input) in 192 bytes"),
    ],
)
def test_an_output_that_overlaps_is_refused(
    device: FakeDevice, x_at: int, codes_at: int, scales_at: int, message: str
) -> None:
    room = device.allocate((4096,), U8)
    tensors = {
        "x": Tensor(room, BF16, (3, 64), (64, 1), x_at),
        "codes": Tensor(room, U8, (3, 64), (64, 1), codes_at),
        "scales": Tensor(room, F32, (3,), (1,), scales_at),
    }
    assert message in str(refused(device, tensors))


def test_tensors_that_touch_in_one_buffer_are_accepted(device: FakeDevice) -> None:
    room = device.allocate((384 + 192 + 12,), U8)
    QuantizeRows(device)(
        Tensor(room, BF16, (3, 64), (64, 1), 0),
        Tensor(room, U8, (3, 64), (64, 1), 384),
        Tensor(room, F32, (3,), (1,), 384 + 192),
    )
    assert len(device.launched) == 1


@pytest.mark.parametrize("dtype", [BF16, F16, F32])
def test_the_vector_route_is_taken_exactly_where_rows_of_x_and_codes_are_aligned(
    device: FakeDevice, dtype: np.dtype[Any]
) -> None:
    width = dtype.itemsize
    quantize = QuantizeRows(device)
    x_room = device.allocate((1 << 12,), U8)
    codes_room = device.allocate((1 << 12,), U8)
    scales = new(device, (2,), F32)
    for x_offset in range(16 // width):
        for x_pad in range(16 // width):
            for codes_offset in range(8):
                for codes_pad in range(8):
                    x = Tensor(x_room, dtype, (2, 64), (64 + x_pad, 1), x_offset * width)
                    codes = Tensor(codes_room, U8, (2, 64), (64 + codes_pad, 1), codes_offset)
                    aligned = x_offset == x_pad == codes_offset == codes_pad == 0
                    route = "vector" if aligned else "scalar"
                    assert select_route(x, codes) == route
    launch = quantize(x, codes, scales)
    assert (launch.route, launch.entry[-6:]) == ("scalar", "scalar")


@pytest.mark.parametrize(("dtype", "period"), [(BF16, 8), (F16, 8), (F32, 4)])
def test_contiguous_rows_take_the_vector_route_where_their_length_keeps_both_aligned(
    device: FakeDevice, dtype: np.dtype[Any], period: int
) -> None:
    for columns in range(1, 65):
        tensors = arguments(device, columns=columns, dtype=dtype)
        aligned = columns % period == 0 and columns % 8 == 0
        assert QuantizeRows(device)(**tensors).route == ("vector" if aligned else "scalar"), columns


def test_a_ragged_row_with_an_aligned_stride_takes_the_vector_route(device: FakeDevice) -> None:
    x = replace(new(device, (3, 136), BF16), shape=(3, 129))
    codes = replace(new(device, (3, 136), U8), shape=(3, 129))
    assert QuantizeRows(device)(x, codes, new(device, (3,), F32)).route == "vector"


def test_addresses_past_two_to_the_31_elements_are_exact(device: FakeDevice) -> None:
    rows, columns, stride = 70_000, 65_536, 65_544
    room = device.allocate((rows * stride + 8,), BF16)
    x = Tensor(room, BF16, (rows, columns), (stride, 1), 16)
    assert x.size == 4_587_520_000
    assert x.span_bytes == 2 * ((rows - 1) * stride + columns) == 9_176_159_984
    codes = new(device, (rows, columns), U8)
    QuantizeRows(device)(x, codes, new(device, (rows,), F32))
    assert values(device)[:2] == [room.address + 16, stride]
    short = replace(room, shape=((rows - 1) * stride + columns + 7,))
    with pytest.raises(Refusal, match="x covers bytes 16 to"):
        QuantizeRows(device)(replace(x, buffer=short), codes, new(device, (rows,), F32))


def test_an_overlap_past_two_to_the_31_bytes_is_found(device: FakeDevice) -> None:
    room = device.allocate((1 << 34,), U8)
    x = Tensor(room, F32, (1 << 16, 1 << 14), (1 << 14, 1))
    codes = Tensor(room, U8, (1 << 16, 1 << 14), (1 << 14, 1), (1 << 32) - 1)
    tensors = {"x": x, "codes": codes, "scales": new(device, (1 << 16,), F32)}
    assert "codes (output) overlaps x (input) in 1 bytes" in str(refused(device, tensors))


def test_a_view_past_the_last_address_of_an_int32_is_aligned_by_its_address(device: FakeDevice) -> None:
    room = device.allocate((1 << 34,), U8)
    assert is_aligned(Tensor(room, BF16, (2, 8), (8, 1), (1 << 33) + 16), 16)
    assert not is_aligned(Tensor(room, BF16, (2, 8), (8, 1), (1 << 33) + 8), 16)


@pytest.mark.parametrize(
    ("strides", "message"),
    [
        ((24, 4, 1), ""),
        ((30, 10, 1), ""),
        ((11, 4, 1), "x has stride 11 in dimension 0; the least is 12"),
        ((30, 3, 1), "x has stride 3 in dimension 1; the least is 4"),
        ((22, 10, 1), "x has stride 22 in dimension 0; the least is 24"),
    ],
)
def test_rows_of_a_batch_must_not_reach_into_the_next_batch(
    device: FakeDevice, strides: tuple[int, ...], message: str
) -> None:
    dimensions = tuple(Dimension(name) for name in ("B", "T", "K"))
    rule = TensorRule("x", (F32,), dimensions, Layout.ROWS, Role.INPUT)
    x = replace(new(device, (100,), F32), shape=(2, 3, 4), strides=strides)
    if message:
        with pytest.raises(Refusal, match=re.escape(message)):
            check_tensors(device, (rule,), (x,))
    else:
        assert check_tensors(device, (rule,), (x,)) == {"B": 2, "T": 3, "K": 4}


def test_two_inputs_may_share_memory(device: FakeDevice) -> None:
    columns = (Dimension("K"),)
    a = TensorRule("a", (F32,), columns, Layout.CONTIGUOUS, Role.INPUT)
    shared = new(device, (4,), F32)
    assert check_tensors(device, (a, replace(a, name="b")), (shared, shared)) == {"K": 4}
    with pytest.raises(Refusal, match=re.escape("c (input and output) overlaps a (input) in 16 bytes")):
        check_tensors(device, (a, replace(a, name="c", role=Role.IN_PLACE)), (shared, shared))


@pytest.mark.parametrize(
    ("shape", "strides"), [((), ()), ((5,), (1,)), ((3, 4), (4, 1)), ((2, 3, 4), (12, 4, 1)), ((3, 0), (0, 1))]
)
def test_contiguous_strides_are_row_major(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    assert contiguous_strides(shape) == strides


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        ((1, 65536, 1), (32, 1, 1), "grid.y is 65536; the most is 65535"),
        ((1, 1, 65536), (32, 1, 1), "grid.z is 65536; the most is 65535"),
        ((1 << 31, 1, 1), (32, 1, 1), "grid.x is 2147483648; the most is 2147483647"),
        ((1, 1, 1), (32, 32, 2), "a block of 2048 threads; a block has 1 to 1024"),
        ((1, 1, 1), (0, 1, 1), "a block of 0 threads; a block has 1 to 1024"),
    ],
)
def test_a_launch_outside_the_hardware_limits_is_refused(
    device: FakeDevice, grid: Extent3, block: Extent3, message: str
) -> None:
    kernel = Kernel(device, name=fp8_quantize_rows.NAME, source=fp8_quantize_rows.SOURCE)
    with pytest.raises(Refusal, match=re.escape(message)):
        kernel.launch(entry="fp8_quantize_rows_f32_scalar", route="scalar", grid=grid, block=block, args=())
    assert device.launched == []


def test_an_edited_source_is_what_gets_compiled(device: FakeDevice) -> None:
    edited = fp8_quantize_rows.SOURCE.replace("FP8_QUANTIZE_ROWS(f32_scalar, F32, false)\n", "")
    quantize = QuantizeRows(device, source=edited)
    with pytest.raises(KeyError, match="fp8_quantize_rows_f32_scalar"):
        quantize(**arguments(device, columns=1, dtype=F32))


def test_a_device_error_keeps_cudas_name_of_the_error() -> None:
    error = DeviceError("CUDA_ERROR_MISALIGNED_ADDRESS", "launch of f failed: misaligned address")
    assert error.error == "CUDA_ERROR_MISALIGNED_ADDRESS"
    assert str(error) == "CUDA_ERROR_MISALIGNED_ADDRESS: launch of f failed: misaligned address"
    assert not isinstance(error, Refusal)
