"""Input families of the INT8 products: codes and scales at the points where layouts, sums and epilogues go wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Random = np.random.Generator

CONVERSION_DEPTH = 1060
"""K from which a sum of products of 127 passes 2^24 by 3 * 2^16."""


@dataclass(frozen=True)
class Inputs:
    """x [M, K], W [K, N] of int8, and float32 scales [M] and [N]."""

    x: Array
    w: Array
    x_scale: Array
    w_scale: Array


def generate(family: str, m: int, n: int, k: int, random: Random) -> Inputs:
    """The inputs of a family in FAMILIES."""
    made = FAMILIES[family](m, n, k, random)
    return Inputs(
        made.x.astype(np.int8),
        made.w.astype(np.int8),
        np.asarray(made.x_scale, np.float32),
        np.asarray(made.w_scale, np.float32),
    )


def _scales(size: int, random: Random) -> Array:
    return random.random(size).astype(np.float32) * np.float32(0.01)


def uniform(m: int, n: int, k: int, random: Random) -> Inputs:
    """As MetaInfer's own tests: codes -127 to 127, scales below 0.01."""
    x, w = (random.integers(-127, 128, shape) for shape in ((m, k), (k, n)))
    return Inputs(x, w, _scales(m, random), _scales(n, random))


def extremes(m: int, n: int, k: int, random: Random) -> Inputs:
    """-128, -127 and 127; a row and a column of -128 alone, whose sum is the largest there is."""
    x, w = (random.choice([-128, -127, 127], shape) for shape in ((m, k), (k, n)))
    x[:1], w[:, :1] = -128, -128
    return Inputs(x, w, _scales(m, random), _scales(n, random))


def one_hot(m: int, n: int, k: int, random: Random) -> Inputs:
    """A single 1 a row, from the first k to the last: an output is one code of W, from where it must come from."""
    x = np.zeros((m, k), np.int8)
    x[np.arange(m), (37 * np.arange(m) + k - 1) % k] = 1
    return Inputs(x, random.integers(-128, 128, (k, n)), np.ones(m), np.ones(n))


def scales(m: int, n: int, k: int, random: Random) -> Inputs:
    """Powers of two, another for each of 16 neighbouring rows and of 13 columns, on sums that bf16 holds."""
    given = one_hot(m, n, k, random)
    return Inputs(given.x, given.w, 2.0 ** (np.arange(m) % 16), 2.0 ** -(np.arange(n) % 13))


def ties(m: int, n: int, k: int, random: Random) -> Inputs:
    """Sums of nine bits, the last of them set: halfway between two values of bf16, both ways of even."""
    x, w = np.zeros((m, k), np.int8), np.zeros((k, n), np.int8)
    if k >= 2:
        x[:, 0], x[:, -1] = 4, 1
        w[0], w[-1] = random.integers(64, 128, n), random.choice([1, 3], n)
    x *= random.choice([-1, 1], (m, 1)).astype(np.int8)
    return Inputs(x, w, np.ones(m), np.ones(n))


def conversion(m: int, n: int, k: int, random: Random) -> Inputs:
    """Sums beside 2^24 + 2^16 and 2^24 + 3 * 2^16: float32 holds them only rounded, and then they are ties of bf16."""
    x, w = np.full((m, k), 127), np.zeros((k, n))
    if k >= CONVERSION_DEPTH:
        x[:, -1] = 1
        target = 2**24 + random.choice([1, 3], n) * 2**16 + random.integers(-1, 2, n)
        products, rest = np.divmod(target, 127 * 127)
        w[: k - 2] = np.where(np.arange(k - 2)[:, np.newaxis] < products, 127, 0)
        w[k - 2], w[k - 1] = np.divmod(rest, 127)
    return Inputs(x * random.choice([-1, 1], (m, 1)), w, np.ones(m), np.ones(n))


