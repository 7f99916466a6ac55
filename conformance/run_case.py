"""Run one case on one device and say what is wrong.

The case runs twice with other poison in the outputs and other values in the inputs' padding, and on the CPU device with
shared memory at another place. A finding is: an output
that differs from the contract's, an output byte that neither run wrote, a byte outside the outputs that changed, an
input that changed, another route than the case's, a launcher that refuses or accepts wrongly, and whatever the device
itself reports. Everything that is known about a case goes into its findings; nothing is printed here.
"""

import functools
import hashlib
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tileproof.conformance.allowed import shares, undecided
from tileproof.conformance.case import Case
from tileproof.conformance.contract import (
    FILE_FAMILY,
    Arrays,
    Comparison,
    Contract,
    EditedSource,
    Mask,
    Right,
    Run,
)
from tileproof.conformance.device_findings import device_findings, device_notes
from tileproof.conformance.evidence.kernel_key import kernel_keys
from tileproof.conformance.finding import Finding, FindingKind
from tileproof.conformance.layout import Bytes, Layout, has_exact_bounds, lay_out
from tileproof.conformance.registry import contract_of, contracts
from tileproof.conformance.verdict import Evidence, Observation
from tileproof.kernels.device import Buffer, Device, Report
from tileproof.kernels.launcher import Launch
from tileproof.kernels.tensor import Tensor
from tileproof.kernels.watch import watched
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.machine.budget import BudgetExceeded


