"""Launcher of the FP8 product: e4m3 activations times e4m3 weights, row scales, bf16 outputs of one call site.

The rule is written at the head of fp8_a8_product.cuh, what becomes of a sum in fp8_a8_output.cuh. Three kernels give
the same bits: `fp8_a8_gemm_tma`, `fp8_a8_gemm_cp_async` and, for every other legal shape, `fp8_a8_gemm_fallback`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tileproof.kernels.device import Argument, Device, Extent3
from tileproof.kernels.fp8_a8_arguments import Operands, parameters, product
from tileproof.kernels.fp8_a8_calibration import calibration_of, find_calibration
from tileproof.kernels.fp8_a8_call_site import CallSite
from tileproof.kernels.fp8_a8_selector import (
    CP_ASYNC,
    SCALE_PAIR_BYTES,
    TMA,
    VECTOR_BYTES,
    Problem,
    Route,
    ceil_div,
    obstacle,
    select,
)
from tileproof.kernels.fp8_a8_tma_launch import tensor_maps
from tileproof.kernels.fp8_architecture import check_fp8
from tileproof.kernels.launcher import Dimension, Kernel, Launch, Layout, Role, TensorRule, check_tensors, is_aligned
from tileproof.kernels.source import kernel_text
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

NAME = "fp8_a8_gemm"

BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)
CODES = np.dtype(np.uint8)

# Constants of fp8_a8_gemm_fallback.cu, which a test compares.
FALLBACK_THREADS = 128
FALLBACK_TOKENS = 64
FALLBACK_OUTPUTS = 8

TOKENS = Dimension("T")
ROWS = Dimension("N", minimum=1)
DEPTH = Dimension("K", minimum=1)

WEIGHT_RULES = (
    TensorRule("weight", (CODES,), (ROWS, DEPTH), Layout.ROWS, Role.INPUT),
    TensorRule("weight_scales", (BF16,), (ROWS,), Layout.CONTIGUOUS, Role.INPUT),
)


@dataclass(frozen=True)
class Prepared:
    """All that a launch takes but the kernel."""

    grid: Extent3
    block: Extent3
    args: tuple[Argument, ...]
    shared_bytes: int = 0


_NOTHING = Prepared((0, 0, 0), (1, 1, 1), ())


@dataclass(frozen=True)
class Ready:
    """A call that passed every check, with its kernel loaded."""

    kernel: Kernel
    route: Route
    prepared: Prepared

    def launch(self) -> Launch:
        """Launch it.

        Raises:
            DeviceError: the device failed.
        """
        return self.kernel.launch(
            entry=self.kernel.name,
            route=self.route,
            grid=self.prepared.grid,
            block=self.prepared.block,
            args=self.prepared.args,
            shared_bytes=self.prepared.shared_bytes,
        )


@dataclass(frozen=True)
class Call:
    """A call that passed every check."""

    call_site: CallSite
    operands: Operands
    outputs: tuple[Tensor, ...]
    begins: tuple[int, ...]

    @property
    def arguments(self) -> tuple[np.void, np.void]:
        """Product and Parameters."""
        return product(self.operands), parameters(self.call_site.policy, self.outputs, self.begins)


class Fp8A8Gemm:
    """The product at one call site, on one device.

    Args:
        device: where all tensors live.
        call_site: what becomes of the sums.
        sources: texts that stand in for the shipped kernel of a route, for seeding faults.
        calibration: name of the constants by which routes are chosen; None for the device's own.

    Raises:
        Refusal: the device's architecture has no FP8, or no calibration has that name.
    """

    def __init__(
        self,
        device: Device,
        call_site: CallSite,
        *,
        sources: Mapping[Route, str] | None = None,
        calibration: str | None = None,
    ) -> None:
        check_fp8(device.arch, "matrix unit")
        self.device = device
        self.call_site = call_site
        self._sources = dict(sources or {})
        self._sm_count: int = getattr(device, "sm_count", 0)
        if calibration is None:
            self._calibration = calibration_of(device.arch, self._sm_count)
        else:
            self._calibration = find_calibration(calibration)
        self._kernels: dict[Route, Kernel] = {}

    def __call__(self, operands: Operands, outputs: Sequence[Tensor], *, route: Route | None = None) -> Launch:
        """Compute the outputs.

        Args:
            operands: codes and scales of both sides.
            outputs: of the call site, bfloat16 [T, columns], rows of contiguous elements; `linear_add` adds to them.
            route: the kernel to use; None for the selector's choice.

        Raises:
            Refusal: an argument is not as described, an output overlaps another argument, or the kernel of `route`
                cannot take the call.
            DeviceError: the device failed.
        """
        rules = (
            TensorRule("codes", (CODES,), (TOKENS, DEPTH), Layout.ROWS, Role.INPUT),
            TensorRule("scales", (F32,), (TOKENS,), Layout.CONTIGUOUS, Role.INPUT),
            *WEIGHT_RULES,
            *output_rules(self.call_site, outputs),
        )
        tensors = (operands.codes, operands.scales, operands.weight, operands.weight_scales, *outputs)
        check_tensors(self.device, rules, tensors)
        return self.prepare(operands, outputs, route).launch()

    def prepare(self, operands: Operands, outputs: Sequence[Tensor], route: Route | None) -> "Ready":
        """Do all that comes before the launch of a call whose tensors fit their rules.

        Raises:
            Refusal: the widths of the outputs are not those of the weight, or `route` cannot take the call.
            DeviceError: the device failed.
        """
        widths = [output.shape[1] for output in outputs]
        self.call_site.check_rows(operands.rows, widths)
        begins = self.call_site.begins(widths)
        chosen = self._choose(_problem(self.device.arch, self.call_site, operands, outputs, begins), route)
        call = Call(self.call_site, operands, tuple(outputs), begins)
        # NOTE: no tokens are no work, and a tensor map of no rows does not exist.
        prepared = _PREPARE[chosen](self.device, call) if operands.tokens else _NOTHING
        return Ready(self._kernel(chosen), chosen, prepared)

    def _choose(self, problem: Problem, route: Route | None) -> Route:
        if route is None:
            return select(problem, self._sm_count, self._calibration, _PREPARE)
        why = "there is no such kernel" if route not in _PREPARE else obstacle(route, problem)
        if why is not None:
            raise Refusal(f"{self.call_site.name} cannot take the route {route}: {why}", hint="leave the route out")
        return route

    def _kernel(self, route: Route) -> Kernel:
        """Compiled when it is first needed."""
        if route not in self._kernels:
            source = self._sources.get(route) or kernel_source(route)
            defines = (f"FP8_A8_OUTPUT={self.call_site.policy}",)
            self._kernels[route] = Kernel(self.device, name=kernel_name(route), source=source, defines=defines)
        return self._kernels[route]


def kernel_name(route: Route) -> str:
    """The stem of a route's source file, and its entry."""
    return f"{NAME}_{route.replace('-', '_')}"


