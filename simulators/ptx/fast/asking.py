"""What compiled code asks of the order before it makes an access, through the function of `order_gate`."""

from typing import Any

from tileproof.simulators.ptx.fast.layout import GATE, GATE_TABLE
from tileproof.simulators.ptx.fast.parts import part
from tileproof.simulators.ptx.fast.pointers import call, offsets_at

FOLDED_CALL = 2


@part
def passes(frame: Any, space: Any, allocation: Any, who: Any, found: Any, count: Any, access: Any) -> Any:
    """Whether the order has nothing against accesses; then it remembers them.

    Args:
        frame: what the loop and its caller tell each other.
        space: where.
        allocation: of global memory.
        who: address of their lanes.
        found: address of their first bytes.
        count: how many they are.
        access: bytes of each; what the order calls it; the step; 1 if it is one of the whole warp, or of a single
            component, and FOLDED_CALL more if all blocks make it alike, of which the first is given; address of the
            ticks of the engine that performs it, with room for as many numbers behind them, or 0.
    """
    nbytes, flags, step, together, at = access
    return (
        call(
            frame[GATE],
            (frame[GATE_TABLE], space, allocation, who, found, count, nbytes, flags, step, together, at),
        )
        == 0
    )


@part
def number(runs: Any, who: Any, count: Any) -> None:
    """The lanes of all runs, one after the other, to address `who`."""
    numbers, at = offsets_at(who, count), 0
    for r in range(len(runs)):
        for lane in range(runs[r, 0], runs[r, 1]):
            numbers[at] = lane
            at += 1


@part
def count_from(first: Any, who: Any, count: Any) -> None:
    """Neighbouring lanes to address `who`."""
    numbers = offsets_at(who, count)
    for i in range(count):
        numbers[i] = first + i
