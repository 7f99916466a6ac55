"""The largest magnitude of a tensor, as the fold and as the seed see it.

    fold, in the kernel    fmaxf(amax, |x|) from 0: a NaN is dropped, infinity is kept, an empty tensor has 0
    seed, on the host      PyTorch's amax: a NaN anywhere makes it NaN; an empty tensor is an error

Both run over the raw values, never the scaled ones, in float32 (exact for bf16 and fp16). One tensor with a NaN thus
poisons the seed for one step, and the fold of the same step recovers the ring.

Sources: 0z5a/AstrAI csrc/kernels/fp8/gemm.cuh, astrai/extension/fp8.py (ring era); that PyTorch's amax and clamp_min
keep a NaN is measured on an H200 (2.11.0) and on a CPU (2.13.0).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileproof.oracle.formats import FLOAT32
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class Amax:
    """The largest magnitude of one tensor.

    Raises:
        Refusal: a value that is negative or NaN.
    """

    #: Over everything that is no NaN; 0 where nothing is left.
    value: np.float32
    #: Whether the tensor holds a NaN.
    has_nan: bool = False
    #: Whether the tensor holds nothing.
    is_empty: bool = False

    def __post_init__(self) -> None:
        if np.isnan(self.value) or np.signbit(self.value):
            raise Refusal(
                f"amax {self.value} is negative or NaN: a maximum of magnitudes that drops NaN is neither",
                hint="say has_nan=True for a tensor with a NaN, or measure it with Amax.of",
            )

    @classmethod
    def of(cls, x: npt.NDArray[np.generic]) -> "Amax":
        """Measures a tensor: bfloat16, float16 or float32, any shape.

        Raises:
            Refusal: another type, float64 among them, whose values float32 may not hold.
        """
        if x.dtype.itemsize > 4 or x.dtype.kind in "iub":
            raise Refusal(f"x has type {x.dtype}", hint="a ring measures bfloat16, float16 and float32 tensors")
        bits = FLOAT32.encode(x, overflow="inf") & np.uint32(FLOAT32.magnitude_mask)
        nan = bits > FLOAT32.top_field
        largest = np.where(nan, np.uint32(0), bits).max(initial=0)
        return cls(np.float32(largest.view(np.float32)), bool(nan.any()), x.size == 0)
