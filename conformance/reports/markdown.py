"""A Markdown summary of a run, for the page of a CI job: the verdict, the counts, and the first failures as told."""

import re
from collections import Counter
from pathlib import Path

from tileproof.conformance.case import parse_case
from tileproof.conformance.failure import describe_failure
from tileproof.conformance.gathering import Failure
from tileproof.conformance.reports.run_report import RunReport
from tileproof.conformance.visible import visible
from tileproof.conformance.waivers.telling import failure

MAX_FAILURES = 20
MAX_REASONS = 10

_ACTS = re.compile(r"[\\`*\[\]<>|#]|(?<!\w)_|_(?!\w)")
"""What Markdown acts on; an underscore within a word, as in sm_90a, is none."""


def markdown(report: RunReport, crashes: Path) -> str:
    """The run as Markdown, at most some tens of kilobytes.

    Args:
        report: the run.
        crashes: folder of its crash files, for the replay commands.
    """
    lines = [f"## tileproof: {report.verdict}", ""]
    places = ", ".join(map(str, report.started.targets))
    lines += [_inline(f"{report.size} on {places}."), ""]
    if report.started.fault:
        lines += [f"The deliberate fault {_inline(report.started.fault)} was in.", ""]
    lines += [f"* **{_inline(failure(one))}**" for one in report.waivers] + [""] * bool(report.waivers)
    lines += [*_table(report), "", *_reasons(report)]
    for one in report.failures[:MAX_FAILURES]:
        lines += _failure(one, report, crashes)
    if len(report.failures) > MAX_FAILURES:
        lines += [f"{len(report.failures) - MAX_FAILURES} more failures are in the event file.", ""]
    return "\n".join(lines)


def _table(report: RunReport) -> list[str]:
    counts = Counter((parse_case(row.case).contract, row.target, row.outcome) for row in report.rows)
    rows = dict.fromkeys((contract, target) for contract, target, _ in counts)
    outcomes = report.outcomes
    lines = ["| contract | target | " + " | ".join(outcomes) + " |", "|---|---|" + "---:|" * len(outcomes)]
    for contract, target in rows:
        numbers = " | ".join(str(counts[contract, target, outcome]) for outcome in outcomes)
        lines.append(f"| `{contract}` | {target} | {numbers} |")
    return lines


def _reasons(report: RunReport) -> list[str]:
    """Why cases did not run or have no verdict, the commonest first."""
    reasons = Counter((row.outcome, row.reason) for row in report.rows if row.reason)
    lines = [f"* {cases} {outcome}: {_inline(reason)}" for (outcome, reason), cases in reasons.most_common(MAX_REASONS)]
    if len(reasons) > MAX_REASONS:
        lines.append(f"* and {len(reasons) - MAX_REASONS} more reasons")
    return [*lines, ""] if lines else []


def _failure(failure: Failure, report: RunReport, crashes: Path) -> list[str]:
    told = list(map(visible, describe_failure(failure, report.started.targets, crashes, report.started.page)))
    fence = "`" * max(3, 1 + max(map(_longest_ticks, told)))
    return [fence, *told, fence, ""]


def _longest_ticks(line: str) -> int:
    longest = run = 0
    for letter in line:
        run = run + 1 if letter == "`" else 0
        longest = max(longest, run)
    return longest


def _inline(text: str) -> str:
    """One line whose letters Markdown leaves alone; what prints nothing is written out."""
    return _ACTS.sub(r"\\\g<0>", visible(" ".join(text.split())))
