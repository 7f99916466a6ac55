"""Loads, stores and atomics of a group of lanes, with every check on the access itself."""

from collections.abc import Iterator, Sequence

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.memory import Bits, Fault, Lanes, Piece
from tileproof.simulators.ptx.order import Conflict, same_instruction_writes
from tileproof.simulators.ptx.program import Access, StateSpace, Step
from tileproof.simulators.ptx.registers import Selection
from tileproof.simulators.ptx.wave import Wave, split_generic

_ALL_BITS = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


def load(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`ld`: wrong accesses give an undefined value."""
    access = _access(step)
    lanes = wave.ids(selection)
    count = len(step.destinations)
    nbytes = access.size * count
    values = [np.zeros(lanes.size, np.uint64) for _ in range(count)]
    masks: list[Bits | None] = [None] * count
    bad = np.ones(lanes.size, np.bool_)
    for space, positions, piece in _pieces(wave, step, access, selection, lanes, nbytes):
        bad[positions] = False
        for index in range(count):
            loaded, undefined = piece.backing.load(piece.offsets + index * access.size, access.size)
            values[index][positions] = loaded
            if undefined is not None:
                masks[index] = _with(masks[index], lanes.size, positions, undefined)
        _order_read(wave, step, pc, access, space, lanes[positions], piece.offsets, nbytes)
        _count(wave, space, positions_count(positions, lanes) * nbytes, read=True)
    if bad.any():
        masks = [_with(mask, lanes.size, np.flatnonzero(bad), _ALL_BITS) for mask in masks]
    signs = step.sign_from or (0,) * count
    for slot, result, mask, sign in zip(step.destinations, values, masks, signs, strict=True):
        wave.registers.write(slot, selection, result, mask, sign)


def store(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`st`: wrong accesses are dropped."""
    access = _access(step)
    lanes = wave.ids(selection)
    slots = step.sources[1:]
    nbytes = access.size * len(slots)
    values = [wave.registers.read(slot, selection, 8 * access.size) for slot in slots]
    masks = _source_masks(wave, slots, selection, access.size)
    for space, positions, piece in _pieces(wave, step, access, selection, lanes, nbytes):
        if masks is not None and space is StateSpace.GLOBAL:
            _check_output(wave, step, lanes[positions], [mask[positions] for mask in masks])
        _check_overlap(wave, step, access, lanes[positions], piece.offsets, nbytes, [v[positions] for v in values])
        for index, value in enumerate(values):
            mask = None if masks is None else masks[index][positions]
            piece.backing.store(piece.offsets + index * access.size, access.size, value[positions], mask)
        if space is StateSpace.SHARED:
            update = wave.order.atomic if access.strong else wave.order.write
            _conflict(wave, step, "write", lanes[positions], update(lanes[positions], piece.offsets, nbytes, pc))
        _count(wave, space, positions_count(positions, lanes) * nbytes, read=False)


def atomic(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`atom` and `red`: lanes that hit one address take turns in lane order; the old value is returned."""
    access = _access(step)
    lanes = wave.ids(selection)
    operands = [wave.registers.read(slot, selection, 8 * access.size) for slot in step.sources[1:]]
    if not wave.registers.all_defined(step.sources[1:]):
        undefined = _source_masks(wave, step.sources[1:], selection, access.size) or []
        hit = np.flatnonzero(np.bitwise_or.reduce(undefined))
        if hit.size:
            message = "an atomic combines memory with a value that nothing wrote"
            wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[hit])
    old = np.zeros(lanes.size, np.uint64)
    old_masks: Bits | None = None
    for space, positions, piece in _pieces(wave, step, access, selection, lanes, access.size):
        chosen = [operand[positions] for operand in operands]
        before, mask = _combine(step, piece, access.size, chosen)
        old[positions] = before
        if mask is not None:
            old_masks = _with(old_masks, lanes.size, positions, mask)
        if space is StateSpace.SHARED:
            conflict = wave.order.atomic(lanes[positions], piece.offsets, access.size, pc)
            _conflict(wave, step, "atomic", lanes[positions], conflict)
        _count(wave, space, positions_count(positions, lanes) * access.size, read=True)
        _count(wave, space, positions_count(positions, lanes) * access.size, read=False)
    wave.registers.write(step.destinations[0], selection, old, old_masks, *step.sign_from)


def _combine(step: Step, piece: Piece, size: int, operands: Sequence[Bits]) -> tuple[Bits, Bits | None]:
    """Read-modify-write in rounds: round r serves the r-th lane of every address."""
    before = np.zeros(piece.offsets.size, np.uint64)
    undefined: Bits | None = None
    for turn in _rounds(piece.offsets):
        offsets = piece.offsets[turn]
        old, mask = piece.backing.load(offsets, size)
        before[turn] = old
        if mask is not None:
            undefined = _with(undefined, before.size, turn, mask)
        piece.backing.store(offsets, size, _new_value(step, old, [operand[turn] for operand in operands]), mask)
    return before, undefined


def _new_value(step: Step, old: Bits, operands: Sequence[Bits]) -> Bits:
    if step.operation is not None:
        return step.operation.compute([old, operands[0]])[0]
    if len(operands) == 1:
        return operands[0]
    return np.where(old == operands[0], operands[1], old)


def _rounds(offsets: Lanes) -> Iterator[Lanes]:
    order = np.argsort(offsets, kind="stable")
    ordered = offsets[order]
    first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    start = np.maximum.accumulate(np.where(first, np.arange(offsets.size), 0))
    rank = np.arange(offsets.size) - start
    for turn in range(int(rank.max(initial=-1)) + 1):
        yield order[rank == turn]


def _access(step: Step) -> Access:
    assert step.access is not None
    return step.access


def _pieces(
    wave: Wave, step: Step, access: Access, selection: Selection, lanes: Lanes, nbytes: int
) -> Iterator[tuple[StateSpace, Lanes | slice, Piece]]:
    """Legal parts of an access: space, positions in the lane vector, place in memory. Reports the rest."""
    addresses = _addresses(wave, step, access, selection)
    legal = _legal_addresses(wave, step, selection, lanes, addresses, nbytes)
    if legal is not None:
        addresses, lanes = addresses[legal], lanes[legal]
    parts = split_generic(addresses) if access.space is StateSpace.GENERIC else [(access.space, None, addresses)]
    for space, chosen, part in parts:
        owners = lanes if chosen is None else lanes[chosen]
        pieces, faults = wave.spaces[space].locate(part, owners, nbytes)
        for fault in faults:
            _report(wave, step, fault, owners)
        for piece in pieces:
            yield space, _positions(piece.positions, chosen, legal), piece


def _positions(inner: Lanes | slice, chosen: Lanes | None, legal: Lanes | None) -> Lanes | slice:
    """Positions in the outermost lane vector, through the choices made on the way."""
    for outer in (chosen, legal):
        if outer is not None:
            inner = outer[inner]
    return inner


def _addresses(wave: Wave, step: Step, access: Access, selection: Selection) -> Bits:
    slot = step.sources[0]
    width = 64 if access.space in (StateSpace.GENERIC, StateSpace.GLOBAL) else 32
    addresses = wave.registers.read(slot, selection) + np.uint64(access.offset & 0xFFFF_FFFF_FFFF_FFFF)
    return addresses if width == 64 else addresses & np.uint64(0xFFFF_FFFF)


def _legal_addresses(
    wave: Wave, step: Step, selection: Selection, lanes: Lanes, addresses: Bits, nbytes: int
) -> Lanes | None:
    """Positions whose address is defined and aligned; None when all are."""
    good = addresses % np.uint64(nbytes) == 0
    if not good.all():
        wrong = np.flatnonzero(~good)
        message = f"{step.opcode} of {nbytes} bytes at an address that is not a multiple of {nbytes}"
        message += f" (0x{int(addresses[wrong[0]]):x})"
        wave.report(FindingKind.MISALIGNED, message, step.where, lanes[wrong])
    if not wave.registers.all_defined(step.sources[:1]):
        undefined = wave.registers.undefined(step.sources[0], selection) != 0
        if undefined.any():
            message = "a value that nothing wrote decides an address"
            wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[undefined])
            good = good & ~undefined
    return None if good.all() else np.flatnonzero(good)


def _report(wave: Wave, step: Step, fault: Fault, lanes: Lanes) -> None:
    wave.report(fault.kind, f"{step.opcode}: {fault.message}", step.where, lanes[fault.positions])


def _source_masks(wave: Wave, slots: Sequence[int], selection: Selection, size: int) -> list[Bits] | None:
    if wave.registers.all_defined(slots):
        return None
    return [wave.registers.undefined(slot, selection, 8 * size) for slot in slots]


def _with(mask: Bits | None, size: int, positions: Lanes | slice, part: Bits | np.uint64) -> Bits:
    result = np.zeros(size, np.uint64) if mask is None else mask
    result[positions] = part
    return result


def _check_output(wave: Wave, step: Step, lanes: Lanes, masks: Sequence[Bits]) -> None:
    hit = np.flatnonzero(np.bitwise_or.reduce(masks))
    if hit.size:
        message = "a value that nothing wrote is stored to global memory"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[hit])


def _check_overlap(
    wave: Wave, step: Step, access: Access, lanes: Lanes, offsets: Lanes, nbytes: int, values: Sequence[Bits]
) -> None:
    """Two lanes of one weak store at one place: with different values a race, with equal ones a note."""
    if access.strong or bool(np.all(offsets[1:] >= offsets[:-1] + nbytes)):
        return
    found = same_instruction_writes(offsets, nbytes, values)
    if found is None:
        return
    different, equal = found
    if different.any():
        message = f"lanes of one {step.opcode} write different values to one address"
        wave.report(FindingKind.RACE, message, step.where, lanes[different])
    if equal.any():
        wave.note(f"lanes of one {step.opcode} write equal values to one address", step.where, int(equal.sum()))


def _order_read(
    wave: Wave, step: Step, pc: int, access: Access, space: StateSpace, lanes: Lanes, offsets: Lanes, nbytes: int
) -> None:
    if space is not StateSpace.SHARED:
        return
    if access.strong:
        conflict = wave.order.strong_read(lanes, offsets, nbytes)
    else:
        conflict = wave.order.read(lanes, offsets, nbytes, pc)
    _conflict(wave, step, "read", lanes, conflict)


def _conflict(wave: Wave, step: Step, now: str, lanes: Lanes, conflict: Conflict | None) -> None:
    if conflict is None:
        return
    earlier = wave.program.steps[conflict.other_step]
    other = wave.geometry.thread(conflict.other_lane)
    message = (
        f"{now} of shared memory without order after the {conflict.earlier} by another thread: no barrier lies between "
        f"{earlier.opcode} at {earlier.where} ({other}) and this {step.opcode}"
    )
    hit = np.array([lanes[conflict.position], conflict.other_lane])
    wave.report(FindingKind.RACE, message, step.where, hit)


def positions_count(positions: Lanes | slice, lanes: Lanes) -> int:
    """How many lanes a choice of positions holds."""
    return lanes.size if isinstance(positions, slice) else positions.size


def _count(wave: Wave, space: StateSpace, nbytes: int, *, read: bool) -> None:
    counters = wave.counters
    if space is StateSpace.GLOBAL:
        if read:
            counters.global_bytes_read += nbytes
        else:
            counters.global_bytes_written += nbytes
    elif space is StateSpace.SHARED:
        if read:
            counters.shared_bytes_read += nbytes
        else:
            counters.shared_bytes_written += nbytes
