"""IEEE binary formats as raw bits, and one correct rounding for all of them.

An exact result rarely fits any machine number. It is carried as a float64 *rounded to odd*: if it is inexact, of the
two neighbours the one whose last bit is 1. Rounding that float64 to a format with at most 51 significant bits, in any
mode and at any exponent, gives what rounding the exact result would: the odd last bit lies at least two places below
the target's last place, so it keeps the value strictly on its side of every representable number and every midpoint
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).

Example: 2^24 + 1 + 2^-60 to float32. Nearest float64 is 2^24 + 1, a midpoint, which then ties down to 2^24. Rounded to
odd it is 2^24 + 1 + 2^-28, which rounds up to 2^24 + 2, as it must.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.alu.scalar import Bits, Flags, pick

Doubles = NDArray[np.float64]


class Rounding(Enum):
    """PTX rounding modifiers; the value is the modifier."""

    NEAREST_EVEN = "rn"
    NEAREST_AWAY = "rna"
    ZERO = "rz"
    DOWN = "rm"
    UP = "rp"


@dataclass(frozen=True)
class Binary:
    """A binary interchange format, right-aligned in its bits.

    Args:
        exponent_bits: width of the exponent field.
        fraction_bits: stored bits of the significand.
    """

    exponent_bits: int
    fraction_bits: int

    @property
    def bits(self) -> int:
        """Width of a code."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.bits - 1)

    @property
    def minimum_exponent(self) -> int:
        """Exponent of the smallest normal number."""
        return 2 - (1 << (self.exponent_bits - 1))

    @property
    def smallest_normal(self) -> int:
        """Code of the smallest normal number."""
        return 1 << self.fraction_bits

    @property
    def infinity(self) -> int:
        """Code of infinity; the code below is the largest finite number."""
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def one(self) -> int:
        """Code of 1."""
        return ((1 << (self.exponent_bits - 1)) - 1) << self.fraction_bits

    @property
    def nan(self) -> int:
        """The NaN that arithmetic returns: all bits set but the sign (PTX ISA: 0x7FFFFFFF, 0x7FFF).

        binary64 is the exception: 0xFFF8000000000000 (`assumption.DOUBLE_NAN`).
        """
        return 0xFFF8_0000_0000_0000 if self.bits == 64 else self.sign - 1


BINARY16 = Binary(exponent_bits=5, fraction_bits=10)
BFLOAT16 = Binary(exponent_bits=8, fraction_bits=7)
BINARY32 = Binary(exponent_bits=8, fraction_bits=23)
BINARY64 = Binary(exponent_bits=11, fraction_bits=52)
TENSOR32 = Binary(exponent_bits=8, fraction_bits=10)

BINARIES = {"f16": BINARY16, "bf16": BFLOAT16, "f32": BINARY32, "f64": BINARY64, "tf32": TENSOR32}


def magnitude(codes: Bits, binary: Binary) -> Bits:
    """The codes without their sign."""
    return codes & np.uint64(binary.sign - 1)


def is_nan(codes: Bits, binary: Binary) -> Flags:
    """Where the codes are NaN."""
    return magnitude(codes, binary) > binary.infinity


def in_order(codes: Bits, binary: Binary) -> Bits:
    """Codes as unsigned integers in the order of their values; -0 comes before +0, NaN at both ends."""
    sign = np.uint64(binary.sign)
    return np.where(codes & sign != 0, sign - magnitude(codes, binary) - np.uint64(1), codes | sign)


def quiet(codes: Bits, binary: Binary) -> Bits:
    """NaN with the quiet bit set, sign and payload as they are."""
    return codes | np.uint64(binary.smallest_normal >> 1)


def flush_subnormals(codes: Bits, binary: Binary) -> Bits:
    """Subnormal numbers to zero of the same sign (`.ftz`)."""
    return np.where(magnitude(codes, binary) < binary.smallest_normal, codes & np.uint64(binary.sign), codes)


def decode(codes: Bits, binary: Binary) -> Doubles:
    """The values, exactly; every format here is contained in binary64."""
    if binary is BINARY64:
        return codes.astype(np.uint64).view(np.float64)
    with np.errstate(invalid="ignore"):  # signalling NaN become quiet
        if binary is BINARY16:
            return codes.astype(np.uint16).view(np.float16).astype(np.float64)
        aligned = codes << np.uint64(32 - binary.bits)  # bf16 and tf32 are the upper bits of a float32
        return aligned.astype(np.uint32).view(np.float32).astype(np.float64)


