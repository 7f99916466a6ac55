"""Wrong rules of the linear layer: the gradient of its bias in another order."""

from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.contract import Right
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.scene import Scene
from tileproof.conformance.triage.what_if import WhatIf
from tileproof.oracle.bias_gradient import STRANDS

Array = NDArray[Any]
Sum = Callable[[Array], Array]


def linear_rules(scene: Scene) -> Iterator[WhatIf]:
    """Of the backward pass; its other outputs stay as they should be."""
    if "dbias" not in scene.specs:
        return
    for cause, text, total in (
        (Cause.ORDER_OF_SUM, "strands are added from the last to the second, after the first", _backwards),
        (Cause.ORDER_OF_SUM, "a strand has neighbouring rows", _neighbours),
        (Cause.ORDER_OF_SUM, "rows are added one after the other", lambda g: _in_turn(list(g))),
        (Cause.NARROW_SUM, "sums are exact and rounded once", lambda g: g.astype(np.float64).sum(axis=0)),
    ):
        yield WhatIf(cause, f"dbias: {text}", partial(_gradients, scene, total))


def _gradients(scene: Scene, total: Sum) -> Right:
    g = scene.values["g"].astype(np.float32)
    with np.errstate(all="ignore"):
        sums = [total(step.reshape(-1, step.shape[-1])) for step in g]
    return {**scene.right, "dbias": np.stack(sums).astype(ml_dtypes.bfloat16)}


def _in_turn(parts: list[Array]) -> Array:
    return np.asarray(reduce(lambda x, y: (x + y).astype(np.float32), parts))


def _backwards(g: Array) -> Array:
    strands = [_in_turn([np.zeros(g.shape[1], np.float32), *g[first::STRANDS]]) for first in range(STRANDS)]
    return _in_turn([strands[0], *strands[:0:-1]])


def _neighbours(g: Array) -> Array:
    share = -(-len(g) // STRANDS)
    zero = np.zeros(g.shape[1], np.float32)
    return _in_turn([_in_turn([zero, *g[i * share : i * share + share]]) for i in range(STRANDS)])
