"""Carrying the brackets of approximate functions through a kernel, step by step.

A step computes nominal values as ever; beside it, while the program has open values at all, the functions here find
the interval of its results. Where an interval decides something that is not a number, a way or an address, the run
goes on with the nominal value and the report says so.
"""

from collections.abc import Sequence

import numpy as np

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine import bracket_rules
from tileproof.simulators.ptx.machine.bracket_interval import Interval, regroup
from tileproof.simulators.ptx.machine.memory import Bits, Lanes, Piece
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Kind, StateSpace, Step

Opened = tuple[int, Lanes | slice, Interval]
"""An interval that a load found: which element of a vector, which positions of the lane vector."""

_TURNS = "its bracket would depend on the order of the turns"
_ADDRESSED = frozenset({Kind.LOAD, Kind.STORE, Kind.ATOMIC, Kind.MATRIX_LOAD, Kind.MATRIX_STORE})
_CARRIED = frozenset({Kind.ARITHMETIC, Kind.PACK, Kind.UNPACK, Kind.MATRIX_TRANSPOSE, Kind.MMA, Kind.WGMMA, Kind.EXIT})


def sources(wave: Wave, step: Step, selection: Selection, values: Sequence[Bits]) -> list[Interval | None]:
    """The intervals of a step's sources."""
    held = wave.registers.brackets
    narrow = step.narrow or (0,) * len(step.sources)
    return [held.get(*each) for each in zip(step.sources, (selection,) * len(narrow), values, narrow, strict=True)]


def results(wave: Wave, step: Step, selection: Selection, values: Sequence[Bits]) -> list[Interval | None] | None:
    """The intervals of an arithmetic step's results; None if all of them are values."""
    assert step.operation is not None
    intervals = sources(wave, step, selection, values)
    if step.operation.allowed is None and not any(intervals):
        return None
    return bracket_rules.rule_of(step.operation)(values, intervals)


def write(wave: Wave, step: Step, selection: Selection, intervals: Sequence[Interval | None] | None) -> None:
    """Put intervals beside the values that a step has just written."""
    signs = step.sign_from or (0,) * len(step.destinations)
    for slot, interval, sign in zip(step.destinations, intervals or (), signs, strict=False):
        if interval is None or slot < 0:
            continue
        width = wave.program.slot_bits[slot]
        if sign:
            interval = _extended(interval, sign, width)
        wave.registers.brackets.set(slot, selection, interval)


def _extended(interval: Interval, bits: int, width: int) -> Interval:
    """A signed result in a wider register."""
    part = regroup(interval, 1, max(8, bits))
    sign, mask = np.uint64(1 << (bits - 1)), np.uint64((1 << width) - 1)
    return Interval(((part.low ^ sign) - sign) & mask, ((part.high ^ sign) - sign) & mask, 1)


def pack(wave: Wave, step: Step, selection: Selection, values: Sequence[Bits]) -> list[Interval | None] | None:
    """`mov` of a vector to one register."""
    intervals = sources(wave, step, selection, values)
    return [bracket_rules.packed(values, intervals, step.element_bits)] if any(intervals) else None


def unpack(wave: Wave, step: Step, selection: Selection, value: Bits) -> list[Interval | None] | None:
    """`mov` of one register to a vector."""
    held = wave.registers.brackets.get(step.sources[0], selection, value)
    if held is None:
        return None
    bits = step.element_bits
    return [bracket_rules.unpacked(held, i, bits, bits * len(step.destinations)) for i in range(len(step.destinations))]


def check_guard(wave: Wave, step: Step, selection: Selection) -> None:
    """Report open predicates that decide whether a step executes."""
    what = "which way a branch goes" if step.kind is Kind.BRANCH else f"whether {step.opcode} executes"
    _report(
        wave, step, (step.guard,), selection, f"decides {what}; both ways are legal, the run follows the nominal one"
    )


def check_operands(wave: Wave, step: Step, selection: Selection) -> None:
    """Report open operands that decide where a step goes or what a collective does."""
    if step.kind in _ADDRESSED:
        message = f"decides the address of {step.opcode}; the run follows the nominal one"
        _report(wave, step, step.sources[:1], selection, message)
        if step.kind is Kind.ATOMIC:
            _refuse(wave, step, step.sources[1:], selection)
        return
    if step.kind in _CARRIED:
        return
    slots = step.sources[1:] if step.kind is Kind.SHUFFLE else step.sources
    if step.barrier is not None:
        slots += tuple(slot for slot in (step.barrier.number, step.barrier.count) if slot >= 0)
    _report(wave, step, slots, selection, f"decides what {step.opcode} does; the run follows the nominal one")


