"""Proofs that an index relation loses no element and writes none twice.

Two ways: a map that is linear in the index bits is a bijection when its matrix over GF(2) has full rank (`gf2`); any
other is enumerated, every offset marked once. A failed proof names the indices or the offset that are wrong.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tileproof.oracle.addresses.digit import Offsets
from tileproof.oracle.addresses.gf2 import BitMatrix
from tileproof.oracle.addresses.pack_layout import PackLayout
from tileproof.oracle.addresses.xor_tile import XorTile
from tileproof.oracle.refusal import Refusal

#: Elements whose offsets are computed at a time.
_SLICE = 1 << 20


class NotABijection(Refusal):
    """Two indices share an offset, or one leaves the buffer."""


class Method(Enum):
    """How a bijection was proved."""

    RANK = "full rank over GF(2)"
    ENUMERATION = "every offset taken once"


@dataclass(frozen=True)
class Bijection:
    """A finished proof."""

    method: Method
    #: Elements of the domain.
    elements: int


def prove_rank(matrix: BitMatrix) -> Bijection:
    """Proves a linear map of n bits a bijection of 0 .. 2^n - 1.

    Raises:
        NotABijection: dependent columns, or an image of more than n bits.
    """
    bits = len(matrix.columns)
    if matrix.collision is not None:
        raise NotABijection(f"indices 0 and {matrix.collision} share offset 0: rank {matrix.rank} of {bits}")
    for bit, column in enumerate(matrix.columns):
        if column >> bits:
            raise NotABijection(f"index {1 << bit} goes to offset {column}, outside {1 << bits} elements")
    return Bijection(Method.RANK, 1 << bits)


def prove_enumeration(slices: Iterable[Offsets], size: int) -> Bijection:
    """Proves that offsets, given in slices in the order of their index, take each of 0 .. size - 1 once.

    Raises:
        NotABijection: an offset outside, taken twice, or never.
    """
    taken = np.zeros(size, np.bool_)
    start = 0
    for offsets in slices:
        flat = offsets.reshape(-1)
        outside = np.flatnonzero((flat < 0) | (flat >= size))
        if outside.size:
            index = int(outside[0])
            raise NotABijection(f"index {start + index} goes to offset {flat[index]}, outside {size} elements")
        if np.any(taken[flat]):
            index = int(np.flatnonzero(taken[flat])[0])
            raise NotABijection(f"index {start + index} and an earlier one share offset {flat[index]}")
        taken[flat] = True
        start += flat.size
    if start != size or not taken.all():
        missing = int(np.flatnonzero(~taken)[0]) if not taken.all() else size
        raise NotABijection(f"{start} indices for {size} offsets; offset {missing} is taken by none or one twice")
    return Bijection(Method.ENUMERATION, size)


def prove_layout(layout: PackLayout, K: int, N: int) -> Bijection:
    """Proves a pack a bijection on K, N, padding included: by rank where the shape is all powers of two.

    Raises:
        NotABijection: it is none.
        Refusal: an illegal shape.
    """
    K, N = layout.stored_shape(K, N)
    if layout.is_bit_linear(K, N):
        bits = (K * N).bit_length() - 1
        return prove_rank(BitMatrix.of(lambda index: layout.offset(index // N, index % N, K, N), bits))
    return enumerate_layout(layout, K, N)


def enumerate_layout(layout: PackLayout, K: int, N: int) -> Bijection:
    """Proves a pack a bijection on K, N by listing every offset, whatever the shape."""
    K, N = layout.stored_shape(K, N)
    rows = max(1, _SLICE // max(N, 1))
    n = np.arange(N, dtype=np.int64)
    starts = range(0, K, rows)
    slices = (layout.offset(np.arange(k, min(k + rows, K))[:, np.newaxis], n, K, N) for k in starts)
    return prove_enumeration(slices, K * N)


def prove_tile(tile: XorTile, rows: int) -> Bijection:
    """Proves an XOR tile of `rows` rows a bijection of its bytes, by rank where `rows` is a power of two."""
    size = rows * tile.row_bytes
    if rows > 0 and rows & (rows - 1) == 0:
        return prove_rank(
            BitMatrix.of(lambda index: tile.offset(*divmod(index, tile.row_bytes)), size.bit_length() - 1)
        )
    return prove_enumeration([tile.offsets(rows)], size)
