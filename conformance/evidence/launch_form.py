"""What a launcher passes to its kernels, as a digest: grid, block, cluster, shared memory, and every argument.

Addresses are written by the tensor that they lie in, so that the digest does not hang on where buffers happen to be:
`x+16` is 16 bytes behind the first of x's allocation, `elsewhere` a workspace of the launcher's own. A structure that
is passed by value is read in words of 8 bytes, a tensor map by its fields.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

from tileproof.simulators.ptx.machine.memory import GLOBAL_BASE
from tileproof.simulators.ptx.tensor_map import Fields, NoTensorMap

DIGITS = 16
"""Hexadecimal digits of a digest."""
_HEAP_BYTES = 1 << 44
_WORD, _MAP_BYTES = 8, 128


@dataclass(frozen=True)
class Passed:
    """One launch as the device was asked for it; arguments are NumPy scalars or structures."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...]
    shared_bytes: int
    args: tuple[Any, ...]


Ranges = Mapping[str, tuple[int, int]]
"""First address and length in bytes of each tensor's allocation."""


def form_digest(launches: Iterable[Passed], ranges: Ranges) -> str:
    """Of all launches of a case, in their order."""
    text = "\n".join(form_of(one, ranges) for one in launches)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def form_of(passed: Passed, ranges: Ranges) -> str:
    """One launch in a line."""
    shape = f"{passed.grid} {passed.block} {passed.cluster} {passed.shared_bytes}"
    return " ".join([shape, *(_argument(one, ranges) for one in passed.args)])


def _argument(value: Any, ranges: Ranges) -> str:
    if isinstance(value, np.void):
        return f"{{{', '.join(_structure(value.tobytes(), ranges))}}}"
    if isinstance(value, np.uint64):
        return _word(int(value), ranges)
    return f"{np.asarray(value).dtype}:{value}"


def _structure(raw: bytes, ranges: Ranges) -> Iterable[str]:
    at = 0
    while at < len(raw):
        fields = _map_at(raw[at : at + _MAP_BYTES])
        if fields is None:
            yield _word(int.from_bytes(raw[at : at + _WORD], "little"), ranges)
            at += _WORD
        else:
            yield f"map of {_word(fields.address, ranges)} {astuple(replace(fields, address=0, device=0))}"
            at += _MAP_BYTES


def _map_at(raw: bytes) -> Fields | None:
    try:
        return Fields.unpack(raw) if len(raw) == _MAP_BYTES else None
    except NoTensorMap:
        return None


def _word(value: int, ranges: Ranges) -> str:
    if not GLOBAL_BASE <= value < GLOBAL_BASE + _HEAP_BYTES:
        return str(value)
    inside = ((name, value - base) for name, (base, size) in ranges.items() if 0 <= value - base <= size)
    return next((f"{name}+{offset}" for name, offset in inside), "elsewhere")
