"""Digits of an index: how blocked layouts cut a row or column number into parts.

A layout of tiles cuts k and n into digits and writes the digits of both, mixed, into one offset. A digit is what
`index // divisor % extent` gives; the highest digit of an axis has no extent, it takes what is left. `K` and `N` are
written as in the formula they stand for:

    N // 64         panel number          N % 64      column within the panel
    K // 8 % 8      chunk of 8 within 64  K           the whole of k

Example: with digits (N // 64, K, N % 64), K = 128 and N = 256, element k = 3, n = 70 has digits 1, 3, 6 of sizes 4,
128, 64, so its offset is (1 · 128 + 3) · 64 + 6 = 8,390.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tileproof.oracle.arguments import whole
from tileproof.oracle.refusal import Refusal

Offsets = npt.NDArray[np.int64]
Index = TypeVar("Index", int, Offsets)


class Axis(Enum):
    """An axis of the logical matrix raw[K][N]."""

    K = "k"
    N = "n"


@dataclass(frozen=True)
class Digit:
    """index // divisor % extent of one axis."""

    axis: Axis
    #: What lower digits of the axis span.
    divisor: int = 1
    #: Values the digit takes; None for the highest digit of the axis.
    extent: int | None = None

    def __floordiv__(self, divisor: int) -> "Digit":
        if self.extent is not None:
            raise Refusal(f"digit {self} already has an extent", hint="write the division before the modulus")
        return Digit(self.axis, self.divisor * divisor)

    def __mod__(self, extent: int) -> "Digit":
        if self.extent is not None:
            raise Refusal(f"digit {self} already has an extent")
        return Digit(self.axis, self.divisor, extent)

    def of(self, index: Index) -> Index:
        """The digit's value for an index of its axis, a number or an array."""
        quotient = index // self.divisor
        return quotient if self.extent is None else quotient % self.extent

    def size(self, length: int) -> int:
        """How many values the digit takes on an axis of `length`."""
        return length // self.divisor if self.extent is None else self.extent

    @property
    def is_bit_field(self) -> bool:
        """Whether the digit is a field of index bits: divisor and extent are powers of two."""
        return _is_power_of_two(self.divisor) and (self.extent is None or _is_power_of_two(self.extent))

    def __str__(self) -> str:
        division = f"/{self.divisor}" if self.divisor > 1 else ""
        return f"{self.axis.value}{division}" + (f"%{self.extent}" if self.extent is not None else "")


#: The whole row index k, and the whole column index n, to be cut by // and %.
K = Digit(Axis.K)
N = Digit(Axis.N)


def axis_digits(digits: tuple[Digit, ...], axis: Axis) -> tuple[Digit, ...]:
    """The digits of one axis, highest first, checked to cut it without gap or overlap.

    Raises:
        Refusal: a part of the axis is missing or taken twice, so the offsets could not be a bijection.
    """
    chosen = sorted((digit for digit in digits if digit.axis is axis), key=lambda digit: digit.divisor)
    expected: int | None = 1
    for digit in chosen:
        if digit.divisor != expected:
            raise Refusal(f"digits {', '.join(map(str, chosen))} do not cut axis {axis.value} once each")
        expected = None if digit.extent is None else digit.divisor * digit.extent
    if expected is not None:
        raise Refusal(f"no digit of axis {axis.value} takes the quotient by {expected}")
    return tuple(reversed(chosen))


def widen_index(name: str, index: Index) -> Index:
    """An index for reckoning: a Python int, or int64, since narrower types would overflow in an offset.

    Raises:
        Refusal: neither an int nor integers of numpy, or one that int64 does not hold.
    """
    if isinstance(index, int):
        whole(name, index)  # refuses a bool
        return index
    array = np.asarray(index)
    if array.dtype.kind not in "iu" and array.size:
        raise Refusal(f"{name} has type {array.dtype}, which is no integer", hint="give integers")
    if array.dtype == np.uint64 and np.any(array > np.uint64(2**63 - 1)):
        raise Refusal(f"{name} {array.max()} is above 2^63 - 1, the largest of int64", hint="give smaller numbers")
    return array.astype(np.int64)


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0
