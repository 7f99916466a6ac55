"""Tensor copies: from the map, the corner and a shared address to the two ends of a bulk copy.

What is illegal on the GPU is reported by cause, and the copy is left out; a load still counts its bytes at its
mbarrier, so that one cause does not also make a deadlock. Measured on an H200 (tests/golden, h200_tensor_copies), where
each of these ends in an illegal instruction: bytes that are no map, a map of another rank, an innermost coordinate
that is no multiple of 16 bytes, a store that begins at a negative coordinate, a reduction of a type that has none. A
shared address that is no multiple of 128 is a misaligned address.

A store writes whole chunks of 16 bytes: where the tensor's row ends inside a chunk, the rest of the chunk overwrites
what lies behind the row. A load fills there.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import gcd

import numpy as np

from tileproof.oracle.addresses.tensor_map import Interleave, TensorMapRequest
from tileproof.oracle.addresses.tma_tile import DESTINATION_BYTES
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import CHUNK_BYTES
from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.async_form import TensorForm
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.limits import Limits
from tileproof.simulators.ptx.machine.asynchronous import signals
from tileproof.simulators.ptx.machine.asynchronous.barriers import WORD_SHIFT
from tileproof.simulators.ptx.machine.asynchronous.bulk import Twins, issue, multicast
from tileproof.simulators.ptx.machine.asynchronous.places import find, find_shared
from tileproof.simulators.ptx.machine.asynchronous.region import Payload, Reduction, Region, Target
from tileproof.simulators.ptx.machine.asynchronous.tensor_box import Box
from tileproof.simulators.ptx.machine.asynchronous.tensor_values import reduction, rounded
from tileproof.simulators.ptx.machine.memory import Backing, Bytes, Lanes
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import NONE, StateSpace, Step
from tileproof.simulators.ptx.tensor_map import ALIGNMENT, NBYTES, NoTensorMap, TensorMap, decode

_ALL_BITS = np.uint8(0xFF)
_decoded = lru_cache(maxsize=256)(decode)


def tensor(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """Execute a TENSOR step, one lane after the other."""
    form = step.asynchronous
    assert isinstance(form, TensorForm)
    twins = Twins()
    for lane in wave.ids(selection).tolist():
        wave.attend()
        _Issue(wave, step, pc, form, np.array([lane]), twins).run()


@dataclass(frozen=True)
class _Issue:
    """One lane's copy on its way to being issued."""

    wave: Wave
    step: Step
    pc: int
    form: TensorForm
    lane: Lanes
    twins: Twins

    def run(self) -> None:
        """Issue the copy, or report why it cannot be."""
        word = self._word()
        box = self._box()
        if word is None or box is None:
            return
        if self._illegal(box) or not self._put(box, word):
            self._count(box, word)

    def _count(self, box: Box, word: int) -> None:
        """A load that is left out counts its bytes."""
        if word != NONE:
            signals.complete_bytes(self.wave, self.step, self.lane, np.array([word]), np.array([box.nbytes]))

    def _word(self) -> int | None:
        """The mbarrier's word, NONE for a store, None where there is no live object."""
        if self.form.barrier is None:
            return NONE
        found = find_shared(self.wave, self.step, self.form.barrier, self.lane, 8, 8, "finds its mbarrier in")
        words = found.offsets >> WORD_SHIFT
        live = signals.usable(self.wave, self.step, self.lane[found.positions], words)
        return int(words[0]) if live.size else None

    def _box(self) -> Box | None:
        tensor_map, corner = self._map(), self._corner()
        if tensor_map is None or corner is None:
            return None
        request = tensor_map.request
        if tensor_map.device_number != self.wave.memory_number:
            raise Refusal("a tensor map of another device", hint="make it with this device's tensor_map")
        if request.rank != self.form.rank:
            self._report(FindingKind.ASYNC, f"uses a tensor map of rank {request.rank}")
            return None
        if request.interleave is not Interleave.NONE:
            raise NotModelled(
                f"{self.step.opcode} at {self.step.where}: copies of interleaved tensors are not modelled",
                hint="docs/ptx.md lists the tensor copies that are modelled",
            )
        return Box(request, corner)

    def _map(self) -> TensorMap | None:
        found = find(self.wave, self.step, self.form.map, self.lane, NBYTES, ALIGNMENT, "reads its tensor map from")
        for each in found:
            payload = Region(each.space, each.backing, each.offsets, NBYTES).load()
            if payload.written is not None:
                self._report(FindingKind.UNINITIALISED, "uses a tensor map with bytes that nothing wrote")
                return None
            if each.space is StateSpace.GLOBAL:
                self._check_proxy(payload.data.tobytes())
            try:
                return _decoded(payload.data.tobytes(), Limits.of(self.wave.arch).number)
            except NoTensorMap as error:
                self._report(FindingKind.ASYNC, f"uses {error}")
        return None

    def _check_proxy(self, data: bytes) -> None:
        lane, address = int(self.lane[0]), self._map_address()
        missing = self.wave.asynchronous.maps.missing(self.wave, lane, address, data)
        if missing is not None:
            self._report(FindingKind.RACE, missing, f" (0x{address:x})")

    def _map_address(self) -> int:
        place = self.form.map
        return int(self.wave.registers.read(place.slot, self.lane)[0]) + place.offset

    def _corner(self) -> tuple[int, ...] | None:
        registers = self.wave.registers
        if registers.undefined(self.form.coordinates, self.lane, (32,) * self.form.rank) is not None:
            self._report(FindingKind.UNINITIALISED, "starts a box at a coordinate that nothing wrote")
            return None
        numbers = (int(registers.read(slot, self.lane, 32)[0]) for slot in self.form.coordinates)
        return tuple(number - ((number & 1 << 31) << 1) for number in numbers)

    def _illegal(self, box: Box) -> bool:
        """Report what the GPU answers with an illegal instruction."""
        start = box.corner[0] * box.tensor.data_type.nbytes
        if start % CHUNK_BYTES:
            message = f"starts a box at a byte of a row that is no multiple of {CHUNK_BYTES}"
            self._report(FindingKind.MISALIGNED, message, f" (coordinate {box.corner[0]}, byte {start})")
            return True
        if self.form.barrier is None and min(box.corner) < 0:
            message = "starts a box at a negative coordinate, which only loads may"
            self._report(FindingKind.OUT_OF_BOUNDS, message, f" ({', '.join(map(str, box.corner))})")
            return True
        if self.form.reduction is not None and reduction(self.form.reduction, box.tensor.data_type) is None:
            self._report(FindingKind.ASYNC, f"reduces elements of type {box.tensor.data_type.label}, which it cannot")
            return True
        return False

    def _put(self, box: Box, word: int) -> bool:
        """Issue a legal box, if its place in shared memory is legal too."""
        verb = "reads" if self.form.barrier is None else "writes"
        chunks = _chunks(box.tensor, self._shared_address() % (8 * DESTINATION_BYTES))
        found = find_shared(
            self.wave, self.step, self.form.shared, self.lane, int(chunks.max()) + CHUNK_BYTES, DESTINATION_BYTES, verb
        )
        if not found.offsets.size:
            return False
        places = found.offsets + chunks
        if self.form.barrier is None:
            self._store(box, places)
        else:
            self._load(box, places, word)
        return True

    def _shared_address(self) -> int:
        place = self.form.shared
        return int(self.wave.registers.read(place.slot, self.lane)[0]) + place.offset

    def _load(self, box: Box, places: Lanes, word: int) -> None:
        inside = box.inside()
        rows, backing, offsets = self._locate(inside.addresses, inside.nbytes, "reads")
        granule = gcd(inside.nbytes, CHUNK_BYTES)
        steps = np.arange(0, inside.nbytes, granule)
        region = Region(StateSpace.GLOBAL, backing, (offsets[:, np.newaxis] + steps).reshape(-1), granule)
        starts = inside.rows[rows][:, np.newaxis] * box.row_bytes + inside.start
        source = BoxSource(region, box, (starts + steps).reshape(-1))
        target = Region(StateSpace.SHARED, self.wave.shared, places, CHUNK_BYTES)
        ends = [(target, word)]
        if self.form.blocks != NONE:
            ends = multicast(self.wave, self.step, self.form.blocks, int(self.lane[0]), target, word)
        for end, signalled in ends:
            issue(self.wave, self.step, self.pc, int(self.lane[0]), source, end, signalled, box.nbytes)

    def _store(self, box: Box, places: Lanes) -> None:
        inside = box.inside()
        steps = np.arange(0, inside.nbytes, CHUNK_BYTES)
        if inside.nbytes % CHUNK_BYTES and inside.rows.size:
            self._note(f"writes whole chunks of {CHUNK_BYTES} bytes, beyond the end of the tensor's rows")
        addresses = (inside.addresses[:, np.newaxis] + steps).reshape(-1)
        chunks = (inside.rows[:, np.newaxis] * box.row_bytes + steps).reshape(-1) // CHUNK_BYTES
        good, backing, offsets = self._locate(addresses, CHUNK_BYTES, "writes")
        source = Region(StateSpace.SHARED, self.wave.shared, places[chunks[good]], CHUNK_BYTES)
        region = Region(StateSpace.GLOBAL, backing, offsets, CHUNK_BYTES)
        target: Target = region
        if self.form.reduction is not None:
            operation = reduction(self.form.reduction, box.tensor.data_type)
            assert operation is not None
            target = Reduction(region, operation, box.tensor.data_type.nbytes)
        lane = int(self.lane[0])
        issue(self.wave, self.step, self.pc, lane, source, target, NONE, box.nbytes, twins=self.twins)

    def _locate(self, addresses: Lanes, nbytes: int, verb: str) -> tuple[Lanes, Backing, Lanes]:
        """Positions of legal global accesses, the allocation they lie in, and their offsets in it."""
        owners = np.repeat(self.lane, addresses.size)
        memory = self.wave.spaces[StateSpace.GLOBAL]
        pieces, faults = memory.locate(addresses.astype(np.uint64), owners, nbytes)
        for fault in faults:
            self._report(fault.kind, f"{verb} {fault.message}", fault.detail)
        if len(pieces) > 1:
            raise NotModelled(f"{self.step.opcode} at {self.step.where}: a tensor in several allocations")
        nothing = np.zeros(0, np.int64)
        if not pieces or not addresses.size:
            return nothing, self.wave.shared, nothing
        return np.arange(addresses.size)[pieces[0].positions], pieces[0].backing, pieces[0].offsets

    def _report(self, kind: FindingKind, what: str, detail: str = "") -> None:
        self.wave.report(kind, f"{self.step.opcode} {what}", self.step.where, self.lane, detail)

    def _note(self, what: str) -> None:
        self.wave.note(f"{self.step.opcode} {what}", self.step.where, 1)


