"""Memories of the CPU device: bytes, and for every byte which of its bits nothing ever wrote.

`Space` is what the engine sees: typed loads and stores at vectors of addresses, one address a lane. Global memory is a
set of allocations at 64-bit addresses that never repeat, so that a stale address stays recognisable after `free`.
Shared, local, parameter and constant memory are windows: one equal piece for each owner (a block, a lane, or the whole
launch).

Example: with an allocation of 6 bytes at 0x7000_0000_0000 a 4-byte load at 0x7000_0000_0004 is out of bounds (it ends
at +8), although the host array behind it is padded; a 2-byte load there is fine.
"""

import bisect
import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.bracket_interval import Interval
from tileproof.simulators.ptx.machine.bracket_memory import BracketBytes, HeldBytes
from tileproof.simulators.ptx.machine.order.shadow import Shadow
from tileproof.simulators.ptx.machine.order.touched import Touched

if TYPE_CHECKING:
    from tileproof.simulators.ptx.machine.weak.veil import Veil

Bits = NDArray[np.uint64]
Lanes = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

# cudaMalloc aligns to at least 256 bytes (CUDA C++ Programming Guide, "Device Memory Accesses").
ALLOCATION_ALIGNMENT = 256
# Unmapped bytes behind every allocation: a tile read past the end never lands in the next allocation.
ALLOCATION_GAP = 1 << 20
GLOBAL_BASE = 0x7000_0000_0000
# Host arrays are padded so that every aligned access of up to 16 bytes can be made through a typed view.
PADDING = 16

# Pieces this far apart, or a multiple of it, would share few sets of the host's nearest cache.
_SAME_SETS_BYTES = 1024
_CACHE_LINE_BYTES = 64

LINE_COLUMNS = 6

