"""The compiled loops of matrix units: the twins of `fused_sum` and of the 4-bit kinds of `block_scaled_sum`.

One file, because numba's cache watches the file of a compiled function only: a helper elsewhere could change unseen.

A tile's codes become significands and exponents once (`term_array`). A group then takes two passes over its products:
the largest exponent, then the cut terms, both over 16 rows of A at once, in vectors of 32 bits an element. Indices are
unsigned, which lets the compiler vectorise the loops over rows. Sums stay below 2^53: fused, at most 32 products of
magnitude below 4 · 2^25 and C below 4 · 2^25; of the 4-bit kinds, a group's sum has at most 12 bits, two factors 8, and
27 more are kept.

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
from llvmlite import ir
from numba.core import cgutils, types
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

#: Rows that are computed at once. Arrays of terms have a multiple of them.
VECTOR_ROWS = np.uint64(16)

#: Columns that are computed at once, so that loops over what they hold are long and stay in the cache.
_COLUMNS = np.uint64(8)

#: Cut products, each below 2^27, that are added in 32 bits.
_PART = np.uint64(8)

#: What takes part in a sum that is not finite, as bits.
POSITIVE_INFINITY, NEGATIVE_INFINITY, ANY_NAN = 1, 2, 4


_WORD = ir.IntType(32)
_VECTOR = ir.VectorType(_WORD, int(VECTOR_ROWS))
_build: Any = cgutils


class _Vectors:
    """Vectors of int32 in the arrays that an intrinsic is given."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self._builder = builder
        self._arrays = [
            context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else None
            for kind, value in zip(signature.args, arguments, strict=True)
        ]

    def load(self, argument: int, index: Any) -> Any:
        """The vector from an index on."""
        return self._builder.load(self._pointer(argument, index, _VECTOR), align=4)

    def store(self, value: Any, argument: int, index: Any) -> None:
        """Writes a vector."""
        self._builder.store(value, self._pointer(argument, index, _VECTOR), align=4)

    def spread(self, argument: int, index: Any) -> Any:
        """One element in all places."""
        return self.fill(self._builder.load(self._pointer(argument, index, _WORD)))

    def fill(self, word: Any) -> Any:
        """A word in all places."""
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        first = self._builder.insert_element(nothing, word, ir.Constant(_WORD, 0))
        return self._builder.shuffle_vector(first, nothing, self.constant(0))

    def constant(self, word: int) -> Any:
        """A number in all places."""
        return ir.Constant(_VECTOR, [word] * int(VECTOR_ROWS))

    def _pointer(self, argument: int, index: Any, kind: Any) -> Any:
        array = self._arrays[argument]
        assert array is not None
        return self._builder.bitcast(self._builder.gep(array.data, [index]), kind.as_pointer())


def _emit_largest(
    context: Any, a: Any, b: Any, a_start: Any, b_start: Any, stride: Any, count: Any, largest: Any, place: Any
) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors = _Vectors(context, builder, signature, arguments)
        _, _, a_start, b_start, stride, count, _, place = arguments
        best = _build.alloca_once_value(builder, vectors.load(6, place))
        with _build.for_range(builder, count, intp=count.type) as loop:
            a_place = builder.add(a_start, builder.mul(loop.index, stride))
            exponent = builder.add(vectors.load(0, a_place), vectors.spread(1, builder.add(b_start, loop.index)))
            before = builder.load(best)
            builder.store(builder.select(builder.icmp_signed(">", exponent, before), exponent, before), best)
        vectors.store(builder.load(best), 6, place)

    index = types.uint64
    return types.void(a, b, index, index, index, index, largest, index), generate


def _emit_products(
    context: Any,
    a: Any,
    a_exponent: Any,
    b: Any,
    b_exponent: Any,
    a_start: Any,
    b_start: Any,
    stride: Any,
    count: Any,
    left: Any,
    largest: Any,
    part: Any,
    place: Any,
) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors = _Vectors(context, builder, signature, arguments)
        _, _, _, _, a_start, b_start, stride, count, left, _, _, place = arguments
        largest, left, most = vectors.load(9, place), vectors.fill(left), vectors.constant(31)
        total = _build.alloca_once_value(builder, vectors.constant(0))
        with _build.for_range(builder, count, intp=count.type) as loop:
            a_place = builder.add(a_start, builder.mul(loop.index, stride))
            b_place = builder.add(b_start, loop.index)
            product = builder.mul(vectors.load(0, a_place), vectors.spread(2, b_place))
            below = builder.sub(largest, builder.add(vectors.load(1, a_place), vectors.spread(3, b_place)))
            places = builder.select(builder.icmp_signed("<", below, most), below, most)
            sign = builder.ashr(product, most)
            magnitude = builder.shl(builder.sub(builder.xor(product, sign), sign), left)
            cut = builder.sub(builder.xor(builder.lshr(magnitude, places), sign), sign)
            builder.store(builder.add(builder.load(total), cut), total)
        vectors.store(builder.load(total), 10, place)

    index = types.uint64
    arguments = (a, a_exponent, b, b_exponent, index, index, index, index, types.int32, largest, part, index)
    return types.void(*arguments), generate


