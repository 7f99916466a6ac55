"""Input families of row quantisers: data that reaches the points where conversions and scales go wrong.

A row's scale follows from its largest magnitude. A family that needs a known scale therefore *pins* it: one element
of the row is ±448 · 2^e, which makes the scale exactly 2^e, and every other element lands on the e4m3 grid where it
was aimed. Row 0 is pinned in its last column and row 1 in its first, so that a maximum that misses a tail or a head
shows at once. Example: in a row pinned by 896 (e = 1) the input 34 is the tie between the codes of 16 and 18.

Every generator takes (rows, columns, dtype, random) and returns an array of that shape. All randomness comes from
`random`, and nothing loops over elements.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.oracle.formats import E4M3FN, source_format

Values = NDArray[np.float64]
Array = NDArray[Any]
Generator = Callable[[int, int, np.dtype[Any], np.random.Generator], Array]

LARGEST = 448.0
"""The largest finite e4m3 value."""

INVERSE_OVERFLOW = 448.0 * 2.0**-128
"""About 1.3e-36: the amax whose scale is 2^-128, the largest with an infinite reciprocal in float32.

Scales there are multiples of 2^-149, so an amax up to 448 · (2^-128 + 2^-150), 3 ulp more, rounds to that scale too.
"""


def generate(family: str, rows: int, columns: int, dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    """The values of a family in FAMILIES, [rows, columns] of `dtype`."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return FAMILIES[family](rows, columns, dtype, random)


def finite_grid() -> Values:
    """The 253 distinct finite e4m3 values (both zeros are one), ascending."""
    values = np.asarray(E4M3FN.decode(np.arange(256, dtype=np.uint8)), np.float64)
    return np.unique(values[np.isfinite(values)])


def midpoints() -> Values:
    """The 252 ties: halfway between neighbouring finite e4m3 values, ascending."""
    grid = finite_grid()
    return (grid[1:] + grid[:-1]) / 2


