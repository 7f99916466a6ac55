"""From what two launches of one case left in memory to findings.

Both launches see the same elements; outputs start as another poison and the inputs' padding holds other values. So an
output byte that shows its poison both times was never written, and an output that differs between the two depends on
something that it must not depend on.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import numpy as np

from tileproof.conformance.allowed import settle
from tileproof.conformance.bits import Raw, describe_byte, is_nan
from tileproof.conformance.case import Case
from tileproof.conformance.compare import compare_bits, difference, explaining_class, raw_bits, where_words, witness
from tileproof.conformance.contract import REFUSED, Allowed, Arrays, Comparison, Contract, Mask, Right, Role
from tileproof.conformance.finding import BitPattern, Finding, FindingKind, Mismatch
from tileproof.conformance.layout import POISONS, Bytes, Layout
from tileproof.kernels.launcher import Launch
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class Observation:
    """One launch: the image of each tensor's allocation before and after, and what the launcher said.

    Args:
        before: images by tensor name.
        after: images by tensor name.
        launch: None where the launcher refused.
        refusal: None where it did not.
        ends: for devices that carry what approximate functions leave open, the images of the smallest and of the
            largest values that the elements may have, by tensor name.
    """

    before: Mapping[str, Bytes]
    after: Mapping[str, Bytes]
    launch: Launch | None
    refusal: Refusal | None
    ends: Mapping[str, tuple[Bytes, Bytes]] = field(default_factory=dict)

    @property
    def route(self) -> str:
        """The route that the launcher recorded, or that it refused."""
        return REFUSED if self.launch is None else self.launch.route


@dataclass(frozen=True)
class Evidence:
    """All that a verdict on one case rests on, but for what the device itself reports.

    Args:
        contract: of the case.
        case: what ran.
        values: the inputs, by tensor name.
        arch: of the device.
        expected: inputs and architecture to the outputs that they must give.
        layouts: where each tensor lies in its image.
        seen: both launches.
    """

    contract: Contract
    case: Case
    values: Arrays
    arch: str
    expected: Callable[[Arrays, str], Right]
    layouts: tuple[Layout, ...]
    seen: tuple[Observation, Observation]

    def findings(self) -> tuple[Finding, ...]:
        """Route, then inputs and gaps, then each output's elements."""
        return (
            *self._route(),
            *chain.from_iterable(self._outside(layout) for layout in self.layouts),
            *(self._outputs() if REFUSED not in (self.case.route, self.seen[0].route) else ()),
        )

    @cached_property
    def right(self) -> Right:
        """The right outputs; of a contract that knows none, those of the first launch."""
        if self.contract.comparison is Comparison.REPEAT:
            return {layout.spec.name: layout.values(self.seen[0].after[layout.spec.name]) for layout in self.layouts}
        return self.expected(self.values, self.arch)

    def _route(self) -> Iterator[Finding]:
        taken, refusal = self.seen[0].route, self.seen[0].refusal
        if taken == self.case.route:
            return
        if refusal is not None:
            yield Finding(FindingKind.REFUSAL, f"refused: {refusal.message}", "refusal/refused")
        elif self.case.route == REFUSED:
            yield Finding(FindingKind.REFUSAL, f"accepted (route {taken}); it must be refused", "refusal/accepted")
        else:
            message = f"took route {taken}; the contract's rule gives {self.case.route}"
            yield Finding(FindingKind.ROUTE, message, f"route/{self.case.route}->{taken}")

    def _outside(self, layout: Layout) -> Iterator[Finding]:
        """Bytes that must be as they were: all of an input, and whatever lies around an output's elements."""
        name = layout.spec.name
        for one in self.seen:
            changed = one.before[name] != one.after[name]
            if layout.spec.role.is_written:
                changed &= ~layout.owned()
            if changed.any():
                yield _changed_bytes(layout, one, changed)
                return

    def _outputs(self) -> Iterator[Finding]:
        lower = {name: one.lower if isinstance(one, Allowed) else one for name, one in self.right.items()}
        classes = self.contract.classes(self.values, lower)
        for layout in self.layouts:
            if layout.spec.role.is_written:
                for finding in self._elements(layout, classes[layout.spec.name]):
                    yield self._with_witnesses(finding, lower)

    def _elements(self, layout: Layout, classes: Mapping[str, Mask]) -> Iterator[Finding]:
        """Findings about the elements of one output; an element has at most one."""
        spec, division = layout.spec, self.contract.divisions(self.case).get(layout.spec.name)
        (expected, first), (other, second) = (self._settled(layout, one) for one in self.seen)
        unwritten = _shows_poison(layout, first, second)
        if unwritten.any():
            where = explaining_class(unwritten, classes)
            evidence = replace(difference(spec, expected, first, unwritten, classes, division), largest_step=0)
            if self.contract.comparison is Comparison.REPEAT:  # else the poison would be what is expected of itself
                evidence = replace(evidence, expected=BitPattern(spec.format, "", "", "anything: nothing says what"))
            words = where_words(unwritten, classes)
            message = f"{spec.name}: {evidence.count} of {evidence.of} elements never written ({words})"
            yield Finding(FindingKind.UNWRITTEN, message, f"unwritten/{spec.name}/{where}", spec.name, evidence)
        mismatch = compare_bits(spec, expected, first, classes=classes, skip=unwritten, division=division)
        if mismatch is not None:
            yield mismatch
        settled = unwritten | (expected != first)
        unsettled = compare_bits(spec, other, second, classes=classes, skip=settled, division=division)
        if unsettled is not None:
            message = f"only with other poison and padding values: {unsettled.message}"
            yield replace(unsettled, message=message, signature=f"mismatch/{spec.name}/not repeatable")

    def _settled(self, layout: Layout, one: Observation) -> tuple[Raw, Raw]:
        """Expected and observed bits of one output in one launch; expected is what was seen, where that is allowed."""
        name = layout.spec.name
        images = (one.after[name], *one.ends.get(name, ()))
        expected, seen = settle(layout.spec.format, self.right[name], [layout.elements(image) for image in images])
        if layout.spec.format in self.contract.any_nan:
            both = is_nan(layout.spec.format, expected) & is_nan(layout.spec.format, seen)
            expected = np.where(both, seen, expected)
        return expected, seen

    def _with_witnesses(self, finding: Finding, right: Arrays) -> Finding:
        if finding.mismatch is None or finding.tensor is None:
            return finding
        known = {**self.values, **right}
        specs = {layout.spec.name: layout.spec for layout in self.layouts}
        wanted = self.contract.witnesses(finding.tensor, finding.mismatch.index)
        witnesses = tuple(witness(specs[name], raw_bits(known[name]), index) for name, index in wanted)
        return replace(finding, mismatch=replace(finding.mismatch, witnesses=witnesses))


