"""Oracle against second oracle: where the two differ and the kernel agrees with the second, the first is wrong."""

from collections.abc import Iterator

from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.explanation import Explanation, Strength
from tileproof.conformance.triage.scene import Scene


def references(scene: Scene) -> Iterator[Explanation]:
    """A proof where every output is as the second reference says."""
    if scene.second is None or not scene.count:
        return
    second = scene.second(scene.values, scene.arch)
    if not any(scene.disagrees(name, second).any() for name in scene.specs):
        text = "every element is as the second reference gives it"
        yield Explanation(Cause.ORACLE, text, Strength.PROVED, scene.count, scene.count)
