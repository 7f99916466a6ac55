"""Runs a tile kernel on a whole product, block after block."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tileproof.oracle.layouts import find_layout
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.machine.findings import Findings, WaveFinding
from tileproof.simulators.gfx928.machine.machine import Block, Counters
from tileproof.simulators.gfx928.machine.memory import Buffer
from tileproof.simulators.gfx928.machine.operations import Operation
from tileproof.simulators.gfx928.tiles.tile_kernel import TileKernel
from tileproof.simulators.gfx928.tiles.tile_program import Product, tile_program

#: What the output holds before a launch, and so where nothing was stored.
POISON = 0xA5

Rewrite = Callable[[tuple[Operation, ...]], Sequence[Operation]]


@dataclass(frozen=True, eq=False)
class TileInputs:
    """The operands of x [M][K] · w [K][N].

    Raises:
        Refusal: another type, rank or extent than they have together, or scales by which an output may be NaN.
    """

    #: int8 [M, K].
    x: npt.NDArray[np.int8]
    #: int8 [K, N], as stored; the launch packs it.
    w: npt.NDArray[np.int8]
    #: float32 [M].
    x_scale: npt.NDArray[np.float32]
    #: float32 [N].
    w_scale: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        wanted: dict[str, tuple[type, tuple[int, ...]]] = {
            "x": (np.int8, (*self.x.shape[:1], *self.w.shape[:1])),
            "w": (np.int8, (*self.w.shape[:1], *self.w_scale.shape[:1])),
            "x_scale": (np.float32, self.x.shape[:1]),
            "w_scale": (np.float32, self.w.shape[1:]),
        }
        for name, (dtype, shape) in wanted.items():
            array: npt.NDArray[Any] = getattr(self, name)
            if array.dtype != dtype or array.shape != shape or array.size == 0:
                raise Refusal(f"{name} is {array.dtype} {array.shape}", hint=f"{np.dtype(dtype)} {shape}, not empty")

        self._require_numbers()

    def _require_numbers(self) -> None:
        """NVIDIA's NaN, 0x7FFFFFFF, is rounded to 0x8000 by these kernels; no source says which NaN gfx928 makes."""
        most = float(np.abs(self.x_scale).max()) * self.x.shape[1] * 2.0**14
        infinite = most > float(np.finfo(np.float32).max) and not self.w_scale.all()
        if infinite or not (np.isfinite(self.x_scale).all() and np.isfinite(self.w_scale).all()):
            raise Refusal(
                "scales that are not finite, or infinity times 0", hint="what gfx928 makes of NaN is not known"
            )

    @property
    def product(self) -> Product:
        """M, N, K."""
        return Product(self.x.shape[0], self.w.shape[1], self.x.shape[1])


@dataclass(frozen=True, eq=False)
class TileRun:
    """What a launch gave."""

    #: bfloat16 [M, N].
    output: npt.NDArray[Any]
    #: Elements of it to which nothing was stored.
    unwritten: int
    findings: tuple[WaveFinding, ...]
    #: All blocks together.
    counters: Counters
    blocks: int


def run_tile(
    kernel: TileKernel,
    inputs: TileInputs,
    *,
    rewrite: Rewrite | None = None,
    lds_bytes: int | None = None,
    count_banks: bool = False,
) -> TileRun:
    """Packs the weight, runs every block and collects what was found.

    Args:
        kernel: the kernel.
        inputs: the operands.
        rewrite: changes the program of every block: a deliberate defect.
        lds_bytes: LDS of a block, where it is not the kernel's.
        count_banks: whether to count LDS bank conflicts.

    Raises:
        Refusal: the kernel does not take this product.
    """
    product = inputs.product
    packed = find_layout(kernel.pack).pack(inputs.w)
    buffers = {
        "x": Buffer(_bytes(inputs.x)),
        "w": Buffer(_bytes(packed)),
        "x_scale": Buffer(_bytes(inputs.x_scale)),
        "w_scale": Buffer(_bytes(inputs.w_scale)),
        "out": Buffer(np.full(2 * product.m * product.n, POISON, np.uint8)),
    }
    findings, counters = Findings(), Counters()
    grid = [
        (row, column) for row in range(-(-product.m // kernel.rows)) for column in range(product.n // kernel.columns)
    ] or [(0, 0)]
    for row, column in grid:
        program = tile_program(kernel, product, row, column)
        block = Block(
            kernel.waves, kernel.lds_bytes if lds_bytes is None else lds_bytes, buffers, findings, counters, count_banks
        )
        block.run(rewrite(program) if rewrite else program)
    out = buffers["out"]
    output = out.data.view("<u2").astype(np.uint16, copy=False).view(ml_dtypes.bfloat16)
    unwritten = int((out.stores == 0).reshape(-1, 2).any(axis=1).sum())
    return TileRun(output.reshape(product.m, product.n), unwritten, findings.all(), counters, len(grid))


def _bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    flat: npt.NDArray[np.uint8] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return flat
