"""Maps that a kernel builds with `tensormap.replace` copy like the driver's; what is wrong with one is told."""

import re
import struct
from typing import Any

import numpy as np
import pytest
from tensor_kernels import EXPECT, INIT, LOAD, OUT, WAIT, Outcome, on_schedules, run

from tileproof.oracle.addresses.tensor_map import TensorMapRequest, TensorType
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.tensor_map import NBYTES, NoTensorMap, decode, encode
from tileproof.simulators.ptx.tensor_map_edit import ELEMENT_TYPES, MapField, edit

# The map is built where the tile does not reach, by thread 0 of the block's first warp.
PLACE = "mov.u32 %r10, tile; add.u32 %r10, %r10, 2048;"
BLANK = "setp.lt.u32 %p2, %r0, 32; shl.b32 %r3, %r0, 2; add.u32 %r3, %r3, %r10; @%p2 st.shared.b32 [%r3], 0;"
FIELDS = {
    "global_address": "%d1",
    "rank": "1",
    "box_dim": "0, 64|1, 8",
    "global_dim": "0, 64|1, 8",
    "global_stride": "0, 64",
    "element_stride": "0, 1|1, 1",
    "elemtype": "0",
    "interleave_layout": "0",
    "swizzle_mode": "0",
    "fill_mode": "0",
}
COPY = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
PUT = f"add.s64 %d0, %d2, 512; @%p2 {COPY} [%d0], [%r10], 128;"
FENCE = "@%p2 fence.proxy.tensormap::generic.acquire.gpu [%d0], 128;"
SYNC, WARP_SYNC = "bar.sync 0;", "bar.warp.sync -1;"


def replaced(**fields: str) -> str:
    """Thread 0 sets fields, those above with what is given in place."""
    lines = []
    for name, values in (FIELDS | fields).items():
        size = "b64" if name in ("global_address", "global_stride") else "b32"
        for value in values.split("|") if values else ():
            wide = value.startswith("%") or size == "b32"
            operand = value if wide else f"{value.split(',')[0]}, %d6"
            first = "" if wide else f"mov.b64 %d6, {value.split(',')[1]};"
            lines.append(f"{first} @%p0 tensormap.replace.tile.{name}.shared::cta.b1024.{size} [%r10], {operand};")
    return "\n".join(lines)


def built(middle: str = "", *, put: str = PUT, fence: str = FENCE, blank: str = BLANK, **fields: str) -> str:
    return f"{PLACE}{blank}{WARP_SYNC}{replaced(**fields)}{middle}{WARP_SYNC}{put}{fence}{SYNC}{INIT}{EXPECT}{LOAD}"


def launch(body: str, **options: Any) -> Outcome:
    """The output has room behind it for the map."""
    device = Device(**options)
    tensor = device.upload(np.arange(512, dtype=np.uint64).astype(np.uint8))
    out = device.upload(np.full(1024, 0xEE, np.uint8))
    return run(body, device=device, tensor=tensor, out=out)


@on_schedules
def test_a_map_that_the_kernel_builds_copies_like_the_drivers(schedule: str, seed: int) -> None:
    outcome = launch(built() + WAIT + OUT, schedule=schedule, seed=seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:512], np.arange(512) % 256)


def test_both_engines_agree() -> None:
    fast, reference = (launch(built() + WAIT + OUT, engine=engine) for engine in ("fast", "reference"))
    assert fast.findings == reference.findings == []
    np.testing.assert_array_equal(fast.out[:512], reference.out[:512])


def test_a_map_may_be_edited_where_it_lies_in_global_memory() -> None:
    """The driver's map, of another tensor, is copied to global memory and given this one's address there."""
    copied = "".join(f"ld.param.b64 %d5, [map+{n}]; st.global.b64 [%d2+{512 + n}], %d5;" for n in range(0, 128, 8))
    edited = "add.s64 %d5, %d1, 64; tensormap.replace.tile.global_address.global.b1024.b64 [%d0], %d5;"
    body = f"add.s64 %d0, %d2, 512; @!%p0 bra E; {copied}{edited} E: {SYNC}"
    body += "fence.proxy.tensormap::generic.acquire.gpu [%d0], 128;" + INIT + EXPECT + LOAD + WAIT + OUT
    device = Device()
    tensor = device.upload(np.arange(1024, dtype=np.uint64).astype(np.uint8))
    outcome = run(body, device=device, tensor=tensor, out=device.upload(np.full(1024, 0xEE, np.uint8)))
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:512], np.arange(64, 576) % 256)


