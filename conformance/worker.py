"""Runners: they carry a job out in this process, or in a spawned worker that may crash or hang.

The simulator runs in this process. A GPU case runs in a worker, because a kernel that faults leaves its process with a
CUDA context in which every later call fails, and a kernel that never ends cannot be stopped from within. The worker is
spawned, not forked: CUDA does not survive a fork. What kills a worker is a finding of the job that it was carrying
out, and the next job gets a fresh worker.

Neither waits for ever: a worker has a deadline, the simulator a budget of steps, which is the same on every machine,
and a deadline for each launch where the caller gives one.
"""

import math
import multiprocessing
import os
import signal
import traceback
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Protocol, runtime_checkable

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Arrays
from tileproof.conformance.faults import fault as find_fault
from tileproof.conformance.finding import Finding, FindingKind
from tileproof.conformance.registry import contract_of, registered
from tileproof.conformance.run_case import CaseResult, run_case
from tileproof.conformance.sanitizer import Sanitizer
from tileproof.conformance.target import Coordinates, DeviceFactory, open_device
from tileproof.conformance.unheard import unheard
from tileproof.kernels.device import DeviceError
from tileproof.oracle.refusal import Refusal

CASE_DEADLINE_S = 60.0
START_DEADLINE_S = 180.0
"""Importing CuPy and creating a context on a cold machine takes tens of seconds."""

STEPS_PER_CASE = 1 << 16
STEPS_PER_ELEMENT = 4
"""The simulator's patience, by the elements of all tensors of a case: some twenty times what the quantisation kernels
take under the adversarial schedule (3,000 steps for the smallest case, 0.2 for each further element)."""


@dataclass(frozen=True)
class Job:
    """One case at one place, with its inputs at hand, so that no process needs the generator."""

    case: Case
    coordinates: Coordinates
    inputs: Arrays
    fault: str | None = None


class Runner(Protocol):
    """Carries out jobs for one target."""

    def open(self, coordinates: Coordinates) -> None:
        """Get ready. Raises: Refusal where there is no such device; the message says what is missing."""

    def run(self, job: Job) -> CaseResult:
        """Carry out one job. Raises: Refusal, InternalError, DeviceLost."""

    def close(self) -> None:
        """Let everything go."""


class InternalError(Exception):
    """Our own code failed in a worker; `trace` is the traceback there."""

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message)
        self.trace = trace


class DeviceLost(Exception):
    """After a crash no fresh worker could open the device again."""


@runtime_checkable
class CountsSteps(Protocol):
    """A device that gives a launch up after so many steps or seconds: the simulator."""

    step_budget: int
    time_budget_s: float | None


def step_budget(case: Case) -> int:
    """Steps after which a kernel that runs this case is taken for an endless one."""
    elements = sum(math.prod(spec.shape) for spec in contract_of(case).tensors(case.shape))
    return STEPS_PER_CASE + STEPS_PER_ELEMENT * elements


def execute(job: Job, make_device: DeviceFactory, deadline_s: float | None = None) -> CaseResult:
    """Run one job in this process, on the device that the factory gives for its coordinates.

    Args:
        job: the case.
        make_device: opens the device.
        deadline_s: seconds for each launch on the simulator; None for no limit.
    """
    device = make_device(job.coordinates)
    if isinstance(device, CountsSteps):
        device.step_budget = step_budget(job.case)
        device.time_budget_s = deadline_s
    if job.fault is None:
        return run_case(job.case, device, inputs=job.inputs)
    fault = find_fault(job.fault)
    return run_case(job.case, device, inputs=job.inputs, kernel_source=fault.kernel_source(), expected=fault.model)


class InProcess:
    """Runs jobs in this process: for the simulator, whose kernels cannot hurt it.

    Args:
        make_device: opens the device of a job.
        deadline_s: seconds that one launch may take; None for as long as its steps do.
    """

    def __init__(self, make_device: DeviceFactory = open_device, *, deadline_s: float | None = None) -> None:
        self._make_device = make_device
        self._deadline_s = deadline_s

    def open(self, coordinates: Coordinates) -> None:
        """Open a device once, to know that there is one."""
        self._make_device(coordinates)

    def run(self, job: Job) -> CaseResult:
        """Carry out one job; a kernel that does not end is a finding in the result."""
        return execute(job, self._make_device, self._deadline_s)

    def close(self) -> None:
        """Nothing to let go."""


@dataclass(frozen=True)
class _Ready:
    """The worker's answer once its device is open."""


@dataclass(frozen=True)
class _Failed:
    """The worker's answer to a job that raised: the message, the traceback, and the device's error if it was that."""

    message: str
    trace: str
    device_error: str | None