_ALL_BITS = np.uint8(0xFF)
_UNSIGNED: dict[int, type[np.unsignedinteger[Any]]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class Fault:
    """Lanes whose access was wrong, as indices into the address vector.

    Attributes:
        kind: of the finding.
        message: what was accessed, a noun phrase.
        positions: the lanes.
        detail: where the first of them accessed.
    """

    kind: FindingKind
    message: str
    positions: Lanes
    detail: str


@dataclass(frozen=True)
class Piece:
    """Legal accesses of one instruction that fall into one backing array."""

    backing: "Backing"
    positions: Lanes | slice
    offsets: Lanes


@dataclass
class Moves:
    """How often arrays were exchanged for others: those who hold host addresses of them look here."""

    count: int = 0


class Backing:
    """Bytes, and which of their bits something wrote: `written` is None while that is all of them.

    Both arrays start as zeros that the operating system provides at first touch, so a huge allocation costs nothing
    until it is used.
    """

    def __init__(self, nbytes: int, *, defined: bool) -> None:
        padded = -(-nbytes // PADDING) * PADDING + PADDING
        self.nbytes = nbytes
        self.data: Bytes = np.zeros(padded, np.uint8)
        self.written: Bytes | None = None if defined else np.zeros(padded, np.uint8)
        self.shadow: Shadow | None = None  # who touched it, for the order core
        # Bytes that an approximate function left open; None while there are none.
        self.brackets: BracketBytes | None = None
        self.veil: Veil | None = None  # what blocks see differently; None while they see the same
        self.moves = Moves()

    def line(self, base: int, nbytes: int, starts: int = 0) -> tuple[int, ...]:
        """Where compiled code finds the arrays: the columns of its tables of memories (`fast.layout`).

        Args:
            base: address of the first byte that an owner sees.
            nbytes: that an owner sees; 0 for memory that is not there.
            starts: host address of each lane's offset to its owner's bytes, 0 where all have the same.
        """
        data, written = self.data.ctypes.data, 0 if self.written is None else self.written.ctypes.data
        plain = self.brackets is None and self.veil is None  # compiled code knows no intervals and one view of memory
        return data, written, base, nbytes if plain else 0, starts, 0

    def set_veil(self, veil: "Veil | None") -> None:
        """From now on blocks see the bytes through this."""
        self.veil = veil
        self.moves.count += 1

    def fill(self, start: int, raw: bytes | memoryview) -> None:
        """Write bytes from the host."""
        source = np.frombuffer(raw, np.uint8)
        self.data[start : start + source.size] = source
        if self.written is not None:
            self.written[start : start + source.size] = _ALL_BITS
        if self.brackets is not None:
            self.brackets.clear_range(start, start + source.size)

    def track(self) -> Bytes:
        """Which bits something wrote, from now on byte by byte."""
        if self.written is None:
            self.written = np.full(self.data.shape, _ALL_BITS)
            self.moves.count += 1
        return self.written

    def load(self, offsets: Lanes, size: int) -> tuple[Bits, Bits | None]:
        """Values and undefined-bit masks (None: all defined) at aligned byte offsets."""
        element = _UNSIGNED[size]
        index = offsets // size
        values = self.data.view(element)[index].astype(np.uint64)
        if self.written is None:
            return values, None
        masks = ~self.written.view(element)[index]
        return values, masks.astype(np.uint64) if masks.any() else None

    def store(self, offsets: Lanes, size: int, values: Bits, masks: Bits | None) -> None:
        """Write values; of several writes to one place the last one stays."""
        element = _UNSIGNED[size]
        index = offsets // size
        if self.brackets is not None:
            self.brackets.clear(offsets, size)
        self.data.view(element)[index] = values.astype(element)
        if masks is not None:
            self.track()
        if self.written is not None:
            self.written.view(element)[index] = np.iinfo(element).max if masks is None else ~masks.astype(element)

    def bracket(self, offsets: Lanes, size: int) -> Interval | None:
        """The interval at aligned byte offsets; None if all of them hold values."""
        return None if self.brackets is None else self.brackets.load(self.data, offsets, size)

    def set_bracket(self, offsets: Lanes, size: int, interval: Interval) -> None:
        """After a store of nominal values: the interval around them."""
        if interval.wide.any():
            if self.brackets is None:
                self.brackets = BracketBytes(self.data.size)
                self.moves.count += 1
            self.brackets.store(offsets, size, interval)

    def put_brackets(self, starts: Lanes, nbytes: int, held: HeldBytes | None) -> None:
        """After bytes were copied to pieces of `nbytes`: what an approximate function left open of them."""
        if self.brackets is None and held is not None:
            self.brackets = BracketBytes(self.data.size)
            self.moves.count += 1
        if self.brackets is not None:
            self.brackets.put(starts, nbytes, held)


class Space(Protocol):
    """Address vectors to pieces and faults."""

    def locate(self, addresses: Bits, lanes: Lanes, size: int) -> tuple[list[Piece], list[Fault]]:
        """Split accesses of `size` bytes at `addresses` by lanes `lanes` into legal pieces and faults."""
        ...


class Allocation(Backing):
    """One piece of global memory."""

    def __init__(self, base: int, nbytes: int, index: int, *, defined: bool) -> None:
        super().__init__(nbytes, defined=defined)
        self.base, self.index = base, index
        self.freed = False

    def release(self) -> None:
        """Drop the bytes; the addresses stay known as freed."""
        self.freed = True
        self.data = np.zeros(0, np.uint8)
        self.written = self.shadow = None
        self.brackets = None
        self.moves.count += 1


class GlobalMemory:
    """Allocations by address. Addresses are never reused.

    Attributes:
        number: tells the memories of one process apart, whose addresses are alike.
        limit_bytes: of all allocations, and of what a launch needs beside them.
        used_bytes: of all allocations that were not freed.
    """

    _numbers = itertools.count(1)

    def __init__(self, limit_bytes: int) -> None:
        self.number = next(GlobalMemory._numbers)
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._next = GLOBAL_BASE
        self._bases: list[int] = []
        self._allocations: list[Allocation] = []
        self.touched = Touched()
        self._moves = Moves()
        self._table: Lanes = np.zeros((0, LINE_COLUMNS), np.int64)
        self._table_moves = 0

    def allocate(self, nbytes: int, *, defined: bool) -> Allocation:
        """A new allocation of `nbytes` bytes.

        Raises:
            Refusal: the device's memory limit would be passed.
        """
        if self.used_bytes + nbytes > self.limit_bytes:
            raise Refusal(
                f"allocation of {nbytes} bytes: {self.used_bytes} of the device's {self.limit_bytes} are in use",
                hint="free buffers, or raise Device(memory_limit_bytes=...)",
            )
        allocation = Allocation(self._next, nbytes, len(self._allocations), defined=defined)
        self.used_bytes += nbytes
        self._next += -(-(nbytes + ALLOCATION_GAP) // ALLOCATION_ALIGNMENT) * ALLOCATION_ALIGNMENT
        self._bases.append(allocation.base)
        self._allocations.append(allocation)
        allocation.moves = self._moves
        self._moves.count += 1
        return allocation

    def table(self) -> Lanes:
        """For each allocation, ascending, what `Backing.line` says; a freed one has no bytes."""
        if self._table_moves != self._moves.count:
            lines = [a.line(a.base, 0 if a.freed else a.nbytes) for a in self._allocations]
            self._table = np.array(lines, np.int64).reshape(-1, LINE_COLUMNS)
            self._table_moves = self._moves.count
        return self._table

    def allocation(self, index: int) -> Allocation:
        """The allocation of one line of the table."""
        return self._allocations[index]

    def index_of(self, backing: Backing) -> int:
        """The line of an allocation in the table; -1 for another backing."""
        return backing.index if isinstance(backing, Allocation) else -1

    def release(self, allocation: Allocation) -> None:
        """Free an allocation; later accesses are `use-after-free`."""
        self.used_bytes -= allocation.nbytes
        allocation.release()

    def find(self, address: int) -> Allocation | None:
        """The allocation at or before an address, or None below all of them."""
        index = bisect.bisect_right(self._bases, address) - 1
        return self._allocations[index] if index >= 0 else None

    def locate(self, addresses: Bits, lanes: Lanes, size: int) -> tuple[list[Piece], list[Fault]]:
        """See `Space.locate`."""
        if addresses.size == 0:
            return [], []
        low, high = int(addresses.min()), int(addresses.max())
        single = self.find(low)
        if single is not None and not single.freed and high + size <= single.base + single.nbytes:
            offsets = (addresses - np.uint64(single.base)).astype(np.int64)
            return [Piece(single, slice(None), offsets)], []
        return self._locate_each(addresses, size)

    def _locate_each(self, addresses: Bits, size: int) -> tuple[list[Piece], list[Fault]]:
        pieces: list[Piece] = []
        faults: list[Fault] = []
        owners = np.searchsorted(np.array(self._bases, np.uint64), addresses, side="right").astype(np.int64) - 1
        for owner in np.unique(owners):
            positions = np.flatnonzero(owners == owner)
            if owner < 0:
                faults.append(self._outside(None, int(addresses[positions[0]]), size, positions))
                continue
            allocation = self._allocations[int(owner)]
            offsets = addresses[positions] - np.uint64(allocation.base)
            inside = offsets + np.uint64(size) <= np.uint64(allocation.nbytes)
            if not inside.all():
                outside = positions[~inside]
                faults.append(self._outside(allocation, int(addresses[outside[0]]), size, outside))
            if not inside.any():
                continue
            if allocation.freed:
                message = f"a freed allocation of {allocation.nbytes} bytes"
                detail = f" (byte offset {int(offsets[inside][0])})"
                faults.append(Fault(FindingKind.USE_AFTER_FREE, message, positions[inside], detail))
            else:
                pieces.append(Piece(allocation, positions[inside], offsets[inside].astype(np.int64)))
        return pieces, faults

    def _outside(self, before: Allocation | None, address: int, size: int, positions: Lanes) -> Fault:
        """The fault of an access outside, told from the nearest allocation."""
        after = (
            self._allocations[index]
            if (index := bisect.bisect_right(self._bases, address)) < len(self._bases)
            else None
        )
        past = address + size - (before.base + before.nbytes) if before is not None else None
        short = after.base - address if after is not None else None
        if past is not None and before is not None and past <= min(ALLOCATION_GAP, short or ALLOCATION_GAP):
            message = f"memory past the end of an allocation of {before.nbytes} bytes"
            detail = f" (bytes {address - before.base} to {address - before.base + size - 1})"
        elif short is not None and after is not None and short <= ALLOCATION_GAP:
            message = f"memory before the start of an allocation of {after.nbytes} bytes"
            detail = f" (byte offset {-short})"
        else:
            message, detail = "an address in no allocation", f" (0x{address:x})"
        return Fault(FindingKind.OUT_OF_BOUNDS, message, positions, detail)


class Window(Backing):
    """Equal pieces of a small memory, one for each owner; addresses start at `base` in every piece."""

    def __init__(self, name: str, base: int, nbytes: int, owners: int, *, defined: bool) -> None:
        self.stride = -(-nbytes // PADDING) * PADDING
        if nbytes and owners > 1 and self.stride % _SAME_SETS_BYTES == 0:
            self.stride += _CACHE_LINE_BYTES
        super().__init__(self.stride * owners, defined=defined)
        self._name = name
        self._base = base
        self._piece_bytes = nbytes
        self._starts: Lanes | None = None

    @property
    def base(self) -> int:
        """Address of the first byte of every piece."""
        return self._base

    def owner_line(self) -> tuple[int, ...]:
        """What `Backing.line` says of a piece."""
        starts = 0 if self._starts is None else self._starts.ctypes.data
        return self.line(self._base, self._piece_bytes, starts)

    def owned_by(self, lanes_per_owner: int) -> "Window":
        """Say how many consecutive lanes share a piece; without this all lanes share the first one."""
        owners = self.nbytes // self.stride if self.stride else 0
        self._starts = _starts(owners, self.stride, lanes_per_owner)
        return self

    def locate(self, addresses: Bits, lanes: Lanes, size: int) -> tuple[list[Piece], list[Fault]]:
        """See `Space.locate`."""
        relative = addresses - np.uint64(self._base)  # below the base it wraps around to a very large offset
        inside = relative < np.uint64(max(0, self._piece_bytes - size + 1))
        offsets = relative.astype(np.int64)
        if self._starts is not None and inside.any():
            offsets = offsets + self._starts[lanes]
        if inside.all():
            return [Piece(self, slice(None), offsets)], []
        outside = np.flatnonzero(~inside)
        message = f"{self._name} memory outside the {self._piece_bytes} bytes of the kernel"
        detail = f" (byte offset {int(addresses[outside[0]]) - self._base})"
        positions = np.flatnonzero(inside)
        pieces = [Piece(self, positions, offsets[inside])] if positions.size else []
        return pieces, [Fault(FindingKind.OUT_OF_BOUNDS, message, outside, detail)]


@lru_cache(maxsize=16)
def _starts(owners: int, stride: int, lanes_per_owner: int) -> Lanes:
    """Each lane's offset to its owner's piece; nobody writes it."""
    starts: Lanes = np.repeat(np.arange(owners) * stride, lanes_per_owner)
    return starts
