"""Mutants of every kernel on the CPU device, all cores at once, until the time is over.

python tests/h200/mutate.py FOLDER SECONDS [PROCESSES [STAGE ...]]

FOLDER gets a file of results for each kernel, only those of this run; `merge_mutants.py` joins them to what is known.
Of the results in docs/evidence/mutation those that still hold are not made again. Stages, one after the other, all of
them if none is named: `order` takes mutants of order that have no result or survived, `new` all others without a
result, the first by their digests in turns of the kernels, `alive` the other survivors. No GPU is needed: a machine
with one has many cores.
"""

import heapq
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from false_alarms import ARCH, Pair, cases, look

from tileproof.conformance.mutation.campaign import KERNELS, Campaign, Selection
from tileproof.conformance.mutation.operator import Group
from tileproof.conformance.mutation.operators import OPERATORS
from tileproof.conformance.mutation.result import Outcome, Result, line_of
from tileproof.conformance.mutation.trial import Budget, Task, run_mutant
from tileproof.conformance.target import Coordinates, Schedule, Target

KNOWN = Path(__file__).parents[2] / "docs" / "evidence" / "mutation"
STAGES = ("order", "new", "alive")
SLOW = ("mm_fp8", "fp8_quantize_tensor", "int8_gemm_wgmma", "fp8_a8_gemm_tma", "fp8_a8_gemm_cp_async")
MOST_NEW = 400
"""Of one kernel."""

PLACE = Coordinates(Target.SIM, ARCH, Schedule.FRIENDLY, 0)
TOGETHER, CHUNK = 64, 4
"""Of so many neighbours in a kernel's order those of one variant go to one process, so many at a time."""


def left_to_do(kernel: str, stages: Sequence[str]) -> list[tuple[str, list[Task]]]:
    """A kernel's tasks by stage, in the kernel's own order."""
    campaign = Campaign(kernel, Selection(), PLACE)
    known = campaign.done(KNOWN / f"{kernel}.ndjson")
    found: list[tuple[str, list[Task]]] = [(stage, []) for stage in stages]
    for task in campaign.tasks():
        stage = _stage(task, known.get(task.mutant.id))
        for name, tasks in found:
            if name == stage and (stage != "new" or len(tasks) < MOST_NEW):
                tasks.append(task)
    return found


def _stage(task: Task, result: Result | None) -> str:
    if result is not None and result.outcome is not Outcome.SURVIVED:
        return ""
    if OPERATORS[task.mutant.operator].group is Group.ORDER:
        return "order"
    return "new" if result is None else "alive"


def chunks(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """Few tasks of one variant each, near to the kernel's order: a process keeps what it has parsed and computed."""
    for first in range(0, len(tasks), TOGETHER):
        neighbours = sorted(tasks[first : first + TOGETHER], key=_home)
        for _, group in groupby(neighbours, key=_home):
            alike = list(group)
            yield from (alike[at : at + CHUNK] for at in range(0, len(alike), CHUNK))


def _home(task: Task) -> tuple[str, str]:
    return str(task.mutant.variant), task.mutant.entry


def run_chunk(tasks: list[Task]) -> list[Result]:
    """Decide a few mutants."""
    return [run_mutant(task, PLACE, Budget(cases_s=60.0, deeper_s=20.0)) for task in tasks]


@dataclass(order=True)
class Due:
    """A chunk that waits: by stage, then by its turn among the kernel's."""

    stage: int
    turn: int
    kernel: str
    tasks: list[Task] = field(compare=False)


def decide_all(stages: Sequence[str], pool: Executor, processes: int, end: float) -> Iterator[list[Result]]:
    """Results as they come: kernels are looked through side by side, and of those that are the first chunks run."""
    # Those that take longest to look through begin first.
    kernels = sorted(KERNELS, key=lambda kernel: kernel not in SLOW)
    looking = {pool.submit(left_to_do, kernel, stages): kernel for kernel in kernels}
    running: set[Future[list[Result]]] = set()
    due: list[Due] = []
    while (looking or running or due) and time.monotonic() < end:
        while due and len(running) + len(looking) < 2 * processes:
            running.add(pool.submit(run_chunk, heapq.heappop(due).tasks))
        everything: list[Future[Any]] = [*looking, *running]
        ready, _ = wait(everything, max(0.01, end - time.monotonic()), FIRST_COMPLETED)
        for future in [one for one in looking if one in ready]:
            kernel = looking.pop(future)
            for number, (_, tasks) in enumerate(future.result()):
                for turn, chunk in enumerate(chunks(tasks)):
                    heapq.heappush(due, Due(number, turn, kernel, chunk))
        for ended in [one for one in running if one in ready]:
            running.remove(ended)
            yield ended.result()
    sys.stdout.write(f"{len(looking)} kernels not looked through, {sum(len(one.tasks) for one in due)} mutants left\n")


def main() -> None:
    folder, most = Path(sys.argv[1]), float(sys.argv[2])
    processes = int(sys.argv[3]) if len(sys.argv) > 3 else os.cpu_count() or 1
    stages = sys.argv[4:] or list(STAGES)
    folder.mkdir(parents=True, exist_ok=True)
    look(Pair(cases()[0], 0))  # compiles the engine for all, which is not counted
    start = time.monotonic()
    counts = dict.fromkeys(Outcome, 0)
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
    for results in decide_all(stages, pool, processes, start + most):
        for one in results:
            counts[one.outcome] += 1
            with (folder / f"{one.id.partition('/')[0]}.ndjson").open("a") as file:
                file.write(line_of(one))
    words = ", ".join(f"{count} {name}" for name, count in counts.items())
    sys.stdout.write(f"{words}; {time.monotonic() - start:.0f} s on {processes} processes\n")
    sys.stdout.flush()
    for process in multiprocessing.active_children():  # what they are at is dropped
        process.kill()
    os._exit(0)


if __name__ == "__main__":
    main()
