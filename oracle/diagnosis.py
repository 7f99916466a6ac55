"""What happened to an observed buffer: what was never written, and which known rearrangement explains the rest.

First the regions that still hold the poison are taken out. The elements that then differ are compared with every
rearrangement (`rearrangement`): it must predict each that it speaks about, and may not contradict an element that is
right. One that does so is *complete*; if there is none, the best partial ones are listed with their counts, for the
reader to judge. A shift is silent about the edge that came from outside. Data must tell positions apart: a constant
buffer is explained by anything, index planes (`probe`) by one map only.

Example: expected 00 01 02 03 04 05 06 07, observed 02 03 00 01 06 07 04 05, poison EE. Nothing unwritten, 8 of 8
differ, complete: halves of every 4 elements swapped.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.addresses.digit import Offsets
from tileproof.oracle.addresses.pack_layout import PackLayout
from tileproof.oracle.addresses.rearrangement import (
    Rearrangement,
    bit_swaps,
    halves,
    relations,
    shifts,
    swizzles,
    transpositions,
)
from tileproof.oracle.arguments import whole
from tileproof.oracle.layouts import PACKS
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import Swizzle

Buffer = npt.NDArray[Any]

#: Bytes of poison in a row that count as never written; fewer may be data that happens to look like it.
MIN_POISON_BYTES = 4

#: Distances tried as a shift, each way.
MAX_SHIFT = 1024

_SAMPLE = 512
_SLICE = 1 << 20
_PARTIAL = 3


@dataclass(frozen=True)
class Region:
    """Positions start .. stop - 1."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Explanation:
    """A rearrangement and its proof."""

    rearrangement: Rearrangement
    #: Written elements that differ and that it predicts.
    explained: int
    #: Written elements that differ.
    of: int
    #: Written elements that it predicts wrongly.
    contradicted: int
    #: Written elements that differ and that it says nothing about.
    silent: int

    @property
    def is_complete(self) -> bool:
        """Whether it predicts everything that it speaks about, and that is most of what differs."""
        return self.contradicted == 0 and self.explained + self.silent == self.of and self.explained >= self.silent

    def __str__(self) -> str:
        proof = f"{self.rearrangement.text}: explains {self.explained} of {self.of}"
        if self.silent:
            proof += f", silent about {self.silent}"
        return f"{proof}, contradicts {self.contradicted}" if self.contradicted else proof


@dataclass(frozen=True)
class Diagnosis:
    """What a comparison found."""

    size: int
    #: Elements that differ from the expected buffer, unwritten ones included.
    differing: int
    #: Regions that still hold the poison.
    unwritten: tuple[Region, ...]
    #: Complete explanations of the rest, simplest first; else the best partial ones.
    explanations: tuple[Explanation, ...]

    @property
    def is_explained(self) -> bool:
        """Whether unwritten regions and one complete explanation account for every difference."""
        rest = self.differing - sum(len(region) for region in self.unwritten)
        return rest <= 0 or any(e.is_complete for e in self.explanations)

    def lines(self) -> list[str]:
        """The diagnosis in words, one statement a line."""
        if not self.differing:
            return [f"all {self.size} elements are as expected"]
        unwritten = [f"never written: {r.start} to {r.stop - 1}, {len(r)} elements" for r in self.unwritten]
        rest = [str(explanation) for explanation in self.explanations]
        closing = [] if self.is_explained else ["no known rearrangement explains the rest"]
        return [f"{self.differing} of {self.size} elements differ", *unwritten, *rest, *closing]


def diagnose(
    observed: Buffer, expected: Buffer, rearrangements: Iterable[Rearrangement], *, poison: int | None = None
) -> Diagnosis:
    """Compares two buffers and tries explanations.

    Args:
        observed: [n], any integer type (view other types as integers first).
        expected: [n], the same type.
        rearrangements: hypotheses in order of preference.
        poison: what every element held before; None if that is not known.

    Raises:
        Refusal: shapes or types differ, or are no one-dimensional integers.
    """
    if observed.shape != expected.shape or observed.dtype != expected.dtype:
        raise Refusal(
            f"observed {observed.dtype} {observed.shape} and expected {expected.dtype} {expected.shape} differ"
        )
    if observed.ndim != 1 or observed.dtype.kind not in "iu":
        raise Refusal(f"buffers of type {observed.dtype} and rank {observed.ndim}", hint="pass integers of rank 1")
    different = observed != expected
    unwritten = tuple(_unwritten(observed, different, poison))
    written = np.ones(observed.size, np.bool_)
    for region in unwritten:
        written[region.start : region.stop] = False
    left = np.flatnonzero(different & written)
    explanations = tuple(_explain(observed, expected, left, written, rearrangements)) if left.size else ()
    return Diagnosis(observed.size, int(np.count_nonzero(different)), unwritten, explanations)


