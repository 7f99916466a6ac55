"""Atomics of a group of lanes: lanes that hit one address take turns.

In round r the r-th lane of every address reads, combines and writes. The order of the turns is the schedule's.
Associative integer operations that crowd on few addresses need no rounds: a running combination over the lanes of each
address gives all intermediate values at once. Example: lanes that add 5, 7 and 1 to a cell that holds 100 get back 100,
105 and 112.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tileproof.simulators.ptx.alu.operation import Operation
from tileproof.simulators.ptx.machine.access import ORDERED_SPACES, check_output, scatter
from tileproof.simulators.ptx.machine.addressing import access_of, pieces
from tileproof.simulators.ptx.machine.memory import Bits, Lanes, Mask, Piece
from tileproof.simulators.ptx.machine.order.kinds import AccessKind
from tileproof.simulators.ptx.machine.registers import EVERY_BIT, Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import StateSpace, Step

_ASSOCIATIVE = frozenset({"add", "min", "max", "and", "or", "xor"})
# Turns at one address from which on prefixes by doubling are faster than rounds.
CROWDED = 16
_CAS_VALUES = 2


def atomic(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`atom` and `red`: the old value is returned; a wrong access returns zero, defined."""
    access = access_of(step)
    lanes = wave.ids(selection)
    slots = step.sources[1:]
    values = [wave.registers.read(slot, selection, 8 * access.size) for slot in slots]
    masks = wave.registers.undefined(slots, selection, (8 * access.size,) * len(slots))
    old = np.zeros(lanes.size, np.uint64)
    old_masks: Bits | None = None
    for space, positions, piece in pieces(wave, step, selection, lanes):
        if space in ORDERED_SPACES:
            kind = AccessKind.of(step, access)
            wave.order.access(kind, step, pc, lanes[positions], space, piece.backing, piece.offsets, access.size)
        undefined = None if masks is None else [mask[positions] for mask in masks]
        outcome = _update(wave, step, piece, [value[positions] for value in values], undefined)
        if space in ORDERED_SPACES:
            succeeds = values[0][positions] == outcome.old if len(values) == _CAS_VALUES else None
            _order_update(wave, step, lanes[positions], space, piece, outcome.turns, succeeds)
        if space is StateSpace.GLOBAL and outcome.new_undefined.any():
            check_output(wave, step, lanes[positions], [outcome.new_undefined])
        old[positions] = outcome.old
        if outcome.old_undefined.any():
            old_masks = scatter(old_masks, lanes.size, positions, outcome.old_undefined)
        wave.count_read(space, piece.offsets.size * access.size)
        wave.count_written(space, piece.offsets.size * access.size, changed=outcome.changed)
        wave.polls += not outcome.changed
    wave.registers.write(step.destinations[0], selection, old, old_masks, *step.sign_from)


def _order_update(
    wave: Wave, step: Step, lanes: Lanes, space: StateSpace, piece: Piece, turns: Lanes, writes: Mask | None
) -> None:
    """What the atomics publish and learn, in the order of their turns; a compare-and-swap that fails only reads."""
    access = access_of(step)
    wave.order.strong_update(
        lanes[turns],
        space,
        piece.backing,
        piece.offsets[turns],
        access.size,
        access.scope,
        access.acquires,
        access.releases,
        step.opcode.startswith("atom"),
        None if writes is None else writes[turns],
    )


@dataclass(frozen=True)
class _Queue:
    """Lanes sorted by address, those of one address in the order of their turns.

    Attributes:
        position: index into the lane vector.
        rank: the lane's turn at its address.
    """

    position: Lanes
    rank: Lanes

    @classmethod
    def of(cls, offsets: Lanes, lane_order: Lanes | None) -> "_Queue":
        drawn = np.arange(offsets.size) if lane_order is None else lane_order
        position = drawn[np.argsort(offsets[drawn], kind="stable")]
        ordered = offsets[position]
        first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
        place = np.arange(offsets.size)
        return cls(position, place - np.maximum.accumulate(np.where(first, place, 0)))

    def rounds(self) -> Iterator[Lanes]:
        """Positions of the first lane of every address, then of the second, and so on."""
        by_rank = self.position[np.argsort(self.rank, kind="stable")]
        return iter(np.split(by_rank, np.cumsum(np.bincount(self.rank))[:-1]))


