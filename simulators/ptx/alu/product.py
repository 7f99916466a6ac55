"""Halves of full products of integers: what mul, mad and madc share."""

import numpy as np

from tileproof.simulators.ptx.alu.scalar import Bits, Scalar, extend, truncate


def high_product(a: Bits, b: Bits) -> Bits:
    """Bits 64 to 127 of the product of two unsigned 64-bit values, from products of 32-bit halves."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_high, a_low, b_high, b_low = a >> half, a & low, b >> half, b & low
    middle = a_high * b_low + ((a_low * b_low) >> half)
    carry = a_low * b_high + (middle & low)
    high: Bits = a_high * b_high + (middle >> half) + (carry >> half)
    return high


def high_half(a: Bits, b: Bits, scalar: Scalar) -> Bits:
    """The upper half of the full product."""
    if scalar.bits < 64:
        return truncate((extend(a, scalar) * extend(b, scalar)) >> np.uint64(scalar.bits), scalar.bits)
    product = high_product(a, b)
    if not scalar.signed:
        return product
    # Reading a as negative subtracts 2^64 from it, hence b from the upper half; likewise for b.
    negative_a, negative_b = a >> np.uint64(63), b >> np.uint64(63)
    corrected: Bits = product - negative_a * b - negative_b * a
    return corrected


def product_half(a: Bits, b: Bits, scalar: Scalar, *, high: bool) -> Bits:
    """The lower or upper half of the full product."""
    return high_half(a, b, scalar) if high else truncate(a * b, scalar.bits)
