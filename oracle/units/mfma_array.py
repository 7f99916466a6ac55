"""The array twins of `mfma`, in numpy.

CDNA2 is float32 arithmetic and is done in it. CDNA3 is done in int64, where its sums stay below 2^40. CDNA1's exact
sums are done in int64 where the terms of a group lie close enough together, and by the definition where they do not.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileproof.oracle.formats import FLOAT32
from tileproof.oracle.numbers.convert_array import Parts, join_parts
from tileproof.oracle.numbers.number import Kind
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.units.fused_sum_array import Coded
from tileproof.oracle.units.mfma import DOT_BITS, DROPPED_BELOW, SUM_BITS, TERM_BITS, exact_sum
from tileproof.oracle.units.term import Term
from tileproof.oracle.units.term_array import split_terms
from tileproof.oracle.units.unit import ExactSum, FlooredSum, FlushedPairs
from tileproof.oracle.units.unit_kernels import INFINITE, NAN, ZERO

Integers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]

#: Products computed at a time.
_CHUNK = 1 << 18

_LEAST_NORMAL = np.float32(2.0**-126)
#: Terms whose last bits and leading bits span at most this many places are added in int64.
_EXACT_SPAN = 58


def mfma_sums(
    unit: ExactSum | FlushedPairs | FlooredSum, a: Coded, b: Coded, c: Codes, index: npt.NDArray[np.uint64]
) -> Codes:
    """Codes of D, [output tiles, M, N].

    Args:
        unit: the parameters.
        a: [tiles of A, M, K].
        b: [tiles of B, N, K].
        c: codes, [tiles of C, M, N].
        index: for each output tile, its tiles of A, B and C, [output tiles, 3].
    """
    d = np.empty((len(index), a.index.shape[1], b.index.shape[1]), np.uint32)
    step = max(1, _CHUNK // max(1, d[:1].size * a.index.shape[2]))
    for start in range(0, len(index), step):
        i, j, n = index[start : start + step].T
        x, y = Coded(a.index[i][:, :, None], a.table), Coded(b.index[j][:, None], b.table)
        match unit:
            case ExactSum():
                d[start : start + step] = _exact_sums(unit, Products.of(x, y), c[n])
            case FlushedPairs():
                d[start : start + step] = _flushed_pairs(unit, _float32(x), _float32(y), c[n])
            case FlooredSum():
                d[start : start + step] = _floored_sums(unit, Products.of(x, y), c[n])
    return d


@dataclass(frozen=True)
class Products:
    """Exact products [..., K], not normalised."""

    significand: Integers
    exponent: Integers
    fraction_bits: int
    infinite: Flags
    nan: Flags

    @classmethod
    def of(cls, a: Coded, b: Coded) -> "Products":
        """The products of operands of shapes that broadcast."""
        larger = np.maximum(a.exponent, b.exponent)
        significand = a.significand * b.significand
        nan = (larger >= NAN) | ((larger >= INFINITE) & (significand == 0))
        return cls(
            significand,
            np.where(significand == 0, ZERO, a.exponent + b.exponent),
            a.table.fraction_bits + b.table.fraction_bits,
            (larger >= INFINITE) & ~nan,
            nan,
        )

    def part(self, start: int, stop: int, step: int = 1) -> "Products":
        """Some of the products, in the order of k."""
        k = slice(start, stop, step)
        return Products(
            self.significand[..., k], self.exponent[..., k], self.fraction_bits, self.infinite[..., k], self.nan[..., k]
        )


# CDNA1


def _exact_sums(unit: ExactSum, products: Products, c: Codes) -> Codes:
    depth = products.exponent.shape[-1]
    for start in range(0, depth, unit.group):
        group = products.part(start, start + unit.group)
        significand, exponent, special = _with_accumulator(group, c)
        last = np.where(significand == 0, -ZERO, exponent).min(-1)
        span = np.where(significand == 0, ZERO, exponent).max(-1) - last + products.fraction_bits + 24
        close = (span <= _EXACT_SPAN) & ~special.any(-1)
        places = np.where(close[..., None] & (significand != 0), exponent - last[..., None], 0)
        total = (significand << places).sum(-1)
        result = _nearest(total, np.where(close, last, 0))
        result = np.where(close & (total == 0), 0, result)
        for place in np.argwhere(~close).tolist():
            result[tuple(place)] = _exact_definition(unit, group, c, tuple(place))
        c = result
    return c


def _with_accumulator(group: Products, c: Codes) -> tuple[Integers, Integers, Flags]:
    """Terms as significand · 2^exponent, C last, and which are not finite."""
    accumulator, accumulator_exponent = split_terms(FLOAT32, c)
    special = np.concatenate((group.infinite | group.nan, (accumulator_exponent >= INFINITE)[..., None]), -1)
    significand = np.concatenate((group.significand, accumulator[..., None]), -1)
    exponent = np.concatenate(
        (group.exponent - group.fraction_bits, (accumulator_exponent - FLOAT32.mantissa_bits)[..., None]), -1
    )
    return np.where(special, 0, significand), exponent, special


def _exact_definition(unit: ExactSum, group: Products, c: Codes, place: tuple[int, ...]) -> int:
    kinds = zip(group.infinite[place].tolist(), group.nan[place].tolist(), strict=True)
    terms = [
        Term(
            Kind.NAN if nan else Kind.INFINITE if infinite else Kind.FINITE,
            significand < 0,
            abs(significand),
            exponent,
            group.fraction_bits,
        )
        for significand, exponent, (infinite, nan) in zip(
            group.significand[place].tolist(), group.exponent[place].tolist(), kinds, strict=True
        )
    ]
    return exact_sum(unit, terms, int(c[place]))


# CDNA2


def _float32(operand: Coded) -> npt.NDArray[np.float32]:
    """Values, a zero or subnormal as +0."""
    table = operand.table
    subnormal = (np.abs(table.significand) >> table.fraction_bits == 0) & (table.exponent < INFINITE)
    exponent = np.where(subnormal | (table.exponent >= INFINITE), 0, table.exponent - table.fraction_bits)
    values = np.ldexp(np.where(subnormal, 0, table.significand).astype(np.float32), exponent.astype(np.int32))
    values = np.where(table.exponent == INFINITE, np.copysign(np.inf, values), values)
    return np.where(table.exponent == NAN, np.nan, values).astype(np.float32)[operand.index]


def _flush(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """A subnormal as zero of its sign."""
    return np.where(np.abs(values) < _LEAST_NORMAL, np.copysign(np.float32(0), values), values)


def _flushed_pairs(unit: FlushedPairs, a: npt.NDArray[np.float32], b: npt.NDArray[np.float32], c: Codes) -> Codes:
    with np.errstate(all="ignore"):
        products = _flush(a * b)
        total = np.where(c & np.uint32(FLOAT32.top_field), c, np.uint32(0)).astype(np.uint32).view(np.float32)
        for start in range(0, products.shape[-1], unit.group):
            part = products[..., start : start + unit.group]
            while part.shape[-1] > 1:
                part = _flush(part[..., 0::2] + part[..., 1::2])
            total = _flush(total + part[..., 0])
    return np.where(np.isnan(total), np.uint32(FLOAT32.nan_code), total.view(np.uint32))


# CDNA3


def _floored_sums(unit: FlooredSum, products: Products, c: Codes) -> Codes:
    for start in range(0, products.exponent.shape[-1], unit.group):
        group = products.part(start, start + unit.group)
        size = group.exponent.shape[-1]
        dot, exponent = _interleaved_dot(group, size) if unit.interleaved else _dot(group)
        accumulator, accumulator_exponent = split_terms(FLOAT32, c)
        finite = accumulator_exponent < INFINITE
        own = np.where(accumulator == 0, FLOAT32.min_exponent, np.where(finite, accumulator_exponent, 0))
        largest = np.maximum(exponent, own)
        total = _floor(dot, exponent - TERM_BITS - (largest - DOT_BITS))
        joined = _floor(np.where(finite, accumulator, 0), own - FLOAT32.mantissa_bits - (largest - TERM_BITS))
        joined = np.where(unit.interleaved & (own < largest - DROPPED_BELOW), 0, joined)
        total += joined << (DOT_BITS - TERM_BITS)
        c = _special_or(_rounded(total, largest - DOT_BITS), group, c)
    return c


def _dot(group: Products) -> tuple[Integers, Integers]:
    """Products cut to `TERM_BITS` below their largest exponent and added; that exponent."""
    exponent = group.exponent.max(-1)
    places = TERM_BITS - group.fraction_bits - (exponent[..., None] - group.exponent)
    cut = _floor(np.abs(group.significand), places)
    return np.where(group.significand < 0, -cut, cut).sum(-1), exponent


def _interleaved_dot(group: Products, size: int) -> tuple[Integers, Integers]:
    (even, even_exponent), (odd, odd_exponent) = (_dot(group.part(first, size, 2)) for first in (0, 1))
    largest = np.maximum(even_exponent, odd_exponent)
    return _floor(even, even_exponent - largest) + _floor(odd, odd_exponent - largest), largest


def _floor(value: Integers, places: Integers) -> Integers:
    """value · 2^places, rounded down."""
    return (value << np.clip(places, 0, 62)) >> np.clip(-places, 0, 63)


def _rounded(total: Integers, step: Integers) -> Codes:
    """total · 2^step rounded down to `SUM_BITS` fraction bits, then to float32."""
    exponent = np.maximum(np.frexp(np.abs(total).astype(np.float64))[1] - 1 + step, FLOAT32.min_exponent)
    last = exponent - SUM_BITS
    kept = _floor(total, step - last)
    return np.where(kept == 0, np.uint32(0), _nearest(kept, last))


def _special_or(finite: Codes, group: Products, c: Codes) -> Codes:
    """The code of an infinity or NaN where one takes part, or where a product overflows."""
    accumulator, accumulator_exponent = split_terms(FLOAT32, c)
    beyond = (group.exponent + (np.abs(group.significand) >> (group.fraction_bits + 1) != 0) >= 128) & (
        group.significand != 0
    )
    infinite = group.infinite | (beyond & ~group.nan)
    up = (infinite & (group.significand > 0)).any(-1) | ((accumulator_exponent == INFINITE) & (accumulator > 0))
    down = (infinite & (group.significand < 0)).any(-1) | ((accumulator_exponent == INFINITE) & (accumulator < 0))
    nan = group.nan.any(-1) | (accumulator_exponent == NAN) | (up & down)
    codes = np.where(up, np.uint32(FLOAT32.top_field), np.where(down, np.uint32(0xFF800000), finite))
    return np.where(nan, np.uint32(FLOAT32.nan_code), codes)


def _nearest(total: Integers, step: Integers) -> Codes:
    """total · 2^step to float32, to nearest even."""
    never = np.zeros(total.shape, np.bool_)
    parts = Parts(total < 0, np.abs(total).astype(np.uint64), step, never, never)
    return np.asarray(join_parts(FLOAT32, parts, Rounding.NEAREST_EVEN, Overflow.INF), np.uint32)
