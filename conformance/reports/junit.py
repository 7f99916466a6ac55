"""JUnit XML of a run: a suite for each contract and target, a test case for each case."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from tileproof.conformance.case import parse_case
from tileproof.conformance.events import FindingFound, WaiverFailed
from tileproof.conformance.failure import replay_command
from tileproof.conformance.reports.run_report import CaseRow, Outcome, RunReport
from tileproof.conformance.target import Target
from tileproof.conformance.visible import visible_text
from tileproof.conformance.waivers.telling import failure


def junit(report: RunReport, crashes: Path) -> str:
    """The run as JUnit XML.

    Args:
        report: the run.
        crashes: folder of its crash files, for the replay commands.
    """
    replay = partial(replay_command, crashes=crashes, page=report.started.page)
    suites: dict[tuple[str, Target], list[CaseRow]] = {}
    for row in report.rows:
        suites.setdefault((parse_case(row.case).contract, row.target), []).append(row)
    found: dict[tuple[str, Target], list[FindingFound]] = {}
    for finding in report.findings:
        if finding.waiver:
            continue
        for target in finding.targets:
            found.setdefault((finding.case, target), []).append(finding)
    reasons = {(one.case, one.target): str(one.why) for one in report.reasons}
    root = ElementTree.Element("testsuites", {"name": "tileproof"} | _counts(report.rows))
    for (contract, target), rows in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": f"{contract} on {target}"} | _counts(rows))
        for row in rows:
            key = (row.case, row.target)
            _case(suite, row, found.get(key, []), reasons.get(key, ""), replay)
    if report.waivers:
        _waivers(root, report.waivers)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _waivers(root: ElementTree.Element, failed: Sequence[WaiverFailed]) -> None:
    """A suite of the waivers that hold no longer, each a test that failed."""
    many = str(len(failed))
    root.set("tests", str(int(root.get("tests", "0")) + len(failed)))
    root.set("failures", str(int(root.get("failures", "0")) + len(failed)))
    suite = ElementTree.SubElement(root, "testsuite", name="waivers", tests=many, failures=many)
    for one in failed:
        element = ElementTree.SubElement(suite, "testcase", classname="waivers", name=_xml(one.waiver))
        ElementTree.SubElement(element, "failure", type="waiver", message=_xml(failure(one)))


def _counts(rows: Iterable[CaseRow]) -> dict[str, str]:
    ended = list(rows)
    return {
        "tests": str(len(ended)),
        "failures": str(sum(row.outcome is Outcome.FAILED for row in ended)),
        "errors": str(sum(row.outcome is Outcome.ERROR for row in ended)),
        "skipped": str(sum(row.outcome in (Outcome.NOT_RUN, Outcome.WAIVED) for row in ended)),
        "time": f"{sum(row.seconds for row in ended):.3f}",
    }


def _case(
    suite: ElementTree.Element, row: CaseRow, findings: list[FindingFound], why: str, replay: Callable[[str], str]
) -> None:
    case = parse_case(row.case)
    element = ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"{case.contract}.{case.kernel}.{row.target}",
        name=_xml(row.case),
        time=f"{row.seconds:.3f}",
    )
    for finding in findings:
        lines = [finding.finding.message]
        mismatch = finding.finding.mismatch
        if mismatch is not None and mismatch.units is not None:
            lines.append(f"Where: {mismatch.units.where} ({mismatch.units.division})")
        if why:
            lines.append(f"Why: {why}")
        if finding.crash:
            lines.append(f"Reproduce with: {replay(finding.crash)}")
        told = ElementTree.SubElement(element, "failure", type=str(finding.finding.kind))
        told.set("message", _xml(finding.finding.message.partition("\n")[0]))
        told.text = _xml("\n".join(lines))
    if row.outcome is Outcome.ERROR:
        ElementTree.SubElement(element, "error", message=_xml(row.reason))
    if row.outcome is Outcome.WAIVED:
        ElementTree.SubElement(element, "skipped", message=_xml(f"waived by {row.reason}"))
    if row.outcome is Outcome.NOT_RUN:
        ElementTree.SubElement(element, "skipped", message=_xml(row.reason))


def _xml(text: str) -> str:
    """XML 1.0 has no way to write most control characters (section 2.2): they are spelled out."""
    return visible_text(text)
