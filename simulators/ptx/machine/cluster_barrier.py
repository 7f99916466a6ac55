"""The barrier of a cluster: `barrier.cluster.arrive` and `barrier.cluster.wait`.

A thread arrives and later waits. The barrier is complete when all threads of the cluster that have not exited have
arrived; then it begins anew. Each thread counts its arrivals and each cluster its completions: the wait of a thread
that has arrived n times ends when its cluster has completed n times.
"""

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT
from tileproof.simulators.ptx.machine.wave import Status, Wave
from tileproof.simulators.ptx.program import ClusterBarrierForm, Scope, Step

# Threads that a finding names as missing.
_SHOWN = 3


def arrive(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """Lanes arrive and go on. A second arrival without a wait between is a finding, and not counted."""
    form, state = _form(step), wave.cluster_barriers
    lanes = wave.ids(selection)
    again = state.arrived[lanes] != state.waited[lanes]
    if again.any():
        message = f"{step.opcode} arrives a second time without barrier.cluster.wait between"
        wave.report(FindingKind.BARRIER, message, step.where, lanes[again])
        lanes = lanes[~again]
    state.arrived[lanes] += 1
    state.relaxed[lanes] = form.relaxed
    wave.order.cluster_arrive(lanes, form.relaxed)
    if not form.relaxed:
        wave.release(lanes, Scope.CLUSTER)
    wave.changes += 1
    release(wave, _clusters(wave, lanes))


def wait(wave: Wave, step: Step, pc: int, active: Selection) -> None:
    """Lanes wait for the completion that follows their arrival. A wait without an arrival is a finding, and passes."""
    state, lanes = wave.cluster_barriers, wave.ids(active)
    wave.changes += 1
    early = state.arrived[lanes] == state.waited[lanes]
    if early.any():
        message = f"{step.opcode} waits without barrier.cluster.arrive before"
        wave.report(FindingKind.BARRIER, message, step.where, lanes[early])
        lanes = lanes[~early]
    wave.pc[lanes] = pc
    wave.status[lanes] = Status.AT_CLUSTER
    release(wave, _clusters(wave, lanes))


def release(wave: Wave, clusters: Lanes) -> None:
    """Complete the barriers of these clusters that miss nobody, and let the lanes go on that waited for it."""
    state, per_cluster = wave.cluster_barriers, wave.geometry.lanes_per_cluster
    if not state.arrived.any():
        return
    status = wave.status.reshape(-1, per_cluster)[clusters]
    arrived = state.arrived.reshape(-1, per_cluster)[clusters]
    here = (status == Status.EXITED) | (arrived > state.completed[clusters, np.newaxis])
    complete = here.all(axis=1) & (arrived > state.completed[clusters, np.newaxis]).any(axis=1)
    state.completed[clusters[complete]] += 1
    blocks = np.arange(0, per_cluster, wave.geometry.lanes_per_block)
    wave.order.cluster_complete((clusters[complete][:, np.newaxis] * per_cluster + blocks).reshape(-1))
    waiting = (status == Status.AT_CLUSTER) & (arrived <= state.completed[clusters, np.newaxis])
    lanes = (clusters[:, np.newaxis] * per_cluster + np.arange(per_cluster))[waiting]
    lanes = lanes[_whole_warps(wave, lanes)]
    if not lanes.size:
        return
    state.waited[lanes] = state.arrived[lanes]
    wave.acquaintance.met[lanes] = True
    wave.order.cluster_wait(lanes, bool(state.relaxed[lanes].any()))
    wave.acquire(lanes, Scope.CLUSTER)
    wave.changes += 1
    wave.status[lanes] = Status.RUNNING
    wave.pc[lanes] += 1


def _whole_warps(wave: Wave, lanes: Lanes) -> Mask:
    """Lanes whose whole warp has come: `barrier.cluster` waits for the threads of its warp that have not exited."""
    coming = np.bincount(lanes >> WARP_SHIFT, minlength=wave.alive.size)
    present = np.bincount(np.flatnonzero(wave.status != Status.EXITED) >> WARP_SHIFT, minlength=wave.alive.size)
    whole: Mask = (coming == present)[lanes >> WARP_SHIFT]
    return whole


def report_diverged(wave: Wave) -> Lanes:
    """Lanes that wait for ever although their barrier is complete: the rest of their warp does not come."""
    state, per_cluster = wave.cluster_barriers, wave.geometry.lanes_per_cluster
    lanes = np.flatnonzero(wave.status == Status.AT_CLUSTER)
    lanes = lanes[state.arrived[lanes] <= state.completed[lanes // per_cluster]]
    for pc in np.unique(wave.pc[lanes]):
        step = wave.program.steps[pc]
        message = f"{step.opcode} waits for threads of its warp that do not come to it"
        wave.report(FindingKind.DIVERGENCE, message, step.where, lanes[wave.pc[lanes] == pc])
    return lanes


def report_missing(wave: Wave, lanes: Lanes) -> None:
    """Lanes that wait at cluster barriers for ever: who waits, how many are missing, and who some of them are."""
    state, per_cluster = wave.cluster_barriers, wave.geometry.lanes_per_cluster
    for cluster in np.unique(lanes // per_cluster):
        here = lanes[lanes // per_cluster == cluster]
        step = wave.program.steps[wave.pc[here[0]]]
        everyone = cluster * per_cluster + np.arange(per_cluster)
        missing = everyone[
            (wave.status[everyone] != Status.EXITED) & (state.arrived[everyone] <= state.completed[cluster])
        ]
        message = f"{step.opcode} waits for threads of its cluster that do not arrive"
        names = ", ".join(str(wave.geometry.thread(int(lane))) for lane in missing[:_SHOWN])
        more = f" and {missing.size - _SHOWN} more" if missing.size > _SHOWN else ""
        detail = f" ({here.size} wait, {missing.size} are missing: {names}{more})"
        wave.report(FindingKind.DEADLOCK, message, step.where, here, detail)


def _clusters(wave: Wave, lanes: Lanes) -> Lanes:
    return np.unique(lanes // wave.geometry.lanes_per_cluster)


def _form(step: Step) -> ClusterBarrierForm:
    assert step.cluster is not None
    return step.cluster
