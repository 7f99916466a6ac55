"""Which kernels each case launches, by its declaration alone: the launcher is asked, nothing runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Contract, EditedSource, Run
from tileproof.conformance.evidence.dry_device import DryDevice
from tileproof.conformance.evidence.kernel_key import KernelKey, instance_name
from tileproof.conformance.evidence.launch_form import form_digest
from tileproof.conformance.layout import lay_out
from tileproof.conformance.mutation.variant import Variant
from tileproof.conformance.registry import contract_of
from tileproof.kernels.watch import watched
from tileproof.oracle.refusal import Refusal

Launches = Mapping[Case, tuple[KernelKey, ...]]


@dataclass(frozen=True)
class Asked:
    """What a launcher launches for a case.

    Args:
        kernels: each once, in the order of their first launches.
        form: digest of what it passes them, see `launch_form`.
    """

    kernels: tuple[KernelKey, ...]
    form: str


def launches(cases: Iterable[Case], device: DryDevice) -> Launches:
    """The kernels of each case that runs on the device's architecture; none of a case that is refused."""
    return {case: one.kernels for case, one in asked(cases, device).items()}


def asked(cases: Iterable[Case], device: DryDevice, source: EditedSource | None = None) -> Mapping[Case, Asked]:
    """What launchers, or one with an edited text, answer for each case that runs on the device's architecture."""
    run_of = cache(partial(_launcher, source=source))
    found: dict[Case, Asked] = {}
    for case in cases:
        contract = contract_of(case)
        if contract.obstacle(case, device.arch) is None:
            found[case] = _asked(contract, case, device, run_of(contract.name, case.kernel, device))
    return found


def _launcher(contract: str, kernel: str, device: DryDevice, source: EditedSource | None = None) -> Run:
    from tileproof.conformance.registry import contracts

    return contracts()[contract].kernel(device, kernel, source)


def _asked(contract: Contract, case: Case, device: DryDevice, run: Run) -> Asked:
    layouts = [lay_out(spec, exact_bounds=True) for spec in contract.tensors(case.shape)]
    buffers = [device.allocate((layout.total_bytes,), np.dtype(np.uint8)) for layout in layouts]
    device.passed.clear()
    tensors = {layout.spec.name: layout.tensor(buffer) for layout, buffer in zip(layouts, buffers, strict=True)}
    try:
        with watched() as seen:
            run(case, tensors)
    except Refusal:
        return Asked((), form_digest((), {}))
    finally:
        for buffer in buffers:
            device.free(buffer)
    keys = dict.fromkeys(_key(device, Variant.of(one.module), one.entry) for one in seen)
    ranges = {
        layout.spec.name: (buffer.address, layout.total_bytes) for layout, buffer in zip(layouts, buffers, strict=True)
    }
    return Asked(tuple(keys), form_digest(device.passed, ranges))


def _key(device: DryDevice, variant: Variant, entry: str) -> KernelKey:
    return KernelKey(instance_name(variant, entry), device.modules[variant].entries[entry])
