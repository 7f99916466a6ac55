"""The compiled loops of matrix units: the twins of `fused_sum` and of the 4-bit kinds of `block_scaled_sum`.

One file, because numba's cache watches the file of a compiled function only: a helper elsewhere could change unseen.

A tile's codes become significands and exponents once (`term_array`). A group then takes two passes over its products:
the largest exponent, then the cut terms. Both go over all rows of A at once: indices are unsigned and terms 32 bits
wide, which lets the compiler vectorise them. Sums stay below 2^53: fused, at most 32 products of magnitude below
4 · 2^25 and C below 4 · 2^25; of the 4-bit kinds, a group's sum has at most 12 bits, two factors 8, and 27 more are
kept.

A term is a pair, signed significand and exponent. Its kind is told by the exponent, so that the largest exponent of a
group tells whether anything in it is not finite; a product's exponent is a sum of two, hence the distances:

    kind        significand    exponent
    finite      signed         as `term`, within ±2,000
    zero        0              ZERO (it has no sign, which loses nothing: every sum here that is zero is +0)
    infinity    ±1             INFINITE
    NaN         0              NAN

A sum is total · 2^step. `half` chooses float16 for an accumulator; otherwise it is float32.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from tileproof.oracle.numbers.compiled import compiled, inlined

ZERO = -(1 << 13)
INFINITE = 1 << 15
NAN = 1 << 17
#: A sum of two exponents above this has an infinity or a NaN in it.
SPECIAL = 1 << 14

#: When C joins a fused sum: with the products; or last, the halves of K chained, or apart and added.
EARLY, LATE_CHAIN, LATE_HALVES = 0, 1, 2

# Written out, because compiled code takes integers of a module as constants, and no records.
_NAN_32, _INFINITY_32, _SIGN_32 = 0x7FFFFFFF, 0x7F800000, 0x80000000
_NAN_16, _INFINITY_16, _SIGN_16 = 0x7FFF, 0x7C00, 0x8000

#: Two 24-bit significands with these, added, stay below 2^53.
_GUARD_BITS = 27

#: Cut products that are added in 32 bits.
_PART = np.uint64(8)

#: What takes part in a sum that is not finite, as bits.
POSITIVE_INFINITY, NEGATIVE_INFINITY, ANY_NAN = 1, 2, 4


def _int32(emit: Callable[[Any, Any, Any], Any]) -> Any:
    """An operation on two int32 that gives an int32; numba's own gives int64, which halves what a vector holds."""

    def typed(context: Any, x: Any, y: Any) -> tuple[Any, Callable[..., Any]]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return emit(builder, *arguments)

        return types.int32(types.int32, types.int32), generate

    return intrinsic(typed)


_add = _int32(lambda builder, x, y: builder.add(x, y))
_subtract = _int32(lambda builder, x, y: builder.sub(x, y))
_multiply = _int32(lambda builder, x, y: builder.mul(x, y))
_xor = _int32(lambda builder, x, y: builder.xor(x, y))
_shift_left = _int32(lambda builder, x, y: builder.shl(x, y))
_shift_right = _int32(lambda builder, x, y: builder.lshr(x, y))
_shift_signed = _int32(lambda builder, x, y: builder.ashr(x, y))
_max = _int32(lambda builder, x, y: builder.select(builder.icmp_signed(">", x, y), x, y))
_min = _int32(lambda builder, x, y: builder.select(builder.icmp_signed("<", x, y), x, y))


@inlined
def bit_length(magnitude: int) -> int:
    """Bits of an integer from 1 to 2^53 - 1: the exponent field of the float64 that it is exactly."""
    return int((np.float64(magnitude).view(np.int64) >> 52) - 1022)


@inlined
def shifted(magnitude: int, places: int) -> int:
    """magnitude · 2^places, cut; the result must fit."""
    return (magnitude << max(places, 0)) >> min(max(-places, 0), 63)


@inlined
def aligned(significand: int, exponent: int, largest: int, left: int) -> int:
    """A signed significand moved left by `left` and right by what its exponent is below the largest, cut."""
    sign = significand >> 63
    return (shifted((significand ^ sign) - sign, left - (largest - exponent)) ^ sign) - sign


