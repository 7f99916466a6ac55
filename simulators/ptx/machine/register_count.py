"""`setmaxnreg`: how many registers the warps of a block give up or ask for.

PTX has virtual registers, so that the contents of new ones are undefined cannot be modelled; what can be is who asks
for how many. All warps of a warpgroup execute the same instructions, `.inc` does not lower and `.dec` does not raise
the number, and a block never has more registers than at its start (PTX ISA, "setmaxnreg").
"""

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.warp import WARP, WARP_SHIFT
from tileproof.simulators.ptx.machine.warpgroup import WARPS
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Step


def change(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """Whole warps execute `setmaxnreg`."""
    ask, state = step.change, wave.register_counts
    assert ask is not None
    lanes = wave.ids(selection)
    warps = np.unique(lanes >> WARP_SHIFT)
    have = state.count[warps]
    wrong = (have != 0) & ((have > ask.count) if ask.more else (have < ask.count))
    if wrong.any():
        verb, other = ("raises", "fewer") if ask.more else ("lowers", "more")
        message = f"{step.opcode} {verb} the number of registers to {other} than the warp has"
        hit = lanes[np.isin(lanes >> WARP_SHIFT, warps[wrong])]
        wave.report(FindingKind.BARRIER, message, step.where, hit, f" ({ask.count} from {int(have[wrong][0])})")
    state.count[warps] = ask.count
    for warp in warps:
        state.places[warp].append(pc)


def check_end(wave: Wave) -> None:
    """At the end of a wave: warpgroups whose warps executed different instructions, and blocks that asked for more
    registers than they have."""
    if not any(wave.register_counts.places):
        return
    per_block = wave.geometry.warps_per_block
    for block in range(wave.geometry.resident.size):
        for first in range(0, per_block, WARPS):
            warps = block * per_block + np.arange(first, min(first + WARPS, per_block))
            _check_warpgroup(wave, warps)
        _check_pool(wave, block * per_block + np.arange(per_block))


def _check_warpgroup(wave: Wave, warps: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    places = [wave.register_counts.places[warp] for warp in warps]
    longest = max(places, key=len)
    if (warps.size == WARPS and all(place == longest for place in places)) or not longest:
        return
    step = wave.program.steps[longest[0]]
    message = f"{step.opcode} is not executed by all four warps of a warpgroup in the same way"
    different = np.array([warp for warp, place in zip(warps, places, strict=True) if place != longest] or warps)
    wave.report(FindingKind.DIVERGENCE, message, step.where, different * WARP)


def _check_pool(wave: Wave, warps: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    """`.inc` waits until the block has so many registers; other warps have given up what they ever will."""
    limit, count = wave.program.register_limit, wave.register_counts.count[warps]
    if limit is None or count.sum() <= limit * warps.size:
        return
    greedy = int(warps[count > limit][0])
    step = wave.program.steps[wave.register_counts.places[greedy][-1]]
    message = f"{step.opcode} waits for registers that the block does not have"
    detail = f" (its warps ask for {int(count.sum())} a lane together, and began with {limit * warps.size})"
    wave.report(FindingKind.DEADLOCK, message, step.where, np.array([greedy * WARP]), detail)