@lru_cache(maxsize=64)
def _chunks(tensor: TensorMapRequest, phase: int) -> Lanes:
    """Where the chunks of a box lie relative to its address, which counts modulo the swizzle's period."""
    return Box(tensor, (0,) * tensor.rank).chunks(phase) - phase


@dataclass(frozen=True)
class BoxSource:
    """The source of a load: elements of the tensor, and the fill around them.

    Attributes:
        region: what is read of the tensor.
        box: what is loaded.
        places: where in the transfer each piece of the region goes.
    """

    region: Region
    box: Box
    places: Lanes

    def load(self) -> Payload:
        """See `Source`."""
        kind = self.box.tensor.data_type
        fill = np.frombuffer(self.box.tensor.fill.pattern(kind.nbytes), np.uint8)
        data: Bytes = np.tile(fill, self.box.nbytes // kind.nbytes)
        payload = self.region.load()
        index = (self.places[:, np.newaxis] + np.arange(self.region.nbytes)).reshape(-1)
        data[index] = rounded(payload.data, kind)
        if payload.held is not None and rounded(payload.data, kind) is not payload.data:
            raise NotModelled("a tensor copy that rounds approximate values to tf32 is not modelled")
        held = None if payload.held is None else payload.held.spread(data.size, index)
        if payload.written is None:
            return Payload(data, held=held)
        written = np.full(data.size, _ALL_BITS)
        written[index] = payload.written
        return Payload(data, written, held)
