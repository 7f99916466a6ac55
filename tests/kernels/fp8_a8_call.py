"""Calls of the FP8 product with codes of every kind, and their right outputs by the oracle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.kernels.device import Buffer, Device
from tileproof.kernels.fp8_a8_arguments import Operands
from tileproof.kernels.fp8_a8_call_site import (
    ATTN_INPUT_PROJ,
    GDN_INPUT_PROJ,
    LINEAR,
    LINEAR_ADD,
    LINEAR_SWIGLU,
    CallSite,
)
from tileproof.kernels.fp8_a8_gemm import Fp8A8Gemm
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.kernels.launcher import Launch
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.epilogue import NINFER_LINEAR, NINFER_LINEAR_ADD, Contraction
from tileproof.oracle.epilogues import epilogue_array
from tileproof.oracle.epilogues.epilogue_array import apply_epilogue
from tileproof.oracle.epilogues.silu import CUDA_EX2_SILU
from tileproof.oracle.epilogues.swiglu import swiglu_of_rows
from tileproof.oracle.gemm import gemm
from tileproof.oracle.products.accumulation_order import AccumulationOrder, RaggedK
from tileproof.simulators.ptx import device as cpu

Array = NDArray[Any]
BF16 = np.dtype(ml_dtypes.bfloat16)

PROPORTIONS: Mapping[str, tuple[int, ...]] = {"attn_input_proj": (6, 1, 6, 1), "gdn_input_proj": (5, 3)}
"""Widths of the outputs of a projection, relative to each other (ninfer's own)."""

TILED_ROWS = {LINEAR: 256, LINEAR_ADD: 128, LINEAR_SWIGLU: 256, ATTN_INPUT_PROJ: 14 * 128, GDN_INPUT_PROJ: 8 * 128}
"""Weight rows of the smallest calls that keep the structure of tiles and outputs."""

RAGGED_ROWS = {LINEAR: 9, LINEAR_ADD: 7, LINEAR_SWIGLU: 18, ATTN_INPUT_PROJ: 14, GDN_INPUT_PROJ: 8 * 3}
"""The same of the fallback, where nothing is a multiple of a tile."""

NAN_CODE = 0x7F


@dataclass
class Result:
    """What a call gave: bits of the outputs, and what the launcher said."""

    launch: Launch
    outputs: list[Array]
    buffers: list[Buffer]


@dataclass(frozen=True)
class Call:
    """One call of one shape; `codes` of every exponent and sign, scales of every mantissa."""

    site: CallSite
    tokens: int
    rows: int
    depth: int
    seed: int = 0
    #: Bytes, or elements, that follow each row: NaN codes in the operands.
    pad: int = 0
    #: What the activation scales are around; sums are about 2^10 · sqrt(K).
    scale: float = 2.0**-8
    nan_token: int | None = None
    #: Widths of the outputs of a projection, relative to each other; ninfer's own where nothing is said.
    parts: tuple[int, ...] = ()
    _kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def widths(self) -> tuple[int, ...]:
        """Columns of the outputs."""
        if self.site.paired:
            return (self.rows // 2,)
        parts = self.parts or PROPORTIONS.get(self.site.name, (1,))
        return tuple(self.rows * part // sum(parts) for part in parts)

    @property
    def operands(self) -> tuple[Array, Array, Array, Array]:
        """Activation codes and scales, weight codes and scales."""
        random = np.random.default_rng(self.seed)
        a, b = finite_codes(random, self.tokens, self.depth), finite_codes(random, self.rows, self.depth)
        if self.nan_token is not None:
            a[self.nan_token, -1] = NAN_CODE
        activation_scales = (random.uniform(0.5, 2, self.tokens) * self.scale).astype(np.float32)
        return a, activation_scales, b, random.uniform(0.5, 2, self.rows).astype(BF16)

    @property
    def residual(self) -> Array:
        """What `linear_add` adds, of the size of the products."""
        values = np.random.default_rng(self.seed + 1).standard_normal((self.tokens, self.rows))
        return np.asarray((values * self.scale * 1e5).astype(BF16))

    def expected(self, arch: str) -> list[Array]:
        """The right outputs; of a paired call site the lower and the upper end of what is allowed."""
        if arch not in self._kept:
            self._kept[arch] = self._expected(arch)
        outputs: list[Array] = self._kept[arch]
        return outputs

    def _expected(self, arch: str) -> list[Array]:
        a, activation_scales, b, weight_scales = self.operands
        order = AccumulationOrder(
            instruction="mma.m16n8k32.f32.e4m3.e4m3", arch=arch, assembler="13.0", ragged_k=RaggedK.ZERO_FILL
        )
        given = epilogue_array.Operands(
            accumulators=gemm(order, a, b),
            factors=(activation_scales, weight_scales),
            addend=self.residual if self.site.adds else None,
        )
        rule = NINFER_LINEAR_ADD.contracted(Contraction.SCALE) if self.site.adds else NINFER_LINEAR
        product = apply_epilogue(rule, given)
        if self.site.paired:
            allowed = swiglu_of_rows(product, CUDA_EX2_SILU, width=self.rows // 2)
            return [allowed.lower, allowed.upper]
        return np.split(product, np.cumsum(self.widths)[:-1], axis=1)

    def run(self, device: Device, gemm: Fp8A8Gemm, route: Route | None) -> Result:
        """Launch; what lies between the rows of an output must stay."""
        a, activation_scales, b, weight_scales = self.operands
        operands = Operands(
            padded(device, a, self.pad, NAN_CODE),
            Tensor.whole(device.upload(activation_scales)),
            padded(device, b, self.pad, NAN_CODE),
            Tensor.whole(device.upload(weight_scales)),
        )
        starts = [self.residual] if self.site.adds else [np.zeros((self.tokens, width), BF16) for width in self.widths]
        outputs = [padded(device, start, self.pad, -77, written=self.site.adds) for start in starts]
        launch = gemm(operands, outputs, route=route)
        buffers: list[Any] = [output.buffer for output in outputs]
        whole = [buffer.download() for buffer in buffers]
        assert all(np.all(image[:, width:] == -77) for image, width in zip(whole, self.widths, strict=True))
        return Result(launch, [image[:, :width] for image, width in zip(whole, self.widths, strict=True)], buffers)


def finite_codes(random: np.random.Generator, rows: int, depth: int) -> Array:
    """Codes of every exponent and sign."""
    codes = random.integers(0, 256, (rows, depth), np.uint8)
    return np.where(codes & 0x7F == NAN_CODE, codes ^ 0x40, codes).astype(np.uint8)


def padded(device: Device, values: Array, pad: int, filler: float, *, written: bool = True) -> Tensor:
    """Rows followed by `pad` elements of `filler`; values that nothing wrote if not `written` and not padded."""
    rows, columns = values.shape
    if not pad and not written:
        return Tensor.whole(device.allocate(values.shape, values.dtype))
    image = np.full((rows, columns + pad), filler, values.dtype)
    image[:, :columns] = values
    return Tensor(device.upload(image), values.dtype, values.shape, (columns + pad, 1))


def bits(values: Array) -> Array:
    return np.ascontiguousarray(values).view(np.uint16)


def check(call: Call, route: Route, *, gemm: Fp8A8Gemm | None = None, **options: Any) -> Result:
    """The call has the oracle's bits and no finding."""
    device = gemm.device if gemm is not None else cpu.Device(**options)
    assert isinstance(device, cpu.Device)
    result = call.run(device, gemm or Fp8A8Gemm(device, call.site), route)
    assert result.launch.route == route
    assert result.launch.report is not None
    assert list(result.launch.report.findings) == []
    expected = call.expected(device.arch)
    if call.site.paired:
        assert _allowed(expected, result.outputs[0])
    else:
        for name, output, right in zip(call.site.outputs, result.outputs, expected, strict=True):
            assert np.array_equal(bits(output), bits(right)), f"{name}: {(bits(output) != bits(right)).sum()} differ"
    return result


def _allowed(ends: list[Array], output: Array) -> bool:
    return bool(np.all((bits(output) == bits(ends[0])) | (bits(output) == bits(ends[1]))))
