"""Calls of mm_fp8 on codes of every kind, and their right outputs by the oracle."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.kernels.device import Device
from tileproof.kernels.launcher import Launch
from tileproof.kernels.mm_fp8 import BF16, E4M3, E5M2, MmFp8
from tileproof.kernels.mm_fp8_dispatch import STAGE_K, Route
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.epilogue import ASTRAI_LINEAR, Addend, Contraction, Output
from tileproof.oracle.epilogues.epilogue_array import Operands, apply_epilogue
from tileproof.oracle.formats import FORMATS
from tileproof.oracle.gemm import gemm
from tileproof.oracle.products.accumulation_order import AccumulationOrder
from tileproof.simulators.ptx import device as cpu

Array = NDArray[Any]

LAYOUTS = ("NT", "NN", "TN", "TT")
RECORDS = {E4M3: FORMATS["E4M3FN"], E5M2: FORMATS["E5M2"]}
FIRST_SPECIAL = {E4M3: 0x7F, E5M2: 0x7C}
NAN_CODE = 0x7F
POISON = 0xA5

SCALE, BIAS_SCALE, OUT_SCALE = (np.array([value], np.float32) for value in (1.3 * 2.0**-9, 0.7, 0.37))


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of one shape."""

    m: int
    n: int
    k: int
    layout: str = "NT"
    format: np.dtype[Any] = E4M3
    #: Matrices of an operand; None for two dimensions.
    a_batch: int | None = None
    b_batch: int | None = None
    #: "bf16", "fp8" or "" for none.
    bias: str = ""
    out: np.dtype[Any] = BF16
    #: Elements behind each line of an operand and of the output, and before the first one of each.
    pad: int = 0
    offset: int = 0
    seed: int = 0

    @property
    def batch(self) -> int | None:
        """Matrices of the output."""
        known = [batch for batch in (self.a_batch, self.b_batch) if batch is not None]
        return max(known) if known else None

    def codes(self) -> tuple[Array, Array]:
        """A [.., M, K] and B [.., K, N], finite codes of every exponent and sign."""
        random = np.random.default_rng(self.seed)
        return tuple(
            _finite(random.integers(0, 256, (*([] if batch is None else [batch]), *shape), np.uint8), self.format)
            for batch, shape in ((self.a_batch, (self.m, self.k)), (self.b_batch, (self.k, self.n)))
        )  # type: ignore[return-value]

    def bias_values(self) -> Array | None:
        """Values of the size of the products."""
        random = np.random.default_rng(self.seed + 1)
        if self.bias == "fp8":
            return _finite(random.integers(0, 256, self.n, np.uint8), self.format)
        return np.asarray((random.standard_normal(self.n) * 100).astype(BF16)) if self.bias else None

    def expected(self, arch: str) -> Array:
        """The right outputs, bfloat16 or uint8 codes."""
        a, b = self.codes()
        fill = -self.k % STAGE_K
        name = "e4m3" if self.format == E4M3 else "e5m2"
        order = AccumulationOrder(instruction=f"mma.m16n8k32.f32.{name}.{name}", arch=arch, assembler="13.0")
        width = [(0, 0)] * (a.ndim - 1), [(0, 0)] * (b.ndim - 1)
        sums = gemm(order, np.pad(a, [*width[0], (0, fill)]), np.pad(b.swapaxes(-1, -2), [*width[1], (0, fill)]))
        rule, bias = replace(ASTRAI_LINEAR, addend=Addend.NONE), self.bias_values()
        if bias is not None:
            rule = replace(ASTRAI_LINEAR, bias_scaled=self.bias == "fp8").contracted(Contraction.SCALE)
        given = Operands(
            accumulators=sums.reshape(-1, self.n),
            factors=(SCALE[0],),
            addend=bias,
            bias_format=RECORDS[self.format] if self.bias == "fp8" else None,
            bias_scale=BIAS_SCALE[0] if self.bias == "fp8" else None,
            out_scale=OUT_SCALE[0] if self.out == E4M3 else None,
        )
        if self.out == E4M3:
            rule = replace(rule, output=Output.E4M3)
        return apply_epilogue(rule, given).reshape(sums.shape)

    def run(self, device: Device, mm: MmFp8, route: Route | None) -> tuple[Launch, Array]:
        """Launch; what lies beside the outputs must stay. The outputs as unsigned integers."""
        a, b = self.codes()
        bias = self.bias_values()
        element = np.dtype(f"u{self.out.itemsize}")
        shape = (*([] if self.batch is None else [self.batch]), self.m, self.n)
        empty = np.full(shape, POISON * 0x0101 & np.iinfo(element).max, element)
        out, image = _place(device, empty, self.pad, self.offset, int(empty.flat[0]), self.out)
        launch = mm(
            self.operand(device, a, transposed=self.layout[0] == "T"),
            self.operand(device, b, transposed=self.layout[1] == "T"),
            Tensor.whole(device.upload(SCALE)),
            out,
            bias=_bias(device, bias, self.format),
            bias_scale=Tensor.whole(device.upload(BIAS_SCALE)) if self.bias == "fp8" else None,
            out_scale=Tensor.whole(device.upload(OUT_SCALE)) if self.out == E4M3 else None,
            route=route,
        )
        after = out.buffer.download()
        written = _elements(after, out).copy()
        _elements(after, out)[...] = empty
        assert np.array_equal(after, image), "bytes beside the outputs changed"
        return launch, written

    def operand(self, device: Device, codes: Array, *, transposed: bool) -> Tensor:
        """An operand between NaN codes; transposed: a view of the other way round."""
        stored = codes.swapaxes(-1, -2) if transposed else codes
        tensor, _ = _place(device, np.ascontiguousarray(stored), self.pad, self.offset, NAN_CODE, self.format)
        return swapped(tensor) if transposed else tensor


