"""A page as a contract, which the runner takes like any other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tileproof.conformance.case import Case
from tileproof.conformance.contract import (
    FILE_FAMILY,
    Arrays,
    Comparison,
    Contract,
    EditedSource,
    Mask,
    Right,
    Rule,
    Run,
    TensorSpec,
    Tier,
)
from tileproof.conformance.division import Divides, Division
from tileproof.conformance.pages.binding import OWN, BoundPage
from tileproof.conformance.pages.callable import caller_of
from tileproof.conformance.pages.cases import cases_of, shapes
from tileproof.conformance.pages.explain import classes_of, witnesses_of
from tileproof.conformance.pages.families import FAMILIES
from tileproof.conformance.pages.running import launcher_of
from tileproof.conformance.pages.space import BITS, space_of
from tileproof.conformance.pages.types import TYPES
from tileproof.conformance.pages.user_code import PageError, call_named, defined_at
from tileproof.conformance.pages.vocabulary import Around, Python, Tiles
from tileproof.kernels.device import Device
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH
from tileproof.oracle.fragments import find_fragments
from tileproof.oracle.refusal import Refusal

DEFAULT_FAMILIES = ("normal", "integers", "wide", "specials")

ANY_NAN: Mapping[str, tuple[str, ...]] = {
    "floats": tuple(one.format for one in TYPES.values() if one.record is not None and not one.is_code),
    "any": tuple(one.format for one in TYPES.values() if one.record is not None),
    "bits": (),
}
"""Formats of which any NaN is right, by what a page says."""

NAN_RULES: Mapping[str, Rule] = {
    "floats": Rule("NaN", "where a NaN of 16 or 32 bits is expected, any NaN is right", "pages of users"),
    "any": Rule("NaN", "where a NaN is expected, any NaN is right", "pages of users"),
    "bits": Rule("NaN", "sign and payload are compared like all bits", "pages of users"),
}

GIVEN = "given"
"""The family of a page that makes its inputs itself."""


def contract_of_page(bound: BoundPage) -> Contract:
    """The contract that a page says, its cases held to it.

    Raises:
        PageError: the page says something that cannot be.
    """
    made = _LikeOurs(bound).contract() if bound.taken_from is not None else _Own(bound).contract()
    for case in made.cases(Tier.FULL):
        made.check(case)
        if bound.taken_from is not None:
            bound.taken_from.case(case)
    return made


class _Own:
    """A page that says everything itself."""

    def __init__(self, bound: BoundPage) -> None:
        self.bound = bound
        page = bound.page
        self.families = tuple(page.families) or ((GIVEN,) if page.inputs is not None else DEFAULT_FAMILIES)
        self._routes = tuple(bound.route(shape) for shape in shapes(page))

    def contract(self) -> Contract:
        page, bound = self.bound.page, self.bound
        return Contract(
            name=page.name,
            summary=f"a page: {bound.path.name}",
            comparison=Comparison(page.compare) if page.expected is not None else Comparison.REPEAT,
            rules=(*(Rule(name, words, bound.path.name) for name, words in page.rules), NAN_RULES[page.nan]),
            properties={},
            routes={bound.kernel_name: (OWN, NOTHING_TO_LAUNCH)},
            dimensions=tuple(page.sizes),
            dtypes=(page.dtype,),
            families=self.families,
            generator_version=1,
            tensors=bound.specs,
            cases=self.cases,
            inputs=self.inputs,
            expected=self.expected,
            expected_routes=lambda shape: (bound.route(shape),),
            classes=self.classes,
            witnesses=self.witnesses,
            kernel=self.kernel,
            any_nan=ANY_NAN[page.nan],
            divisions=self.divisions(),
            space=space_of(page, self._free()),
        )

    def cases(self, tier: Tier) -> Sequence[Case]:
        return cases_of(self.bound.page, self.bound.kernel_name, self._routes, self.families, tier)

    def inputs(self, case: Case) -> Arrays:
        """The page's own, and of a family what it leaves out."""
        random = case.random()
        specs = [spec for spec in self.bound.specs(case.shape) if spec.role.is_read]
        own: Mapping[str, object] = {}
        function = self.bound.page.inputs
        if function is not None:
            own = dict(call_named(function, {**self.bound.sizes(case.shape), "random": random, "family": case.family}))
            _check_inputs(defined_at(function), own, specs)
        types = {one.name: TYPES[one.type] for one in self.bound.declarations(case.shape)}
        family = FAMILIES["normal" if case.family == GIVEN else case.family]
        return {
            spec.name: np.asarray(own[spec.name]) if spec.name in own else family(random, types[spec.name], spec.shape)
            for spec in specs
        }

    def expected(self, case: Case, values: Arrays, arch: str) -> Right:
        return self.bound.right(case, values)

    def classes(self, values: Arrays, right: Arrays) -> Mapping[str, Mapping[str, Mask]]:
        return classes_of(self._seen(values, right), values, self._tiles())

    def witnesses(self, output: str, index: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
        every = [self.bound.specs(shape) for shape in shapes(self.bound.page)]
        return witnesses_of(every, output, index)

    def divisions(self) -> Callable[[Case], Mapping[str, Divides]]:
        """What the page says of its tiles, which is the same in every case. Raises: PageError."""
        outputs = [spec.name for spec in self.bound.specs(shapes(self.bound.page)[0]) if spec.role.is_written]
        made = {name: _division(self.bound.path.name, name, one) for name, one in self.bound.page.tiles.items()}
        if unknown := [name for name in made if name not in outputs]:
            known = ", ".join(outputs)
            raise PageError(f"{self.bound.path.name}: tiles of {unknown[0]!r}", hint=f"outputs are {known}")
        return lambda case: made

    def kernel(self, device: Device, name: str, source: EditedSource | None) -> Run:
        is_callable = isinstance(self.bound.page.kernel, Python)
        return caller_of(self.bound, device) if is_callable else launcher_of(self.bound, device)

    def _free(self) -> tuple[str, ...]:
        """Inputs that may be any bits: all, where the page has the family of that name and makes none itself."""
        if BITS not in self.families or self.bound.page.inputs is not None:
            return ()
        return tuple(spec.name for spec in self.bound.specs(shapes(self.bound.page)[0]) if spec.role.is_read)

    def _tiles(self) -> dict[int, tuple[str, int]]:
        """Name and tile by extent, of the sizes that say their tile."""
        known = self.bound.page.sizes.items()
        return {size: (name, sizes.tile) for name, sizes in known if isinstance(sizes, Around) for size in sizes}

    def _seen(self, values: Arrays, right: Arrays) -> list[TensorSpec]:
        """The specs of a case from its arrays: formats by name, extents by array."""
        shape = shapes(self.bound.page)[0]
        arrays = {**values, **right}
        return [replace(spec, shape=arrays[spec.name].shape) for spec in self.bound.specs(shape)]


class _LikeOurs(_Own):
    """A page whose tensors, inputs and right outputs are those of a contract of ours."""

    def __init__(self, bound: BoundPage) -> None:
        assert bound.taken_from is not None
        self.taken = bound.taken_from
        _check_like(bound, self.taken.contract)
        super().__init__(bound)
        self.families = tuple(bound.page.families) or self.taken.contract.families

    def contract(self) -> Contract:
        ours = self.taken.contract
        return replace(
            super().contract(),
            comparison=ours.comparison,
            rules=ours.rules,
            any_nan=ours.any_nan,
            dimensions=ours.dimensions,
            dtypes=ours.dtypes,
            families=tuple(family for family in self.families if family != FILE_FAMILY),
            generator_version=ours.generator_version,
            classes=ours.classes,
            witnesses=ours.witnesses,
            obstacle=lambda case, arch: ours.obstacle(self.taken.case(case), arch),
            like=ours.name,
        )

    def inputs(self, case: Case) -> Arrays:
        return self.taken.contract.inputs(self.taken.case(case))

    def expected(self, case: Case, values: Arrays, arch: str) -> Right:
        return self.taken.contract.expected(self.taken.case(case), values, arch)


def _division(file: str, name: str, tiles: Tiles) -> Division:
    try:
        fragment = find_fragments(tiles.fragment).c if tiles.fragment else None
        return Division(tiles.tile, tiles.warp, fragment, tiles.first_warp)
    except Refusal as refusal:
        raise PageError(f"{file}: tiles of {name}: {refusal.message}", hint=refusal.hint) from None


def _check_like(bound: BoundPage, ours: Contract) -> None:
    """Sizes and element type are those of the contract that judges."""
    page, at = bound.page, f"{bound.path.name}: like {ours.name}"
    if tuple(page.sizes) != ours.dimensions:
        raise PageError(f"{at}: sizes are {', '.join(page.sizes)}", hint=f"they are {', '.join(ours.dimensions)}")
    if page.dtype not in ours.dtypes:
        known = ", ".join(map(repr, ours.dtypes))
        raise PageError(f"{at}: dtype is {page.dtype!r}", hint=f"it is one of {known}")


def _check_inputs(at: str, own: Mapping[str, object], specs: Sequence[TensorSpec]) -> None:
    known = {spec.name: spec for spec in specs}
    for name, value in own.items():
        if name not in known:
            raise PageError(f"{at} gives {name!r}", hint="inputs are " + ", ".join(known))
        array, spec = np.asarray(value), known[name]
        if array.shape != spec.shape or array.dtype != spec.dtype:
            raise PageError(
                f"{at} gives {name} as {array.dtype.name} {array.shape}; it is {spec.dtype.name} {spec.shape}"
            )
