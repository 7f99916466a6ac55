"""Kernel arguments as a person writes them on the command line.

`f32:1.5` and `s32:7` are scalars by value; `f32[1024]` is a buffer that nothing has written yet; `f32[64,32]:ramp` one
that is filled first (zeros, ones, ramp, random or one number); `@x.npy` one that holds a file's array.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.input_file import read_array
from tileproof.oracle.refusal import Refusal

MAX_ELEMENTS = 1 << 31

TYPES: Mapping[str, np.dtype[Any]] = {
    **{f"u{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
_SPEC = re.compile(r"(?P<type>[a-z]+\d+)(?:\[(?P<shape>[\d,\s]+)\])?(?::(?P<value>.+))?")
_FORMS = "e.g. f32:1.5, f32[1024], u8[64,32]:ramp or @x.npy"


@dataclass(frozen=True)
class LaunchArgument:
    """One argument.

    Args:
        text: as it was written.
        scalar: the value, where it is passed by value.
        contents: what the buffer holds, where it is one that holds something.
        shape: of a buffer.
        dtype: of a buffer's elements.
    """

    text: str
    scalar: np.generic | None = None
    contents: NDArray[Any] | None = None
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] | None = None


def parse_argument(text: str, seed: int = 0) -> LaunchArgument:
    """An argument from its text.

    Args:
        text: one of the forms above.
        seed: of `random`.

    Raises:
        Refusal: another form, an unknown type or fill, a value that the type does not hold, a file without an array.
    """
    if text.startswith("@"):
        array = read_array(Path(text[1:]))
        return LaunchArgument(text, contents=array, shape=array.shape, dtype=array.dtype)
    match = _SPEC.fullmatch(text)
    if match is None or match["type"] not in TYPES:
        raise Refusal(f"argument {text!r} is of no known form", hint=f"{_FORMS}; types: {', '.join(TYPES)}")
    dtype = TYPES[match["type"]]
    if match["shape"] is None:
        if match["value"] is None:
            raise Refusal(f"argument {text!r} has no value", hint=_FORMS)
        return LaunchArgument(text, scalar=_number(match["value"], dtype, text))
    shape = _shape(match["shape"], text)
    if match["value"] is None:
        return LaunchArgument(text, shape=shape, dtype=dtype)
    return LaunchArgument(text, contents=_filled(match["value"], shape, dtype, seed, text), shape=shape, dtype=dtype)


def _shape(text: str, whole: str) -> tuple[int, ...]:
    lengths = [part.strip() for part in text.split(",")]
    if not all(lengths):
        raise Refusal(f"argument {whole!r} has an empty length")
    shape = tuple(map(int, lengths))
    count = 1
    for length in shape:
        count *= length
    if count > MAX_ELEMENTS:
        raise Refusal(f"argument {whole!r} has {count} elements, the limit is {MAX_ELEMENTS}")
    return shape


def _number(text: str, dtype: np.dtype[Any], whole: str) -> np.generic:
    """One value, converted once; integers in any base Python writes, and never rounded or wrapped."""
    try:
        value = int(text, 0) if dtype.kind in "iu" else float(text)
        with np.errstate(over="ignore"):
            number: np.generic = dtype.type(value)
    except (ValueError, OverflowError):
        raise Refusal(f"argument {whole!r}: {text!r} is no value of that type") from None
    return number


def _filled(fill: str, shape: tuple[int, ...], dtype: np.dtype[Any], seed: int, whole: str) -> NDArray[Any]:
    if fill in _FILLS:
        return _FILLS[fill](shape, dtype, seed)
    return np.full(shape, _number(fill, dtype, whole))


def _ramp(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
    """0, 1, 2, ... in memory order; integers wrap around."""
    count = int(np.prod(shape, dtype=np.int64))
    return np.arange(count, dtype=np.int64).astype(dtype).reshape(shape)


def _random(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
    """Integers over the type's whole range; normally distributed numbers otherwise."""
    generator = np.random.default_rng(seed)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    return generator.standard_normal(shape).astype(dtype)


_FILLS: Mapping[str, Callable[[tuple[int, ...], np.dtype[Any], int], NDArray[Any]]] = {
    "zeros": lambda shape, dtype, seed: np.zeros(shape, dtype),
    "ones": lambda shape, dtype, seed: np.ones(shape, dtype),
    "ramp": _ramp,
    "random": _random,
}
