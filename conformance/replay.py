"""Run the case of a crash file again, from its raw input bits and not from the generator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tileproof.conformance.case import Case, parse_case
from tileproof.conformance.contract import Arrays
from tileproof.conformance.crash import CrashRecord, hash_inputs, read_crash
from tileproof.conformance.finding import Finding
from tileproof.conformance.records import shorten
from tileproof.conformance.registry import contract_of, contracts, find_case
from tileproof.conformance.run_case import CaseResult, case_inputs
from tileproof.conformance.session import differences
from tileproof.conformance.tally import AGREE, ERROR, FINDING
from tileproof.conformance.target import Coordinates, Target
from tileproof.conformance.worker import DeviceLost, InternalError, Job, Runner
from tileproof.oracle.refusal import Refusal


class Outcome(StrEnum):
    """What a replay came to."""

    FIXED = "FIXED"
    FAILED = "FAILED"
    ERROR = "ERROR"

    @property
    def exit_code(self) -> int:
        """0, 1 or 2."""
        return {Outcome.FIXED: AGREE, Outcome.FAILED: FINDING, Outcome.ERROR: ERROR}[self]


@dataclass(frozen=True)
class Replay:
    """One replayed crash file.

    Args:
        path: of the file.
        outcome: FIXED without a finding, FAILED with one, ERROR where it could not be run.
        record: as read; None where it could not be.
        findings: of this time.
        reason: why it could not be run.
    """

    path: Path
    outcome: Outcome
    record: CrashRecord | None
    findings: tuple[Finding, ...] = ()
    reason: str = ""

    @property
    def same_signature(self) -> bool:
        """Whether a finding of this time has the signature of a recorded one."""
        recorded = {finding.signature for finding in self.record.findings} if self.record else set()
        return bool(recorded & {finding.signature for finding in self.findings})


def replay(path: Path, runners: Mapping[Target, Runner], *, target: Target | None = None) -> Replay:
    """Run the case of the crash file at `path` again.

    Args:
        path: of the crash file.
        runners: at least one for each target that the file names.
        target: run there instead of where the case ran: the bits that failed on a GPU, on the simulator.
    """
    record = None
    try:
        record, inputs = read_crash(path)
        case = known_case(record)
        if inputs is None:
            inputs = _regenerate(record, case)
        places = record.coordinates if target is None else _moved(record.coordinates, target)
        results = {place: _run(runners[place.target], Job(case, place, inputs, record.fault)) for place in places}
    except (Refusal, InternalError, DeviceLost) as error:
        return Replay(path, Outcome.ERROR, record, reason=str(error))
    findings = tuple(finding for result in results.values() for finding in result.findings)
    if len(results) > 1 and all(result.outputs for result in results.values()):
        findings += tuple(differences(case, results))
    return Replay(path, Outcome.FAILED if findings else Outcome.FIXED, record, findings)


def known_case(record: CrashRecord) -> Case:
    """The case, if this run knows its contract: a page that the file names is not run unless it is given by hand."""
    case = parse_case(record.case)
    if record.page and case.contract not in contracts():
        raise Refusal(
            f"{case.contract} is the contract of a page, {shorten(record.page)}, and a crash file runs no code",
            hint="give it by --page, which runs the Python in it",
        )
    return find_case(record.case)


def _regenerate(record: CrashRecord, case: Case) -> Arrays:
    """The inputs of a case whose run ended before they were stored: the generator's, if it is still the same one."""
    version = contract_of(case).generator_version
    if version != record.generator_version:
        raise Refusal(
            f"the run ended before the inputs were stored, and generator version {record.generator_version} "
            f"is now {version}",
            hint="run the case again by its id",
        )
    try:
        inputs = case_inputs(case)
    except (MemoryError, ValueError) as error:  # numpy: a shape beyond what an array can have
        raise Refusal(f"case {case}: its inputs cannot be made: {error}") from None
    if hash_inputs(inputs) != record.inputs_sha256:
        raise Refusal("the generator gives other inputs than were recorded", hint="run the case again by its id")
    return inputs


def _moved(coordinates: Sequence[Coordinates], target: Target) -> tuple[Coordinates, ...]:
    first = coordinates[0]
    return (Coordinates(target, first.arch, first.schedule, first.seed),)


def _run(runner: Runner, job: Job) -> CaseResult:
    runner.open(job.coordinates)
    return runner.run(job)
