"""The compiled twin of `fma_chain`: the processor's own fused multiply-add, which is what the definition defines."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba.extending import intrinsic

from tileproof.oracle.numbers.compiled import compiled
from tileproof.oracle.units.unit import FmaChain


def fma_chains(
    unit: FmaChain, a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any], index: npt.NDArray[np.uint64]
) -> npt.NDArray[Any]:
    """Codes of D, [output tiles, M, N].

    Args:
        unit: float32 or float64.
        a: codes, [tiles of A, M, K].
        b: codes, [tiles of B, N, K].
        c: codes, [tiles of C, M, N].
        index: for each output tile, its tiles of A, B and C, [output tiles, 3].
    """
    dtype = np.dtype(f"f{unit.format.bits // 8}")
    d = np.empty((len(index), a.shape[1], b.shape[1]), dtype)
    x, y, z = (np.ascontiguousarray(codes).view(dtype) for codes in (a, b, c))
    _fma_tiles(x, y, z, index, d)
    codes = d.view(unit.format.code_dtype)
    codes[np.isnan(d)] = unit.format.nan_code
    return codes


def _typed_fma(context: Any, x: Any, y: Any, z: Any) -> tuple[Any, Callable[..., Any]]:
    """x · y + z, rounded once: numba's type of the call, and LLVM's instruction for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return x(x, y, z), generate


fused_multiply_add: Any = intrinsic(_typed_fma)


@compiled
def _fma_tiles(a: Any, b: Any, c: Any, index: Any, d: Any) -> None:
    for tile in range(len(index)):
        i, j, n = index[tile]
        for row in range(a.shape[1]):
            for column in range(b.shape[1]):
                total = c[n, row, column]
                for k in range(a.shape[2]):
                    total = fused_multiply_add(a[i, row, k], b[j, column, k], total)
                d[tile, row, column] = total
