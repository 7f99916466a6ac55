"""Boxes of tensors: the array form against a walk over every element, and against the oracle of recorded copies."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tileproof.oracle.addresses.tensor_map import SwizzleMode, TensorMapRequest, TensorType
from tileproof.oracle.addresses.tma_tile import TmaBox, copy_box
from tileproof.simulators.ptx.machine.asynchronous.tensor_box import Box

MODES = {mode.span_bytes: mode for mode in list(SwizzleMode)[:4]}
WORDS = {1: TensorType.UINT8, 2: TensorType.UINT16, 4: TensorType.UINT32, 8: TensorType.UINT64}


@st.composite
def boxes(draw: st.DrawFn, strided: bool = True) -> Box:
    size, span = draw(st.sampled_from((1, 2, 4, 8))), draw(st.sampled_from((0, 32, 64, 128)))
    rank = draw(st.integers(1, 5))
    row = draw(st.integers(1, (span or 96) // 16)) * 16 // size
    steps = [draw(st.integers(1, 3 if strided else 1)) for _ in range(rank)]
    shape = [draw(st.integers(1, 2 * row)), *(draw(st.integers(1, 7)) for _ in range(rank - 1))]
    strides, extent = [], shape[0] * size
    for length in shape[1:]:
        strides.append(-(-extent // 16) * 16)
        extent = strides[-1] * length
    request = TensorMapRequest(
        data_type=WORDS[size],
        address=0,
        shape=tuple(shape),
        strides_bytes=tuple(strides),
        box=(row, *(draw(st.integers(1, 5)) for _ in range(rank - 1))),
        element_strides=tuple(steps),
        swizzle=MODES[span],
    )
    corner = [draw(st.integers(-(row * size // 16), shape[0] * size // 16)) * 16 // size]
    return Box(request, (*corner, *(draw(st.integers(-6, 8)) for _ in range(rank - 1))))


@given(boxes())
@settings(max_examples=150)
def test_a_box_is_what_a_walk_over_its_elements_finds(box: Box) -> None:
    tensor, size = box.tensor, box.tensor.data_type.nbytes
    outer = [range(0, extent, step) for extent, step in zip(tensor.box[1:], tensor.element_strides[1:], strict=True)]
    walked: dict[int, int] = {}
    for row, walk in enumerate(product(*reversed(outer))):
        position = [start + step for start, step in zip(box.corner[1:], reversed(walk), strict=True)]
        for column in range(tensor.box[0]):
            index = [box.corner[0] + column, *position]
            if all(0 <= i < extent for i, extent in zip(index, tensor.shape, strict=True)):
                address = index[0] * size + sum(i * s for i, s in zip(position, tensor.strides_bytes, strict=True))
                walked |= {row * box.row_bytes + column * size + byte: address + byte for byte in range(size)}
    inside = box.inside()
    steps = np.arange(inside.nbytes)
    places = (inside.rows[:, np.newaxis] * box.row_bytes + inside.start + steps).reshape(-1)
    addresses = (inside.addresses[:, np.newaxis] + steps).reshape(-1)
    assert dict(zip(places.tolist(), addresses.tolist(), strict=True)) == walked
    assert box.nbytes == len(list(product(*outer))) * box.row_bytes


@given(boxes(strided=False), st.integers(0, 15))
@settings(max_examples=100)
def test_without_strides_it_agrees_with_the_oracle_of_the_recorded_copies(box: Box, place: int) -> None:
    tensor, size = box.tensor, box.tensor.data_type.nbytes
    rows = max(box.inside().addresses.max(initial=0) + box.inside().nbytes, 1)
    memory = (np.arange(1, rows + tensor.shape[0] * size + 16) * 7 % 251 + 1).astype(np.uint8)
    shape = tuple(reversed(tensor.shape))
    strides = (*reversed(tensor.strides_bytes), size)
    total = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + size
    memory = np.resize(memory, total)
    view = np.ndarray(shape, f"<u{size}", memory.data, 0, strides)
    destination = 0x800 + 128 * place
    before = np.full(1 << 16, 0xEE, np.uint8)
    oracle_box = TmaBox(extents=tensor.box, element_bytes=size, span_bytes=tensor.swizzle.span_bytes)
    expected = copy_box(before, base=0x800, destination=destination, tensor=view, box=oracle_box, corner=box.corner)
    inside = box.inside()
    transfer = np.zeros(box.nbytes, np.uint8)
    steps = np.arange(inside.nbytes)
    places = (inside.rows[:, np.newaxis] * box.row_bytes + inside.start + steps).reshape(-1)
    transfer[places] = memory[(inside.addresses[:, np.newaxis] + steps).reshape(-1)]
    after = before.copy()
    after[(box.chunks(destination)[:, np.newaxis] - 0x800 + np.arange(16)).reshape(-1)] = transfer
    np.testing.assert_array_equal(after, expected)


def test_extreme_coordinates_do_not_wrap() -> None:
    request = TensorMapRequest(
        data_type=TensorType.UINT8,
        address=1 << 40,
        shape=(256, 11),
        strides_bytes=(256,),
        box=(64, 8),
        element_strides=(1, 8),
    )
    ends = (-(1 << 31), (1 << 31) - 16)
    for corner in product(ends, ends):
        assert not Box(request, corner).inside().rows.size
