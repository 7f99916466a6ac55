"""Matrix descriptors encode as documented, and find the elements of the canonical layouts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileproof.oracle.maps.wgmma_descriptor import MatrixDescriptor
from tileproof.oracle.maps.wgmma_tile import Major, element_address, read_tile, tile_addresses, tile_offset, write_tile
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import Swizzle

units = st.integers(0, (1 << 14) - 1).map(lambda unit: 16 * unit)
descriptors = st.builds(
    MatrixDescriptor,
    start=units,
    leading_bytes=units,
    stride_bytes=units,
    span_bytes=st.sampled_from([32, 64, 128]),
    base_offset=st.integers(0, 7),
)
each_span = pytest.mark.parametrize("span", [0, 32, 64, 128])
each_form = pytest.mark.parametrize(("bits", "major"), [(8, Major.K), (16, Major.K), (32, Major.K), (16, Major.MN)])


@given(descriptor=descriptors)
def test_decoding_undoes_encoding(descriptor: MatrixDescriptor) -> None:
    assert MatrixDescriptor.decode(descriptor.encode()) == descriptor


@pytest.mark.parametrize(
    ("fields", "bits"),
    [
        ({"start": 0x4000, "leading_bytes": 16, "stride_bytes": 1024, "span_bytes": 128}, 0x4000_0040_0001_0400),
        ({"start": 0x3FFF0, "leading_bytes": 0, "stride_bytes": 0}, 0x0000_0000_0000_3FFF),
        ({"start": 0, "leading_bytes": 0x3FFF0, "stride_bytes": 0}, 0x0000_0000_3FFF_0000),
        ({"start": 0, "leading_bytes": 0, "stride_bytes": 0x3FFF0}, 0x0000_3FFF_0000_0000),
        ({"start": 0, "leading_bytes": 0, "stride_bytes": 0, "span_bytes": 64}, 0x8000_0000_0000_0000),
        ({"start": 0, "leading_bytes": 0, "stride_bytes": 0, "span_bytes": 32}, 0xC000_0000_0000_0000),
        (
            {"start": 0, "leading_bytes": 0, "stride_bytes": 0, "span_bytes": 128, "base_offset": 7},
            0x400E_0000_0000_0000,
        ),
    ],
)
def test_fields_stand_where_the_format_table_puts_them(fields: dict[str, int], bits: int) -> None:
    assert MatrixDescriptor(**fields).encode() == bits


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": 8}, "start 8 is no multiple of 16"),
        ({"leading_bytes": 24}, "leading_bytes 24 is no multiple"),
        ({"stride_bytes": 1 << 18}, "stride_bytes 262144 does not fit 14 bits"),
        ({"start": -16}, "start -16 does not fit"),
        ({"span_bytes": 16}, "swizzle span of 16"),
        ({"base_offset": 8}, "does not fit 3 bits"),
        ({"span_bytes": 0, "base_offset": 1}, "without a swizzle"),
    ],
)
def test_what_a_field_cannot_hold_is_refused_with_a_remedy(change: dict[str, int], message: str) -> None:
    legal = MatrixDescriptor(start=0, leading_bytes=0, stride_bytes=1024, span_bytes=128)
    with pytest.raises(Refusal, match=message) as refused:
        replace(legal, **change)
    assert refused.value.hint


@pytest.mark.parametrize("bit", [14, 15, 30, 31, 46, 48, 52, 61])
def test_reserved_bits_are_refused(bit: int) -> None:
    with pytest.raises(Refusal, match="reserved bits"):
        MatrixDescriptor.decode(1 << bit)


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_values_beyond_64_bits_are_refused(value: int) -> None:
    with pytest.raises(Refusal, match="no 64-bit value"):
        MatrixDescriptor.decode(value)


def canonical(span: int, major: Major, bits: int, leading: int, stride: int, row: int, k: int) -> int:
    """The layouts above make_gmma_desc in CUTLASS mma_traits_sm90_gmma.hpp as nested shapes and strides, in bytes."""
    size = bits // 8
    t, w = 16 // size, max(span // 16, 1)
    shapes = {
        (True, Major.MN): (((t, 1, 32), (8, 32)), ((size, 16, stride), (16, leading))),
        (False, Major.MN): (((t, w, 32), (8, 32)), ((size, 16, leading), (16 * w, stride))),
        (True, Major.K): (((8, 32), (t, 2)), ((16, stride), (size, leading))),
        (False, Major.K): (((8, 32), (t, 2)), ((16 * w, stride), (size, 16))),
    }
    (rows, ks), (row_strides, k_strides) = shapes[span == 0, major]
    return strided(row, rows, row_strides) + strided(k, ks, k_strides)


def strided(index: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    offset = 0
    for extent, stride in zip(shape, strides, strict=True):
        index, digit = divmod(index, extent)
        offset += digit * stride
    return offset


@each_span
@each_form
def test_offsets_are_those_of_the_canonical_layouts(span: int, bits: int, major: Major) -> None:
    leading, stride = 5 * 1024 + 16, 2 * 1024 + 48
    descriptor = MatrixDescriptor(start=4096, leading_bytes=leading, stride_bytes=stride, span_bytes=span)
    swizzle = Swizzle.tma(span)
    for row in range(0, 136, 3):
        for k in range(256 // bits):
            offset = canonical(span, major, bits, leading, stride, row, k)
            assert tile_offset(descriptor, row, k, bits=bits, major=major) == offset
            assert element_address(descriptor, row, k, bits=bits, major=major) == swizzle.apply(4096 + offset)


@each_span
@each_form
def test_whole_tiles_have_the_addresses_of_their_elements(span: int, bits: int, major: Major) -> None:
    descriptor = MatrixDescriptor(
        start=1024 + 48, leading_bytes=8192, stride_bytes=1024, span_bytes=span, base_offset=3 if span else 0
    )
    addresses = tile_addresses(descriptor, rows=72, bits=bits, major=major)
    assert addresses.shape == (72, 256 // bits)
    for row in range(0, 72, 5):
        for k in range(256 // bits):
            assert addresses[row, k] == element_address(descriptor, row, k, bits=bits, major=major)


@each_span
@each_form
def test_reading_undoes_writing_of_a_dense_tile(span: int, bits: int, major: Major) -> None:
    rows, lines = 64, max(span, 16)
    dense = {Major.K: (8 * lines * rows // 8, 8 * lines), Major.MN: (16 * lines, 8 * lines)}[major]
    if span == 0 and major is Major.MN:
        dense = (128 * rows // 8, 128)
    descriptor = MatrixDescriptor(start=2048, leading_bytes=dense[0], stride_bytes=dense[1], span_bytes=span)
    matrix = (
        np.random.default_rng(1).integers(0, 1 << bits, (rows, 256 // bits), dtype=np.uint64).astype(f"u{bits // 8}")
    )
    memory = np.zeros(32768, np.uint8)
    write_tile(memory, descriptor, matrix, major=major, base=1024)
    assert (read_tile(memory, descriptor, rows=rows, bits=bits, major=major, base=1024) == matrix).all()
    addresses = tile_addresses(descriptor, rows=rows, bits=bits, major=major)
    assert np.unique(addresses).size == matrix.size


def test_stepping_along_k_inside_a_swizzled_tile_reads_the_next_columns() -> None:
    """A K-major tile of 64 rows × 128 bytes, as TMA writes it, is four operands 32 bytes apart."""
    tile = np.random.default_rng(2).integers(0, 256, (64, 128), dtype=np.uint8)
    memory = np.zeros(16384, np.uint8)
    memory[Swizzle.tma(128).apply(np.arange(8192) + 1024)] = tile.reshape(-1)
    first = MatrixDescriptor(start=1024, leading_bytes=16, stride_bytes=1024, span_bytes=128)
    for step in range(4):
        read = read_tile(memory, first.advanced(32 * step), rows=64, bits=8)
        assert (read == tile[:, 32 * step : 32 * step + 32]).all()


@pytest.mark.parametrize("span", [32, 64, 128])
@pytest.mark.parametrize("base", range(1, 8))
def test_a_base_offset_lets_a_whole_tile_move_by_lines(base: int, span: int) -> None:
    """An aligned tile moved by 128 bytes times the base offset keeps its pattern."""
    aligned = MatrixDescriptor(start=2048, leading_bytes=16, stride_bytes=8 * span, span_bytes=span)
    moved = replace(aligned, start=2048 + 128 * base, base_offset=base)
    assert (tile_addresses(moved, rows=64, bits=8) == tile_addresses(aligned, rows=64, bits=8) + 128 * base).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"bits": 8, "major": Major.MN}, "MN-major operand of 8-bit"),
        ({"bits": 32, "major": Major.MN}, "MN-major operand of 32-bit"),
        ({"bits": 4}, "no byte address"),
        ({"bits": 8, "rows": 12}, "operand of 12 rows"),
        ({"bits": 8, "rows": 256}, "reaches bytes"),
        ({"bits": 8, "base": 1024}, "reaches bytes"),
    ],
)
def test_operands_outside_the_forms_or_the_memory_are_refused(call: dict[str, Any], message: str) -> None:
    descriptor = MatrixDescriptor(start=0, leading_bytes=128, stride_bytes=256)
    with pytest.raises(Refusal, match=message) as refused:
        read_tile(np.zeros(4096, np.uint8), descriptor, **({"rows": 64} | call))
    assert refused.value.hint


def test_elements_outside_an_operand_are_refused() -> None:
    descriptor = MatrixDescriptor(start=0, leading_bytes=128, stride_bytes=256)
    for row, k in ((-1, 0), (0, 32), (0, -1)):
        with pytest.raises(Refusal, match="outside an operand of K = 32"):
            tile_offset(descriptor, row, k, bits=8)
    with pytest.raises(Refusal, match="matrix of shape"):
        write_tile(np.zeros(4096, np.uint8), descriptor, np.zeros((64, 16), np.uint8))
