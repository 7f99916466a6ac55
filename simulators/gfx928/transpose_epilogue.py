"""The shuffled epilogue: from single columns a lane to four neighbours, so that one store writes 8 bytes.

The unit leaves C spread out: lane (r, q) has columns q, q + 4, q + 8, q + 12 of row r. Lanes of one row, four quarters
of four values, are a 4 × 4 square; transposed, lane (r, q) has columns 4q .. 4q + 3. Two exchanges do it, one for each
bit of q: a lane keeps the values whose number agrees with q in that bit and gives away the others.

    bit 0, shfl_xor 16: value i of quarter q  <->  value i ^ 1 of quarter q ^ 1, where bit 0 of i and of q differ
    bit 1, shfl_xor 32: the same with bit 1

Example, quarter 1 of row r, columns 1, 5, 9, 13: after bit 0 it has 4, 5, 12, 13; after bit 1 it has 4, 5, 6, 7.

Source: HuangPuStar/MetaInfer int8-w8a8-gemm-prefill/SKILL.md @f3ac90ad section 3.3 (4x4 __shfl_xor transpose).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.addresses.bijection import Bijection, NotABijection, prove_enumeration
from tileproof.oracle.maps.dumma_fragments import DUMMA_C
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.wave import LANE, LANES, QUARTER, ROW, shfl_xor

#: Values of C that a lane holds, and columns that it stores.
VALUES = 4
#: Lane numbers that differ in one bit of q.
MASKS = (16, 32)


def exchange(values: npt.NDArray[Any], bit: int) -> npt.NDArray[Any]:
    """One step.

    Args:
        values: [..., 64 lanes, 4 values].
        bit: 0 or 1, of q and of the value's number.

    Raises:
        Refusal: other lanes, values or bits.
    """
    if values.shape[-2:] != (LANES, VALUES) or bit not in (0, 1):
        raise Refusal(f"an exchange of {values.shape} by bit {bit}", hint=f"[..., {LANES}, {VALUES}], bit 0 or 1")
    other = np.moveaxis(shfl_xor(np.moveaxis(values, -2, -1), MASKS[bit]), -1, -2)
    number = np.arange(VALUES)
    stays = (number >> bit & 1) == (QUARTER[:, np.newaxis] >> bit & 1)
    return np.where(stays, values, other[..., number ^ (1 << bit)])


def transpose(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Lane (r, q) gets columns 4q .. 4q + 3 of row r of what was in the unit's order, [..., 64, 4]."""
    return exchange(exchange(values, 0), 1)


def stored_element(lane: npt.NDArray[np.int64] = LANE) -> npt.NDArray[np.int64]:
    """Elements of C, row · 16 + column, that each lane stores: [lanes, 4]."""
    return (16 * ROW[lane] + VALUES * QUARTER[lane])[:, np.newaxis] + np.arange(VALUES)


def prove_transpose() -> Bijection:
    """Proves on the elements' own numbers that each reaches the lane and place that stores it, and that none is lost.

    Raises:
        NotABijection: an element goes elsewhere.
    """
    numbers = np.arange(DUMMA_C.rows * DUMMA_C.columns, dtype=np.int32).reshape(DUMMA_C.rows, DUMMA_C.columns)
    moved = transpose(DUMMA_C.gather(numbers))
    if np.any(moved != stored_element()):
        lane, value = (int(index[0]) for index in np.nonzero(moved != stored_element()))
        raise NotABijection(f"lane {lane} would store element {moved[lane, value]} as value {value}")
    return prove_enumeration([moved.astype(np.int64).reshape(-1)], LANES * VALUES)
