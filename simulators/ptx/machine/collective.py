"""What warp collectives compute: shuffles, votes, matches, reductions, elections, `activemask`.

Member masks and lanes are bits of a 32-bit word a warp, bit l for lane l. A collective is over the lanes of the member
mask that take part; who takes part is decided in `meeting`.
"""

from collections.abc import Callable, Mapping

import numpy as np

from tileproof.simulators.ptx.machine import bracket
from tileproof.simulators.ptx.machine.memory import Bits, Lanes, Mask
from tileproof.simulators.ptx.machine.registers import EVERY_BIT, Selection
from tileproof.simulators.ptx.machine.warp import WARP, WARP_SHIFT
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import CollectiveMode, Kind, Step

_LANE_BITS = np.uint64(1) << np.arange(WARP, dtype=np.uint64)


def lane_bits(lanes: Lanes) -> Bits:
    """Each lane's bit in its warp's word."""
    bits: Bits = _LANE_BITS[lanes & (WARP - 1)]
    return bits


def present_bits(wave: Wave, lanes: Lanes) -> Bits:
    """For every warp of the wave, the bits of those of its lanes that are in `lanes`."""
    words = np.zeros(wave.alive.size, np.uint64)
    np.add.at(words, lanes >> WARP_SHIFT, lane_bits(lanes))
    return words


def shuffle(wave: Wave, step: Step, selection: Selection) -> None:
    """`shfl.sync`: reading a lane that takes no part gives an undefined value (PTX ISA, "shfl.sync")."""
    registers = wave.registers
    value, offset, clamp, members = (registers.read(slot, selection) for slot in step.sources)
    lanes = wave.ids(selection)
    lane = lanes & (WARP - 1)
    source, inside = source_lane(step, lane, offset.astype(np.int64) & 31, clamp.astype(np.int64))
    everyone = np.zeros(wave.geometry.lanes, np.uint64)
    everyone[lanes] = value
    chosen = lanes - lane + source
    absent = (members & present_bits(wave, lanes)[lanes >> WARP_SHIFT] & lane_bits(source)) == 0
    mask = np.where(absent, EVERY_BIT, np.uint64(0))
    undefined = registers.undefined(step.sources, selection)
    in_segment = None
    if undefined is not None:
        everyone[lanes] = undefined[0]
        unknown = np.where((undefined[1] | undefined[2]) != 0, EVERY_BIT, np.uint64(0))
        mask |= everyone[chosen] | unknown
        in_segment = unknown & np.uint64(1)
        everyone[lanes] = value
    carried = bracket.shuffled(wave, step, selection, value, lanes, chosen) if registers.brackets.live else None
    registers.write(step.destinations[0], selection, everyone[chosen], mask if mask.any() else None)
    registers.write(step.destinations[1], selection, inside.astype(np.uint64), in_segment)
    bracket.write(wave, step, selection, carried)


def source_lane(step: Step, lane: Lanes, offset: Lanes, clamp: Lanes) -> tuple[Lanes, Mask]:
    """The lane to read from and whether it lies in the segment."""
    segment = (clamp >> 8) & 31
    first = lane & segment
    last = first | (clamp & 31 & ~segment)
    match step.mode:
        case CollectiveMode.UP:
            source = lane - offset
            # For .up the clamp bounds from below: the segment's first lane (PTX ISA, pseudocode of shfl.sync).
            inside = source >= last
        case CollectiveMode.DOWN:
            source = lane + offset
            inside = source <= last
        case CollectiveMode.BUTTERFLY:
            source = lane ^ offset
            inside = source <= last
        case _:
            source = first | (offset & ~segment)
            inside = source <= last
    return np.where(inside, source, lane), inside


def vote(wave: Wave, step: Step, selection: Selection) -> None:
    """`vote.sync`."""
    registers = wave.registers
    predicate, members = (registers.read(slot, selection) for slot in step.sources)
    lanes = wave.ids(selection)
    warps = lanes >> WARP_SHIFT
    voters = present_bits(wave, lanes)[warps] & members
    ballot = present_bits(wave, lanes[(predicate != 0) != step.negated])[warps] & voters
    undefined = registers.undefined(step.sources, selection)
    mask = None
    if undefined is not None:
        doubtful = present_bits(wave, lanes[undefined[0] != 0])[warps] & voters
        mask = doubtful if step.mode is CollectiveMode.BALLOT else np.minimum(doubtful, np.uint64(1))
    registers.write(step.destinations[0], selection, _vote_result(step, ballot, voters), mask)


def _vote_result(step: Step, ballot: Bits, voters: Bits) -> Bits:
    match step.mode:
        case CollectiveMode.BALLOT:
            return ballot
        case CollectiveMode.ALL:
            result = ballot == voters
        case CollectiveMode.ANY:
            result = ballot != 0
        case _:
            result = (ballot == voters) | (ballot == 0)
    flags: Bits = result.astype(np.uint64)
    return flags


