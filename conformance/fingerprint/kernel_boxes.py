"""Our own FP8 kernels as boxes, on a device: the CPU simulator or a GPU."""

from collections.abc import Callable, Mapping
from functools import partial

import ml_dtypes
import numpy as np

from tileproof.conformance.fingerprint.box import Array, Box
from tileproof.kernels.device import Buffer, Device
from tileproof.kernels.fp8_a8_arguments import Operands
from tileproof.kernels.fp8_a8_call_site import LINEAR, LINEAR_ADD, CallSite
from tileproof.kernels.fp8_a8_gemm import Fp8A8Gemm
from tileproof.kernels.fp8_a8_selector import Route as NinferRoute
from tileproof.kernels.mm_fp8 import MmFp8
from tileproof.kernels.mm_fp8_dispatch import Route as MmRoute
from tileproof.kernels.tensor import Tensor, contiguous_strides
from tileproof.oracle.refusal import Refusal

BF16 = np.dtype(ml_dtypes.bfloat16)
FORMATS = {"e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2)}

_WEIGHT_ROWS, _TOKENS = 128, 64


def kernel_boxes(device: Device, sources: Mapping[NinferRoute, str] | None = None) -> Mapping[str, Callable[[], Box]]:
    """By the names that `oracle_boxes` has; the tiled routes take whole tiles.

    Args:
        device: where they run.
        sources: texts that stand in for ninfer's kernels, by route.
    """
    found: dict[str, Callable[[], Box]] = {}
    for site in (LINEAR, LINEAR_ADD):
        for route in NinferRoute:
            found[f"ninfer_{site.name}/{route}"] = partial(_ninfer, device, site, route, sources)
    for variant in MmRoute:
        for name in FORMATS:
            found[f"astrai_mm_fp8/{variant}/{name}"] = partial(_mm_fp8, device, variant, name)
    return found


class Memory:
    """Buffers of one call, given back together."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._buffers: list[Buffer] = []

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_: object) -> None:
        for buffer in self._buffers:
            self._device.free(buffer)

    def given(self, array: Array) -> Tensor:
        """An array on the device."""
        self._buffers.append(self._device.upload(np.ascontiguousarray(array)))
        return Tensor.whole(self._buffers[-1])

    def codes(self, array: Array, dtype: np.dtype[np.generic]) -> Tensor:
        """Codes on the device, as elements of their format."""
        stored = self.given(array)
        return Tensor(stored.buffer, dtype, stored.shape, contiguous_strides(stored.shape))

    def read(self, tensor: Tensor) -> Array:
        """What is there now."""
        return tensor.buffer.download()


def _ninfer(device: Device, site: CallSite, route: NinferRoute, sources: Mapping[NinferRoute, str] | None) -> Box:
    operator = Fp8A8Gemm(device, site, sources=sources)

    def multiply(a: Array, b: Array, c: Array | None = None) -> Array:
        with Memory(device) as memory:
            given = Operands(
                codes=memory.given(a),
                scales=memory.given(np.ones(len(a), np.float32)),
                weight=memory.given(b),
                weight_scales=memory.given(np.ones(len(b), BF16)),
            )
            start = np.zeros((len(a), len(b)), BF16) if c is None else c.astype(BF16)
            out = memory.given(start)
            _require_clean(operator(given, (out,), route=route))
            return memory.read(out)

    return Box(
        name=f"ninfer_{site.name}/{route} on {device.arch}",
        operand="e4m3",
        multiply=multiply,
        takes_c=site.adds,
        c_bits=7,
        rows=_TOKENS,
        columns=_WEIGHT_ROWS,
        depth=_WEIGHT_ROWS,
    )


def _mm_fp8(device: Device, variant: MmRoute, name: str) -> Box:
    operator = MmFp8(device)

    def multiply(a: Array, b: Array, bias: Array | None = None) -> Array:
        with Memory(device) as memory:
            x, y = memory.codes(a, FORMATS[name]), memory.codes(b, FORMATS[name])
            turned = Tensor(y.buffer, y.dtype, y.shape[::-1], y.strides[::-1])
            out = memory.given(np.zeros((len(a), len(b)), BF16))
            added = None if bias is None else memory.given(bias.astype(BF16))
            scale = memory.given(np.ones(1, np.float32))
            _require_clean(operator(x, turned, scale, out, bias=added, route=variant))
            return memory.read(out)

    return Box(
        name=f"astrai_mm_fp8/{variant} {name} on {device.arch}",
        operand=name,
        multiply=multiply,
        takes_bias=True,
        depth=16,
    )


def _require_clean(launch: object) -> None:
    """What a device finds wrong is no arithmetic. Raises: Refusal."""
    report = getattr(launch, "report", None)
    if report is not None and report.findings:
        raise Refusal(f"the kernel is not right: {report.findings[0].message}", hint="run `tileproof check` first")