@inlined
def split(code: int, half: bool) -> tuple[int, int]:
    """The value of a code."""
    return split_ieee(code, 10, 5) if half else split_ieee(code, 23, 8)


@inlined
def split_ieee(code: int, mantissa_bits: int, exponent_bits: int) -> tuple[int, int]:
    """The value of a code of a format with infinities and NaN as IEEE 754 has them."""
    sign = 1 << (mantissa_bits + exponent_bits)
    infinity = sign - (1 << mantissa_bits)
    magnitude = code & (sign - 1)
    negative = code & sign != 0
    if magnitude >= infinity:
        return (0, NAN) if magnitude > infinity else (-1 if negative else 1, INFINITE)
    if magnitude == 0:
        return 0, ZERO
    field = magnitude >> mantissa_bits
    significand = magnitude & ((1 << mantissa_bits) - 1)
    if field > 0:
        significand |= 1 << mantissa_bits
    return (-significand if negative else significand), max(field, 1) - ((1 << (exponent_bits - 1)) - 1)


@inlined
def join(significand: int, exponent: int, half: bool) -> int:
    """The code of a value."""
    mantissa_bits, least = (10, -14) if half else (23, -126)
    if exponent >= INFINITE:
        nan, infinity = (_NAN_16, _INFINITY_16) if half else (_NAN_32, _INFINITY_32)
        code = nan if exponent >= NAN else infinity
    elif significand == 0:
        code = 0
    else:
        # The leading bit of a normal significand adds one to the exponent field.
        code = ((exponent - least) << mantissa_bits) + abs(significand)
    return code | (_SIGN_16 if half else _SIGN_32) if significand < 0 else code


@inlined
def rounded(total: int, step: int, half: bool, kept_bits: int) -> tuple[int, int]:
    """The value of a sum: float16 to nearest even, float32 cut to `kept_bits`."""
    return nearest(total, step, True) if half else _cut(total, step, kept_bits)


@inlined
def _cut(total: int, step: int, kept_bits: int) -> tuple[int, int]:
    """float32, toward zero; from 2^128 on infinity."""
    sign = total >> 63
    magnitude = (total ^ sign) - sign
    if magnitude == 0:
        return 0, ZERO
    exponent = max(bit_length(magnitude) - 1 + step, -126)
    if exponent > 127:
        return sign | 1, INFINITE
    kept = shifted(magnitude, step - (exponent - kept_bits)) << (23 - kept_bits)
    return (kept ^ sign) - sign, exponent if kept else ZERO


@inlined
def nearest(total: int, step: int, half: bool) -> tuple[int, int]:
    """float16 or float32, to nearest even."""
    mantissa_bits, least, most = (10, -14, 15) if half else (23, -126, 127)
    sign = total >> 63
    magnitude = (total ^ sign) - sign
    if magnitude == 0:
        return 0, ZERO
    exponent = max(bit_length(magnitude) - 1 + step, least)
    places = min(exponent - mantissa_bits - step, 60)
    right = max(places, 0)
    magnitude <<= max(-places, 0)
    kept = magnitude >> right
    # Up where the rest is more than half a step, or half a step and the last bit kept is odd.
    kept += int((magnitude - (kept << right)) * 2 + (kept & 1) > 1 << right)
    carry = kept >> (mantissa_bits + 1)
    exponent += carry
    if exponent > most:
        return sign | 1, INFINITE
    kept >>= carry
    return (kept ^ sign) - sign, exponent if kept else ZERO


@inlined
def add(x_significand: int, x_exponent: int, y_significand: int, y_exponent: int, half: bool) -> tuple[int, int]:
    """x + y to nearest even, as `rounded_sum.add`."""
    largest = max(x_exponent, y_exponent)
    if largest >= INFINITE:
        return special(what(x_significand, x_exponent) | what(y_significand, y_exponent))
    total = _guarded(x_significand, largest - x_exponent) + _guarded(y_significand, largest - y_exponent)
    return nearest(total, largest - (10 if half else 23) - _GUARD_BITS, half)


