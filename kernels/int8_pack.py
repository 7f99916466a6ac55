"""Launcher of int8_pack: an int8 weight [K, N] into a packed order, and back.

Packing is done once a weight, outside of whatever is timed or captured: the packed buffer has as many bytes as the
weight, and keeps its address. Example: `Int8Pack(device).pack(raw, packed, "panel-64")` with raw [2048, 4096] and
packed [8388608].
"""

from enum import StrEnum

import numpy as np

from tileproof.kernels.device import Device
from tileproof.kernels.fp8_a8_selector import ceil_div
from tileproof.kernels.int8_layouts import WeightLayout, weight_layout
from tileproof.kernels.launcher import Dimension, Kernel, Launch, Layout, Role, TensorRule, check_tensors
from tileproof.kernels.source import kernel_text
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

NAME = "int8_pack"
SOURCE = kernel_text(NAME)

I8 = np.dtype(np.int8)

EDGE = 16
"""Of a patch of the vector routes, and bytes of their loads and stores; a test compares these with the source."""
PATCH_THREADS, SCALAR_THREADS = 64, 256

MAX_EXTENT = 2**31 - 1
"""Of K and N, which kernels take as 32-bit numbers."""


class Route(StrEnum):
    """How bytes are moved; the value is the name in a launch and in a case id."""

    VECTOR = "vector"
    SCALAR = "scalar"


class Int8Pack:
    """Both directions on one device.

    Args:
        device: where all tensors live.
        source: CUDA C++ text; another one than the shipped is for seeding faults.
    """

    def __init__(self, device: Device, *, source: str = SOURCE) -> None:
        self.device = device
        self._source = source
        self._kernels: dict[str, Kernel] = {}

    def pack(self, raw: Tensor, packed: Tensor, layout: str, *, route: Route | None = None) -> Launch:
        """Write the packed order of a weight.

        Args:
            raw: int8 [K, N], contiguous.
            packed: int8 [K * N].
            layout: name of the order.
            route: how to move the bytes; None for vectors where they are legal.

        Raises:
            Refusal: an argument is not as described, the order does not take the shape, or vectors are not legal.
            DeviceError: the device failed.
        """
        return self._move("pack", raw, packed, layout, route)

    def unpack(self, packed: Tensor, raw: Tensor, layout: str, *, route: Route | None = None) -> Launch:
        """Write the weight of a packed order; arguments and errors as `pack`."""
        return self._move("unpack", raw, packed, layout, route)

    def _move(self, way: str, raw: Tensor, packed: Tensor, layout: str, route: Route | None) -> Launch:
        order = weight_layout(layout)
        k, n = self._check(way, raw, packed, order)
        found = obstacle(raw, packed, order)
        if route is not None and not isinstance(route, Route):
            raise Refusal(f"route is {route!r}", hint=f"one of {', '.join(map(str, Route))} of Route, or None")
        if route is Route.VECTOR and found is not None:
            raise Refusal(f"{way} in vectors: {found}", hint="leave the route out, or take scalar")
        chosen = route or (Route.SCALAR if found else Route.VECTOR)
        units, threads = k * n, SCALAR_THREADS
        if chosen is Route.VECTOR:
            units, threads = ceil_div(k, EDGE) * (n // EDGE), PATCH_THREADS
        buffers = (raw, packed) if way == "pack" else (packed, raw)
        return self._kernel(order).launch(
            entry=f"int8_{way}_{chosen}",
            route=chosen,
            grid=(ceil_div(units, threads), 1, 1),
            block=(threads, 1, 1),
            args=(*(np.uint64(tensor.address) for tensor in buffers), np.uint32(k), np.uint32(n)),
        )

    def _check(self, way: str, raw: Tensor, packed: Tensor, order: WeightLayout) -> tuple[int, int]:
        """K and N, of tensors that are as described."""
        sides = (Role.INPUT, Role.OUTPUT) if way == "pack" else (Role.OUTPUT, Role.INPUT)
        depth, columns = (Dimension(name, maximum=MAX_EXTENT) for name in "KN")
        rules = (
            TensorRule("raw", (I8,), (depth, columns), Layout.CONTIGUOUS, sides[0]),
            TensorRule("packed", (I8,), (Dimension("K * N"),), Layout.CONTIGUOUS, sides[1]),
        )
        extents = check_tensors(self.device, rules, (raw, packed))
        k, n = extents["K"], extents["N"]
        if extents["K * N"] != k * n:
            raise Refusal(f"packed has {extents['K * N']} elements; K = {k}, N = {n} take {k * n}")
        order.check_shape(k, n)
        return k, n

    def _kernel(self, order: WeightLayout) -> Kernel:
        """Compiled when it is first needed."""
        if order.symbol not in self._kernels:
            defines = (f"INT8_LAYOUT={order.symbol}",)
            self._kernels[order.symbol] = Kernel(self.device, name=NAME, source=self._source, defines=defines)
        return self._kernels[order.symbol]


def obstacle(raw: Tensor, packed: Tensor, order: WeightLayout) -> str | None:
    """Why vectors are not legal, in words; None where they are."""
    k, n = raw.shape
    if n % EDGE:
        return f"N = {n} is no multiple of {EDGE}"
    if k % EDGE and not order.along_n:
        return f"K = {k} is no multiple of {EDGE}, along which {order.record.name} runs"
    for name, tensor in (("raw", raw), ("packed", packed)):
        if tensor.address % EDGE:
            return f"{name} begins {tensor.address % EDGE} bytes past a multiple of {EDGE}"
    return None
