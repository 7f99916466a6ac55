"""Which kernels each case launches, by its declaration alone: the launcher is asked, nothing runs."""

from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Contract, Run
from tileproof.conformance.evidence.dry_device import DryDevice
from tileproof.conformance.evidence.kernel_key import KernelKey, instance_name
from tileproof.conformance.layout import lay_out
from tileproof.conformance.mutation.variant import Variant
from tileproof.conformance.registry import contract_of
from tileproof.kernels.watch import watched
from tileproof.oracle.refusal import Refusal

Launches = Mapping[Case, tuple[KernelKey, ...]]


def launches(cases: Iterable[Case], device: DryDevice) -> Launches:
    """The kernels of each case that runs on the device's architecture; none of a case that is refused."""
    run_of = cache(_launcher)
    found: dict[Case, tuple[KernelKey, ...]] = {}
    for case in cases:
        contract = contract_of(case)
        if contract.obstacle(case, device.arch) is None:
            found[case] = _kernels(contract, case, device, run_of(contract.name, case.kernel, device))
    return found


def _launcher(contract: str, kernel: str, device: DryDevice) -> Run:
    from tileproof.conformance.registry import contracts

    return contracts()[contract].kernel(device, kernel, None)


def _kernels(contract: Contract, case: Case, device: DryDevice, run: Run) -> tuple[KernelKey, ...]:
    layouts = [lay_out(spec, exact_bounds=True) for spec in contract.tensors(case.shape)]
    buffers = [device.allocate((layout.total_bytes,), np.dtype(np.uint8)) for layout in layouts]
    tensors = {layout.spec.name: layout.tensor(buffer) for layout, buffer in zip(layouts, buffers, strict=True)}
    try:
        with watched() as seen:
            run(case, tensors)
    except Refusal:
        return ()
    finally:
        for buffer in buffers:
            device.free(buffer)
    return tuple(dict.fromkeys(_key(device, Variant.of(one.module), one.entry) for one in seen))


def _key(device: DryDevice, variant: Variant, entry: str) -> KernelKey:
    return KernelKey(instance_name(variant, entry), device.modules[variant].entries[entry])
