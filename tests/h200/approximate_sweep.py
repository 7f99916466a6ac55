"""CUDA that issues one approximate form on every pattern and measures how far its results lie from the exact value.

The exact value is float64, within 2 units of its last place. Per *band* (a range of the operand that has a bound of its
own) a sweep leaves a row of counters: see `ROW`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tileproof.simulators.ptx.alu.approximate import FUNCTIONS, Function

THREADS, BLOCKS = 256, 132 * 16
#: Columns of a row. The first three hold float bits of the largest error above 32 bits of where: an operand pattern, or
#: of two operands the pair's number.
ROW = ("ulps", "relative", "absolute", "compared", "outside", "points", "points_inexact", "rises", "falls")
#: Of f64, these read the upper 32 bits and write as many.
WIDE = ("rcp", "rsqrt")

_EXACT: Mapping[str, str] = {
    "ex2": "exp2(x)",
    "lg2": "log2(x)",
    "rcp": "1.0 / x",
    "rsqrt": "1.0 / sqrt(x)",
    "sqrt": "sqrt(x)",
    "sin": "sin(x)",
    "cos": "cos(x)",
    "tanh": "tanh(x)",
    "div": "x / y",
}
_POINT: Mapping[str, str] = {
    "ex2": "x == rint(x)",
    "rcp": "fraction == 0",
    "lg2": "fraction == 0 && x >= 1",
    **dict.fromkeys(("sqrt", "rsqrt"), "fraction == 0 && (exponent & 1) == 0"),
}

_COMMON = r"""
using Word = unsigned long long;
__device__ Word packed(double error, unsigned where) { return Word(__float_as_uint(float(error))) << 32 | where; }
__device__ void keep(Word* row, int column, Word value) { if (value > row[column]) row[column] = value; }
__device__ unsigned mix(unsigned x) {
    x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16; return x;
}
"""

_SWEEP = r"""
__device__ float NAME_issue(float x, float y) {
    float r;
    asm volatile("OPCODE %0, %1SECOND;" : "=f"(r) : "f"(x), "f"(y));
    return r;
}
__device__ double NAME_flushed(float x) { return FTZ && fabsf(x) < 0x1p-126f ? copysign(0.0, double(x)) : double(x); }
extern "C" __global__ void NAME(Word* rows, Word first, Word count) {
    Word mine[BANDS][9] = {};
    for (Word n = first + blockIdx.x * blockDim.x + threadIdx.x; n < first + count; n += gridDim.x * blockDim.x) {
        const unsigned where = unsigned(n);
        const float a = TWO ? __uint_as_float(mix(where)) : __uint_as_float(where);
        const float b = TWO ? __uint_as_float(mix(where ^ 0x9e3779b9u) & DIVISOR_MASK | DIVISOR_BITS) : 0.0f;
        const float result = NAME_issue(a, b);
        const double x = NAME_flushed(a), y = NAME_flushed(b), r = result, v = EXACT;
        const double size = fabs(TWO ? y : x);
        const double limits[BANDS] = LIMITS, relative[BANDS] = RELATIVE, absolute[BANDS] = ABSOLUTE;
        int band = 0;
        while (band < BANDS - 1 && !(size <= limits[band])) ++band;
        Word* row = mine[band];
        row[3] += 1;
        const Word bits = Word(__double_as_longlong(x)), fraction = bits & 0xfffffffffffffull;
        const int exponent = int(bits >> 52 & 2047) - 1023;
        const bool point = POINT && double(float(v)) == v && fabs(v) >= 0x1p-126 && isfinite(v);
        const float nearest = FTZ && fabsf(float(v)) < 0x1p-126f ? copysignf(0.0f, float(v)) : float(v);
        if (point) { row[5] += 1; row[6] += result != nearest; }
        double error = fmax(relative[band] * fabs(v), absolute[band]) + 0x1p-149 + fabs(v) * 0x1p-50;
        if (!isfinite(v) || (KEEPS && v == 0) || x == 0 || isinf(x) || (TWO && (y == 0 || isinf(y)))) error = 0;
        double low = v - error, high = error == 0 ? v : v + error;
        if (KEEPS && v > 0) low = fmax(low, 0.0);
        if (KEEPS && v < 0) high = fmin(high, -0.0);
        const double largest = 0x1.fffffep127;
        bool right = isnan(v) ? isnan(r) : isinf(v) ? r == v : r >= low && r <= high && fabs(r) <= BOUND;
        right |= isinf(r) && (r > 0 ? high > largest : low < -largest);
        right |= FTZ && r == 0 && low < 0x1p-126 && high > -0x1p-126;
        right &= !(FTZ && r != 0 && fabs(r) < 0x1p-126);
        right |= __float_as_uint(result) == __float_as_uint(nearest);
        if (RECIPROCAL && size > 0x1p126 && isfinite(y)) right |= isinf(x) || r == 0;
        row[4] += !right;
        if (isfinite(v) && isfinite(r)) {
            const double off = fabs(r - v);
            keep(row, 2, packed(off, where));
            if (fabs(v) >= 0x1p-126) {
                keep(row, 1, packed(off / fabs(v), where));
                keep(row, 0, packed(off / ldexp(1.0, ilogb(v) - 23), where));
            } else if (!FTZ) {
                keep(row, 0, packed(off * 0x1p149, where));
            }
        }
        if (!TWO && (where & 0x7fffffffu) < 0x7f800000u) {
            const float next = NAME_issue(__uint_as_float(where + 1), b);
            row[7] += next > result;
            row[8] += next < result;
        }
    }
    for (int band = 0; band < BANDS; ++band)
        for (int column = 0; column < 9; ++column)
            if (column < 3) atomicMax(rows + band * 9 + column, mine[band][column]);
            else atomicAdd(rows + band * 9 + column, mine[band][column]);
}
"""

_WIDE_SWEEP = r"""
__device__ double NAME_issue(double x) { double r; asm volatile("OPCODE %0, %1;" : "=d"(r) : "d"(x)); return r; }
extern "C" __global__ void NAME(Word* rows, Word first, Word count) {
    Word mine[9] = {};
    for (Word n = first + blockIdx.x * blockDim.x + threadIdx.x; n < first + count; n += gridDim.x * blockDim.x) {
        const unsigned where = unsigned(n);
        const double given = __longlong_as_double(Word(where) << 32 | mix(where));
        const double r = NAME_issue(given), upper = NAME_issue(__longlong_as_double(Word(where) << 32));
        const double read = __longlong_as_double(Word(where) << 32);
        const double x = fabs(read) < 0x1p-1022 ? copysign(0.0, read) : read, exact = EXACT;
        const double v = fabs(exact) < 0x1p-1022 ? copysign(0.0, exact) : exact;
        mine[3] += 1;
        const bool around = fabs(exact) < 0x1p-1022 * (1 + RELATIVE) && (r == 0 || fabs(r) == 0x1p-1022);
        const bool near = v == 0 || isinf(v) ? r == v : fabs(r - v) <= RELATIVE * fabs(v);
        mine[4] += !(isnan(v) ? isnan(r) : near || around);
        mine[5] += 1;
        mine[6] += unsigned(__double_as_longlong(r)) != 0;  // lower bits that are not zero
        mine[7] += __double_as_longlong(r) != __double_as_longlong(upper);  // lower bits of the operand that matter
        if (isfinite(v) && isfinite(r) && v != 0 && r != 0) keep(mine, 1, packed(fabs(r - v) / fabs(v), where));
    }
    for (int column = 0; column < 9; ++column)
        if (column < 3) atomicMax(rows + column, mine[column]);
        else atomicAdd(rows + column, mine[column]);
}
"""


@dataclass(frozen=True)
class Sweep:
    """One form and what the patterns of its second operand have in common."""

    opcode: str
    entry: str
    divisor_mask: int = 0xFFFFFFFF
    divisor_bits: int = 0

    @property
    def mnemonic(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def wide(self) -> bool:
        return self.opcode.endswith("f64")

    @property
    def function(self) -> Function:
        return FUNCTIONS[self.mnemonic, ".full" in self.opcode, self.opcode.rpartition(".")[2]]

    @property
    def limits(self) -> tuple[float, ...]:
        """Upper ends of the bands: of the dividend's partner where there are two operands."""
        if self.mnemonic == "div":
            return (2.0**-126, 2.0**126, float("inf"))
        return tuple(allowance.up_to for allowance in self.function.allowances)


