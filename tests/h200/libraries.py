"""Verdicts on kernels that are not ours, on a GPU: the examples, and operators of PyTorch, Triton and JAX.

    python tests/h200/libraries.py OUT.json

Each page runs in processes of its own, several at a time. What a library does otherwise than its page says is recorded,
and no failure: the step fails where a page comes to no verdict, or where an example does not come to what it says.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tileproof.conformance.environment import capture
from tileproof.conformance.events import CaseErrored, CaseFinished, FindingFound, TargetUnavailable, read_events
from tileproof.conformance.records import to_json

EXAMPLES = Path(__file__).parents[2] / "examples"
LIBRARIES = ("torch_scaled_mm", "torch_int_mm", "torch_casts", "triton", "jax")
PACKAGES = ("torch", "triton", "jax", "jaxlib", "cupy-cuda13x", "nvidia-cublas")
AT_A_TIME = 4
DEADLINE_S = 100


@dataclass(frozen=True)
class Tried:
    """One file to try, where, and the exit code that it must come to; None for as found."""

    file: str
    target: str = "gpu"
    tier: str = "full"
    must: int | None = 0


TRIED = (
    *(Tried(f"libraries/{name}_page.py", must=None) for name in LIBRARIES),
    *(Tried(name) for name in ("quantize_rows.cu", "scale_bias.cu", "axpy.ptx", "column_sums_page.py")),
    Tried("quantize_rows_tail.cu", must=1),
    Tried("torch_cast_page.py", "host"),
    Tried("torch_cast_page.py"),
)


def main() -> int:
    """Try everything; the exit code says whether all came to a verdict, and the examples to theirs."""
    out = Path(sys.argv[1])
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        results = list(pool.map(attempt, TRIED))
    record = {
        "what": "verdicts on kernels of others, on a GPU",
        "packages": {name: installed(name) for name in PACKAGES},
        "environment": to_json(capture()),
        "results": results,
    }
    out.write_text(json.dumps(record, indent=1) + "\n")
    for line in told(results):
        sys.stdout.write(f"{line}\n")
    return 0 if all(result["as_it_must"] for result in results) else 1


def attempt(one: Tried) -> dict[str, Any]:
    """Run one file, and gather what came of each of its contracts."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events.ndjson"
        command = [sys.executable, "-m", "tileproof.conformance", "try", str(EXAMPLES / one.file)]
        command += ["--target", one.target, "--tier", one.tier, "--deadline", str(DEADLINE_S), "--require-device"]
        command += ["--events", str(events), "--crash-dir", str(Path(folder) / "crashes")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        contracts = gathered(events) if events.is_file() else {}
    came = ran.returncode
    return {
        "file": one.file,
        "target": one.target,
        "exit_code": came,
        "as_it_must": came in ((0, 1) if one.must is None else (one.must,)),
        "seconds": round(time.perf_counter() - start, 1),
        "contracts": contracts,
        "error": "" if came in (0, 1) else (ran.stdout[-2000:] + ran.stderr[-2000:]),
    }


def gathered(events: Path) -> dict[str, Any]:
    """Per contract: cases that passed and failed, errors, and the first finding of each signature."""
    found: dict[str, Any] = {}
    for event in read_events(events):
        if isinstance(event, TargetUnavailable):
            found["unavailable"] = event.reason
        elif isinstance(event, CaseFinished | CaseErrored | FindingFound):
            name = event.case.partition("/")[0]
            mine = found.setdefault(name, {"passed": 0, "failed": 0, "errors": {}, "findings": {}})
            if isinstance(event, CaseFinished):
                mine["passed" if event.passed else "failed"] += 1
            elif isinstance(event, CaseErrored):
                mine["errors"].setdefault(event.message, event.case)
            else:
                first = {"case": event.case, "message": event.finding.message}
                mine["findings"].setdefault(event.finding.signature, first)
    return found


def told(results: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each contract."""
    for result in results:
        yield f"{result['file']} on {result['target']}: exit code {result['exit_code']}, {result['seconds']} s"
        if result["error"]:
            yield f"  {result['error']}"
        for name, one in result["contracts"].items():
            if isinstance(one, str):
                yield f"  {name}: {one}"
                continue
            yield f"  {name}: {one['passed']} passed, {one['failed']} failed"
            yield from (f"    ERROR {message} ({case})" for message, case in one["errors"].items())
            yield from (f"    {first['case']}: {first['message']}" for first in one["findings"].values())


def installed(name: str) -> str:
    """The version of a package; empty where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