@runtime_checkable
class HasBrackets(Protocol):
    """A buffer that knows what approximate functions left open: the CPU device's."""

    def bracket(self, dtype: DTypeLike | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """The smallest and the largest value that each element may have."""


@runtime_checkable
class PlacesShared(Protocol):
    """A device that begins a block's shared memory where it is told to: the CPU device."""

    shared_base: int


OTHER_BASES = (0x480, 0x400)
"""The first is aligned to 128 bytes and no more, as behind 128 bytes of the compiler's; the second is the usual one."""


@dataclass(frozen=True)
class CaseResult:
    """What a run of one case found.

    Args:
        case: the case.
        findings: empty when all is well.
        route: that the launcher recorded, "refused" where it refused.
        seconds: wall time of both launches, generation and comparison included.
        notes: the device's quieter level, as text.
        output_digest: SHA-256 over the outputs' elements of the first run; equal digests are equal outputs.
        outputs: the outputs of the first run, by tensor name; empty where nothing was launched.
        undecided: for outputs that have sets of right values, which elements have more than one.
        kernels: keys of the kernels that the first run launched, each once; see `evidence.kernel_key`.
    """

    case: Case
    findings: tuple[Finding, ...]
    route: str
    seconds: float
    notes: tuple[str, ...] = ()
    output_digest: str = ""
    outputs: Arrays = field(default_factory=dict, repr=False, compare=False)
    undecided: Mapping[str, Mask] = field(default_factory=dict, repr=False, compare=False)
    kernels: tuple[str, ...] = ()


def run_case(
    case: Case,
    device: Device,
    *,
    kernel_source: EditedSource | None = None,
    inputs: Arrays | None = None,
    expected: Callable[[Arrays, str], Right] | None = None,
) -> CaseResult:
    """Run `case` on `device`.

    Args:
        case: one that its contract knows; see `Contract.check`.
        device: what to run on.
        kernel_source: an edited kernel (a fault); None for the kernel as shipped.
        inputs: values to use instead of generated ones, by tensor name; needed for the family "file".
        expected: an edited model (a fault); None for the contract's.

    Raises:
        Refusal: an unknown contract or part, inputs that do not fit the case, a kernel that does not compile.
    """
    start = time.perf_counter()
    contract = contract_of(case)
    contract.check(case)
    values = case_inputs(case) if inputs is None else _fitting(contract, case, inputs)
    run = launcher(contract.name, cast(Hashable, device), case.kernel, kernel_source)
    exact = has_exact_bounds(device)
    layouts = tuple(lay_out(spec, exact_bounds=exact) for spec in contract.tensors(case.shape))
    launch = functools.partial(run, case)
    expected = expected or functools.partial(contract.expected, case)
    open_ends = contract.comparison in (Comparison.SET, Comparison.BOUND)
    observed: list[Observation] = []
    try:
        with watched() as launched:
            observed.append(observe(layouts, values, device, launch, 0, open_ends))
        with _elsewhere_in_shared_memory(device):
            observed.append(observe(layouts, values, device, launch, 1, open_ends))
    except BudgetExceeded as exceeded:
        return _given_up(case, exceeded, _reports(observed), time.perf_counter() - start)
    seen = (observed[0], observed[1])
    reports = _reports(seen)
    evidence = Evidence(contract, case, values, device.arch, expected, layouts, seen)
    outputs = outputs_of(layouts, seen[0])
    return CaseResult(
        case=case,
        findings=(*evidence.findings(), *device_findings(reports)),
        route=seen[0].route,
        seconds=time.perf_counter() - start,
        notes=(*device_notes(reports), *(_shares(evidence) if open_ends else ())),
        output_digest=_digest(outputs),
        outputs=outputs,
        undecided=undecided(evidence.right) if outputs and open_ends else {},
        kernels=kernel_keys(launched),
    )


def _reports(seen: Iterable[Observation]) -> list[Report]:
    return [one.launch.report for one in seen if one.launch is not None and one.launch.report is not None]


def _given_up(case: Case, exceeded: BudgetExceeded, before: list[Report], seconds: float) -> CaseResult:
    """A launch used up its budget: that, and what was found in it and in the launches before it."""
    reports = [*before, exceeded.report]
    timeout = Finding(FindingKind.TIMEOUT, f"{exceeded.message}: an endless loop", "timeout")
    return CaseResult(case, (timeout, *device_findings(reports)), "", seconds, device_notes(reports))


def case_inputs(case: Case) -> Arrays:
    """The generated inputs of a case, by tensor name. Raises: Refusal for the family "file"."""
    if case.family == FILE_FAMILY:
        raise Refusal(f"case {case} takes its inputs from a file", hint="give --input FILE, or replay its crash file")
    return contract_of(case).inputs(case)


@functools.lru_cache(maxsize=4)
def launcher(contract: str, device: Hashable, kernel: str, source: EditedSource | None) -> Run:
    """A kernel's launcher on a device, kept because loading a module can cost more than running a small case."""
    return contracts()[contract].kernel(cast(Device, device), kernel, source)


def _fitting(contract: Contract, case: Case, inputs: Arrays) -> Arrays:
    """The inputs, held to the case's names, shapes and element types."""
    specs = [spec for spec in contract.tensors(case.shape) if spec.role.is_read]
    if set(inputs) != {spec.name for spec in specs}:
        raise Refusal(f"inputs are {sorted(inputs)}, case {case} takes {sorted(spec.name for spec in specs)}")
    for spec in specs:
        given = inputs[spec.name]
        if given.shape != spec.shape or given.dtype != spec.dtype:
            raise Refusal(
                f"input {spec.name} is {given.dtype.name} {given.shape}, case {case} takes "
                f"{spec.dtype.name} {spec.shape}"
            )
    return inputs


@contextmanager
def _elsewhere_in_shared_memory(device: Device) -> Iterator[None]:
    """Let blocks find their shared memory at another address, on a device that lets one choose: the CPU device."""
    if not isinstance(device, PlacesShared):
        yield
        return
    usual = device.shared_base
    device.shared_base = next(base for base in OTHER_BASES if base != usual)
    try:
        yield
    finally:
        device.shared_base = usual


def observe(
    layouts: tuple[Layout, ...],
    values: Arrays,
    device: Device,
    run: Callable[[Mapping[str, Tensor]], Launch],
    index: int,
    open_ends: bool,
) -> Observation:
    """Launch once on fresh allocations, which are given back even if the device fails.

    Args:
        layouts: of the case's tensors.
        values: inputs by tensor name.
        device: what to run on.
        run: launches the case on tensors.
        index: of the poison in outputs and the values in paddings, 0 or 1.
        open_ends: whether what approximate functions left open is looked at.
    """
    before = {
        layout.spec.name: layout.image(values[layout.spec.name], index)
        if layout.spec.role.is_read
        else layout.poison(index)
        for layout in layouts
    }
    buffers = {name: device.upload(image) for name, image in before.items()}
    launch, refusal = None, None
    try:
        try:
            launch = run({layout.spec.name: layout.tensor(buffers[layout.spec.name]) for layout in layouts})
        except Refusal as error:
            if type(error) is not Refusal:  # a subclass: the device cannot run it, which says nothing of the kernel
                raise
            refusal = error
        after = {name: buffer.download() for name, buffer in buffers.items()}
        ends = _ends(layouts, buffers) if open_ends else {}
    finally:
        for buffer in buffers.values():
            device.free(buffer)
    return Observation(before, after, launch, refusal, ends)


def _ends(layouts: tuple[Layout, ...], buffers: Mapping[str, Buffer]) -> dict[str, tuple[Bytes, Bytes]]:
    """What approximate functions left open in the outputs, on a device that carries it."""
    found = {}
    for layout in layouts:
        buffer = buffers[layout.spec.name]
        if layout.spec.role.is_written and isinstance(buffer, HasBrackets):
            low, high = buffer.bracket(layout.spec.dtype)
            found[layout.spec.name] = (low.view(np.uint8), high.view(np.uint8))
    return found


def _shares(evidence: Evidence) -> tuple[str, ...]:
    first = evidence.seen[0]
    if first.launch is None:
        return ()
    layouts = {layout.spec.name: layout for layout in evidence.layouts}
    brackets = {
        name: (layouts[name].elements(low), layouts[name].elements(high)) for name, (low, high) in first.ends.items()
    }
    return shares(evidence.right, brackets)


def outputs_of(layouts: tuple[Layout, ...], seen: Observation) -> Arrays:
    """The output tensors of one launch, contiguous, in their element types."""
    return {
        layout.spec.name: layout.values(seen.after[layout.spec.name])
        for layout in layouts
        if layout.spec.role.is_written and seen.launch is not None
    }


def _digest(outputs: Arrays) -> str:
    sha = hashlib.sha256()
    for name, values in outputs.items():
        sha.update(f"{name} {values.dtype.name} {values.shape}".encode())
        sha.update(values.tobytes())
    return sha.hexdigest() if outputs else ""
