"""A user's own tensors: .npy, .npz and .safetensors files, read without trusting them.

Taken is every two-dimensional tensor of bfloat16, float16 or float32; the others are listed with the reason.
`FILE:NAME` takes the tensors whose name matches (exact, or a glob: `model.safetensors:*.query.weight`). A tensor in an
.npy file is called by the file's stem. Numbers are read as stored: no conversion but that of the byte order.

Every size that a header claims is checked against the bytes that are there before anything is allocated, and nothing
is unpickled. NumPy does not keep the name bfloat16 in its files (it stores a nameless two-byte type), so bfloat16
tensors come as .safetensors.
"""

import io
import math
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.records import parse_json, shorten
from tileproof.conformance.visible import visible
from tileproof.kernels.given_file import opened
from tileproof.oracle.refusal import Refusal

MAX_TENSOR_BYTES = 1 << 32
"""Largest tensor that is taken; a bound on memory. The simulator reaches its own patience much earlier: see --rows."""

MAX_HEADER_BYTES = 100_000_000
"""The limit that the safetensors format sets for its JSON header."""

_TAKEN = {np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)}
_TAKEN_NAMES = "bfloat16, float16 and float32"

_HEADER_ERRORS = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, tokenize.TokenError)
"""What NumPy raises of a damaged header."""

_SAFETENSORS_DTYPES: Mapping[str, np.dtype[Any]] = {
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
}


@dataclass(frozen=True)
class NamedTensor:
    """One tensor of the file: its place among all tensors there, its name, its values."""

    index: int
    name: str
    array: NDArray[Any]


@dataclass(frozen=True)
class SkippedTensor:
    """A tensor that is not taken, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class InputFile:
    """What was found in a file: the tensors taken and those left out, in the order of the file."""

    path: Path
    tensors: tuple[NamedTensor, ...]
    skipped: tuple[SkippedTensor, ...]


@dataclass(frozen=True)
class _Entry:
    """One tensor before it is read; `read` is called only for a tensor that is taken."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    taken: bool
    read: Callable[[], NDArray[Any]]


def read_input(argument: str, *, rows: int | None = None) -> InputFile:
    """The tensors of `FILE` or `FILE:NAME`.

    Args:
        argument: a path, or a path with a colon and the name or glob of tensors in it.
        rows: take only so many first rows of each; what is taken says so in its name (`w[:64]`).

    Raises:
        Refusal: no such file, not of a known kind, damaged, holding pickled objects, or without a tensor to take.
    """
    path, wanted = _split(argument)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise Refusal(f"{path}: unknown kind of file {path.suffix!r}", hint="known are .npy, .npz and .safetensors")
    try:
        with opened(path) as file:
            found = _take(path, list(reader(path, file)), wanted)
    except (MemoryError, OverflowError):
        raise Refusal(f"{path}: needs more memory than there is", hint="name one tensor as FILE:NAME") from None
    if not found.tensors:
        reasons = (
            "; ".join(f"{visible(skipped.name)}: {skipped.reason}" for skipped in found.skipped[:3]) or "it is empty"
        )
        raise Refusal(f"{path}: no tensor to take ({reasons})", hint=f"taken are 2-D tensors of {_TAKEN_NAMES}")
    return found if rows is None else replace(found, tensors=tuple(_cut(tensor, rows) for tensor in found.tensors))


def read_arrays(path: Path, names: tuple[str, ...]) -> Mapping[str, NDArray[Any]]:
    """The raw byte arrays called `names` in one of our own .npz sidecars. Raises: Refusal, as `read_input`."""
    with opened(path) as file:
        entries = {entry.name: entry for entry in _npz_entries(path, file)}
        if missing := [name for name in names if name not in entries or entries[name].dtype != "uint8"]:
            raise Refusal(f"{path}: holds no bytes called {missing[0]!r}")
        return {name: entries[name].read() for name in names}


def read_array(path: Path) -> NDArray[Any]:
    """The one array of a .npy file, of any type but objects. Raises: Refusal, as `read_input`."""
    with opened(path, hint="give a .npy file") as file:
        return _npy_entry(str(path), path.stem, file, path.stat().st_size).read()


