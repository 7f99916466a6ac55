"""A tiled float32 matrix product in numba's CUDA dialect, timed: python -m benchmarks.numba_matmul 64.

`ptx_peer` runs it with NUMBA_ENABLE_CUDASIM=1, which makes numba's simulator execute it. One block makes one tile of
the result; its threads bring one tile of each factor after the other to shared memory, as matrix products on GPUs do.
"""

import sys
import time
from typing import Any

import numba.cuda
import numpy as np
from numba import float32

# The simulator puts its own objects here, of which the types know nothing.
cuda: Any = numba.cuda

#: Rows and columns of a tile.
TILE = 16


def _tile(a: Any, b: Any, c: Any) -> None:
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row, column = cuda.blockIdx.y * TILE + y, cuda.blockIdx.x * TILE + x
    total = float32(0.0)
    for start in range(0, a.shape[1], TILE):
        left[y, x] = a[row, start + x]
        right[y, x] = b[start + y, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += left[y, k] * right[k, x]
        cuda.syncthreads()
    c[row, column] = total


_multiply: Any = cuda.jit(_tile)


def main() -> None:
    """Prints the processor seconds of one launch and whether the product is right."""
    size = int(sys.argv[1])
    random = np.random.default_rng(0)
    a, b = random.integers(-3, 4, (2, size, size)).astype(np.float32)
    c = np.zeros((size, size), np.float32)
    blocks = size // TILE
    started = time.process_time()
    _multiply[(blocks, blocks), (TILE, TILE)](a, b, c)
    seconds = time.process_time() - started
    sys.stdout.write(f"{seconds} {int(np.array_equal(c, a @ b))}\n")


if __name__ == "__main__":
    main()