def match(wave: Wave, step: Step, selection: Selection) -> None:
    """`match.sync`: the lanes that hold my value, or all members if they hold one value, else 0."""
    value, doubtful, peers = _gather(wave, step, selection)
    mine = wave.registers.read(step.sources[0], selection)
    equal = peers & (value == mine[:, None])
    found = (equal * _LANE_BITS).sum(axis=1, dtype=np.uint64)
    unanimous = (equal == peers).all(axis=1)
    result = found if step.mode is CollectiveMode.ANY else np.where(unanimous, found, np.uint64(0))
    unknown = doubtful.any()
    lanes_unknown = np.where(doubtful, EVERY_BIT, np.uint64(0)) if unknown else None
    wave.registers.write(step.destinations[0], selection, result, lanes_unknown)
    flag_unknown = doubtful.astype(np.uint64) if unknown else None
    wave.registers.write(step.destinations[1], selection, unanimous.astype(np.uint64), flag_unknown)


_Reduction = Callable[..., Bits]
_REDUCTIONS: Mapping[CollectiveMode | None, tuple[_Reduction, int]] = {
    CollectiveMode.ADD: (np.add.reduce, 0),
    CollectiveMode.MIN: (np.minimum.reduce, 0xFFFF_FFFF),
    CollectiveMode.MAX: (np.maximum.reduce, 0),
    CollectiveMode.AND: (np.bitwise_and.reduce, 0xFFFF_FFFF),
    CollectiveMode.OR: (np.bitwise_or.reduce, 0),
    CollectiveMode.XOR: (np.bitwise_xor.reduce, 0),
}
_SIGN = np.uint64(1 << 31)


def reduce(wave: Wave, step: Step, selection: Selection) -> None:
    """`redux.sync`: signed numbers are compared with their sign bit flipped, which orders them as unsigned ones."""
    value, doubtful, peers = _gather(wave, step, selection)
    function, neutral = _REDUCTIONS[step.mode]
    flip = _SIGN if step.signed and step.mode in (CollectiveMode.MIN, CollectiveMode.MAX) else np.uint64(0)
    result = function(np.where(peers, value ^ flip, np.uint64(neutral)), axis=1) ^ flip
    mask = np.where(doubtful, EVERY_BIT, np.uint64(0)) if doubtful.any() else None
    wave.registers.write(step.destinations[0], selection, result & np.uint64(0xFFFF_FFFF), mask)


def _gather(wave: Wave, step: Step, selection: Selection) -> tuple[Bits, Mask, Mask]:
    """For each lane the 32 values of its warp, whether a peer's value is undefined, and which lanes are its peers."""
    lanes = wave.ids(selection)
    value, members = (wave.registers.read(slot, selection) for slot in step.sources)
    warps = lanes >> WARP_SHIFT
    table = np.zeros(wave.geometry.lanes, np.uint64)
    table[lanes] = value
    word = members & present_bits(wave, lanes)[warps]
    peers: Mask = (word[:, None] & _LANE_BITS) != 0
    undefined = wave.registers.undefined(step.sources, selection)
    doubtful = np.zeros(lanes.size, np.bool_)
    if undefined is not None:
        doubtful = present_bits(wave, lanes[undefined[0] != 0])[warps] & word != 0
    rows: Bits = table.reshape(-1, WARP)[warps]
    return rows, doubtful, peers


def elect(wave: Wave, step: Step, selection: Selection) -> None:
    """`elect.sync`: which lane of the mask leads is the schedule's choice; exited lanes cannot."""
    lanes = wave.ids(selection)
    word = wave.registers.read(step.sources[0], selection) & present_bits(wave, lanes)[lanes >> WARP_SHIFT]
    leaders = {int(members): wave.schedule.leader(int(members)) for members in np.unique(word) if members}
    leader = np.array([leaders.get(int(members), 0) for members in word], np.uint64)
    chosen = leader == (lanes & (WARP - 1)).astype(np.uint64)
    wave.registers.write(step.destinations[0], selection, leader, None)
    wave.registers.write(step.destinations[1], selection, chosen.astype(np.uint64), None)


def active_mask(wave: Wave, step: Step, selection: Selection) -> None:
    """`activemask`: the lanes of the warp that execute it together."""
    lanes = wave.ids(selection)
    wave.registers.write(step.destinations[0], selection, present_bits(wave, lanes)[lanes >> WARP_SHIFT], None)


COLLECTIVES: Mapping[Kind, Callable[[Wave, Step, Selection], None]] = {
    Kind.SHUFFLE: shuffle,
    Kind.VOTE: vote,
    Kind.MATCH: match,
    Kind.REDUCE: reduce,
    Kind.ELECT: elect,
}
