"""What is still looked for while a run is followed backwards: bits of registers, bytes of memory."""

from dataclasses import dataclass, field

import numpy as np

from tileproof.simulators.ptx.machine.memory import Backing, Bits, Bytes, Lanes, Mask
from tileproof.simulators.ptx.program import Program
from tileproof.simulators.ptx.trace.recorder import WaveLog

EVERY_BIT = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@dataclass
class Demand:
    """The bits and bytes that the element depends on and whose origin is not found yet.

    Attributes:
        program: the kernel.
        fixed: constants and special registers that were asked for.
        memory: for each memory, by identity, itself and a mark for each byte.
        bits: of registers [slots, lanes].
        live: slots of which a bit may be wanted.
        unwritten: bits and bytes were wanted that nothing wrote.
    """

    program: Program
    fixed: set[int] = field(default_factory=set)
    memory: dict[int, tuple[Backing, Mask]] = field(default_factory=dict)
    bits: Bits = field(default_factory=lambda: np.zeros((0, 0), np.uint64))
    live: set[int] = field(default_factory=set)
    unwritten: bool = False

    def enter(self, log: WaveLog) -> None:
        """The end of a wave is reached: of its registers nothing is wanted yet."""
        self.bits, self.live = np.zeros(log.values.shape, np.uint64), set()

    def leave(self, log: WaveLog) -> None:
        """The start of a wave is reached: what is still wanted of its registers and shared memory nothing wrote."""
        self.unwritten |= any(self.bits[slot].any() for slot in self.live)
        left = self.memory.pop(id(log.shared), None)
        self.unwritten |= left is not None and bool(left[1].any())

    def want(self, slot: int, lanes: Lanes, bits: Bits) -> None:
        """Bits of a register are wanted in some lanes, which may repeat."""
        program = self.program
        if slot < 0 or not bits.any():
            return
        if slot in program.constants or slot in program.specials or slot in program.shared_symbols:
            self.fixed.add(slot)
            return
        width = np.uint64((1 << program.slot_bits[slot]) - 1)
        np.bitwise_or.at(self.bits[slot], lanes, bits & width)
        self.live.add(slot)

    def take(self, slot: int, lanes: Lanes) -> Bits:
        """The bits of a register that are wanted in these lanes, which write it: no longer wanted before."""
        taken: Bits = self.bits[slot][lanes]
        self.bits[slot][lanes] = 0
        if not self.bits[slot].any():
            self.live.discard(slot)
        return taken

    def want_bytes(self, backing: Backing, offsets: Lanes, wanted: Mask) -> None:
        """Bytes are wanted: `wanted` [places, bytes] of those at the offsets."""
        if wanted.any():
            marks = self.memory.setdefault(id(backing), (backing, np.zeros(backing.data.size, np.bool_)))[1]
            marks[_places(offsets, wanted.shape[1])[wanted]] = True

    def wanted_bytes(self, backing: Backing, offsets: Lanes, nbytes: int) -> Mask:
        """Which of the bytes at the offsets are wanted [places, bytes]."""
        marks = self.memory.get(id(backing))
        if marks is None:
            return np.zeros((offsets.size, nbytes), np.bool_)
        found: Mask = marks[1][_places(offsets, nbytes)]
        return found

    def take_bytes(self, backing: Backing, offsets: Lanes, nbytes: int) -> Mask:
        """The same for bytes that are written here: no longer wanted before. Of several writes the last one counts."""
        wanted = self.wanted_bytes(backing, offsets, nbytes)
        if wanted.any():
            places = _places(offsets, nbytes)
            self.memory[id(backing)][1][places] = False
            _, last = np.unique(places.reshape(-1)[::-1], return_index=True)
            final = np.zeros(places.size, np.bool_)
            final[places.size - 1 - last] = True
            wanted &= final.reshape(places.shape)
        return wanted


def _places(offsets: Lanes, nbytes: int) -> Lanes:
    places: Lanes = offsets[:, np.newaxis] + np.arange(nbytes)
    return places


def bits_of_bytes(wanted: Mask) -> Bits:
    """All bits of the wanted bytes [places, up to 8 bytes], the first one lowest."""
    words: Bytes = np.zeros((len(wanted), 8), np.uint8)
    words[:, : wanted.shape[1]] = np.where(wanted, np.uint8(0xFF), np.uint8(0))
    bits: Bits = words.view("<u8")[:, 0].astype(np.uint64)
    return bits


def bytes_of_bits(bits: Bits, nbytes: int) -> Mask:
    """Which of the low bytes have wanted bits [places, bytes]; bits above them count for the last one."""
    wanted: Mask = bits.astype("<u8").view(np.uint8).reshape(-1, 8) != 0
    low = wanted[:, :nbytes].copy()
    low[:, -1] |= wanted[:, nbytes:].any(axis=1)
    return low