def diagnose_pack(
    observed: Buffer, layout: PackLayout, raw_kn: Buffer, *, poison: int | None = None, fill: int = 0
) -> Diagnosis:
    """Compares a packed buffer with what the layout makes of a matrix: other layouts, then general rearrangements.

    Args:
        observed: the packed buffer, [n].
        layout: the layout it should have.
        raw_kn: the matrix, [K, N].
        poison: what the buffer held before.
        fill: what padding should hold.
    """
    K, N = raw_kn.shape
    candidates = chain(relations(layout, K, N, PACKS.values()), general(observed.size, *layout.stored_shape(K, N)))
    return diagnose(observed, layout.pack(raw_kn, fill=fill), candidates, poison=poison)


def diagnose_tile(observed: Buffer, expected: Buffer, row_bytes: int, *, poison: int | None = None) -> Diagnosis:
    """Compares a tile of bytes as a kernel read it back from swizzled shared memory.

    Args:
        observed: uint8 [n], logical order.
        expected: uint8 [n].
        row_bytes: bytes of a row; the tile's own span comes first among the swizzles.
        poison: what the tile held before.

    Raises:
        Refusal: rows below 1 byte, or as `diagnose`.
    """
    row_bytes = whole("row_bytes", row_bytes)
    if row_bytes < 1:
        raise Refusal(f"rows of {row_bytes} bytes; the least is 1", hint="give the bytes of a row of the tile")
    size = observed.size
    spans = sorted((32, 64, 128), key=lambda span: span != row_bytes)
    candidates = chain(
        chain.from_iterable(swizzles(size, Swizzle.tma(span)) for span in spans),
        general(size, size // row_bytes, row_bytes),
    )
    return diagnose(observed, expected, candidates, poison=poison)


def general(size: int, rows: int, columns: int) -> Iterator[Rearrangement]:
    """Rearrangements that need no layout, simplest first."""
    near = chain.from_iterable((d, -d) for d in range(1, min(MAX_SHIFT, size - 1) + 1))
    far = (way * step * d for step in (rows, columns) for d in (1, 2, 4, 8) for way in (1, -1))
    yield from halves(size)
    yield from transpositions(rows, columns)
    yield from shifts(size, dict.fromkeys(chain(near, far)))
    yield from bit_swaps(size)


def _unwritten(observed: Buffer, different: npt.NDArray[np.bool_], poison: int | None) -> Iterator[Region]:
    if poison is None:
        return
    held = np.concatenate(([False], observed == poison, [False]))
    starts, stops = np.flatnonzero(held[1:] & ~held[:-1]), np.flatnonzero(held[:-1] & ~held[1:])
    least = -(-MIN_POISON_BYTES // observed.itemsize)
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        if stop - start >= least and different[start:stop].any():
            yield Region(start, stop)


def _explain(
    observed: Buffer,
    expected: Buffer,
    left: Offsets,
    written: npt.NDArray[np.bool_],
    rearrangements: Iterable[Rearrangement],
) -> Iterator[Explanation]:
    """Complete explanations in order, or else the best partial ones; a sample sorts out most hypotheses."""
    sample = left[np.linspace(0, left.size - 1, min(left.size, _SAMPLE)).astype(np.int64)]
    scores = [(*_score(observed, expected, sample, r.source(sample)), r) for r in rearrangements]
    promising = [r for right, wrong, r in scores if not wrong and 2 * right >= sample.size]
    weighed = [_weigh(observed, expected, left, written, r) for r in promising]
    complete = [explanation for explanation in weighed if explanation.is_complete]
    if complete:
        yield from complete
        return
    best = sorted(scores, key=lambda score: score[1] - score[0])[:_PARTIAL]
    partial = [_weigh(observed, expected, left, written, r) for right, _, r in best if 2 * right > sample.size]
    yield from sorted(partial, key=lambda e: e.contradicted - e.explained)


def _score(observed: Buffer, expected: Buffer, positions: Offsets, source: Offsets) -> tuple[int, int]:
    """How many of the positions a rearrangement predicts rightly and wrongly."""
    known = source >= 0
    right = int(np.count_nonzero(observed[positions[known]] == expected[source[known]]))
    return right, int(np.count_nonzero(known)) - right


def _weigh(
    observed: Buffer, expected: Buffer, left: Offsets, written: npt.NDArray[np.bool_], rearrangement: Rearrangement
) -> Explanation:
    explained = contradicted = 0
    silent = int(np.count_nonzero(rearrangement.source(left) < 0))
    for start in range(0, observed.size, _SLICE):
        positions = np.arange(start, min(start + _SLICE, observed.size), dtype=np.int64)
        source = rearrangement.source(positions)
        said = (source >= 0) & written[positions]
        positions, source = positions[said], source[said]
        predicted = observed[positions] == expected[source]
        explained += int(np.count_nonzero(predicted & (observed[positions] != expected[positions])))
        contradicted += int(np.count_nonzero(~predicted))
    return Explanation(rearrangement, explained, int(left.size), contradicted, silent)
