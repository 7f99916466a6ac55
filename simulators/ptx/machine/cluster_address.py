"""Questions about addresses: `mapa`, `getctarank`, `isspacep`."""

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.layout import (
    CONST_WINDOW,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    RANK_MASK,
    RANK_SHIFT,
    SHARED_WINDOW,
    WINDOW_BYTES,
)
from tileproof.simulators.ptx.machine.memory import Bits, Mask
from tileproof.simulators.ptx.machine.registers import EVERY_BIT, Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import AddressForm, AddressQuestion, StateSpace, Step

_WINDOWS = {
    StateSpace.LOCAL: LOCAL_WINDOW,
    StateSpace.CONST: CONST_WINDOW,
    StateSpace.PARAM: PARAM_WINDOW,
}
_RANK = np.uint64(RANK_MASK)


def answer(wave: Wave, step: Step, selection: Selection) -> None:
    """Execute one of them: the result depends on every bit of the operands."""
    form = step.address
    assert form is not None
    address = wave.registers.read(step.sources[0], selection)
    match form.question:
        case AddressQuestion.MAP:
            result = _mapped(wave, step, selection, address)
        case AddressQuestion.RANK:
            _check_shared(wave, step, selection, address, form)
            result = (address & _RANK) >> np.uint64(RANK_SHIFT)
        case _:
            result = _inside(wave, selection, address, form.space).astype(np.uint64)
    undefined = wave.registers.undefined(step.sources, selection)
    mask = None
    if undefined is not None:
        mask = np.where(np.bitwise_or.reduce(undefined) != 0, EVERY_BIT, np.uint64(0))
    wave.registers.write(step.destinations[0], selection, result, mask)


def _mapped(wave: Wave, step: Step, selection: Selection, address: Bits) -> Bits:
    """The same place in the block of another rank: a rank that the cluster lacks has its finding."""
    assert step.address is not None
    _check_shared(wave, step, selection, address, step.address)
    rank = wave.registers.read(step.sources[1], selection)
    size = wave.geometry.blocks_per_cluster
    beyond = rank >= np.uint64(size)
    if beyond.any():
        message = f"{step.opcode} names a block beyond the {size} of the cluster"
        lanes = wave.ids(selection)[beyond]
        wave.report(FindingKind.OUT_OF_BOUNDS, message, step.where, lanes, f" (rank {int(rank[beyond][0])})")
    mapped: Bits = (address & ~_RANK) | ((rank << np.uint64(RANK_SHIFT)) & _RANK)
    return mapped


def _check_shared(wave: Wave, step: Step, selection: Selection, address: Bits, form: AddressForm) -> None:
    """A generic address must lie in the shared window."""
    if form.space is not StateSpace.GENERIC:
        return
    outside = address - np.uint64(SHARED_WINDOW) >= np.uint64(WINDOW_BYTES)
    if outside.any():
        message = f"{step.opcode} takes a generic address that is not one of shared memory"
        lanes = wave.ids(selection)[outside]
        wave.report(FindingKind.OUT_OF_BOUNDS, message, step.where, lanes, f" (0x{int(address[outside][0]):x})")


def _inside(wave: Wave, selection: Selection, address: Bits, space: StateSpace) -> Mask:
    """`isspacep`: the parameters lie inside the window of global memory too (PTX ISA, "isspacep")."""
    if space is StateSpace.GLOBAL:
        windows = (SHARED_WINDOW, LOCAL_WINDOW, CONST_WINDOW)
        elsewhere: Mask = np.logical_or.reduce([_within(address, window) for window in windows])
        return ~elsewhere
    if space in _WINDOWS:
        return _within(address, _WINDOWS[space])
    inside = _within(address, SHARED_WINDOW)
    rank = (address & _RANK) >> np.uint64(RANK_SHIFT)
    size, own = np.uint64(wave.geometry.blocks_per_cluster), wave.geometry.rank[selection].astype(np.uint64)
    reached: Mask = rank < size if space is StateSpace.CLUSTER else rank == own
    return inside & reached


def _within(address: Bits, window: int) -> Mask:
    inside: Mask = address - np.uint64(window) < np.uint64(WINDOW_BYTES)  # below the window it wraps around
    return inside