def swapped(tensor: Tensor) -> Tensor:
    """The view with the last two dimensions exchanged."""
    shape, strides = tensor.shape, tensor.strides
    return replace(tensor, shape=(*shape[:-2], shape[-1], shape[-2]), strides=(*strides[:-2], strides[-1], strides[-2]))


def check(call: Call, route: Route, *, source: str | None = None, **options: Any) -> Array:
    """The call has the oracle's bits and no finding."""
    device = cpu.Device(**options)
    launch, outputs = call.run(device, MmFp8(device) if source is None else MmFp8(device, source=source), route)
    assert launch.route == route
    assert launch.report is not None
    assert list(launch.report.findings) == []
    right = call.expected(device.arch).view(outputs.dtype)
    assert np.array_equal(outputs, right), f"{(outputs != right).sum()} of {right.size} differ"
    return outputs


def _finite(codes: Array, dtype: np.dtype[Any]) -> Array:
    return np.where(codes & 0x7F >= FIRST_SPECIAL[dtype], codes ^ 0x40, codes).astype(np.uint8)


def _bias(device: Device, bias: Array | None, dtype: np.dtype[Any]) -> Tensor | None:
    if bias is None:
        return None
    return replace(Tensor.whole(device.upload(bias)), dtype=BF16 if bias.dtype == BF16 else dtype)


def _place(
    device: Device, values: Array, pad: int, offset: int, filler: int, dtype: np.dtype[Any]
) -> tuple[Tensor, Array]:
    """A tensor of rows that are followed by `pad` fillers, behind `offset` of them; and its whole allocation."""
    lines = int(np.prod(values.shape[:-1]))
    image = np.full(offset + lines * (values.shape[-1] + pad), filler, values.dtype)
    stride = values.shape[-1] + pad
    strides = (values.shape[-2] * stride, stride, 1)[-values.ndim :]
    tensor = Tensor(device.upload(image), dtype, values.shape, strides, offset * values.dtype.itemsize)
    _elements(image, tensor)[...] = values
    return replace(tensor, buffer=device.upload(image)), image


def _elements(image: Array, tensor: Tensor) -> Array:
    width = image.dtype.itemsize
    strides = tuple(stride * width for stride in tensor.strides)
    return np.ndarray(tensor.shape, image.dtype, image.data, tensor.offset_bytes, strides)