def source_of(sweeps: tuple[Sweep, ...]) -> str:
    """CUDA of one module."""
    return _COMMON + "".join(_entry(sweep) for sweep in sweeps)


def _entry(sweep: Sweep) -> str:
    function, limits, two = sweep.function, sweep.limits, sweep.mnemonic == "div"
    allowances = function.allowances * (len(limits) if two else 1)
    values = {
        "NAME": sweep.entry,
        "OPCODE": sweep.opcode,
        "SECOND": ", %2" if two else "",
        "TWO": "true" if two else "false",
        "FTZ": "true" if ".ftz" in sweep.opcode else "false",
        "KEEPS": "true" if function.keeps_sign else "false",
        "RECIPROCAL": "true" if sweep.opcode.startswith("div.approx") else "false",
        "EXACT": _EXACT[sweep.mnemonic],
        "POINT": f"({_POINT.get(sweep.mnemonic, 'false')})",
        "BANDS": str(len(limits)),
        "LIMITS": _array(limits),
        "DIVISOR_MASK": f"{sweep.divisor_mask:#x}u",
        "DIVISOR_BITS": f"{sweep.divisor_bits:#x}u",
        "ABSOLUTE": _array(a.absolute for a in allowances),
        "RELATIVE": _number(allowances[0].relative) if sweep.wide else _array(a.relative for a in allowances),
        "BOUND": _number(function.bound),
    }
    text = _WIDE_SWEEP if sweep.wide else _SWEEP
    for name, value in sorted(values.items(), key=lambda item: -len(item[0])):
        text = text.replace(name, value)
    return text


def _number(value: float) -> str:
    return "__longlong_as_double(0x7ff0000000000000ll)" if value == float("inf") else value.hex()


def _array(values: object) -> str:
    assert not isinstance(values, str)
    return "{" + ", ".join(_number(value) for value in values) + "}"  # type: ignore[attr-defined]
