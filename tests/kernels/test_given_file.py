"""Files that a person names: regular ones alone, bounded, and one line for everything else."""

import os
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tileproof.kernels.given_file import opened, read_given, read_given_text
from tileproof.oracle.refusal import Refusal

MOST = 1000


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # of which nothing is on the disk


def _closed(path: Path) -> None:
    path.write_text("text")
    path.chmod(0)


NOBODY = 65_534
"""A user without rights."""

MADE: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda path: None, "cannot be read: No such file"),
    "a folder": (Path.mkdir, "is a folder, no regular file"),
    "a FIFO": (os.mkfifo, "is a FIFO, no regular file"),
    "a socket": (_socket, "is a socket, no regular file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "is a device, no regular file"),
    "a link to nothing": (lambda path: path.symlink_to("gone"), "it is a link to a file that is not there"),
    "a link to itself": (lambda path: path.symlink_to(path), "symbolic links"),
    "too large": (_large, f"{1 << 40} bytes, more than the {MOST} that are read"),
    "closed": (_closed, "cannot be read: Permission denied"),
}


@pytest.fixture(params=MADE)
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A path to what is no file to read, and what must be said of it."""
    make, says = MADE[request.param]
    path = tmp_path / "file"
    make(path)
    is_root = request.param == "closed" and os.geteuid() == 0
    if is_root:  # who may read everything
        os.seteuid(NOBODY)
    yield path, says
    if is_root:
        os.seteuid(0)


def test_what_is_no_file_of_the_expected_size_is_refused_in_one_line(odd: tuple[Path, str]) -> None:
    path, says = odd
    with pytest.raises(Refusal) as caught:
        read_given(path, MOST)
    assert says in caught.value.message
    assert caught.value.message.startswith(f"{path}: ")
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(Refusal, match="cannot be read"):
        read_given(Path(name), MOST)


def test_a_file_is_read_up_to_its_limit_and_not_beyond(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * MOST)
    assert read_given(path, MOST) == b"x" * MOST
    with pytest.raises(Refusal, match="1000 bytes, more than the 999"):
        read_given(path, MOST - 1)


def test_a_small_file_takes_little_memory_whatever_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1_000_000)
    tracemalloc.start()
    try:
        assert len(read_given(path, 1 << 40)) == 1_000_000
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def test_a_file_that_says_that_it_is_empty_is_bounded_all_the_same() -> None:
    """Files of /proc say that they have no bytes."""
    assert Path("/proc/self/maps").stat().st_size == 0
    with pytest.raises(Refusal, match="more than the 10 that are read"):
        read_given(Path("/proc/self/maps"), 10)


def test_what_takes_the_place_of_a_file_after_it_was_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A FIFO would otherwise be waited for."""
    path, stat = tmp_path / "file", os.stat
    path.write_text("text")
    before = stat(path)
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(os, "stat", lambda name: before)
    late = threading.Timer(5.0, lambda: path.write_text("late"))
    late.start()
    with pytest.raises(Refusal, match="is a FIFO"):
        read_given(path, MOST)
    late.cancel()


def test_what_fails_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("text")
    with pytest.raises(Refusal, match="cannot be read: Input/output error"), opened(path):
        raise OSError(5, "Input/output error")
    with pytest.raises(ValueError, match="null byte"), opened(path):
        raise ValueError("embedded null byte of the reader's own")


def test_a_text_has_lines_of_one_kind_and_what_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes("größe\r\nb\rc\n".encode())
    assert read_given_text(path) == "größe\nb\nc\n"
    path.write_bytes(b"ab\xff")
    with pytest.raises(Refusal, match="is no text: invalid start byte at byte 2") as caught:
        read_given_text(path, hint="another", no_text="a text")
    assert caught.value.hint == "a text"
