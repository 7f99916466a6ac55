"""The array twin of `float32`: numpy's operations on float32 arrays, and a fused multiply-add that numpy lacks.

Multiplication, division and addition of two float32 arrays are single IEEE operations of the processor, which round
correctly unless the process was switched to flush subnormals (`require_subnormals`); the tests hold them to `float32`.

Fused multiply-add, exactly: the product p of two float32 is exact in float64 (48 bits; exponents from -298 to 255). The
sum p + c rounded to float64 loses an error that Knuth's TwoSum gives exactly. Rounding to odd, that is, moving the sum
to its odd neighbour where it is even and inexact, makes the last rounding to float32 the only one: a float64 has more
than two bits beyond a float32, also a subnormal one (Boldo and Melquiond, "Emulation of FMA and correctly rounded
sums", IEEE TC 57(4), 2008, theorem 1).
"""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tileproof.oracle.formats import BFLOAT16, FLOAT32
from tileproof.oracle.refusal import Refusal

Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]

#: The types that float32 holds exactly and that kernels read.
INPUT_DTYPES = (np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32))


def widen(x: npt.NDArray[Any], what: str) -> Float32s:
    """Values as float32, exactly.

    Args:
        x: bfloat16, float16 or float32, any shape and byte order.
        what: how to name x in a refusal, with the operation: "x of quantize_rows".

    Raises:
        Refusal: another type.
    """
    if x.dtype.newbyteorder("=") not in INPUT_DTYPES:
        name, _, taker = what.partition(" of ")
        raise Refusal(f"{name} has type {x.dtype}", hint=f"{taker} takes bfloat16, float16 or float32")
    if x.dtype.itemsize == 4:
        return x.astype(np.float32, copy=False)
    if x.dtype.newbyteorder("=") == ml_dtypes.bfloat16:
        native = np.ascontiguousarray(x, np.dtype(ml_dtypes.bfloat16))
        return BFLOAT16.decode(native.view(np.uint16), out=np.empty(x.shape, np.float32))
    return FLOAT32.encode(x, overflow="inf").view(np.float32)


def require_subnormals() -> None:
    """Refuses a process whose float32 operations flush subnormals (a library built with -ffast-math can cause that).

    Raises:
        Refusal: it does.
    """
    smallest = np.array([1], np.uint32).view(np.float32)
    if not (smallest * np.float32(1)).view(np.uint32)[0]:
        raise Refusal(
            "this process flushes subnormal floats to zero, so float32 results would be wrong",
            hint="find the library that sets FTZ/DAZ (often one built with -ffast-math) and do not load it here",
        )


def fused_multiply_add(a: Float32s, b: Float32s, c: Float32s) -> Float32s:
    """a · b + c with one rounding; arrays that broadcast."""
    with np.errstate(all="ignore"):
        product = a.astype(np.float64) * b.astype(np.float64)
        return _sum_rounded_to_odd(product, np.asarray(c, np.float64)).astype(np.float32)


def _sum_rounded_to_odd(a: Float64s, b: Float64s) -> Float64s:
    total = np.asarray(a + b)
    part = total - a
    error = (a - (total - part)) + (b - part)  # Knuth's TwoSum: total + error = a + b exactly
    bits = total.view(np.int64)
    # Only a finite sum that is inexact and even moves; one step in the code toward the side on which the error lies.
    moves = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    grows = (error > 0) == (total > 0)
    return np.asarray((bits + np.where(moves, np.where(grows, 1, -1), 0)).view(np.float64))


def round_bfloat16(x: Float32s) -> npt.NDArray[Any]:
    """The bfloat16 nearest to each float32, NaN as 0x7FFF (PTX ISA 9.1, `cvt.rn.bf16.f32`)."""
    codes = BFLOAT16.encode(x, overflow="inf", out=np.empty(x.shape, np.uint16))
    return codes.view(ml_dtypes.bfloat16)
