"""Rows of words as lines of aligned columns, for tables on the terminal."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int]) -> list[str]:
    """Lines of aligned columns: those of `left` to the left, others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if i in left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
