"""The array twin of `epilogue`: the same operations on a whole output [T, N]."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tileproof.oracle.epilogue import Addend, Axis, Contraction, EpilogueRule, Output, require_operands
from tileproof.oracle.formats import E4M3FN, FLOAT32, FloatFormat
from tileproof.oracle.numbers.float32_array import (
    Float32s,
    fused_multiply_add,
    require_subnormals,
    round_bfloat16,
    widen,
)
from tileproof.oracle.refusal import Refusal

Array = npt.NDArray[Any]

_NAN = np.uint32(FLOAT32.nan_code).view(np.float32)


@dataclass(frozen=True, eq=False, kw_only=True)
class Operands:
    """What an epilogue works on, for an output of T rows and N columns.

    Raises:
        Refusal: a scalar scale that is no float32 scalar; a wider one would widen the arithmetic.
    """

    #: float32 or int32 [T, N].
    accumulators: Array
    #: float32 (or bfloat16, widened exactly): [], [T] or [N] as the rule says.
    factors: tuple[Array, ...]
    #: bfloat16 [N] or [T, N]; with `bias_format` codes [N].
    addend: Array | None = None
    bias_format: FloatFormat | None = None
    bias_scale: np.float32 | None = None
    out_scale: np.float32 | None = None

    def __post_init__(self) -> None:
        for name, scale in (("bias_scale", self.bias_scale), ("out_scale", self.out_scale)):
            if scale is not None and not isinstance(scale, np.float32):
                raise Refusal(f"{name} is a {type(scale).__name__}, not a float32 scalar", hint="pass np.float32(...)")


def apply_epilogue(rule: EpilogueRule, operands: Operands) -> Array:
    """The output of a whole matrix; held to `epilogue.epilogue_code` bit for bit.

    Returns:
        bfloat16 [T, N], or E4M3FN codes uint8 [T, N].

    Raises:
        Refusal: an operand of another type or shape, one that the rule does not have, one missing, or a process that
            flushes subnormals.
    """
    given = (operands.addend is not None, operands.bias_scale is not None, operands.out_scale is not None)
    require_operands(rule, len(operands.factors), *given)
    require_subnormals()
    total = _accumulators(operands.accumulators)
    factors = [_factor(axis, factor, total.shape) for axis, factor in zip(rule.factors, operands.factors, strict=True)]
    addend = None if operands.addend is None else _addend(rule, operands, total.shape)
    with np.errstate(all="ignore"):
        last = factors[-1]
        if rule.premultiplied:
            last = reduce(np.multiply, factors)
        else:
            total = reduce(np.multiply, factors[:-1], total)
        return _output(
            rule.output, _sum(rule.contraction, total, last, addend, operands.bias_scale), operands.out_scale
        )


def _sum(
    contraction: Contraction, total: Float32s, last: Float32s, addend: Float32s | None, bias_scale: np.float32 | None
) -> Float32s:
    if addend is None:
        return np.asarray(total * last)
    if contraction is Contraction.BIAS and bias_scale is not None:
        return fused_multiply_add(addend, np.asarray(bias_scale), total * last)
    term = addend if bias_scale is None else addend * bias_scale
    if contraction is Contraction.SCALE:
        return fused_multiply_add(total, last, term)
    return np.asarray(total * last + term)


def _output(output: Output, values: Float32s, out_scale: np.float32 | None) -> Array:
    if out_scale is not None:
        return E4M3FN.encode(values * out_scale, out=np.empty(values.shape, np.uint8))
    if output is Output.BFLOAT16_PLAIN:
        bits = np.where(np.isnan(values), _NAN, values).view(np.uint32)
        rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))  # wraps as the kernel's does
        return (rounded >> np.uint32(16)).astype(np.uint16).view(ml_dtypes.bfloat16)
    return round_bfloat16(values)


def _accumulators(values: Array) -> Float32s:
    """float32; an int32 is rounded to nearest even by the processor's one conversion (the tests hold it to that)."""
    array = np.asarray(values)
    if array.ndim != 2 or array.dtype not in (np.dtype(np.float32), np.dtype(np.int32)):
        raise Refusal(f"accumulators are {array.dtype} {array.shape}", hint="float32 or int32 [T, N]")
    return array.astype(np.float32)


def _factor(axis: Axis, factor: Array, shape: tuple[int, ...]) -> Float32s:
    array = np.asarray(factor)
    if array.shape != {Axis.TENSOR: (), Axis.ROW: shape[:1], Axis.COLUMN: shape[1:]}[axis]:
        raise Refusal(f"a factor of shape {array.shape} for an output {shape}", hint=f"its shape is {axis.value}")
    wide = widen(array, "a factor of an epilogue")
    return wide[:, np.newaxis] if axis is Axis.ROW else wide


def _addend(rule: EpilogueRule, operands: Operands, shape: tuple[int, ...]) -> Float32s:
    array = np.asarray(operands.addend)
    what, wanted = ("bias", shape[1:]) if rule.addend is Addend.BIAS else ("residual", shape)
    if array.shape != wanted:
        raise Refusal(f"a {what} of shape {array.shape} for an output {shape}", hint=f"its shape is {wanted}")
    if rule.bias_scaled != (operands.bias_format is not None):
        raise Refusal(f"{rule.name}: an FP8 bias comes with its scale and its format, a bf16 bias with neither")
    if operands.bias_format is not None:
        return operands.bias_format.decode(array, out=np.empty(array.shape, np.float32))
    if array.dtype != ml_dtypes.bfloat16:
        raise Refusal(f"a {what} of type {array.dtype}", hint="bfloat16")
    return widen(array, f"a {what} of an epilogue")
