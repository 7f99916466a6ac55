"""A page's launches on a device: arguments as the kernel declares them, scratch, and one report of all launches."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Run
from tileproof.conformance.layout import POISONS, has_exact_bounds
from tileproof.conformance.pages.binding import OWN, BoundPage
from tileproof.conformance.pages.contraction import Functions, compared, fused_ways, run_fused
from tileproof.conformance.pages.modules import LoadedFile, load_file
from tileproof.conformance.pages.types import element_type
from tileproof.conformance.pages.user_code import PageError, defined_at
from tileproof.conformance.pages.vocabulary import Cuda, Extent, Launch, Placed, Ptx, TensorDeclaration, TensorMap
from tileproof.kernels.device import Argument, Device, EncodesTensorMaps, Extent3, Report
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH, JoinedReport
from tileproof.kernels.launcher import Launch as Launched
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.text.syntax import Parameter

MAX_GRID_BLOCKS = (2**31 - 1, 65535, 65535)

_POINTER_BYTES = 8


def launcher_of(bound: BoundPage, device: Device) -> Run:
    """A page's kernel file on a device, as the runner calls it.

    Raises:
        Refusal: the file does not compile, or the device cannot run it.
    """
    kernel = bound.page.kernel
    assert isinstance(kernel, Cuda | Ptx)
    file = load_file(kernel, bound.folder, device.arch)
    functions = device.load(file.user.module)
    ways = fused_ways(device, file.user.module, functions)

    def launched(case: Case, kernels: Functions, tensors: Mapping[str, Tensor]) -> tuple[list[_Prepared], list[Report]]:
        with _scratch(bound.scratch(case.shape), device) as scratch:
            known = {**tensors, **scratch}
            launches = [_Prepared.of(bound, one, file, known, device) for one in bound.launches(case.shape)]
            return launches, [one.launch(kernels) for one in launches]

    def run(case: Case, tensors: Mapping[str, Tensor]) -> Launched:
        left = run_fused(device, tensors, ways, lambda kernels, copies: launched(case, kernels, copies))
        launches, reports = launched(case, functions, tensors)
        if not launches:
            return Launched(bound.kernel_name, "", NOTHING_TO_LAUNCH, (0, 1, 1), (1, 1, 1), None)
        first = launches[0]
        if left:
            reports.append(compared(tensors, left, functions))
        report = reports[0] if len(reports) == 1 else JoinedReport(tuple(reports))
        return Launched(bound.kernel_name, first.entry, OWN, first.grid, first.block, report)

    return run


class _Prepared:
    """One launch with everything at hand."""

    def __init__(self, entry: str, launch: Launch, grid: Extent3, block: Extent3, args: list[Argument]) -> None:
        self.entry, self.grid, self.block = entry, grid, block
        self._launch, self._args = launch, args

    @classmethod
    def of(
        cls, bound: BoundPage, launch: Launch, file: LoadedFile, tensors: Mapping[str, Tensor], device: Device
    ) -> "_Prepared":
        assert bound.page.launch is not None
        at = defined_at(bound.page.launch)
        try:
            entry = file.mangled(launch.entry)
        except Refusal as refusal:
            raise PageError(f"{at}: {refusal.message}", hint=refusal.hint) from None
        declared = file.kernels[entry].parameters
        if len(launch.args) != len(declared):
            raise PageError(
                f"{at} passes {len(launch.args)} arguments, {launch.entry or entry} takes {len(declared)}",
                hint="in order: " + ", ".join(map(describe_parameter, declared)),
            )
        args = [
            _argument(value, parameter, f"{at}: argument {index}", tensors, device)
            for index, (value, parameter) in enumerate(zip(launch.args, declared, strict=True))
        ]
        return cls(entry, launch, _extent(at, "grid", launch.grid), _extent(at, "block", launch.block), args)

    def launch(self, functions: Functions) -> Report:
        return functions[self.entry].launch(
            grid=self.grid,
            block=self.block,
            args=self._args,
            shared_bytes=int(self._launch.shared_bytes),
            cluster=_extent(self.entry, "cluster", self._launch.cluster),
        )


def describe_parameter(parameter: Parameter) -> str:
    """`.u64`, or `.b8[12]`: what PTX declares."""
    return f".{parameter.type}" + (f"[{parameter.count}]" if parameter.count != 1 else "")


def _extent(at: str, what: str, value: Extent) -> Extent3:
    extents = (value,) if isinstance(value, int | np.integer) else tuple(value)
    whole = all(isinstance(one, int | np.integer) for one in extents)
    if not whole or not 1 <= len(extents) <= 3:
        raise PageError(f"{at}: {what} is {value!r}", hint="one to three whole numbers: x, or (x, y, z)")
    x, y, z = (*map(int, extents), *(1,) * (3 - len(extents)))
    if min(x, y, z) < 1:
        raise PageError(
            f"{at}: {what} is {value!r}, and CUDA refuses an extent below 1",
            hint="return no Launch where there is nothing to do",
        )
    if what == "grid" and any(one > limit for one, limit in zip((x, y, z), MAX_GRID_BLOCKS, strict=True)):
        raise PageError(f"{at}: grid is {value!r}; the most is {MAX_GRID_BLOCKS}")
    return x, y, z


def _argument(value: Any, parameter: Parameter, at: str, tensors: Mapping[str, Tensor], device: Device) -> Argument:
    made = _raw(value, parameter, at, tensors, device)
    if made.nbytes != parameter.size_bytes:
        raise PageError(
            f"{at} has {made.nbytes} bytes; the kernel declares {describe_parameter(parameter)}",
            hint="give a number, which takes the declared type, or a numpy scalar of that width",
        )
    return made


def _raw(value: Any, parameter: Parameter, at: str, tensors: Mapping[str, Tensor], device: Device) -> np.generic:
    if isinstance(value, Placed):
        tensor = tensors[value.name]
        return np.uint64(tensor.address + value.begin * tensor.dtype.itemsize)
    if isinstance(value, TensorMap):
        if not isinstance(device, EncodesTensorMaps):
            raise PageError(f"{at} is a tensor map, which {device.name} does not make")
        return device.tensor_map(tensors[value.tensor.name], **value.arguments)
    if isinstance(value, np.generic):
        return value
    if isinstance(value, bytes):
        return np.void(value)
    if isinstance(value, int | float):
        return _number(value, parameter, at)
    raise PageError(
        f"{at} is {value!r} of type {type(value).__name__}",
        hint="an argument is a tensor of the page, a number, a numpy scalar or bytes",
    )


def _number(value: int | float, parameter: Parameter, at: str) -> np.generic:
    """A Python number in the declared type: floats are rounded as C++ does it, integers must fit."""
    declared = describe_parameter(parameter)
    if parameter.count != 1:
        raise PageError(f"{at} is {value!r}; the kernel declares {declared}, a structure", hint="give bytes")
    if parameter.type in ("f32", "f64"):
        return np.float32(value) if parameter.type == "f32" else np.float64(value)
    if isinstance(value, float):
        raise PageError(f"{at} is {value!r}; the kernel declares {declared}", hint="give a whole number")
    bits = 8 * parameter.size_bytes
    if not -(1 << bits - 1) <= value < 1 << bits:
        raise PageError(f"{at} is {value}, which {declared} does not hold")
    made: np.generic = np.dtype(f"u{bits // 8}").type(value & (1 << bits) - 1)
    return made


@contextmanager
def _scratch(declared: tuple[TensorDeclaration, ...], device: Device) -> Iterator[dict[str, Tensor]]:
    """Working memory for one run, given back after it."""
    buffers = {one.name: _fresh(one, device) for one in declared}
    try:
        yield {name: Tensor.whole(buffer) for name, buffer in buffers.items()}
    finally:
        for buffer in buffers.values():
            device.free(buffer)


def _fresh(one: TensorDeclaration, device: Device) -> Any:
    shape = tuple(max(1, extent) for extent in one.shape)
    dtype = element_type(one.type).dtype
    if one.zero:
        return device.upload(np.zeros(shape, dtype))
    if has_exact_bounds(device):
        return device.allocate(shape, dtype)  # the CPU device knows what nothing wrote
    return device.upload(np.full(int(np.prod(shape)) * dtype.itemsize, POISONS[0], np.uint8))
