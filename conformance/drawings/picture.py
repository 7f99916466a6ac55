"""A picture as a grid of labelled boxes; the terminal and SVG draw the same one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from textwrap import wrap

from tileproof.oracle.refusal import Refusal

BOX_LIMIT = 4096
"""Boxes beyond which a picture is of no use."""
TEXT_WIDTH = 100
"""Letters of a line above or below the grid."""


@dataclass(frozen=True)
class Box:
    """One box.

    Args:
        text: in it; empty for nothing there.
        hue: a small number; boxes of one hue belong together. None for no colour.
        span: columns that it takes.
    """

    text: str
    hue: int | None = None
    span: int = 1


@dataclass(frozen=True)
class Row:
    """Boxes beside each other, and what stands before them."""

    label: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class Picture:
    """What to draw.

    Args:
        title: one line.
        under: lines below the title.
        columns: what stands over each column.
        rows: of boxes, whose spans add up to the columns.
        notes: lines below the grid.

    Raises:
        Refusal: more than `BOX_LIMIT` boxes.
    """

    title: str
    under: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        boxes = sum(len(row.boxes) for row in self.rows)
        if boxes > BOX_LIMIT:
            raise Refusal(f"{self.title}: {boxes} boxes; the most is {BOX_LIMIT}", hint="draw a smaller part")
        assert all(sum(box.span for box in row.boxes) == len(self.columns) for row in self.rows)


def placed(row: Row) -> Iterator[tuple[int, Box]]:
    """Each box of a row with the column at which it begins."""
    yield from zip(accumulate((box.span for box in row.boxes), initial=0), row.boxes, strict=False)


def wrapped(texts: Iterable[str]) -> list[str]:
    """Lines of at most `TEXT_WIDTH` letters, words whole."""
    return [line for text in texts for line in wrap(text, TEXT_WIDTH, break_long_words=False, break_on_hyphens=False)]