@inlined
def _guarded(significand: int, places: int) -> int:
    """A significand moved right with `_GUARD_BITS` more bits, the last of which says whether anything was lost.

    Nothing is lost within that many places. Beyond, the other addend is normal and its leading bit moves by one place
    at most, so that the last guard bit stays far below the rounding.
    """
    sign = significand >> 63
    magnitude = ((significand ^ sign) - sign) << _GUARD_BITS
    places = min(places, 62)
    moved = magnitude >> places
    moved |= int(moved << places != magnitude)
    return (moved ^ sign) - sign


@inlined
def what(significand: int, exponent: int) -> int:
    """Which infinity or NaN a value is; 0 for a finite one."""
    if exponent < INFINITE:
        return 0
    if exponent >= NAN:
        return ANY_NAN
    return POSITIVE_INFINITY if significand > 0 else NEGATIVE_INFINITY


@inlined
def special(parts: int) -> tuple[int, int]:
    """The value of a sum in which these take part."""
    if parts == POSITIVE_INFINITY:
        return 1, INFINITE
    if parts == NEGATIVE_INFINITY:
        return -1, INFINITE
    return 0, NAN


@compiled
def fused_tiles(
    a_codes: Any,
    a_significands: Any,
    a_exponents: Any,
    a_factors: Any,
    b_codes: Any,
    b_significands: Any,
    b_exponents: Any,
    b_factors: Any,
    c: Any,
    index: Any,
    d: Any,
    order: Any,
    extents: Any,
    parameters: Any,
) -> None:
    """Codes of D into `d`; every array but `index` is flat.

    Args:
        a_codes: [tiles of A, rows, depth], indices into the two arrays that follow.
        a_significands: of all codes of A's type.
        a_exponents: of all codes of A's type.
        a_factors: exponents of scale factors, [tiles of A, rows, blocks]; empty if blocks is 0.
        b_codes: [tiles of B, columns, depth].
        b_significands: of all codes of B's type.
        b_exponents: of all codes of B's type.
        b_factors: [tiles of B, columns, blocks].
        c: codes, [tiles of C, rows, columns].
        index: for each output tile, its tiles of A, B and C.
        d: codes, [output tiles, rows, columns].
        order: the order in which k is summed.
        extents: rows, columns, depth, group, blocks.
        parameters: places that a product is moved left into the sum; fraction bits and least exponent of the unit;
            whether the accumulator is float16; bits that a float32 keeps; EARLY, LATE_CHAIN or LATE_HALVES.
    """
    rows, columns, depth, group, blocks = extents
    one = np.uint64(1)
    a_significand, a_exponent = np.empty(rows * depth, np.int32), np.empty(rows * depth, np.int32)
    b_significand, b_exponent = np.empty(columns * depth, np.int32), np.empty(columns * depth, np.int32)
    work = sum_work(rows)
    for tile in range(np.uint64(len(index))):
        a_tile, b_tile, c_tile = index[tile]
        if tile == 0 or a_tile != index[tile - one, 0]:
            terms = (a_significands, a_exponents, a_factors, order, blocks)
            _decode(a_codes, a_tile, rows, terms, one, rows, a_significand, a_exponent)
        if tile == 0 or b_tile != index[tile - one, 1]:
            terms = (b_significands, b_exponents, b_factors, order, blocks)
            _decode(b_codes, b_tile, columns, terms, depth, one, b_significand, b_exponent)
        for column in range(columns):
            fused_column(
                (a_significand, a_exponent),
                (b_significand, b_exponent, column * depth),
                (c, c_tile * rows * columns + column),
                (d, tile * rows * columns + column),
                columns,
                (rows, depth, group),
                parameters,
                work,
            )