def is_there(path: Path) -> bool:
    """Whether there is a file or folder of that name; no name is too long or too odd to ask about."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _cut(tensor: NamedTensor, rows: int) -> NamedTensor:
    if len(tensor.array) <= rows:
        return tensor
    return replace(tensor, name=f"{tensor.name}[:{rows}]", array=np.ascontiguousarray(tensor.array[:rows]))


def _split(argument: str) -> tuple[Path, str]:
    """File and name pattern; a colon may be part of either, so the longest existing file wins."""
    if is_there(Path(argument)):
        return Path(argument), "*"
    positions = [place for place, letter in enumerate(argument) if letter == ":"]
    for place in reversed(positions):
        if is_there(Path(argument[:place])):
            return Path(argument[:place]), argument[place + 1 :]
    raise Refusal(f"{shorten(argument)}: no such file", hint="--input takes FILE or FILE:NAME")


def _take(path: Path, entries: list[_Entry], wanted: str) -> InputFile:
    if wanted != "*" and not any(_matches(entry.name, wanted) for entry in entries):
        shown = ", ".join(visible(entry.name) for entry in entries[:8]) + (" ..." if len(entries) > 8 else "")
        raise Refusal(f"{path}: holds no tensor {wanted!r}", hint=f"it holds {shown or 'none'}")
    tensors, skipped = [], []
    for index, entry in enumerate(entries):
        if reason := _reason_to_skip(entry, wanted):
            skipped.append(SkippedTensor(entry.name, reason))
        else:
            tensors.append(NamedTensor(index, entry.name, entry.read()))
    return InputFile(path, tuple(tensors), tuple(skipped))


def _matches(name: str, wanted: str) -> bool:
    return name == wanted or fnmatchcase(name, wanted)


def _reason_to_skip(entry: _Entry, wanted: str) -> str:
    if not _matches(entry.name, wanted):
        return f"its name does not match {wanted!r}"
    if not entry.taken:
        return f"its elements are {entry.dtype}, not one of {_TAKEN_NAMES}"
    if len(entry.shape) != 2:
        return f"it has {len(entry.shape)} dimensions, not 2"
    if 0 in entry.shape:
        return f"it is empty: shape {entry.shape}"
    return ""


def _npy_entries(path: Path, file: BinaryIO) -> Iterator[_Entry]:
    yield _npy_entry(str(path), path.stem, file, path.stat().st_size)


def _npy_entry(what: str, name: str, file: BinaryIO, size_bytes: int) -> _Entry:
    """One .npy stream whose header is read and whose data stays unread until asked for."""
    try:
        version = np.lib.format.read_magic(file)
        _check_header(what, file, version, size_bytes)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a header written by Python 2 is as good as another
            shape, fortran_order, dtype = read_header(file)
    except _HEADER_ERRORS as error:
        raise Refusal(f"{what}: not a readable .npy header: {_first_line(error)}") from None
    if dtype.hasobject:
        raise Refusal(f"{what}: holds pickled Python objects, which are never read", hint="save a plain array")
    stored = size_bytes - file.tell()
    _check_extent(what, shape, dtype, stored)

    def read() -> NDArray[Any]:
        data = np.frombuffer(file.read(stored), dtype).reshape(shape, order="F" if fortran_order else "C")
        return np.ascontiguousarray(data.astype(dtype.newbyteorder("=")))

    shown = "a nameless two-byte type (bfloat16 in an .npy?)" if dtype == np.dtype("V2") else str(dtype)
    return _Entry(name, shown, shape, dtype.newbyteorder("=") in _TAKEN, read)


def _check_header(what: str, file: BinaryIO, version: tuple[int, int], size_bytes: int) -> None:
    """Refuse a header that claims to be longer than the file: NumPy would ask for all that memory first."""
    begin = file.tell()
    claimed = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
    left = size_bytes - file.tell()
    file.seek(begin)
    if claimed > left:
        raise Refusal(f"{what}: its header claims {claimed} bytes, the file has {max(left, 0)} after the length")


def _npz_entries(path: Path, file: BinaryIO) -> Iterator[_Entry]:
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise Refusal(f"{path}: not a readable .npz archive: {error}") from None
    for member in archive.infolist():
        yield _npz_entry(path, archive, member)


def _npz_entry(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Entry:
    what, name = f"{path}:{visible(member.filename)}", member.filename.removesuffix(".npy")
    if member.file_size > MAX_TENSOR_BYTES:
        raise Refusal(f"{what}: {member.file_size} bytes, more than the {MAX_TENSOR_BYTES} that are taken")

    def unpacked(limit: int) -> io.BytesIO:
        try:
            with archive.open(member) as stream:
                return io.BytesIO(stream.read(limit))
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise Refusal(f"{what}: cannot be unpacked: {_first_line(error)}") from None

    head = _npy_entry(what, name, unpacked(1 << 20), member.file_size)

    def read() -> NDArray[Any]:
        return _npy_entry(what, name, unpacked(member.file_size + 1), member.file_size).read()

    return _Entry(name, head.dtype, head.shape, head.taken, read)


def _safetensors_entries(path: Path, file: BinaryIO) -> Iterator[_Entry]:
    """Eight bytes of length, a JSON header of that length, then the raw tensors, little-endian.

    Source: the format's description in the README of huggingface/safetensors.
    """
    size = path.stat().st_size
    header_bytes = int.from_bytes(file.read(8), "little")
    if size < 8 or header_bytes > min(size - 8, MAX_HEADER_BYTES):
        raise Refusal(
            f"{path}: its header claims {header_bytes} bytes, the file has {max(size - 8, 0)} after the length"
        )
    header = parse_json(file.read(header_bytes), f"{path}: its header")
    if not isinstance(header, dict):
        raise Refusal(f"{path}: its header is not an object")
    begin = 8 + header_bytes
    for name, fields in header.items():
        if name != "__metadata__":
            yield _safetensors_entry(f"{path}:{visible(name)}", name, fields, file, begin, size)


def _safetensors_entry(what: str, name: str, fields: Any, file: BinaryIO, begin: int, size: int) -> _Entry:
    try:
        dtype_name, shape, (start, end) = fields["dtype"], tuple(fields["shape"]), fields["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise Refusal(f"{what}: its header entry lacks dtype, shape or data_offsets") from None
    if not isinstance(dtype_name, str) or any(type(number) is not int or number < 0 for number in (*shape, start, end)):
        raise Refusal(f"{what}: dtype, shape or data_offsets are not a name and counts")
    if not start <= end <= size - begin:
        raise Refusal(f"{what}: its data [{start}, {end}) lies outside the {size - begin} bytes that follow the header")
    dtype = _SAFETENSORS_DTYPES.get(dtype_name)
    if dtype is not None:
        _check_extent(what, shape, dtype, end - start)

    def read() -> NDArray[Any]:
        assert dtype is not None
        file.seek(begin + start)
        return np.frombuffer(file.read(end - start), dtype).reshape(shape).astype(dtype.newbyteorder("="))

    return _Entry(name, dtype_name, shape, dtype is not None, read)


def _check_extent(what: str, shape: tuple[int, ...], dtype: np.dtype[Any], stored_bytes: int) -> None:
    needed = math.prod(shape) * dtype.itemsize
    if min(shape, default=1) < 0 or needed != stored_bytes:
        raise Refusal(f"{what}: shape {shape} of {dtype} needs {needed} bytes, the file holds {stored_bytes}")
    if needed > MAX_TENSOR_BYTES:
        raise Refusal(f"{what}: {needed} bytes, more than the {MAX_TENSOR_BYTES} that are taken")


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


_READERS: Mapping[str, Callable[[Path, BinaryIO], Iterator[_Entry]]] = {
    ".npy": _npy_entries,
    ".npz": _npz_entries,
    ".safetensors": _safetensors_entries,
}
