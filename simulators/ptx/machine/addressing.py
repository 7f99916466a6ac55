"""From the address operand of a memory step to places in memory, with every check on the address itself."""

from collections.abc import Iterator

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.layout import CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from tileproof.simulators.ptx.machine.memory import Bits, Lanes, Piece
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Access, StateSpace, Step

_VERBS = {"ld": "reads", "ldu": "reads", "st": "writes", "atom": "updates", "red": "updates"}
_VERBS["discard"] = "discards"
_VERBS |= {"ldmatrix": "reads", "stmatrix": "writes", "wgmma": "reads"}
_GENERIC_WINDOWS = (
    (StateSpace.CLUSTER, SHARED_WINDOW),
    (StateSpace.LOCAL, LOCAL_WINDOW),
    (StateSpace.CONST, CONST_WINDOW),
    (StateSpace.PARAM, PARAM_WINDOW),
)
# The cluster's shared memory is that of its blocks, and accesses to it are ones to shared memory.
_HOME = {StateSpace.CLUSTER: StateSpace.SHARED}
_WIDE_SPACES = (StateSpace.GENERIC, StateSpace.GLOBAL)
_READ_ONLY = (StateSpace.CONST, StateSpace.PARAM)
Positions = Lanes | slice


def verb(step: Step) -> str:
    """What the step does to memory, in the third person."""
    return _VERBS[step.opcode.partition(".")[0]]


def access_of(step: Step) -> Access:
    """The access of a memory step."""
    assert step.access is not None
    return step.access


def pieces(wave: Wave, step: Step, selection: Selection, lanes: Lanes) -> Iterator[tuple[StateSpace, Positions, Piece]]:
    """Legal parts of an access: space, positions in the lane vector, place in memory. Reports the rest."""
    access, nbytes = access_of(step), step.access_bytes
    addresses = _addresses(wave, step, access, selection)
    legal = _legal_addresses(wave, step, selection, lanes, addresses, nbytes)
    if legal is not None:
        addresses, lanes = addresses[legal], lanes[legal]
        if not lanes.size:
            return
    parts = split_generic(addresses) if access.space is StateSpace.GENERIC else [(access.space, None, addresses)]
    for space, chosen, part in parts:
        owners = lanes if chosen is None else lanes[chosen]
        if space in _READ_ONLY and verb(step) != "reads":
            message = f"{step.opcode} {verb(step)} {space.value} memory, which a kernel may only read"
            wave.report(FindingKind.OUT_OF_BOUNDS, message, step.where, owners)
            continue
        found, faults = wave.spaces[space].locate(part, owners, nbytes)
        for fault in faults:
            message = f"{step.opcode} {verb(step)} {fault.message}"
            wave.report(fault.kind, message, step.where, owners[fault.positions], fault.detail)
        for piece in found:
            if wave.peer_accesses is not None and space is StateSpace.CLUSTER:
                wave.peer_accesses.record(step, owners[piece.positions], piece.offsets // wave.shared.stride)
            if space in (StateSpace.SHARED, StateSpace.CLUSTER) and wave.asynchronous.barriers.any_live:
                _check_objects(wave, step, owners[piece.positions], piece.offsets, nbytes)
            yield _HOME.get(space, space), _positions(piece.positions, chosen, legal), piece


def _check_objects(wave: Wave, step: Step, lanes: Lanes, offsets: Lanes, nbytes: int) -> None:
    """An mbarrier is opaque: only mbarrier operations may touch it (PTX ISA, "mbarrier")."""
    touched = wave.asynchronous.barriers.touched(offsets, nbytes)
    if touched.any():
        message = f"{step.opcode} {verb(step)} the bytes of a live mbarrier"
        wave.report(FindingKind.BARRIER, message, step.where, lanes[touched])


def split_generic(addresses: Bits) -> list[tuple[StateSpace, Lanes | None, Bits]]:
    """Generic addresses by the space they lie in: (space, positions or None for all, addresses in that space)."""
    parts: list[tuple[StateSpace, Lanes | None, Bits]] = []
    rest = np.ones(addresses.size, np.bool_)
    for space, window in _GENERIC_WINDOWS:
        inside = addresses - np.uint64(window) < np.uint64(WINDOW_BYTES)  # below the window it wraps around
        if inside.all():
            return [(space, None, addresses - np.uint64(window))]
        if inside.any():
            parts.append((space, np.flatnonzero(inside), addresses[inside] - np.uint64(window)))
            rest &= ~inside
    if not parts:
        return [(StateSpace.GLOBAL, None, addresses)]
    if rest.any():
        parts.append((StateSpace.GLOBAL, np.flatnonzero(rest), addresses[rest]))
    return parts


def _positions(inner: Positions, chosen: Lanes | None, legal: Lanes | None) -> Positions:
    """Positions in the outermost lane vector, through the choices made on the way."""
    for outer in (chosen, legal):
        if outer is not None:
            inner = outer[inner]
    return inner


def _addresses(wave: Wave, step: Step, access: Access, selection: Selection) -> Bits:
    addresses = wave.registers.read(step.sources[0], selection)
    if access.offset:
        addresses = addresses + np.uint64(access.offset & 0xFFFF_FFFF_FFFF_FFFF)
    # Addresses are cut to the width of the space (PTX ISA, "Addresses as Operands").
    return addresses if access.space in _WIDE_SPACES else addresses & np.uint64(0xFFFF_FFFF)


def _legal_addresses(
    wave: Wave, step: Step, selection: Selection, lanes: Lanes, addresses: Bits, nbytes: int
) -> Lanes | None:
    """Positions whose address is defined and aligned; None when all are."""
    undefined = wave.registers.undefined(step.sources[:1], selection)
    aligned = addresses & np.uint64(nbytes - 1) == 0
    if undefined is None and aligned.all():
        return None
    good = np.ones(lanes.size, np.bool_) if undefined is None else undefined[0] == 0
    if not good.all():
        message = f"a value that nothing wrote decides the address that {step.opcode} {verb(step)}"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[~good])
    if not aligned.all():
        wrong = np.flatnonzero(good & ~aligned)
        if wrong.size:
            message = f"{step.opcode} {verb(step)} {nbytes} bytes at an address that is not a multiple of {nbytes}"
            wave.report(FindingKind.MISALIGNED, message, step.where, lanes[wrong], f" (0x{int(addresses[wrong[0]]):x})")
        good &= aligned
    return None if good.all() else np.flatnonzero(good)
