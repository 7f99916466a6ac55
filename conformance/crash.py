"""Crash files: a case is on disk before it is launched, and stays there until it has passed.

A launch may take the process, the driver or the machine with it, so the file is written first: which case, with which
inputs (their hash), where, with what environment. A case that passes deletes its file. A case that fails completes it
with its findings and the raw bits of its inputs, so that it replays anywhere without the generator: in base64 within
the file, or in an .npz beside it where they exceed 1 MiB. Inputs that came from a user's file are stored at once, since
nothing else could make them again.

Nothing but a run of `check` changes these files: a replay leaves them, and the next run in which the case passes
removes them. Several runs may share a folder: each file is written under a name of its own and then renamed.

A file is called by the first letters of a hash over the case and its run coordinates: the same failure has the same
name in every run, and a folder does not fill up with copies of it.
"""

import base64
import binascii
import difflib
import hashlib
import json
import math
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.contract import Arrays
from tileproof.conformance.environment import Environment
from tileproof.conformance.finding import Finding, Why
from tileproof.conformance.input_file import is_there, read_arrays
from tileproof.conformance.records import from_json, parse_json, shorten, to_json
from tileproof.conformance.target import Coordinates
from tileproof.kernels.given_file import opened, read_given
from tileproof.oracle.refusal import Refusal

FORMAT = 2
"""Version of the file's form; raised whenever an older reader would misread it."""

INLINE_BYTES = 1 << 20
MAX_FILE_BYTES = 1 << 26
DEFAULT_FOLDER = Path(".tileproof") / "crashes"

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: no I, L, O or U, so that an id can be read aloud."""

_ID_LETTERS = 7

_DTYPES: Mapping[str, np.dtype[Any]] = {
    str(dtype): dtype
    for dtype in map(
        np.dtype,
        (ml_dtypes.bfloat16, "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"),
    )
}


class Status(StrEnum):
    """How far the case had come when the file was last written."""

    LAUNCHED = "launched"
    FAILED = "failed"
    ERROR = "error"


@dataclass(frozen=True)
class StoredArray:
    """One input as raw little-endian bytes; `base64` is None where they are in the sidecar."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    base64: str | None


@dataclass(frozen=True)
class CrashRecord:
    """Everything needed to run a case again.

    Args:
        format: version of this form.
        case: the case's id, its data seed included.
        generator_version: of the contract whose generator made the inputs.
        inputs_sha256: hash over names, types, shapes and bytes of the inputs.
        coordinates: where the case ran; two members where the findings say that two targets differ.
        fault: the deliberate defect that was in, if one was.
        origin: file and tensor of a user's own inputs, else empty.
        environment: what the run stood on.
        status: "launched" until the case has ended.
        inputs: the raw bits; empty while they can still be generated.
        sidecar: name of the .npz beside the file that holds the bits, if one does.
        findings: what was found.
        error: why there was no verdict, where there was none.
        page: the file of a user's page that has the contract; a reader runs no page that it was not given by hand.
        why: the first explanation, where one was looked for.
    """

    format: int
    case: str
    generator_version: int
    inputs_sha256: str
    coordinates: tuple[Coordinates, ...]
    fault: str | None
    origin: str
    environment: Environment
    status: Status = Status.LAUNCHED
    inputs: tuple[StoredArray, ...] = ()
    sidecar: str | None = None
    findings: tuple[Finding, ...] = field(default=())
    error: str = ""
    page: str = ""
    why: Why | None = None

    @property
    def short_id(self) -> str:
        """Seven letters that name the case at its coordinates, with its inputs and fault."""
        key = json.dumps([self.case, self.inputs_sha256, to_json(self.coordinates), self.fault])
        number = int.from_bytes(hashlib.sha256(key.encode()).digest(), "big")
        return "".join(_ALPHABET[number >> 5 * place & 31] for place in range(_ID_LETTERS))


