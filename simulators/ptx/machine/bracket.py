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
from tileproof.simulators.ptx.machine.bracket_interval import Interval, from_mask, regroup
from tileproof.simulators.ptx.machine.memory import Bits, Lanes, Piece
from tileproof.simulators.ptx.machine.registers import EVERY_BIT, Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import NO_GUARD, Kind, StateSpace, Step

_ADDRESSED = frozenset({Kind.LOAD, Kind.STORE, Kind.ATOMIC, Kind.MATRIX_LOAD, Kind.MATRIX_STORE})
_CARRIED = frozenset({Kind.ARITHMETIC, Kind.PACK, Kind.UNPACK, Kind.MATRIX_TRANSPOSE, Kind.MMA, Kind.WGMMA})


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


def check(wave: Wave, step: Step, selection: Selection) -> None:
    """Report open values that decide what a step does: whether, where, or what a collective returns."""
    if step.guard != NO_GUARD:
        what = "which way a branch goes" if step.kind is Kind.BRANCH else f"whether {step.opcode} executes"
        _report(wave, step, (step.guard,), selection, f"decides {what}; both are right, and the run goes the nominal one")


def check_operands(wave: Wave, step: Step, selection: Selection) -> None:
    """The same for the operands of a step that executes."""
    if step.kind in _ADDRESSED:
        message = f"decides the address that {step.opcode} uses; the run uses the nominal one"
        _report(wave, step, step.sources[:1], selection, message)
        if step.kind is Kind.ATOMIC:
            _refuse(wave, step, step.sources[1:], selection)
        return
    if step.kind in _CARRIED:
        return
    slots = step.sources[1:] if step.kind is Kind.SHUFFLE else step.sources
    if step.barrier is not None:
        slots += tuple(slot for slot in (step.barrier.number, step.barrier.count) if slot >= 0)
    _report(wave, step, slots, selection, f"decides what {step.opcode} does; the run goes on with the nominal one")


def _open_lanes(wave: Wave, slot: int, selection: Selection) -> Lanes | None:
    held = wave.registers.brackets.get(slot, selection, wave.registers.read(slot, selection))
    return None if held is None else wave.ids(selection)[held.wide]


def _report(wave: Wave, step: Step, slots: Sequence[int], selection: Selection, message: str) -> None:
    for slot in slots:
        lanes = _open_lanes(wave, slot, selection)
        if lanes is not None:
            wave.report(FindingKind.APPROXIMATE, f"an approximate value {message}", step.where, lanes)


def _refuse(wave: Wave, step: Step, slots: Sequence[int], selection: Selection) -> None:
    if any(_open_lanes(wave, slot, selection) is not None for slot in slots):
        raise NotModelled(
            f"{step.opcode} at {step.where}: an approximate value in an atomic is not modelled",
            hint="its bracket would depend on the order of the turns",
        )


def refuse_memory(step: Step, piece: Piece, size: int) -> None:
    """Refuse an access that reads open values and cannot carry them."""
    if piece.backing.bracket(piece.offsets, size) is not None:
        raise NotModelled(f"{step.opcode} at {step.where}: reading an approximate value by it is not modelled")


def count_output(wave: Wave, space: StateSpace, interval: Interval, size: int) -> None:
    """Count bytes of elements that a store to global memory leaves open."""
    if space is StateSpace.GLOBAL:
        nbytes = max(1, interval.grain // 8) if interval.grain <= 8 * size else size
        differ = interval.low ^ interval.high
        field = np.uint64((1 << (8 * nbytes)) - 1)
        open_ = sum(int(((differ >> np.uint64(8 * at)) & field != 0).sum()) for at in range(0, size, nbytes))
        wave.counters.global_bytes_undecided += open_ * nbytes


def products_open(wave: Wave, step: Step, selection: Selection) -> bool:
    """Whether an operand of a matrix product is open; of `wgmma` also if anything in shared memory is."""
    if step.kind is Kind.WGMMA and getattr(wave.spaces[StateSpace.SHARED], "brackets", None) is not None:
        return True
    slots = (slot for slot in dict.fromkeys(step.sources) if slot >= 0)
    return wave.registers.brackets.live and any(_open_lanes(wave, slot, selection) is not None for slot in slots)


def open_products(wave: Wave, step: Step, selection: Selection) -> None:
    """After such a product every result of the group of lanes is open in all bits."""
    for slot in step.destinations:
        value = wave.registers.read(slot, selection)
        every = EVERY_BIT >> np.uint64(64 - wave.program.slot_bits[slot])
        wave.registers.brackets.set(slot, selection, from_mask(value, np.full_like(value, every)))


def loaded(wave: Wave, step: Step, lanes: Lanes, opened: Sequence[tuple[int, Lanes | slice, Interval]]) -> None:
    """After a load: the intervals that it found, by destination and positions in the lane vector."""
    signs = step.sign_from or (0,) * len(step.destinations)
    for index, positions, interval in opened:
        slot = step.destinations[index]
        if slot >= 0 and signs[index]:
            interval = _extended(interval, signs[index], wave.program.slot_bits[slot])
        wave.registers.brackets.set(slot, lanes[positions], interval)
