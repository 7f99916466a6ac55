"""Atomics of a group of lanes: lanes that hit one address take turns.

In round r the r-th lane of every address reads, combines and writes. The order of the turns is the schedule's.
Associative integer operations that crowd on few addresses need no rounds: a running combination over the lanes of each
address gives all intermediate values at once. Example: lanes that add 5, 7 and 1 to a cell that holds 100 get back 100,
105 and 112.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tileproof.simulators.ptx.alu.operation import NotModelled, Operation
from tileproof.simulators.ptx.alu.scalar import SCALARS
from tileproof.simulators.ptx.machine import bracket
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
    """`atom` and `red`: the old values are returned; a wrong access returns zero, defined.

    The elements of a vector are atomics of their own; the two halves of 128 bits are one.
    """
    access = access_of(step)
    lanes = wave.ids(selection)
    slots, count = step.sources[1:], len(step.destinations)
    values = [wave.registers.read(slot, selection, 8 * access.size) for slot in slots]
    masks = wave.registers.undefined(slots, selection, (8 * access.size,) * len(slots))
    old = np.zeros((count, lanes.size), np.uint64)
    old_masks: list[Bits | None] = [None] * count
    for space, positions, piece in pieces(wave, step, selection, lanes):
        if space is StateSpace.SHARED and count > 1 and step.operation is not None:
            raise NotModelled(f"{step.opcode} at {step.where}: vector atomics on shared memory are not modelled")
        undefined = None if masks is None else [mask[positions] for mask in masks]
        queue = _Queue.of(piece.offsets, wave.lane_order(piece.offsets.size))
        parts = _parts(step, piece)
        if piece.backing.brackets is not None:
            bracket.refuse_atomic(step, piece)
        if space is StateSpace.GLOBAL and wave.weak is not None:
            if access.releases:
                wave.release(lanes[positions], access.scope)
            wave.weak.touch(piece.backing, piece.offsets, step.access_bytes, lanes[positions], writes=True)
        outcomes = _outcomes(step, space, queue, parts, [value[positions] for value in values], undefined)
        if space in ORDERED_SPACES:
            succeeds = _succeeds(outcomes, [value[positions] for value in values])
            for part in parts:
                _order_access(wave, step, pc, lanes[positions], space, part, succeeds)
                _order_update(wave, step, lanes[positions], space, part, queue.position, succeeds)
            if access.acquires:
                wave.acquire(lanes[positions], access.scope)
        for index, outcome in enumerate(outcomes):
            if space is StateSpace.GLOBAL and outcome.new_undefined.any():
                check_output(wave, step, lanes[positions], [outcome.new_undefined])
            old[index][positions] = outcome.old
            if outcome.old_undefined.any():
                old_masks[index] = scatter(old_masks[index], lanes.size, positions, outcome.old_undefined)
        changed = any(outcome.changed for outcome in outcomes)
        wave.count_read(space, piece.offsets.size * step.access_bytes)
        wave.count_written(space, piece.offsets.size * step.access_bytes, changed=changed)
        wave.polls += not changed
    signs = step.sign_from or (0,) * count
    for slot, before, mask, sign in zip(step.destinations, old, old_masks, signs, strict=True):
        wave.registers.write(slot, selection, before, mask, sign)


@dataclass(frozen=True)
class _Part:
    """What is atomic as a whole: an element of a vector, or everything."""

    piece: Piece
    nbytes: int


def _is_wide(step: Step) -> bool:
    """Exchange and compare-and-swap of 128 bits, as two halves."""
    return step.operation is None and len(step.destinations) > 1


def _parts(step: Step, piece: Piece) -> list[_Part]:
    if len(step.destinations) == 1 or _is_wide(step):
        return [_Part(piece, step.access_bytes)]
    size = access_of(step).size
    moved = (replace(piece, offsets=piece.offsets + index * size) for index in range(len(step.destinations)))
    return [_Part(each, size) for each in moved]


def _outcomes(
    step: Step,
    space: StateSpace,
    queue: "_Queue",
    parts: Sequence[_Part],
    operands: Sequence[Bits],
    undefined: Sequence[Bits] | None,
) -> list["_Outcome"]:
    """One outcome an element."""
    size, count = access_of(step).size, len(step.destinations)
    if _is_wide(step):
        return _update_wide(parts[0].piece, size, queue, operands, undefined)
    shared = step.shared_operation if space is StateSpace.SHARED else None
    operation = shared or step.operation
    masks = [None if undefined is None else undefined[index::count] for index in range(count)]
    return [
        _update(operation, part.piece, size, queue, operands[index::count], masks[index])
        for index, part in enumerate(parts)
    ]


def _succeeds(outcomes: Sequence["_Outcome"], operands: Sequence[Bits]) -> Mask | None:
    """Where a compare-and-swap writes; None for everything else, which always does."""
    if len(operands) != _CAS_VALUES * len(outcomes):
        return None
    equal: Mask = np.logical_and.reduce([operand == o.old for operand, o in zip(operands, outcomes, strict=False)])
    return equal


def _update_wide(
    piece: Piece, size: int, queue: "_Queue", operands: Sequence[Bits], undefined: Sequence[Bits] | None
) -> list["_Outcome"]:
    """128 bits in two halves, the lower one first: exchanged, or swapped where both equal the comparand."""
    outcomes = [_Outcome.of(queue), _Outcome.of(queue)]
    for turn in queue.rounds():
        halves = [piece.backing.load(piece.offsets[turn] + index * size, size) for index in range(2)]
        mine = [operand[turn] for operand in operands]
        masks = [np.zeros_like(mine[0])] * len(mine) if undefined is None else [mask[turn] for mask in undefined]
        old_masks = [np.zeros_like(old) if mask is None else mask for old, mask in halves]
        equal, unknown = np.ones(turn.size, np.bool_), np.zeros(turn.size, np.bool_)
        if len(mine) > len(halves):
            for (old, _), mask, comparand, given in zip(halves, old_masks, mine, masks, strict=False):
                equal &= old == comparand
                unknown |= (mask | given) != 0
        for index, (old, _) in enumerate(halves):
            swap, given = mine[index - 2], masks[index - 2]
            new = np.where(equal, swap, old)
            new_mask = np.where(unknown, EVERY_BIT, np.where(equal, given, old_masks[index]))
            offsets = piece.offsets[turn] + index * size
            piece.backing.store(offsets, size, new, new_mask if new_mask.any() else None)
            outcome = outcomes[index]
            outcome.old[turn], outcome.old_undefined[turn] = old, old_masks[index]
            outcome.new[turn], outcome.new_undefined[turn] = new, new_mask
    return outcomes


def _order_access(
    wave: Wave, step: Step, pc: int, lanes: Lanes, space: StateSpace, part: _Part, writes: Mask | None
) -> None:
    """Check the accesses; a compare-and-swap that fails is a strong read."""
    kind = AccessKind.of(step, access_of(step))
    every = np.ones(lanes.size, np.bool_)
    chosen = every if writes is None else writes
    for each, who in ((kind, chosen), (replace(kind, writes=False, atomic=False), every & ~chosen)):
        if who.any():
            place, backing = part.piece.offsets[who], part.piece.backing
            wave.order.access(each, step, pc, lanes[who], space, backing, place, part.nbytes)


def _order_update(
    wave: Wave, step: Step, lanes: Lanes, space: StateSpace, part: _Part, turns: Lanes, writes: Mask | None
) -> None:
    """What the atomics publish and learn, in the order of their turns; a compare-and-swap that fails only reads."""
    access = access_of(step)
    wave.order.strong_update(
        lanes[turns],
        space,
        part.piece.backing,
        part.piece.offsets[turns],
        part.nbytes,
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
    """Values before and after each lane's turn, and their undefined bits."""

    old: Bits
    old_undefined: Bits
    new: Bits
    new_undefined: Bits

    @classmethod
    def of(cls, queue: _Queue) -> "_Outcome":
        old, old_undefined, new, new_undefined = np.zeros((4, queue.position.size), np.uint64)
        return cls(old, old_undefined, new, new_undefined)

    @property
    def changed(self) -> bool:
        """Whether memory holds anything new: a compare-and-swap that fails does not get others on."""
        return bool((self.old != self.new).any() or (self.old_undefined != self.new_undefined).any())


def _update(
    operation: Operation | None,
    piece: Piece,
    size: int,
    queue: _Queue,
    operands: Sequence[Bits],
    undefined: Sequence[Bits] | None,
) -> _Outcome:
    """Read, combine, write, one lane of an address after the other."""
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
    return name in _ASSOCIATIVE and not SCALARS[type_].is_float


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
