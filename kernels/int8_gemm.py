"""Launcher of the INT8 products: out = X * W, a scale a row and a scale a column, to bfloat16, by a named kernel.

The rule is written at the head of int8_problem.cuh; every kernel gives the same bits. Which of them a call takes is
`int8_router`'s business. Example: x [16, 4096], weight [4096 * 2560] packed n-major, out [16, 2560].
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from tileproof.kernels.device import Device, EncodesTensorMaps
from tileproof.kernels.fp8_a8_selector import ceil_div
from tileproof.kernels.int8_arms import (
    ARMS,
    COMBINE_THREADS,
    DECODE_COLUMNS,
    DECODE_DEPTH,
    SCALAR_THREADS,
    WGMMA_ARCH,
    WGMMA_ARMS,
    WGMMA_DEPTH,
    WGMMA_PACK,
    WGMMA_ROWS,
    Arm,
    Combine,
    DecodeArm,
    ScalarArm,
    TileArm,
    WgmmaArm,
)
from tileproof.kernels.int8_counters import require_one_number_of_parts
from tileproof.kernels.int8_layouts import weight_layout
from tileproof.kernels.launcher import (
    NOTHING_TO_LAUNCH,
    Dimension,
    JoinedReport,
    Kernel,
    Launch,
    Layout,
    Role,
    TensorRule,
    check_tensors,
)
from tileproof.kernels.source import kernel_text
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

TILE, DECODE, COMBINE, SCALAR = "int8_gemm_tile", "int8_gemm_decode", "int8_combine", "int8_gemm_scalar"
WGMMA = "int8_gemm_wgmma"
NAMES = (TILE, DECODE, COMBINE, SCALAR, WGMMA)

I8 = np.dtype(np.int8)
I32 = np.dtype(np.int32)
U64 = np.dtype(np.uint64)
F32 = np.dtype(np.float32)
BF16 = np.dtype(ml_dtypes.bfloat16)

VECTOR = 16
"""What x, the weight and out of every kernel but the scalar one begin at a multiple of."""

MAX_DEPTH = (2**31 - 1) // 2**14
"""K up to which a sum of products of -128 fits int32."""

_ROWS, _COLUMNS = Dimension("M", maximum=65535), Dimension("N", maximum=2**31 - 1)
_DEPTH = Dimension("K", minimum=1, maximum=MAX_DEPTH)
_POINTERS = ("x", "weight", "x_scale", "w_scale", "out", "planes", "arrivals")
_PROBLEM = np.dtype(
    [*((name, np.uint64) for name in _POINTERS), *((name, np.int32) for name in ("m", "n", "k", "splits"))]
)


@dataclass(frozen=True, kw_only=True)
class Product:
    """The tensors of a call.

    Args:
        x: int8 [M, K].
        weight: int8 [K * N], packed.
        pack: its order.
        x_scale: float32 [M].
        w_scale: float32 [N].
        out: bfloat16 [M, N].
        planes: int32 [splits, M, N], where K is split over the grid: every element is written in every launch.
        arrivals: uint64 [N / 64], for the fused combine: zeros before the first launch, and nobody else's after it;
            every launch has as many splits as the first.
    """

    x: Tensor
    weight: Tensor
    pack: str
    x_scale: Tensor
    w_scale: Tensor
    out: Tensor
    planes: Tensor | None = None
    arrivals: Tensor | None = None

    @property
    def extents(self) -> tuple[int, int, int]:
        """M, N, K."""
        m, n = self.out.shape
        return m, n, self.x.shape[1]


class Int8Gemm:
    """The kernels on one device.

    Args:
        device: where all tensors live.
        sources: texts of kernels by name; what is not named is as shipped. Another text seeds a fault.
    """

    def __init__(self, device: Device, *, sources: dict[str, str] | None = None) -> None:
        self.device = device
        self._sources = {name: kernel_text(name) for name in NAMES} | (sources or {})
        self._kernels: dict[tuple[str, ...], Kernel] = {}

    def __call__(self, product: Product, arm: str) -> Launch:
        """Compute a product by one kernel; the launch's route is the kernel's name.

        Raises:
            Refusal: an argument is not as described, outputs overlap something, or the kernel cannot take it.
            DeviceError: the device failed.
        """
        known = _known(arm)
        m, n, k = self._check(product, known)
        if 0 in (m, n):
            return Launch(TILE, TILE, NOTHING_TO_LAUNCH, (0, 1, 1), (1, 1, 1), None)
        obstacle = known.obstacle(m, n, k)
        if obstacle is not None:
            raise Refusal(f"{arm}: {obstacle}", hint="the scalar kernel takes every product")
        if isinstance(known, WgmmaArm):
            return self._wgmma(product, known)
        if isinstance(known, TileArm):
            return self._tile(product, known)
        return self._decode(product, known) if isinstance(known, DecodeArm) else self._scalar(product, known)

    def _check(self, product: Product, arm: Arm) -> tuple[int, int, int]:
        rules, tensors = zip(*_rules(product, arm), strict=True)
        extents = check_tensors(self.device, rules, tensors)
        m, n, k = (extents[name] for name in "MNK")
        if extents["K * N"] != k * n:
            raise Refusal(f"weight has {extents['K * N']} elements; K = {k}, N = {n} take {k * n}")
        weight_layout(product.pack).check_shape(k, n)
        if isinstance(arm, DecodeArm) and arm.takes_planes:
            splits = extents["splits"]
            if not 1 <= splits <= k // DECODE_DEPTH:
                raise Refusal(f"{arm.name}: {splits} splits of K = {k}; there may be 1 to {k // DECODE_DEPTH}")
        return m, n, k

    def _tile(self, product: Product, arm: TileArm) -> Launch:
        m, n, _ = product.extents
        return self._kernel(TILE, (*arm.defines, _order(product))).launch(
            entry=TILE,
            route=arm.name,
            grid=(n // arm.columns, ceil_div(m, arm.rows), 1),
            block=(arm.threads, 1, 1),
            args=(_problem(product),),
        )

    def _wgmma(self, product: Product, arm: WgmmaArm) -> Launch:
        m, n, _ = product.extents
        if self.device.arch != WGMMA_ARCH or product.pack != WGMMA_PACK:
            raise Refusal(
                f"{arm.name} takes {WGMMA_ARCH} and {WGMMA_PACK} weights; the device is {self.device.arch}"
                f" and the weight {product.pack}",
                hint="every other kernel takes them",
            )
        return self._kernel(WGMMA, arm.defines).launch(
            entry=WGMMA,
            route=arm.name,
            grid=(n // arm.columns * ceil_div(m, WGMMA_ROWS), 1, 1),
            block=(arm.threads, 1, 1),
            args=(self._maps(product, arm), _problem(product)),
            shared_bytes=arm.shared_bytes,
        )

    def _maps(self, product: Product, arm: WgmmaArm) -> np.void:
        """The structure Maps of int8_gemm_wgmma.cu: rows of K bytes of x, and of W in its order."""
        if not isinstance(self.device, EncodesTensorMaps):
            raise Refusal(f"the device {self.device.name} makes no tensor maps", hint="choose another kernel")
        m, n, k = product.extents
        both = ((product.x, m, WGMMA_ROWS), (product.weight, n, arm.columns))
        maps = (
            self.device.tensor_map(
                tensor,
                dtype="uint8",
                shape=(k, lines),
                strides_bytes=(k,),
                box=(WGMMA_DEPTH, box),
                swizzle=WGMMA_DEPTH,
                fill="zero",
            )
            for tensor, lines, box in both
        )
        return np.void(b"".join(one.tobytes() for one in maps))

    def _decode(self, product: Product, arm: DecodeArm) -> Launch:
        m, n, _ = product.extents
        if arm.combine is Combine.FUSED and product.arrivals is not None:
            require_one_number_of_parts(product.arrivals, _splits(product))
        first = self._kernel(DECODE, (*arm.defines(m), _order(product))).launch(
            entry=DECODE,
            route=arm.name,
            grid=(n // DECODE_COLUMNS, _splits(product) if arm.takes_planes else 1, 1),
            block=(arm.threads, 1, 1),
            args=(_problem(product),),
        )
        if arm.combine is not Combine.PARTIAL:
            return first
        second = self._kernel(COMBINE, ()).launch(
            entry=COMBINE,
            route=arm.name,
            grid=(ceil_div(n, 2 * COMBINE_THREADS), m, 1),
            block=(COMBINE_THREADS, 1, 1),
            args=(_problem(product),),
        )
        reports = tuple(one.report for one in (first, second) if one.report is not None)
        return replace(first, report=JoinedReport(reports))

    def _scalar(self, product: Product, arm: ScalarArm) -> Launch:
        m, n, _ = product.extents
        return self._kernel(SCALAR, (_order(product),)).launch(
            entry=SCALAR,
            route=arm.name,
            grid=(ceil_div(n, SCALAR_THREADS), m, 1),
            block=(SCALAR_THREADS, 1, 1),
            args=(_problem(product),),
        )

    def _kernel(self, name: str, defines: tuple[str, ...]) -> Kernel:
        """Compiled when it is first needed."""
        key = (name, *defines)
        if key not in self._kernels:
            self._kernels[key] = Kernel(self.device, name=name, source=self._sources[name], defines=defines)
        return self._kernels[key]


def _known(arm: str) -> Arm:
    known = ARMS | WGMMA_ARMS
    if arm not in known:
        raise Refusal(f"no kernel is called {arm}; known are {', '.join(known)}")
    return known[arm]


def _order(product: Product) -> str:
    return f"INT8_LAYOUT={weight_layout(product.pack).symbol}"


def _splits(product: Product) -> int:
    return 0 if product.planes is None else product.planes.shape[0]


def _rules(product: Product, arm: Arm) -> Iterator[tuple[TensorRule, Tensor]]:
    """Each tensor that the kernel is given, with what it asks of it."""
    vector = 0 if isinstance(arm, ScalarArm) else VECTOR

    def rule(name: str, dtype: np.dtype[Any], role: Role, *dimensions: Dimension, alignment: int = 0) -> TensorRule:
        return TensorRule(name, (dtype,), dimensions, Layout.CONTIGUOUS, role, alignment)

    yield rule("x", I8, Role.INPUT, _ROWS, _DEPTH, alignment=vector), product.x
    yield rule("weight", I8, Role.INPUT, Dimension("K * N"), alignment=vector), product.weight
    yield rule("x_scale", F32, Role.INPUT, _ROWS), product.x_scale
    yield rule("w_scale", F32, Role.INPUT, _COLUMNS), product.w_scale
    yield rule("out", BF16, Role.OUTPUT, _ROWS, _COLUMNS, alignment=vector), product.out
    planes, arrivals = product.planes, product.arrivals
    if not (isinstance(arm, DecodeArm) and arm.takes_planes):
        return
    if planes is None:
        raise Refusal(f"{arm.name} needs planes", hint="give int32 [splits, M, N]")
    yield rule("planes", I32, Role.OUTPUT, Dimension("splits"), _ROWS, _COLUMNS, alignment=VECTOR), planes
    if arm.combine is not Combine.FUSED:
        return
    if arrivals is None:
        raise Refusal(f"{arm.name} needs arrivals", hint="give uint64 [N / 64], set to 0 once")
    tiles = ceil_div(product.out.shape[-1], DECODE_COLUMNS)
    yield rule("arrivals", U64, Role.IN_PLACE, Dimension("tiles", minimum=tiles, maximum=tiles)), arrivals


def _problem(product: Product) -> np.void:
    """The structure Problem of int8_problem.cuh."""
    made = np.zeros((), _PROBLEM)
    for name in _POINTERS:
        tensor: Tensor | None = getattr(product, name)
        made[name] = 0 if tensor is None else tensor.address
    made["m"], made["n"], made["k"] = product.extents
    made["splits"] = _splits(product)
    return np.void(made.tobytes())
