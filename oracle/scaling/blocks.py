"""FP8 quantisation block by block: a scale for the whole tensor, a row, 1×128, 128×128 or any rectangle of elements.

A block is a rectangle of x [T, K]; the last one of a row or column may be smaller, which is the same as padding with
zeros. Each block gets the scale that its rule gives its largest magnitude (`scale_rule`), and each element the code of
its scaled value, nearest even, saturating, NaN as 0x7F (PTX `cvt.rn.satfinite`).

Example, blocks of 1×2 in [[1, 3, 448]] by `NINFER_ROW`: scales 3/448 and 1, codes 0x71, 0x7E and 0x7E.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileproof.oracle.formats import E4M3FN, FloatFormat
from tileproof.oracle.numbers.float32 import float32_code
from tileproof.oracle.numbers.float32_array import Float32s, require_subnormals, widen
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.scaling.scale_rule import ScaleRule, amax_of, scale_of, scaled
from tileproof.oracle.scaling.scale_rule_array import Scales, magnitude_bits, scaled_values, scales_of


@dataclass(frozen=True)
class Granularity:
    """The extents of a block; None is the whole axis.

    Raises:
        Refusal: an extent below 1.
    """

    rows: int | None
    columns: int | None

    def __post_init__(self) -> None:
        for extent in (self.rows, self.columns):
            if extent is not None and extent < 1:
                raise Refusal(f"a block of {self.rows} rows and {self.columns} columns is empty")

    def count(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Blocks along both axes of a matrix."""
        return _blocks(shape[0], self.rows), _blocks(shape[1], self.columns)


PER_TENSOR = Granularity(None, None)
PER_ROW = Granularity(1, None)
PER_COLUMN = Granularity(None, 1)
#: DeepSeek-V3's activations (technical report, section 3.3.2).
PER_1X128 = Granularity(1, 128)
#: DeepSeek-V3's weights.
PER_128X128 = Granularity(128, 128)


@dataclass(frozen=True, eq=False)
class QuantizedBlocks:
    """The result of `quantize_blocks`."""

    #: uint8 [T, K].
    codes: npt.NDArray[np.uint8]
    #: Steps, float32 [blocks of rows, blocks of columns].
    scales: Float32s


def quantize_block(block: Sequence[Number], rule: ScaleRule, target: FloatFormat = E4M3FN) -> tuple[list[int], int]:
    """The definition, on the elements of one block: exact numbers that float32 can hold.

    Returns:
        The codes, and the float32 bit pattern of the step.
    """
    scale = scale_of(rule, amax_of(rule, block))
    return [target.round(scaled(rule, x, scale)) for x in block], float32_code(scale.step)


def quantize_blocks(
    x: npt.NDArray[np.generic], rule: ScaleRule, granularity: Granularity, *, target: FloatFormat = E4M3FN
) -> QuantizedBlocks:
    """Quantises each block of x; held to `quantize_block` bit for bit.

    Args:
        x: bfloat16, float16 or float32 [T, K], T >= 0, K >= 1; T >= 1 where a block spans all rows.
        rule: how a block gets its scale.
        granularity: the extents of a block.
        target: a signed format of at most 8 bits.

    Raises:
        Refusal: another type, rank or target, no element in a block, or a process that flushes subnormals.
    """
    wide = require_matrix(x, "quantize_blocks")
    if not target.signed or target.bits > 8:
        raise Refusal(f"blocks of {target.name} are not defined here", hint="a signed format of at most 8 bits")
    if wide.shape[0] == 0 and granularity.rows is None:
        raise Refusal("x has T = 0 rows; a block of all rows needs at least one to have a scale")
    require_subnormals()
    scales = scales_of(rule, block_amax(rule, wide, granularity))
    spread = Scales(spread_blocks(scales.steps, wide, granularity), spread_blocks(scales.inverses, wide, granularity))
    values = scaled_values(rule, wide, spread)
    return QuantizedBlocks(target.encode(values, out=np.empty(wide.shape, np.uint8)), scales.steps)


def require_matrix(x: npt.NDArray[np.generic], taker: str) -> Float32s:
    """x as a float32 matrix, exactly.

    Raises:
        Refusal: another type, another rank than 2, or no columns.
    """
    array = np.asarray(x)
    if array.ndim != 2:
        raise Refusal(f"x has shape {array.shape}; {taker} takes rank 2, [T, K]")
    if array.shape[1] == 0:
        raise Refusal("x has K = 0 columns; a row needs at least one element to have a scale")
    return widen(array, f"x of {taker}")


def block_amax(rule: ScaleRule, x: Float32s, granularity: Granularity) -> Float32s:
    """The largest magnitude of each block, float32 [blocks of rows, blocks of columns]."""
    bits = magnitude_bits(rule, x)
    if x.shape[0]:
        bits = np.maximum.reduceat(bits, _starts(x.shape[1], granularity.columns), axis=1)
        return np.maximum.reduceat(bits, _starts(x.shape[0], granularity.rows), axis=0).view(np.float32)
    return np.zeros((0, _blocks(x.shape[1], granularity.columns)), np.float32)


def spread_blocks(values: Float32s, x: Float32s, granularity: Granularity) -> Float32s:
    """Values of blocks so that they broadcast against x: repeated along an axis that has several blocks of several."""
    for axis, extent in enumerate((granularity.rows, granularity.columns)):
        if extent is not None and extent > 1 and values.shape[axis] > 1:
            values = np.repeat(values, extent, axis=axis).take(range(x.shape[axis]), axis=axis)
    return values


def _blocks(size: int, extent: int | None) -> int:
    return -(-size // extent) if extent else 1


def _starts(size: int, extent: int | None) -> npt.NDArray[np.intp]:
    return np.arange(0, size, extent or size, dtype=np.intp)
