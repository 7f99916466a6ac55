"""Input families of the tensor quantiser: x, the scale of this step, and what the ring remembers.

A tensor has one scale, so a family that aims at codes divides its targets by the multiplier: a power of two in half of
the cases, where ties are reached exactly, and no power of two in the others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.astrai_setting import WIDE, Setting
from tileproof.oracle.formats import FloatFormat, source_format

Array = NDArray[Any]
Values = NDArray[np.float64]
Random = np.random.Generator

FLOOR = np.float32(1e-12)
"""The smallest scale that a fold publishes."""


@dataclass(frozen=True)
class Made:
    """The data of a case.

    Args:
        x: [R, C].
        scale: of this step, float32; the multiplier is its reciprocal.
        history: float32 [W], the ring's window before the step.
    """

    x: Array
    scale: np.float32
    history: NDArray[np.float32]


def generate(family: str, setting: Setting, random: Random) -> Made:
    """The data of a family in FAMILIES."""
    with np.errstate(all="ignore"):
        return FAMILIES[family](setting, random)


def grid(record: FloatFormat) -> Values:
    """The distinct finite values of a format, ascending."""
    values = np.asarray(record.decode(np.arange(256, dtype=np.uint8)), np.float64)
    return np.unique(values[np.isfinite(values)])


def _midpoints(record: FloatFormat) -> Values:
    values = grid(record)
    return (values[1:] + values[:-1]) / 2


def _all_codes(setting: Setting, random: Random) -> Made:
    """Each code's value of each format that is written, and its neighbours in the source type."""
    return _aimed(np.concatenate([grid(one) for one in setting.types.formats]), setting, random)


def _ties(setting: Setting, random: Random) -> Made:
    """Each tie and its neighbours in the source type."""
    return _aimed(np.concatenate([_midpoints(one) for one in setting.types.formats]), setting, random)


def _subnormals(setting: Setting, random: Random) -> Made:
    """Around the subnormal codes, in eighths of their spacing."""
    eighths = np.arange(-48.0, 49.0) / 8
    spacing = [float(one.decode(np.uint8(1))) for one in setting.types.formats]
    return _aimed(np.concatenate([eighths * one for one in spacing]), setting, random)


def _saturation(setting: Setting, random: Random) -> Made:
    """From the last code to far beyond it: the largest value, half a step and a whole step above, and many times it."""
    factors = np.array([1, 29 / 28, 15 / 14, 8 / 7, 2, 100, 1e6])
    largest = [grid(one)[-1] for one in setting.types.formats]
    points = np.concatenate([factors * one for one in largest])
    return _aimed(np.concatenate([points, -points]), setting, random)


def _specials(setting: Setting, random: Random) -> Made:
    """NaN of several payloads and signs, infinities and zeros of both signs, among ordinary elements."""
    made = _ordinary(setting, random)
    record = source_format(setting.types.x)
    quiet = 1 << (record.mantissa_bits - 1)
    bits = np.array([0, *(record.top_field | fraction for fraction in (0, 1, quiet, 2 * quiet - 1))])
    palette = _from_bits(np.concatenate([bits, bits | record.sign_bit]), setting.types.x)
    hit = random.random(made.x.shape) < 0.3
    made.x[hit] = random.choice(palette, int(hit.sum()))
    return made


def _only_nan(setting: Setting, random: Random) -> Made:
    """A tensor without a number: its maximum is 0."""
    made = _ordinary(setting, random)
    made.x[...] = np.nan
    return made


def _zeros(setting: Setting, random: Random) -> Made:
    """Zeros of both signs and an empty history: the scale falls to its floor."""
    x = random.choice([0.0, -0.0], (setting.rows, setting.columns)).astype(setting.types.x)
    return Made(x, FLOOR, np.zeros(setting.window, np.float32))


def _random_bits(setting: Setting, random: Random) -> Made:
    """Every bit pattern of the source type alike."""
    dtype = setting.types.x
    bits = random.integers(0, 1 << 8 * dtype.itemsize, setting.rows * setting.columns, dtype=np.uint64)
    x = _from_bits(bits, dtype).reshape(setting.rows, setting.columns)
    return Made(x, _scale(setting, random), _history(1.0, setting, random))


def _peak_first(setting: Setting, random: Random) -> Made:
    """The largest magnitude is the first element, and larger than all of the window; a NaN follows it.

    A comparison in place of fmaxf would let the NaN take its place, and the element behind the NaN that one's.
    """
    made = _peaked(0, setting, random)
    made.x.reshape(-1)[1:2] = np.nan
    return made


