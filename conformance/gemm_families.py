"""Input families of the FP8 product: data that reaches the points where layouts, sums and epilogues go wrong.

The activations are bf16 and quantised on the way, so a family aims at codes: each row of x is *pinned* by one element
of 448 · 2^e, its scale is then 2^e exactly, and every other element that is an e4m3 value times 2^e becomes that code.
Where the pin must not show in a sum, the weights are zero in its column.

Scales are chosen so that outputs have a known size, about 3: silu does its work there, and a residual counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.oracle.formats import E4M3FN

Array = NDArray[Any]
Random = np.random.Generator

BF16 = np.dtype(ml_dtypes.bfloat16)
LARGEST = 448.0
ORDINARY = 3.0
"""The size of an output, where a family does not care."""
WIDE = 15.0
"""The size of an output that drives silu to both of its ends."""

LOWEST_EXPONENT, HIGHEST_EXPONENT = -12, 4
"""Of the activation scales 2^e."""


@dataclass(frozen=True)
class Extents:
    """T tokens, N weight rows, K elements of each."""

    tokens: int
    rows: int
    depth: int


@dataclass(frozen=True)
class ProductInputs:
    """What a call is given: x bf16 [T, K], weight codes [N, K], weight scales bf16 [N], residual bf16 [T, N]."""

    x: Array
    weight: Array
    weight_scales: Array
    residual: Array


def generate(family: str, extents: Extents, random: Random) -> ProductInputs:
    """The inputs of a family in FAMILIES."""
    with np.errstate(all="ignore"):
        return FAMILIES[family](extents, random)


def finite_codes(rows: int, depth: int, random: Random) -> Array:
    """Every finite code, alike often."""
    codes = random.integers(0, 254, (rows, depth), np.uint8)
    return np.where(codes < 127, codes, codes + 1).astype(np.uint8)


def _exponents(extents: Extents, random: Random) -> Array:
    """e of each token, different in neighbours."""
    count = HIGHEST_EXPONENT - LOWEST_EXPONENT + 1
    return LOWEST_EXPONENT + (random.integers(count) + 5 * np.arange(extents.tokens)) % count


def _pins(extents: Extents) -> tuple[Array, Array]:
    """Where each row of x is pinned: in its last column, or in its first."""
    tokens = np.arange(extents.tokens)
    return tokens, np.where(tokens % 2 == 0, extents.depth - 1, 0)


def _activations(codes: Array, extents: Extents, random: Random) -> tuple[Array, Array]:
    """x whose codes are `codes` but for the pin, and the scale of each token."""
    scales = np.exp2(_exponents(extents, random))
    values = E4M3FN.decode(codes)
    values[_pins(extents)] = LARGEST
    return (values * scales[:, np.newaxis]).astype(BF16), scales


def _without_pins(weight: Array) -> Array:
    """The weight with zeros in the columns where x may be pinned."""
    weight = weight.copy()
    weight[:, [0, -1]] = 0
    return weight


def _weight_scales(x: Array, weight: Array, random: Random, size: float = ORDINARY) -> Array:
    """Scales of every mantissa that give outputs of about a size, whatever the codes."""
    x_size = np.sqrt(np.mean(np.square(x.astype(np.float64)))) if x.size else 1.0
    weight_size = np.sqrt(np.mean(np.square(E4M3FN.decode(weight))))
    total = x_size * weight_size * np.sqrt(weight.shape[1])
    factor = size / total if np.isfinite(total) and total > 0 else 1.0
    return np.asarray((random.uniform(0.6, 1.6, len(weight)) * factor).astype(BF16))


def _residual(extents: Extents, random: Random) -> Array:
    return np.asarray((random.standard_normal((extents.tokens, extents.rows)) * ORDINARY).astype(BF16))


def _finished(x: Array, weight: Array, extents: Extents, random: Random, size: float = ORDINARY) -> ProductInputs:
    return ProductInputs(x, weight, _weight_scales(x, weight, random, size), _residual(extents, random))


def on_grid(extents: Extents, random: Random) -> ProductInputs:
    """Codes of every exponent on both sides."""
    x, _ = _activations(finite_codes(extents.tokens, extents.depth, random), extents, random)
    return _finished(x, finite_codes(extents.rows, extents.depth, random), extents, random)


def _normal(extents: Extents, random: Random, size: float) -> ProductInputs:
    x = (random.standard_normal((extents.tokens, extents.depth)) * 2).astype(BF16)
    weight = E4M3FN.encode(random.standard_normal((extents.rows, extents.depth)) * 60)
    return _finished(x, weight, extents, random, size)


def normal(extents: Extents, random: Random) -> ProductInputs:
    """As a model's: normal activations and weights, scales that are no powers of two."""
    return _normal(extents, random, ORDINARY)


