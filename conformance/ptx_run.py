"""One launch of a bare kernel file on the CPU device, told to a person."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.launch_argument import LaunchArgument
from tileproof.conformance.ptx_counters import describe_counters
from tileproof.conformance.ptx_trace import describe_trace
from tileproof.conformance.saying import remark
from tileproof.conformance.target import Schedule
from tileproof.kernels.compile import compile_source
from tileproof.kernels.user_source import read_kernel_file
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx import Device
from tileproof.simulators.ptx.arguments import Argument
from tileproof.simulators.ptx.buffer import Buffer
from tileproof.simulators.ptx.device import DEFAULT_MEMORY_LIMIT_BYTES, DEFAULT_STEP_BUDGET
from tileproof.simulators.ptx.findings import Counters, Finding, Index3, Report
from tileproof.simulators.ptx.limits import Limits
from tileproof.simulators.ptx.machine.budget import BudgetExceeded
from tileproof.simulators.ptx.text.parse import parse_module
from tileproof.simulators.ptx.trace.trace import Element, Trace

SHOWN_ELEMENTS = 8
SHOWN_THREADS = 2
SHOWN_NOTES = 20


@dataclass(frozen=True)
class KernelLaunch:
    """What is run.

    Args:
        file: .ptx, or .cu that is compiled first.
        entry: the kernel; None where the file has one only.
        grid: blocks along x, y, z.
        block: threads along x, y, z.
        cluster: blocks of a cluster along x, y, z.
        shared_bytes: dynamic shared memory of a block.
        arguments: in order.
        arch: architecture; None for the file's own target.
        schedule: how the device orders what may be reordered.
        seed: of the schedule.
        element: to be traced.
        counters: count instructions by opcode and bank conflicts too.
        steps: of one wave at most; None for the device's own limit.
        seconds: at most; None for no limit.
        memory_bytes: at most; None for the device's own limit.
    """

    file: Path
    entry: str | None
    grid: Index3
    block: Index3
    cluster: Index3
    shared_bytes: int
    arguments: tuple[LaunchArgument, ...]
    arch: str | None
    schedule: Schedule
    seed: int
    element: Element | None = None
    counters: bool = False
    steps: int | None = None
    seconds: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class LaunchResult:
    """What came out.

    Args:
        entry: the kernel that ran.
        arch: where.
        report: the device's.
        buffers: for each argument its buffer, None for a scalar.
        trace: of the element that was asked for.
        given_up: why the launch did not get to its end.
    """

    entry: str
    arch: str
    report: Report
    buffers: tuple[Buffer | None, ...]
    trace: Trace | None = None
    given_up: str = ""

    @property
    def count(self) -> int:
        """How many things are wrong."""
        return len(self.report.findings) + bool(self.given_up)


def run_kernel(launch: KernelLaunch) -> LaunchResult:
    """Run a kernel file.

    Raises:
        Refusal: the file, its kernel, the arguments or the launch are illegal or outside the modelled range.
    """
    if launch.arch is not None:
        Limits.of(launch.arch)  # before the compiler says it in fewer words
    text = _ptx(launch)
    arch = launch.arch or parse_module(text).target[0]
    device = Device(
        arch=arch,
        schedule=launch.schedule.value,
        seed=launch.seed,
        profile=launch.counters,
        step_budget=DEFAULT_STEP_BUDGET if launch.steps is None else launch.steps,
        time_budget_s=launch.seconds,
        memory_limit_bytes=DEFAULT_MEMORY_LIMIT_BYTES if launch.memory_bytes is None else launch.memory_bytes,
    )
    functions = device.load_ptx(text)
    entry = _entry(launch, tuple(functions))
    passed = [_passed(device, argument) for argument in launch.arguments]
    function, trace = functions[entry], None
    options: _Options = {
        "grid": launch.grid,
        "block": launch.block,
        "args": passed,
        "shared_bytes": launch.shared_bytes,
        "cluster": launch.cluster,
    }
    given_up = ""
    try:
        if launch.element is None:
            report = function.launch(**options)
        else:
            trace = function.trace(launch.element, **options)
            report = trace.report
    except BudgetExceeded as exceeded:
        report, given_up = exceeded.report, exceeded.message
    buffers = tuple(argument if isinstance(argument, Buffer) else None for argument in passed)
    return LaunchResult(entry, arch, report, buffers, trace, given_up)


class _Options(TypedDict):
    grid: Index3
    block: Index3
    args: Sequence[Argument]
    shared_bytes: int
    cluster: Index3


def _ptx(launch: KernelLaunch) -> str:
    text = read_kernel_file(launch.file)
    if launch.file.suffix == ".cu":
        return compile_source(text, name=launch.file.name, arch=launch.arch or "sm_90a").ptx
    return text


def _entry(launch: KernelLaunch, known: tuple[str, ...]) -> str:
    names = ", ".join(known) or "none"
    if launch.entry is None:
        if len(known) != 1:
            raise Refusal(f"{launch.file} has {len(known)} kernels", hint=f"give --entry, one of: {names}")
        return known[0]
    if launch.entry not in known:
        raise Refusal(f"{launch.file} has no kernel {launch.entry!r}", hint=f"it has: {names}")
    return launch.entry


def _passed(device: Device, argument: LaunchArgument) -> Buffer | np.generic:
    if argument.scalar is not None:
        return argument.scalar
    if argument.contents is not None:
        return device.upload(argument.contents)
    assert argument.dtype is not None
    return device.allocate(argument.shape, argument.dtype)


def describe(launch: KernelLaunch, result: LaunchResult) -> Iterator[str]:
    """The run in lines: findings, notes, what the buffers hold, counters."""
    place = f"sim ({result.arch}, schedule {launch.schedule}, seed {launch.seed})"
    yield f"{result.entry} of {launch.file.name} on {place}, grid {launch.grid}, block {launch.block}"
    if result.given_up:
        yield ""
        yield "FAIL  timeout"
        yield f"      {result.given_up}: an endless loop, or raise --steps or --seconds"
    for finding in result.report.findings:
        yield ""
        yield from _finding(finding)
    yield ""
    yield from _notes(result.report)
    for index, (argument, buffer) in enumerate(zip(launch.arguments, result.buffers, strict=True)):
        if buffer is not None:
            yield f"argument {index}  {argument.text}: {_contents(buffer)}"
    if result.trace is not None:
        yield ""
        yield from describe_trace(result.trace, tuple(argument.text for argument in launch.arguments))
        yield ""
    if launch.counters:
        yield ""
        yield from describe_counters(result.report.counters)
        yield ""
    yield _counters(result.report.counters)
    count = result.count
    yield "no finding" if not count else "1 finding" if count == 1 else f"{count} findings"


def _finding(finding: Finding) -> Iterator[str]:
    yield f"FAIL  {finding.kind}"
    yield f"      {finding.message}"
    yield f"      at     {finding.where}"
    if finding.threads:
        shown = "; ".join(map(str, finding.threads[:SHOWN_THREADS]))
        yield f"      by     {shown}"
    if finding.count > 1:
        yield f"      seen {finding.count} times"


def _notes(report: Report) -> Iterator[str]:
    for note in report.notes[:SHOWN_NOTES]:
        times = f" ({note.count} times)" if note.count > 1 else ""
        yield f"note   {note.message} at {note.where}{times}"
    if len(report.notes) > SHOWN_NOTES:
        yield f"note   and {len(report.notes) - SHOWN_NOTES} more"


def _contents(buffer: Buffer) -> str:
    values = buffer.download().reshape(-1)
    whole: NDArray[np.bool_] = np.zeros(0, np.bool_)
    if values.size:
        whole = np.asarray(buffer.written().reshape(values.size, -1).all(axis=1), np.bool_)
    head = " ".join(_shown(values, whole, index) for index in range(min(SHOWN_ELEMENTS, values.size)))
    more = " ..." if values.size > SHOWN_ELEMENTS else ""
    unwritten = int((~whole).sum())
    state = f"{unwritten} of {values.size} elements unwritten" if unwritten else f"{values.size} elements, all written"
    return f"{state}: {head}{more}"


def _shown(values: NDArray[Any], whole: NDArray[np.bool_], index: int) -> str:
    return f"{values[index]}" if whole[index] else "?"


def _counters(counters: Counters) -> str:
    return (
        f"{counters.thread_instructions:,} thread instructions; "
        f"global memory {counters.global_bytes_read:,} bytes read, {counters.global_bytes_written:,} written; "
        f"shared memory {counters.shared_bytes_read:,} read, {counters.shared_bytes_written:,} written"
        + (f"; {counters.global_bytes_undecided:,} bytes undecided" if counters.global_bytes_undecided else "")
    )


def save(result: LaunchResult, places: Sequence[tuple[int, Path]]) -> None:
    """Write buffers as .npy files.

    Raises:
        Refusal: an argument that is no buffer, or a file that cannot be written.
    """
    for index, path in places:
        buffer = result.buffers[index] if 0 <= index < len(result.buffers) else None
        if buffer is None:
            raise Refusal(f"argument {index} is no buffer", hint="count from 0")
        try:
            with path.open("wb") as file:
                np.save(file, buffer.download())
            remark(f"wrote argument {index} to {path}")
        except OSError as error:
            raise Refusal(
                f"{path}: cannot be written: {error.strerror or error}", hint="give another --save FILE"
            ) from None
