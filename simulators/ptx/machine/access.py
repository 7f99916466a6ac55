"""Loads and stores of a group of lanes: values, definedness, order."""

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine import bracket
from tileproof.simulators.ptx.machine.addressing import Positions, access_of, pieces
from tileproof.simulators.ptx.machine.memory import Bits, Lanes, Mask, Piece
from tileproof.simulators.ptx.machine.order.kinds import AccessKind
from tileproof.simulators.ptx.machine.overlap import check_overlap
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Kind, StateSpace, Step

#: Whose accesses are ordered: local memory is private, the others are read only.
ORDERED_SPACES = frozenset({StateSpace.GLOBAL, StateSpace.SHARED, StateSpace.CLUSTER})
_WORD_BYTES = 8


def load(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`ld`. A wrong access has its finding: it reads zero, defined, so that one cause does not make two findings."""
    access = access_of(step)
    lanes = wave.ids(selection)
    count = len(step.destinations)
    values: list[Bits | None] = [None] * count
    masks: list[Bits | None] = [None] * count
    opened: list[bracket.Opened] = []
    weak = wave.weak
    for space, positions, piece in pieces(wave, step, selection, lanes):
        if weak is not None and access.strong and space is StateSpace.GLOBAL:
            weak.touch(piece.backing, piece.offsets, step.access_bytes, lanes[positions], writes=False)
        for index in range(count):
            offsets = piece.offsets + index * access.size
            if weak is not None and not access.strong and space is StateSpace.GLOBAL:
                load = weak.load_incoherent if access.non_coherent else weak.load
                loaded, undefined = load(piece.backing, offsets, access.size, lanes[positions])
            else:
                loaded, undefined = piece.backing.load(offsets, access.size)
            values[index] = scatter(values[index], lanes.size, positions, loaded)
            if undefined is not None:
                masks[index] = scatter(masks[index], lanes.size, positions, undefined)
            if piece.backing.brackets is not None:
                opened += bracket.found(piece, index, access.size, positions)
        if space in ORDERED_SPACES:
            _order_load(wave, step, pc, lanes[positions], space, piece)
        wave.count_read(space, piece.offsets.size * step.access_bytes)
    wave.polls += access.strong
    signs = step.sign_from or (0,) * count
    for slot, value, mask, sign in zip(step.destinations, values, masks, signs, strict=True):
        wave.registers.write(slot, selection, np.zeros(lanes.size, np.uint64) if value is None else value, mask, sign)
    if opened:
        bracket.loaded(wave, step, lanes, opened)


def store(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`st`. A wrong access is dropped."""
    access = access_of(step)
    lanes = wave.ids(selection)
    slots = step.sources[1:]
    narrow = (8 * access.size,) * len(slots)
    values = [wave.registers.read(slot, selection, 8 * access.size) for slot in slots]
    masks = wave.registers.undefined(slots, selection, narrow)
    intervals = bracket.stored(wave, step, selection, values) if wave.registers.brackets.live else None
    for space, positions, piece in pieces(wave, step, selection, lanes):
        here = [value[positions] for value in values]
        undefined = None if masks is None else [mask[positions] for mask in masks]
        if undefined is not None and space is StateSpace.GLOBAL:
            check_output(wave, step, lanes[positions], undefined)
        if not access.strong:
            check_overlap(wave, step, lanes[positions], piece.offsets, here)
        if space in ORDERED_SPACES:
            unchanged = _Unchanged(wave, piece, access.size, here)
            _order_store(wave, step, pc, lanes[positions], space, piece, unchanged)
        weak = wave.weak if space is StateSpace.GLOBAL else None
        if weak is not None and (access.strong or intervals is not None):
            weak.touch(piece.backing, piece.offsets, step.access_bytes, lanes[positions], writes=True)
            weak = None
        for index, value in enumerate(here):
            mask = None if undefined is None else undefined[index]
            offsets = piece.offsets + index * access.size
            if weak is not None:
                weak.store(piece.backing, offsets, access.size, value, mask, lanes[positions])
            else:
                piece.backing.store(offsets, access.size, value, mask)
        if intervals is not None:
            bracket.put(wave, space, piece, access.size, [i and i.take(positions) for i in intervals])
        wave.count_written(space, piece.offsets.size * step.access_bytes)


def _order_load(wave: Wave, step: Step, pc: int, lanes: Lanes, space: StateSpace, piece: Piece) -> None:
    access, kind = access_of(step), AccessKind.of(step, access_of(step))
    wave.order.access(kind, step, pc, lanes, space, piece.backing, piece.offsets, step.access_bytes)
    if access.strong:
        wave.order.strong_load(
            lanes, space, piece.backing, piece.offsets, step.access_bytes, access.scope, access.acquires
        )
        if access.acquires:
            wave.acquire(lanes, access.scope)


def _order_store(
    wave: Wave, step: Step, pc: int, lanes: Lanes, space: StateSpace, piece: Piece, unchanged: Callable[[], Mask]
) -> None:
    access, kind = access_of(step), AccessKind.of(step, access_of(step))
    wave.order.access(kind, step, pc, lanes, space, piece.backing, piece.offsets, step.access_bytes, unchanged)
    if access.strong:
        if access.releases:
            wave.release(lanes, access.scope)
        wave.order.strong_store(
            lanes, space, piece.backing, piece.offsets, step.access_bytes, access.scope, access.releases
        )


def check_weak(wave: Wave, step: Step, pc: int, lanes: Lanes, space: StateSpace, piece: Piece) -> None:
    """The order of a weak load or store that has passed all other checks and is about to be made elsewhere."""
    if step.kind is Kind.LOAD:
        _order_load(wave, step, pc, lanes, space, piece)
        return
    size = access_of(step).size
    values = [wave.registers.read(slot, lanes, 8 * size) for slot in step.sources[1:]]
    _order_store(wave, step, pc, lanes, space, piece, _Unchanged(wave, piece, size, values))


def discard(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`discard`: the bytes lose their values, as after a store of bits that nothing wrote."""
    access = access_of(step)
    lanes = wave.ids(selection)
    for space, positions, piece in pieces(wave, step, selection, lanes):
        kind = AccessKind.of(step, access)
        wave.order.access(kind, step, pc, lanes[positions], space, piece.backing, piece.offsets, access.size)
        if wave.weak is not None and space is StateSpace.GLOBAL:
            wave.weak.touch(piece.backing, piece.offsets, access.size, lanes[positions], writes=True)
        nothing = np.zeros(piece.offsets.size, np.uint64)
        for start in range(0, access.size, _WORD_BYTES):
            piece.backing.store(piece.offsets + start, _WORD_BYTES, nothing, ~nothing)
        wave.count_written(space, piece.offsets.size * access.size)


def forget(wave: Wave, step: Step, selection: Selection) -> None:
    """Registers and ranges of local memory become undefined, as a call finds them."""
    lanes = wave.ids(selection)
    nothing = np.zeros(lanes.size, np.uint64)
    for slot in step.destinations:
        wave.registers.write(slot, selection, nothing, ~nothing)
    for address, nbytes in step.ranges:
        places, word = np.full(lanes.size, address, np.uint64), gcd(address, nbytes, _WORD_BYTES)
        for piece in wave.spaces[StateSpace.LOCAL].locate(places, lanes, 1)[0]:
            for start in range(0, nbytes, word):
                piece.backing.store(piece.offsets + start, word, nothing, ~nothing)


class _Unchanged:
    """Whether memory already holds what each lane is about to store."""

    def __init__(self, wave: Wave, piece: Piece, size: int, values: Sequence[Bits]) -> None:
        self._weak = wave.weak
        self._piece = piece
        self._size = size
        self._values = values

    def __call__(self) -> Mask:
        same: Mask = np.ones(self._piece.offsets.size, np.bool_)
        for index, value in enumerate(self._values):
            offsets, backing = self._piece.offsets + index * self._size, self._piece.backing
            load = backing.load if self._weak is None else partial(self._weak.newest, backing)
            held, undefined = load(offsets, self._size)
            same &= held == value
            if undefined is not None:
                same &= undefined == 0
        return same


def scatter(present: Bits | None, size: int, positions: Positions, part: Bits) -> Bits:
    """`part` at some positions of `size` lanes, in place where there is an array already; zero elsewhere."""
    if isinstance(positions, slice):  # of all lanes
        return part
    result = np.zeros(size, np.uint64) if present is None else present
    result[positions] = part
    return result


def check_output(wave: Wave, step: Step, lanes: Lanes, masks: Sequence[Bits]) -> None:
    """Report the lanes whose value for global memory has bits that nothing wrote."""
    hit = np.flatnonzero(np.bitwise_or.reduce(masks))
    if hit.size:
        message = f"{step.opcode} puts a value that nothing wrote into global memory"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[hit])
