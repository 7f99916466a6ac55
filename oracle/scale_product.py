"""Scalars that later launches take: a product of two scales, or a copy of one.

A product is one float32 multiplication, to nearest even, subnormal results and operands kept. A NaN is 0x7FFFFFFF,
whatever its operands' payloads were: single precision has one NaN (PTX ISA 9.1, "Floating Point Instructions"). A copy
has the bits of what is copied.
"""

import numpy as np
from numpy.typing import NDArray

from tileproof.oracle.formats import FLOAT32

NAN = np.uint32(0x7FFFFFFF)
"""The one NaN that arithmetic of single precision gives."""


def scale_product(first: NDArray[np.float32], second: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """first · second, or first where there is no second; float32 of one shape.

    A product of two float32 is exact in float64 (48 bits; exponents from -298 to 255), so that it is rounded once.
    """
    if second is None:
        return first.copy()
    with np.errstate(invalid="ignore"):  # a signalling NaN, or infinity times 0
        exact = first.astype(np.float64) * second.astype(np.float64)
    bits = FLOAT32.encode(exact, overflow="inf")
    return np.asarray(np.where(np.isnan(exact), NAN, bits), np.uint32).view(np.float32)
