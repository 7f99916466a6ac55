"""SwiGLU: bfloat16(silu(gate) · up), where gate and up were themselves rounded to bfloat16 first.

Both pass through a bfloat16 staging tile, so silu sees 65,536 different gates. silu is a bracket (`silu`), so an output
is a set: every bfloat16 between two ends, nearly always one. silu(gate) · up is one float32 product; then it is rounded
once more.

Example, gate 1 and up 3: silu in 0x1.764d4ep-1 .. 0x1.764d50p-1, the products are about 0x1.18b9fap+1, the bfloat16 is
2.1875 for both: decided.

Source: ninfer's SwiGLU output policy (stored id 70734351477): gate rows first, up rows 17,408 behind them.
"""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tileproof.oracle.epilogues.silu import CUDA_SILU, SiluRule, silu_bracket, silu_table
from tileproof.oracle.formats import BFLOAT16
from tileproof.oracle.numbers.float32 import multiply
from tileproof.oracle.numbers.float32_array import Float32s, require_subnormals, round_bfloat16, widen
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.refusal import Refusal

#: Width of ninfer's SwiGLU output: up rows begin here.
NINFER_WIDTH = 17408

_NAN = BFLOAT16.nan_code


@dataclass(frozen=True, eq=False)
class SwigluSet:
    """The allowed outputs: every bfloat16 from `lower` to `upper`, in the order of values with -0 below +0."""

    lower: npt.NDArray[Any]
    upper: npt.NDArray[Any]

    @property
    def decided(self) -> npt.NDArray[np.bool_]:
        """Where one output alone is allowed."""
        return np.asarray(self.lower.view(np.uint16) == self.upper.view(np.uint16))

    @property
    def undecided_share(self) -> float:
        """The share of elements with more than one allowed output; 0 for none at all."""
        return float(1 - self.decided.mean()) if self.lower.size else 0.0

    def allows(self, observed: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Whether each observed bfloat16 is allowed.

        Raises:
            Refusal: another type or shape.
        """
        if observed.dtype != ml_dtypes.bfloat16 or observed.shape != self.lower.shape:
            raise Refusal(f"observed {observed.dtype} {observed.shape}", hint=f"bfloat16 {self.lower.shape}")
        key = _key(observed)
        return np.asarray((_key(self.lower) <= key) & (key <= _key(self.upper)))


def swiglu_codes(gate: int, up: int, rule: SiluRule = CUDA_SILU) -> tuple[int, int]:
    """The definition: the bfloat16 codes of the two ends, for one pair of bfloat16 codes."""
    ends = (multiply(end, BFLOAT16.number(up)) for end in silu_bracket(rule, BFLOAT16.number(gate)))
    codes = [BFLOAT16.round(end, Rounding.NEAREST_EVEN, Overflow.INF) for end in ends]
    if _NAN in codes:
        return _NAN, _NAN
    low, high = sorted(codes, key=lambda code: -(code & 0x7FFF) - 1 if code >> 15 else code)
    return low, high


def swiglu(gate: npt.NDArray[Any], up: npt.NDArray[Any], rule: SiluRule = CUDA_SILU) -> SwigluSet:
    """The allowed outputs of whole arrays; held to `swiglu_codes`.

    Args:
        gate: bfloat16, any shape.
        up: bfloat16, the same shape.
        rule: how far silu's operations may err.

    Raises:
        Refusal: another type, shapes that differ, or a process that flushes subnormals.
    """
    for name, array in (("gate", gate), ("up", up)):
        if array.dtype != ml_dtypes.bfloat16 or array.shape != gate.shape:
            raise Refusal(
                f"{name} is {array.dtype} {array.shape}, the gate has shape {gate.shape}",
                hint="both are bfloat16 of one shape: round to bfloat16 first",
            )
    require_subnormals()
    codes = np.ascontiguousarray(gate).view(np.uint16)
    low, high = silu_table(rule)
    factor = widen(up, "up of swiglu")
    with np.errstate(all="ignore"):
        ends = [_bfloat16(table[codes] * factor) for table in (low, high)]
    swapped = _key(ends[0]) > _key(ends[1])
    nan = (ends[0].view(np.uint16) == _NAN) | (ends[1].view(np.uint16) == _NAN)
    lower, upper = np.where(swapped, ends[1], ends[0]), np.where(swapped, ends[0], ends[1])
    canonical = np.array(_NAN, np.uint16).view(ml_dtypes.bfloat16)
    return SwigluSet(np.where(nan, canonical, lower), np.where(nan, canonical, upper))


def swiglu_of_rows(product: npt.NDArray[Any], rule: SiluRule = CUDA_SILU, *, width: int = NINFER_WIDTH) -> SwigluSet:
    """SwiGLU of a product [T, 2 · width] in bfloat16: gate columns first, up columns `width` behind them.

    Raises:
        Refusal: another shape, or as `swiglu`.
    """
    if product.ndim != 2 or product.shape[1] != 2 * width:
        raise Refusal(f"a product of shape {product.shape}", hint=f"[T, {2 * width}]: gate and up columns")
    return swiglu(product[:, :width], product[:, width:], rule)


def _bfloat16(values: Float32s) -> npt.NDArray[Any]:
    return round_bfloat16(np.asarray(values))


def _key(values: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Integers in the order of the values; -0 below +0, a NaN with its sign outside of the infinities."""
    bits = np.ascontiguousarray(values).view(np.uint16).astype(np.int32)
    return np.where(bits >> 15, -(bits & 0x7FFF) - 1, bits)
