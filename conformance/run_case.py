"""Run one case on one device and say what is wrong.

The case runs twice with other poison in the outputs and other values in the inputs' padding. A finding is: an output
that differs from the contract's, an output byte that neither run wrote, a byte outside the outputs that changed, an
input that changed, another route than the case's, a launcher that refuses or accepts wrongly, and whatever the device
itself reports. Everything that is known about a case goes into its findings; nothing is printed here.
"""

import functools
import hashlib
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import cast

from tileproof.conformance.case import Case
from tileproof.conformance.contract import FILE_FAMILY, Arrays, Contract, Role, Run
from tileproof.conformance.device_findings import device_findings, device_notes
from tileproof.conformance.finding import Finding
from tileproof.conformance.layout import Layout, has_exact_bounds, lay_out
from tileproof.conformance.registry import contract_of, contracts
from tileproof.conformance.verdict import Evidence, Observation
from tileproof.kernels.device import Device
from tileproof.oracle.refusal import Refusal


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
    """

    case: Case
    findings: tuple[Finding, ...]
    route: str
    seconds: float
    notes: tuple[str, ...] = ()
    output_digest: str = ""
    outputs: Arrays = field(default_factory=dict, repr=False, compare=False)


def run_case(
    case: Case,
    device: Device,
    *,
    kernel_source: str | None = None,
    inputs: Arrays | None = None,
    expected: Callable[[Arrays], Arrays] | None = None,
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
    run = _kernel(contract.name, cast(Hashable, device), case.kernel, kernel_source)
    exact = has_exact_bounds(device)
    layouts = tuple(lay_out(spec, exact_bounds=exact) for spec in contract.tensors(case.shape))
    seen = (_observe(layouts, values, device, run, 0), _observe(layouts, values, device, run, 1))
    reports = [one.launch.report for one in seen if one.launch is not None and one.launch.report is not None]
    evidence = Evidence(contract, case, values, expected or contract.expected, layouts, seen)
    outputs = _outputs(layouts, seen[0])
    return CaseResult(
        case=case,
        findings=(*evidence.findings(), *device_findings(reports)),
        route=seen[0].route,
        seconds=time.perf_counter() - start,
        notes=device_notes(reports),
        output_digest=_digest(outputs),
        outputs=outputs,
    )


def case_inputs(case: Case) -> Arrays:
    """The generated inputs of a case, by tensor name. Raises: Refusal for the family "file"."""
    if case.family == FILE_FAMILY:
        raise Refusal(f"case {case} takes its inputs from a file", hint="give --input FILE, or replay its crash file")
    return contract_of(case).inputs(case)


@functools.lru_cache(maxsize=4)
def _kernel(contract: str, device: Hashable, kernel: str, source: str | None) -> Run:
    """A launcher on a device, kept because loading a module can cost more than running a small case."""
    return contracts()[contract].kernel(cast(Device, device), kernel, source)


def _fitting(contract: Contract, case: Case, inputs: Arrays) -> Arrays:
    """The inputs, held to the case's names, shapes and element types."""
    specs = [spec for spec in contract.tensors(case.shape) if spec.role is Role.INPUT]
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


def _observe(layouts: tuple[Layout, ...], values: Arrays, device: Device, run: Run, index: int) -> Observation:
    """Launch once on fresh allocations, which are given back even if the device fails."""
    before = {
        layout.spec.name: layout.image(values[layout.spec.name], index)
        if layout.spec.role is Role.INPUT
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
    finally:
        for buffer in buffers.values():
            device.free(buffer)
    return Observation(before, after, launch, refusal)


def _outputs(layouts: tuple[Layout, ...], seen: Observation) -> Arrays:
    """The output tensors of one launch, contiguous, in their element types."""
    return {
        layout.spec.name: layout.elements(seen.after[layout.spec.name]).copy().view(layout.spec.dtype)
        for layout in layouts
        if layout.spec.role is Role.OUTPUT and seen.launch is not None
    }


def _digest(outputs: Arrays) -> str:
    sha = hashlib.sha256()
    for name, values in outputs.items():
        sha.update(f"{name} {values.dtype.name} {values.shape}".encode())
        sha.update(values.tobytes())
    return sha.hexdigest() if outputs else ""
