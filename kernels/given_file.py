"""Files that a person names: read where they are regular and of a size that is expected, else refused in one line.

Whatever else a name may lead to would hang (a FIFO that nobody writes), never end (/dev/zero) or is no file (a folder).
It is asked before the file is opened, since to open a device may do something, and again of what was opened. No more is
read than the limit, whatever size the file says it has: it may grow, and files of /proc say 0.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tileproof.oracle.refusal import Refusal

MAX_TEXT_BYTES = 1 << 26
"""Of CUDA source and PTX: generated kernels take some megabytes."""
_PIECE_BYTES = 1 << 18

_KINDS: Mapping[str, Callable[[int], bool]] = {
    "a folder": stat.S_ISDIR,
    "a FIFO": stat.S_ISFIFO,
    "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
    "a socket": stat.S_ISSOCK,
}


@contextmanager
def opened(path: Path, *, hint: str = "") -> Iterator[BinaryIO]:
    """A regular file, open for reading; what goes wrong while it is read is refused as well.

    Args:
        path: of the file; links are followed.
        hint: what to do where it cannot be read.

    Raises:
        Refusal: there is no such file, it may not or cannot be read, or is not a regular one.
    """
    try:
        _must_be_regular(path, _mode(path), hint)
        with open(path, "rb", opener=_without_waiting) as file:
            _must_be_regular(path, os.fstat(file.fileno()).st_mode, hint)
            yield file
    except OSError as error:
        dangles = isinstance(error, FileNotFoundError) and os.path.islink(path)
        reason = "it is a link to a file that is not there" if dangles else error.strerror or error
        raise Refusal(f"{path}: cannot be read: {reason}", hint=hint) from None


def read_given(path: Path, most_bytes: int, *, hint: str = "") -> bytes:
    """All bytes of a file. Raises: Refusal, as `opened`, and of a file of more than `most_bytes`."""
    with opened(path, hint=hint) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > most_bytes else _up_to(file, most_bytes + 1)
    if max(size, len(data)) > most_bytes:
        raise Refusal(f"{path}: {max(size, len(data))} bytes, more than the {most_bytes} that are read", hint=hint)
    return data


def _up_to(file: BinaryIO, most_bytes: int) -> bytes:
    """Piece by piece, since `read` makes room for all that it is asked for."""
    pieces: list[bytes] = []
    left = most_bytes
    while piece := file.read(min(_PIECE_BYTES, left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def read_given_text(path: Path, most_bytes: int = MAX_TEXT_BYTES, *, hint: str = "", no_text: str = "") -> str:
    """The text of a file of UTF-8, its lines ended by newlines alone.

    Args:
        path: of the file.
        most_bytes: that it may have.
        hint: what to do where it cannot be read.
        no_text: what to do where it is no text.

    Raises:
        Refusal: as `read_given`, and where it is no text.
    """
    data = read_given(path, most_bytes, hint=hint)
    try:
        return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise Refusal(f"{path}: is no text: {error.reason} at byte {error.start}", hint=no_text or hint) from None


def _without_waiting(path: str, flags: int) -> int:
    """As `open` opens, but of a FIFO that took the file's place it does not wait for the other end."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _mode(path: Path) -> int:
    try:
        return os.stat(path).st_mode
    except ValueError as error:  # a NUL in the name
        raise OSError(str(error)) from None


def _must_be_regular(path: Path, mode: int, hint: str) -> None:
    if stat.S_ISREG(mode):
        return
    kind = next((kind for kind, holds in _KINDS.items() if holds(mode)), "something else")
    piped = "what comes through a pipe goes into a file first" if kind == "a FIFO" else hint
    raise Refusal(f"{path}: is {kind}, no regular file", hint=piped)
