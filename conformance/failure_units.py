"""A difference by tile, warp and lane, as lines of a failure's block: the units, in which they lie, and small maps."""

from itertools import zip_longest

import numpy as np

from tileproof.conformance.finding import UnitMap, Units

MAX_ROWS = 16
"""Of a map; rows of a taller one, such as the 64 registers of a wgmma, are joined."""
MAX_WIDTH = 100
GAP = "   "


def unit_lines(units: Units) -> list[str]:
    """What the units are, where it differs, and the maps side by side as far as a line of `MAX_WIDTH` takes them."""
    lines = [f"units  {units.division}", f"       {units.where}"]
    beside: list[list[str]] = []
    for one in units.maps:
        drawn = [one.head, *map(_plain, _joined(one))]
        if beside and sum(max(map(len, block)) + len(GAP) for block in [*beside, drawn]) > MAX_WIDTH:
            lines += _side_by_side(beside)
            beside = []
        beside.append(drawn)
    return lines + _side_by_side(beside)


def _side_by_side(blocks: list[list[str]]) -> list[str]:
    widths = [max(map(len, block)) for block in blocks]
    lines = [
        GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in zip_longest(*blocks, fillvalue="")
    ]
    return [line for line in lines if line]


def _plain(row: str) -> str:
    """The marks of the map of rows and columns: some differ is `+`, however many."""
    return "".join("+" if mark.isdigit() else mark for mark in row)


def _joined(one: UnitMap) -> list[str]:
    """Rows under each other joined, until there are few enough: `+` unless all of them have one mark."""
    parts = np.array_split(np.arange(len(one.rows)), min(MAX_ROWS, len(one.rows)))
    return ["".join(map(_join, zip(*(one.rows[i] for i in part), strict=True))) for part in parts]


def _join(marks: tuple[str, ...]) -> str:
    there = {mark for mark in marks if mark != " "} or {" "}
    return there.pop() if len(there) == 1 else "+"
