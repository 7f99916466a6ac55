"""Known ways in which a buffer goes wrong as a whole: each says from where an element at a position came.

A rearrangement is a hypothesis about an observed buffer: observed[p] = expected[source(p)], for every p that it speaks
about (source -1: it does not). `diagnosis` tries them against the evidence. Example, halves of 4-byte words swapped:
source(p) = p ^ 2, so bytes 0 1 2 3 are seen as 2 3 0 1.

Each family answers public defects: halves and bytes (llvm/llvm-project 80502), transposed (ROCm/aiter 4506), another
pack (vllm-project/vllm 48552), swizzle at a wrong base (tile-ai/tilelang 2379, NVIDIA/Fuser 4096).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tileproof.oracle.addresses.digit import Offsets
from tileproof.oracle.addresses.pack_layout import PackLayout
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import CHUNK_BYTES, Swizzle


class Cause(Enum):
    """Families of rearrangements; the value is the word that reports print."""

    HALVES = "halves swapped"
    BITS = "index bits swapped"
    TRANSPOSED = "transposed"
    SHIFTED = "shifted"
    SWIZZLE_LEFT = "swizzle not undone"
    SWIZZLE_BASE = "swizzle at a wrong base"
    RELATION = "another layout"


@dataclass(frozen=True)
class Rearrangement:
    """One hypothesis."""

    cause: Cause
    #: What exactly, for reports.
    text: str
    #: Positions [n] of the observed buffer to positions of the expected one, -1 where nothing is said.
    source: Callable[[Offsets], Offsets]


def halves(size: int) -> Iterator[Rearrangement]:
    """Groups of 2, 4, 8, .. elements with their halves swapped, or reversed end to end."""
    for bit in range((size - 1).bit_length()):
        group = 2 << bit
        if size % group == 0:
            yield Rearrangement(Cause.HALVES, f"halves of every {group} elements swapped", _flip(1 << bit))
            if 2 < group <= 64:
                yield Rearrangement(Cause.HALVES, f"every {group} elements reversed", _flip(group - 1))


def bit_swaps(size: int) -> Iterator[Rearrangement]:
    """Two bits of the position exchanged, as bytes 1 and 2 of a word are by bits 0 and 1."""
    bits = size.bit_length() - 1
    for low in range(bits):
        for high in range(low + 1, bits):
            if size % (2 << high) == 0:
                text = f"bits {low} and {high} of the position swapped"
                yield Rearrangement(Cause.BITS, text, _swap(low, high))


def transpositions(rows: int, columns: int) -> Iterator[Rearrangement]:
    """A row-major [rows][columns] written column by column, and the other way round."""
    for height, width in dict.fromkeys(((rows, columns), (columns, rows))):
        text = f"[{height}][{width}] transposed"
        yield Rearrangement(Cause.TRANSPOSED, text, _transpose(height, width))


def shifts(size: int, distances: Iterable[int]) -> Iterator[Rearrangement]:
    """Everything moved towards higher positions by a distance; a negative one towards lower."""
    for distance in distances:
        if 0 < abs(distance) < size:
            yield Rearrangement(Cause.SHIFTED, f"shifted by {distance:+} elements", _shift(distance, size))


def swizzles(size: int, swizzle: Swizzle) -> Iterator[Rearrangement]:
    """A tile of bytes read without its swizzle, or by a base-relative formula at every base inside the atom.

    The buffer is what the kernel read, in logical order. A base is found modulo the atom; TMA allows multiples of 128.
    """
    yield Rearrangement(Cause.SWIZZLE_LEFT, f"{swizzle} not undone", _within(_undo(swizzle), size))
    for base in range(CHUNK_BYTES, swizzle.atom_bytes, CHUNK_BYTES):
        text = f"{swizzle} read relative to a base {base} bytes past its atom of {swizzle.atom_bytes}"
        yield Rearrangement(Cause.SWIZZLE_BASE, text, _within(_read_at(swizzle, base), size))


def relations(layout: PackLayout, K: int, N: int, others: Iterable[PackLayout]) -> Iterator[Rearrangement]:
    """A buffer expected in one layout and packed in another; layouts that K, N do not fit are left out."""
    for other in others:
        if other is not layout and _same_size(layout, other, K, N):
            text = f"packed as {other.name} {other} in place of {layout.name}"
            yield Rearrangement(Cause.RELATION, text, _repack(layout, other, K, N))


def _same_size(layout: PackLayout, other: PackLayout, K: int, N: int) -> bool:
    try:
        return other.stored_shape(K, N) == layout.stored_shape(K, N)
    except Refusal:
        return False


def _flip(mask: int) -> Callable[[Offsets], Offsets]:
    return lambda position: position ^ mask


def _swap(low: int, high: int) -> Callable[[Offsets], Offsets]:
    def source(position: Offsets) -> Offsets:
        differ = (position >> low ^ position >> high) & 1
        return position ^ (differ << low | differ << high)

    return source


def _transpose(rows: int, columns: int) -> Callable[[Offsets], Offsets]:
    return lambda position: position % rows * columns + position // rows


def _shift(distance: int, size: int) -> Callable[[Offsets], Offsets]:
    return _within(lambda position: position - distance, size)


def _undo(swizzle: Swizzle) -> Callable[[Offsets], Offsets]:
    return lambda position: np.asarray(swizzle.apply(position), dtype=np.int64)


def _read_at(swizzle: Swizzle, base: int) -> Callable[[Offsets], Offsets]:
    """Byte y lies at swizzle(base + y); the kernel reads byte x from base + swizzle(x)."""
    return lambda position: np.asarray(swizzle.apply(swizzle.apply(position) + base) - base, dtype=np.int64)


def _repack(layout: PackLayout, other: PackLayout, K: int, N: int) -> Callable[[Offsets], Offsets]:
    def source(position: Offsets) -> Offsets:
        stored = layout.stored_shape(K, N)
        k, n = other.locate(position, *stored)
        return layout.offset(k, n, *stored)

    return source


def _within(source: Callable[[Offsets], Offsets], size: int) -> Callable[[Offsets], Offsets]:
    def bounded(position: Offsets) -> Offsets:
        origin = source(position)
        return np.where((origin >= 0) & (origin < size), origin, -1)

    return bounded
