"""How trials are drawn: a Hypothesis strategy made from what a contract says of its parameters.

Half of all sizes are drawn from the edges, the rest from everything between; most tensors lie plainly. Most shapes are
cheap: a part of the work that a search affords is drawn first, and a contract's first round has no dear ones. Two
of three trials have some of their parts from a case that the contract lists, each route as often as another, or from a
kept trial. Hypothesis shrinks towards what is drawn first and smallest here: the least size, the plain view, the first
family, seed 0, no edit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from hypothesis import assume, reject
from hypothesis import strategies as st

from tileproof.conformance.case import Case, Dimension, Shape, View
from tileproof.conformance.contract import REFUSED, Contract, TensorSpec, Tier
from tileproof.conformance.fuzz.codes import telling_codes
from tileproof.conformance.fuzz.trial import Edit, Trial
from tileproof.conformance.space import Extent, Space
from tileproof.conformance.target import Coordinates, Schedule, Target
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH
from tileproof.oracle.refusal import Refusal

MAX_EDITS = 4
MAX_SEED = 255
NOTHING_RUNS = (REFUSED, NOTHING_TO_LAUNCH)
SELDOM = 11
"""One shape in so many that is refused, or has nothing to launch, is tried."""

SHARES = ((16, 16, 4), (16, 4, 1))
"""A shape has at most one in so many parts of the work that is afforded, in a contract's first round and later ones."""

LISTED = 16
"""Cases of each route that trials take parts from."""