#: `VECTOR_ROWS` rows: the largest of `largest` and of the exponents of `count` products.
_largest_of: Any = intrinsic(_emit_largest)
#: `VECTOR_ROWS` rows: the sum of `count` cut products in units of 2^(largest - fraction bits), each shifted left into
#: place, then right by magnitude.
_products_of: Any = intrinsic(_emit_products)


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
    one, stride = np.uint64(1), padded(rows)
    a_terms, b_terms = no_terms(stride * depth), no_terms(columns * depth)
    work = sum_work(rows)
    for tile in range(np.uint64(len(index))):
        a_tile, b_tile, c_tile = index[tile]
        if tile == 0 or a_tile != index[tile - one, 0]:
            source = (a_codes, a_significands, a_exponents, a_factors)
            _decode(source, a_tile, rows, order, blocks, one, stride, a_terms)
        if tile == 0 or b_tile != index[tile - one, 1]:
            source = (b_codes, b_significands, b_exponents, b_factors)
            _decode(source, b_tile, columns, order, blocks, depth, one, b_terms)
        c_first, d_first = c_tile * rows * columns, tile * rows * columns
        fused_tile(a_terms, b_terms, c, c_first, d, d_first, (rows, columns, depth, group), parameters, work)


@inlined
def padded(rows: Any) -> Any:
    """Rows of an array of terms."""
    return (rows + VECTOR_ROWS - np.uint64(1)) // VECTOR_ROWS * VECTOR_ROWS


@inlined
def no_terms(count: Any) -> Any:
    """Significands and exponents of zeros."""
    return np.zeros(count, np.int32), np.full(count, np.int32(ZERO))


@inlined
def _decode(
    source: Any, tile: Any, rows: Any, order: Any, blocks: Any, row_stride: Any, k_stride: Any, terms: Any
) -> None:
    """The terms of one tile, k in the given order, scale factors in the exponents, at the given strides."""
    (codes, significands, exponents, factors), (significand, exponent) = source, terms
    depth = np.uint64(len(order))
    for row in range(rows):
        first, target = (tile * rows + row) * depth, row * row_stride
        for k in range(depth):
            code = codes[first + order[k]]
            significand[target + k * k_stride] = significands[code]
            exponent[target + k * k_stride] = exponents[code]
        for k in range(depth if blocks > 0 else np.uint64(0)):
            factor = factors[first // depth * blocks + order[k] * blocks // depth]
            place = target + k * k_stride
            exponent[place] = _scaled(int(exponent[place]), factor)


@inlined
def _scaled(exponent: int, factor: int) -> int:
    """An exponent moved by a scale factor: a NaN wins, an infinity and a zero stay."""
    if factor >= NAN or exponent >= NAN:
        return NAN
    return exponent + factor if ZERO < exponent < INFINITE else exponent


@inlined
def sum_work(rows: Any) -> Any:
    """What `fused_tile` computes in, for some columns: accumulators, those before a half, sums; largest, parts."""
    size = padded(rows) * _COLUMNS
    value, exponent = np.empty(size, np.int64), np.empty(size, np.int64)
    before, before_exponent = np.empty(size, np.int64), np.empty(size, np.int64)
    total, largest, part = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int32)
    return value, exponent, before, before_exponent, total, largest, part