def pinned_exponents(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Lowest and highest e for which 448 · 2^e is finite and the smallest tie, 2^-10 · 2^e, is normal.

    Cut to ±100, where no step of the scale arithmetic comes near the ends of float32.
    """
    record = source_format(dtype)
    return max(record.min_exponent + 10, -100), min(_largest_exponent(dtype) - 8, 100)


def _all_codes(rows: int, columns: int, dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    """Each finite code's value and its neighbours in the source type, under power-of-two scales."""
    targets, steps = _with_neighbours(finite_grid())
    return _aimed(targets, steps, _pinned_amax(rows, dtype, random), columns, dtype, random)


def _ties(rows: int, columns: int, dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    """Each tie and its neighbours in the source type: even rows exactly, odd rows under scales that are no power."""
    targets, steps = _with_neighbours(midpoints())
    amax = _pinned_amax(rows, dtype, random)
    amax[1::2] *= random.uniform(0.5, 1.0, amax[1::2].shape)
    return _aimed(targets, steps, amax, columns, dtype, random)


def _subnormals(rows: int, columns: int, dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    """Even rows: around the subnormal codes, in eighths of their spacing. Odd rows: subnormals of the source type."""
    targets = np.arange(-80.0, 81.0).astype(np.float64) * 2.0**-12
    amax = _pinned_amax(rows, dtype, random)
    record = source_format(dtype)
    amax[1::2] = LARGEST * 2.0 ** (record.min_exponent + 6)
    values = _aimed(targets, random.integers(-1, 2, targets.size), amax, columns, dtype, random, pin=False)
    count = values[1::2].size
    fractions = random.integers(0, 1 << record.mantissa_bits, count)
    bits = fractions | random.choice([0, record.sign_bit], count)
    values[1::2] = _from_bits(bits, dtype).reshape(values[1::2].shape)
    return _pin(values, amax, random)


def _top_binade(rows: int, columns: int, dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    """Codes, ties and neighbours from 224 to 448, where an encoder that saturates early or wraps goes wrong."""
    points = np.concatenate([finite_grid(), midpoints()])
    targets, steps = _with_neighbours(points[np.abs(points) >= LARGEST / 2])
    amax = _pinned_amax(rows, dtype, random)
    amax[1::2] *= random.uniform(0.5, 1.0, amax[1::2].shape)
    return _aimed(targets, steps, amax, columns, dtype, random)


SPECIAL_ROW_KINDS = 5
"""Rows that the specials need to reach all of their kinds."""


def _specials(rows: int, columns: int, dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    """Rows with NaN of several payloads and signs, with infinities, with zeros of both signs, mixed, of NaN only.

    In the first kind NaN stands on both sides of the largest magnitude, where a comparison would let it take over.
    """
    values = _on_grid(rows, columns, dtype, random)
    nan, infinity, zero = (_special_values(dtype, kind) for kind in ("nan", "infinity", "zero"))
    palettes = (nan, infinity, zero, np.concatenate([nan, infinity, zero]), nan)
    shares = (0.1, 0.1, 0.5, 0.4, 1.0)
    first = random.integers(SPECIAL_ROW_KINDS)
    for row in range(rows):
        kind = (first + row) % SPECIAL_ROW_KINDS
        hit = random.permutation(columns)[: max(1, round(shares[kind] * columns))]
        if kind == 0 and columns > 1:
            largest = int(np.abs(values[row].astype(np.float64)).argmax())
            hit = np.append(hit, [(largest - 1) % columns, (largest + 1) % columns])
            hit = hit[hit != largest]
        values[row, hit] = np.resize(random.permutation(palettes[kind]), hit.size)
    return values


ZERO_ROW_KINDS = 4
"""Rows that the zero rows need to reach all of their kinds."""


def _zero_rows(rows: int, columns: int, dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    """Rows of +0, of -0, of both, and an ordinary row between them."""
    values = _on_grid(rows, columns, dtype, random)
    signs = np.stack([np.zeros(columns), np.full(columns, -0.0), random.choice([0.0, -0.0], columns)]).astype(dtype)
    kind = (np.arange(rows) + random.integers(ZERO_ROW_KINDS)) % ZERO_ROW_KINDS
    values[kind < 3] = signs[kind[kind < 3]]
    return values


def tiny_amaxima(dtype: np.dtype[Any]) -> Values:
    """Largest magnitudes at which a float32 scale vanishes, is subnormal, or has an infinite reciprocal.

    Those that `dtype` can hold, rounded to it: multiples of its smallest subnormal; 224 and 225 units of 2^-149, on
    both sides of the scale's last tie; INVERSE_OVERFLOW and some ulp to its sides; the smallest normals.
    """
    record = source_format(dtype)
    normal = 2.0**record.min_exponent
    smallest = normal * 2.0**-record.mantissa_bits
    units = np.array([224, 225, 447, 448, 449, 673]) * 2.0**-149
    points = np.array([smallest, 2 * smallest, 3 * smallest, 2.0**-133, 2.0**-127, normal, normal * LARGEST, *units])
    edge = np.array([INVERSE_OVERFLOW]).astype(dtype)
    beside = edge.view(f"u{dtype.itemsize}").astype(np.int64) + np.array([-1, 0, 1, 3, 4])
    around = _from_bits(beside, dtype) if edge[0] > 0 else edge
    candidates = np.concatenate([points.astype(dtype), around]).astype(np.float64)
    return np.unique(candidates[candidates > 0])


def _tiny_rows(rows: int, columns: int, dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    """Rows whose largest magnitude is one of `tiny_amaxima`, with zeros among the elements."""
    amax = np.resize(np.roll(tiny_amaxima(dtype), random.integers(rows + 1)), rows)
    share = random.uniform(-1, 1, (rows, columns)) * (random.random((rows, columns)) > 0.1)
    return _pin((share * amax[:, None]).astype(dtype), amax, random)


def _giant_among_tiny(rows: int, columns: int, dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    """One giant a row, the largest finite value in every third, among elements 2^6 to 2^30 times smaller."""
    record = source_format(dtype)
    largest = float(record.decode(record.max_code))
    giant = np.where(np.arange(rows) % 3 == 0, largest, largest * random.uniform(0, 1, rows))
    tiny = giant[:, None] * np.exp2(random.uniform(-30, -6, (rows, columns))) * random.choice([-1, 1], (rows, columns))
    return _pin(tiny.astype(dtype), giant, random)


def _on_grid(rows: int, columns: int, dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    """Random codes under power-of-two scales that differ from row to row: quantisation is exact."""
    amax = _pinned_amax(rows, dtype, random)
    values = random.choice(finite_grid(), (rows, columns)) * (amax / LARGEST)[:, None]
    return _pin(values.astype(dtype), amax, random)


def _random_bits(rows: int, columns: int, dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    """Every bit pattern of the source type, NaN and infinities included, equally likely."""
    bits = random.integers(0, 1 << 8 * dtype.itemsize, rows * columns, dtype=np.uint64)
    return _from_bits(bits, dtype).reshape(rows, columns)


def _peaks(rows: int, columns: int, dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    """The largest magnitude stands in another column in each row, evenly spread from the first to the last and of
    either sign, twice as large as all others: a maximum that misses a warp, a lane, a turn of a loop or a sign shows.
    """
    amax = _pinned_amax(rows, dtype, random)
    values = random.uniform(-0.5, 0.5, (rows, columns)) * amax[:, None]
    row = np.arange(rows)
    at = row * (columns - 1) // max(1, rows - 1)
    values[row, at] = np.where(row // 8 % 2 == 0, -amax, amax)
    return values.astype(dtype)


FAMILIES: Mapping[str, Generator] = {
    "all-codes": _all_codes,
    "ties": _ties,
    "subnormals": _subnormals,
    "top-binade": _top_binade,
    "specials": _specials,
    "zero-rows": _zero_rows,
    "tiny-rows": _tiny_rows,
    "giant-among-tiny": _giant_among_tiny,
    "on-grid": _on_grid,
    "random-bits": _random_bits,
    "peaks": _peaks,
}


def _with_neighbours(points: Values) -> tuple[Values, NDArray[np.int64]]:
    """Each point with a step of -1, 0 and +1 in the source type; steps beyond ±448 would move the pinned amax."""
    targets = np.repeat(points, 3)
    steps = np.tile(np.array([-1, 0, 1]), points.size)
    inside = np.abs(targets + steps * 2.0**-20) <= LARGEST
    return targets[inside], steps[inside]


def _pinned_amax(rows: int, dtype: np.dtype[Any], random: np.random.Generator) -> Values:
    """448 · 2^e for each row, e different in neighbouring rows."""
    lowest, highest = pinned_exponents(dtype)
    count = highest - lowest + 1
    exponents: Values = (lowest + (random.integers(count) + 5 * np.arange(rows)) % count).astype(np.float64)
    return LARGEST * np.exp2(exponents)


def _aimed(
    targets: Values,
    steps: NDArray[np.int64],
    amax: Values,
    columns: int,
    dtype: np.dtype[Any],
    random: np.random.Generator,
    *,
    pin: bool = True,
) -> Array:
    """Rows whose scaled elements hit `targets`, moved by `steps` in the source type.

    The targets run through all even rows and again through all odd ones, in an order of their own, so that both
    kinds of rows reach all of them where they have room.
    """
    rows = amax.size
    amax = amax.astype(dtype).astype(np.float64)
    inverse = (np.float32(1) / (amax.astype(np.float32) / np.float32(LARGEST))).astype(np.float64)
    values = np.zeros((rows, columns), dtype)
    at = _pin_columns(rows, columns, random)
    free = np.ones((rows, columns), np.bool_)
    free[np.arange(rows), at] = not pin
    for parity in (0, 1):
        half = free.copy()
        half[1 - parity :: 2] = False
        order = np.resize(random.permutation(targets.size), int(half.sum()))
        row = np.nonzero(half)[0]
        exact = (targets[order] / inverse[row]).astype(dtype)
        ends = np.array([-np.inf, 0, np.inf]).astype(dtype)[steps[order] + 1]
        values[half] = np.where(steps[order] == 0, exact, np.nextafter(exact, ends))
    return _pin(values, amax, random, at) if pin else values


def _pin_columns(rows: int, columns: int, random: np.random.Generator) -> NDArray[np.int64]:
    at = random.integers(0, columns, rows)
    at[:1] = columns - 1
    at[1:2] = 0
    return at


def _pin(values: Array, amax: Values, random: np.random.Generator, at: NDArray[np.int64] | None = None) -> Array:
    """Set one element of each row to plus or minus that row's amax."""
    rows, columns = values.shape
    at = _pin_columns(rows, columns, random) if at is None else at
    values[np.arange(rows), at] = (amax * random.choice([-1.0, 1.0], rows)).astype(values.dtype)
    return values


def _special_values(dtype: np.dtype[Any], kind: str) -> Array:
    """Zeros, infinities, or quiet and signalling NaNs with several payloads; of both signs."""
    record = source_format(dtype)
    quiet = 1 << (record.mantissa_bits - 1)
    fractions = {"zero": [0], "infinity": [0], "nan": [1, quiet - 1, quiet, quiet | 1, 2 * quiet - 1]}[kind]
    bits = np.array(fractions) | (0 if kind == "zero" else record.top_field)
    return _from_bits(np.concatenate([bits, bits | record.sign_bit]), dtype)


def _from_bits(bits: NDArray[Any], dtype: np.dtype[Any]) -> Array:
    return bits.astype(f"u{dtype.itemsize}").view(dtype)


def _largest_exponent(dtype: np.dtype[Any]) -> int:
    record = source_format(dtype)
    return record.min_exponent + (record.max_code >> record.mantissa_bits) - 1
