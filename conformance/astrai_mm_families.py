"""Input families of mm_fp8: codes that reach the points where layouts, sums and epilogues go wrong.

Operands are made as rows along K, A [.., M, K] and B [.., N, K]; how they are stored is the contract's business. The
scale is chosen so that outputs have a known size, about 3, or is a power of two where sums are meant to be seen as they
are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.astrai_mm_setting import Setting

Array = NDArray[Any]
Random = np.random.Generator

BF16 = np.dtype(ml_dtypes.bfloat16)
ORDINARY = 3.0
"""The size of an output, where a family does not care."""


@dataclass(frozen=True)
class Inputs:
    """What a call is given; every scale is a float32 value, used or not."""

    a: Array
    b: Array
    bias: Array
    scale: float
    bias_scale: float = 1.0
    out_scale: float = 1.0


def generate(family: str, of: Setting, random: Random) -> Inputs:
    """The inputs of a family in FAMILIES."""
    with np.errstate(all="ignore"):
        return FAMILIES[family](of, random)


def _shapes(of: Setting) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (*of.leading(of.a_batch), of.rows, of.depth), (*of.leading(of.b_batch), of.columns, of.depth)


def _encode(of: Setting, values: Any) -> Array:
    return np.asarray(of.types.record.encode(np.asarray(values, np.float64)), np.uint8)


def _finite(of: Setting, shape: tuple[int, ...], random: Random) -> Array:
    """Every finite code, alike often."""
    count = int(np.isfinite(of.types.record.decode(np.arange(128, dtype=np.uint8))).sum())
    signs = random.integers(0, 2, shape, np.uint8) << 7
    return np.asarray(random.integers(0, count, shape, np.uint8) | signs)


def _bias(of: Setting, values: Any, scale: float) -> Array:
    """Bias values as they are stored: bf16, or codes of values / scale."""
    if of.types.bias == "fp8":
        return _encode(of, np.asarray(values) / scale)
    return np.asarray(values).astype(BF16)


def _scaled(of: Setting, a: Array, b: Array, random: Random) -> Inputs:
    """Ordinary outputs: no scale is a power of two."""
    decode = of.types.record.decode
    first, second = (decode(codes.reshape(-1, of.depth)[:16]) for codes in (a, b))
    products = first @ second.T
    size = float(np.sqrt(np.mean(np.square(products)))) if products.size else 0.0
    scale = float(np.float32(ORDINARY / size)) if size > 0 else 0.75
    bias_scale, out_scale = (float(np.float32(random.uniform(low, high))) for low, high in ((0.02, 0.05), (20, 40)))
    values = random.standard_normal(of.columns) * ORDINARY
    return Inputs(a, b, _bias(of, values, bias_scale), scale, bias_scale, out_scale)


def on_grid(of: Setting, random: Random) -> Inputs:
    """Every finite code on both sides."""
    left, right = _shapes(of)
    return _scaled(of, _finite(of, left, random), _finite(of, right, random), random)


def normal(of: Setting, random: Random) -> Inputs:
    """As a model's: normal activations and weights."""
    left, right = _shapes(of)
    a, b = (_encode(of, random.standard_normal(shape) * 8) for shape in (left, right))
    return _scaled(of, a, b, random)


