"""A page's Python function as the runner calls it: tensors in as a library's arrays, what it returns out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Run, TensorSpec
from tileproof.conformance.pages.array_library import bits_of, given, library
from tileproof.conformance.pages.binding import OWN, BoundPage, by_name
from tileproof.conformance.pages.host_device import HostBuffer
from tileproof.conformance.pages.user_code import PageError, described, place, wanted
from tileproof.conformance.pages.vocabulary import Arrays, Python
from tileproof.kernels.device import Device
from tileproof.kernels.launcher import Launch
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

_NOWHERE = (1, 1, 1)


def caller_of(bound: BoundPage, device: Device) -> Run:
    """A page's function on the host or a GPU.

    Raises:
        PageError: it takes arrays of an unknown library, or the device's memory is no array's.
    """
    kernel = bound.page.kernel
    assert isinstance(kernel, Python)
    if kernel.arrays not in set(Arrays):
        raise PageError(f"arrays={kernel.arrays!r}", hint="arrays is one of " + ", ".join(Arrays))
    arrays = Arrays(kernel.arrays)
    if device.name not in ("host", "gpu"):
        raise PageError(f"a Python function does not run on {device.name}", hint="use the target host or gpu")
    if (arrays is Arrays.NUMPY and device.name == "gpu") or (arrays is Arrays.CUPY and device.name == "host"):
        raise PageError(f"{arrays} arrays do not lie on {device.name}", hint="use the other target, or other arrays")

    def run(case: Case, tensors: Mapping[str, Tensor]) -> Launch:
        specs = {spec.name: spec for spec in bound.specs(case.shape)}
        known: dict[str, Any] = dict(bound.sizes(case.shape))
        known |= {name: given(tensors[name], spec, arrays) for name, spec in specs.items()}
        arguments = wanted(kernel.function, known)
        returned = _called(kernel, arguments)
        left = [spec for name, spec in specs.items() if spec.role.is_written and name not in arguments]
        if left:
            made = by_name(returned, [spec.name for spec in left], bound.kernel_name)
            for spec in left:
                _write(tensors[spec.name], spec, made[spec.name])
        _wait(device)
        return Launch(bound.kernel_name, bound.kernel_name, OWN, _NOWHERE, _NOWHERE, None)

    return run


def _called(kernel: Python, arguments: Mapping[str, Any]) -> Any:
    """What the function returns. Raises: Refusal for what it raised: the call was refused."""
    try:
        return kernel.function(**arguments)
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(f"{place(kernel.function, error)}: {described(error)}") from None


def _write(tensor: Tensor, spec: TensorSpec, value: Any) -> None:
    """Put a returned array where the output is looked for."""
    try:
        bits = bits_of(value, spec)
    except Refusal as refusal:
        raise PageError(f"the function's result: {refusal.message}", hint=refusal.hint) from None
    target = given(tensor, _as_integers(spec), Arrays.NUMPY)
    target[...] = bits if isinstance(tensor.buffer, HostBuffer) else library("cupy").asarray(bits)


def _as_integers(spec: TensorSpec) -> TensorSpec:
    return replace(spec, dtype=np.dtype(f"u{spec.dtype.itemsize}"), format=f"UINT{8 * spec.dtype.itemsize}")


def _wait(device: Device) -> None:
    """Let a GPU end what the function began: a library returns before its kernels have run."""
    if device.name == "gpu":
        library("cupy").cuda.runtime.deviceSynchronize()
