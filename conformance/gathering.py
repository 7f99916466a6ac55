"""Findings gathered to failures: what is told as one, so that one bug is told once and two bugs are told apart.

A *signature* is strict: it has how the values moved and which class of inputs holds them, since a search shrinks by it,
and waivers, crash files and comparisons of runs name it. Both change with the shape: where a kernel drops a tail, all
of a row of one element is wrong, and a part of a longer one. So signatures become failures in two steps.

*Folded*: a signature that no case has without a signature of an earlier cause follows from that, as wrong values do
from a race.

*Alike*: of what is left, signatures about the bytes of one tensor, of one kernel on the same targets, are one failure

* if they are of one kind (never written, different, written outside) and share a route, or the same is proved of both;
* or of different kinds and share a case;

unless different causes are proved of them. What differs from launch to launch is apart from what is always wrong.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tileproof.conformance.case import parse_case
from tileproof.conformance.events import CaseExplained, FindingFound
from tileproof.conformance.finding import FindingKind, Proof
from tileproof.conformance.target import Target

CAUSE_ORDER = (
    FindingKind.CRASH,
    FindingKind.TIMEOUT,
    FindingKind.REFUSAL,
    FindingKind.ROUTE,
    FindingKind.TRAP,
    FindingKind.OUT_OF_BOUNDS,
    FindingKind.USE_AFTER_FREE,
    FindingKind.MISALIGNED,
    FindingKind.DIVERGENCE,
    FindingKind.BARRIER,
    FindingKind.ASYNC,
    FindingKind.DEADLOCK,
    FindingKind.SCOPE,
    FindingKind.RACE,
    FindingKind.UNINITIALISED,
    FindingKind.APPROXIMATE,
    FindingKind.LEAK,
    FindingKind.CANARY,
    FindingKind.INPUT_CHANGED,
    FindingKind.UNWRITTEN,
    FindingKind.MISMATCH,
)
"""Causes before what follows from them: where several kinds hit the same cases, the first one heads the block."""

_OF_BYTES = frozenset(
    {FindingKind.CANARY, FindingKind.INPUT_CHANGED, FindingKind.UNWRITTEN, FindingKind.MISMATCH},
)
_CERTAIN = frozenset({Proof.SEEN, Proof.PROVED})
_HOW_GOOD = (Proof.PROVED, Proof.SEEN, Proof.GUESS, Proof.NONE)


@dataclass(frozen=True)
class Group:
    """Findings with one signature.

    Args:
        smallest: the finding of the case with the fewest elements; ties go to the first id.
        cases: all cases that have it.
        explained: why one of them failed, that of `smallest` if it was; None where none was.
    """

    smallest: FindingFound
    cases: frozenset[str]
    explained: CaseExplained | None = None

    @cached_property
    def routes(self) -> frozenset[str]:
        """Of its cases."""
        return frozenset(parse_case(case).route for case in self.cases)

    @cached_property
    def identity(self) -> tuple[object, ...]:
        """What signatures of one failure have in common at least: those about bytes the tensor, else the signature."""
        finding, case = self.smallest.finding, parse_case(self.smallest.case)
        what: tuple[object, ...] = (finding.kind, finding.signature)
        if finding.kind in _OF_BYTES:
            what = (finding.tensor, finding.signature.endswith("not repeatable"))
        return (case.contract, case.kernel, self.smallest.targets, *what)

    @property
    def kind(self) -> FindingKind:
        """Of its findings."""
        return self.smallest.finding.kind

    @property
    def size(self) -> tuple[int, str]:
        """Of its smallest case, to compare by."""
        return _size(self.smallest)

    @property
    def certain_cause(self) -> str:
        """The cause that was seen or proved, in words without its numbers; "" where there is none."""
        return self._text_of(_CERTAIN).partition(": ")[0]

    @property
    def proved_text(self) -> str:
        """The proved explanation, numbers and all; "" where there is none."""
        return self._text_of(frozenset({Proof.PROVED}))

    def _text_of(self, states: frozenset[Proof]) -> str:
        why = self.explained.why if self.explained else None
        return why.text if why is not None and why.state in states else ""


@dataclass(frozen=True)
class Failure:
    """What is taken for one root cause.

    Args:
        head: of the signatures of the earliest cause the one with the smallest case.
        alike: further signatures of it, those of the most cases first.
        also: signatures that follow from it.
    """

    head: Group
    alike: tuple[Group, ...] = ()
    also: tuple[Group, ...] = ()

    @cached_property
    def cases(self) -> frozenset[str]:
        """All that fail so."""
        return self.head.cases.union(*(group.cases for group in self.alike))

    @property
    def is_surely_one(self) -> bool:
        """Whether all its cases fail with one signature, or for one reason that is proved of each signature."""
        texts = {group.proved_text for group in (self.head, *self.alike)}
        return not self.alike or (len(texts) == 1 and texts != {""})

    @property
    def explained(self) -> CaseExplained | None:
        """Why: what is said of the smallest case, unless more is known of another."""
        known = [one.explained for one in (self.head, *self.alike) if one.explained is not None]
        return min(known, key=lambda one: _HOW_GOOD.index(one.why.state), default=None)


def gather(findings: Iterable[FindingFound], reasons: Iterable[CaseExplained] = ()) -> tuple[Failure, ...]:
    """Findings as failures, causes first.

    Args:
        findings: of a run.
        reasons: why its cases failed, of some of them.
    """
    explained = {(one.case, one.targets): one for one in reasons}
    by_signature: dict[tuple[object, ...], list[FindingFound]] = {}
    for found in findings:
        case = parse_case(found.case)
        key = (case.contract, case.kernel, found.targets, found.finding.signature)
        by_signature.setdefault(key, []).append(found)
    groups = sorted((_group(members, explained) for members in by_signature.values()), key=_order)
    united: list[list[list[Group]]] = []
    of_identity: dict[tuple[object, ...], list[list[list[Group]]]] = {}
    for folded in _folded(groups):
        candidates = of_identity.setdefault(folded[0].identity, [])
        home = next((one for one in candidates if _are_one(folded[0], _like(folded[0], one))), None)
        if home is None:
            home = []
            united.append(home)
            candidates.append(home)
        home.append(folded)
    return tuple(map(_failure, united))


def _group(members: list[FindingFound], explained: Mapping[tuple[str, tuple[Target, ...]], CaseExplained]) -> Group:
    """The explanation is the smallest case's; else of the smallest that has a text; else of any."""
    ordered = sorted(members, key=_size)
    known = [explained[key] for one in ordered if (key := (one.case, one.targets)) in explained]
    told = next((one for one in known if one.why.text), known[0] if known else None)
    return Group(ordered[0], frozenset(one.case for one in members), told)