def open_lanes(wave: Wave, slot: int, selection: Selection) -> Lanes | None:
    """The lanes of a slot that are more than one value; None if there are none."""
    held = wave.registers.brackets.get(slot, selection, wave.registers.read(slot, selection))
    return None if held is None else wave.ids(selection)[held.wide]


def _report(wave: Wave, step: Step, slots: Sequence[int], selection: Selection, message: str) -> None:
    for slot in slots:
        lanes = open_lanes(wave, slot, selection)
        if lanes is not None:
            wave.report(FindingKind.APPROXIMATE, f"an approximate value {message}", step.where, lanes)


def _refuse(wave: Wave, step: Step, slots: Sequence[int], selection: Selection) -> None:
    if any(open_lanes(wave, slot, selection) is not None for slot in slots):
        raise NotModelled(
            f"{step.opcode} at {step.where}: an approximate value in an atomic is not modelled",
            hint=_TURNS,
        )


def refuse_atomic(step: Step, piece: Piece) -> None:
    """Refuse an atomic on memory that an approximate function left open."""
    assert step.access is not None
    size = step.access.size
    parts = (piece.offsets + start for start in range(0, step.access_bytes, size))
    if any(piece.backing.bracket(part, size) is not None for part in parts):
        raise NotModelled(
            f"{step.opcode} at {step.where}: an atomic on an approximate value is not modelled", hint=_TURNS
        )


def shuffled(
    wave: Wave, step: Step, selection: Selection, value: Bits, lanes: Lanes, chosen: Lanes
) -> list[Interval | None] | None:
    """The interval of a shuffle's result: lane i of the group gets what lane `chosen[i]` of the wave holds."""
    held = wave.registers.brackets.get(step.sources[0], selection, value)
    if held is None:
        return None
    ends = np.zeros((2, wave.geometry.lanes), np.uint64)
    ends[0, lanes], ends[1, lanes] = held.low, held.high
    return [Interval(ends[0][chosen], ends[1][chosen], held.grain)]


def found(piece: Piece, index: int, size: int, positions: Lanes | slice) -> list[Opened]:
    """What one element of a load found in one piece of memory."""
    interval = piece.backing.bracket(piece.offsets + index * size, size)
    return [] if interval is None else [(index, positions, interval)]


def stored(wave: Wave, step: Step, selection: Selection, values: Sequence[Bits]) -> list[Interval | None] | None:
    """The intervals of the values that a store puts into memory."""
    assert step.access is not None
    held, bits = wave.registers.brackets, 8 * step.access.size
    intervals = [held.get(slot, selection, value, bits) for slot, value in zip(step.sources[1:], values, strict=True)]
    return intervals if any(intervals) else None


def put(wave: Wave, space: StateSpace, piece: Piece, size: int, intervals: Sequence[Interval | None]) -> None:
    """After a store of nominal values: the intervals around them, and the count of what is open."""
    for index, interval in enumerate(intervals):
        if interval is None:
            continue
        piece.backing.set_bracket(piece.offsets + index * size, size, interval)
        if space is StateSpace.GLOBAL:
            wave.counters.global_bytes_undecided += _open_bytes(interval, size)


def _open_bytes(interval: Interval, size: int) -> int:
    """Bytes of the elements that are more than one value."""
    nbytes = min(size, max(1, interval.grain // 8))
    differ = (interval.low ^ interval.high).astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)[:, :size]
    return int((differ.reshape(-1, size // nbytes, nbytes) != 0).any(axis=-1).sum()) * nbytes


def loaded(wave: Wave, step: Step, lanes: Lanes, opened: Sequence[Opened]) -> None:
    """After a load: the intervals that it found, by destination and positions in the lane vector."""
    signs = step.sign_from or (0,) * len(step.destinations)
    for index, positions, interval in opened:
        slot = step.destinations[index]
        if slot >= 0 and signs[index]:
            interval = _extended(interval, signs[index], wave.program.slot_bits[slot])
        wave.registers.brackets.set(slot, lanes[positions], interval)
