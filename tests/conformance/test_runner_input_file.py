import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tileproof.conformance.input_file import read_input
from tileproof.oracle.refusal import Refusal

F32 = np.arange(12, dtype=np.float32).reshape(3, 4)


def safetensors(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def npy_claiming(shape: str, dtype: str = "'<f4'", data: bytes = b"") -> bytes:
    header = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}}}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def npz(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def test_an_npy_gives_its_tensor_under_the_files_stem(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", F32)
    (tensor,) = read_input(str(tmp_path / "w.npy")).tensors
    assert (tensor.name, tensor.index) == ("w", 0)
    assert tensor.array.tobytes() == F32.tobytes()


@pytest.mark.parametrize("array", [np.asfortranarray(F32), F32.astype(">f4")], ids=["fortran", "big-endian"])
def test_order_in_the_file_does_not_change_the_values(tmp_path: Path, array: NDArray[Any]) -> None:
    np.save(tmp_path / "w.npy", array)
    (tensor,) = read_input(str(tmp_path / "w.npy")).tensors
    assert tensor.array.dtype == np.float32
    assert tensor.array.tobytes() == F32.tobytes()


def test_an_npz_gives_every_matrix_and_says_why_others_are_left_out(tmp_path: Path) -> None:
    np.savez_compressed(
        tmp_path / "w.npz", a=F32, b=F32.astype(np.float16), c=F32[0], d=F32.astype(np.int32), e=F32[:0]
    )
    found = read_input(str(tmp_path / "w.npz"))
    assert [tensor.name for tensor in found.tensors] == ["a", "b"]
    reasons = {skipped.name: skipped.reason for skipped in found.skipped}
    assert reasons["c"] == "it has 1 dimensions, not 2"
    assert "int32" in reasons["d"]
    assert "empty" in reasons["e"]


def test_safetensors_written_by_its_own_library_come_bit_for_bit(tmp_path: Path) -> None:
    bf16 = np.array([[1.5, -0.0], [np.nan, 3e38]], ml_dtypes.bfloat16)
    tensors: dict[str, NDArray[Any]] = {"w": F32, "half": F32.astype(np.float16), "brain": bf16, "bias": F32[0]}
    save_file(tensors, tmp_path / "m.safetensors", metadata={"format": "np"})
    found = read_input(str(tmp_path / "m.safetensors"))
    assert {t.name: (t.array.dtype, t.array.tobytes()) for t in found.tensors} == {
        name: (tensors[name].dtype, tensors[name].tobytes()) for name in ("w", "half", "brain")
    }
    assert [skipped.name for skipped in found.skipped] == ["bias"]


def test_a_name_behind_the_colon_chooses_tensors(tmp_path: Path) -> None:
    save_file({"l.0.w": F32, "l.1.w": F32, "head": F32}, tmp_path / "m.safetensors")
    path = str(tmp_path / "m.safetensors")
    assert [tensor.name for tensor in read_input(f"{path}:head").tensors] == ["head"]
    assert sorted(tensor.name for tensor in read_input(f"{path}:l.*").tensors) == ["l.0.w", "l.1.w"]
    with pytest.raises(Refusal) as refusal:
        read_input(f"{path}:tail")
    assert "holds no tensor 'tail'" in str(refusal.value)
    assert "head" in refusal.value.hint


ENTRY = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}

BAD_FILES: dict[str, tuple[str, bytes, str]] = {
    "unknown kind": ("w.pt", b"PK", "unknown kind of file"),
    "empty npy": ("w.npy", b"", "not a readable .npy header"),
    "npy without magic": ("w.npy", b"hello world, this is not numpy", "not a readable .npy header"),
    "npy with truncated header": ("w.npy", npy(F32)[:20], "its header claims 118 bytes, the file has 10"),
    "npy with truncated data": ("w.npy", npy(F32)[:-1], "needs 48 bytes, the file holds 47"),
    "npy that claims too much": ("w.npy", npy_claiming("(1 << 40, 4)".replace("1 << 40", str(1 << 40))), "needs"),
    "npy of negative shape": ("w.npy", npy_claiming("(-2, -2)", data=b"\0" * 16), "shape (-2, -2)"),
    "npy of pickled objects": ("w.npy", npy(np.array([[{}]], object)), "pickled Python objects"),
    "npy whose header is code": ("w.npy", npy_claiming("__import__('os')"), "not a readable .npy header"),
    "npy of bfloat16": ("w.npy", npy(F32.astype(ml_dtypes.bfloat16)), "nameless two-byte type"),
    "npy of a vector": ("w.npy", npy(F32[0]), "1 dimensions, not 2"),
    "npy of doubles": ("w.npy", npy(F32.astype(np.float64)), "float64"),
    "npz that is no archive": ("w.npz", b"hello", "not a readable .npz archive"),
    "npz that is empty": ("w.npz", npz(), "it is empty"),
    "npz of pickled objects": ("w.npz", npz(a=npy(np.array([[{}]], object))), "pickled Python objects"),
    "npz with a damaged member": ("w.npz", npz(a=b"hello"), "not a readable .npy header"),
    "npz with a flipped byte": ("w.npz", npz(a=npy(F32)).replace(b"\x93NUMPY", b"\x93NUMPX"), "cannot be unpacked"),
    "safetensors too short": ("m.safetensors", b"\0\0", "after the length"),
    "safetensors with huge header": ("m.safetensors", safetensors({}, length=1 << 62), "after the length"),
    "safetensors with truncated header": ("m.safetensors", safetensors({"a": ENTRY})[:20], "after the length"),
    "safetensors of no JSON": ("m.safetensors", safetensors(b"{{{{"), "not readable JSON"),
    "safetensors with a list": ("m.safetensors", safetensors([1]), "not an object"),
    "safetensors nested deep": ("m.safetensors", safetensors(b"[" * 100_000), "not readable JSON"),
    "safetensors without offsets": ("m.safetensors", safetensors({"a": {"dtype": "F32"}}), "lacks dtype, shape"),
    "safetensors with text offsets": ("m.safetensors", safetensors({"a": {**ENTRY, "shape": ["2", 2]}}), "not a name"),
    "safetensors beyond its end": ("m.safetensors", safetensors({"a": ENTRY}, b"\0" * 8), "lies outside the 8 bytes"),
    "safetensors of wrong size": (
        "m.safetensors",
        safetensors({"a": {**ENTRY, "shape": [1 << 40, 1 << 40]}}, b"\0" * 16),
        "the file holds 16",
    ),
    "safetensors of integers": ("m.safetensors", safetensors({"a": {**ENTRY, "dtype": "I32"}}, b"\0" * 16), "I32"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_gives_one_clear_line(tmp_path: Path, name: str) -> None:
    filename, data, message = BAD_FILES[name]
    if name == "npz with a flipped byte":  # the checksum is over the data, which is stored plain here
        buffer = io.BytesIO()
        np.savez(buffer, a=F32)
        data = buffer.getvalue().replace(F32.tobytes(), bytes(48))
    path = tmp_path / filename
    path.write_bytes(data)
    with pytest.raises(Refusal) as refusal:
        read_input(str(path))
    assert message in refusal.value.message
    assert filename in refusal.value.message
    assert "\n" not in refusal.value.message


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no such file"):
        read_input(str(tmp_path / "gone.npy"))
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(Refusal, match="is a folder"):
        read_input(str(tmp_path / "folder.npy"))


def test_an_archive_that_unpacks_to_too_much_is_refused_unread(tmp_path: Path) -> None:
    claimed = npz(a=npy_claiming(f"({1 << 31}, 4)"))
    huge = claimed.replace(struct.pack("<I", 128), struct.pack("<I", 0xFFFFFFFE))  # sizes in both of its headers
    (tmp_path / "w.npz").write_bytes(huge)
    with pytest.raises(Refusal):
        read_input(str(tmp_path / "w.npz"))
