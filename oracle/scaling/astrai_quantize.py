"""AstrAI's `quantize`: one scale for the tensor, at the two stages of its life, in three output layouts.

    stage STEP        scale is the step:        inverse = 1 / scale,  code = fp8(x · inverse)     bfloat16 only
    stage MULTIPLIER  scale is the multiplier:  code = fp8(x · scale)              bfloat16, float16, float32

fp8 is nearest even, saturating, NaN as 0x7F (PTX `cvt.rn.satfinite`); each operation is one float32 operation. Next to
the codes comes amax, the largest |x| of the *raw* values, NaN dropped (fmaxf), which the scale ring folds.

Example: x = 3 and step 0.1 (0x1.99999ap-4): inverse 10 exactly rounds to 10, code of 30. With the multiplier 10 the
same; with a step whose inverse rounds the two stages differ unless the caller passes that rounded inverse.

Leading axes are flattened to rows: x [..., C] is [R, C]. The transposed codes are [C, R], and the two of a dual output
may have different formats. Sources: 0z5a/AstrAI csrc/kernels/fp8/{gemm.cuh,ops.cu}, ring era (stored ids 60889737882,
61032977129); the multiplier @057c0d33. An edge follows the arithmetic: step 0 has inverse infinity, so 0 is 0x7F.
"""

from dataclasses import dataclass
from enum import Enum
from math import prod

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tileproof.oracle.arguments import require_member
from tileproof.oracle.formats import E4M3FN, E5M2, FLOAT32, FloatFormat
from tileproof.oracle.numbers.float32 import ONE, divide, multiply
from tileproof.oracle.numbers.float32_array import Float32s, require_subnormals, widen
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.refusal import Refusal

FORMATS = (E4M3FN, E5M2)


class Stage(Enum):
    """What the scale argument means; the value is the formula."""

    STEP = "fp8(x * (1 / scale))"
    MULTIPLIER = "fp8(x * scale)"


@dataclass(frozen=True)
class Outputs:
    """Which layouts are written, each in its format.

    Raises:
        Refusal: neither, or another format.
    """

    rows: FloatFormat | None = E4M3FN
    transposed: FloatFormat | None = None

    def __post_init__(self) -> None:
        wanted = [record for record in (self.rows, self.transposed) if record is not None]
        if not wanted or any(record not in FORMATS for record in wanted):
            names = " and ".join(record.name for record in wanted) or "no layout"
            raise Refusal(f"AstrAI's quantize does not write {names}", hint="E4M3FN or E5M2, in one layout or both")


@dataclass(frozen=True, eq=False)
class AstraiQuantized:
    """The result of `quantize`."""

    #: uint8 of x's shape, or None.
    rows: npt.NDArray[np.uint8] | None
    #: uint8 [C, R], or None.
    transposed: npt.NDArray[np.uint8] | None
    #: float32: the largest magnitude of x, 0 where x has no number.
    amax: np.float32


def quantize_code(x: Number, scale: Number, stage: Stage, target: FloatFormat) -> int:
    """The definition: the code of one float32 number with a float32 scale."""
    require_member(Stage, "stage", stage)
    inverse = divide(ONE, scale) if stage is Stage.STEP else scale
    return target.round(multiply(x, inverse))


def quantize(
    x: npt.NDArray[np.generic], scale: np.float32, stage: Stage, outputs: Outputs = Outputs()
) -> AstraiQuantized:
    """Quantises a tensor with one given scale; held to `quantize_code`.

    Args:
        x: bfloat16 [..., C], of any size; in stage MULTIPLIER also float16 and float32. Two axes or more for a
            transposed output.
        scale: float32, what `stage` says it is.
        stage: the stage of AstrAI's source.
        outputs: layouts and formats.

    Raises:
        Refusal: another type of x, scale or stage, too few axes, or a process that flushes subnormals.
    """
    array = np.asarray(x)
    require_member(Stage, "stage", stage)
    if stage is Stage.STEP and array.dtype != ml_dtypes.bfloat16:
        raise Refusal(f"x has type {array.dtype}; the stage with a step takes bfloat16", hint="or stage MULTIPLIER")
    if not isinstance(scale, np.float32):
        raise Refusal(f"the scale is a {type(scale).__name__}, not a float32 scalar")
    if outputs.transposed is not None and array.ndim < 2:
        raise Refusal(f"x has shape {array.shape}; a transposed output needs two axes or more")
    require_subnormals()
    wide = np.ascontiguousarray(widen(array, "x of AstrAI's quantize"))
    with np.errstate(all="ignore"):
        values = wide * (np.float32(1) / scale if stage is Stage.STEP else scale)
    rows = None if outputs.rows is None else _encode(outputs.rows, values)
    transposed = None if outputs.transposed is None else _transposed(_encode(outputs.transposed, values))
    return AstraiQuantized(rows, transposed, raw_amax(wide))


def raw_amax(x: Float32s) -> np.float32:
    """The largest magnitude, NaN dropped; 0 for no number. The order of bit patterns is that of the magnitudes."""
    bits = x.view(np.uint32) & np.uint32(FLOAT32.magnitude_mask)
    largest: np.uint32 = np.where(bits > FLOAT32.top_field, np.uint32(0), bits).max(initial=0)
    return largest.view(np.float32)


def _encode(target: FloatFormat, values: Float32s) -> npt.NDArray[np.uint8]:
    return target.encode(values, out=np.empty(values.shape, np.uint8))


def _transposed(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    *leading, columns = codes.shape
    return np.ascontiguousarray(codes.reshape(prod(leading), columns).T)
