"""The compiled twin of `fused_sum`, and of the scaled sum of `block_scaled_sum`, for whole batches of tiles.

A tile's codes become significands and exponents once (`term_array`). A group then takes two passes over its products:
the largest exponent, then the cut terms. Indices are unsigned and values int64, which lets the compiler vectorise both
passes. Sums stay below 2^34: at most 32 products of magnitude below 4 · 2^25, and C below 4 · 2^25.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.accumulator import add, aligned, join, rounded, special, split, what
from tileproof.oracle.compiled import compiled, inlined
from tileproof.oracle.term_array import INFINITE, NAN, SPECIAL, ZERO, TermTable
from tileproof.oracle.unit import FusedSum, LateSum

Values = npt.NDArray[np.int64]

_EARLY, _LATE_CHAIN, _LATE_HALVES = 0, 1, 2


@dataclass(frozen=True)
class Coded:
    """Codes as indices into the table of their terms."""

    index: npt.NDArray[np.uint32]
    table: TermTable

    @property
    def significand(self) -> Values:
        """The significands of all codes."""
        return np.asarray(self.table.significand[self.index])

    @property
    def exponent(self) -> Values:
        """The exponents of all codes."""
        return np.asarray(self.table.exponent[self.index])


@dataclass(frozen=True)
class Side:
    """A or B."""

    #: [tiles, rows, K]
    codes: Coded
    #: Scale factors, [tiles, rows, blocks]; None without block scaling.
    factors: Coded | None = None


def fused_sums(unit: FusedSum | LateSum, a: Side, b: Side, c: Values, index: npt.NDArray[np.uint64]) -> Values:
    """Codes of D, [output tiles, M, N].

    Args:
        unit: the parameters.
        a: M rows a tile.
        b: N rows a tile.
        c: codes, [tiles of C, M, N].
        index: for each output tile, its tiles of A, B and C, [output tiles, 3].
    """
    rows, columns, depth = a.codes.index.shape[1], b.codes.index.shape[1], a.codes.index.shape[2]
    fused = unit if isinstance(unit, FusedSum) else unit.unit
    d = np.empty((len(index), rows, columns), np.int64)
    _fused_tiles(
        *_flat(a),
        *_flat(b),
        c.reshape(-1),
        index,
        d.reshape(-1),
        _order(unit, depth),
        np.array([rows, columns, depth, fused.group, _blocks(a)], np.uint64),
        np.array(
            [
                fused.fraction_bits - a.codes.table.fraction_bits - b.codes.table.fraction_bits,
                fused.fraction_bits,
                fused.least_exponent,
                fused.conversion.nearest,
                fused.conversion.kept_bits,
                _mode(unit),
            ],
            np.int64,
        ),
    )
    return d


def _flat(side: Side) -> tuple[npt.NDArray[np.uint32], Values, Values, Values]:
    """The arrays of one side, as `_fused_tiles` takes them."""
    factors = side.factors.exponent.reshape(-1) if side.factors else np.empty(0, np.int64)
    return side.codes.index.reshape(-1), side.codes.table.significand, side.codes.table.exponent, factors


def _blocks(side: Side) -> int:
    return side.factors.index.shape[2] if side.factors else 0


def _mode(unit: FusedSum | LateSum) -> int:
    if isinstance(unit, FusedSum):
        return _EARLY
    return _LATE_CHAIN if unit.chained else _LATE_HALVES


def _order(unit: FusedSum | LateSum, depth: int) -> npt.NDArray[np.uint64]:
    """The order of k: for a late sum k mod 4 in {0, 1} before k mod 4 in {2, 3}; see `fused_sum.late_sum`."""
    order = np.arange(depth, dtype=np.uint64)
    if isinstance(unit, FusedSum):
        return order
    return np.concatenate((order[order % 4 < 2], order[order % 4 >= 2]))


@compiled
def _fused_tiles(
    a_codes: Any,
    a_significands: Any,
    a_exponents: Any,
    a_factors: Any,
    b_codes: Any,
    b_significands: Any,
    b_exponents: Any,
    b_factors: Any,
    c: Any,
    index: Any,
    d: Any,
    order: Any,
    extents: Any,
    parameters: Any,
) -> None:
    rows, columns, depth, group, blocks = extents
    left, bits, least, nearest, kept_bits, mode = parameters
    half = nearest != 0
    a_significand, a_exponent = np.empty(rows * depth, np.int64), np.empty(rows * depth, np.int64)
    b_significand, b_exponent = np.empty(columns * depth, np.int64), np.empty(columns * depth, np.int64)
    for tile in range(np.uint64(len(index))):
        a_tile, b_tile, c_tile = index[tile]
        if tile == 0 or a_tile != index[tile - np.uint64(1), 0]:
            _decode(a_codes, a_significands, a_exponents, a_factors, a_tile, order, blocks, a_significand, a_exponent)
        if tile == 0 or b_tile != index[tile - np.uint64(1), 1]:
            _decode(b_codes, b_significands, b_exponents, b_factors, b_tile, order, blocks, b_significand, b_exponent)
        for row in range(rows):
            for column in range(columns):
                place = row * columns + column
                c_significand, c_exponent = split(c[c_tile * rows * columns + place], half)
                value, exponent = (c_significand, c_exponent) if mode == _EARLY else (0, ZERO)
                for k in range(np.uint64(0), depth, group):
                    a, b = row * depth + k, column * depth + k
                    before, before_exponent = value, exponent
                    if mode == _LATE_HALVES:
                        value, exponent = 0, ZERO
                    largest = max(_largest(a_exponent, a, b_exponent, b, group), exponent, least)
                    if largest > SPECIAL:
                        parts = _special(a_significand, a_exponent, a, b_significand, b_exponent, b, group)
                        value, exponent = special(parts | what(value, exponent))
                    else:
                        total = _group(a_significand, a_exponent, a, b_significand, b_exponent, b, group, largest, left)
                        total += aligned(value, exponent, largest, bits - (10 if half else 23))
                        value, exponent = rounded(total, largest - bits, half, kept_bits)
                    if mode == _LATE_HALVES:
                        value, exponent = add(before, before_exponent, value, exponent, half)
                if mode != _EARLY:
                    value, exponent = add(c_significand, c_exponent, value, exponent, half)
                d[tile * rows * columns + place] = join(value, exponent, half)


@inlined
def _decode(
    codes: Any,
    significands: Any,
    exponents: Any,
    factors: Any,
    tile: Any,
    order: Any,
    blocks: Any,
    significand: Any,
    exponent: Any,
) -> None:
    """The terms of one tile, k in the given order, scale factors in the exponents."""
    depth = np.uint64(len(order))
    for row in range(np.uint64(len(exponent)) // depth):
        source, target = (tile * np.uint64(len(exponent)) // depth + row) * depth, row * depth
        for k in range(depth):
            code = codes[source + order[k]]
            significand[target + k] = significands[code]
            exponent[target + k] = exponents[code]
        for k in range(depth if blocks > 0 else np.uint64(0)):
            factor = factors[source // depth * blocks + order[k] * blocks // depth]
            exponent[target + k] = _scaled(exponent[target + k], factor)


@inlined
def _scaled(exponent: int, factor: int) -> int:
    """An exponent moved by a scale factor: a NaN wins, an infinity and a zero stay."""
    if factor >= NAN or exponent >= NAN:
        return NAN
    return exponent + factor if ZERO < exponent < INFINITE else exponent


@inlined
def _largest(a_exponent: Any, a: Any, b_exponent: Any, b: Any, group: Any) -> int:
    largest = 2 * ZERO
    for k in range(group):
        largest = max(largest, a_exponent[a + k] + b_exponent[b + k])
    return largest


@inlined
def _group(
    a_significand: Any,
    a_exponent: Any,
    a: Any,
    b_significand: Any,
    b_exponent: Any,
    b: Any,
    group: Any,
    largest: int,
    left: int,
) -> int:
    """The cut products in units of 2^(largest - fraction bits): shifted left into place, then right by magnitude."""
    total = 0
    for k in range(group):
        product = a_significand[a + k] * b_significand[b + k]
        places = min(largest - (a_exponent[a + k] + b_exponent[b + k]), 63)
        sign = product >> 63
        magnitude = (((product ^ sign) - sign) << left) >> places
        total += (magnitude ^ sign) - sign
    return total


@inlined
def _special(
    a_significand: Any, a_exponent: Any, a: Any, b_significand: Any, b_exponent: Any, b: Any, group: Any
) -> int:
    """Which infinities and NaN the products of a group are; 0 · ∞ is NaN."""
    parts = 0
    for k in range(group):
        larger = max(a_exponent[a + k], b_exponent[b + k])
        product = a_significand[a + k] * b_significand[b + k]
        if larger >= INFINITE:
            parts |= what(product, NAN if product == 0 else larger)
    return parts
