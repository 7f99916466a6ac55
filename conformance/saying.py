"""How commands speak: data to stdout, remarks to stderr, files whole; nothing said acts on the terminal.

Only here, in the consoles and in the entry point does anything reach the two streams (a test holds that).
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from tileproof.conformance.visible import visible, visible_text
from tileproof.oracle.refusal import Refusal


def say(text: str) -> None:
    """Data: a line, or several."""
    sys.stdout.write(visible_text(text) + "\n")


def say_lines(lines: Iterable[str]) -> None:
    """Data: lines."""
    for line in lines:
        say(line)


def remark(text: str) -> None:
    """Not data: a line on stderr."""
    sys.stderr.write(visible(text) + "\n")


def write_file(path: Path, text: str, *, hint: str = "give another file") -> None:
    """A file that the user asked for, and on stderr that it was written.

    Raises:
        Refusal: it cannot be written.
    """
    try:
        size = path.write_bytes(text.encode(errors="backslashreplace"))
    except OSError as error:
        raise Refusal(f"{path}: cannot be written: {error.strerror}", hint=hint) from None
    remark(f"wrote {path}, {_size(size)}")


def _size(size_bytes: int) -> str:
    return f"{size_bytes} bytes" if size_bytes < 10_000 else f"{size_bytes / 1000:,.0f} kB"