@inlined
def fused_tile(
    a: Any, b: Any, c: Any, c_first: Any, d: Any, d_first: Any, extents: Any, parameters: Any, work: Any
) -> None:
    """One tile of D.

    Args:
        a: significands and exponents of A, int32 [depth, padded rows], flat.
        b: significands and exponents of B, int32 [columns, depth], flat.
        c: codes, [rows, columns] from `c_first` on.
        c_first: where the tile starts in c.
        d: codes, [rows, columns] from `d_first` on; it may be c.
        d_first: where the tile starts in d.
        extents: rows, columns, depth, group.
        parameters: as of `fused_tiles`.
        work: of `sum_work`.
    """
    (rows, columns, depth, group), (left, bits, least, to_float16, kept_bits, mode) = extents, parameters
    half, late = to_float16 != 0, mode != EARLY
    value, exponent, before, before_exponent, total, largest, part = work
    for first in range(np.uint64(0), columns, _COLUMNS):
        count = min(_COLUMNS, columns - first)
        size = count * padded(rows)
        value[:size] = 0
        exponent[:size] = ZERO
        if not late:
            _start(c, c_first + first, rows, columns, count, half, value, exponent)
        for k in range(np.uint64(0), depth, group):
            if mode == LATE_HALVES:
                for i in range(size):
                    before[i], before_exponent[i], value[i], exponent[i] = value[i], exponent[i], 0, ZERO
            for i in range(size):
                largest[i] = max(exponent[i], least)
            finite = _find_largest(a, b, first, count, k, depth, group, largest)
            for i in range(size):
                total[i] = aligned(value[i], exponent[i], int(largest[i]), bits - (10 if half else 23))
            _add_products(a, b, first, count, k, depth, group, left, largest, part, total)
            if not finite:
                _specials(a, b, first, count, k, depth, group, largest, value, exponent)
            for i in range(size):
                result, result_exponent = rounded(total[i], int(largest[i]) - bits, half, kept_bits)
                is_special = largest[i] > SPECIAL
                value[i] = value[i] if is_special else result
                exponent[i] = exponent[i] if is_special else result_exponent
            if mode == LATE_HALVES:
                for i in range(size):
                    value[i], exponent[i] = add(before[i], before_exponent[i], value[i], exponent[i], half)
        if late:
            before[:size] = 0
            before_exponent[:size] = ZERO
            _start(c, c_first + first, rows, columns, count, half, before, before_exponent)
            for i in range(size):
                value[i], exponent[i] = add(before[i], before_exponent[i], value[i], exponent[i], half)
        for column in range(count):
            for row in range(rows):
                i = column * padded(rows) + row
                d[d_first + row * columns + first + column] = join(value[i], exponent[i], half)


@inlined
def _start(c: Any, start: Any, rows: Any, columns: Any, count: Any, half: Any, value: Any, exponent: Any) -> None:
    """The values of some columns of C."""
    for column in range(count):
        for row in range(rows):
            i = column * padded(rows) + row
            value[i], exponent[i] = split(c[start + row * columns + column], half)


@inlined
def _find_largest(a: Any, b: Any, first: Any, count: Any, k: Any, depth: Any, group: Any, largest: Any) -> Any:
    """The largest exponents of a group and of `largest`; whether all are finite."""
    rows = np.uint64(len(a[1])) // depth
    for column in range(count):
        start = (first + column) * depth + k
        for row in range(np.uint64(0), rows, VECTOR_ROWS):
            _largest_of(a[1], b[1], k * rows + row, start, rows, group, largest, column * rows + row)
    top = np.int32(0)
    for i in range(count * rows):
        top = max(top, largest[i])
    return top <= SPECIAL


@inlined
def _add_products(
    a: Any,
    b: Any,
    first: Any,
    count: Any,
    k: Any,
    depth: Any,
    group: Any,
    left: Any,
    largest: Any,
    part: Any,
    total: Any,
) -> None:
    """Adds the cut products of a group."""
    rows = np.uint64(len(a[1])) // depth
    for begin in range(k, k + group, _PART):
        many = min(_PART, k + group - begin)
        for column in range(count):
            start = (first + column) * depth + begin
            for row in range(np.uint64(0), rows, VECTOR_ROWS):
                at, place = begin * rows + row, column * rows + row
                _products_of(a[0], a[1], b[0], b[1], at, start, rows, many, np.int32(left), largest, part, place)
        for i in range(count * rows):
            total[i] += part[i]


@inlined
def _specials(
    a: Any, b: Any, first: Any, count: Any, k: Any, depth: Any, group: Any, largest: Any, value: Any, exponent: Any
) -> None:
    """The values of sums in which something is not finite."""
    rows = np.uint64(len(a[1])) // depth
    for i in range(count * rows):
        if largest[i] > SPECIAL:
            start = (first + i // rows) * depth + k
            parts = _special(a, b, start, k, group, i % rows, rows)
            value[i], exponent[i] = special(parts | what(value[i], exponent[i]))


@inlined
def _special(a: Any, b: Any, b_start: Any, k: Any, group: Any, row: Any, rows: Any) -> int:
    """Which infinities and NaN the products of a row's group are; 0 · ∞ is NaN."""
    parts = 0
    for i in range(group):
        place, other = (k + i) * rows + row, b_start + i
        larger = int(max(a[1][place], b[1][other]))
        product = int(a[0][place]) * int(b[0][other])
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
