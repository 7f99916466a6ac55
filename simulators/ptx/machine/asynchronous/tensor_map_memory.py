"""`tensormap.replace` and `tensormap.cp_fenceproxy`: tensor maps that a kernel builds itself.

Both are weak accesses of all 128 bytes through the generic proxy. The copy is made by the whole warp and orders its
threads like a warp barrier, so that each of them may fence the map afterwards (inferred: so the compilers use it). That
it also releases the map to the tensor map proxy is not asked for, like the fence that does (see `tensor_fence`).
"""

from collections.abc import Iterator

import numpy as np

from tileproof.simulators.ptx.async_form import MapCopyForm, MapEditForm, Place
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.asynchronous.places import Found, check_objects, find
from tileproof.simulators.ptx.machine.asynchronous.region import Payload, Region
from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.machine.order.kinds import AccessKind
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.warp import WARP
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import StateSpace, Step
from tileproof.simulators.ptx.tensor_map import ALIGNMENT, NBYTES, NoTensorMap
from tileproof.simulators.ptx.tensor_map_edit import edit

_PIECES = np.arange(0, NBYTES, ALIGNMENT)
_CHUNKS = np.arange(0, NBYTES, 16)


def edit_maps(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`tensormap.replace`, one lane after the other; what cannot be done is reported and left out."""
    form = step.asynchronous
    assert isinstance(form, MapEditForm)
    for lane in wave.ids(selection).tolist():
        lanes = np.array([lane])
        for found in _find(wave, step, form.map, lanes, "edits a tensor map in"):
            _access(wave, step, pc, lanes, found, AccessKind(writes=True))
            _edit(wave, step, form, lanes, found)


def _edit(wave: Wave, step: Step, form: MapEditForm, lanes: Lanes, found: Found) -> None:
    region = Region(found.space, found.backing, found.offsets, NBYTES)
    payload = region.load()
    if payload.written is not None:
        message = f"{step.opcode} edits a tensor map with bytes that nothing wrote"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes)
        return
    if wave.registers.undefined((form.value,), lanes) is not None:
        message = f"{step.opcode} sets a tensor map's .{form.field.value} to a value that nothing wrote"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes)
        return
    value = int(wave.registers.read(form.value, lanes)[0])
    try:
        raw = edit(payload.data.tobytes(), form.field, form.entry, value, wave.memory_number)
    except NoTensorMap as error:
        wave.report(FindingKind.ASYNC, f"{step.opcode} edits {error}", step.where, lanes)
        return
    region.store(Payload(np.frombuffer(raw, np.uint8)))


def copy_maps(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`tensormap.cp_fenceproxy` of whole warps: each copies one map."""
    form = step.asynchronous
    assert isinstance(form, MapCopyForm)
    for lanes in wave.ids(selection).reshape(-1, WARP):
        addresses = [wave.registers.read(place.slot, lanes) for place in (form.target, form.source)]
        if any((each != each[0]).any() for each in addresses):
            message = f"the threads of a warp give {step.opcode} different addresses"
            wave.report(FindingKind.DIVERGENCE, message, step.where, lanes)
            continue
        _copy(wave, step, pc, form, lanes[:1])
        wave.order.warp_barrier(lanes)


def _copy(wave: Wave, step: Step, pc: int, form: MapCopyForm, lane: Lanes) -> None:
    for source in _find(wave, step, form.source, lane, "reads a tensor map from"):
        for target in _find(wave, step, form.target, lane, "writes a tensor map to"):
            _access(wave, step, pc, lane, source, AccessKind(writes=False, by_warp=True))
            _access(wave, step, pc, lane, target, AccessKind(writes=True, by_warp=True))
            payload = Region(source.space, source.backing, source.offsets, NBYTES).load()
            Region(target.space, target.backing, target.offsets, NBYTES).store(payload)


def _find(wave: Wave, step: Step, place: Place, lane: Lanes, verb: str) -> Iterator[Found]:
    """Where one lane's map lies, if it is in global or shared memory."""
    for found in find(wave, step, place, lane, NBYTES, ALIGNMENT, verb):
        if found.space in (StateSpace.GLOBAL, StateSpace.SHARED):
            yield found
        else:
            message = f"{step.opcode} {verb} {found.space.value} memory"
            wave.report(FindingKind.OUT_OF_BOUNDS, message, step.where, lane)


def _access(wave: Wave, step: Step, pc: int, lane: Lanes, found: Found, kind: AccessKind) -> None:
    chunks = Found(found.space, found.backing, np.zeros_like(_CHUNKS), found.offsets + _CHUNKS)
    check_objects(wave, step, lane, chunks, 16, "writes" if kind.writes else "reads")
    if wave.weak is not None and found.space is StateSpace.GLOBAL:
        wave.weak.touch(found.backing, found.offsets, NBYTES, lane, writes=kind.writes)
    owners = np.repeat(lane, _PIECES.size)
    wave.order.access(kind, step, pc, owners, found.space, found.backing, found.offsets + _PIECES, ALIGNMENT)
    (wave.count_written if kind.writes else wave.count_read)(found.space, NBYTES)
