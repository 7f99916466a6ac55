"""Wrong rules of the products of scales: how one is rounded, and by what it is multiplied."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.contract import Right
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.scene import Scene
from tileproof.conformance.triage.what_if import WhatIf
from tileproof.oracle.formats import FLOAT32
from tileproof.oracle.scale_product import scale_product

Array = NDArray[Any]
Scalar = Callable[[Array, Array | None], Array]


def scale_rules(scene: Scene) -> Iterator[WhatIf]:
    """Of `astrai_scale_products`."""
    for cause, text, scalar in (
        (Cause.SUBNORMALS, "subnormal products become zero", _flushed),
        (Cause.ROUNDING, "a product is cut", _cut),
        (Cause.OTHER_SCALE, "a scalar without a second is squared", _squared),
    ):
        yield WhatIf(cause, f"scalars: {text}", partial(_scalars, scene, scalar))
    if "second_a" in scene.values:
        text = "every product is by the first scalar's second"
        yield WhatIf(Cause.OTHER_SCALE, f"scalars: {text}", partial(_by_one_second, scene))


def _scalars(scene: Scene, scalar: Scalar) -> Right:
    letters = [name[-1] for name in scene.right]
    return {f"out_{one}": scalar(scene.values[f"first_{one}"], scene.values.get(f"second_{one}")) for one in letters}


def _by_one_second(scene: Scene) -> Right:
    one = scene.values["second_a"]
    return _scalars(scene, lambda first, second: scale_product(first, None if second is None else one))


def _flushed(first: Array, second: Array | None) -> Array:
    out = scale_product(first, second)
    small = np.abs(out) < np.finfo(np.float32).tiny
    return out if second is None else np.where(small, np.copysign(np.float32(0), out), out)


def _cut(first: Array, second: Array | None) -> Array:
    if second is None:
        return scale_product(first, None)
    with np.errstate(invalid="ignore"):
        exact = first.astype(np.float64) * second.astype(np.float64)
    return FLOAT32.encode(exact, rounding="toward-zero", overflow="inf").view(np.float32)


def _squared(first: Array, second: Array | None) -> Array:
    return scale_product(first, first if second is None else second)
