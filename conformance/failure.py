"""The text of a failure: one block for each root cause, as a person reads it. Colour is added by the console."""

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tileproof.conformance.case import Case, parse_case
from tileproof.conformance.contract import Contract, Rule, TensorSpec
from tileproof.conformance.crash import DEFAULT_FOLDER
from tileproof.conformance.events import CaseExplained, FindingFound
from tileproof.conformance.failure_units import unit_lines
from tileproof.conformance.finding import Finding, FindingKind, Mismatch, Place
from tileproof.conformance.registry import contract_of
from tileproof.conformance.target import Coordinates, Target

INDENT = "      "
MAX_RULES = 3
MAX_THREADS = 2
MAX_ALSO = 8

_CAUSE_ORDER = (
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

_COMMON = frozenset({"rows", "columns", "with", "only", "last", "even", "neighbours"})
"""Words of input classes that say nothing about a rule."""


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


@dataclass(frozen=True)
class Failure:
    """One root cause as far as the cases tell: a signature, and others that hit none but its cases."""

    head: Group
    also: tuple[Group, ...]


def gather(findings: Iterable[FindingFound], reasons: Iterable[CaseExplained] = ()) -> tuple[Failure, ...]:
    """Findings by contract, kernel, targets and signature, and those folded into failures; causes come first.

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
    groups = [_group(members, explained) for members in by_signature.values()]
    groups.sort(key=lambda group: (_CAUSE_ORDER.index(group.smallest.finding.kind), -len(group.cases)))
    folded: list[list[Group]] = []
    with_case: dict[str, list[list[Group]]] = {}
    for group in groups:
        candidates = with_case.get(group.smallest.case, [])
        home = next((failure for failure in candidates if _belongs(group, failure[0])), None)
        if home is None:
            home = []
            folded.append(home)
            for name in group.cases:
                with_case.setdefault(name, []).append(home)
        home.append(group)
    return tuple(Failure(head, tuple(also)) for head, *also in folded)


def replay_command(crash: str, crashes: Path, page: str = "") -> str:
    """The command that replays a crash file of this folder, with the page that has its contract."""
    where = "" if crashes == DEFAULT_FOLDER else f" --crash-dir {shlex.quote(str(crashes))}"
    by = f" --page {shlex.quote(page)}" if page else ""
    return f"tileproof replay {crash}{by}{where}"


def describe_failure(
    failure: Failure, places: tuple[Coordinates, ...], crashes: Path = DEFAULT_FOLDER, page: str = ""
) -> list[str]:
    """The lines of one block.

    Args:
        failure: what to tell.
        places: the run's coordinates.
        crashes: folder of the run's crash files.
        page: the file of a user's page that the cases come from.
    """
    found = failure.head.smallest
    case = parse_case(found.case)
    contract = contract_of(case)
    rules = bearing_rules(contract, found.finding)
    where = " and ".join(str(place) for place in found.places or places if place.target in found.targets)
    count = len(failure.head.cases)
    lines = [
        f"FAIL  {contract.name}  {_subject(found.finding)}" + (f"    rule: {rules[0].name}" if rules else ""),
        f"{INDENT}case   {case}",
        f"{INDENT}on     {where}" + (f", inputs from {found.origin}" if found.origin else ""),
        f"{INDENT}shape  {_tensors(contract, case)}",
        *(f"{INDENT}{line}" for line in _evidence(found.finding)),
        *(f"{INDENT}{line}" for line in why_lines(failure.head)),
        *(f"{INDENT}rule   {rule.name}: {rule.value}" for rule in rules),
        *(f"{INDENT}also   {_also(group)}" for group in failure.also[:MAX_ALSO]),
    ]
    if len(failure.also) > MAX_ALSO:
        lines.append(f"{INDENT}also   {len(failure.also) - MAX_ALSO} more signatures in these cases")
    if count > 1:
        lines.append(f"{INDENT}{count} cases have this signature; this is the smallest")
    replay = (
        f"Reproduce with:  {replay_command(found.crash, crashes, page)}"
        if found.crash
        else "no crash file could be kept"
    )
    return [*lines, f"{INDENT}{replay}", *(f"{INDENT}Or by its id:    {one}" for one in _by_id(found))]


def _by_id(found: FindingFound) -> Iterator[str]:
    """The command that makes the inputs anew, for a finding at other coordinates than its run's."""
    if found.places and not found.origin:
        targets = ",".join(place.target for place in found.places)
        place = found.places[0]
        yield (
            f"tileproof check {found.case} --target {targets} --arch {place.arch} --schedule {place.schedule} "
            f"--seed {place.seed}"
        )


def why_lines(group: Group) -> list[str]:
    """The first explanation with its proof, and of which case it is where that is another one."""
    one = group.explained
    if one is None:
        return []
    of = "" if one.case == group.smallest.case else f"; said of {one.case}"
    return [f"why    {one.why}{of}"]


def _group(members: list[FindingFound], explained: Mapping[tuple[str, tuple[Target, ...]], CaseExplained]) -> Group:
    """The explanation is the smallest case's; else of the smallest that has a text; else of any."""
    ordered = sorted(members, key=_size)
    known = [explained[key] for one in ordered if (key := (one.case, one.targets)) in explained]
    told = next((one for one in known if one.why.text), known[0] if known else None)
    return Group(ordered[0], frozenset(one.case for one in members), told)


def _belongs(group: Group, head: Group) -> bool:
    return group.cases <= head.cases and group.smallest.targets == head.smallest.targets


def _subject(finding: Finding) -> str:
    return f"{finding.kind} in {finding.tensor}" if finding.tensor else str(finding.kind)


def _also(group: Group) -> str:
    finding = group.smallest.finding
    at = f" at {_source(finding.place)}" if finding.place else ""
    cases = f"{len(group.cases)} cases" if len(group.cases) > 1 else "1 case"
    message = finding.message.splitlines()[0].partition("; first at ")[0]
    return f"{finding.kind}{at}: {message} ({cases})"


def bearing_rules(contract: Contract, finding: Finding) -> tuple[Rule, ...]:
    """The contract's rules that speak of the tensor or of the narrowest input class that holds the difference."""
    if finding.mismatch is None or finding.kind is not FindingKind.MISMATCH:
        return ()
    inside = [c for c in finding.mismatch.classes if c.differing == finding.mismatch.count]
    narrowest = _stems(min(inside, key=lambda c: c.of).name if inside else "")
    tensor = _stems(finding.tensor or "")

    def weight(rule: Rule) -> int:
        name, value = _stems(rule.name), _stems(rule.value)
        return 4 * len(narrowest & name) + 2 * len(narrowest & value) + len(tensor & name)

    likely = sorted((rule for rule in contract.rules if weight(rule)), key=weight, reverse=True)
    return tuple(likely[:MAX_RULES])


def _stems(text: str) -> frozenset[str]:
    words = (word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 2)
    return frozenset(word[:5].rstrip("s") for word in words if word not in _COMMON)


def _size(found: FindingFound) -> tuple[int, str]:
    return math.prod(dimension.size for dimension in parse_case(found.case).shape.dimensions), found.case


def _tensors(contract: Contract, case: Case) -> str:
    specs = contract.tensors(case.shape)
    given = [_tensor(spec) for spec in specs if spec.role.is_read]
    written = [_tensor(spec) for spec in specs if spec.role.is_written]
    return f"{', '.join(given)} -> {', '.join(written)}"


def _tensor(spec: TensorSpec) -> str:
    return f"{spec.name} {spec.format}[{', '.join(map(str, spec.shape))}]"


def _evidence(finding: Finding) -> list[str]:
    place = _place(finding.place) if finding.place else []
    if finding.mismatch is not None:
        return [*_mismatch(finding, finding.mismatch), *place]
    return [*finding.message.splitlines(), *place]


def _mismatch(finding: Finding, mismatch: Mismatch) -> list[str]:
    values = [("expected", mismatch.expected), ("observed", mismatch.observed)]
    values += [(witness.name, witness.bits) for witness in mismatch.witnesses]
    width = max(len(name) for name, _ in values)
    return [
        *_preface(finding, mismatch),
        "first  [" + ", ".join(map(str, mismatch.index)) + "]",
        *(f"       {name:<{width}}  {bits}" for name, bits in values),
        f"{mismatch.count} of {mismatch.of} differ" + _share(mismatch),
        *mismatch.map,
        *(unit_lines(mismatch.units) if mismatch.units else []),
    ]


def _preface(finding: Finding, mismatch: Mismatch) -> list[str]:
    """What the message says beyond the numbers that the block shows anyway."""
    said, numbers, _ = finding.message.partition(f"{finding.tensor}: {mismatch.count} of {mismatch.of} elements differ")
    said = said.rstrip(": ") if numbers else finding.message
    return [said] if said else []


def _share(mismatch: Mismatch) -> str:
    steps = "1 step" if mismatch.largest_step == 1 else f"{mismatch.largest_step} steps"
    far = f", by at most {steps} of the format" if mismatch.largest_step else ""
    holding = [c for c in mismatch.classes if c.differing == mismatch.count and c.of < mismatch.of]
    if not holding:
        return far
    return far + "; all are " + ", ".join(f"{c.name} ({c.differing} of {c.of})" for c in holding[:2])


def _place(place: Place) -> list[str]:
    more = len(place.threads) - MAX_THREADS
    threads = "; ".join(place.threads[:MAX_THREADS]) + (f"; and {more} more" if more > 0 else "")
    seen = f"seen {place.count} times" if place.count > 1 else ""
    return [f"{name:<6} {text}" for name, text in (("at", _source(place)), ("by", threads), ("", seen)) if text]


def _source(place: Place) -> str:
    cuda = f"{place.file}:{place.line}" if place.file else ""
    ptx = f"PTX line {place.ptx_line}" if place.ptx_line else ""
    return ", ".join(part for part in (cuda, ptx) if part)
