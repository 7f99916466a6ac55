"""Operands of a product that are read elsewhere: k exchanged, segments not unswizzled, rows of another fragment, K cut.

Each rule is a pair of indices into an operand [rows, K]; what they pick goes through the right product. -1 is a zero.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.triage.cause import Cause

Array = NDArray[Any]

SEGMENT = 16
"""Bytes that a swizzle keeps together."""

TILES = (32, 64, 128)


@dataclass(frozen=True)
class Misread:
    """What both operands would be."""

    cause: Cause
    text: str
    a: Array
    b: Array


def misread(a: Array, b: Array) -> Iterator[Misread]:
    """Every way, for operands [.., M, K] and [.., N, K] of one byte an element."""
    k = np.arange(a.shape[-1])
    for cause, text, place in _cuts(len(k)):
        yield Misread(cause, text, _k(a, place), _k(b, place))
    if not a.size or not b.size:
        return
    rows = [np.arange(operand.shape[-2])[:, np.newaxis] for operand in (a, b)]
    for of_a, of_b in zip(*(_places(row, k[np.newaxis]) for row in rows), strict=True):
        x, y = _picked(a, *of_a[2:]), _picked(b, *of_b[2:])
        for name, pair in (("A and B", (x, y)), ("A", (x, b)), ("B", (a, y))):
            if not (np.array_equal(pair[0], a) and np.array_equal(pair[1], b)):
                exchanged = name == "A and B" and of_a[2].shape[-1] == of_a[3].shape[0] == 1  # the same terms
                yield Misread(Cause.ORDER_OF_SUM if exchanged else of_a[0], f"{name}: {of_a[1]}", *pair)


def _cuts(depth: int) -> Iterator[tuple[Cause, str, Array]]:
    """Parts of K that are left out or taken twice, of both operands."""
    k = np.arange(depth)
    for extent in (16, 32, 64, 128):
        stages = -(-depth // extent)
        if depth % extent:
            whole = depth // extent * extent
            yield Cause.PART_OF_K, f"K mod {extent} elements at the end are left out", np.where(k < whole, k, -1)
        for stage in (stages - 1, 0, *range(1, min(stages - 1, 8))):
            inside = k // extent == stage
            if not inside.all():
                text = f"elements {stage * extent} to {min(depth, stage * extent + extent) - 1} of K are left out"
                yield Cause.PART_OF_K, text, np.where(inside, -1, k)
        if stages > 1:
            before = np.where(k >= extent, k - extent, k)
            for stage in range(1, min(stages, 8)):
                text = f"stage {stage} of {extent} elements of K is the one before it once more"
                yield Cause.PART_OF_K, text, np.where(k // extent == stage, before, k)
            yield Cause.PART_OF_K, f"each stage of {extent} elements of K after the first is the one before it", before


def _places(row: Array, k: Array) -> Iterator[tuple[Cause, str, Array, Array]]:
    """(cause, text, row, k) of where each element is taken from; -1 for nowhere."""
    depth, rows = k.size, row.size
    for distance in (16, 2, 1, 3, 4, 8, 32, 64):
        other = k ^ distance
        yield Cause.OPERAND_MISPLACED, f"k is read at k xor {distance}", row, np.where(other < depth, other, k)
    for tile in TILES:
        for text, twist in _twists(row, tile // SEGMENT):
            other = (k // SEGMENT ^ twist) * SEGMENT + k % SEGMENT
            where = f"segments of {SEGMENT} in {tile} elements of K are exchanged by {text}"
            yield Cause.OPERAND_MISPLACED, where, row, np.where(other < depth, other, -1)
    for distance in (1, 2, 4, 8, 16, 32, 64):
        other = row ^ distance
        yield Cause.OPERAND_MISPLACED, f"row r is row r xor {distance}", np.where(other < rows, other, row), k
        yield Cause.OPERAND_MISPLACED, f"row r is row r and not {distance}", row & ~distance, k
    for fragment, tile in ((16, 64), (32, 64), (32, 128), (64, 128), (16, 128), (8, 64)):
        other = row // tile * tile + (row % tile + row % tile // fragment * fragment) % tile
        text = f"row r of a tile of {tile} is r + the first of its {fragment}"
        yield Cause.OPERAND_MISPLACED, text, np.where(other < rows, other, -1), k
    for line in range(4):
        for step in (1, 2, 3):
            turned = (row & ~3) | ((row - step) & 3)
            text = f"of every four k the one at {line} is of the row {step} before, among four"
            chosen = np.where((k % 4 == line) & (turned < rows), turned, row)
            yield Cause.OPERAND_MISPLACED, text, chosen, k
    for step in (1, 2, 3):
        turned = (row & ~3) | ((row + step * (k % 4)) & 3)
        text = f"bytes of a word are of the rows {step} on, among four"
        yield Cause.OPERAND_MISPLACED, text, np.where(turned < rows, turned, row), k
    odd = k % 2 == 1
    before = np.where(odd, np.where(row % 4 > 0, row - 1, row + 3), row)
    other = np.where(odd & (row % 4 == 0), k - 1, k)
    text = "of two lines of K, bytes of the second are taken one too early"
    yield Cause.OPERAND_MISPLACED, text, np.where(before < rows, before, row), other
    mirrored = (row & ~3) | (3 - (row & 3))
    yield Cause.OPERAND_MISPLACED, "of each four rows the last comes first", np.where(mirrored < rows, mirrored, row), k


def _twists(row: Array, segments: int) -> Iterator[tuple[str, Array]]:
    """By what a segment's number is off where a swizzle is missing, is another one, or begins at another address."""
    for shift in (0, 1, 2, 3):
        for lines in dict.fromkeys((segments, 8)):
            yield f"row / {1 << shift} mod {lines}", (row >> shift) % lines % segments
    for first, second in ((0, 1), (0, 2), (1, 2)):
        text = f"row / {1 << first} xor row / {1 << second}, mod {segments}"
        yield text, ((row >> first) ^ (row >> second)) % segments
    for shift in (0, 1, 2):
        for base in range(1, segments << shift):
            text = f"a base {base} rows away, of a swizzle by row / {1 << shift} mod {segments}"
            yield text, ((row + base >> shift) ^ (row >> shift)) % segments


def _k(operand: Array, place: Array) -> Array:
    found = operand[..., np.maximum(place, 0)]
    found[..., place < 0] = 0
    return np.asarray(found)


def _picked(operand: Array, row: Array, column: Array) -> Array:
    row, column = np.broadcast_arrays(row, column)
    found = operand[..., np.maximum(row, 0), np.maximum(column, 0)]
    found[..., (row < 0) | (column < 0)] = 0
    return np.asarray(found)


def steps_backwards(operand: Array, stage: int, step: int = 32) -> Array:
    """K with the steps of each stage in descending order: what a chain that runs backwards adds."""
    k = np.arange(operand.shape[-1])
    steps = np.minimum(stage, operand.shape[-1] - k // stage * stage) // step
    place = k // stage * stage + (steps - 1 - k % stage // step) * step + k % step
    return np.asarray(operand[..., np.where((place >= 0) & (place < len(k)), place, k)])
