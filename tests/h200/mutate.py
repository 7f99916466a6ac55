"""Mutants of every kernel on the CPU device, all cores at once, until the time is over.

python tests/h200/mutate.py FOLDER SECONDS [PROCESSES [STAGE ...]]

FOLDER gets a file of results for each kernel, only those of this run; `merge_mutants.py` joins them to what is known.
Of the results in docs/evidence/mutation those that still hold are not made again. Stages, one after the other, all of
them if none is named: `order` takes mutants of order that have no result or survived, `new` all others without a
result, the first by their digests in turns of the kernels, `alive` the other survivors. No GPU is needed: a machine
with one has many cores.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, zip_longest
from pathlib import Path

from false_alarms import ARCH, Pair, cases, look
from timeboxed import side_by_side

from tileproof.conformance.mutation.campaign import KERNELS, Campaign, Selection
from tileproof.conformance.mutation.operator import Group
from tileproof.conformance.mutation.operators import OPERATORS
from tileproof.conformance.mutation.result import Outcome, Result, line_of
from tileproof.conformance.mutation.trial import Budget, Task, run_mutant
from tileproof.conformance.target import Coordinates, Schedule, Target

KNOWN = Path(__file__).parents[2] / "docs" / "evidence" / "mutation"
STAGES = ("order", "new", "alive")
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
            if name == stage:
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


def plan(stages: Sequence[str], processes: int, end: float) -> list[list[Task]]:
    """Chunks of all kernels: stage by stage, the kernels of one in turns."""
    by_stage: dict[str, list[Iterator[list[Task]]]] = {stage: [] for stage in stages}
    # Those that take longest to look through begin first.
    kernels = sorted(KERNELS, key=lambda kernel: kernel not in ("mm_fp8", "fp8_quantize_tensor", "int8_gemm_wgmma"))
    for found in side_by_side(partial(left_to_do, stages=stages), kernels, processes, end):
        for stage, tasks in found:
            by_stage[stage].append(chunks(tasks))
    turns = (turn for stage in stages for turn in zip_longest(*by_stage[stage]))
    return [chunk for turn in turns for chunk in turn if chunk]


def main() -> None:
    folder, most = Path(sys.argv[1]), float(sys.argv[2])
    processes = int(sys.argv[3]) if len(sys.argv) > 3 else os.cpu_count() or 1
    stages = sys.argv[4:] or list(STAGES)
    folder.mkdir(parents=True, exist_ok=True)
    look(Pair(cases()[0], 0))  # compiles the engine for all, which is not counted
    start = time.monotonic()
    planned = plan(stages, processes, start + most)
    sys.stdout.write(f"{sum(map(len, planned))} mutants planned after {time.monotonic() - start:.0f} s\n")
    counts = dict.fromkeys(Outcome, 0)
    for results in side_by_side(run_chunk, planned, processes, start + most):
        for one in results:
            counts[one.outcome] += 1
            with (folder / f"{one.id.partition('/')[0]}.ndjson").open("a") as file:
                file.write(line_of(one))
    words = ", ".join(f"{count} {name}" for name, count in counts.items())
    sys.stdout.write(f"{words}; {time.monotonic() - start:.0f} s on {processes} processes\n")


if __name__ == "__main__":
    main()
