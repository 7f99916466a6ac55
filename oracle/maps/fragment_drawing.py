"""A picture of a fragment map: the matrix as a grid, each box with the lane and register that hold it.

A box spans the neighbouring elements of a row that share a register. "T14 r3" is register 3 of lane 14; the shade
changes from group to group of four lanes, so rows of a group are seen at a glance. SVG, by the standard library alone.
"""

from collections.abc import Iterator
from itertools import groupby
from xml.sax.saxutils import escape

from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.oracle.refusal import Refusal

#: Boxes beyond which a picture is of no use.
BOX_LIMIT = 4096

_BOX_WIDTH, _BOX_HEIGHT, _MARGIN, _TITLE = 48, 18, 36, 54
_LANES_OF_GROUP, _HUES, _LETTER_WIDTH = 4, 8, 7


def draw_fragment(fragment: FragmentMap) -> str:
    """The picture as SVG text.

    Raises:
        Refusal: more than `BOX_LIMIT` boxes.
    """
    boxes = list(boxes_of(fragment))
    if len(boxes) > BOX_LIMIT:
        raise Refusal(
            f"{fragment}: {len(boxes)} boxes, the limit is {BOX_LIMIT}",
            hint="draw a smaller N: the accumulators repeat every 8 columns",
        )
    span = min(width for _, _, width, _, _ in boxes)  # elements under one standard box
    cell = _BOX_WIDTH / span
    width = max(_MARGIN + round(fragment.columns * cell), _LETTER_WIDTH * len(fragment.formula)) + 4
    height = _TITLE + fragment.rows * _BOX_HEIGHT + 4
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="10">',
        f"<title>{escape(str(fragment))}</title>",
        _text(4, 12, str(fragment)),
        _text(4, 26, fragment.formula),
    ]
    lines += [
        _text(_MARGIN + column * cell + 2, _TITLE - 6, str(column)) for column in range(0, fragment.columns, span)
    ]
    lines += [_text(4, _TITLE + row * _BOX_HEIGHT + 13, str(row)) for row in range(fragment.rows)]
    for row, column, count, lane, register in boxes:
        x, y = _MARGIN + column * cell, _TITLE + row * _BOX_HEIGHT
        hue = lane // _LANES_OF_GROUP % _HUES * 360 // _HUES
        lines.append(
            f'<rect x="{x:g}" y="{y}" width="{count * cell:g}" height="{_BOX_HEIGHT}" '
            f'fill="hsl({hue},60%,88%)" stroke="#666"/>'
        )
        lines.append(_text(x + 2, y + 13, f"T{lane} r{register}"))
    return "\n".join([*lines, "</svg>", ""])


def boxes_of(fragment: FragmentMap) -> Iterator[tuple[int, int, int, int, int]]:
    """Row, first column, number of columns, lane and register of every box."""
    for row in range(fragment.rows):
        places = [(column, fragment.place(row, column)) for column in range(fragment.columns)]
        for (lane, register), run in groupby(places, key=lambda entry: entry[1][:2]):
            columns = [column for column, _ in run]
            yield row, columns[0], len(columns), lane, register


def _text(x: float, y: int, text: str) -> str:
    return f'<text x="{x:g}" y="{y}">{escape(text)}</text>'
