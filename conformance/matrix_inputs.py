"""Input families of matrix instructions: tiles that reach the points where units differ from each other.

A unit is told apart by what it does at the edges of its alignment window, so most families put products and C at chosen
distances from the largest exponent. A tile has one family; its C has a family of its own, drawn at random. Codes are
built from fields (sign, exponent, mantissa), so a family means the same for every operand type.

    >>> generate(parse_instruction("mma.m16n8k32.f32.e4m3.e4m3"), 2, np.random.default_rng(0)).a.shape
    (2, 16, 32)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.oracle.formats import FLOAT16, FLOAT32, FLOAT64, FloatFormat
from tileproof.oracle.numbers.format_record import FormatRecord
from tileproof.oracle.units.instruction import Instruction
from tileproof.oracle.units.operand import ACCUMULATOR_DTYPES, OperandType

Codes = NDArray[Any]
Random = np.random.Generator

_ACCUMULATOR_FORMATS: Mapping[str, FloatFormat] = {"f64": FLOAT64, "f32": FLOAT32, "f16": FLOAT16}


@dataclass(frozen=True)
class MatrixInputs:
    """Operands of one call of `oracle.matrix_unit.multiply_add`, one tile a batch."""

    #: Raw codes, [tiles, M, K].
    a: Codes
    #: Raw codes, [tiles, N, K].
    b: Codes
    #: Values, [tiles, M, N].
    c: Codes
    #: Raw codes, [tiles, M, scales in K]; None without block scaling.
    scale_a: Codes | None = None
    #: Raw codes, [tiles, N, scales in K]; None without block scaling.
    scale_b: Codes | None = None


def generate(
    instruction: Instruction, tiles: int, random: Random, *, rows: int | None = None, columns: int | None = None
) -> MatrixInputs:
    """Tiles of mixed families.

    Args:
        instruction: decides types, K, and M and N unless given.
        tiles: how many.
        random: all randomness comes from here.
        rows: M of a tile; the instruction's if None.
        columns: N of a tile; the instruction's if None.
    """
    m, n, k = rows or instruction.shape.m, columns or instruction.shape.n, instruction.shape.k
    if instruction.a.record is None or instruction.b.record is None:
        return _integers(instruction, tiles, (m, n, k), random)
    a = np.empty((tiles, m, k), instruction.a.code_dtype)
    b = np.empty((tiles, n, k), instruction.b.code_dtype)
    for part in np.array_split(np.arange(tiles), min(tiles, 4 * len(FAMILIES))):
        family = list(FAMILIES.values())[int(random.integers(len(FAMILIES)))]
        a[part], b[part] = family(instruction.a, instruction.b, len(part), (m, n, k), random)
    c = _accumulators(instruction, a, b, random)
    if instruction.scale_type is None:
        return MatrixInputs(a, b, c)
    scales = [_scales(instruction.scale_type, (tiles, size, instruction.scales), random) for size in (m, n)]
    return MatrixInputs(a, b, c, *scales)


Extents = tuple[int, int, int]
Family = Callable[[OperandType, OperandType, int, Extents, Random], tuple[Codes, Codes]]


def _each(maker: Callable[[OperandType, tuple[int, ...], Random], Codes]) -> Family:
    """A family whose A and B are drawn alike and apart."""

    def family(a: OperandType, b: OperandType, tiles: int, extents: Extents, random: Random) -> tuple[Codes, Codes]:
        m, n, k = extents
        return maker(a, (tiles, m, k), random), maker(b, (tiles, n, k), random)

    return family


def _record(operand: OperandType) -> FormatRecord:
    assert operand.record is not None, "a floating-point family"
    return operand.record


def _join(operand: OperandType, negative: Codes, field: Codes, mantissa: Codes) -> Codes:
    """Codes of fields; exponent fields are clipped to those of finite values."""
    record = _record(operand)
    largest = record.max_code >> record.mantissa_bits
    magnitude = (np.clip(field, 0, largest) << record.mantissa_bits) | mantissa
    magnitude = np.minimum(magnitude, record.max_code)
    signed = negative & ((magnitude != 0) | record.has_negative_zero)
    code = magnitude.astype(np.uint64) | np.where(signed, np.uint64(record.sign_bit), np.uint64(0))
    return np.asarray(code << np.uint64(operand.ignored_bits), operand.code_dtype)


def _mantissas(operand: OperandType, shape: tuple[int, ...], random: Random) -> Codes:
    return random.integers(0, 1 << _record(operand).mantissa_bits, shape)


def _signs(shape: tuple[int, ...], random: Random) -> Codes:
    return random.integers(0, 2, shape, np.int8).astype(np.bool_)


def _any_code(operand: OperandType, shape: tuple[int, ...], random: Random) -> Codes:
    """Raw bits, ignored ones included."""
    return random.integers(0, 1 << (_record(operand).bits + operand.ignored_bits), shape, np.uint64).astype(
        operand.code_dtype
    )


def _top_field(operand: OperandType) -> int:
    """The largest exponent field of a finite value."""
    return _record(operand).max_code >> _record(operand).mantissa_bits


def _centres(operand: OperandType, shape: tuple[int, ...], random: Random) -> Codes:
    """Exponent fields to build around: most where products stay inside a float16, some anywhere."""
    bias = _record(operand).bias
    moderate = random.integers(max(bias - 14, 0), bias + 5, shape)
    return np.where(random.random(shape) < 0.25, random.integers(0, _top_field(operand) + 1, shape), moderate)


def _finite(operand: OperandType, shape: tuple[int, ...], random: Random) -> Codes:
    """Any exponent, in some tiles; in the others within 16 binades of a centre."""
    tile = (shape[0], 1, 1)
    around = _centres(operand, tile, random) + random.integers(-8, 9, shape)
    anywhere = random.integers(0, _top_field(operand) + 1, shape)
    fields = np.where(random.random(tile) < 0.3, anywhere, around)
    return _join(operand, _signs(shape, random), fields, _mantissas(operand, shape, random))


def _narrow(operand: OperandType, shape: tuple[int, ...], random: Random) -> Codes:
    """Exponents within three of a centre a row: every product takes part in the sum."""
    fields = _centres(operand, (*shape[:-1], 1), random) + random.integers(-3, 4, shape)
    return _join(operand, _signs(shape, random), fields, _mantissas(operand, shape, random))


def _sparse(operand: OperandType, shape: tuple[int, ...], random: Random) -> Codes:
    """Four of five are zero, of either sign."""
    zero = random.random(shape) < 0.8
    return np.where(zero, _join(operand, _signs(shape, random), *_zeros(shape)), _finite(operand, shape, random))


def _zeros(shape: tuple[int, ...]) -> tuple[Codes, Codes]:
    return np.zeros(shape, np.int64), np.zeros(shape, np.int64)


def _subnormal(operand: OperandType, shape: tuple[int, ...], random: Random) -> Codes:
    """Subnormals and a few values of the lowest binades."""
    fields = np.where(random.random(shape) < 0.9, 0, random.integers(0, 3, shape))
    return _join(operand, _signs(shape, random), fields, _mantissas(operand, shape, random))


def _extreme(operand: OperandType, shape: tuple[int, ...], random: Random) -> Codes:
    """The largest codes, with a few smallest: overflow, and nothing left of what is far below."""
    fields = np.where(random.random(shape) < 0.8, _top_field(operand), random.integers(0, 3, shape))
    return _join(operand, _signs(shape, random), fields, _mantissas(operand, shape, random))


def _specials(operand: OperandType, shape: tuple[int, ...], random: Random) -> Codes:
    """Finite codes with an infinity, a NaN or a zero here and there."""
    record = _record(operand)
    special = random.integers(record.max_code, record.magnitude_mask + 1, shape).astype(np.uint64)
    special |= np.where(_signs(shape, random), np.uint64(record.sign_bit), np.uint64(0))
    code = (special << np.uint64(operand.ignored_bits)).astype(operand.code_dtype)
    kind = random.random(shape)
    finite = _finite(operand, shape, random)
    return np.where(kind < 0.02, code, np.where(kind < 0.1, finite & ~finite, finite))


def _window(a: OperandType, b: OperandType, tiles: int, extents: Extents, random: Random) -> tuple[Codes, Codes]:
    """One large product a row among others that lie about the width of an alignment window below."""
    m, n, k = extents
    place = random.integers(0, k, (tiles, 1, 1))
    below = random.integers(10, 30, (tiles, 1, 1))
    codes = []
    for operand, size, share in ((a, m, below // 2), (b, n, below - below // 2)):
        shape = (tiles, size, k)
        top = np.maximum(_centres(operand, (tiles, 1, 1), random), min(14, _top_field(operand) - 1))
        fields = top - share + random.integers(-1, 2, shape)
        fields = np.where(np.arange(k) == place, top, np.maximum(fields, random.integers(0, 2, shape)))
        codes.append(_join(operand, _signs(shape, random), fields, _mantissas(operand, shape, random)))
    return codes[0], codes[1]


def _cancelling(a: OperandType, b: OperandType, tiles: int, extents: Extents, random: Random) -> tuple[Codes, Codes]:
    """Half of k repeats the other half, in A negated: large products cancel exactly and what is small shows."""
    m, n, k = extents
    a_codes, b_codes = _finite(a, (tiles, m, k), random), _finite(b, (tiles, n, k), random)
    order = random.permuted(np.broadcast_to(np.arange(k), (tiles, k)), axis=1)
    first, second = order[:, : k // 2, None].swapaxes(1, 2), order[:, k // 2 : 2 * (k // 2), None].swapaxes(1, 2)
    sign = a_codes.dtype.type(_record(a).sign_bit << a.ignored_bits)
    negated = np.take_along_axis(a_codes, np.broadcast_to(first, (tiles, m, k // 2)), 2) ^ sign
    np.put_along_axis(a_codes, np.broadcast_to(second, negated.shape), negated, 2)
    repeated = np.take_along_axis(b_codes, np.broadcast_to(first, (tiles, n, k // 2)), 2)
    np.put_along_axis(b_codes, np.broadcast_to(second, repeated.shape), repeated, 2)
    # A few pairs lose one partner, so that something is left.
    lost = random.random((tiles, 1, k)) < 0.15
    return np.where(lost, a_codes & ~a_codes, a_codes), b_codes


def _powers(a: OperandType, b: OperandType, tiles: int, extents: Extents, random: Random) -> tuple[Codes, Codes]:
    """Powers of two of few distinct sizes: sums with long carries, and exact ties."""
    m, n, k = extents
    made = []
    for operand, size in ((a, m), (b, n)):
        shape = (tiles, size, k)
        fields = np.maximum(_centres(operand, (tiles, 1, 1), random) - random.integers(0, 14, shape), 0)
        made.append(_join(operand, _signs(shape, random), fields, np.zeros(shape, np.int64)))
    return made[0], made[1]


#: Families of A and B by name.
FAMILIES: Mapping[str, Family] = {
    "any-code": _each(_any_code),
    "finite": _each(_finite),
    "narrow": _each(_narrow),
    "sparse": _each(_sparse),
    "subnormal": _each(_subnormal),
    "extreme": _each(_extreme),
    "specials": _each(_specials),
    "window": _window,
    "cancelling": _cancelling,
    "powers": _powers,
}


def _accumulators(instruction: Instruction, a: Codes, b: Codes, random: Random) -> Codes:
    """C at a chosen distance from the largest product, of the size of the sum, or at the ends of its format."""
    record = _ACCUMULATOR_FORMATS[instruction.accumulator]
    dtype = ACCUMULATOR_DTYPES[instruction.accumulator]
    with np.errstate(all="ignore"):
        x, y = _values(instruction.a, a), _values(instruction.b, b)
        largest = np.abs(x).max(-1)[..., :, None] * np.abs(y).max(-1)[..., None, :]
        exponent = np.frexp(largest)[1]
        shape = largest.shape
        near = np.ldexp(random.uniform(1, 2, shape), exponent + random.integers(-32, 31, shape))
        opposite = -np.matmul(x, y.swapaxes(-1, -2)).astype(dtype)
        raw = random.integers(0, 1 << 16, shape, np.uint64) << np.uint64(record.bits - 16)
        raw |= random.integers(0, 1 << (record.bits - 16), shape, np.uint64) if record.bits > 16 else np.uint64(0)
        tiny = random.integers(0, 1 << (record.mantissa_bits + 1), shape, np.uint64)
        bits = f"u{record.bits // 8}"
        choices = [
            near.astype(dtype),
            np.where(_signs(shape, random), near, -near).astype(dtype),
            opposite,
            raw.astype(bits).view(dtype),
            tiny.astype(bits).view(dtype),
            np.full(shape, np.asarray(record.max_code, bits).view(dtype)),
        ]
    kind = random.integers(0, len(choices) + 2, (shape[0], 1, 1))
    c = np.where(_signs(shape, random), np.zeros(shape, dtype), -np.zeros(shape, dtype))
    for index, choice in enumerate(choices):
        c = np.where(kind == index, choice, c)
    return c


def _values(operand: OperandType, codes: Codes) -> NDArray[np.float64]:
    """Float64 values of the finite codes, about; 0 for the others. Only sizes matter here."""
    record = _record(operand)
    code = codes.astype(np.uint64) >> np.uint64(operand.ignored_bits)
    magnitude = (code & np.uint64(record.magnitude_mask)).astype(np.int64)
    field = magnitude >> record.mantissa_bits
    mantissa = magnitude & ((1 << record.mantissa_bits) - 1)
    significand = mantissa + ((field > 0).astype(np.int64) << record.mantissa_bits)
    value = np.ldexp(significand.astype(np.float64), np.maximum(field, 1) - record.bias - record.mantissa_bits)
    value = np.where(magnitude > record.max_code, 0.0, value)
    return np.where((code & np.uint64(record.sign_bit)) != 0, -value, value)


def _scales(scale_type: OperandType, shape: tuple[int, ...], random: Random) -> Codes:
    """Scale factors: most within some binades of one, some anything, NaN included."""
    record = _record(scale_type)
    centre = record.bias << record.mantissa_bits
    near = centre + random.integers(-6 << record.mantissa_bits, (6 << record.mantissa_bits) + 1, shape)
    anything = random.integers(0, 256, shape)
    kind = random.random((shape[0], 1, 1))
    return np.where(kind < 0.7, near, anything).astype(np.uint8)


def _integers(instruction: Instruction, tiles: int, extents: Extents, random: Random) -> MatrixInputs:
    """Anything, the ends of the range, and C where the sum leaves 32 bits."""
    m, n, k = extents
    a, b = (
        _integer_codes(operand, (tiles, size, k), random) for operand, size in ((instruction.a, m), (instruction.b, n))
    )
    shape = (tiles, m, n)
    edge = np.where(_signs(shape, random), 2**31 - 1, -(2**31)) + random.integers(-(2**21), 2**21, shape)
    choices = (random.integers(-(2**31), 2**31, shape), np.clip(edge, -(2**31), 2**31 - 1), np.zeros(shape, np.int64))
    kind = random.integers(0, 3, (tiles, 1, 1))
    c = np.where(kind == 0, choices[0], np.where(kind == 1, choices[1], choices[2]))
    return MatrixInputs(a, b, c.astype(np.int32))


def _integer_codes(operand: OperandType, shape: tuple[int, ...], random: Random) -> Codes:
    limits = np.iinfo(operand.code_dtype)
    anything = random.integers(limits.min, limits.max + 1, shape)
    ends = np.where(_signs(shape, random), limits.max, limits.min)
    return np.where(random.random((shape[0], 1, 1)) < 0.5, anything, ends).astype(operand.code_dtype)
