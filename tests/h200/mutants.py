"""Run on a machine with a GPU: a sample of mutants of compiled kernels, each on the case that kills it on the CPU.

python tests/h200/mutants.py EVIDENCE.json [COUNT [SECONDS [WORKERS]]]
python tests/h200/mutants.py EVIDENCE.json --hung OLD.json      what hung in an earlier run, once more, one at a time

A mutant's PTX is assembled by the driver and runs below the unchanged launcher in a worker of its own kind: one that
crashes or hangs is killed, and that is its finding. Workers share the GPU; one that hung beside others runs once more
alone, since another's hang may have held it up. Outputs are held to the oracle, as on the CPU device. What the GPU
shows wrong is what a suite with a GPU and without a simulator would have found, in REPEATS runs of two launches each.
"""

import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tileproof.conformance.case import Case
from tileproof.conformance.environment import capture
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.mutation.mutant import Mutant, find
from tileproof.conformance.mutation.operators import OPERATORS
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import case_inputs
from tileproof.conformance.target import Coordinates, Target
from tileproof.conformance.worker import Job, Worker
from tileproof.kernels.compile import CompiledModule, CompileError
from tileproof.kernels.cupy_device import CupyDevice, CupyFunction
from tileproof.kernels.device import Device, DeviceError
from tileproof.simulators.ptx.text.parse import parse_module

SAMPLE = Path(__file__).parents[1] / "mutants.json"
REPEATS = 3
DEADLINE_S = 5.0
MOST_SECONDS = 280.0
"""After which no further mutant is begun: a worker that dies takes long to replace."""
HUNG, AGAIN_S, PATIENT_S = str(FindingKind.TIMEOUT), 130.0, 30.0
"""What runs once more alone, and for so many seconds beyond the others."""
AS_SHIPPED = 0


@dataclass(frozen=True)
class Chosen:
    """One mutant of the sample.

    Args:
        id: of the mutant.
        entry: of its module.
        outcome: on the CPU device.
        kinds: of the findings there.
        case: that killed it there, or of a survivor one that reaches it.
        schedule: under which it was killed there, "" of a survivor.
    """

    id: str
    entry: str
    outcome: str
    kinds: tuple[str, ...]
    case: str
    schedule: str


@cache
def sample() -> tuple[Chosen, ...]:
    """In the order in which they run."""
    return tuple(Chosen(**{**row, "kinds": tuple(row["kinds"])}) for row in json.loads(SAMPLE.read_text()))


class MutatedGpu(CupyDevice):
    """A GPU that loads one mutant in its kernel's place, assembled by the driver."""

    def __init__(self, chosen: Chosen) -> None:
        super().__init__()
        self._chosen = chosen

    def load(self, module: CompiledModule) -> Mapping[str, CupyFunction]:
        """The kernels of the module; of the mutant's those of its patched text."""
        found = find(module, self._chosen.id, self._chosen.entry)
        return super().load(module) if found is None else self.load_text(module, found)

    def load_text(self, module: CompiledModule, mutant: Mutant) -> Mapping[str, CupyFunction]:
        """The kernels of a patched text."""
        entry = parse_module(module.ptx).entries[mutant.entry]
        text = mutant.patch.text(module.ptx, entry)
        loaded = self._cupy.cuda.function.Module()
        try:
            with self.current(f"loading of {mutant.id}"):
                loaded.load(text.encode() + b"\0")
        except DeviceError as error:
            raise CompileError(f"the driver does not assemble {mutant.id}: {error}") from error
        return {name: CupyFunction(name, loaded.get_function(name), self) for name in module.entries}


def make_device(coordinates: Coordinates) -> Device:
    """The seed says which mutant: it has no other meaning on a GPU."""
    number = coordinates.seed
    return CupyDevice() if number == AS_SHIPPED else MutatedGpu(sample()[number - 1])


def kinds(worker: Worker, case: Case, number: int) -> list[str]:
    """Of the findings in up to REPEATS runs, of which the first with one is the last."""
    inputs = case_inputs(case)
    for _ in range(REPEATS):
        found = worker.run(Job(case, Coordinates(Target.GPU, seed=number), inputs)).findings
        if found:
            return sorted({str(one.kind) for one in found})
    return []


