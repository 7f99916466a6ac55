"""Rounding directions and overflow rules, by the names that contracts print.

Worked example, E4M3FN (largest finite value 448, the next step would be 480):

    value   nearest-even   toward-zero   up            down
     464    448 (a tie)    448           overflow      448
     465    overflow       448           overflow      448
    -465    overflow       -448          -448          overflow
     inf    overflow       overflow      overflow      overflow

Overflow is decided after rounding, as if the exponent had no upper end (IEEE 754-2019, 7.4). A directed rounding that
points back to zero never leaves the finite range; an infinite input always does. What an overflow turns into is the
second choice, `Overflow`.
"""

from enum import Enum, StrEnum
from typing import TypeVar

from tileproof.oracle.refusal import Refusal


class Rounding(StrEnum):
    """Where a value between two neighbouring codes goes (IEEE 754-2019, 4.3)."""

    #: The nearer code; the even code where both are equally near.
    NEAREST_EVEN = "nearest-even"
    #: The code of smaller magnitude.
    TOWARD_ZERO = "toward-zero"
    #: The larger value (toward positive infinity).
    UP = "up"
    #: The smaller value (toward negative infinity).
    DOWN = "down"

    def leaves_range(self, negative: bool) -> bool:
        """Whether a finite value that rounds beyond the largest finite value overflows (IEEE 754-2019, 7.4 a-d)."""
        match self:
            case Rounding.NEAREST_EVEN:
                return True
            case Rounding.TOWARD_ZERO:
                return False
            case Rounding.UP:
                return not negative
            case Rounding.DOWN:
                return negative


class Overflow(StrEnum):
    """What a value beyond the largest finite value becomes, infinities included.

    The sign is kept where the code has one, for NaN too (as `__NV_NOSAT` of CUDA 13.0 cuda_fp8.h does).
    """

    #: The largest finite value (PTX `.satfinite`).
    SATURATE = "saturate"
    #: NaN.
    NAN = "nan"
    #: Infinity.
    INF = "inf"


_Choice = TypeVar("_Choice", bound=Enum)


def choose(choices: type[_Choice], name: str, what: str) -> _Choice:
    """The member of `choices` called `name`.

    Raises:
        Refusal: no member has that name.
    """
    try:
        return choices(name)
    except ValueError:
        known = ", ".join(repr(str(member.value)) for member in choices)
        raise Refusal(f"{what} {name!r} is none of {known}", hint=f"choose one of {known}") from None
