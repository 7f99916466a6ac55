"""A picture as SVG, by the standard library alone: it stands by itself, in a page or in a document."""

from xml.sax.saxutils import escape

from tileproof.conformance.drawings.picture import Box, Picture, placed, wrapped

LETTER, HEIGHT, PAD = 6.1, 20, 8
"""Width of a letter of the boxes' font, height of a row, and the margin, in pixels."""
LEAST_COLUMN = 10
HUES = 8


def svg(picture: Picture) -> str:
    """The picture as SVG text."""
    column = _column(picture)
    left = PAD + (1 + max((len(row.label) for row in picture.rows), default=0)) * LETTER
    under, notes = [picture.title, *wrapped(picture.under)], wrapped(picture.notes)
    top = PAD + 16 * len(under) + HEIGHT
    bottom = top + HEIGHT * len(picture.rows) + 10
    texts = [*under, *notes]
    width = round(max(left + column * len(picture.columns), *(PAD + LETTER * len(text) for text in texts)) + PAD)
    height = bottom + 16 * len(notes) + PAD
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="10">',
        f"<title>{escape(picture.title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        *(_text(PAD, PAD + 10 + 16 * at, text, bold=at == 0) for at, text in enumerate(under)),
        *(_text(left + at * column + 2, top - 6, head) for at, head in enumerate(picture.columns) if head),
    ]
    for down, row in enumerate(picture.rows):
        y = top + down * HEIGHT
        parts.append(_text(PAD, y + 14, row.label))
        parts += [_box(box, left + at * column, y, column) for at, box in placed(row)]
    parts += [_text(PAD, bottom + 12 + 16 * at, text) for at, text in enumerate(notes)]
    return "\n".join([*parts, "</svg>", ""])


def _column(picture: Picture) -> float:
    """The width of a column, into which every box's text and every head fits."""
    needed = [(len(box.text) * LETTER + 5) / box.span for row in picture.rows for box in row.boxes]
    heads = [at for at, head in enumerate(picture.columns) if head]
    for at, after in zip(heads, [*heads[1:], len(picture.columns)], strict=True):
        needed.append((len(picture.columns[at]) * LETTER + 4) / (after - at))
    return max(LEAST_COLUMN, *needed)


def _box(box: Box, x: float, y: int, column: float) -> str:
    fill = "none" if box.hue is None else f"hsl({box.hue % HUES * 360 // HUES},60%,88%)"
    stroke = "#666" if box.text else "#ddd"
    frame = f'<rect x="{x:g}" y="{y}" width="{box.span * column:g}" height="{HEIGHT}" fill="{fill}" stroke="{stroke}"/>'
    return frame + (_text(x + 3, y + 14, box.text) if box.text else "")


def _text(x: float, y: int, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y}"{weight} xml:space="preserve" fill="#222">{escape(text)}</text>'