@dataclass(frozen=True)
class Scope:
    """What a search is about.

    Args:
        contract: whose cases.
        space: from where parameters are drawn.
        targets: where each trial runs.
        archs: architectures to draw from.
        kept: trials of earlier searches, to begin from.
        turn: how many rounds the contract has had.
    """

    contract: Contract
    space: Space
    targets: tuple[Target, ...]
    archs: tuple[str, ...]
    kept: tuple[Trial, ...] = ()
    turn: int = 0

    @cached_property
    def listed(self) -> tuple[tuple[Case, ...], ...]:
        """For each route on which anything runs, some cases of the full tier that are afforded, the cheapest first."""
        by_route: dict[tuple[str, str], list[Case]] = {}
        for case in self.contract.cases(Tier.FULL):
            if case.route not in NOTHING_RUNS and self.space.affords(case.shape, case.route):
                by_route.setdefault((case.kernel, case.route), []).append(case)
        ordered = (sorted(those, key=lambda case: self.space.work_of(case.shape)) for those in by_route.values())
        return tuple(tuple(those[:: max(1, len(those) // LISTED)]) for those in ordered)


def space_of(contract: Contract) -> Space:
    """The contract's space; where it says none, the sizes that its cases have."""
    if contract.space is not None:
        return contract.space
    shapes = [case.shape for case in contract.cases(Tier.FULL)]
    sizes = {name: tuple({shape.size(name) for shape in shapes}) for name in contract.dimensions}
    return Space({name: Extent(only=one) for name, one in sizes.items()}, views=tuple({s.views for s in shapes}))


@st.composite
def trials(draw: st.DrawFn, scope: Scope) -> Trial:
    """A trial of the scope's contract that can run."""
    like = _like(draw, scope)
    may_be_empty = draw(st.integers(0, SELDOM)) == SELDOM // 2  # the ends of an interval are drawn oftener
    shape = _shape(draw, scope, like, may_be_empty)
    case = _case(draw, scope, shape, like)
    assume(may_be_empty or case.route not in NOTHING_RUNS)
    place = _place(draw, scope)
    try:
        scope.contract.check(case)
        specs = scope.contract.tensors(shape)
        assume(scope.contract.obstacle(case, place.arch) is None)
    except Refusal:
        reject()
    wanted = [spec for spec in specs if spec.name in scope.space.any_bits and spec.role.is_read and 0 not in spec.shape]
    edits = _edits(draw, wanted) if case.route not in NOTHING_RUNS else ()
    return Trial(case, place, edits)


def _like(draw: st.DrawFn, scope: Scope) -> Case | None:
    """What some parts are taken from: nothing, a listed case or a kept one."""
    kept = tuple(one.case for one in scope.kept)
    sources = [one for one in (scope.listed, (kept,)) if any(one)]
    source = draw(st.sampled_from(((), *sources)))
    return draw(st.sampled_from(draw(st.sampled_from(source)))) if source else None


def _taken(draw: st.DrawFn, like: Case | None) -> bool:
    """Two of three parts are."""
    return like is not None and draw(st.integers(0, 2)) > 0


def _shape(draw: st.DrawFn, scope: Scope, like: Case | None, may_be_empty: bool) -> Shape:
    drawn: dict[str, int] = {}
    share = draw(st.sampled_from(SHARES[min(scope.turn, len(SHARES) - 1)]))
    for name in draw(st.permutations(scope.contract.dimensions)):  # the first may be large, the others beside it
        most = scope.space.left(name, drawn, share)
        if like is not None and _taken(draw, like) and like.shape.size(name) <= most:
            drawn[name] = like.shape.size(name)
        else:
            fewest = 0 if may_be_empty else scope.space.fewest(name)
            drawn[name] = draw(_sizes(scope.space.extents[name], most, fewest))
    is_like = like is not None and _taken(draw, like)
    dtype = like.shape.dtype if like is not None and is_like else draw(st.sampled_from(scope.contract.dtypes))
    plain = Shape(tuple(Dimension(name, drawn[name]) for name in scope.contract.dimensions), dtype)
    try:
        specs = scope.contract.tensors(plain)
    except Refusal:
        reject()
    shape = Shape(plain.dimensions, dtype, _views(draw, scope.space, specs))
    assume(scope.space.takes(shape))
    return shape


def _sizes(extent: Extent, most: int, fewest: int) -> st.SearchStrategy[int]:
    """Sizes up to `most`: any, at or beside an edge, or an edge itself; none below `fewest` if there are others."""
    known = extent.sizes(most)
    beside = st.sampled_from(tuple(size for size in known if size >= fewest) or known)
    if extent.only:
        return beside
    steps = max(0, min(extent.most, most) - extent.least) // extent.step
    first = min(steps, int(extent.least < fewest))
    edges = tuple(edge for edge in extent.edges if edge <= most and extent.holds(edge)) or (extent.least,)
    any_size = st.integers(first, steps).map(lambda count: extent.least + count * extent.step)
    return st.one_of(any_size, beside, st.sampled_from(edges))


def _views(draw: st.DrawFn, space: Space, specs: Sequence[TensorSpec]) -> tuple[View, ...]:
    """Every other trial has plain tensors only."""
    if space.views or not (space.offsets or space.pads):
        return draw(st.sampled_from(((), *space.views)))
    found: list[View] = []
    for spec in specs if draw(st.booleans()) else ():
        offset = _amount(draw, space.offsets.get(spec.short, 0), 0)
        pad = _amount(draw, space.pads.get(spec.short, 0), spec.shape[-1]) if len(spec.shape) > 1 else 0
        if offset or pad:
            found.append(View(spec.short, pad, offset))
    return tuple(found)


def _amount(draw: st.DrawFn, most: int, beside: int) -> int:
    """Nought every other time; else what brings the next row to a multiple of 8 or 16 elements, or any up to `most`."""
    if not most or draw(st.integers(0, 1)) == 0:
        return 0
    whole = tuple(amount for amount in (-beside % 8, -beside % 16) if amount <= most)
    return draw(st.one_of(st.integers(1, most), st.sampled_from(whole or (0,))))


def _case(draw: st.DrawFn, scope: Scope, shape: Shape, like: Case | None) -> Case:
    contract = scope.contract
    kernel = draw(st.sampled_from(tuple(contract.routes)))
    try:
        routes = [route for route in contract.expected_routes(shape) if scope.space.affords(shape, route)]
    except Refusal:
        reject()
    assume(routes)
    is_like = like is not None and like.route in routes and _taken(draw, like)
    route = like.route if like is not None and is_like else draw(st.sampled_from(routes))
    is_like = like is not None and _taken(draw, like)
    family = like.family if like is not None and is_like else draw(st.sampled_from(contract.families))
    return Case(contract.name, kernel, route, shape, family, draw(st.integers(0, MAX_SEED)))


def _place(draw: st.DrawFn, scope: Scope) -> Coordinates:
    arch = draw(st.sampled_from(scope.archs))
    schedule = draw(st.sampled_from((Schedule.ADVERSARIAL, Schedule.ADVERSARIAL, Schedule.FRIENDLY)))
    return Coordinates(scope.targets[0], arch, schedule, draw(st.integers(0, MAX_SEED)))


def _edits(draw: st.DrawFn, specs: Sequence[TensorSpec]) -> tuple[Edit, ...]:
    """Half of all trials have generated inputs as they are."""
    if not specs or not draw(st.booleans()):
        return ()
    return tuple(_edit(draw, draw(st.sampled_from(specs))) for _ in range(draw(st.integers(1, MAX_EDITS))))


def _edit(draw: st.DrawFn, spec: TensorSpec) -> Edit:
    last = prod(spec.shape) - 1
    index = draw(st.one_of(st.integers(0, last), st.just(last)))
    telling = st.sampled_from(telling_codes(spec.format))
    bits = draw(st.one_of(telling, st.integers(0, (1 << 8 * spec.dtype.itemsize) - 1)))
    return Edit(spec.name, index, bits)


def by_contract(trials: Sequence[Trial]) -> Mapping[str, tuple[Trial, ...]]:
    """Trials by the name of their contract."""
    found: dict[str, list[Trial]] = {}
    for one in trials:
        found.setdefault(one.case.contract, []).append(one)
    return {name: tuple(members) for name, members in found.items()}
