"""Damaged files of every kind end in an answer or in one line, within little memory; 10**5 in the slow lane."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hostile_files import End, Kind, end_of, judge

from tileproof.conformance.input_file import read_input
from tileproof.conformance.mutation.result import read_results
from tileproof.oracle.refusal import Refusal

FILES, CHUNK, GATE_FILES = 100_000, 10_000, 1_600


def npy(header: str, version: bytes = b"\x01\x00", claimed: int | None = None) -> bytes:
    """A .npy file of one header and 8 bytes."""
    text = header.encode("latin1") + b"\n"
    length = (len(text) if claimed is None else claimed).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + length + text + bytes(8)


@pytest.mark.parametrize(
    "data",
    [
        # NumPy asks for as much memory as the header claims before it reads.
        npy("{}", b"\x02\x00", 1_500_000_000),
        # NumPy's repair of headers of Python 2 stumbles over an open bracket.
        npy("{'descr': '<f4', 'shape': (1, 2L, 'fortran_order': False"),
    ],
)
def test_a_damaged_array_is_refused_within_little_memory(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    path.write_bytes(data)
    assert end_of(Kind(".npy", lambda file: read_input(str(file)), ()), path) == End("refused")


def test_an_array_written_by_python_2_is_read_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    path.write_bytes(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1L, 2L)}"))
    assert read_input(str(path)).tensors[0].array.shape == (1, 2)


def test_an_archive_of_a_later_version_of_zip_is_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.savez(stream, a=np.zeros((2, 2), np.float32))
    data = bytearray(stream.getvalue())
    (entry,) = (at for at in range(len(data)) if data[at : at + 4] == b"PK\x01\x02")
    data[entry + 6] = 163  # version needed to extract
    path = tmp_path / "arrays.npz"
    path.write_bytes(data)
    with pytest.raises(NotImplementedError):
        zipfile.ZipFile(path)
    with pytest.raises(Refusal, match="not a readable"):
        read_input(str(path))


@pytest.mark.parametrize("line", [b"\xff\xfe\n{}\n", b"[" * 5000 + b"\n{}\n", b'{"tried": ' + b"9" * 5000 + b"}\n{}\n"])
def test_results_of_mutants_that_are_none_are_refused(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "results.ndjson"
    path.write_bytes(line)
    with pytest.raises(Refusal, match="not a result"):
        read_results(path)


def test_a_reader_that_fails_or_takes_much_memory_is_caught(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    assert end_of(Kind("", lambda file: [][0], ()), path) == End("IndexError: list index out of range")
    assert not end_of(Kind("", lambda file: bytes(100 << 20), ()), path).is_allowed
    assert end_of(Kind("", lambda file: file.read_bytes(), ()), path) == End("read")


def test_damaged_files_end_in_an_answer_or_in_one_line(tmp_path: Path) -> None:
    counts, bad = judge(tmp_path, range(GATE_FILES))
    assert bad == []
    assert counts["refused"] > GATE_FILES // 2
    assert counts["read"] > GATE_FILES // 100, "damage that no reader can see is read"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(GATE_FILES, GATE_FILES + FILES, CHUNK))
def test_a_hundred_thousand_damaged_files_end_in_an_answer_or_in_one_line(first: int) -> None:
    script = str(Path(__file__).with_name("hostile_files.py"))
    done = subprocess.run([sys.executable, script, str(CHUNK), str(first)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
