"""Causes that need no reckoning: the device or the runner saw them."""

from collections.abc import Iterator

from tileproof.conformance.triage.cause import OF_FINDING, Cause
from tileproof.conformance.triage.explanation import Explanation, Strength
from tileproof.conformance.triage.scene import Scene


def seen(scene: Scene) -> Iterator[Explanation]:
    """One for each finding that names its cause, causes before what follows from them."""
    order = list(OF_FINDING)
    for finding in sorted(
        (one for one in scene.findings if one.kind in OF_FINDING), key=lambda one: order.index(one.kind)
    ):
        text = finding.message.splitlines()[0]
        yield Explanation(OF_FINDING[finding.kind], text, Strength.SEEN)


def tail(scene: Scene) -> Iterator[Explanation]:
    """Mismatches that the contract's classes place in a partial tile alone."""
    for finding in scene.findings:
        if finding.mismatch is None:
            continue
        for one in finding.mismatch.classes:
            if "partial" in one.name and one.differing == finding.mismatch.count and one.of < finding.mismatch.of:
                text = f"all {one.differing} lie in {one.name}"
                yield Explanation(Cause.TAIL, text, Strength.HINT, 0, finding.mismatch.count)
