"""Reads ledger files: JSON with evidence by key and a list of rows, checked field by field.

    {"version": 1,
     "evidence": {"run-7": {"by": "...", "ours": false, "when": "2026-08-22", "device": "...", ...}},
     "rows": [{"shape": "TP4 M4096 qkv", "extent": [4096, 2560, 4096], "role": "accepted", "candidate": "...",
               "median_us": 756.73, "p90_us": 760.16, "evidence": "run-7"}, ...]}

The ledger that is shipped holds what the authors of metainfer report of their kernels on gfx928: nobody here has
measured any of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from importlib import resources
from pathlib import Path

from tileproof.conformance.ledger import Authority, Correctness, Entry, Evidence, Ledger, Role, Row
from tileproof.conformance.records import from_json, parse_json, shorten
from tileproof.kernels.given_file import read_given
from tileproof.oracle.refusal import Refusal

VERSION = 1
#: A larger file is refused unread.
SIZE_LIMIT = 16 << 20
#: Microseconds that a figure can be: a nanosecond to eleven days. And the largest extent.
FIGURE_LEAST, FIGURE_MOST, EXTENT_MOST = 1e-3, 1e12, 2**31 - 1
_SHIPPED = "ledger_metainfer.json"


@dataclass(frozen=True)
class _File:
    version: int
    evidence: Mapping[str, Evidence]
    rows: tuple[Row, ...]


def read_ledger(path: Path | None = None) -> Ledger:
    """A ledger file; the shipped one where none is named.

    Raises:
        Refusal: it cannot be read, is of another version, or a row breaks a rule; the message names the row.
    """
    if path is None:
        return parse_ledger(resources.files("tileproof.conformance").joinpath(_SHIPPED).read_bytes(), _SHIPPED)
    return parse_ledger(read_given(path, SIZE_LIMIT), str(path))


def parse_ledger(raw: bytes, name: str) -> Ledger:
    """The ledger of a file's bytes.

    Raises:
        Refusal: as `read_ledger`.
    """
    data = parse_json(raw, name)
    file = from_json(_File, data, name)
    if file.version != VERSION:
        raise Refusal(f"{name}: version {file.version}", hint=f"this reader knows version {VERSION}")
    for key, evidence in file.evidence.items():
        for wrong in _evidence_faults(evidence):
            raise Refusal(f"{name}: evidence {shorten(key)}: {wrong}")
    seen: set[tuple[str, Role, str]] = set()
    for number, row in enumerate(file.rows):
        for wrong in _row_faults(row, file.evidence, seen):
            raise Refusal(f"{name}: rows[{number}], {shorten(row.shape)} {shorten(row.candidate)}: {wrong}")
        seen.add((row.shape, row.role, row.candidate))
    for wrong in _undecided(file):
        raise Refusal(f"{name}: {wrong}", hint="the later date or the higher authority decides; one row has neither")
    return Ledger(tuple(Entry(row, file.evidence[row.evidence]) for row in file.rows))


def _evidence_faults(evidence: Evidence) -> Iterator[str]:
    if evidence.when is not None and not _is_date(evidence.when):
        yield f"when is {shorten(evidence.when)}, no date"
    if not evidence.by or not evidence.source or not evidence.protocol or not evidence.device:
        yield "who, where, how and on what device must be said"
    if not (evidence.by + evidence.source + evidence.protocol + evidence.device).isprintable():
        yield "letters that cannot be printed"
    if evidence.ours and (evidence.when is None or evidence.correctness is not Correctness.ON):
        yield "a measurement of ours has a date and compares its outputs"


def _row_faults(row: Row, evidence: Mapping[str, Evidence], seen: set[tuple[str, Role, str]]) -> Iterator[str]:
    if row.evidence not in evidence:
        yield f"there is no evidence {shorten(row.evidence)}"
        return
    if (row.shape, row.role, row.candidate) in seen:
        yield "the same row is there before"
    if not row.shape or not row.candidate:
        yield "a row without a shape or a candidate"
    if not all(1 <= extent <= EXTENT_MOST for extent in row.extent):
        yield f"extent {shorten(str(row.extent))}"
    figures = [value for value in (row.median_us, row.p90_us, row.compared_us) if value is not None]
    if not all(FIGURE_LEAST <= value <= FIGURE_MOST for value in figures):
        yield f"figures {figures}, not all finite and from {FIGURE_LEAST:g} to {FIGURE_MOST:g}"
    if row.median_us is not None and row.p90_us is not None and row.p90_us < row.median_us:
        yield f"p90 {row.p90_us} below the median {row.median_us}"
    if row.role is Role.FAILED and figures:
        yield "a run that failed has no figure"
    if row.role is Role.BASELINE and row.median_us is None:
        yield "a baseline without a figure"
    if not row.shape.isprintable() or not row.candidate.isprintable() or not row.note.isprintable():
        yield "letters that cannot be printed"


def _undecided(file: _File) -> Iterator[str]:
    """Shapes accepted twice by one authority on one day: which of the rows overrides the other, nothing says."""
    seen: set[tuple[str, Authority, str | None]] = set()
    for row in file.rows:
        if row.role is Role.ACCEPTED:
            evidence = file.evidence[row.evidence]
            key = row.shape, evidence.authority, evidence.when
            if key in seen:
                yield f"{shorten(row.shape)} is accepted twice by authority {evidence.authority} of {evidence.when}"
            seen.add(key)


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
