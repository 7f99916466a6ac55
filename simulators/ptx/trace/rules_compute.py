"""Backwards through instructions that work on registers: arithmetic, and the collectives of a warp."""

import numpy as np

from tileproof.simulators.ptx.machine.collective import lane_bits, source_lane
from tileproof.simulators.ptx.machine.memory import Bits, Lanes
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT
from tileproof.simulators.ptx.trace.demand import EVERY_BIT
from tileproof.simulators.ptx.trace.look import Look

_PART_BITS = 8


def arithmetic(look: Look) -> None:
    """A part of a source counts where the result would be undefined if the part were: the operation's own rule."""
    step, lanes = look.step, look.results()
    operation = step.operation
    assert operation is not None
    signs = step.sign_from or (0,) * len(step.destinations)
    wanted = [_folded(look.result(slot)[lanes], sign) for slot, sign in zip(step.destinations, signs, strict=True)]
    values = [look.read(slot, lanes, bits) for slot, bits in zip(step.sources, step.narrow, strict=True)]
    nothing, needs = np.zeros(lanes.size, np.uint64), []
    for index, slot in enumerate(step.sources):
        need = nothing.copy()
        width = step.narrow[index] or look.program.slot_bits[slot]
        for low in range(0, width, _PART_BITS):
            part = np.uint64(((1 << min(_PART_BITS, width - low)) - 1) << low)
            masks = [nothing] * len(values)
            masks[index] = np.full(lanes.size, part)
            found = operation.undefined(values, masks)
            hit = np.bitwise_or.reduce([mask & bits for mask, bits in zip(found, wanted, strict=True)]) != 0
            need |= np.where(hit, part, np.uint64(0))
        needs.append(need)
    _keep_doubtful(look, needs)
    for slot, need in zip(step.sources, needs, strict=True):
        look.demand.want(slot, lanes, need)
    look.count(lanes)


def _folded(bits: Bits, sign_from: int) -> Bits:
    """Bits above a sign-extended result count for its sign."""
    if not sign_from:
        return bits
    above = bits >> np.uint64(sign_from) != 0
    return bits | np.where(above, np.uint64(1 << (sign_from - 1)), np.uint64(0))


def _keep_doubtful(look: Look, needs: list[Bits]) -> None:
    """Where each of several registers alone decides nothing, as in 0 & 0, all of them count."""
    registers = [index for index, slot in enumerate(look.step.sources) if slot in look.program.registers]
    if len(registers) > 1:
        doubtful = np.bitwise_or.reduce(needs) == 0
        for index in registers:
            needs[index][doubtful] = EVERY_BIT


def pack(look: Look) -> None:
    """Each source is its part of the result."""
    step, lanes = look.step, look.results()
    bits, field = look.result(step.destinations[0])[lanes], np.uint64((1 << step.element_bits) - 1)
    for index, slot in enumerate(step.sources):
        look.demand.want(slot, lanes, bits >> np.uint64(index * step.element_bits) & field)
    look.count(lanes)


def unpack(look: Look) -> None:
    """Each result is its part of the source."""
    step, lanes = look.step, look.results()
    for index, slot in enumerate(step.destinations):
        look.demand.want(step.sources[0], lanes, look.result(slot)[lanes] << np.uint64(index * step.element_bits))
    look.count(lanes)


def shuffle(look: Look) -> None:
    """The value of the lane that it was read from."""
    step = look.step
    bits = look.result(step.destinations[0])
    lanes = np.flatnonzero(bits)
    offset, clamp = (look.read(slot, lanes).astype(np.int64) for slot in step.sources[1:3])
    lane = lanes & 31
    source, _ = source_lane(step, lane, offset & 31, clamp)
    look.demand.want(step.sources[0], lanes - lane + source, bits[lanes])
    look.count(lanes)


def warp_result(look: Look) -> None:
    """Votes, matches and reductions: the values of all members that took part."""
    step, lanes = look.step, look.results()
    together = np.unique(np.concatenate([each.lanes for each in look.event.written]))
    members = look.read(step.sources[-1], lanes)
    for warp in np.unique(lanes >> WARP_SHIFT).tolist():
        mask = np.bitwise_or.reduce(members[lanes >> WARP_SHIFT == warp])
        peers = together[together >> WARP_SHIFT == warp]
        peers = peers[lane_bits(peers) & mask != 0]
        look.demand.want(step.sources[0], peers, np.full(peers.size, EVERY_BIT))
    look.count(lanes)


def block_result(look: Look) -> None:
    """A reducing barrier: the predicates of all threads of the block."""
    lanes, size = look.results(), look.log.geometry.lanes_per_block
    for block in np.unique(lanes // size).tolist():
        peers: Lanes = np.arange(block * size, (block + 1) * size)
        look.demand.want(look.step.sources[0], peers, np.full(size, EVERY_BIT))
    look.count(lanes)


def everything(look: Look) -> None:
    """An instruction without a rule of its own: its sources as they are."""
    lanes = look.results()
    for slot in look.step.sources:
        look.demand.want(slot, lanes, np.full(lanes.size, EVERY_BIT))
    look.count(lanes)


def nothing(look: Look) -> None:
    """The result comes from no data: time, who runs, the state of an mbarrier."""
    look.count(look.results())


def forgotten(look: Look) -> None:
    """Registers as a call finds them: nothing wrote them."""
    look.demand.unwritten = True