def kernel_source(route: Route) -> str:
    """The shipped text of a route's kernel."""
    return kernel_text(kernel_name(route))


def output_rules(call_site: CallSite, outputs: Sequence[Tensor]) -> tuple[TensorRule, ...]:
    """Rules of the outputs; their columns are held to N by the call site.

    Raises:
        Refusal: another number of outputs than the call site has.
    """
    if len(outputs) != len(call_site.outputs):
        names = ", ".join(call_site.outputs)
        raise Refusal(f"{call_site.name} has the outputs {names}; {len(outputs)} tensors were given for them")
    role = Role.IN_PLACE if call_site.adds else Role.OUTPUT
    return tuple(
        TensorRule(name, (BF16,), (TOKENS, Dimension(f"columns of {name}", minimum=1)), Layout.ROWS, role)
        for name in call_site.outputs
    )


def _problem(
    arch: str, call_site: CallSite, operands: Operands, outputs: Sequence[Tensor], begins: Sequence[int]
) -> Problem:
    named = {"codes": operands.codes, "weight": operands.weight, **dict(zip(call_site.outputs, outputs, strict=True))}
    return Problem(
        arch=arch,
        tokens=operands.tokens,
        rows=operands.rows,
        depth=operands.depth,
        begins=tuple(begins),
        misaligned=tuple(name for name, tensor in named.items() if not is_aligned(tensor, VECTOR_BYTES)),
        scales_aligned=is_aligned(operands.weight_scales, SCALE_PAIR_BYTES),
    )


def _prepare_cp_async(device: Device, call: Call) -> Prepared:
    grid = (call.operands.rows // CP_ASYNC.block_rows, ceil_div(call.operands.tokens, CP_ASYNC.block_tokens), 1)
    return Prepared(grid, (CP_ASYNC.threads, 1, 1), call.arguments, CP_ASYNC.shared_bytes)


def _prepare_tma(device: Device, call: Call) -> Prepared:
    grid = (call.operands.rows // TMA.block_rows, ceil_div(call.operands.tokens, TMA.block_tokens), 1)
    maps = tensor_maps(device, call.operands, paired=call.call_site.paired)
    return Prepared(grid, (TMA.threads, 1, 1), (maps, *call.arguments), TMA.shared_bytes)


def _prepare_fallback(device: Device, call: Call) -> Prepared:
    columns = call.operands.rows // 2 if call.call_site.paired else call.operands.rows
    blocks = ceil_div(columns, FALLBACK_OUTPUTS) * ceil_div(call.operands.tokens, FALLBACK_TOKENS)
    return Prepared((blocks, 1, 1), (FALLBACK_THREADS, 1, 1), call.arguments)


_PREPARE: Mapping[Route, Callable[[Device, Call], Prepared]] = {
    Route.TMA: _prepare_tma,
    Route.CP_ASYNC: _prepare_cp_async,
    Route.FALLBACK: _prepare_fallback,
}