class Worker:
    """Runs jobs in a spawned process, each with a deadline.

    Args:
        make_device: a function that a spawned process can import.
        deadline_s: seconds that one job may take.
        start_deadline_s: seconds from the start of a process to an open device.
        pages: files of pages whose contracts the process must know.
        sanitizer: the tool under which processes start; its reports are findings of the case that ran.
    """

    def __init__(
        self,
        make_device: DeviceFactory = open_device,
        *,
        deadline_s: float = CASE_DEADLINE_S,
        start_deadline_s: float = START_DEADLINE_S,
        pages: Sequence[Path] = (),
        sanitizer: Sanitizer | None = None,
    ) -> None:
        self._sanitizer = sanitizer
        self._make_device = make_device
        self._deadline_s = deadline_s
        self._start_deadline_s = start_deadline_s
        self._pages = tuple(pages)
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None

    def open(self, coordinates: Coordinates) -> None:
        """Start a process and let it open the device."""
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._make_device, self._pages), daemon=True)
        with unheard(), nullcontext() if self._sanitizer is None else self._sanitizer.starting():
            process.start()
        theirs.close()
        self._process = process
        answer = self._ask(coordinates, self._start_deadline_s)
        if not isinstance(answer, _Ready):
            self.close()
            raise answer if isinstance(answer, Refusal) else Refusal(f"the device cannot be opened: {_reason(answer)}")

    def run(self, job: Job) -> CaseResult:
        """Carry out one job; a crash or a missed deadline is a finding in the result."""
        if self._process is None or not self._process.is_alive():
            self._reopen(job.coordinates)
        answer = self._ask(job, self._deadline_s)
        if isinstance(answer, CaseResult):
            return self._with_reports(answer)
        if isinstance(answer, Refusal):
            raise answer
        self.close()
        if isinstance(answer, _Failed) and answer.device_error is None:
            raise InternalError(answer.message, answer.trace)
        crashed = CaseResult(job.case, (_finding(answer, self._deadline_s),), route="", seconds=0.0)
        return self._with_reports(crashed)

    def _with_reports(self, result: CaseResult) -> CaseResult:
        """The result with what the sanitizer has said of it. Raises: Refusal where it was blind."""
        if self._sanitizer is None:
            return result
        if blind := self._sanitizer.saw_nothing():
            raise Refusal(blind, hint="run the tool by hand on `python -c 'import cupy; cupy.zeros(1)'`")
        return replace(result, findings=(*self._sanitizer.findings(), *result.findings))

    def close(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None:
            if self._sanitizer is not None and self._process.pid is not None:
                self._sanitizer.kill(self._process.pid)
            self._process.kill()
            self._process.join(10)  # a process that hangs in the driver may take longer: it is left to the system
            self._process = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _reopen(self, coordinates: Coordinates) -> None:
        self.close()
        try:
            self.open(coordinates)
        except Refusal as refusal:
            raise DeviceLost(refusal.message) from None

    def _ask(self, question: Coordinates | Job, deadline_s: float) -> "_Answer":
        """The worker's answer; None for a missed deadline, the exit code for a process that died."""
        assert self._connection is not None
        assert self._process is not None
        try:
            self._connection.send(question)
            if not self._connection.poll(deadline_s):
                return None
            answer: _Answer = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(10)
            return self._process.exitcode or 0
        return answer


_Answer = _Ready | CaseResult | Refusal | _Failed | int | None


def _finding(answer: _Answer, deadline_s: float) -> Finding:
    if answer is None:
        message = f"no answer within {deadline_s:g} s: the kernel hangs, or takes longer; its process was killed"
        return Finding(FindingKind.TIMEOUT, message, "timeout")
    reason = _reason(answer)
    cause = answer.device_error if isinstance(answer, _Failed) else reason
    return Finding(FindingKind.CRASH, f"{reason}; its process was given up", f"crash/{cause}")


def _reason(answer: _Answer) -> str:
    if isinstance(answer, _Failed):
        return answer.message
    if isinstance(answer, int):
        return f"the process exited with {answer}" if answer >= 0 else f"the process died: {signal.strsignal(-answer)}"
    return "no answer in time"


def _serve(connection: Connection, make_device: DeviceFactory, pages: Sequence[Path] = ()) -> None:
    """The worker's life: answer each question until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    os.dup2(2, 1)  # what a kernel prints is not the run's data
    with ExitStack() as stack:
        if pages:
            from tileproof.conformance.pages.page_file import load_contracts  # here: others need no pages

            stack.enter_context(registered(load_contracts(pages)))
        while True:
            try:
                question = connection.recv()
            except EOFError:
                return
            connection.send(_answer(question, make_device))


def _answer(question: Coordinates | Job, make_device: DeviceFactory) -> _Answer:
    try:
        if isinstance(question, Job):
            return execute(question, make_device)
        make_device(question)
        return _Ready()
    except Refusal as refusal:
        return refusal
    except Exception as error:  # whatever it was, this process may be unfit now: the parent ends it
        device_error = error.error if isinstance(error, DeviceError) else None
        message = str(error) if device_error else f"{type(error).__name__}: {error}"
        return _Failed(message, traceback.format_exc(), device_error)
