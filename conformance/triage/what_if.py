"""What would come out if ...: a wrong rule predicts outputs, and the outputs say whether it is the one.

A rule that predicts every bit, those that are right among them, is proved. Rules are told apart only as far as the data
do: two that predict the same are one here, and the first is told.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from tileproof.conformance.contract import Right
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.explanation import Explanation, Strength
from tileproof.conformance.triage.patience import Patience
from tileproof.conformance.triage.scene import Scene

MOST_TOLD = 3


@dataclass(frozen=True)
class WhatIf:
    """A wrong rule.

    Args:
        cause: what it would be.
        text: the rule in words.
        outputs: what it gives; outputs that it does not speak about may be missing.
    """

    cause: Cause
    text: str
    outputs: Callable[[], Right]


def weigh(scene: Scene, rules: Iterable[WhatIf], patience: Patience | None = None) -> Iterator[Explanation]:
    """Rules that predict every bit, one a cause; or else those that predict most, for the reader to judge.

    Rules are tried in order for as long as `patience` lasts.
    """
    partial: list[Explanation] = []
    whole: dict[Cause, Explanation] = {}
    for rule in rules:
        if patience is not None and not patience.lasts():
            break
        found = _weigh(scene, rule)
        if found.strength is Strength.PROVED:
            whole.setdefault(found.cause, found)
        elif found.explained > found.contradicted:
            partial.append(found)
    if len(whole) == 1:
        yield from whole.values()
        return
    yield from (replace(one, strength=Strength.ALIKE) for one in whole.values())
    if not whole:
        yield from sorted(partial, key=lambda one: one.contradicted - one.explained)[:MOST_TOLD]


def _weigh(scene: Scene, rule: WhatIf) -> Explanation:
    given = rule.outputs()
    explained = contradicted = 0
    for name in scene.specs:
        if name not in given:
            continue
        wrong, written = scene.disagrees(name, given), ~scene.unwritten[name]
        explained += int((scene.differing[name] & ~wrong & written).sum())
        contradicted += int((wrong & written).sum())
    silent = scene.count - explained
    written_all = not any(mask.any() for mask in scene.unwritten.values())
    if explained and not contradicted and not silent and written_all:
        strength = Strength.PROVED
    elif explained > silent and not contradicted:
        strength = Strength.PARTIAL
    else:
        strength = Strength.HINT
    return Explanation(rule.cause, rule.text, strength, explained, scene.count, contradicted)