def wide_outputs(extents: Extents, random: Random) -> ProductInputs:
    """Normal data with outputs of up to about 50."""
    return _normal(extents, random, WIDE)


def powers(extents: Extents, random: Random) -> ProductInputs:
    """Small integers, and a power of two for each row and column: a wrong scale shows by its exponent."""
    integers = E4M3FN.encode(np.arange(-3.0, 4.0))
    x, _ = _activations(integers[random.integers(0, 7, (extents.tokens, extents.depth))], extents, random)
    weight = _without_pins(integers[random.integers(0, 7, (extents.rows, extents.depth))])
    scales = np.exp2((np.arange(extents.rows) * 3) % 17 - 8).astype(BF16)
    return ProductInputs(x, weight, scales, _residual(extents, random))


def one_hot(extents: Extents, random: Random) -> ProductInputs:
    """One element a token: an output is one weight code, from the place that it must come from."""
    x = np.zeros((extents.tokens, extents.depth), BF16)
    tokens = np.arange(extents.tokens)
    x[tokens, (37 * tokens + 3) % extents.depth] = (LARGEST * np.exp2(_exponents(extents, random))).astype(BF16)
    return _finished(x, finite_codes(extents.rows, extents.depth, random), extents, random)


def large_among_tiny(extents: Extents, random: Random) -> ProductInputs:
    """448 · 448 in the first place, then products that a unit cuts in part or whole."""
    codes = finite_codes(extents.tokens, extents.depth, random) & np.uint8(0xBF)
    x, scales = _activations(codes, extents, random)
    x[:, 0] = (LARGEST * scales).astype(BF16)
    weight = finite_codes(extents.rows, extents.depth, random) & np.uint8(0xBF)
    weight[:, 0] = 0x7E
    return _finished(x, weight, extents, random)


def cancellation(extents: Extents, random: Random) -> ProductInputs:
    """The second half of K takes back what the first half added: a sum is what roundings on the way left."""
    codes, weight = (finite_codes(rows, extents.depth, random) for rows in (extents.tokens, extents.rows))
    half = extents.depth // 2
    codes[:, half : 2 * half] = codes[:, :half] ^ np.uint8(0x80)
    weight[:, half : 2 * half] = weight[:, :half]
    x, _ = _activations(codes, extents, random)
    weight[:, [0, half - 1, half, -1]] = 0
    return _finished(x, weight, extents, random)


def subnormals(extents: Extents, random: Random) -> ProductInputs:
    """Subnormal codes on both sides."""
    codes, weight = (
        finite_codes(rows, extents.depth, random) & np.uint8(0x87) for rows in (extents.tokens, extents.rows)
    )
    x, _ = _activations(codes, extents, random)
    return _finished(x, _without_pins(weight), extents, random)


def ties(extents: Extents, random: Random) -> ProductInputs:
    """Outputs that are integers of nine bits times a power of two: every odd one is a bf16 tie."""
    x, scales = _activations(np.zeros((extents.tokens, extents.depth), np.uint8), extents, random)
    weight = np.zeros((extents.rows, extents.depth), np.uint8)
    places = np.arange(1, extents.depth - 1)[:2]
    if places.size == 2:
        x[:, places] = (np.array([16.0, 1.0]) * scales[:, np.newaxis]).astype(BF16)
        odd = random.choice([-1.0, 1.0], extents.rows) * random.integers(0, 16, extents.rows)
        weight[:, places] = E4M3FN.encode(np.stack([np.full(extents.rows, 16.0), odd], axis=1))
    weight_scales = np.exp2(random.integers(-4, 5, extents.rows)).astype(BF16)
    residual = _residual(extents, random) * BF16.type(2.0**-20)
    return ProductInputs(x, weight, weight_scales, residual)


def specials(extents: Extents, random: Random) -> ProductInputs:
    """Zero, infinite and NaN tokens, NaN weight codes, and scales that are zero, infinite, NaN or subnormal."""
    given = on_grid(extents, random)
    x, weight, scales, residual = (a.copy() for a in (given.x, given.weight, given.weight_scales, given.residual))
    for kind, value in enumerate((0.0, -0.0)):
        x[kind + 1 :: 9] = value
    for kind, value in enumerate((np.inf, -np.inf, np.nan)):
        x[kind + 3 :: 9, random.integers(extents.depth)] = value
    weight[3::16, random.integers(extents.depth)] = 0x7F
    weight[5::16, random.integers(extents.depth)] = 0xFF
    for kind, value in enumerate((0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-130)):
        scales[7 + kind :: 16] = value
    for kind, value in enumerate((-0.0, np.inf, np.nan)):
        residual[:, kind + 2 :: 11] = value
    return ProductInputs(x, weight, scales, residual)