def encode(values: Doubles, binary: Binary, rounding: Rounding) -> Bits:
    """Round values that are exact, or rounded to odd, to a format narrower than binary64.

    NaN becomes the canonical NaN. Overflow gives infinity, or the largest finite number where the rounding is toward
    zero on that side.
    """
    if binary is BINARY32 and rounding is Rounding.NEAREST_EVEN:
        with np.errstate(over="ignore", invalid="ignore"):
            codes = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    else:
        codes = _encode_by_units(values, binary, rounding)
    return np.where(np.isnan(values), np.uint64(binary.nan), codes)


def flush_tiny(values: Doubles, binary: Binary, rounding: Rounding) -> Doubles:
    """Exact values to zero of the same sign if they are tiny in a format narrower than binary64.

    Tiny is what lies below the smallest normal number after rounding to the format's precision at any exponent (IEEE
    754, "tininess after rounding"). Two exponents further up every such rounding has room.
    """
    largest_tiny = np.uint64(3 * binary.smallest_normal - 1)  # the code before 4 times the smallest normal number
    tiny = magnitude(encode(values * 4.0, binary, rounding), binary) <= largest_tiny
    return np.where(tiny, np.copysign(0.0, values), values)


def _encode_by_units(values: Doubles, binary: Binary, rounding: Rounding) -> Bits:
    negative = np.signbit(values)
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    exponent = np.where(finite > 0, np.frexp(finite)[1] - 1, binary.minimum_exponent)
    exponent = np.maximum(exponent, binary.minimum_exponent)
    # In units of the last place: below 2^(fraction_bits + 1). Scaling is exact, for it never makes a value subnormal.
    units = round_integral(np.ldexp(finite, binary.fraction_bits - exponent), rounding, negative).astype(np.uint64)
    # A significand that rounds up to the next power of two carries into the exponent field, as it should.
    codes = units + ((exponent - binary.minimum_exponent).astype(np.uint64) << np.uint64(binary.fraction_bits))
    largest = np.where(_rounds_away(rounding, negative), binary.infinity, binary.infinity - 1).astype(np.uint64)
    codes = np.where(np.isinf(values), np.uint64(binary.infinity), np.minimum(codes, largest))
    return codes | pick(negative, np.uint64(binary.sign), np.uint64(0))


def _rounds_away(rounding: Rounding, negative: Flags) -> Flags:
    """Where a value beyond the largest finite number rounds to infinity."""
    nearest = rounding in (Rounding.NEAREST_EVEN, Rounding.NEAREST_AWAY)
    return np.where(negative, nearest or rounding is Rounding.DOWN, nearest or rounding is Rounding.UP)


def round_integral(magnitudes: Doubles, rounding: Rounding, negative: Flags) -> Doubles:
    """Round non-negative values to integers; `negative` is the sign that they lost."""
    down = np.floor(magnitudes)
    match rounding:
        case Rounding.NEAREST_EVEN:
            return np.rint(magnitudes)
        case Rounding.NEAREST_AWAY:
            return down + (magnitudes - down >= 0.5)
        case Rounding.ZERO:
            return down
        case Rounding.DOWN:
            return np.where(negative, np.ceil(magnitudes), down)
        case Rounding.UP:
            return np.where(negative, down, np.ceil(magnitudes))


def add_to_odd(a: Doubles, b: Doubles, rounding: Rounding) -> Doubles:
    """a + b rounded to odd; the rounding decides the sign of an exact zero only.

    The operands must be sums or products of narrower formats, so that no sum overflows and no difference is
    subnormal; both hold below 2^257 and for multiples of 2^-298, the extremes of float32 products.
    """
    with np.errstate(invalid="ignore"):
        total = a + b
        # Knuth's TwoSum: a + b = total + error exactly.
        b_part = total - a
        error = (a - (total - b_part)) + (b - b_part)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    step = np.where(np.signbit(error) == np.signbit(total), 1, -1)
    odd = (bits + np.where(inexact, step, 0)).view(np.float64)
    if rounding is not Rounding.DOWN:
        return odd
    # Toward minus infinity an exact zero is -0, unless both operands are +0.
    return np.where((odd == 0) & (np.signbit(a) | np.signbit(b)), -0.0, odd)


def require_gradual_underflow() -> None:
    """Check that this thread's float arithmetic keeps subnormals, which all of the above relies on.

    Libraries built with fast-math options switch flushing on for the whole thread when they are loaded.

    Raises:
        Refusal: subnormal operands or results are flushed.
    """
    for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        normal = np.full(8, np.finfo(dtype).tiny, dtype)
        subnormal = normal / dtype.type(4)
        if not (np.all(subnormal * dtype.type(4) == normal) and np.all(subnormal != 0)):
            raise Refusal(
                f"{dtype} arithmetic of this thread flushes subnormal numbers to zero",
                hint="import tileproof before, or run it without, the library that sets flush-to-zero",
            )
