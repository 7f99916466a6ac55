"""From a trial that shows a signature to the least one that does: parameters step by step, then the inputs' elements.

Hypothesis has shrunk what it drew. This goes on from there, and from trials that were never drawn: each step makes one
thing simpler and stays if the signature stays. When no step does, every size is the least with which the others show
it, and every element that could be zero is.

    T17.K2056.bf16.xpad3/ties/91, signature "unwritten/codes/the ragged tail"  ->  T1.K1.bf16/all-codes/0
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.case import Case, Dimension, Shape, View
from tileproof.conformance.contract import Arrays
from tileproof.conformance.fuzz.judge import Judge, Judged
from tileproof.conformance.fuzz.strategy import Scope
from tileproof.conformance.fuzz.trial import Edit, Trial
from tileproof.conformance.registry import contract_of
from tileproof.conformance.space import Extent
from tileproof.conformance.target import Schedule
from tileproof.oracle.refusal import Refusal

MAX_RUNS = 300
"""Trials for one signature."""


@dataclass(frozen=True)
class Least:
    """The end of shrinking.

    Args:
        trial: parameters.
        inputs: of it, where elements were cleared; None where they are the trial's own.
        origin: in words where they come from.
    """

    trial: Trial
    inputs: Arrays | None = None
    origin: str = ""


@dataclass
class Shrinker:
    """Shrinks one signature.

    Args:
        scope: of the search.
        judge: runs trials.
        signature: that must stay.
        go_on: whether a further trial may run.
    """

    scope: Scope
    judge: Judge
    signature: str
    go_on: Callable[[], bool] = lambda: True
    runs: int = 0

    def shrink(self, found: Judged) -> Least:
        """The least trial that still shows the signature."""
        trial = found.trial
        tried = {trial}
        while (simpler := self._simpler(trial, tried)) is not None:
            trial = simpler
        return self._clear(trial)

    def _simpler(self, trial: Trial, tried: set[Trial]) -> Trial | None:
        for candidate in candidates(trial, self.scope):
            if candidate not in tried and self._may_run():
                tried.add(candidate)
                if self._shows(candidate):
                    return candidate
        return None

    def _may_run(self) -> bool:
        return self.runs < MAX_RUNS and self.go_on()

    def _shows(self, trial: Trial, inputs: Arrays | None = None) -> bool:
        self.runs += 1
        try:
            return self.signature in self.judge.run(trial, inputs, "shrunk").signatures
        except Refusal:
            return False

    def _clear(self, trial: Trial) -> Least:
        """Set to zero whatever may be, in ever smaller runs of elements."""
        inputs = dict(trial.inputs())
        free = [name for name in self.scope.space.any_bits if name in inputs and inputs[name].size]
        kept = {name: self._cleared(trial, inputs, name) for name in free}
        if not any(count is not None for count in kept.values()):
            return Least(trial)
        parts = [
            f"{name} zero but for {count} of {inputs[name].size}" for name, count in kept.items() if count is not None
        ]
        return Least(trial, inputs, f"the id, {' and '.join(parts)}") if parts else Least(trial)

    def _cleared(self, trial: Trial, inputs: dict[str, NDArray[Any]], name: str) -> int | None:
        """How many elements of one input stay; None where none could go."""
        array = np.ascontiguousarray(inputs[name])
        width = np.dtype(f"u{array.dtype.itemsize}")
        left = int(np.count_nonzero(array.view(width)))
        before, run = left, array.size
        while run and left:
            for start in range(0, array.size, run):
                flat = array.copy().reshape(-1)
                part = flat.view(width)[start : start + run]
                if not part.any() or not self._may_run():
                    continue
                part[:] = 0
                if self._shows(trial, {**inputs, name: flat.reshape(array.shape)}):
                    array = flat.reshape(array.shape)
                    inputs[name] = array
            left = int(np.count_nonzero(array.view(width)))
            run //= 2
        return left if left < before else None


def candidates(trial: Trial, scope: Scope) -> Iterator[Trial]:
    """Trials with one thing simpler, the greatest steps first; only such as can run."""
    for one in _all(trial, scope):
        try:
            scope.contract.check(one.case)
        except Refusal:
            continue
        if scope.space.takes(one.case.shape) and scope.contract.obstacle(one.case, one.place.arch) is None:
            yield one


def _all(trial: Trial, scope: Scope) -> Iterator[Trial]:
    case, shape = trial.case, trial.case.shape
    if trial.edits:
        yield replace(trial, edits=())
    if shape.views:
        yield _with_shape(trial, replace(shape, views=()))
    for number, dimension in enumerate(shape.dimensions):
        for count in smaller(dimension.size, scope.space.extents[dimension.name]):
            sizes = (*shape.dimensions[:number], Dimension(dimension.name, count), *shape.dimensions[number + 1 :])
            yield _with_shape(trial, replace(shape, dimensions=sizes))
    for view in shape.views:
        for simpler in (
            None,
            replace(view, pad=0),
            replace(view, offset=0),
            View(view.tensor, min(view.pad, 1), min(view.offset, 1)),
        ):
            views = tuple(simpler if one == view else one for one in shape.views)
            plain = tuple(one for one in views if one is not None and (one.pad or one.offset))
            if plain != shape.views and not scope.space.views:
                yield _with_shape(trial, replace(shape, views=plain))
    for dropped in range(len(trial.edits)) if len(trial.edits) > 1 else ():
        yield replace(trial, edits=trial.edits[:dropped] + trial.edits[dropped + 1 :])
    if trial.place.schedule is not Schedule.ADVERSARIAL or trial.place.seed:
        yield replace(trial, place=replace(trial.place, schedule=Schedule.ADVERSARIAL, seed=0))
    if case.seed:
        yield replace(trial, case=replace(case, seed=0))
    for dtype in _before(shape.dtype, scope.contract.dtypes):
        yield _with_shape(trial, replace(shape, dtype=dtype))
    for family in _before(case.family, scope.contract.families):
        yield replace(trial, case=replace(case, family=family))


def _before(name: str, names: Sequence[str]) -> Sequence[str]:
    """The first of some names, if it is another one: what a contract lists first is the plainest."""
    return names[:1] if name in names[1:] else ()


def smaller(size: int, extent: Extent) -> tuple[int, ...]:
    """Smaller sizes to try, ascending: the least, edges and what lies beside them, fractions, and one step less."""
    if extent.only:
        return tuple(sorted(one for one in set(extent.only) if one < size))
    steps = (size - extent.least) // extent.step
    fractions = (extent.least + steps * part // 8 * extent.step for part in (1, 2, 4, 6, 7))
    found = {*extent.sizes(size), *fractions, size - extent.step}
    return tuple(sorted(one for one in found if extent.least <= one < size))


def _with_shape(trial: Trial, shape: Shape) -> Trial:
    """The trial with another shape, on its route, or where that shape has not got it on the first that it has."""
    contract = contract_of(trial.case)
    try:
        sizes = {spec.name: prod(spec.shape) for spec in contract.tensors(shape)}
        routes = contract.expected_routes(shape)
    except Refusal:
        return trial
    route = trial.case.route if trial.case.route in routes else routes[0]
    case: Case = replace(trial.case, shape=shape, route=route)
    return replace(trial, case=case, edits=tuple(_moved(trial.edits, sizes)))


def _moved(edits: Sequence[Edit], sizes: Mapping[str, int]) -> Iterator[Edit]:
    """Edits that stay within smaller tensors: an element beyond the end becomes the last."""
    for edit in edits:
        if sizes.get(edit.tensor, 0):
            yield replace(edit, index=min(edit.index, sizes[edit.tensor] - 1))