@inlined
def _decode(
    codes: Any,
    tile: Any,
    rows: Any,
    terms: Any,
    row_stride: Any,
    k_stride: Any,
    significand: Any,
    exponent: Any,
) -> None:
    """The terms of one tile, k in the given order, scale factors in the exponents, at the given strides."""
    significands, exponents, factors, order, blocks = terms
    depth = np.uint64(len(order))
    for row in range(rows):
        source, target = (tile * rows + row) * depth, row * row_stride
        for k in range(depth):
            code = codes[source + order[k]]
            significand[target + k * k_stride] = significands[code]
            exponent[target + k * k_stride] = exponents[code]
        for k in range(depth if blocks > 0 else np.uint64(0)):
            factor = factors[source // depth * blocks + order[k] * blocks // depth]
            place = target + k * k_stride
            exponent[place] = _scaled(np.int64(exponent[place]), factor)


@inlined
def _scaled(exponent: int, factor: int) -> int:
    """An exponent moved by a scale factor: a NaN wins, an infinity and a zero stay."""
    if factor >= NAN or exponent >= NAN:
        return NAN
    return exponent + factor if ZERO < exponent < INFINITE else exponent


@inlined
def sum_work(rows: Any) -> Any:
    """What `fused_column` computes in: accumulators, those before a half, exact sums; largest exponents, parts."""
    wide = (np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64))
    return (*wide, np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty(rows, np.int32))


@inlined
def fused_column(a: Any, b: Any, c: Any, d: Any, stride: Any, extents: Any, parameters: Any, work: Any) -> None:
    """One column of D.

    Args:
        a: significands and exponents of A, int32 [depth, rows], flat.
        b: significands and exponents of B's rows, int32, and where the column's `depth` of them start.
        c: codes, and where the column's first stands.
        d: codes, and where the column's first stands.
        stride: from one row of C and D to the next.
        extents: rows, depth, group.
        parameters: as of `fused_tiles`.
        work: of `sum_work`.
    """
    (rows, depth, group), (left, bits, least, to_float16, kept_bits, mode) = extents, parameters
    half = to_float16 != 0
    value, exponent, before, before_exponent, total, largest, part = work
    codes, first = c
    for row in range(rows):
        value[row], exponent[row] = split(codes[first + row * stride], half) if mode == EARLY else (0, ZERO)
    for k in range(np.uint64(0), depth, group):
        if mode == LATE_HALVES:
            for row in range(rows):
                before[row], before_exponent[row], value[row], exponent[row] = value[row], exponent[row], 0, ZERO
        special_rows = _largest(a, b, k, group, exponent, least, largest)
        for row in range(rows):
            total[row] = aligned(value[row], exponent[row], np.int64(largest[row]), bits - (10 if half else 23))
        _add_products(a, b, k, group, left, largest, part, total)
        if special_rows:
            for row in range(rows):
                if largest[row] > SPECIAL:
                    parts = _special(a, b, k, group, row, rows) | what(value[row], exponent[row])
                    value[row], exponent[row] = special(parts)
                else:
                    value[row], exponent[row] = rounded(total[row], np.int64(largest[row]) - bits, half, kept_bits)
        else:
            for row in range(rows):
                value[row], exponent[row] = rounded(total[row], np.int64(largest[row]) - bits, half, kept_bits)
        if mode == LATE_HALVES:
            for row in range(rows):
                value[row], exponent[row] = add(before[row], before_exponent[row], value[row], exponent[row], half)
    if mode != EARLY:
        for row in range(rows):
            c_significand, c_exponent = split(codes[first + row * stride], half)
            value[row], exponent[row] = add(c_significand, c_exponent, value[row], exponent[row], half)
    codes, first = d
    for row in range(rows):
        codes[first + row * stride] = join(value[row], exponent[row], half)


@inlined
def _largest(a: Any, b: Any, start: Any, group: Any, exponent: Any, least: Any, largest: Any) -> Any:
    """The largest exponent of a group and of what was summed before, for each row; whether one is not finite."""
    (_, a_exponent), (_, b_exponent, column) = a, b
    rows = np.uint64(len(largest))
    for row in range(rows):
        largest[row] = max(exponent[row], least)
    for k in range(start, start + group):
        other = b_exponent[column + k]
        for row in range(rows):
            largest[row] = _max(largest[row], _add(a_exponent[k * rows + row], other))
    top = np.int32(0)
    for row in range(rows):
        top = _max(top, largest[row])
    return top > SPECIAL