def _peak_last(setting: Setting, random: Random) -> Made:
    """The largest magnitude is the last element, and larger than all of the window."""
    return _peaked(-1, setting, random)


def _falling(setting: Setting, random: Random) -> Made:
    """The window remembers more than the tensor holds."""
    made = _ordinary(setting, random)
    return Made(made.x, made.scale, _history(2.0**10, setting, random))


def _infinite(setting: Setting, random: Random) -> Made:
    """An infinity in the tensor and one in the window, by an infinite scale: the multiplier is 0."""
    made = _ordinary(setting, random)
    made.history[random.integers(setting.window)] = np.inf
    made.x.reshape(-1)[-1:] = -np.inf
    return Made(made.x, np.float32(np.inf), made.history)


def _nan_history(setting: Setting, random: Random) -> Made:
    """A window that was seeded with NaN, and a scale that is one."""
    made = _ordinary(setting, random)
    made.history[:] = np.nan
    return Made(made.x, np.float32(np.nan), made.history)


def _tiny(setting: Setting, random: Random) -> Made:
    """Subnormals of the source type, and amaxima around the one whose scale is the floor."""
    record = source_format(setting.types.x)
    bits = random.integers(0, 1 << record.mantissa_bits, (setting.rows, setting.columns))
    near = np.float32(grid(setting.target)[-1] * 1e-12)
    history = (near * random.uniform(0.0, 1.01, setting.window)).astype(np.float32)
    history[random.integers(setting.window)] = near
    return Made(_from_bits(bits, setting.types.x), FLOOR, history)


def _wide_margins(setting: Setting, random: Random) -> Made:
    """Subnormal maxima and histories, which the widest margins make ordinary scales of."""
    made = _tiny(setting, random)
    history = random.integers(1, 1 << 23, setting.window).astype(np.uint32).view(np.float32)
    return Made(made.x, made.scale, history)


FAMILIES: Mapping[str, Callable[[Setting, Random], Made]] = {
    "all-codes": _all_codes,
    "ties": _ties,
    "subnormals": _subnormals,
    "saturation": _saturation,
    "specials": _specials,
    "only-nan": _only_nan,
    "zeros": _zeros,
    "random-bits": _random_bits,
    "peak-first": _peak_first,
    "peak-last": _peak_last,
    "falling": _falling,
    "infinite": _infinite,
    "nan-history": _nan_history,
    "tiny": _tiny,
    WIDE: _wide_margins,
}


def _aimed(targets: Values, setting: Setting, random: Random) -> Made:
    """Elements whose product with the multiplier is a target, or the source type's neighbour of one."""
    scale = _scale(setting, random)
    count = setting.rows * setting.columns
    steps = np.repeat([-1, 0, 1], targets.size)
    order = np.resize(random.permutation(3 * targets.size), count)
    multiplier = float(np.float32(1) / scale)
    exact = (np.tile(targets, 3)[order] / multiplier).astype(setting.types.x)
    ends = np.array([-np.inf, 0, np.inf]).astype(setting.types.x)[steps[order] + 1]
    x = np.where(steps[order] == 0, exact, np.nextafter(exact, ends)).reshape(setting.rows, setting.columns)
    return Made(x, scale, _history(float(scale) * 448, setting, random))


def _ordinary(setting: Setting, random: Random) -> Made:
    scale = _scale(setting, random)
    x = random.standard_normal((setting.rows, setting.columns)) * 64 * float(scale)
    return Made(x.astype(setting.types.x), scale, _history(256 * float(scale), setting, random))


def _peaked(at: int, setting: Setting, random: Random) -> Made:
    made = _ordinary(setting, random)
    peak = np.array(4096 * float(made.scale) * random.choice([-1.0, 1.0]))
    made.x.reshape(-1)[at : at + 1 or None] = peak.astype(setting.types.x)
    return made


def _scale(setting: Setting, random: Random) -> np.float32:
    """2^e in half of the cases; few e for float16, whose range is that of e5m2."""
    most = 3 if setting.types.x == np.float16 else 30
    scale = 2.0 ** random.integers(-most, most + 1)
    return np.float32(scale if random.integers(2) else scale * random.uniform(0.5, 1.0))


def _history(about: float, setting: Setting, random: Random) -> NDArray[np.float32]:
    return (about * 2.0 ** random.uniform(-6, 1, setting.window)).astype(np.float32)


def _from_bits(bits: NDArray[Any], dtype: np.dtype[Any]) -> Array:
    return bits.astype(f"u{dtype.itemsize}").view(dtype)
