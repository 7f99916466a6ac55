"""Open values through the matrix moves `ldmatrix`, `stmatrix` and `movmatrix`, and into matrix products."""

from collections.abc import Callable, Sequence

import numpy as np

from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.simulators.ptx.machine.bracket import open_lanes
from tileproof.simulators.ptx.machine.bracket_interval import Interval, common, from_mask, regroup
from tileproof.simulators.ptx.machine.memory import Bits, Bytes, Lanes, Piece
from tileproof.simulators.ptx.machine.registers import EVERY_BIT, Selection
from tileproof.simulators.ptx.machine.warp import WARP
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Kind, Step

_HALF = 8
#: Half of some rows: positions of the rows, which half, what it holds.
HalfRows = tuple[Lanes | slice, int, Interval]
FromRows = Callable[[FragmentMap, Bytes], Bits]
ToRows = Callable[[FragmentMap, list[Bits]], Bytes]


def found(positions: Lanes | slice, piece: Piece) -> list[HalfRows]:
    """What rows of 16 bytes in memory leave open."""
    halves = [(half, piece.backing.bracket(piece.offsets + half * _HALF, _HALF)) for half in range(2)]
    return [(positions, half, interval) for half, interval in halves if interval is not None]


def loaded(
    wave: Wave, step: Step, selection: Selection, rows: Bytes, held: Sequence[HalfRows], from_rows: FromRows
) -> None:
    """After `ldmatrix`: the intervals of its registers."""
    assert step.transfer is not None
    even = common([_elements(interval, step.transfer, 8 * _HALF) for _, _, interval in held], 8 * _HALF)
    low, high = rows.copy(), rows.copy()
    for (positions, half, _), interval in zip(held, even, strict=True):
        low.view("<u8")[positions, half] = interval.low
        high.view("<u8")[positions, half] = interval.high
    words = [from_rows(step.transfer, end) for end in (low, high)]
    for index, slot in enumerate(step.destinations):
        interval = Interval(words[0][:, index], words[1][:, index], even[0].grain)
        wave.registers.brackets.set(slot, selection, interval)


def stored(
    wave: Wave, step: Step, selection: Selection, slots: Sequence[int], values: Sequence[Bits], to_rows: ToRows
) -> Callable[[Piece, Lanes | slice], None] | None:
    """What puts the intervals of `stmatrix` into memory after its values; None if there are none."""
    assert step.transfer is not None
    registers = wave.registers.brackets
    intervals = [registers.get(slot, selection, value, 32) for slot, value in zip(slots, values, strict=True)]
    given = [_elements(interval, step.transfer, 32) for interval in intervals if interval is not None]
    if not given:
        return None
    even = iter(common(given, 32))
    parts = [
        Interval(value, value, 1) if interval is None else next(even)
        for value, interval in zip(values, intervals, strict=True)
    ]
    grain = max(part.grain for part in parts)
    low = to_rows(step.transfer, [part.low for part in parts]).view("<u8")
    high = to_rows(step.transfer, [part.high for part in parts]).view("<u8")

    def put(piece: Piece, positions: Lanes | slice) -> None:
        for half in range(2):
            ends = [np.ascontiguousarray(end[positions, half]).astype(np.uint64) for end in (low, high)]
            piece.backing.set_bracket(piece.offsets + half * _HALF, _HALF, Interval(ends[0], ends[1], grain))

    return put


def transposed(
    wave: Wave, step: Step, selection: Selection, value: Bits, transpose: Callable[[Bits], Bits]
) -> Interval | None:
    """The interval of `movmatrix`, which moves elements of 16 bits."""
    held = wave.registers.brackets.get(step.sources[0], selection, value, 32)
    if held is None:
        return None
    part = regroup(held, 16, 32) if held.grain > 16 else held
    return Interval(transpose(part.low), transpose(part.high), part.grain)


def _elements(interval: Interval, transfer: FragmentMap, width: int) -> Interval:
    bits = transfer.element_bits
    return regroup(interval, bits, width) if interval.grain > bits else interval


def products_open(wave: Wave, step: Step, selection: Selection) -> Lanes | None:
    """The lanes of the warps whose product has an open operand; None if there are none.

    Of `wgmma` all lanes, and also if anything in shared memory is open.
    """
    lanes = wave.ids(selection)
    if step.kind is Kind.WGMMA and wave.shared.brackets is not None:
        return lanes
    if not wave.registers.brackets.live:
        return None
    slots = (slot for slot in dict.fromkeys(step.sources) if slot >= 0)
    found = [opened for slot in slots if (opened := open_lanes(wave, slot, selection)) is not None]
    if not found:
        return None
    chosen: Lanes = lanes[np.isin(lanes // WARP, np.concatenate(found) // WARP)]
    return lanes if step.kind is Kind.WGMMA else chosen


def open_products(wave: Wave, step: Step, lanes: Lanes) -> None:
    """After such a product every result of these lanes is open in all bits."""
    for slot in step.destinations:
        value = wave.registers.read(slot, lanes)
        every = EVERY_BIT >> np.uint64(64 - wave.program.slot_bits[slot])
        wave.registers.brackets.set(slot, lanes, from_mask(value, np.full_like(value, every)))
