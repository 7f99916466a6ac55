"""Swizzles, XOR tiles and the alignment law: against tensor-layouts, the projects' formulas, wrong twins."""

from collections.abc import Callable

import numpy as np
import pytest
import tensor_layouts
from hypothesis import given
from hypothesis import strategies as st

from tileproof.oracle.addresses.bijection import Method, prove_rank, prove_tile
from tileproof.oracle.addresses.gf2 import BitMatrix
from tileproof.oracle.addresses.tma_alignment import misplaced_bytes, relative_formula_holds, require_aligned
from tileproof.oracle.addresses.xor_tile import (
    XorTile,
    chunk_swizzle,
    cp_async_tile,
    epilogue_tile,
    tile_at,
    tma_row_tile,
)
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import Swizzle

SPANS = (32, 64, 128)
ATOMS = {32: 256, 64: 512, 128: 1024}

#: Every tile of both projects, with the formula of its source: byte offset of (row, byte).
TILES: tuple[tuple[XorTile, Callable[[int, int], int]], ...] = (
    (tma_row_tile(), lambda row, b: row * 64 + (((b >> 4) ^ ((row >> 1) & 3)) << 4) + (b & 15)),
    (cp_async_tile(), lambda row, b: row * 128 + (((b // 16) ^ (row & 7)) * 16) + b % 16),
    (cp_async_tile(64), lambda row, b: row * 64 + (((b // 16) ^ (row & 3)) * 16) + b % 16),
    (tile_at(32), lambda row, b: row * 32 + (((b >> 4) ^ ((row >> 2) & 1)) << 4) + (b & 15)),
    (tile_at(64), lambda row, b: row * 64 + (((b >> 4) ^ ((row >> 1) & 3)) << 4) + (b & 15)),
    (tile_at(128), lambda row, b: row * 128 + (((b >> 4) ^ (row & 7)) << 4) + (b & 15)),
    (chunk_swizzle(3, 3, 128), lambda row, b: linear_chunk(row * 128 + b, 3, 3)),
    (chunk_swizzle(2, 3, 64), lambda row, b: linear_chunk(row * 64 + b, 2, 3)),
    (chunk_swizzle(1, 3, 32), lambda row, b: linear_chunk(row * 32 + b, 1, 3)),
    (chunk_swizzle(4, 4, 256), lambda row, b: linear_chunk(row * 256 + b, 4, 4)),
    (epilogue_tile(64), lambda row, b: 2 * (row * 64 + ((b // 16) ^ (row & 7)) * 8 + b % 16 // 2) + b % 2),
    (epilogue_tile(128), lambda row, b: 2 * (row * 128 + ((b // 16) ^ (row & 15)) * 8 + b % 16 // 2) + b % 2),
)


def linear_chunk(offset: int, bits: int, shift: int) -> int:
    """AstrAI's form on the linear chunk index."""
    chunk = offset // 16
    return (chunk ^ ((chunk >> shift) & ((1 << bits) - 1))) * 16 + offset % 16


def legal_swizzles() -> st.SearchStrategy[Swizzle]:
    """Swizzles up to 5 bits wide, either direction."""
    return st.integers(0, 5).flatmap(
        lambda bits: st.builds(
            Swizzle, st.just(bits), st.integers(0, 6), st.integers(bits, 8) | st.integers(-8, -bits if bits else 0)
        )
    )


@pytest.mark.parametrize("span", SPANS)
def test_tma_modes_are_the_published_bit_fields(span: int) -> None:
    mask = {32: 1, 64: 3, 128: 7}[span]
    addresses = np.arange(4096)
    assert np.array_equal(Swizzle.tma(span).apply(addresses), addresses ^ (((addresses >> 7) & mask) << 4))
    assert Swizzle.tma(span).atom_bytes == ATOMS[span]


def test_no_swizzle_leaves_addresses_alone() -> None:
    addresses = np.arange(2048)
    assert np.array_equal(Swizzle.tma(0).apply(addresses), addresses)
    assert Swizzle.tma(0).atom_bytes == 128


@given(legal_swizzles(), st.integers(0, 2**20))
def test_swizzle_equals_tensor_layouts_and_is_its_own_inverse(swizzle: Swizzle, address: int) -> None:
    theirs = tensor_layouts.Swizzle(swizzle.bits, swizzle.base, swizzle.shift)
    assert swizzle.apply(address) == theirs(address)
    assert swizzle.apply(swizzle.apply(address)) == address
    assert swizzle.apply(np.array([address])).tolist() == [swizzle.apply(address)]


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_array_form_equals_the_scalar_form_and_keeps_type_and_shape(dtype: type[np.integer]) -> None:
    addresses = np.arange(2048, dtype=dtype).reshape(2, 32, 32)
    placed = Swizzle.tma(128).apply(addresses)
    assert placed.dtype == addresses.dtype
    assert placed.shape == addresses.shape
    assert placed.reshape(-1).tolist() == [Swizzle.tma(128).apply(a) for a in range(2048)]


@given(legal_swizzles())
def test_every_swizzle_is_a_bijection_that_repeats_after_its_atom(swizzle: Swizzle) -> None:
    matrix = BitMatrix.of(swizzle.apply, 22)
    assert prove_rank(matrix).method is Method.RANK
    assert matrix.apply(0x155555) == swizzle.apply(0x155555)
    assert swizzle.apply(swizzle.atom_bytes * 3 + 77) == swizzle.atom_bytes * 3 + swizzle.apply(
        77 % swizzle.atom_bytes
    ) + (77 - 77 % swizzle.atom_bytes)


@pytest.mark.parametrize(("tile", "formula"), TILES, ids=lambda value: getattr(value, "name", ""))
def test_every_tile_is_its_source_formula(tile: XorTile, formula: Callable[[int, int], int]) -> None:
    rows = 32
    expected = [[formula(row, byte) for byte in range(tile.row_bytes)] for row in range(rows)]
    assert tile.offsets(rows).tolist() == expected
    assert tile.evidence is Evidence.DOCUMENTED


@pytest.mark.parametrize("tile", [tile for tile, _ in TILES], ids=lambda tile: tile.name)
def test_every_tile_is_a_bijection_and_locates_what_it_placed(tile: XorTile) -> None:
    assert prove_tile(tile, 64).method is Method.RANK
    assert prove_tile(tile, 24).method is Method.ENUMERATION
    for row in range(2 * tile.period_rows):
        for byte in range(0, tile.row_bytes, 5):
            assert tile.locate(tile.offset(row, byte)) == (row, byte)


@pytest.mark.parametrize(
    ("tile", "span"),
    [
        (tma_row_tile(), 64),
        (cp_async_tile(), 128),
        *((tile_at(span), span) for span in SPANS),
        *((chunk_swizzle({32: 1, 64: 2, 128: 3}[span], 3, span), span) for span in SPANS),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_tiles_of_a_span_are_the_hardware_mode_at_aligned_bases(tile: XorTile, span: int) -> None:
    swizzle = Swizzle.tma(span)
    offsets = np.arange(64 * span).reshape(64, span)
    for base in (0, swizzle.atom_bytes, 5 * swizzle.atom_bytes):
        assert np.array_equal(swizzle.apply(base + offsets) - base, tile.offsets(64))


def test_a_cp_async_tile_of_64_bytes_is_not_the_hardware_mode() -> None:
    assert not np.array_equal(cp_async_tile(64).offsets(8), tile_at(64).offsets(8))


@pytest.mark.parametrize(("base_offset", "wrong"), [(0, 0), (64, 512), (128, 1024), (256, 1024), (384, 1024), (512, 0)])
def test_wrong_bytes_of_the_64_byte_mode(base_offset: int, wrong: int) -> None:
    assert misplaced_bytes(Swizzle.tma(64), base_offset) == wrong
    assert misplaced_bytes(Swizzle.tma(64), 0x600 + base_offset) == wrong  # the base of ninfer's experiment


@pytest.mark.parametrize("span", SPANS)
def test_relative_formulas_hold_exactly_at_multiples_of_the_atom(span: int) -> None:
    swizzle = Swizzle.tma(span)
    for base in range(0, 2304, 8):
        holds = misplaced_bytes(swizzle, base) == 0
        assert holds == relative_formula_holds(swizzle, base) == (base % ATOMS[span] == 0), base


@pytest.mark.parametrize("base", [16, 64, 128, 256, 384, 1152])
def test_an_unaligned_base_is_refused_with_the_distance(base: int) -> None:
    with pytest.raises(Refusal, match=rf"{base % 512} bytes past a multiple of 512") as refusal:
        require_aligned(Swizzle.tma(64), base)
    assert "align the tile to 512 bytes" in refusal.value.hint


def test_every_base_is_right_without_swizzle() -> None:
    require_aligned(Swizzle.tma(0), 16)
    assert misplaced_bytes(Swizzle.tma(0), 16) == 0


#: A wrong mode, and why it is wrong; each must differ from the right one on two atoms.
TWINS: tuple[tuple[str, int, Callable[[int], int]], ...] = (
    ("shift 4 for 3", 64, lambda a: a ^ (((a >> 8) & 3) << 4)),
    ("shift 2 for 3", 64, lambda a: a ^ (((a >> 6) & 3) << 4)),
    ("row bit 3 for bit 2, as the comment in tile_at says", 32, lambda a: a ^ (((a >> 8) & 1) << 4)),
    ("row & 3 for row >> 1 & 3", 64, lambda a: a ^ (((a >> 6) & 3) << 4)),
    ("one bit for two", 64, lambda a: a ^ (((a >> 7) & 1) << 4)),
    ("three bits for two", 64, lambda a: a ^ (((a >> 7) & 7) << 4)),
    ("8-byte chunks", 128, lambda a: a ^ (((a >> 7) & 7) << 3)),
    ("addition for XOR", 128, lambda a: a & ~0x70 | (a + ((a >> 7 & 7) << 4)) & 0x70),
    ("no swizzle (K = 32 tiles encoded as none)", 32, lambda a: a),
    ("relative to a base of 128", 64, lambda a: Swizzle.tma(64).apply(a + 128) - 128),
    ("relative to a base of 256", 128, lambda a: Swizzle.tma(128).apply(a + 256) - 256),
)


@pytest.mark.parametrize(("why", "span", "twin"), TWINS, ids=[why for why, _, _ in TWINS])
def test_wrong_swizzles_are_rejected(why: str, span: int, twin: Callable[[int], int]) -> None:
    addresses = range(2 * ATOMS[span])
    assert [twin(a) for a in addresses] != [Swizzle.tma(span).apply(a) for a in addresses], why


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: Swizzle.tma(16), "16 bytes is no TMA mode"),
        (lambda: Swizzle.tma(256), "256 bytes is no TMA mode"),
        (lambda: Swizzle(3, 4, 2), "overlap"),
        (lambda: Swizzle(-1, 4, 3), "negative"),
        (lambda: Swizzle.tma(64).apply(-1), "negative"),
        (lambda: Swizzle.tma(64).apply(np.array([5, -3])), "-3 is negative"),
        (lambda: Swizzle.tma(64).apply(np.array([1.0])), "no integers"),
        (lambda: Swizzle.tma(64).apply(np.array([1], np.uint8)), "too narrow"),
        (lambda: tile_at(16), "tile_at<16>"),
        (lambda: cp_async_tile(96), "96 bytes"),
        (lambda: chunk_swizzle(2, 1, 64), "chunk bits of its own row"),
        (lambda: chunk_swizzle(4, 3, 64), "leaves a row"),
        (lambda: tile_at(64).offset(0, 64), "outside a row of 64"),
        (lambda: tile_at(64).offset(-1, 0), "negative"),
        (lambda: tile_at(64).locate(-1), "negative"),
        (lambda: misplaced_bytes(Swizzle.tma(64), -16), "negative"),
    ],
)
def test_illegal_requests_are_refused(refused: Callable[[], object], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        refused()
