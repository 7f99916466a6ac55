"""Products for tile kernels, and what they must give: the int64 oracle with metainfer's epilogue."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.epilogue import METAINFER_W8A8
from tileproof.oracle.epilogues.epilogue_array import Operands, apply_epilogue
from tileproof.oracle.products.integer_matrix import multiply_integers
from tileproof.simulators.gfx928.tiles.catalogue import ACCEPTED_TILES
from tileproof.simulators.gfx928.tiles.tile_kernel import TileKernel
from tileproof.simulators.gfx928.tiles.tile_launch import TileInputs, TileRun

BY_NAME = {kernel.name: kernel for kernel in ACCEPTED_TILES}


def inputs(kernel: TileKernel, m: int, stages: int, column_tiles: int = 1, fill: int | None = None) -> TileInputs:
    """Random int8 of all values, or one value everywhere; scales below 0.01, as metainfer's benchmark draws them."""
    random = np.random.default_rng(20260724 + m + stages)
    n, k = kernel.columns * column_tiles, kernel.stage * stages
    x = random.integers(-128, 128, (m, k), np.int8)
    w = random.integers(-128, 128, (k, n), np.int8)
    if fill is not None:
        x[:], w[:] = fill, fill
    scales = [random.random(size, dtype=np.float32) * np.float32(0.01) for size in (m, n)]
    return TileInputs(x, w, *scales)


def expected(given: TileInputs) -> npt.NDArray[Any]:
    sums = multiply_integers(given.x.astype(np.int64), given.w.T.astype(np.int64), 128, 128)
    rows = Operands(accumulators=sums.astype(np.int32), factors=(given.x_scale, given.w_scale))
    return apply_epilogue(METAINFER_W8A8, rows)


def mismatch(run: TileRun, given: TileInputs) -> tuple[int, float]:
    """Outputs with other bits, and the largest absolute difference."""
    want = expected(given)
    different = run.output.view(np.uint16) != want.view(np.uint16)
    return int(different.sum()), float(np.abs(run.output.astype(np.float64) - want.astype(np.float64)).max())
