"""When nobody can step: which waits cannot end, and why."""

import numpy as np

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine import block_barrier, cluster_barrier, meeting
from tileproof.simulators.ptx.machine.asynchronous import deadlock
from tileproof.simulators.ptx.machine.wave import Status, Wave


def report_stall(wave: Wave) -> None:
    """No lane runs: report those that wait. A barrier that misses lanes told already is no own cause."""
    stuck = np.flatnonzero(wave.status == Status.AT_COLLECTIVE)
    if stuck.size:
        meeting.report_missing(wave, stuck)
    stuck = np.concatenate((stuck, cluster_barrier.report_diverged(wave)))
    waiting = np.flatnonzero(wave.status == Status.AT_BARRIER)
    per_block = wave.geometry.lanes_per_block
    waiting = waiting[~np.isin(waiting // per_block, stuck // per_block)]
    if waiting.size:
        block_barrier.report_missing(wave, waiting)
    clusters = np.flatnonzero(wave.status == Status.AT_CLUSTER)
    per_cluster = wave.geometry.lanes_per_cluster
    told = np.concatenate((stuck, waiting)) // per_cluster
    clusters = clusters[~np.isin(clusters // per_cluster, told)]
    if clusters.size:
        cluster_barrier.report_missing(wave, clusters)


def report_spin(wave: Wave) -> None:
    """All lanes that run spin for ever: where some do at mbarriers, that is the cause.

    Raises:
        NotModelled: blocks that have not started yet might have changed what they wait for.
    """
    spinning = np.flatnonzero(wave.status == Status.RUNNING)
    if deadlock.report(wave, spinning):
        return
    where = wave.program.steps[wave.pc[spinning[0]]].where
    if wave.geometry.blocks_left:
        raise NotModelled(
            f"kernel {wave.program.name}: threads wait at {where} for blocks that have not started; "
            f"{wave.geometry.resident.size} blocks are resident, {wave.geometry.blocks_left} are left",
            hint="blocks that wait for each other need more residency than this version models",
        )
    message = "threads spin on a value that no thread is left to change"
    waiting = int(np.isin(wave.status, (Status.AT_BARRIER, Status.AT_COLLECTIVE, Status.AT_CLUSTER)).sum())
    detail = f" ({waiting} others wait at barriers or collectives)" if waiting else ""
    wave.report(FindingKind.DEADLOCK, message, where, spinning, detail)
