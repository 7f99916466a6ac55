"""An operator of ninfer's FP8 projections: bf16 activations quantised per token, then the product at one call site.

Both steps run on the caller's workspace: `codes` [T, K] and `scales` [T] hold the quantised activations afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tileproof.kernels.device import Device
from tileproof.kernels.fp8_a8_arguments import Operands
from tileproof.kernels.fp8_a8_call_site import CallSite
from tileproof.kernels.fp8_a8_gemm import (
    BF16,
    CODES,
    DEPTH,
    F32,
    TOKENS,
    WEIGHT_RULES,
    Fp8A8Gemm,
    output_rules,
)
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.kernels.fp8_quantize_rows import SOURCE as QUANTIZE
from tileproof.kernels.fp8_quantize_rows import QuantizeRows
from tileproof.kernels.launcher import JoinedReport, Launch, Layout, Role, TensorRule, check_tensors
from tileproof.kernels.tensor import Tensor


@dataclass(frozen=True)
class Weight:
    """A quantised weight.

    Args:
        codes: e4m3 codes [N, K], uint8.
        scales: bfloat16 [N].
    """

    codes: Tensor
    scales: Tensor


@dataclass(frozen=True)
class Workspace:
    """Where the quantised activations go.

    Args:
        codes: [T, K] uint8, written.
        scales: [T] float32, written.
    """

    codes: Tensor
    scales: Tensor


class Fp8A8Operator:
    """The operator of one call site on one device.

    Args:
        device: where all tensors live.
        call_site: what becomes of the sums.
        sources: texts that stand in for the shipped kernels of the routes, for seeding faults.
        quantize_source: likewise, of the quantiser.
        calibration: name of the constants by which routes are chosen; None for the device's own.
    """

    def __init__(
        self,
        device: Device,
        call_site: CallSite,
        *,
        sources: Mapping[Route, str] | None = None,
        quantize_source: str = QUANTIZE,
        calibration: str | None = None,
    ) -> None:
        self._quantize = QuantizeRows(device, source=quantize_source)
        self._gemm = Fp8A8Gemm(device, call_site, sources=sources, calibration=calibration)

    def __call__(
        self,
        x: Tensor,
        weight: Weight,
        outputs: Sequence[Tensor],
        workspace: Workspace,
        *,
        route: Route | None = None,
    ) -> Launch:
        """Quantise x and multiply; nothing is launched before every argument is checked.

        Args:
            x: bfloat16 [T, K]; a row stride of at least K elements, like every stride of rows here.
            weight: codes [N, K] and scales [N].
            outputs: of the call site, bfloat16 [T, columns]; `linear_add` adds to them.
            workspace: codes [T, K] and scales [T].
            route: the kernel to use; None for the selector's choice.

        Returns:
            The launch of the product, with the report of both launches.

        Raises:
            Refusal: an argument is not as described, an output overlaps another argument, or the kernel of `route`
                cannot take the call.
            DeviceError: the device failed.
        """
        gemm = self._gemm
        rules = (
            TensorRule("x", (BF16,), (TOKENS, DEPTH), Layout.ROWS, Role.INPUT),
            TensorRule("codes", (CODES,), (TOKENS, DEPTH), Layout.ROWS, Role.OUTPUT),
            TensorRule("scales", (F32,), (TOKENS,), Layout.CONTIGUOUS, Role.OUTPUT),
            *WEIGHT_RULES,
            *output_rules(gemm.call_site, outputs),
        )
        tensors = (x, workspace.codes, workspace.scales, weight.codes, weight.scales, *outputs)
        check_tensors(gemm.device, rules, tensors)
        operands = Operands(workspace.codes, workspace.scales, weight.codes, weight.scales)
        ready = gemm.prepare(operands, outputs, route)
        quantized = self._quantize(x, workspace.codes, workspace.scales)
        launch = ready.launch()
        reports = tuple(report for report in (quantized.report, launch.report) if report is not None)
        return Launch(
            launch.kernel,
            launch.entry,
            launch.route,
            launch.grid,
            launch.block,
            JoinedReport(reports) if reports else None,
        )
