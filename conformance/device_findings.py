"""What a device reports about a launch, as findings of the conformance run."""

from collections.abc import Iterable

from tileproof.conformance.finding import Finding, FindingKind, Place
from tileproof.kernels.device import Report


def device_findings(reports: Iterable[Report]) -> list[Finding]:
    """The findings of several launches of one case, one for each cause: the first that was seen."""
    found: dict[str, Finding] = {}
    for report in reports:
        for finding in report.findings:
            where = finding.where
            file, line = where.file or "", where.line or 0
            kind = FindingKind(finding.kind.value)
            signature = f"{kind}/{file}:{line}" if file else f"{kind}/ptx:{where.ptx_line}"
            place = Place(where.ptx_line, file, line, tuple(map(str, finding.threads)), finding.count)
            found.setdefault(signature, Finding(kind, finding.message, signature, place=place))
    return list(found.values())


def device_notes(reports: Iterable[Report]) -> tuple[str, ...]:
    """The quieter level of several launches, each note once."""
    return tuple(dict.fromkeys(str(note) for report in reports for note in report.notes))
