"""A fragment: which lane and register of a matrix instruction hold which elements."""

import re

from tileproof.conformance.drawings.picture import Box, Picture, Row
from tileproof.oracle.fragments import find_fragments
from tileproof.oracle.maps.fragment_drawing import boxes_of
from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.oracle.maps.ldmatrix import ldmatrix
from tileproof.oracle.refusal import Refusal

OPERANDS = ("a", "b", "c")
_LDMATRIX = re.compile(r"ldmatrix\.x([124])(\.trans)?")
_LANES_OF_GROUP = 4


def find_fragment(name: str, operand: str) -> FragmentMap:
    """The map of one operand.

    Raises:
        Refusal: no such instruction or operand, or one that lies in shared memory.
    """
    if found := _LDMATRIX.fullmatch(name):
        return ldmatrix(int(found[1]), transposed=found[2] is not None)
    if name.startswith("ldmatrix"):
        raise Refusal(f"{name!r} is no ldmatrix", hint="ldmatrix.x1, .x2 or .x4, and .trans behind it or not")
    if operand not in OPERANDS:
        raise Refusal(f"no operand {operand!r}", hint="a, b, or c, the accumulators")
    fragments = find_fragments(name)
    one: FragmentMap | None = getattr(fragments, operand)
    if one is None:
        raise Refusal(f"operand {operand} of {name} lies in shared memory", hint="tileproof show swizzle 128")
    return one


def draw_fragment_map(name: str, operand: str) -> Picture:
    """The matrix as a grid; a box spans the neighbours of a row that share a register."""
    fragment = find_fragment(name, operand)
    rows: dict[int, list[Box]] = {}
    for row, _, count, lane, register in boxes_of(fragment):
        rows.setdefault(row, []).append(Box(f"T{lane} r{register}", lane // _LANES_OF_GROUP, count))
    span = min(box.span for row in rows.values() for box in row)
    return Picture(
        title=str(fragment),
        under=(fragment.formula,),
        columns=tuple(str(at) if at % span == 0 else "" for at in range(fragment.columns)),
        rows=tuple(Row(str(row), tuple(boxes)) for row, boxes in rows.items()),
        notes=(f"T14 r3 is register 3 of lane 14; {fragment.evidence.value}: {fragment.source}",),
    )
