"""What is kept between calls: rings that hold other words than the reference's. A hint that says where."""

from collections.abc import Iterator

import numpy as np

from tileproof.conformance.contract import Mask
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.explanation import Explanation, Strength
from tileproof.conformance.triage.scene import Scene

NAMES = ("ring", "rings", "amax")


def state(scene: Scene) -> Iterator[Explanation]:
    """Words of a ring that differ."""
    for name in NAMES:
        if name not in scene.specs or not scene.differing[name].any():
            continue
        wrong = np.flatnonzero(scene.differing[name])
        text = f"{len(wrong)} of {scene.differing[name].size} words of {name} differ, the first is word {wrong[0]}"
        yield Explanation(Cause.STATE, text, Strength.HINT, len(wrong), scene.count)
    yield from _later_steps(scene)


def _later_steps(scene: Scene) -> Iterator[Explanation]:
    """Outputs of several steps of which the first are right."""
    if "rings" not in scene.specs:
        return
    for name, wrong in scene.differing.items():
        if wrong.ndim < 2 or len(wrong) < 2:
            continue
        steps: Mask = np.asarray(wrong.reshape(len(wrong), -1).any(axis=-1))
        if steps.any() and not steps[0]:
            text = f"{name} is right in the first {int(np.argmax(steps))} of {len(steps)} steps, and wrong later"
            yield Explanation(Cause.STATE, text, Strength.HINT, 0, scene.count)
