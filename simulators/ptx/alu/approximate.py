"""Approximate functions: ex2, lg2, rcp, rsqrt, sqrt, div, sin, cos, tanh (PTX ISA, "Floating-Point Instructions").

The document fixes their special values and bounds their error, no more: any result within the bound is right. So an
operation here gives one *nominal* result, the exact value rounded to nearest, and `allowed`, the smallest and largest
result within the bound (the *bracket*). Example: `ex2.approx.f32` of 0.5 is sqrt(2) = 0x3FB504F3 give or take 2^-22 of
itself, so everything from 0x3FB504F1 to 0x3FB504F6.

An error bound in units of the last place is taken as one relative to the value, at least as large and without its
steps at powers of two: a bracket's ends then grow with the value, and the bracket of an operand between x and y lies
between the brackets of x and y.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, pi

import numpy as np

from tileproof.oracle.evidence import Evidence
from tileproof.simulators.ptx.alu.assumption import EXACT_POINTS
from tileproof.simulators.ptx.alu.definedness import whole_by_lane
from tileproof.simulators.ptx.alu.ieee import (
    BINARIES,
    BINARY32,
    BINARY64,
    Binary,
    Doubles,
    Rounding,
    decode,
    encode,
    flush_subnormals,
    in_order,
)
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.scalar import Bits, Flags, Scalar, by_lane, pack, unpack

# Error of the float64 evaluation, relative to its result: numpy's functions are within 4 units of 2^-53.
_EVALUATION = 2.0**-50
# Of f64 the lower 32 bits of an operand are not read and those of a result are zero (measured).
_UPPER = np.uint64(0xFFFF_FFFF_0000_0000)
_NAN64 = 0x7FFF_FFFF_0000_0000


@dataclass(frozen=True)
class Allowance:
    """How far a result may lie from the exact value: the larger of the two parts.

    Args:
        relative: to the exact value.
        absolute: whatever the value.
        up_to: largest magnitude of the operand that it holds for.
        evidence: where the bound comes from.
    """

    relative: float = 0.0
    absolute: float = 0.0
    up_to: float = inf
    evidence: Evidence = Evidence.DOCUMENTED


@dataclass(frozen=True)
class Function:
    """One approximate function in one format.

    Args:
        exact: its value in float64, special values included.
        allowances: by growing operand; the last holds for every operand.
        exact_at: operands other than zero and infinity whose result is exact, as measured.
        keeps_sign: a result never has another sign than the exact value.
        bound: no result is larger in magnitude.
    """

    exact: Callable[..., Doubles]
    allowances: tuple[Allowance, ...]
    exact_at: Callable[[Doubles], Flags] | None = None
    keeps_sign: bool = True
    bound: float = inf

    def error(self, operands: Sequence[Doubles], value: Doubles) -> Doubles:
        """How far results may lie from the exact value."""
        size = np.abs(operands[0])
        error = np.zeros_like(value)
        for allowance in reversed(self.allowances):
            here = np.maximum(np.abs(value) * allowance.relative, allowance.absolute)
            error = np.where(size <= allowance.up_to, here, error)
        return error


def _integral(x: Doubles) -> Flags:
    return np.equal(x, np.rint(x))


def _power_of_two(x: Doubles) -> Flags:
    return np.equal(np.abs(np.frexp(x)[0]), 0.5)


def _power_of_two_from_one(x: Doubles) -> Flags:
    return _power_of_two(x) & (x >= 1)


def _power_of_four(x: Doubles) -> Flags:
    fraction, exponent = np.frexp(x)
    four: Flags = np.equal(fraction, 0.5) & np.equal(exponent % 2, 1)
    return four


def _within(relative: float = 0.0, absolute: float = 0.0) -> tuple[Allowance, ...]:
    return (Allowance(relative, absolute),)


_MEASURED = Evidence.MEASURED
# PTX ISA, "sin" and "cos": 2^-20.5 within 2 pi, 2^-14.7 within 100 pi, no guarantee beyond.
_FAR = (Allowance(absolute=2.0**-14.7, up_to=100 * pi), Allowance(absolute=2.0, evidence=_MEASURED))
_SINE = (Allowance(absolute=2.0**-20.5, up_to=2 * pi), *_FAR)
# Of cos 4,698 results of an H200 lie beyond the documented 2^-20.5, by up to 2^-20.427.
_COSINE = (Allowance(absolute=2.0**-20.4, up_to=2 * pi, evidence=_MEASURED), *_FAR)
_ULP = 2.0**-23

#: By mnemonic, `.full` or not, and format of a lane.
FUNCTIONS: Mapping[tuple[str, bool, str], Function] = {
    ("ex2", False, "f32"): Function(np.exp2, _within(2 * _ULP), _integral),
    ("lg2", False, "f32"): Function(np.log2, _within(2.0**-22, 2.0**-22), _power_of_two_from_one, keeps_sign=False),
    ("rcp", False, "f32"): Function(lambda x: 1.0 / x, _within(_ULP), _power_of_two),
    ("rsqrt", False, "f32"): Function(lambda x: 1.0 / np.sqrt(x), _within(2.0**-22.9), _power_of_four),
    ("sqrt", False, "f32"): Function(np.sqrt, _within(_ULP), _power_of_four),
    ("sin", False, "f32"): Function(np.sin, _SINE, keeps_sign=False, bound=1.0),
    ("cos", False, "f32"): Function(np.cos, _COSINE, keeps_sign=False, bound=1.0),
    ("tanh", False, "f32"): Function(np.tanh, _within(2.0**-11), bound=1.0),
    ("div", False, "f32"): Function(lambda a, b: a / b, _within(2 * _ULP)),
    ("div", True, "f32"): Function(lambda a, b: a / b, _within(2 * _ULP)),
    ("ex2", False, "f16"): Function(np.exp2, _within(2.0**-9.9), _integral),
    ("ex2", False, "bf16"): Function(np.exp2, _within(2.0**-7), _integral),
    ("tanh", False, "f16"): Function(np.tanh, _within(absolute=2.0**-10.987), bound=1.0),
    # Documented is 2^-8; on an H200 the results at 0x3F3F and 0xBF3F lie 2^-7.99 off.
    ("tanh", False, "bf16"): Function(np.tanh, (Allowance(absolute=2.0**-7.9, evidence=_MEASURED),), bound=1.0),
    # No error is documented for f64.
    ("rcp", False, "f64"): Function(lambda x: 1.0 / x, (Allowance(2.0**-19, evidence=_MEASURED),)),
    ("rsqrt", False, "f64"): Function(lambda x: 1.0 / np.sqrt(x), (Allowance(2.0**-19, evidence=_MEASURED),)),
}

# By mnemonic and lane format: whether `.ftz` may, must or must not stand there.
_FTZ: Mapping[tuple[str, str], tuple[bool, ...]] = {
    **dict.fromkeys(((m, "f32") for m in ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "div")), (False, True)),
    **dict.fromkeys((("tanh", lane) for lane in ("f32", "f16", "bf16")), (False,)),
    ("ex2", "f16"): (False,),
    ("ex2", "bf16"): (True,),
    **dict.fromkeys((("rcp", "f64"), ("rsqrt", "f64")), (True,)),
}
# PTX ISA, "div": beyond this divisor div.approx gives 0, or NaN where the dividend is infinite.
_LARGEST_DIVISOR = 2.0**126


@dataclass(frozen=True)
class _Ends:
    """Nominal result and the ends of the bracket, codes of one lane."""

    nominal: Bits
    low: Bits
    high: Bits


@dataclass(frozen=True)
class _Rule:
    """A function with the form that it stands in.

    Args:
        function: what is computed.
        binary: format of operands and result.
        flush: `.ftz`.
        by_reciprocal: `div.approx`, a times 1/b.
    """

    function: Function
    binary: Binary
    flush: bool
    by_reciprocal: bool

    def nominal(self, *codes: Bits) -> Bits:
        """The nominal result for operands of one lane."""
        with np.errstate(all="ignore"):
            return self._code(self.function.exact(*self._operands(codes)), Rounding.NEAREST_EVEN)

    def _operands(self, codes: Sequence[Bits]) -> list[Doubles]:
        if self.flush:
            codes = [flush_subnormals(code, self.binary) for code in codes]
        if self.binary is BINARY64:
            codes = [code & _UPPER for code in codes]
        return [decode(code, self.binary) for code in codes]

    def ends(self, codes: Sequence[Bits], *, single: bool) -> _Ends:
        """The bracket for operands of one lane; `single` as in `Operation.allowed`."""
        with np.errstate(all="ignore"):
            operands = self._operands(codes)
            value = self.function.exact(*operands)
            low, high = self._real_ends(operands, value, single=single)
            nominal = self._code(value, Rounding.NEAREST_EVEN)
            ends = _contain(nominal, self._outside(low, Rounding.UP), self._outside(high, Rounding.DOWN), self.binary)
            return self._of_large_divisors(operands, ends) if self.by_reciprocal else ends

    def _real_ends(self, operands: Sequence[Doubles], value: Doubles, *, single: bool) -> tuple[Doubles, Doubles]:
        function, binary = self.function, self.binary
        least = 2.0 ** (binary.minimum_exponent - binary.fraction_bits)
        error = function.error(operands, value) + least + np.abs(value) * _EVALUATION
        certain = ~np.isfinite(value)
        if function.keeps_sign:
            certain |= value == 0
        if single:
            for operand in operands:
                certain |= (operand == 0) | np.isinf(operand)
            if function.exact_at is not None:
                certain |= function.exact_at(operands[0]) & self._is_normal_code(value)
        error = np.where(certain, 0.0, error)
        low, high = value - error, np.where(error == 0, value, value + error)
        if function.keeps_sign:
            low = np.where(value > 0, np.maximum(low, 0.0), low)
            high = np.where(value < 0, np.minimum(high, -0.0), high)
        return np.maximum(low, -function.bound), np.minimum(high, function.bound)

    def _is_normal_code(self, value: Doubles) -> Flags:
        """Where a value is zero or a normal number of the format: a subnormal result is made of a rounded one."""
        same: Flags = decode(self._code(value, Rounding.NEAREST_EVEN), self.binary) == value
        normal: Flags = same & ((value == 0) | (np.abs(value) >= 2.0**self.binary.minimum_exponent))
        return normal

    def _outside(self, values: Doubles, inward: Rounding) -> Bits:
        """Ends rounded into the bracket, but beyond the largest finite number to infinity."""
        if self.binary is BINARY64:
            return self._code(values, inward)
        largest = float(decode(np.array([self.binary.infinity - 1], np.uint64), self.binary)[0])
        return self._code(np.where(np.abs(values) > largest, np.copysign(inf, values), values), inward)

    def _code(self, values: Doubles, rounding: Rounding) -> Bits:
        if self.binary is BINARY64:
            codes = np.where(np.isnan(values), np.uint64(_NAN64), values.view(np.uint64))
            codes = codes & _UPPER if rounding is Rounding.NEAREST_EVEN else codes
        elif self.binary is BINARY32:
            codes = _single(values, rounding)
        else:
            codes = encode(values, self.binary, rounding)
        return flush_subnormals(codes, self.binary) if self.flush else codes

    def _of_large_divisors(self, operands: Sequence[Doubles], ends: _Ends) -> _Ends:
        dividend, divisor = operands
        large = np.isfinite(divisor) & (np.abs(divisor) > _LARGEST_DIVISOR)
        zero = ends.nominal & np.uint64(self.binary.sign)
        ends = _Ends(
            ends.nominal,
            np.where(large & (in_order(zero, self.binary) < in_order(ends.low, self.binary)), zero, ends.low),
            np.where(large & (in_order(zero, self.binary) > in_order(ends.high, self.binary)), zero, ends.high),
        )
        anything = large & np.isinf(dividend)
        ones = np.uint64(2 * self.binary.sign - 1)
        return _Ends(
            ends.nominal,
            np.where(anything, ones, ends.low),
            np.where(anything, np.uint64(self.binary.sign - 1), ends.high),
        )


def _single(values: Doubles, rounding: Rounding) -> Bits:
    """`encode` to binary32, faster: rounded to nearest, then one step further where that is on the wrong side."""
    nearest = values.astype(np.float32)
    if rounding is not Rounding.NEAREST_EVEN:
        bound, wrong = (np.inf, np.less) if rounding is Rounding.UP else (-np.inf, np.greater)
        nearest = np.where(wrong(nearest, values), np.nextafter(nearest, np.float32(bound)), nearest)
    return np.where(np.isnan(values), np.uint64(BINARY32.nan), nearest.view(np.uint32))


def _contain(nominal: Bits, low: Bits, high: Bits, binary: Binary) -> _Ends:
    """Ends between which the nominal result lies."""
    place = in_order(nominal, binary)
    low = np.where(place < in_order(low, binary), nominal, low)
    return _Ends(nominal, low, np.where(place > in_order(high, binary), nominal, high))


def approximate(opcode: Opcode) -> Operation:
    """The operation of an approximate form."""
    kind = "full" if "full" in opcode.flags else "approx"
    opcode.choose(kind)
    opcode.permit(kind, "ftz")
    formats = [lane for name, full, lane in FUNCTIONS if (name, full) == (opcode.mnemonic, kind == "full")]
    scalar = opcode.scalar([*formats, *(f"{lane}x2" for lane in formats if lane in ("f16", "bf16"))])
    lane, flush = scalar.lane.name, "ftz" in opcode.flags
    if flush not in _FTZ[opcode.mnemonic, lane]:
        raise opcode.refuse("it takes no .ftz" if flush else "it needs .ftz")
    function = FUNCTIONS[opcode.mnemonic, kind == "full", lane]
    divides = opcode.mnemonic == "div"
    rule = _Rule(function, BINARIES[lane], flush, by_reciprocal=divides and kind == "approx")
    operation = opcode.operation(
        (scalar.operand,),
        (scalar.operand,) * (2 if divides else 1),
        by_lane(rule.nominal, scalar),
        whole_by_lane(scalar),
        (EXACT_POINTS,) if function.exact_at is not None else (),
    )

    def allowed(operands: Sequence[Bits], single: bool) -> tuple[Bits, Bits]:
        ends = _ends_by_lane(rule, scalar, operands, single=single)
        return ends.low, ends.high

    return replace(operation, allowed=allowed)


def _ends_by_lane(rule: _Rule, scalar: Scalar, operands: Sequence[Bits], *, single: bool) -> _Ends:
    bits = scalar.bits // scalar.lanes
    lanes = zip(*(unpack(operand, scalar.lanes, bits) for operand in operands), strict=True)
    ends = [rule.ends(lane, single=single) for lane in lanes]
    return _Ends(*(pack([getattr(end, part) for end in ends], bits) for part in ("nominal", "low", "high")))


FAMILIES = dict.fromkeys(("ex2", "lg2", "rsqrt", "sin", "cos", "tanh"), approximate)