def _order(group: Group) -> tuple[object, ...]:
    """Causes first, then what most cases have; the rest makes it the same however cases came in."""
    finding = group.smallest.finding
    return (CAUSE_ORDER.index(finding.kind), -len(group.cases), group.size, group.smallest.targets, finding.signature)


def _folded(groups: Iterable[Group]) -> list[list[Group]]:
    """Each cause with what follows from it."""
    folded: list[list[Group]] = []
    with_case: dict[str, list[list[Group]]] = {}
    for group in groups:
        candidates = with_case.get(group.smallest.case, [])
        home = next((one for one in candidates if _follows(group, one[0])), None)
        if home is None:
            home = []
            folded.append(home)
            for name in group.cases:
                with_case.setdefault(name, []).append(home)
        home.append(group)
    return folded


def _follows(group: Group, head: Group) -> bool:
    return group.cases <= head.cases and group.smallest.targets == head.smallest.targets


def _like(group: Group, members: Sequence[Sequence[Group]]) -> list[Group]:
    """Of a failure's groups, what follows from others included, those of a group's identity."""
    return [other for folded in members for other in folded if other.identity == group.identity]


def _are_one(group: Group, others: Sequence[Group]) -> bool:
    """Whether a group of the same identity as these is of their failure."""
    return any(_is_alike(group, other) for other in others) and not _are_proved_different((group, *others))


def _is_alike(group: Group, other: Group) -> bool:
    if group.kind is not other.kind:
        return bool(group.cases & other.cases)
    return bool(group.routes & other.routes) or (bool(group.proved_text) and group.proved_text == other.proved_text)


def _are_proved_different(groups: Sequence[Group]) -> bool:
    """Whether causes differ, one of which is proved; several that were merely seen are symptoms of one, as likely."""
    return any(group.proved_text for group in groups) and len({group.certain_cause for group in groups} - {""}) > 1


def _failure(members: Sequence[Sequence[Group]]) -> Failure:
    heads = [head for head, *_ in members]
    first = min(heads, key=lambda group: (CAUSE_ORDER.index(group.kind), group.size))
    also: dict[tuple[object, ...], list[Group]] = {}
    for group in (one for _, *rest in members for one in rest):
        also.setdefault((group.kind, *group.identity), []).append(group)
    return Failure(
        head=first,
        alike=tuple(group for group in heads if group is not first),
        also=tuple(map(_together, also.values())),
    )


def _together(groups: Sequence[Group]) -> Group:
    """What follows from a cause, told once for each output: of the smallest case, with all cases."""
    first = min(groups, key=lambda group: group.size)
    return Group(first.smallest, first.cases.union(*(group.cases for group in groups)), first.explained)


def _size(found: FindingFound) -> tuple[int, str]:
    return math.prod(dimension.size for dimension in parse_case(found.case).shape.dimensions), found.case
