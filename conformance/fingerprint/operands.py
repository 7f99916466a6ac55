"""Codes of two operands whose product is a given number.

Every product that a probe uses is a multiple of 2^-18 (`UNIT_BITS`) below 2^20, so that sums of thousands of them are
exact in 64-bit integers: what a model predicts is reckoned there.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.oracle.formats import FloatFormat
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.operand import OPERAND_TYPES

Array = NDArray[Any]
Values = NDArray[np.float64]
Integers = NDArray[np.int64]

UNIT_BITS = 18
"""Products are reckoned in units of 2^-18, the least product of two e4m3 codes."""

FACTOR_BITS = 9
"""Factors are multiples of 2^-9 ..."""

LONG_EXPONENT = -11
"""Products of two factors that are no powers of two are at least 2^-11, so that either is a multiple of 2^-9."""

LARGEST_EXPONENT = 8
"""... and below 2^9, as those of e4m3 are."""


@dataclass(frozen=True)
class Products:
    """Exact products of one row of A and one of B: in units of 2^-18, and the sums of their factors' exponents."""

    units: Integers
    exponents: Integers


@dataclass(frozen=True)
class Operands:
    """One operand type."""

    name: str

    def encode(self, values: Values) -> Array:
        """Codes of values that the type has. Raises: Refusal where it has not."""
        codes = np.asarray(self._record.encode(values))
        if not np.array_equal(self.decode(codes), values):
            raise Refusal(f"a probe needs a value that {self.name} does not have")
        return codes

    def decode(self, codes: Array) -> Values:
        """Values of codes."""
        return np.asarray(self._record.decode(codes), np.float64)

    def split(self, products: Values) -> tuple[Values, Values]:
        """Factors of products m · 2^e, m one of `significands`: (x · 2^(e - h), y · 2^h) with x · y = m or 2 m.

        Both are normal where e is large. Where y is 1, h is -9 for small products, so that every multiple of 2^-18
        below 2^-2 with few bits can be made; elsewhere e must be at least `LONG_EXPONENT`.

        Raises:
            Refusal: m is another.
        """
        exponent = np.frexp(products)[1] - 1
        significand = np.where(products == 0, 1.0, np.abs(products) / np.exp2(exponent))
        keys, second = self._factors
        place = np.minimum(np.searchsorted(keys, significand), len(keys) - 1)
        if not np.array_equal(keys[place], significand):
            raise Refusal(f"a probe's product has a significand that two factors of {self.name} do not make")
        short = np.where(exponent < -2, -FACTOR_BITS, exponent // 2)
        long = np.maximum(exponent // 2, LONG_EXPONENT // 2)
        scale = second[place] * np.exp2(np.where(second[place] == 1, short, long))
        return products / scale, np.where(products == 0, 0.0, scale)

    @property
    def significands(self) -> Values:
        """Those of the products that `split` makes, from 1 to below 2, ascending."""
        return self._factors[0]

    @cached_property
    def _factors(self) -> tuple[Values, Values]:
        """Significands of products, and for each the second factor's: 1 where that is possible.

        But 1.125 is 1.5 · 1.5 / 2, the product of two significands that is 2 or more.
        """
        bits = min(self._record.mantissa_bits, 3)
        own = 1 + np.arange(1 << bits) / (1 << bits)
        made: dict[float, float] = {}
        for second in own.tolist():
            for first in own.tolist():
                product = first * second
                made.setdefault(product if product < 2 else product / 2, second)
        made[1.125] = 1.5
        keys = np.array(sorted(made))
        return keys, np.array([made[key] for key in keys.tolist()])

    def products(self, a: Values, b: Values) -> Products:
        """Of factors that broadcast.

        Raises:
            Refusal: a product is no multiple of 2^-18.
        """
        scaled = a * b * 2.0**UNIT_BITS
        units = scaled.astype(np.int64)
        if not np.array_equal(units, scaled):
            raise Refusal(f"a probe's product is no multiple of 2^-{UNIT_BITS}")
        return Products(units, self._exponents(a) + self._exponents(b))

    @cached_property
    def pool(self) -> Values:
        """Every magnitude that random operands are drawn from."""
        values = self.decode(np.arange(1 << self._record.bits, dtype=self._record.code_dtype))
        with np.errstate(invalid="ignore", over="ignore"):
            whole = np.isfinite(values) & (values * 2.0**FACTOR_BITS == np.rint(values * 2.0**FACTOR_BITS))
        return np.unique(values[whole & (values > 0) & (values < 2.0 ** (LARGEST_EXPONENT + 1))])

    def _exponents(self, values: Values) -> Integers:
        """As the unit sees them: a subnormal operand has the least normal exponent."""
        return np.maximum(np.frexp(values)[1].astype(np.int64) - 1, self._record.min_exponent)

    @property
    def _record(self) -> FloatFormat:
        record = OPERAND_TYPES[self.name].record
        assert isinstance(record, FloatFormat), "the types of a box convert"
        return record
