"""Index planes: data that shows exactly where every element of a buffer came from.

A buffer of bytes cannot number more than 256 positions, so the numbers are split into planes of one byte each and the
kernel runs once a plane: plane i holds byte i of every index. Putting the observed planes together again gives the map
from observed to expected positions, whatever the layout, known or not. A map that is affine in the bits of the position
is then told bit by bit. Example, rows of 64 bytes read without undoing the 64-byte swizzle: "bit 4 = in 4 ^ in 7, bit 5
= in 5 ^ in 8", all others themselves.
"""

import numpy as np
import numpy.typing as npt

from tileproof.oracle.addresses.digit import Offsets
from tileproof.oracle.addresses.gf2 import BitMatrix
from tileproof.oracle.refusal import Refusal

Planes = npt.NDArray[np.uint8]


def index_planes(size: int) -> Planes:
    """Planes that number `size` positions.

    Returns:
        uint8 [planes, size], lowest byte first.

    Raises:
        Refusal: no positions.
    """
    if size < 1:
        raise Refusal(f"a buffer of {size} elements has no positions to number")
    planes = max(1, -(-(size - 1).bit_length() // 8))
    index = np.arange(size, dtype=np.int64)
    return np.stack([(index >> 8 * plane & 255).astype(np.uint8) for plane in range(planes)])


def recover_map(observed: Planes) -> Offsets:
    """The expected position of every observed element, int64 [size]; -1 where the planes name none (poison, mixtures).

    Args:
        observed: uint8 [planes, size], what came back for each plane of `index_planes`.
    """
    planes, size = observed.shape
    shifts = 8 * np.arange(planes, dtype=np.int64)[:, np.newaxis]
    index = (observed.astype(np.int64) << shifts).sum(axis=0)
    return np.where(index < size, index, -1)


def bit_map(source: Offsets) -> tuple[BitMatrix, int] | None:
    """Matrix and constant of a map that is affine in the bits of the position, source = matrix · p ^ constant.

    Returns:
        None for a size that is no power of two, a position without a source, or a map that is not affine.
    """
    size = int(source.size)
    if size == 0 or size & (size - 1) or np.any(source < 0):
        return None
    constant = int(source[0])
    matrix = BitMatrix.of(lambda position: int(source[position]) ^ constant, size.bit_length() - 1)
    affine = matrix.apply_all(np.arange(size, dtype=np.int64)) ^ constant
    return (matrix, constant) if np.array_equal(affine, source) else None
