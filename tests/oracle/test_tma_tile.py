"""TMA boxes: every recorded copy of both H200 recordings, both forms, refusals, wrong twins."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileproof.oracle.addresses.tma_tile import Fill, TmaBox, copy_box, copy_box_by_element
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import Swizzle

GOLDEN = Path(__file__).parents[1] / "golden"
BASE, MEMORY, POISON = 0x800, 8192, 0xEE
ELEMENT_BYTES = {"uint8": 1, "uint16": 2, "uint32": 4, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


@dataclass(frozen=True)
class Recorded:
    """One copy of a recording."""

    name: str
    tensor: npt.NDArray[Any]
    box: TmaBox
    corner: tuple[int, ...]
    offset: int
    memory: npt.NDArray[np.uint8]


def two_dimensional() -> Iterator[Recorded]:
    """The 92 copies of h200_tma_2d_u16."""
    tensor = (np.arange(40)[:, np.newaxis] * 256 + np.arange(256)).astype(np.uint16)
    with np.load(GOLDEN / "h200_tma_2d_u16.npz") as recording:
        for name in sorted(recording.files):
            found = re.fullmatch(r"sw(\d+)_off(\d+)_c(-?\d+)_(-?\d+)", name)
            assert found is not None
            span, offset, c0, c1 = map(int, found.groups())
            box = TmaBox(extents=((span or 64) // 2, 24), element_bytes=2, span_bytes=span)
            yield Recorded(name, tensor, box, (c0, c1), offset, recording[name])


def listing() -> dict[str, Any]:
    """The listing of h200_tma_boxes."""
    with np.load(GOLDEN / "h200_tma_boxes.npz") as recording:
        text: dict[str, Any] = json.loads(recording["listing"].tobytes())
    return text


def box_of(entry: dict[str, Any]) -> TmaBox:
    """The box of a recorded case."""
    size = ELEMENT_BYTES[entry["dtype"]]
    return TmaBox(
        extents=tuple(entry["box"]), element_bytes=size, span_bytes=entry["swizzle"], fill=Fill(entry["fill"])
    )


def numbered(entry: dict[str, Any]) -> npt.NDArray[Any]:
    """The tensor of a recorded case: element e holds e + 1 in as many bytes as it has."""
    size = ELEMENT_BYTES[entry["dtype"]]
    count = int(np.prod(entry["shape"]))
    low = np.arange(1, count + 1, dtype=np.uint64).view(np.uint8).reshape(count, 8)[:, :size]
    return np.ascontiguousarray(low).view(f"u{size}").reshape(tuple(reversed(entry["shape"])))


def boxes() -> Iterator[Recorded]:
    """The copies of h200_tma_boxes that the GPU made."""
    with np.load(GOLDEN / "h200_tma_boxes.npz") as recording:
        for number, entry in enumerate(listing()["cases"]):
            if not entry["error"]:
                name = f"{number}-{entry['dtype']}-{entry['box']}-sw{entry['swizzle']}-off{entry['offset']}"
                memory = recording[f"case{number}"]
                yield Recorded(name, numbered(entry), box_of(entry), tuple(entry["corner"]), entry["offset"], memory)


RECORDED = [*two_dimensional(), *boxes()]


def predict(copy: Recorded, form: Callable[..., npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint8]:
    before = np.full(MEMORY, POISON, np.uint8)
    return form(before, base=BASE, destination=BASE + copy.offset, tensor=copy.tensor, box=copy.box, corner=copy.corner)


def test_the_recordings_hold_what_their_page_says() -> None:
    assert len(RECORDED) == 92 + 38
    assert all(entry.get("complete") == 1 for entry in listing()["cases"] if not entry["error"])


@pytest.mark.parametrize("copy", RECORDED, ids=lambda copy: copy.name)
def test_every_recorded_copy_is_reproduced(copy: Recorded) -> None:
    assert np.array_equal(predict(copy, copy_box), copy.memory)


@pytest.mark.parametrize("copy", RECORDED[::4] + RECORDED[92:], ids=lambda copy: copy.name)
def test_the_definition_byte_by_byte_reproduces_them_too(copy: Recorded) -> None:
    assert np.array_equal(predict(copy, copy_box_by_element), copy.memory)


@pytest.mark.parametrize(
    "entry", [e for e in listing()["cases"] if e["error"]], ids=lambda e: f"{e['dtype']}-{e['corner']}-{e['offset']}"
)
def test_what_the_gpu_faulted_on_is_refused(entry: dict[str, Any]) -> None:
    tensor, box, corner = numbered(entry), box_of(entry), tuple(entry["corner"])
    expected = "misaligned" if "Misaligned" in entry["error"] else "illegal"
    with pytest.raises(Refusal) as refusal:
        copy_box(np.zeros(MEMORY, np.uint8), base=0, destination=entry["offset"], tensor=tensor, box=box, corner=corner)
    assert ("destination" in refusal.value.message) == (expected == "misaligned")
    assert ("coordinate" in refusal.value.message) == (expected == "illegal")


def test_the_encoder_refuses_the_boxes_that_we_refuse() -> None:
    ours = {
        "legal": ((32, 8), 64),
        "row beyond span": ((40, 8), 64),
        "row of 24 bytes": ((12, 8), 0),
        "box of 256": ((32, 256), 64),
        "box of 257": ((32, 257), 64),
        "box of 0": ((32, 0), 64),
    }
    for name, (extents, span) in ours.items():
        if listing()["encoder"][name] == 0:
            TmaBox(extents=extents, element_bytes=2, span_bytes=span)
        else:
            with pytest.raises(Refusal):
                TmaBox(extents=extents, element_bytes=2, span_bytes=span)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_both_forms_agree_on_random_boxes(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    span = data.draw(st.sampled_from([0, 32, 64, 128]))
    size = data.draw(st.sampled_from([1, 2, 4, 8]))
    row = 16 * data.draw(st.integers(1, (span or 128) // 16))
    extents = (row // size, *(data.draw(st.integers(1, 4)) for _ in range(rank - 1)))
    shape = [data.draw(st.integers(1, 40)), *(data.draw(st.integers(1, 6)) for _ in range(rank - 1))]
    corner = (
        data.draw(st.integers(-3, 3)) * (16 // size),
        *(data.draw(st.integers(-3, 6)) for _ in range(rank - 1)),
    )
    fill = data.draw(st.sampled_from(Fill)) if size > 1 else Fill.ZERO
    tensor = np.arange(1, np.prod(shape) + 1).astype(f"u{size}").reshape(shape[::-1])
    copy = Recorded(
        "random",
        tensor,
        TmaBox(extents=extents, element_bytes=size, span_bytes=span, fill=fill),
        corner,
        128 * data.draw(st.integers(0, 8)),
        np.empty(0, np.uint8),
    )
    assert np.array_equal(predict(copy, copy_box), predict(copy, copy_box_by_element))


def test_sizes_of_a_box() -> None:
    box = TmaBox(extents=(24, 12), element_bytes=2, span_bytes=64)
    assert (box.row_bytes, box.pitch_bytes, box.transfer_bytes, box.footprint_bytes) == (48, 64, 576, 768)


#: What a wrong model would predict; each must fail on some recorded copy.
TWINS: dict[str, Callable[[Recorded], npt.NDArray[np.uint8]]] = {
    "swizzle relative to the destination": lambda copy: relative(copy),
    "no swizzle": lambda copy: predict(unswizzled(copy), copy_box),
    "rows dense under a wide span": lambda copy: dense(copy),
    "outside not written": lambda copy: np.where(predict(copy, copy_box) == 0, POISON, predict(copy, copy_box)),
    "corner in (row, column) order": lambda copy: predict(swapped(copy), copy_box),
    "NaN fill of all ones": lambda copy: ones(copy),
}


def unswizzled(copy: Recorded) -> Recorded:
    return replace(copy, box=replace(copy.box, span_bytes=0))


def relative(copy: Recorded) -> npt.NDArray[np.uint8]:
    return np.roll(predict(replace(copy, offset=0), copy_box), copy.offset)


def dense(copy: Recorded) -> npt.NDArray[np.uint8]:
    linear = predict(unswizzled(copy), copy_box)
    result = np.full_like(linear, POISON)
    result[Swizzle.tma(copy.box.span_bytes).apply(np.arange(MEMORY))] = linear
    return result


def swapped(copy: Recorded) -> Recorded:
    return replace(copy, corner=tuple(-(-c // 8) * 8 for c in reversed(copy.corner)))


def ones(copy: Recorded) -> npt.NDArray[np.uint8]:
    predicted = predict(copy, copy_box)
    return np.where(np.isin(predicted, (0xF7, 0x7F)), 0xFF, predicted).astype(np.uint8)


@pytest.mark.parametrize("why", TWINS)
def test_wrong_models_fail_on_a_recorded_copy(why: str) -> None:
    chosen = [copy for copy in RECORDED if len(copy.box.extents) == 2]
    assert any(not np.array_equal(TWINS[why](copy), copy.memory) for copy in chosen)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: TmaBox(extents=(), element_bytes=2), "rank 0"),
        (lambda: TmaBox(extents=(8,) * 6, element_bytes=2), "rank 6"),
        (lambda: TmaBox(extents=(64, 4), element_bytes=1, fill=Fill.NAN), "one-byte"),
        (lambda: copy_small(destination=64), "64 is no multiple of 128"),
        (lambda: copy_small(corner=(4, 0)), "coordinate 4 is byte 8"),
        (lambda: copy_small(corner=(0,)), "rank"),
        (lambda: copy_small(tensor=np.zeros((4, 64), np.uint8)), "1 bytes under a box of 2"),
        (lambda: copy_small(base=128), "reaches bytes -128"),
        (lambda: copy_small(memory=np.zeros(100, np.uint8)), "of a memory of 100"),
    ],
)
@pytest.mark.parametrize("form", [copy_box, copy_box_by_element])
def test_illegal_copies_are_refused(form: Callable[..., object], refused: Callable[[], Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        form(**refused())


def copy_small(**changes: Any) -> dict[str, Any]:
    legal = {
        "memory": np.zeros(1024, np.uint8),
        "base": 0,
        "destination": 0,
        "tensor": np.zeros((4, 64), np.uint16),
        "box": TmaBox(extents=(32, 4), element_bytes=2),
        "corner": (0, 0),
    }
    return legal | changes
