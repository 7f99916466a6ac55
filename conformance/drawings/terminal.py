"""A picture as lines of text: columns as wide as their widest box needs, boxes in order, no colour."""

from collections.abc import Sequence

from tileproof.conformance.drawings.picture import Picture, placed, wrapped

GAP = 1


def lines(picture: Picture) -> list[str]:
    """The picture, its title first."""
    widths = _widths(picture)
    label = max((len(row.label) for row in picture.rows), default=0)
    starts = [label + 1 + sum(widths[:at]) + GAP * at for at in range(len(widths))]
    heads = [(start, text) for start, text in zip(starts, picture.columns, strict=True) if text]
    drawn = [_line("", heads)] if heads else []
    for row in picture.rows:
        drawn.append(_line(row.label.rjust(label), [(starts[at], box.text) for at, box in placed(row)]))
    notes = ["", *wrapped(picture.notes)] if picture.notes else []
    return [picture.title, *wrapped(picture.under), "", *drawn, *notes]


def _widths(picture: Picture) -> list[int]:
    """Of the columns: each box fits into those that it spans, and each head over its own."""
    widths = [1] * len(picture.columns)
    for at, head in enumerate(picture.columns):
        after = next((n for n in range(at + 1, len(widths)) if picture.columns[n]), len(widths))
        _widen(widths, at, after - at, len(head))
    for row in picture.rows:
        for at, box in placed(row):
            _widen(widths, at, box.span, len(box.text))
    return widths


def _widen(widths: list[int], first: int, span: int, needed: int) -> None:
    missing = needed - sum(widths[first : first + span]) - GAP * (span - 1)
    for at in range(max(0, missing)):
        widths[first + at % span] += 1


def _line(label: str, texts: Sequence[tuple[int, str]]) -> str:
    line = label
    for start, text in texts:
        line = line.ljust(start) + text
    return line.rstrip()
