"""The two ends of a copy: bytes with what is undefined of them, read from one region and written to another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tileproof.simulators.ptx.alu.operation import NotModelled, Operation
from tileproof.simulators.ptx.machine.bracket_memory import HeldBytes
from tileproof.simulators.ptx.machine.memory import Backing, Bits, Bytes, Lanes
from tileproof.simulators.ptx.program import StateSpace

_ALL_BITS = np.uint8(0xFF)


@dataclass(frozen=True)
class Payload:
    """Bytes on their way.

    Attributes:
        data: uint8 [n].
        written: for each byte the bits that something wrote, uint8 [n]; None where that is all of them.
        held: what approximate functions left open of them; None for nothing.
    """

    data: Bytes
    written: Bytes | None = None
    held: HeldBytes | None = None

    def over(self, earlier: "Payload") -> "Payload":
        """The bytes of this one that were written, over those of an earlier one."""
        assert self.written is not None
        written = None if earlier.written is None else np.maximum(earlier.written, self.written)
        return Payload(np.where(self.written != 0, self.data, earlier.data), written)

    @classmethod
    def of_values(cls, values: Sequence[Bits], undefined: Sequence[Bits] | None, size: int) -> "Payload":
        """The payload of one lane's registers: one value of `size` bytes after the other."""
        data = np.concatenate([_bytes(value, size) for value in values])
        written = None if undefined is None else np.concatenate([~_bytes(mask, size) for mask in undefined])
        return cls(data, written)


def _bytes(value: Bits, size: int) -> Bytes:
    raw: Bytes = np.atleast_1d(value).astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size].reshape(-1)
    return raw


class Source(Protocol):
    """Where a copy reads."""

    @property
    def region(self) -> "Region | None":
        """The memory that is read; None for values from registers."""
        ...

    def load(self) -> Payload:
        """Read it."""
        ...


class Target(Protocol):
    """Where a copy writes."""

    @property
    def region(self) -> "Region":
        """The memory that is written."""
        ...

    def store(self, payload: Payload) -> None:
        """Write it."""
        ...

    def poison(self) -> None:
        """The copy is in flight: what is there is neither the old nor the new value."""
        ...


@dataclass(frozen=True)
class Region:
    """Equal pieces of one memory, in the order of the payload's bytes; both a source and a target.

    Attributes:
        space: which memory.
        backing: its bytes.
        offsets: where each piece starts.
        nbytes: of each piece.
    """

    space: StateSpace
    backing: Backing
    offsets: Lanes
    nbytes: int

    @property
    def region(self) -> "Region":
        """The region itself."""
        return self

    @property
    def index(self) -> Lanes:
        """The bytes of the pieces."""
        index: Lanes = (self.offsets[:, None] + np.arange(self.nbytes)).reshape(-1)
        return index

    def _index(self) -> slice | Lanes:
        if self.offsets.size == 1:
            start = int(self.offsets[0])
            return slice(start, start + self.nbytes)
        return self.index

    def load(self) -> Payload:
        """See `Source`."""
        index, written = self._index(), self.backing.written
        kept = None if written is None else written[index].copy()
        if kept is not None and (kept == _ALL_BITS).all():
            kept = None
        brackets = self.backing.brackets
        held = None if brackets is None else brackets.take(self.offsets, self.nbytes)
        return Payload(self.backing.data[index].copy(), kept, held)

    def store(self, payload: Payload) -> None:
        """See `Target`."""
        index = self._index()
        self.backing.data[index] = payload.data
        if payload.held is not None or self.backing.brackets is not None:
            self.backing.put_brackets(self.offsets, self.nbytes, payload.held)
        if payload.written is not None:
            self.backing.track()
        if self.backing.written is not None:
            self.backing.written[index] = _ALL_BITS if payload.written is None else payload.written

    def poison(self) -> None:
        """See `Target`."""
        self.backing.track()[self._index()] = 0


@dataclass(frozen=True)
class Value:
    """A source that was read from registers at issue."""

    payload: Payload

    @property
    def region(self) -> None:
        """No memory is read."""
        return None

    def load(self) -> Payload:
        """See `Source`."""
        return self.payload


@dataclass(frozen=True)
class Reduction:
    """A target whose elements are combined with the payload's; others may reduce into it meanwhile.

    Attributes:
        region: the target.
        operation: of two operands, the first one is the element in memory.
        size: bytes of an element.
    """

    region: Region
    operation: Operation
    size: int

    def store(self, payload: Payload) -> None:
        """See `Target`."""
        present = self.region.load()
        if present.held is not None or payload.held is not None:
            raise NotModelled("a reduction of an approximate value into memory is not modelled")
        operands = [_elements(present.data, self.size), _elements(payload.data, self.size)]
        (result,) = self.operation.compute(operands)
        undefined = None
        if present.written is not None or payload.written is not None:
            masks = [_undefined(each, self.size) for each in (present, payload)]
            undefined = [self.operation.undefined(operands, masks)[0]]
        self.region.store(Payload.of_values([result], undefined, self.size))

    def poison(self) -> None:
        """Elements stay what they are until the reduction comes."""


def _elements(data: Bytes, size: int) -> Bits:
    values: Bits = data.view(f"<u{size}").astype(np.uint64)
    return values


def _undefined(payload: Payload, size: int) -> Bits:
    if payload.written is None:
        return np.zeros(payload.data.size // size, np.uint64)
    return _elements(~payload.written, size)