class Workers(threading.local):
    """A worker for each thread."""

    def __init__(self) -> None:
        self.worker = Worker(make_device, deadline_s=DEADLINE_S)


def judge(workers: Workers, number: int, case: Case) -> list[str]:
    """Kinds of findings of a mutant; the driver's refusal of its text is told, and counted by itself."""
    try:
        return kinds(workers.worker, case, number)
    except Exception as error:
        return [f"not run: {error}"]


def run(numbers: Sequence[int], end: float, threads: int) -> dict[int, list[str]]:
    """Kinds of findings by the mutant's number in the sample; none begins after `end`, by `time.perf_counter`."""
    workers = Workers()

    def one(number: int) -> tuple[int, list[str]] | None:
        if time.perf_counter() > end:
            return None
        return number, judge(workers, number, find_case(sample()[number - 1].case))

    with ThreadPoolExecutor(threads) as pool:
        return dict(answer for answer in pool.map(one, numbers) if answer is not None)


def as_shipped(names: Iterable[str]) -> dict[str, list[str]]:
    """Kinds of findings of cases on the kernels as they are; a cold machine may take its time."""
    worker = Worker(make_device, deadline_s=PATIENT_S)
    worker.open(Coordinates(Target.GPU))
    found = {name: kinds(worker, find_case(name), AS_SHIPPED) for name in names}
    worker.close()
    return found


def hung_again(old: dict[str, Any], end: float) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """The rows of an earlier run and its cases as shipped with findings, what hung in it judged anew."""
    shipped = as_shipped(old["shipped_with_findings"])
    rows: list[dict[str, Any]] = old["mutants"]
    numbers = {one.id: number for number, one in enumerate(sample(), 1)}
    found = run([numbers[row["id"]] for row in rows if HUNG in row["gpu"]], end, 1)
    return [{**row, "gpu": found.get(numbers[row["id"]], row["gpu"])} for row in rows], shipped


def judge_sample() -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """A row for each mutant of the sample, and what is found in their cases on the kernels as they are."""
    count = int(sys.argv[2]) if len(sys.argv) > 2 else len(sample())
    most = float(sys.argv[3]) if len(sys.argv) > 3 else MOST_SECONDS
    threads = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    start = time.perf_counter()
    shipped = as_shipped({one.case for one in sample()[:count]})
    found = run(range(1, 1 + min(count, len(sample()))), start + most, threads)
    hung = [number for number, kinds_ in found.items() if threads > 1 and HUNG in kinds_]
    found |= run(hung, start + most + AGAIN_S, 1)
    return [{**asdict(sample()[number - 1]), "gpu": kinds_} for number, kinds_ in sorted(found.items())], shipped


def main() -> None:
    start = time.perf_counter()
    if sys.argv[2:3] == ["--hung"]:
        old = json.loads(Path(sys.argv[3]).read_text())
        rows, shipped = hung_again(old, start + AGAIN_S)
        start -= old["seconds"]
    else:
        rows, shipped = judge_sample()
    text = json.dumps(evidence(rows, shipped, time.perf_counter() - start), indent=1) + "\n"
    Path(sys.argv[1]).write_text(text)
    sys.stdout.write("\n".join(text.splitlines()[-30:]) + "\n")
    sys.exit(1 if any(shipped.values()) else 0)


def evidence(rows: list[dict[str, Any]], shipped: dict[str, list[str]], seconds: float) -> dict[str, Any]:
    """All rows, and how many the GPU alone shows wrong, by what breaks and by what became of them on the CPU."""
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        ran = not any(kind.startswith("not run") for kind in row["gpu"])
        for key in ("all", row["outcome"], f"{row['outcome']} {OPERATORS[row['id'].split('/')[1]].group}"):
            count = counts.setdefault(key, {"mutants": 0, "ran": 0, "wrong": 0})
            count["mutants"] += 1
            count["ran"] += ran
            count["wrong"] += bool(ran and row["gpu"])
    return {
        "what": "mutants of compiled kernels, each on one case: kinds of findings on the GPU and on the CPU device",
        "environment": asdict(capture()),
        "repeats": REPEATS,
        "seconds": round(seconds, 1),
        "shipped_with_findings": {case: found for case, found in shipped.items() if found},
        "left_out": len(sample()) - len(rows),
        "mutants": rows,
        "counts": counts,
    }


if __name__ == "__main__":
    main()
