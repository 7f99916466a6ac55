"""What the arithmetic takes for granted where the PTX ISA leaves the choice open or is hard to read.

Each assumption is attached to the operations that it decides, so that the table of supported instructions can show
it and a run on hardware can turn its evidence from inferred to measured.
"""

from dataclasses import dataclass
from enum import Enum


class Evidence(Enum):
    """How well a rule is known."""

    DOCUMENTED = "documented"
    MEASURED = "measured on hardware"
    INFERRED = "inferred"


@dataclass(frozen=True)
class Assumption:
    """One rule that the document does not settle.

    Args:
        text: the rule as it is implemented.
        evidence: how well it is known.
    """

    text: str
    evidence: Evidence = Evidence.INFERRED


ZERO_DIVISOR = Assumption("an integer division or remainder by zero, unspecified in PTX, gives all ones")
MINIMUM_OVERFLOW = Assumption("abs, neg and div of the most negative integer wrap to it; its rem by -1 is 0")
FLUSH_AFTER_ROUNDING = Assumption(".ftz flushes a result that is subnormal after rounding, not before")
SATURATED_ZERO = Assumption(".sat and .relu turn -0 into +0")
SIGN_KEEPS_PAYLOAD = Assumption("neg, abs and copysign change the sign bit only, also of a NaN")
DOUBLE_NAN = Assumption("every NaN result of f64 arithmetic is 0xFFF8000000000000")
NARROW_NAN = Assumption("a NaN converted to f16, bf16, f32 or tf32 is 0x7FFF or 0x7FFFFFFF")
WIDE_NAN = Assumption("a NaN converted to f64 keeps sign and payload and becomes quiet")
SHIFTED_NAN = Assumption("bf16 to f32 is a shift, so a NaN keeps its bits")
INTEGER_NAN = Assumption(
    "a NaN becomes the integer 0, but 2**(bits - 1) where the source is f64 or the destination has 64 bits"
)
INTEGRAL_NAN = Assumption("rounding a NaN to an integral value gives the canonical NaN; f64 keeps the payload, quiet")
TF32_LOW_BITS = Assumption("the lowest 13 bits of a tf32 result are zero")