def cancelled_residual(extents: Extents, random: Random) -> ProductInputs:
    """A residual of minus the product, so that the output is what the roundings on the way left."""
    given = normal(extents, random)
    product = given.x.astype(np.float32) @ E4M3FN.decode(given.weight).astype(np.float32).T
    residual = (-product * given.weight_scales.astype(np.float32)).astype(BF16)
    return ProductInputs(given.x, given.weight, given.weight_scales, residual)


def _alternating(extents: Extents) -> tuple[Array, Array]:
    """Whether a token is odd, and whether a pair of weight rows is: every register of a thread holds all four kinds."""
    return np.arange(extents.tokens) % 2 == 1, np.arange(extents.rows) // 2 % 2 == 1


def near_ties(extents: Extents, random: Random) -> ProductInputs:
    """Products just below a tie of bf16, which float32 rounds to it, and bf16 then up: of the sum and the token's scale
    in even tokens and rows, of that and the row's scale in odd ones. Cut instead of rounded they end one lower."""
    odd, odd_rows = _alternating(extents)
    x = np.zeros((extents.tokens, extents.depth), BF16)
    weight = np.zeros((extents.rows, extents.depth), np.uint8)
    if extents.depth >= 4:
        # rn(49 * rn(260 / 448)) and rn(rn(16 * rn(304 / 448)) * 147 / 128) are ties with an odd digit before them.
        largest = np.where(odd, 304.0, 260.0)
        x[_pins(extents)] = largest.astype(BF16)
        x[~odd, 1], x[odd, 2] = BF16.type(3.5 * 260 / 448), BF16.type(304 / 448)
        x *= random.choice([-1, 1], (extents.tokens, 1)).astype(BF16)
        weight[:, [1, 2]] = E4M3FN.encode(np.array([14.0, 16.0]))
    scales = np.where(odd_rows, 147 / 128, 1.0).astype(BF16)
    return ProductInputs(x, weight, scales, np.zeros((extents.tokens, extents.rows), BF16))


def tiny(extents: Extents, random: Random) -> ProductInputs:
    """Scales of tokens and of rows below the least normal number, met by large ones of the other side or by 1."""
    odd, odd_rows = _alternating(extents)
    codes = E4M3FN.encode(np.arange(1.0, 9.0))
    x = E4M3FN.decode(codes[random.integers(0, 8, (extents.tokens, extents.depth))])
    x[_pins(extents)] = LARGEST
    weight = _without_pins(codes[random.integers(0, 8, (extents.rows, extents.depth))])
    weight[:, 3:] = 0  # small sums, which stay below the least normal number
    x = x * np.where(odd, 1.0, 2.0**-127)[:, np.newaxis]
    scales = np.where(odd_rows, 2.0**-133, 2.0**120)
    scales[np.arange(extents.rows) // 4 % 3 == 2] = 1.0
    residual = random.choice([0.0, 2.0**-130, -(2.0**-133)], (extents.tokens, extents.rows))
    return ProductInputs(x.astype(BF16), weight, scales.astype(BF16), residual.astype(BF16))


def tiny_gates(extents: Extents, random: Random) -> ProductInputs:
    """Products below the least normal number in one half of the weight's rows, which large ones of the other half make
    ordinary outputs of where gates meet ups; the other way round, and both small, in other columns."""
    codes = E4M3FN.encode(np.arange(1.0, 5.0))
    x = E4M3FN.decode(codes[random.integers(0, 4, (extents.tokens, extents.depth))])
    x[_pins(extents)] = LARGEST
    weight = _without_pins(codes[random.integers(0, 4, (extents.rows, extents.depth))])
    weight[:, 3:] = 0
    half = max(extents.rows // 2, 1)
    row = np.arange(extents.rows)
    sizes = np.array([[-133, 110], [110, -133], [-70, -70]])
    scales = np.exp2(sizes[row % half // 2 % 3, np.minimum(row // half, 1)])
    residual = np.zeros((extents.tokens, extents.rows), BF16)
    return ProductInputs(x.astype(BF16), weight, scales.astype(BF16), residual)


FAMILIES: Mapping[str, Callable[[Extents, Random], ProductInputs]] = {
    "on-grid": on_grid,
    "normal": normal,
    "wide-outputs": wide_outputs,
    "powers": powers,
    "one-hot": one_hot,
    "large-among-tiny": large_among_tiny,
    "cancellation": cancellation,
    "subnormals": subnormals,
    "ties": ties,
    "specials": specials,
    "cancelled-residual": cancelled_residual,
    "near-ties": near_ties,
    "tiny": tiny,
    "tiny-gates": tiny_gates,
}
