"""A million results of cases taken into the history of runs, and how long its answers take.

    python -m benchmarks history

Goal: taken in within a minute, every answer within a second.
"""

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.report import show
from tileproof.conformance.environment import capture
from tileproof.conformance.events import CaseFinished, EventFile, RunStarted, event_name
from tileproof.conformance.history import History
from tileproof.conformance.records import to_json
from tileproof.conformance.target import Coordinates, Target

RUNS, CASES = 100, 10_000


def main(arguments: Sequence[str] = ()) -> None:
    """Write the runs, take them in, ask everything once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [_write(folder / f"{at}.ndjson", at) for at in range(RUNS)]
        with History(folder / "history.duckdb") as history:
            seconds = _timed(lambda: [history.add(file) for file in files])
            show(f"{RUNS * CASES} results of {RUNS} runs taken in: {seconds:.1f} s")
            asked: dict[str, Callable[[], object]] = {
                "runs": history.runs,
                "trends": lambda: history.trends("*"),
                "changes": lambda: history.changes("*"),
                "changes of one case": lambda: history.changes("*T17.*"),
                "unstable": lambda: history.unstable("*"),
                "slowest": lambda: history.slowest("*", 20),
            }
            for question, answer in asked.items():
                show(f"{question}: {_timed(answer):.3f} s")


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _write(path: Path, run: int) -> Path:
    """A run whose cases pass but for one in a thousand, which changes from run to run."""
    start = RunStarted("full", CASES, (Coordinates(Target.SIM),), None, replace(capture(), git=f"commit {run}"))
    finished = CaseFinished("", Target.SIM, True, "vector", 0.1, "")
    line = {"event": event_name(CaseFinished), **to_json(finished)}
    with EventFile(path) as file:
        file.receive(start)
    with path.open("a") as file_:
        for at in range(CASES):
            case = f"ninfer_quantize/fp8_quantize_rows/vector/T{at}.K64.bf16/ties/0"
            passed = (at + run) % 1000 != 0
            file_.write(json.dumps({**line, "case": case, "passed": passed, "output_digest": f"{at:064x}"}) + "\n")
    return path


if __name__ == "__main__":
    main()