def one_hot(of: Setting, random: Random) -> Inputs:
    """A single 1 a row: an output is one code of B, from the place that it must come from."""
    left, right = _shapes(of)
    a = np.zeros(left, np.uint8)
    rows = np.arange(a.size // of.depth)
    a.reshape(-1, of.depth)[rows, (37 * rows + 3) % of.depth] = _encode(of, 1.0)
    return Inputs(a, _finite(of, right, random), _bias(of, np.zeros(of.columns), 1.0), 2.0**-3)


def cancellation(of: Setting, random: Random) -> Inputs:
    """The second half of K takes back what the first half added: a sum is what roundings on the way left."""
    left, right = _shapes(of)
    a, b = _finite(of, left, random), _finite(of, right, random)
    half = of.depth // 2
    a[..., half : 2 * half] = a[..., :half] ^ np.uint8(0x80)
    b[..., half : 2 * half] = b[..., :half]
    return replace(_scaled(of, a, b, random), bias=_bias(of, np.zeros(of.columns), 1.0), scale=1.0)


def large_among_tiny(of: Setting, random: Random) -> Inputs:
    """The largest product in the first place, then products that a unit cuts in part or whole."""
    left, right = _shapes(of)
    largest = np.uint8(of.types.record.max_code)
    a, b = (_finite(of, shape, random) & np.uint8(0xBF) for shape in (left, right))
    a[..., 0], b[..., 0] = largest, largest
    return _scaled(of, a, b, random)


def subnormals(of: Setting, random: Random) -> Inputs:
    """Subnormal codes on both sides."""
    left, right = _shapes(of)
    mask = np.uint8(0x80 | (1 << of.types.record.mantissa_bits) - 1)
    return _scaled(of, _finite(of, left, random) & mask, _finite(of, right, random) & mask, random)


def ties(of: Setting, random: Random) -> Inputs:
    """Sums of 2^8 (2^4 for e4m3 outputs) and an odd number below 8: every one is a tie of the output's rounding."""
    left, right = _shapes(of)
    a, b = np.zeros(left, np.uint8), np.zeros(right, np.uint8)
    places = np.arange(of.depth)[-2:]
    if places.size == 2:
        a[..., places] = _encode(of, [16.0, 1.0])
        odd = random.choice([-7.0, -5.0, -3.0, -1.0, 1.0, 3.0, 5.0, 7.0], right[:-1])
        first = np.full(right[:-1], 1.0 if of.types.fp8_out else 16.0)
        b[..., places] = _encode(of, np.stack([first, odd], axis=-1))
    return Inputs(a, b, _bias(of, np.zeros(of.columns), 1.0), 2.0**-2, 1.0, 2.0**-1)


def specials(of: Setting, random: Random) -> Inputs:
    """NaN and infinite codes in some rows and columns, and biases that are -0, infinite or NaN."""
    given = on_grid(of, random)
    a, b, bias = (codes.copy() for codes in (given.a, given.b, given.bias))
    special = np.array([0x7F, 0xFF, 0x7C, 0xFC], np.uint8)  # NaN of both formats; infinities of e5m2
    a[..., 2::5, random.integers(of.depth)] = random.choice(special)
    b[..., 3::7, random.integers(of.depth)] = random.choice(special)
    if of.types.bias == "fp8":
        bias[1::6], bias[4::9] = 0x80, 0x7F
    else:
        for kind, value in enumerate((-0.0, np.inf, -np.inf, np.nan)):
            bias[kind + 1 :: 11] = value
    return replace(given, a=a, b=b, bias=bias)


def bias_alone(of: Setting, random: Random) -> Inputs:
    """A · B is zero, of both signs, whatever K is: an output is its column's bias."""
    left, right = _shapes(of)
    given = on_grid(of, random)
    return replace(given, a=_finite(of, left, random) & np.uint8(0x80), b=_finite(of, right, random))


def cancelled_bias(of: Setting, random: Random) -> Inputs:
    """Sums of a small odd integer, a scale one ulp above 1, and a bias of minus that integer.

    The output is integer · 2^-23 where the addition is fused. A product that is rounded first leaves another value.
    """
    left, right = _shapes(of)
    a, b = np.zeros(left, np.uint8), np.zeros(right, np.uint8)
    place, integers = random.integers(of.depth), random.choice([-7.0, -5.0, -3.0, 3.0, 5.0, 7.0], of.columns)
    a[..., place], b[..., place] = _encode(of, 1.0), _encode(of, integers)
    return Inputs(a, b, _bias(of, -integers, 1.0), 1 + 2.0**-23, 1.0, 2.0**22)


def near_ties(of: Setting, random: Random) -> Inputs:
    """Sums of 3 or of 0, and a negative scale by which 3 ends just below a tie of the output's rounding, which float32
    rounds to it. Cut instead of rounded it ends one lower; 0 ends as -0 unless something is added."""
    left, right = _shapes(of)
    a, b = np.zeros(left, np.uint8), np.zeros(right, np.uint8)
    a[..., :1], b[..., :1] = _encode(of, 1.0), _encode(of, 3.0)
    a[..., 3::4, :1] = 0
    kept = 4 if of.types.fp8_out else 8
    return Inputs(a, b, _bias(of, np.zeros(of.columns), 1.0), -_near_third(kept), 1.0, 1.0)


def _near_third(kept: int) -> float:
    """A float32 number s for which 3 * s lies below an odd tie of so many bits by less than float32 can say there."""
    for odd in range(2 ** (kept - 1) + 1, 2**kept, 2):
        tie = 2.0 * odd + 1
        found = float(np.float32(tie / 3))
        if 3 * found < tie == float(np.float32(3 * found)):
            return found
    raise AssertionError("there is one")


def tiny(of: Setting, random: Random) -> Inputs:
    """A scale below the least normal number, and outputs there, or scaled up again where they are e4m3."""
    left, right = _shapes(of)
    codes = _encode(of, np.arange(1.0, 5.0))
    a, b = (codes[random.integers(0, 4, shape)] for shape in (left, right))
    a[..., 8:] = 0
    return Inputs(a, b, _bias(of, np.zeros(of.columns), 1.0), 2.0**-134, 1.0, 2.0**126)


def nothing(of: Setting, random: Random) -> Inputs:
    """Sums of zeros by a huge scale: an accumulator that did not begin at 0 is far from it afterwards."""
    left, right = _shapes(of)
    a = np.zeros(left, np.uint8)
    return Inputs(a, _finite(of, right, random), _bias(of, np.zeros(of.columns), 1.0), 2.0**125, 1.0, 2.0**20)


FAMILIES: Mapping[str, Callable[[Setting, Random], Inputs]] = {
    "on-grid": on_grid,
    "normal": normal,
    "one-hot": one_hot,
    "cancellation": cancellation,
    "large-among-tiny": large_among_tiny,
    "subnormals": subnormals,
    "ties": ties,
    "specials": specials,
    "bias-alone": bias_alone,
    "cancelled-bias": cancelled_bias,
    "near-ties": near_ties,
    "tiny": tiny,
    "nothing": nothing,
}
