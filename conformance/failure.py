"""The text of a failure: one block for each root cause, as a person reads it. Colour is added by the console."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tileproof.conformance.case import Case, parse_case
from tileproof.conformance.compare import is_chance
from tileproof.conformance.contract import Contract, Rule, TensorSpec
from tileproof.conformance.crash import DEFAULT_FOLDER
from tileproof.conformance.events import FindingFound
from tileproof.conformance.failure_units import unit_lines
from tileproof.conformance.finding import Finding, FindingKind, Mismatch, Place
from tileproof.conformance.gathering import Failure, Group
from tileproof.conformance.registry import contract_of
from tileproof.conformance.target import Coordinates

INDENT = "      "
MAX_RULES = 3
MAX_THREADS = 2
MAX_ALSO = 8
MAX_ALIKE = 4

_WHAT = {
    FindingKind.UNWRITTEN: "were never written",
    FindingKind.CANARY: "bytes have changed",
    FindingKind.INPUT_CHANGED: "bytes have changed",
}
_FOUND = {FindingKind.UNWRITTEN: "poison"}
"""What stands where nothing was written is what the runner put there."""

_COMMON = frozenset({"rows", "columns", "with", "only", "last", "even", "neighbours"})
"""Words of input classes that say nothing about a rule."""


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
    lines = [
        f"FAIL  {contract.name}  {_subject(found.finding)}" + (f"    rule: {rules[0].name}" if rules else ""),
        f"{INDENT}case   {case}",
        f"{INDENT}on     {where}" + (f", inputs from {found.origin}" if found.origin else ""),
        f"{INDENT}shape  {_tensors(contract, case)}",
        *(f"{INDENT}{line}" for line in _evidence(found.finding)),
        *(f"{INDENT}{line}" for line in why_lines(failure)),
        *(f"{INDENT}rule   {rule.name}: {rule.value}" for rule in rules),
        *(f"{INDENT}also   {_also(group)}" for group in failure.also[:MAX_ALSO]),
    ]
    if len(failure.also) > MAX_ALSO:
        lines.append(f"{INDENT}also   {len(failure.also) - MAX_ALSO} more kinds of findings in these cases")
    lines += [f"{INDENT}{line}" for line in _alike(failure)]
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


def why_lines(failure: Failure) -> list[str]:
    """The best explanation with its proof, and of which case it is where that is another one."""
    one = failure.explained
    if one is None:
        return []
    of = "" if one.case == failure.head.smallest.case else f"; said of {one.case}"
    return [f"why    {one.why}{of}"]


def _alike(failure: Failure) -> list[str]:
    """How other cases show the same failure, and how many there are."""
    many = len(failure.cases)
    if many == 1:
        return []
    lines = [f"alike  {pattern(group)}, such as {group.smallest.case}" for group in failure.alike[:MAX_ALIKE]]
    if left := len(failure.alike) - MAX_ALIKE:
        lines += [f"alike  {left} more patterns"] * (left > 0)
    how = "alike" if failure.is_surely_one else "here, by one bug or by several"
    return [*lines, f"{many} cases fail {how}; this is the smallest"]


def pattern(group: Group) -> str:
    """How a signature shows a failure of values: how many cases have it, and what it says without the first place."""
    return f"{_cases(group)}: {_short(group.smallest.finding)}"


def _cases(group: Group) -> str:
    return f"{len(group.cases)} cases" if len(group.cases) > 1 else "1 case"


def _short(finding: Finding) -> str:
    return finding.message.splitlines()[0].partition("; first at ")[0]


def _subject(finding: Finding) -> str:
    return f"{finding.kind} in {finding.tensor}" if finding.tensor else str(finding.kind)


def _also(group: Group) -> str:
    finding = group.smallest.finding
    at = f" at {_source(finding.place)}" if finding.place else ""
    return f"{finding.kind}{at}: {_short(finding)} ({_cases(group)})"


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
    values = [("expected", mismatch.expected), (_FOUND.get(finding.kind, "observed"), mismatch.observed)]
    values += [(witness.name, witness.bits) for witness in mismatch.witnesses]
    width = max(len(name) for name, _ in values)
    return [
        *_preface(finding, mismatch),
        "first  [" + ", ".join(map(str, mismatch.index)) + "]",
        *(f"       {name:<{width}}  {bits}" for name, bits in values),
        f"{mismatch.count} of {mismatch.of} {_WHAT.get(finding.kind, 'differ')}" + _share(finding.kind, mismatch),
        *mismatch.map,
        *(unit_lines(mismatch.units) if mismatch.units else []),
    ]


def _preface(finding: Finding, mismatch: Mismatch) -> list[str]:
    """What the message says beyond the numbers that the block shows anyway."""
    if finding.kind is FindingKind.UNWRITTEN:
        return []
    said, numbers, _ = finding.message.partition(f"{finding.tensor}: {mismatch.count} of {mismatch.of} elements differ")
    said = said.rstrip(": ") if numbers else finding.message
    return [said] if said else []


def _share(kind: FindingKind, mismatch: Mismatch) -> str:
    steps = "1 step" if mismatch.largest_step == 1 else f"{mismatch.largest_step} steps"
    is_distance = mismatch.largest_step and kind is not FindingKind.UNWRITTEN  # none is one from poison
    far = f", by at most {steps} of the format" if is_distance else ""
    holding = [c for c in mismatch.classes if c.differing == mismatch.count and c.of < mismatch.of]
    if not holding:
        return far
    sure = [c for c in holding if not is_chance(c.of, mismatch.of, mismatch.count)]
    named = ", ".join(f"{c.name} ({c.differing} of {c.of})" for c in (sure or holding)[:2])
    return f"{far}; all are {named}" + ("" if sure else ", which may be chance")


def _place(place: Place) -> list[str]:
    more = len(place.threads) - MAX_THREADS
    threads = "; ".join(place.threads[:MAX_THREADS]) + (f"; and {more} more" if more > 0 else "")
    seen = f"seen {place.count} times" if place.count > 1 else ""
    return [f"{name:<6} {text}" for name, text in (("at", _source(place)), ("by", threads), ("", seen)) if text]


def _source(place: Place) -> str:
    cuda = f"{place.file}:{place.line}" if place.file else ""
    ptx = f"PTX line {place.ptx_line}" if place.ptx_line else ""
    return ", ".join(part for part in (cuda, ptx) if part)
