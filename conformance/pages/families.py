"""Input data of pages that bring none of their own: by family and element type.

| family | floats | eight-bit codes | integers |
|---|---|---|---|
| normal | normally distributed around 0 | the same, rounded | -100 to 100 |
| integers | whole numbers, -8 to 8: sums are exact in any order | the same | -8 to 8 |
| wide | magnitudes over the whole range of exponents, finite | all finite codes | the whole range |
| specials | every fifth is a zero, infinity, NaN, subnormal or the largest | all codes | the ends, 0, 1 |
| bits | random bits | all codes | the whole range |
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.pages.types import ElementType
from tileproof.oracle.formats import E8M0FNU, FloatFormat

Array = NDArray[Any]
Generator = Callable[[np.random.Generator, ElementType, tuple[int, ...]], Array]

SHARE_OF_SPECIALS = 0.2


def _normal(random: np.random.Generator, type: ElementType, shape: tuple[int, ...]) -> Array:
    if type.record is None:
        return random.integers(0 if type.dtype.kind == "u" else -100, 101, shape).astype(type.dtype)
    return _rounded(type, random.standard_normal(shape))


def _integers(random: np.random.Generator, type: ElementType, shape: tuple[int, ...]) -> Array:
    whole = random.integers(0 if type.record is None and type.dtype.kind == "u" else -8, 9, shape)
    return whole.astype(type.dtype) if type.record is None else _rounded(type, whole.astype(np.float64))


def _wide(random: np.random.Generator, type: ElementType, shape: tuple[int, ...]) -> Array:
    codes = _bits(random, type, shape)
    if type.record is None:
        return codes
    raw = codes.view(f"u{type.dtype.itemsize}")
    finite = np.isfinite(np.asarray(type.record.decode(raw), np.float64))
    return np.where(finite, raw, _one(type.record)).astype(raw.dtype).view(type.dtype)


def _specials(random: np.random.Generator, type: ElementType, shape: tuple[int, ...]) -> Array:
    if type.is_code:
        return _bits(random, type, shape)
    ordinary = _normal(random, type, shape).view(f"u{type.dtype.itemsize}")
    special = random.choice(_special_codes(type), shape)
    return np.where(random.random(shape) < SHARE_OF_SPECIALS, special, ordinary).astype(ordinary.dtype).view(type.dtype)


def _bits(random: np.random.Generator, type: ElementType, shape: tuple[int, ...]) -> Array:
    width = np.dtype(f"u{type.dtype.itemsize}")
    return random.integers(0, np.iinfo(width).max, shape, width, endpoint=True).view(type.dtype)


FAMILIES: Mapping[str, Generator] = {
    "normal": _normal,
    "integers": _integers,
    "wide": _wide,
    "specials": _specials,
    "bits": _bits,
}
"""Generators by name: random generator, element type and shape to an array."""


def _rounded(type: ElementType, values: NDArray[np.float64]) -> Array:
    record = type.record
    assert record is not None
    if record is E8M0FNU:  # it has neither zero nor sign: a power of two
        values = np.exp2(np.round(np.clip(values, -8, 8)))
    codes = record.encode(values, overflow="saturate")
    return np.ascontiguousarray(codes).view(type.dtype).reshape(values.shape)


def _one(record: FloatFormat) -> int:
    return int(record.encode(np.array([1.0]))[0])


def _special_codes(type: ElementType) -> Array:
    """The stored bits of what goes wrong first."""
    width = np.dtype(f"u{type.dtype.itemsize}")
    record = type.record
    if record is None:
        limits = np.iinfo(type.dtype)
        return np.array([limits.min, limits.max, 0, 1], type.dtype).view(width)
    sign, least = 1 << (record.bits - 1), 1 << record.mantissa_bits
    infinity = int(record.encode(np.array([np.inf]), overflow="inf")[0])
    magnitudes = (0, 1, least - 1, least, record.max_code, infinity, infinity | least >> 1, infinity | 1)
    return np.array([code | s for code in magnitudes for s in (0, sign)], width)
