"""Cases under compute-sanitizer: the worker starts under it, and what it writes is a finding of the case that ran."""

import os
from pathlib import Path

import pytest
import runner_fakes
from runner_fakes import GPU, small_case

from tileproof.conformance.cli import main
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.run_case import case_inputs
from tileproof.conformance.sanitizer import Sanitizer, Tool
from tileproof.conformance.worker import Job, Worker
from tileproof.oracle.refusal import Refusal

FAKE = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --tool|--report-api-errors|--show-backtrace|--print-limit|--port) shift 2 ;;
    --log-file) log=$(echo "$2" | sed "s/%p/$$/"); shift 2 ;;
    *) break ;;
  esac
done
echo "========= COMPUTE-SANITIZER" > "$log"
{more}
export FAKE_SANITIZER_LOG="$log"
exec "$@"
"""
BLIND = 'echo "========= Error: Target application terminated before first instrumented API call" >> "$log"'


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake compute-sanitizer, which stands before anything else on the PATH."""
    path = tmp_path / "compute-sanitizer"
    path.write_text(FAKE.replace("{more}", ""))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return path


def job() -> Job:
    return Job(small_case(), GPU, case_inputs(small_case()))


def test_what_the_tool_reports_is_a_finding_of_the_case_once_for_a_cause(tool: Path) -> None:
    worker = Worker(runner_fakes.reporting, sanitizer=Sanitizer(Tool.MEMCHECK))
    worker.open(GPU)
    try:
        first, second = (worker.run(job()) for _ in range(2))
    finally:
        worker.close()
    for result in (first, second):
        (finding,) = result.findings
        assert finding.kind is FindingKind.OUT_OF_BOUNDS
        assert finding.message.startswith("compute-sanitizer memcheck: Invalid __global__ read of size 2 bytes (at 0x")
        assert finding.signature == "out-of-bounds/memcheck/Invalid __global__ read of size 2 bytes"
        assert result.route == "scalar"


@pytest.mark.slow
def test_a_case_that_the_tool_has_nothing_to_say_of_passes_and_a_crash_is_still_one(tool: Path) -> None:
    for device, kinds in ((runner_fakes.simulated, []), (runner_fakes.exits, [FindingKind.CRASH])):
        worker = Worker(device, sanitizer=Sanitizer(Tool.RACECHECK))
        worker.open(GPU)
        try:
            assert [finding.kind for finding in worker.run(job()).findings] == kinds
        finally:
            worker.close()


def test_a_hang_ends_with_everything_that_the_tool_started(tool: Path) -> None:
    worker = Worker(runner_fakes.hangs, deadline_s=0.5, sanitizer=Sanitizer(Tool.SYNCCHECK))
    worker.open(GPU)
    assert worker._process is not None
    pid = worker._process.pid
    assert pid is not None
    try:
        assert [finding.kind for finding in worker.run(job()).findings] == [FindingKind.TIMEOUT]
    finally:
        worker.close()
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)


@pytest.mark.slow
def test_the_silence_of_a_tool_that_was_blind_is_no_verdict(tool: Path) -> None:
    tool.write_text(FAKE.replace("{more}", BLIND))
    worker = Worker(runner_fakes.simulated, sanitizer=Sanitizer(Tool.MEMCHECK))
    worker.open(GPU)
    try:
        with pytest.raises(Refusal, match="did not watch the program"):
            worker.run(job())
    finally:
        worker.close()


def test_without_the_tool_or_the_gpu_it_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["check", "--target", "gpu", "--sanitize", "memcheck"]) == 2
    assert capsys.readouterr().err.startswith("error: --sanitize: there is no compute-sanitizer on the PATH\nhint: ")
    assert main(["check", "--sanitize", "memcheck"]) == 2
    assert capsys.readouterr().err.startswith("error: --sanitize is given without the target gpu\n")
