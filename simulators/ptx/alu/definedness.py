"""Rules for undefined bits, shared by the operations.

A mask has a bit set where the value's bit depends on something that nothing wrote. A rule is sound when no undefined
source bit can change a result bit that it calls defined: adding 0b?000 to 0b0101 may change bits 3 and up,
never 0 to 2.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_

import numpy as np

from tileproof.simulators.ptx.alu.operation import Undefined
from tileproof.simulators.ptx.alu.scalar import Bits, Scalar, mask_of, pack, truncate, unpack

Rule = Callable[..., Bits]


def union(masks: Sequence[Bits]) -> Bits:
    """The bits that are undefined in any of the masks."""
    return reduce(or_, masks)


def everything_if(condition: Bits, bits: int) -> Bits:
    """All `bits` bits where the condition holds (is not zero), none elsewhere."""
    return np.where(condition != 0, np.uint64(mask_of(bits)), np.uint64(0))


def whole(*destination_bits: int) -> Undefined:
    """Any undefined source bit makes every destination undefined as a whole."""

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        any_bit = union(masks)
        return tuple(everything_if(any_bit, bits) for bits in destination_bits)

    return undefined


def whole_by_lane(scalar: Scalar) -> Undefined:
    """Like `whole`, for each lane of operands that all have the given type."""
    lane_bits = scalar.bits // scalar.lanes

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        lanes = unpack(union(masks), scalar.lanes, lane_bits)
        return (pack([everything_if(lane, lane_bits) for lane in lanes], lane_bits),)

    return undefined


def upward(bits: int, *, lanes: int = 1) -> Undefined:
    """Carries only go up: everything at and above the lowest undefined source bit, in each lane."""
    lane_bits = bits // lanes

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        # m | -m sets the lowest set bit of m and all above it, and is 0 for m = 0.
        merged = unpack(union(masks), lanes, lane_bits)
        return (pack([truncate(lane | (np.uint64(0) - lane), lane_bits) for lane in merged], lane_bits),)

    return undefined


def unless_controlled(function: Rule, bits: int, *, data: int) -> Undefined:
    """For operations that move bits: the function itself moves the masks, if its control operands are defined.

    Args:
        function: the operation; its first `data` operands are moved bit by bit, the others say how.
        bits: width of the result.
        data: how many operands are data.
    """

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        moved = function(*masks[:data], *values[data:])
        return (moved | everything_if(union(masks[data:]), bits),)

    return undefined


def selected(condition: Bits, unknown: Bits, choices: tuple[Bits, Bits], masks: tuple[Bits, Bits]) -> Bits:
    """Choosing between two values: an unknown choice is harmless where both are defined and equal.

    Args:
        condition: whether the first is chosen.
        unknown: not zero where the condition is undefined.
        choices: the two values.
        masks: their undefined bits.
    """
    either = (choices[0] ^ choices[1]) | masks[0] | masks[1]
    return np.where(unknown != 0, either, np.where(condition != 0, masks[0], masks[1]))
