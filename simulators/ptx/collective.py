"""Warp collectives: shuffles, votes, `activemask`, and who takes part in them.

A `.sync` collective waits until every lane of its member mask that has not exited has come to it. Member masks and
lanes are bits of a 32-bit word a warp, bit l for lane l.
"""

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.memory import Bits, Lanes, Mask
from tileproof.simulators.ptx.order import WARP
from tileproof.simulators.ptx.program import ShuffleMode, Step, VoteMode
from tileproof.simulators.ptx.registers import Selection
from tileproof.simulators.ptx.wave import Status, Wave

_ALL_BITS = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_LANE_BITS = np.uint64(1) << np.arange(WARP, dtype=np.uint64)


def present_bits(wave: Wave, lanes: Lanes) -> Bits:
    """For every warp of the wave, the bits of those of its lanes that are in `lanes`."""
    present = np.zeros(wave.geometry.lanes, np.bool_)
    present[lanes] = True
    return _bits(present)


def complete(wave: Wave, members: Bits, lanes: Lanes) -> Mask:
    """Which of the lanes at a collective find all of their members that have not exited beside them.

    Args:
        wave: the machine.
        members: member mask of each lane in `lanes`.
        lanes: all lanes that have come to this collective.
    """
    alive = _bits(wave.status != Status.EXITED)
    here = present_bits(wave, lanes)
    warps = lanes // WARP
    missing: Mask = (members & alive[warps] & ~here[warps]) == 0
    return missing


def report_outsiders(wave: Wave, step: Step, members: Bits, lanes: Lanes) -> None:
    """A lane that executes a collective whose member mask leaves it out (undefined, PTX ISA on membermask)."""
    outside = (members >> (lanes % WARP).astype(np.uint64)) & np.uint64(1) == 0
    if outside.any():
        message = f"a thread executes {step.opcode} with a member mask that does not contain it"
        wave.report(FindingKind.DIVERGENCE, message, step.where, lanes[outside])


def shuffle(wave: Wave, step: Step, selection: Selection) -> None:
    """`shfl.sync` (PTX ISA, "shfl.sync"): reading a lane that takes no part gives an undefined value."""
    registers = wave.registers
    value, offset, clamp, _ = (registers.read(slot, selection) for slot in step.sources)
    lanes = wave.ids(selection)
    lane = (lanes % WARP).astype(np.int64)
    source, inside = _source_lane(step, lane, offset.astype(np.int64) & 31, clamp.astype(np.int64))
    everyone = np.zeros(wave.geometry.lanes, np.uint64)
    everyone[lanes] = value
    absent = np.full(wave.geometry.lanes, _ALL_BITS)
    defined = registers.all_defined(step.sources)
    absent[lanes] = 0 if defined else registers.undefined(step.sources[0], selection)
    chosen = lanes - lane + source
    mask = absent[chosen]
    registers.write(step.destinations[0], selection, everyone[chosen], mask if mask.any() else None)
    registers.write(step.destinations[1], selection, inside.astype(np.uint64), None)


def _source_lane(step: Step, lane: Lanes, offset: Lanes, clamp: Lanes) -> tuple[Lanes, Mask]:
    """The lane to read from and whether it lies in the segment."""
    segment = (clamp >> 8) & 31
    first = lane & segment
    last = first | (clamp & 31 & ~segment)
    match step.mode:
        case ShuffleMode.UP:
            source = lane - offset
            # For .up the clamp bounds from below: the segment's first lane (PTX ISA, pseudocode of shfl.sync).
            inside = source >= last
        case ShuffleMode.DOWN:
            source = lane + offset
            inside = source <= last
        case ShuffleMode.BUTTERFLY:
            source = lane ^ offset
            inside = source <= last
        case _:
            source = first | (offset & ~segment)
            inside = source <= last
    return np.where(inside, source, lane), inside


def vote(wave: Wave, step: Step, selection: Selection) -> None:
    """`vote.sync`: over the lanes of each lane's member mask that take part."""
    registers = wave.registers
    predicate, members = (registers.read(slot, selection) for slot in step.sources)
    lanes = wave.ids(selection)
    warps = lanes // WARP
    voters = present_bits(wave, lanes)[warps] & members
    ballot = present_bits(wave, lanes[predicate != 0])[warps] & voters
    result = _vote_result(step, ballot, voters)
    undefined = None
    if not registers.all_defined(step.sources):
        masks = registers.undefined(step.sources[0], selection)
        doubtful = present_bits(wave, lanes[masks != 0])[warps] & voters
        undefined = np.where(doubtful != 0, _ALL_BITS, np.uint64(0))
    registers.write(step.destinations[0], selection, result, undefined)


def _vote_result(step: Step, ballot: Bits, voters: Bits) -> Bits:
    match step.mode:
        case VoteMode.BALLOT:
            return ballot
        case VoteMode.ALL:
            result = ballot == voters
        case VoteMode.ANY:
            result = ballot != 0
        case _:
            result = (ballot == voters) | (ballot == 0)
    flags: Bits = result.astype(np.uint64)
    return flags


def active_mask(wave: Wave, step: Step, selection: Selection) -> None:
    """`activemask`: the lanes of the warp that execute it together."""
    lanes = wave.ids(selection)
    wave.registers.write(step.destinations[0], selection, present_bits(wave, lanes)[lanes // WARP], None)


def _bits(flags: Mask) -> Bits:
    words: Bits = (flags.reshape(-1, WARP) * _LANE_BITS).sum(axis=1, dtype=np.uint64)
    return words
