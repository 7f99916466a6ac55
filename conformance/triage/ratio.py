"""Values that are right but for a factor: of the output, of each row or each column. A hint, never a proof."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.contract import Allowed
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.explanation import Explanation, Strength
from tileproof.conformance.triage.scene import Scene

NEAR = 2.0**-6
"""Two bfloat16 values whose quotients agree to so much may be one factor, rounded twice."""

LEAST = 4


def ratio(scene: Scene) -> Iterator[Explanation]:
    """One hint for each output that fits."""
    for name, spec in scene.specs.items():
        right = scene.right[name]
        if isinstance(right, Allowed) or right.ndim < 2 or spec.dtype.kind not in "fV":
            continue
        quotients = _quotients(scene.outputs[name], right)
        for axes, of in ((tuple(range(right.ndim)), "the output"), ((-1,), "a row"), ((-2,), "a column")):
            if _is_constant(quotients, axes) and not _is_one(quotients):
                text = f"{name} is a factor off, one for {of}: {np.nanmedian(quotients):.6g} in the middle"
                count = int(scene.differing[name].sum())
                yield Explanation(Cause.OTHER_SCALE, text, Strength.HINT, count, scene.count)
                break


def _quotients(observed: NDArray[np.generic], right: NDArray[np.generic]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        found = observed.astype(np.float64) / right.astype(np.float64)
    found[~np.isfinite(found)] = np.nan
    return found


def _is_constant(quotients: NDArray[np.float64], axes: tuple[int, ...]) -> bool:
    if np.isfinite(quotients).sum(axis=axes).max(initial=0) < LEAST:
        return False
    filled = np.where(np.isnan(quotients), -np.inf, quotients), np.where(np.isnan(quotients), np.inf, quotients)
    high, low = filled[0].max(axis=axes), filled[1].min(axis=axes)
    known = np.isfinite(high) & np.isfinite(low)
    return bool((np.abs(high - low)[known] <= NEAR * np.abs(high)[known]).all())


def _is_one(quotients: NDArray[np.float64]) -> bool:
    return bool(np.nanmax(np.abs(quotients - 1)) <= NEAR)