@dataclass(frozen=True)
class _Outcome:
    """Values before and after each lane's turn, and their undefined bits; positions in the order of the turns."""

    old: Bits
    old_undefined: Bits
    new: Bits
    new_undefined: Bits
    turns: Lanes

    @classmethod
    def of(cls, queue: _Queue) -> "_Outcome":
        old, old_undefined, new, new_undefined = np.zeros((4, queue.position.size), np.uint64)
        return cls(old, old_undefined, new, new_undefined, queue.position)

    @property
    def changed(self) -> bool:
        """Whether memory holds anything new: a compare-and-swap that fails does not get others on."""
        return bool((self.old != self.new).any() or (self.old_undefined != self.new_undefined).any())


def _update(
    wave: Wave, step: Step, piece: Piece, operands: Sequence[Bits], undefined: Sequence[Bits] | None
) -> _Outcome:
    """Read, combine, write, one lane of an address after the other."""
    size = access_of(step).size
    queue = _Queue.of(piece.offsets, wave.lane_order(piece.offsets.size))
    operation = step.operation
    if undefined is None and queue.rank.max() >= CROWDED:
        held, mask = piece.backing.load(piece.offsets, size)
        if mask is None and operation is not None and _is_associative(operation):
            return _scan(operation, piece, size, queue, held, operands[0])
        if mask is None and len(operands) == 2:
            return _compare_and_swap(piece, size, queue, held, operands)
    outcome = _Outcome.of(queue)
    for turn in queue.rounds():
        offsets = piece.offsets[turn]
        old, mask = piece.backing.load(offsets, size)
        old_mask = np.zeros_like(old) if mask is None else mask
        mine = [operand[turn] for operand in operands]
        masks = [np.zeros_like(old)] * len(mine) if undefined is None else [mask[turn] for mask in undefined]
        new, new_mask = _combine(operation, old, old_mask, mine, masks)
        piece.backing.store(offsets, size, new, new_mask if new_mask.any() else None)
        outcome.old[turn], outcome.old_undefined[turn] = old, old_mask
        outcome.new[turn], outcome.new_undefined[turn] = new, new_mask
    return outcome


def _is_associative(operation: Operation) -> bool:
    name, _, type_ = operation.name.rpartition(".")
    return name in _ASSOCIATIVE and not type_.startswith("f")


def _scan(operation: Operation, piece: Piece, size: int, queue: _Queue, held: Bits, operand: Bits) -> _Outcome:
    """All turns at once: prefixes by doubling (Hillis and Steele, "Data Parallel Algorithms", 1986)."""
    running = operand[queue.position]
    distance = 1
    while distance <= queue.rank.max():
        later = np.flatnonzero(queue.rank >= distance)
        running[later] = operation.compute([running[later - distance], running[later]])[0]
        distance *= 2
    start = held[queue.position]
    new = operation.compute([start, running])[0]
    outcome = _Outcome.of(queue)
    outcome.old[queue.position] = np.where(queue.rank == 0, start, np.roll(new, 1))
    outcome.new[queue.position] = new
    piece.backing.store(piece.offsets[queue.position], size, new, None)  # of several, an address keeps its last
    return outcome


def _compare_and_swap(piece: Piece, size: int, queue: _Queue, held: Bits, operands: Sequence[Bits]) -> _Outcome:
    """All turns up to each address's next success at once: failures leave memory as it is."""
    comparand, swap = (operand[queue.position] for operand in operands)
    place = np.arange(held.size)
    address = np.cumsum(queue.rank == 0) - 1
    old = held[queue.position]
    new = old.copy()
    left = np.ones(held.size, np.bool_)
    while left.any():
        success = np.full(address[-1] + 1, held.size)
        hits = left & (old == comparand)
        np.minimum.at(success, address[hits], place[hits])
        winner = success[address]
        left &= place > winner
        new[place == winner] = swap[place == winner]
        old[left] = new[left] = swap[winner[left]]
    outcome = _Outcome.of(queue)
    outcome.old[queue.position], outcome.new[queue.position] = old, new
    piece.backing.store(piece.offsets[queue.position], size, new, None)  # of several, an address keeps its last
    return outcome


def _combine(
    operation: Operation | None, old: Bits, old_mask: Bits, operands: Sequence[Bits], masks: Sequence[Bits]
) -> tuple[Bits, Bits]:
    """The new value and its undefined bits."""
    if operation is not None:
        sources, undefined = [old, *operands], [old_mask, *masks]
        (new,) = operation.compute(sources)
        return new, operation.undefined(sources, undefined)[0] if np.bitwise_or.reduce(undefined).any() else old_mask
    if len(operands) == 1:
        return operands[0], masks[0]
    # cas: an undefined comparison leaves open which of the two values stays.
    equal = old == operands[0]
    new_mask = np.where(equal, masks[1], old_mask)
    return np.where(equal, operands[1], old), np.where((old_mask | masks[0]) != 0, EVERY_BIT, new_mask)