@inlined
def _add_products(a: Any, b: Any, start: Any, group: Any, left: Any, largest: Any, part: Any, total: Any) -> None:
    """Adds the cut products in units of 2^(largest - fraction bits): shifted left into place, then right by magnitude.

    A cut product is below 2^27, so `_PART` of them fit into 32 bits.
    """
    (a_significand, a_exponent), (b_significand, b_exponent, column) = a, b
    rows, places_left = np.uint64(len(largest)), np.int32(left)
    for first in range(start, start + group, _PART):
        for row in range(rows):
            part[row] = 0
        for k in range(first, min(first + _PART, start + group)):
            significand, other = b_significand[column + k], b_exponent[column + k]
            for row in range(rows):
                product = _multiply(a_significand[k * rows + row], significand)
                places = _min(_subtract(largest[row], _add(a_exponent[k * rows + row], other)), np.int32(31))
                sign = _shift_signed(product, np.int32(31))
                magnitude = _shift_left(_subtract(_xor(product, sign), sign), places_left)
                cut = _shift_right(magnitude, places)
                part[row] = _add(part[row], _subtract(_xor(cut, sign), sign))
        for row in range(rows):
            total[row] += part[row]


@inlined
def _special(a: Any, b: Any, start: Any, group: Any, row: Any, rows: Any) -> int:
    """Which infinities and NaN the products of a row's group are; 0 · ∞ is NaN."""
    (a_significand, a_exponent), (b_significand, b_exponent, column) = a, b
    parts = 0
    for k in range(start, start + group):
        larger = np.int64(_max(a_exponent[k * rows + row], b_exponent[column + k]))
        product = np.int64(_multiply(a_significand[k * rows + row], b_significand[column + k]))
        if larger >= INFINITE:
            parts |= what(product, NAN if product == 0 else larger)
    return parts


@compiled
def group_scaled_tiles(
    a: Any,
    b: Any,
    a_factor: Any,
    b_factor: Any,
    a_exponent: Any,
    b_exponent: Any,
    c: Any,
    index: Any,
    d: Any,
    unit: Any,
) -> None:
    """Codes of D into `d`.

    Args:
        a: values as integers, [tiles of A, rows, depth].
        b: [tiles of B, columns, depth].
        a_factor: significands of scale factors, [tiles of A, rows, blocks].
        b_factor: [tiles of B, columns, blocks].
        a_exponent: exponents of scale factors, as a_factor.
        b_exponent: as b_factor.
        c: codes, [tiles of C, rows, columns].
        index: for each output tile, its tiles of A, B and C.
        d: codes, [output tiles, rows, columns].
        unit: products of a group; places that its sum is moved left; fraction bits, least exponent and kept bits.
    """
    group, left, bits, least, kept_bits = unit
    groups, blocks = a.shape[2] // group, a_factor.shape[2]
    sums, exponents = np.empty(groups, np.int64), np.empty(groups, np.int64)
    for tile in range(len(index)):
        i, j, n = index[tile]
        for row in range(a.shape[1]):
            for column in range(b.shape[1]):
                start, start_exponent = split(c[n, row, column], False)
                largest = max(start_exponent, least)
                for g in range(groups):
                    block = g * blocks // groups
                    exponent = a_exponent[i, row, block] + b_exponent[j, column, block]
                    total, zero = _exact(a[i, row], b[j, column], g * group, group)
                    if exponent < ZERO // 2 or (zero and exponent < SPECIAL):
                        exponent = least
                    sums[g] = total * a_factor[i, row, block] * b_factor[j, column, block]
                    exponents[g] = exponent
                    largest = max(largest, exponent)
                if largest > SPECIAL:
                    # NOTE: scale factors have no infinity, so what is not an infinite C is a NaN.
                    value, exponent = special(what(start, start_exponent) if largest == INFINITE else ANY_NAN)
                    d[tile, row, column] = join(value, exponent, False)
                    continue
                total = aligned(start, start_exponent, largest, bits - 23)
                for g in range(groups):
                    total += aligned(sums[g], exponents[g], largest, left)
                value, exponent = rounded(total, largest - bits, False, kept_bits)
                d[tile, row, column] = join(value, exponent, False)


@inlined
def _exact(a: Any, b: Any, start: int, group: int) -> tuple[int, bool]:
    """The sum of a group's products, and whether every product is zero."""
    total, zero = 0, True
    for k in range(start, start + group):
        product = a[k] * b[k]
        total += product
        zero &= product == 0
    return total, zero
