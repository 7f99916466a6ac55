"""Launcher of mm_fp8: a product of two FP8 operands with one scale, an optional bias, and bf16 or e4m3 outputs.

The rule is written at the head of mm_fp8_problem.cuh. Operands have two dimensions or three, any strides of which one
inner is 1, and one format, which is their element type (`ml_dtypes.float8_e4m3fn` or `float8_e5m2`). Example: a
[16, 32] times w.t() of a weight w [8, 32] is the forward pass of a linear layer, layout NT.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from tileproof.kernels.device import Device
from tileproof.kernels.fp8_a8_selector import ceil_div
from tileproof.kernels.fp8_architecture import check_fp8
from tileproof.kernels.launcher import (
    Dimension,
    Kernel,
    Launch,
    Role,
    TensorRule,
    check_tensors,
)
from tileproof.kernels.launcher import Layout as InMemory
from tileproof.kernels.mm_fp8_arguments import Product, problem
from tileproof.kernels.mm_fp8_dispatch import SCHEDULES, Layout, Route, raster_group, select
from tileproof.kernels.mm_fp8_operands import COLUMNS, DEPTH, ROWS, Lines, common_batch, lines_of
from tileproof.kernels.source import kernel_text
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

NAME = "mm_fp8"
SOURCE = kernel_text(NAME)

E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
E5M2 = np.dtype(ml_dtypes.float8_e5m2)
BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)

FORMATS = {E4M3: "E4m3", E5M2: "E5m2"}
OUTPUTS = {BF16: "Bf16Output", E4M3: "E4m3Output"}

_ONE = Dimension("elements", minimum=1, maximum=1)


class MmFp8:
    """The product on one device.

    Args:
        device: where all tensors live.
        source: the kernel's text; another one than the shipped seeds a fault.
        sm_count: multiprocessors by which a variant is chosen; None for the device's own.

    Raises:
        Refusal: the device's architecture has no FP8 matrix unit.
    """

    def __init__(self, device: Device, *, source: str = SOURCE, sm_count: int | None = None) -> None:
        check_fp8(device.arch, "matrix unit")
        self.device = device
        self._source = source
        self._sm_count: int = getattr(device, "sm_count", 0) if sm_count is None else sm_count
        self._kernels: dict[tuple[str, ...], Kernel] = {}

    def __call__(
        self,
        a: Tensor,
        b: Tensor,
        scale: Tensor,
        out: Tensor,
        *,
        bias: Tensor | None = None,
        bias_scale: Tensor | None = None,
        out_scale: Tensor | None = None,
        route: Route | None = None,
    ) -> Launch:
        """Compute out = a · b · scale + bias, rounded once.

        Args:
            a: [M, K] or [B, M, K].
            b: [K, N] or [B, K, N], of the format of a. Where one operand has a batch, the other may have it too, or
                one matrix, or two dimensions.
            scale: float32 scalar, the product of the operands' scales.
            out: bfloat16 or e4m3, [M, N], or [B, M, N] if an operand has three dimensions; rows of contiguous elements.
            bias: bfloat16 [N], or [N] of the format of a; none if it has no elements.
            bias_scale: float32 scalar by which an FP8 bias is multiplied; none with it.
            out_scale: float32 scalar by which an e4m3 output is multiplied before it is rounded.
            route: the variant to use; None for the dispatcher's choice.

        Raises:
            Refusal: an argument is not as described, or the output overlaps another argument.
            DeviceError: the device failed.
        """
        if bias is not None and bias.size == 0:
            bias_scale = None if bias.dtype in FORMATS else bias_scale
            bias = None
        product = Product(
            a=lines_of("a", a),
            b=lines_of("b", b),
            out=_output(out),
            scale=_scalar("scale", scale),
            bias=bias,
            bias_scale=None if bias_scale is None else _scalar("bias_scale", bias_scale),
            out_scale=None if out_scale is None else _scalar("out_scale", out_scale),
        )
        _check_formats(product)
        batch = _check_batch(product)
        rules, tensors = zip(*_rules(product), strict=True)
        check_tensors(self.device, rules, tensors)
        return self._launch(product, batch, route)

    def _launch(self, product: Product, batch: int, route: Route | None) -> Launch:
        layout = Layout(a_crosswise=product.a.inner == -2, b_crosswise=product.b.inner == -1)
        rows, columns, _ = product.extents
        chosen = select(rows, columns, batch, self._sm_count) if route is None else _known(route)
        schedule = SCHEDULES[chosen]
        return self._kernel(layout, chosen, product).launch(
            entry=NAME,
            route=chosen,
            grid=(ceil_div(rows, schedule.extent) * ceil_div(columns, schedule.extent), 1, batch),
            block=(schedule.threads, 1, 1),
            args=(problem(product, raster_group(layout)),),
            shared_bytes=schedule.shared_bytes(layout),
        )

    def _kernel(self, layout: Layout, route: Route, product: Product) -> Kernel:
        """Compiled when it is first needed."""
        defines = variant(layout, route, product.a.tensor.dtype, product.out.tensor.dtype)
        if defines not in self._kernels:
            self._kernels[defines] = Kernel(self.device, name=NAME, source=self._source, defines=defines)
        return self._kernels[defines]


def variant(layout: Layout, route: Route, operands: np.dtype[Any], output: np.dtype[Any]) -> tuple[str, ...]:
    """The macros of one variant of the kernel."""
    schedule = SCHEDULES[route]
    return (
        f"MM_FP8_LAYOUT={layout.name}",
        f"MM_FP8_TILE={schedule.tile}",
        f"MM_FP8_STAGES={schedule.stages}",
        f"MM_FP8_LEAN={int(schedule.lean)}",
        f"MM_FP8_FORMAT={FORMATS[operands]}",
        f"MM_FP8_OUTPUT={OUTPUTS[output]}",
    )


def _known(route: str) -> Route:
    if route not in tuple(Route):
        raise Refusal(f"no variant is called {route}; known are {', '.join(Route)}", hint="leave the route out")
    return Route(route)


def _scalar(name: str, tensor: Tensor) -> Tensor:
    """A tensor of one element, whatever its dimensions."""
    if tensor.size != 1:
        raise Refusal(f"{name} has {tensor.size} elements; it must be a float32 scalar on the device")
    return Tensor(tensor.buffer, tensor.dtype, (1,), (1,), tensor.offset_bytes)


def _output(out: Tensor) -> Lines:
    lines = lines_of("out", out)
    if lines.inner != -1 and out.shape[-1] > 1:
        raise Refusal(f"out has strides {out.strides}; its last one must be 1", hint="give it rows of its own")
    # NOTE: one column takes no step along its rows, so its stride may look like a transposed view's.
    return replace(lines, inner=-1, line_stride=out.strides[-2])


def _check_formats(product: Product) -> None:
    """Formats of operands, bias and output, and which scales they need."""
    a, b, out, bias = product.a.tensor, product.b.tensor, product.out.tensor, product.bias
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dtype not in FORMATS:
            raise Refusal(f"{name} has element type {tensor.dtype.name}; it must be {E4M3.name} or {E5M2.name}")
    if a.dtype != b.dtype:
        raise Refusal(f"a has format {a.dtype.name} and b {b.dtype.name}; they must be alike")
    if out.dtype not in OUTPUTS:
        raise Refusal(f"out has element type {out.dtype.name}; it must be {BF16.name} or {E4M3.name}")
    if (out.dtype == E4M3) != (product.out_scale is not None):
        raise Refusal("an e4m3 output is given out_scale, and a bfloat16 output none")
    if bias is not None and bias.dtype not in (BF16, a.dtype):
        raise Refusal(f"bias has element type {bias.dtype.name}; it must be {BF16.name}, or {a.dtype.name} as a and b")
    if (bias is not None and bias.dtype != BF16) != (product.bias_scale is not None):
        raise Refusal("an FP8 bias is given bias_scale, and a bfloat16 bias or none is given none")


def _check_batch(product: Product) -> int:
    """Matrices of the output, which has three dimensions if an operand has."""
    batch, out = common_batch((product.a, product.b)), product.out.tensor
    wanted = 2 if batch is None else 3
    if len(out.shape) != wanted:
        raise Refusal(f"out has {len(out.shape)} dimensions; with these operands it must have {wanted}")
    if batch is not None and out.shape[0] != batch:
        raise Refusal(f"out has {out.shape[0]} matrices; the operands make {batch}")
    return 1 if batch is None else batch


def _rules(product: Product) -> Iterator[tuple[TensorRule, Tensor]]:
    operands = (product.a.tensor.dtype,)
    yield product.a.rule((ROWS, DEPTH), operands, Role.INPUT)
    yield product.b.rule((DEPTH, COLUMNS), operands, Role.INPUT)
    scales = (("scale", product.scale), ("bias_scale", product.bias_scale), ("out_scale", product.out_scale))
    for name, tensor in scales:
        if tensor is not None:
            yield TensorRule(name, (F32,), (_ONE,), InMemory.CONTIGUOUS, Role.INPUT), tensor
    if product.bias is not None:
        yield (
            TensorRule("bias", (product.bias.dtype,), (COLUMNS,), InMemory.CONTIGUOUS, Role.INPUT),
            product.bias,
        )
    yield product.out.rule((ROWS, COLUMNS), (product.out.tensor.dtype,), Role.OUTPUT)