def _shows_poison(layout: Layout, first: Raw, second: Raw) -> Mask:
    """Which elements have a byte that holds its poison after both launches."""
    if layout.spec.role is Role.IN_PLACE:
        return np.zeros(layout.spec.shape, np.bool_)
    both = [np.ascontiguousarray(values).view(np.uint8) for values in (first, second)]
    kept = (both[0] == POISONS[0]) & (both[1] == POISONS[1])
    return np.asarray(kept.reshape(*layout.spec.shape, layout.spec.dtype.itemsize).any(axis=-1))


def _changed_bytes(layout: Layout, one: Observation, changed: Mask) -> Finding:
    """A finding about bytes that nothing may write; its index counts bytes from the first element."""
    name = layout.spec.name
    at = int(np.argmax(changed))
    evidence = Mismatch(
        index=(at - layout.lead_bytes,),
        count=int(changed.sum()),
        of=changed.size,
        expected=describe_byte(int(one.before[name][at])),
        observed=describe_byte(int(one.after[name][at])),
        witnesses=(),
        largest_step=0,
        map=(),
        classes=(),
    )
    region = _region(layout, at)
    if layout.spec.role is Role.INPUT:
        kind, what = FindingKind.INPUT_CHANGED, f"input {name} was written"
    else:
        kind, what = FindingKind.CANARY, f"{name}: written outside its elements"
    message = (
        f"{what}: {evidence.count} bytes changed, the first in {region}, byte {evidence.index[0]} from the first "
        f"element: {evidence.expected.raw} became {evidence.observed.raw}"
    )
    return Finding(kind, message, f"{kind}/{name}/{region}", name, evidence)


def _region(layout: Layout, at: int) -> str:
    """Which part of an image a byte belongs to."""
    owned = np.flatnonzero(layout.owned())
    if owned.size == 0:
        return "an allocation without elements"
    if at < owned[0]:
        return "the bytes before the first element"
    if at > owned[-1]:
        return "the bytes after the last element"
    return "the elements" if at in owned else "the gap between rows"