def cut_sums(m: int, n: int, k: int, random: Random) -> Inputs:
    """Each sum is 2^24 + 3 * 2^16 - 1 of either sign: float32 rounds it to a tie of bf16, which goes up. Cut instead of
    rounded it ends one lower."""
    given = conversion(m, n, k, random)
    if k < CONVERSION_DEPTH:
        return given
    products, rest = divmod(2**24 + 3 * 2**16 - 1, 127 * 127)
    w = np.zeros((k, n), np.int64)
    w[:products], w[k - 2], w[k - 1] = 127, *divmod(rest, 127)
    return Inputs(given.x, w, given.x_scale, given.w_scale)


def association(m: int, n: int, k: int, random: Random) -> Inputs:
    """Scales whose product is ordinary; but a sum times the first is infinite where it is 2^18 or more."""
    given = extremes(m, n, k, random)
    first = 2.0**110 * random.uniform(1, 1.9, m)
    return Inputs(given.x, given.w, first, 2.0**-60 * random.uniform(1, 1.9, n))


def odd_scales(m: int, n: int, k: int, random: Random) -> Inputs:
    """Every pair of a zero, small, negative, large, infinite or NaN scale of a row with one of a column.

    Values below 2^-126 on the way and at the end, either sign of zero, infinities, and NaN by infinity times 0.
    """
    given = one_hot(m, n, k, random)
    return Inputs(given.x, given.w, np.resize(_ODD, m), np.resize(_ODD[::-1], n))


_ODD = np.array(
    [
        1.5,
        0.0,
        -0.0,
        2.0**-149,
        -1.7 * 2.0**-133,
        2.0**-126,
        2.0**-20,
        -257 / 256,
        1.9 * 2.0**120,
        np.inf,
        -np.inf,
        np.nan,
    ]
)


def small_rows(m: int, n: int, k: int, random: Random) -> Inputs:
    """Scales of rows so small that their products with sums are below the least normal number, by columns' scales that
    make ordinary outputs of them."""
    x, w = random.integers(-3, 4, (m, k)), random.integers(-3, 4, (k, n))
    x[:, 2:] = 0
    return Inputs(x, w, 2.0**-133 * random.uniform(1, 2, m), 2.0**125 * random.uniform(1, 2, n))


def near_ties(m: int, n: int, k: int, random: Random) -> Inputs:
    """Products just below a tie of bf16, which float32 rounds to it, and bf16 then up: of 3 and the row's scale in even
    rows and pairs of columns, of that and the column's scale in odd ones. Cut instead of rounded they end one lower."""
    x = np.zeros((m, k), np.int8)
    x[np.arange(m), np.arange(m) % k if k else 0] = random.choice([-1, 1], m)
    thirds = _near_thirds()
    row, column = np.arange(m), np.arange(n)
    row_scales = np.where(row % 2 == 0, np.resize(thirds, m), 1.0)
    column_scales = np.where(column // 2 % 2 == 1, np.resize(thirds[::-1], n), 1.0)
    return Inputs(x, np.full((k, n), 3), row_scales, column_scales)


def _near_thirds() -> Array:
    """Float32 values s for which 3 * s lies below an odd tie of bf16 by less than float32 can say there."""
    ties = 2.0 * (129 + 2 * np.arange(64)) + 1  # nine bits, of which the last two are set
    found = (ties / 3).astype(np.float32)
    exact = 3 * found.astype(np.float64)
    return np.asarray(found[(exact < ties) & (exact.astype(np.float32) == ties)])


def worn_counters(m: int, n: int, k: int, random: Random) -> Inputs:
    """As uniform; the counters of a fused combine have counted almost 2^32 arrivals."""
    return uniform(m, n, k, random)


FAMILIES: Mapping[str, Callable[[int, int, int, Random], Inputs]] = {
    "uniform": uniform,
    "extremes": extremes,
    "one-hot": one_hot,
    "scales": scales,
    "ties": ties,
    "conversion": conversion,
    "association": association,
    "odd-scales": odd_scales,
    "worn-counters": worn_counters,
    "near-ties": near_ties,
    "small-rows": small_rows,
    "cut-sums": cut_sums,
}


def first_arrivals(family: str, splits: int) -> int:
    """What a counter holds before the launch: a whole number of launches' arrivals."""
    launches = 2**32 // splits if family == "worn-counters" else 5
    return launches * splits
