"""Input families of the linear layer: magnitudes that move from step to step, values that show roundings and order."""

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.astrai_linear_setting import Setting
from tileproof.oracle.formats import FORMATS

Array = NDArray[Any]
Random = np.random.Generator
Arrays = dict[str, Array]

BF16 = np.dtype(ml_dtypes.bfloat16)


def generate(family: str, of: Setting, random: Random) -> Arrays:
    """The inputs of a family in FAMILIES: x, w, g by step, bias, and codes with their scale."""
    with np.errstate(all="ignore"):
        made = FAMILIES[family](of, random)
    spread = random.integers(0, 120, (of.columns, of.depth), np.uint8)
    signs = random.integers(0, 2, spread.shape, np.uint8) << 7
    finite = np.minimum(spread, np.uint8(FORMATS[of.formats.forward.name].max_code))
    made["codes"] = finite | signs
    made["scale"] = np.array([random.uniform(0.001, 0.01)], np.float32)
    return made


def _normal(of: Setting, random: Random, sizes: Any) -> Arrays:
    """Normal values, step t of size sizes[t]; g the other way round."""
    shapes = {"x": (*of.tokens, of.depth), "w": (of.columns, of.depth), "g": (*of.tokens, of.columns)}
    made = {}
    for name, shape in shapes.items():
        own = 1 / sizes if name == "g" else sizes
        steps = [random.standard_normal(shape) * size for size in own]
        made[name] = np.array(steps).reshape(of.steps, *shape).astype(BF16)
    made["bias"] = random.standard_normal(of.columns).astype(BF16)
    return made


def ordinary(of: Setting, random: Random) -> Arrays:
    """Sizes that wander by some powers of two."""
    return _normal(of, random, 2.0 ** random.uniform(-3, 3, of.steps))


def rising(of: Setting, random: Random) -> Arrays:
    """Each step far larger than the last, so that casts saturate by the scale of the step before."""
    return _normal(of, random, 2.0 ** (4.0 * np.arange(of.steps)))


def falling(of: Setting, random: Random) -> Arrays:
    """Each step far smaller, so that the window remembers more than is there."""
    return _normal(of, random, 2.0 ** (-4.0 * np.arange(of.steps)))


def zeros(of: Setting, random: Random) -> Arrays:
    """Zeros of both signs in x and g in every other step: scales fall to their floor."""
    made = ordinary(of, random)
    for name in ("x", "g"):
        empty = made[name][::2]
        empty[...] = random.choice([0.0, -0.0], empty.shape).astype(BF16)
    return made


def specials(of: Setting, random: Random) -> Arrays:
    """NaN and infinities here and there, from the second step on; one weight is infinite in the last step."""
    made = ordinary(of, random)
    palette = np.array([np.nan, np.inf, -np.inf, -0.0]).astype(BF16)
    for name in ("x", "g"):
        hit = random.random(made[name].shape) < 0.05
        hit[0] = False
        made[name][hit] = random.choice(palette, int(hit.sum()))
    made["w"][-1].reshape(-1)[-1:] = np.inf
    made["bias"][::3] = -0.0
    return made


def nan_first(of: Setting, random: Random) -> Arrays:
    """A NaN where rings are seeded: their first scale is NaN, and the first fold mends it."""
    made = ordinary(of, random)
    made["x"][0].reshape(-1)[:1] = np.nan
    made["g"][0].reshape(-1)[-1:] = np.nan
    return made


def cancellation(of: Setting, random: Random) -> Arrays:
    """Magnitudes far apart, and the second half of the rows takes back what the first has added."""
    made = ordinary(of, random)
    g = made["g"].reshape(of.steps, -1, of.columns)
    spread = np.exp2(random.uniform(-10, 10, g.shape))
    g[...] = (g.astype(np.float64) * spread).astype(BF16)
    half = g.shape[1] // 2
    g[:, half : 2 * half] = -g[:, :half]
    return made


def outlier(of: Setting, random: Random) -> Arrays:
    """One element of a tensor is 2^12 times the others: they become subnormal codes and zeros."""
    made = ordinary(of, random)
    for name in ("x", "w", "g"):
        flat = made[name].reshape(of.steps, -1)
        at = random.integers(flat.shape[1], size=of.steps)
        flat[np.arange(of.steps), at] = (flat[np.arange(of.steps), at].astype(np.float64) * 4096).astype(BF16)
    return made


STRANDS = 16
"""Of the sums over rows, as the kernel of the bias gradient declares them."""


def roundings(of: Setting, random: Random) -> Arrays:
    """Columns of g whose sum over rows shows each single addition that is cut instead of rounded, or flushed.

    By column mod 4: three quarters of an ulp added strand by strand to a number that the last strand takes back; a sum
    just below a tie of bf16; subnormal numbers; and the first kind within a strand.
    """
    made = ordinary(of, random)
    large, part = 2.0**20, 0.75 * 2.0**-3
    columns = np.zeros((4, 2 * STRANDS))
    columns[0, 1 : STRANDS - 1] = part
    columns[0, [0, STRANDS - 1]] = large, -large
    columns[1, [0, 1, STRANDS - 1]] = 256, 3, -(2.0**-20)
    columns[2, :STRANDS] = 2.0**-133 * np.arange(1, STRANDS + 1)
    columns[3, [0, STRANDS, 1]] = large, part, -large
    g = made["g"].reshape(of.steps, -1, of.columns)
    rows = min(g.shape[1], columns.shape[1])
    signs = random.choice([-1.0, 1.0], (of.steps, 1, of.columns))
    g[...] = 0
    g[:, :rows] = (np.resize(columns, (of.columns, columns.shape[1])).T[:rows] * signs).astype(BF16)
    return made


def small(of: Setting, random: Random) -> Arrays:
    """Everything near 2^-20, above the least scale that there is and far below 1."""
    made = _normal(of, random, np.full(of.steps, 2.0**-20))
    made["g"] = (made["g"].astype(np.float64) * 2.0**-40).astype(BF16)
    return made


FAMILIES: Mapping[str, Callable[[Setting, Random], Arrays]] = {
    "ordinary": ordinary,
    "rising": rising,
    "falling": falling,
    "zeros": zeros,
    "specials": specials,
    "nan-first": nan_first,
    "cancellation": cancellation,
    "outlier": outlier,
    "roundings": roundings,
    "small": small,
}
