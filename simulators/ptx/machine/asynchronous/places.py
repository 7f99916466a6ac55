"""From an address operand of an asynchronous instruction to places in memory, with every check on the address."""

from dataclasses import dataclass, replace

import numpy as np

from tileproof.simulators.ptx.async_form import Place
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.addressing import split_generic
from tileproof.simulators.ptx.machine.memory import Backing, Bits, Lanes
from tileproof.simulators.ptx.machine.registers import as_selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import StateSpace, Step

_WIDE_SPACES = (StateSpace.GENERIC, StateSpace.GLOBAL)
_SHARED_SPACES = (StateSpace.SHARED, StateSpace.CLUSTER)


@dataclass(frozen=True)
class Found:
    """Legal accesses of one instruction that fall into one backing array.

    Attributes:
        space: where they are.
        backing: its bytes.
        positions: indices into the lane vector.
        offsets: byte offsets in the backing.
    """

    space: StateSpace
    backing: Backing
    positions: Lanes
    offsets: Lanes


def find(
    wave: Wave, step: Step, place: Place, lanes: Lanes, nbytes: int, alignment: int, verb: str, bits: Bits | None = None
) -> list[Found]:
    """Where `nbytes` bytes at an address operand lie, for each lane; reports what is not legal.

    Args:
        wave: the machine.
        step: the instruction.
        place: the operand.
        lanes: who executes.
        nbytes: of each access.
        alignment: of the address.
        verb: what the instruction does there, for messages: "reads".
        bits: addresses that are already known, relative to the operand's space; else the operand is read.
    """
    addresses = read_addresses(wave, place, lanes) if bits is None else bits
    positions = _legal(wave, step, place, lanes, addresses, nbytes, alignment, verb)
    if positions.size != lanes.size:
        addresses, lanes = addresses[positions], lanes[positions]
    found = []
    parts = split_generic(addresses) if place.space is StateSpace.GENERIC else [(place.space, None, addresses)]
    for space, inner, part in parts:
        here, owners = (positions, lanes) if inner is None else (positions[inner], lanes[inner])
        pieces, faults = wave.spaces[space].locate(part, owners, nbytes)
        for fault in faults:
            message = f"{step.opcode} {verb} {fault.message}"
            wave.report(fault.kind, message, step.where, owners[fault.positions], fault.detail)
        found += [Found(space, piece.backing, here[piece.positions], piece.offsets) for piece in pieces]
    return found


def find_shared(wave: Wave, step: Step, place: Place, lanes: Lanes, nbytes: int, alignment: int, verb: str) -> Found:
    """Like `find` for operands that must lie in shared memory, where everything is in one window."""
    found = find(wave, step, place, lanes, nbytes, alignment, verb)
    inside = [each for each in found if each.space in _SHARED_SPACES]
    for each in found:
        if each.space not in _SHARED_SPACES:
            message = f"{step.opcode} {verb} {each.space.value} memory where shared memory belongs"
            wave.report(FindingKind.OUT_OF_BOUNDS, message, step.where, lanes[each.positions])
    if len(inside) == 1:
        return replace(inside[0], space=StateSpace.SHARED)
    none = np.zeros(0, np.int64)
    positions = np.concatenate([none, *(each.positions for each in inside)])
    offsets = np.concatenate([none, *(each.offsets for each in inside)])
    order = np.argsort(positions, kind="stable")
    return Found(StateSpace.SHARED, wave.shared, positions[order], offsets[order])


def read_addresses(wave: Wave, place: Place, lanes: Lanes) -> Bits:
    """The operand's addresses, cut to the width of its space (PTX ISA, "Addresses as Operands")."""
    addresses = wave.registers.read(place.slot, as_selection(lanes) if lanes.size else lanes)
    if place.offset:
        addresses = addresses + np.uint64(place.offset & 0xFFFF_FFFF_FFFF_FFFF)
    return addresses if place.space in _WIDE_SPACES else addresses & np.uint64(0xFFFF_FFFF)


def _legal(
    wave: Wave, step: Step, place: Place, lanes: Lanes, addresses: Bits, nbytes: int, alignment: int, verb: str
) -> Lanes:
    """Positions whose address is defined and aligned."""
    undefined = wave.registers.undefined((place.slot,), as_selection(lanes)) if lanes.size else None
    aligned = addresses & np.uint64(alignment - 1) == 0
    if undefined is None and aligned.all():
        return wave.positions(lanes.size)
    known = np.ones(lanes.size, np.bool_) if undefined is None else undefined[0] == 0
    if not known.all():
        message = f"a value that nothing wrote decides the address that {step.opcode} {verb}"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[~known])
    wrong = np.flatnonzero(known & ~aligned)
    if wrong.size:
        message = f"{step.opcode} {verb} {nbytes} bytes at an address that is not a multiple of {alignment}"
        wave.report(FindingKind.MISALIGNED, message, step.where, lanes[wrong], f" (0x{int(addresses[wrong[0]]):x})")
    return np.flatnonzero(known & aligned)


def check_objects(wave: Wave, step: Step, lanes: Lanes, found: Found, nbytes: int, verb: str) -> None:
    """Report accesses of at most 16 bytes to the bytes of a live mbarrier."""
    if wave.asynchronous.barriers.any_live and found.space is StateSpace.SHARED:
        touched = wave.asynchronous.barriers.touched(found.offsets, nbytes)
        if touched.any():
            message = f"{step.opcode} {verb} the bytes of a live mbarrier"
            wave.report(FindingKind.BARRIER, message, step.where, lanes[found.positions][touched])