class CrashFolder:
    """Where crash files are written and found."""

    def __init__(self, path: Path = DEFAULT_FOLDER) -> None:
        self.path = path

    def write(self, record: CrashRecord, inputs: Arrays | None = None) -> Path:
        """Write a record, with the bits of `inputs` if given, so that it is there or not there but never half.

        Raises:
            Refusal: the folder cannot be written.
        """
        target = self._file(record.short_id)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if inputs is not None:
                record = self._store(record, inputs)
            text = json.dumps(seal(to_json(record)), indent=1).encode()
            _write_whole(target, lambda file: file.write(text))
        except OSError as error:
            raise Refusal(
                f"crash file {target} cannot be written: {error.strerror}", hint="give another --crash-dir"
            ) from None
        return target

    def discard(self, record: CrashRecord) -> None:
        """The case passed: remove its file and its sidecar.

        Raises:
            Refusal: they are there and cannot be removed.
        """
        target = self._file(record.short_id)
        try:
            target.unlink(missing_ok=True)
            self._sidecar(record.short_id).unlink(missing_ok=True)
        except NotADirectoryError:
            return  # no folder, no file
        except OSError as error:
            raise Refusal(f"crash file {target} cannot be removed: {error.strerror}") from None

    def find(self, name: str) -> Path:
        """The crash file that a path or a short id names.

        Raises:
            Refusal: there is none; the hint has near ids.
        """
        if _is_file(Path(name)):
            return Path(name)
        if name.endswith(".json") and os.path.lexists(name):
            with opened(Path(name)):  # which says what it is instead
                pass
        if name.isalnum() and _is_file(self._file(name.upper())):
            return self._file(name.upper())
        known = sorted(file.stem for file in self.path.glob("*.json")) if is_there(self.path) else []
        near = difflib.get_close_matches(name.upper(), known, n=3) or known[:5]
        hint = "there are " + ", ".join(near) if near else "the folder holds none; give --crash-dir"
        raise Refusal(f"no crash file {shorten(name)} in {shorten(str(self.path))}", hint=hint)

    def _store(self, record: CrashRecord, inputs: Arrays) -> CrashRecord:
        inline = sum(array.nbytes for array in inputs.values()) <= INLINE_BYTES
        stored = tuple(
            StoredArray(name, str(array.dtype), array.shape, _to_base64(array) if inline else None)
            for name, array in inputs.items()
        )
        sidecar = self._sidecar(record.short_id)
        if inline:
            sidecar.unlink(missing_ok=True)
            return replace(record, inputs=stored, sidecar=None)
        raw = {name: _raw(array) for name, array in inputs.items()}
        _write_whole(sidecar, lambda file: np.savez(file, allow_pickle=False, **raw))
        return replace(record, inputs=stored, sidecar=sidecar.name)

    def _file(self, short_id: str) -> Path:
        return self.path / f"{short_id}.json"

    def _sidecar(self, short_id: str) -> Path:
        return self.path / f"{short_id}.npz"


def read_crash(path: Path) -> tuple[CrashRecord, Arrays | None]:
    """A crash file and its inputs; None for inputs that were not stored.

    Raises:
        Refusal: the file or its sidecar is damaged, of another form, or its bits do not have the recorded hash.
    """
    data = parse_json(read_given(path, MAX_FILE_BYTES), str(path))
    if isinstance(data, dict) and data.get("format") != FORMAT:
        raise Refusal(f"{path}: form {shorten(data.get('format'))} of crash file, this version reads {FORMAT}")
    if isinstance(data, dict) and data.pop("checksum", None) != _checksum(data):
        raise Refusal(f"{path}: does not have the recorded checksum", hint="the file was changed or damaged")
    record = from_json(CrashRecord, data, str(path))
    if not record.coordinates:
        raise Refusal(f"{path}: names no target")
    if not record.inputs:
        return record, None
    inputs = _load(path, record)
    if hash_inputs(inputs) != record.inputs_sha256:
        raise Refusal(
            f"{path}: the stored inputs do not have the recorded hash", hint="the file was changed or damaged"
        )
    return record, inputs


def _is_file(path: Path) -> bool:
    return is_there(path) and path.is_file()


def seal(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The JSON object of a record with its checksum, so that no edit or damage of the file goes unnoticed."""
    return {**data, "checksum": _checksum(data)}


def _checksum(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def hash_inputs(inputs: Arrays) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(inputs):
        array = inputs[name]
        digest.update(f"{name} {array.dtype} {array.shape} ".encode(errors="backslashreplace"))
        digest.update(_raw(array).tobytes())
    return digest.hexdigest()


def _load(path: Path, record: CrashRecord) -> Arrays:
    stored = {array.name: array for array in record.inputs}
    if record.sidecar is None:
        raw = {name: _from_base64(array, path) for name, array in stored.items()}
    elif record.sidecar != f"{record.short_id}.npz":
        raise Refusal(f"{path}: sidecar {shorten(record.sidecar)} is not a file beside it")
    else:
        raw = {
            name: bytes.tobytes() for name, bytes in read_arrays(path.parent / record.sidecar, tuple(stored)).items()
        }
    return {name: _array(stored[name], data, path) for name, data in raw.items()}


def _array(stored: StoredArray, data: bytes, path: Path) -> NDArray[Any]:
    dtype = _DTYPES.get(stored.dtype)
    if dtype is None:
        raise Refusal(
            f"{path}: input {stored.name}: unknown type {stored.dtype!r}", hint="known are " + ", ".join(_DTYPES)
        )
    if min(stored.shape, default=0) < 0 or math.prod(stored.shape) * dtype.itemsize != len(data):
        raise Refusal(f"{path}: input {stored.name}: {len(data)} bytes do not make {stored.dtype}{list(stored.shape)}")
    return np.frombuffer(data, dtype).reshape(stored.shape).copy()


def _raw(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def _to_base64(array: NDArray[Any]) -> str:
    return base64.b64encode(_raw(array).tobytes()).decode()


def _from_base64(stored: StoredArray, path: Path) -> bytes:
    try:
        return base64.b64decode(stored.base64 or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refusal(f"{path}: input {stored.name}: not base64: {error}") from None


def _write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write beside, then rename: a reader sees the old file or the new one. On disk before the launch."""
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with beside.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