def test_the_fence_takes_the_offset_of_its_address() -> None:
    fence = "add.s64 %d5, %d0, -64; @%p2 fence.proxy.tensormap::generic.acquire.gpu [%d5+64], 128;"
    assert launch(built(fence=fence) + WAIT + OUT).findings == []
    elsewhere = "@%p2 fence.proxy.tensormap::generic.acquire.gpu [%d0+-64], 128;"
    assert launch(built(fence=elsewhere) + WAIT + OUT).findings[0].kind is FindingKind.RACE


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (built(box_dim="0, 64"), FindingKind.ASYNC, r"box\[1\] = 0 is outside 1 .. 256"),
        (built(element_stride=""), FindingKind.ASYNC, r"element_strides\[0\] = 0 is outside 1 .. 8"),
        (built(global_dim="0, 64|1, 0"), FindingKind.ASYNC, r"shape\[1\] = 0 is outside"),
        (built(global_stride="0, 72"), FindingKind.ASYNC, "no multiple of 16"),
        (built(box_dim="0, 512|1, 8"), FindingKind.ASYNC, r"box\[0\] = 512 is outside"),
        (built(rank="2"), FindingKind.ASYNC, "that the driver would refuse"),
        (built(rank="7"), FindingKind.ASYNC, "an edited tensor map of rank 8"),
        (built(swizzle_mode="1"), FindingKind.ASYNC, "exceeds its swizzle span"),
        (built(fence=""), FindingKind.RACE, "without fence.proxy.tensormap"),
        (built(put=PUT.replace("[%r10]", "[%r10+64]")), FindingKind.UNINITIALISED, "with bytes that nothing wrote"),
        (built(blank=""), FindingKind.UNINITIALISED, "edits a tensor map with bytes that nothing wrote"),
        (built("@%p0 st.shared.b32 [%r10+8], 7;"), FindingKind.ASYNC, "whose bytes were changed"),
        (
            built(blank=BLANK.replace(", 0;", ", 5;")),
            FindingKind.ASYNC,
            r"tensormap\.replace\S* edits bytes that are no tensor map",
        ),
        (
            built(put=PUT.replace("[%r10]", "[%r11]").replace("@", "add.u32 %r11, %r0, %r10; @", 1)),
            FindingKind.DIVERGENCE,
            "different addresses",
        ),
        (built(global_address="%d7"), FindingKind.UNINITIALISED, "to a value that nothing wrote"),
    ],
)
def test_what_is_wrong_with_a_map_is_told(body: str, kind: FindingKind, words: str) -> None:
    found = launch(body).findings
    assert [finding.kind for finding in found if finding.kind is kind]
    assert any(re.search(words, finding.message) for finding in found), [finding.message for finding in found]


def test_threads_of_another_warp_need_a_barrier_behind_the_edit() -> None:
    right = built(f"{SYNC} @%p0 bra S; S:")
    late = "setp.eq.u32 %p3, %r0, 40; @%p3 tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r10], 1;"
    assert launch(right + WAIT + OUT).findings == []
    assert launch(built(f"{SYNC}{late}{SYNC}") + WAIT + OUT).findings == []
    raced = launch(built(late) + WAIT + OUT).findings
    assert FindingKind.RACE in [finding.kind for finding in raced]


@pytest.mark.parametrize(
    "wrong",
    [
        "tensormap.replace.tile.swizzle_atomicity.shared::cta.b1024.b32 [%r10], 1;",
        "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r10], 4;",
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r10], 16;",
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r10], %r0;",
        "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r10], 4, %d1;",
        "tensormap.replace.tile.rank.shared::cta.b1024.b64 [%r10], %d1;",
        "tensormap.replace.tile.depth.shared::cta.b1024.b32 [%r10], 1;",
        f"{COPY.replace('release', 'acquire')} [%d0], [%r10], 128;",
        f"{COPY} [%d0], [%r10], 64;",
    ],
)
def test_forms_that_there_are_not_are_refused(wrong: str) -> None:
    with pytest.raises(NotModelled):
        launch(wrong)


def test_every_field_is_set_as_the_driver_sets_it() -> None:
    request = TensorMapRequest.of(
        0x1000,
        {"dtype": "bfloat16", "shape": (48, 7, 3), "strides_bytes": (96, 960), "box": (32, 4, 2), "swizzle": 64,
         "element_strides": (1, 2, 1), "fill": "nan"},
    )  # fmt: skip
    raw = bytes(NBYTES)
    for field, entry, value in [
        (MapField.ADDRESS, 0, 0x1000),
        (MapField.RANK, 0, 2),
        (MapField.TYPE, 0, 10),
        (MapField.SWIZZLE, 0, 2),
        (MapField.FILL, 0, 1),
        (MapField.INTERLEAVE, 0, 0),
        (MapField.ATOMICITY, 0, 0),
        *((MapField.SHAPE, n, extent) for n, extent in enumerate((48, 7, 3))),
        *((MapField.STRIDE, n, stride) for n, stride in enumerate((96, 960))),
        *((MapField.BOX, n, extent) for n, extent in enumerate((32, 4, 2))),
        *((MapField.STEP, n, step) for n, step in enumerate((1, 2, 1))),
    ]:
        raw = edit(raw, field, entry, value, 9)
    assert decode(raw) == decode(encode(request, 9).tobytes())


def test_element_types_have_the_numbers_of_ptx() -> None:
    """Triton 3.9 writes 10 for bf16, where the driver's number is 9."""
    assert ELEMENT_TYPES[10] is TensorType.BFLOAT16
    assert set(ELEMENT_TYPES) == set(TensorType)


def test_an_edited_map_of_another_architecture_is_held_to_its_rules() -> None:
    raw = encode(TensorMapRequest.of(0, {"shape": (64,), "box": (64,)}), 1).tobytes()
    packed = edit(edit(raw, MapField.TYPE, 0, 13, 1), MapField.RANK, 0, 0, 1)
    with pytest.raises(NoTensorMap, match="on sm_90"):
        decode(packed, 90)
    with pytest.raises(NotModelled):
        decode(packed, 100)


def test_bytes_that_are_no_map_cannot_be_edited() -> None:
    with pytest.raises(NoTensorMap):
        edit(struct.pack("<16Q", *range(16)), MapField.RANK, 0, 0, 1)


def test_an_unknown_word_of_a_tensor_map_is_refused() -> None:
    device = Device()
    words: Any = {"shape": (64,), "box": (64,), "data_type": "float32"}
    with pytest.raises(Refusal, match="has no 'data_type'"):
        device.tensor_map(device.upload(np.zeros(256, np.uint8)), **words)
