"""What the arithmetic takes for granted where the PTX ISA leaves the choice open or is hard to read.

Each assumption is attached to the operations that it decides, so that the table of supported instructions can show
it and a run on hardware can turn its evidence from inferred to measured.
"""

from dataclasses import dataclass

from tileproof.oracle.evidence import Evidence


@dataclass(frozen=True)
class Assumption:
    """One rule that the document does not settle.

    Args:
        text: the rule as it is implemented.
        evidence: how well it is known.
        recording: of a measured rule, the file below docs/evidence that shows it.
    """

    text: str
    evidence: Evidence = Evidence.INFERRED
    recording: str = ""


def _measured(text: str) -> Assumption:
    return Assumption(text, Evidence.MEASURED, "h200-2026-11-30/alu.json")


ZERO_DIVISOR = _measured("an integer division or remainder by zero, unspecified in PTX, gives all ones")
MINIMUM_OVERFLOW = _measured("abs, neg and div of the most negative integer wrap to it; its rem by -1 is 0")
FIELD_RANGE = _measured(
    "of a position or length beyond 255, outside PTX, 32-bit fields take the low 8 bits and 64-bit fields all 32"
)
FLUSH_TINY = _measured(
    ".ftz flushes a result that is below the smallest normal number after rounding to full precision at any exponent"
)
VIDEO_LANES = _measured("vavrg adds 1 to a sum that is not negative before it halves it; .add takes results unclamped")
FIND_BASE = _measured("fns from a position beyond 31, outside PTX, finds nothing; with an offset of -2**31 it gives 0")
XORSIGN = _measured("min and max with .xorsign give their result, unless it is NaN, the exclusive or of both signs")
BORROW = _measured(
    "sub.cc and subc leave and take the carry of a + ~b + 1: 1 where nothing is borrowed, unlike the PTX ISA's borrow"
)
SCALE_RULE = Assumption(
    "cvt to ue8m0 ignores the sign; .rp takes what is at most 2**-127 to it; infinity is NaN without .satfinite"
)
SATURATED_ZERO = _measured(".sat and .relu turn -0 into +0")
SIGN_CHANGE_NAN = _measured("neg and abs of a NaN give the canonical NaN; of f64 the NaN itself, quiet, sign unchanged")
COPYSIGN_PAYLOAD = _measured("copysign changes the sign bit only, also of a NaN")
DOUBLE_NAN = _measured(
    "f64 arithmetic with NaN operands gives one of them, quiet: div the first, fma and mad the second, else the third, "
    "else the first, all others the last; a NaN that arises is 0xFFF8000000000000"
)
NARROW_NAN = _measured("a NaN converted between or copied in f16, bf16 and f32 is 0x7FFF or 0x7FFFFFFF")
DOUBLE_NAN_NARROWED = _measured("a NaN converted from f64 keeps its sign and the upper bits of its payload, quiet")
WIDE_NAN = _measured("a NaN converted to f64 keeps sign and payload and becomes quiet")
SHIFTED_NAN = _measured("bf16 to f32 is a shift, so a NaN keeps its bits")
FTZ_NAN = _measured(
    "cvt.ftz makes a NaN of f32, source or result, canonical, unless the source is f64; to f16 it flushes nothing"
)
INTEGER_NAN = _measured(
    "a NaN becomes the integer 0, but 2**(bits - 1) where the source is f64 or the destination has 64 bits"
)
INTEGRAL_NAN = _measured("rounding a NaN to an integral value gives the canonical NaN; f64 keeps the payload, quiet")
TF32_NAN = _measured(
    "the lowest 13 bits of a tf32 result are zero: a NaN is 0x7FFFE000; rna cuts it off, with satfinite one unit less"
)
EXACT_POINTS = Assumption(
    "where the result is normal, exact are ex2 of integers, rcp of powers of two, lg2 of those from 1 on, "
    "sqrt and rsqrt of powers of four",
    Evidence.MEASURED,
    "h200-2026-11-30/approximate.json",
)
