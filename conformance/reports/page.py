"""One HTML page of a run: it loads nothing, finds and filters failures, and draws where outputs differ.

All failures travel in the page as JSON, deflated, since thousands of them have much in common; the page's script
inflates and draws them, a hundred at a time. Without a script the page still has the verdict and the counts.
"""

import base64
import json
import zlib
from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from tileproof.conformance.case import parse_case
from tileproof.conformance.environment import describe
from tileproof.conformance.failure import bearing_rules, pattern, replay_command
from tileproof.conformance.finding import Mismatch
from tileproof.conformance.gathering import Failure, Group
from tileproof.conformance.history import NO_HISTORY, Stretches
from tileproof.conformance.records import to_json
from tileproof.conformance.registry import contract_of
from tileproof.conformance.reports.run_report import CaseRow, Outcome, RunReport
from tileproof.conformance.visible import visible_data
from tileproof.conformance.waivers import telling

MAX_CASES_NAMED = 50
"""Of a failure that many cases share."""
MAX_ALIKE = 20
"""Patterns of a failure besides its first."""
MAX_MAPS = 2000
"""Failures whose map travels in the page: maps hardly deflate, and ten thousand of them take megabytes."""
MAX_UNIT_MAPS = 1000
"""Failures whose maps by tile, warp and lane do; of the others the page has the words."""


def page(report: RunReport, crashes: Path, stretches: Stretches = NO_HISTORY) -> str:
    """The run as one file of HTML.

    Args:
        report: the run.
        crashes: folder of its crash files, for the replay commands.
        stretches: since when cases have their verdict, by case and target.
    """
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=visible_data,
    )
    replay = partial(replay_command, crashes=crashes, page=report.started.page)
    template = environment.from_string(resources.files(__package__).joinpath("page.html").read_text())
    return template.render(
        report=report,
        places=", ".join(map(str, report.started.targets)),
        counts=_counts(report),
        outcomes=[str(outcome) for outcome in report.outcomes],
        waivers=[telling.failure(one) for one in report.waivers],
        machine=describe(to_json(report.started.environment)),
        data=packed(
            [
                {**_failure(failure, replay, at), "since": _since(failure.head, stretches)}
                for at, failure in enumerate(report.failures)
            ]
        ),
        rows=packed([_row(row) for row in report.rows]),
        failures=len(report.failures),
    )


def packed(data: Any) -> str:
    """JSON as deflate (zlib) in base64, its texts visible; the page's script reads it back."""
    return base64.b64encode(zlib.compress(json.dumps(visible_data(data), allow_nan=False).encode(), 9)).decode()


def _counts(report: RunReport) -> dict[tuple[str, str], dict[str, int]]:
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for row in report.rows:
        of = counts.setdefault((parse_case(row.case).contract, str(row.target)), dict.fromkeys(map(str, Outcome), 0))
        of[str(row.outcome)] += 1
    return counts


def _row(row: CaseRow) -> list[Any]:
    return [row.case, str(row.target), str(row.outcome), round(row.seconds, 3), row.route, row.reason]


def _failure(failure: Failure, replay: Callable[[str], str], at: int) -> dict[str, Any]:
    found = failure.head.smallest
    case = parse_case(found.case)
    rules = bearing_rules(contract_of(case), found.finding)
    return {
        **_group(failure.head),
        "cases": _named(failure.cases),
        "count": len(failure.cases),
        "why": _why(failure),
        "alike": [f"{pattern(group)}, such as {group.smallest.case}" for group in failure.alike[:MAX_ALIKE]],
        "contract": case.contract,
        "kernel": case.kernel,
        "route": case.route,
        "mismatch": _mismatch(found.finding.mismatch, at) if found.finding.mismatch else None,
        "place": asdict(found.finding.place) if found.finding.place else None,
        "rules": [f"{rule.name}: {rule.value}" for rule in rules],
        "also": [_group(group) for group in failure.also],
        "replay": replay(found.crash) if found.crash else "",
        "origin": found.origin,
    }


def _since(group: Group, stretches: Stretches) -> str:
    found = group.smallest
    told = ((target, stretches.get((found.case, str(target)))) for target in found.targets)
    return "; ".join(f"on {target} {stretch}" for target, stretch in told if stretch is not None)


def _mismatch(mismatch: Mismatch, at: int) -> dict[str, Any]:
    """Of the failure at a place of the list; later ones come without their maps."""
    if at >= MAX_MAPS:
        mismatch = replace(mismatch, map=())
    if at >= MAX_UNIT_MAPS and mismatch.units is not None:
        mismatch = replace(mismatch, units=replace(mismatch.units, maps=()))
    return asdict(mismatch)


def _why(failure: Failure) -> dict[str, str] | None:
    one = failure.explained
    if one is None:
        return None
    of = "" if one.case == failure.head.smallest.case else one.case
    return {"state": str(one.why.state), "text": str(one.why), "of": of}


def _group(group: Group) -> dict[str, Any]:
    finding = group.smallest.finding
    return {
        "kind": str(finding.kind),
        "message": finding.message,
        "case": group.smallest.case,
        "targets": [str(target) for target in group.smallest.targets],
        "cases": _named(group.cases),
        "count": len(group.cases),
    }


def _named(cases: Collection[str]) -> list[str]:
    return sorted(cases)[:MAX_CASES_NAMED] if len(cases) > 1 else []
