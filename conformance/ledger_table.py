"""The ledger printed: rows with what they are worth, the best of each shape, and what may not be said."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tileproof.conformance.columns import aligned
from tileproof.conformance.ledger import Entry, Ledger, Role
from tileproof.conformance.ledger_rules import Claim, Standing, require_claim, standing
from tileproof.oracle.refusal import Refusal

_ROWS = ("shape", "M,N,K", "role", "candidate", "median us", "p90 us", "worth", "when", "note")
_BEST = ("shape", "M,N,K", "best found", "median us", "p90 us", "TOPS", "worth", "over baseline")


@dataclass(frozen=True)
class Query:
    """Which entries; an empty choice takes all."""

    patterns: tuple[str, ...] = ()
    role: Role | None = None
    standing: Standing | None = None


def chosen(ledger: Ledger, query: Query) -> list[tuple[Entry, Standing]]:
    """Entries with their standing.

    Raises:
        Refusal: a pattern that fits no shape, or nothing fits all of the query.
    """
    fitting = {entry for pattern in query.patterns or ("*",) for entry in _fitting(ledger, pattern)}
    judged = [(entry, standing(entry, ledger)) for entry in ledger.select(role=query.role) if entry in fitting]
    found = [(entry, worth) for entry, worth in judged if query.standing in (None, worth)]
    if not found:
        raise Refusal("no row of the ledger fits", hint="`tileproof ledger` prints all")
    return found


def _fitting(ledger: Ledger, pattern: str) -> list[Entry]:
    found = list(ledger.select(pattern))
    if not found:
        raise Refusal(f"no shape fits {pattern!r}", hint=f"shapes: {', '.join(ledger.shapes[:6])}, ...")
    return found


def row_lines(ledger: Ledger, query: Query) -> list[str]:
    """One line a row, then how many there are of each worth and who says so."""
    found = chosen(ledger, query)
    rows = [_ROWS, *(_row(entry, worth) for entry, worth in found)]
    count = Counter(worth for _, worth in found)
    return [
        *aligned(rows, (0, 1, 2, 3, 6, 7, 8)),
        "",
        *aligned([(worth.value, str(count[worth]), worth.meaning) for worth in Standing if count[worth]], (0, 2)),
        "",
        *_sayings(ledger, [entry for entry, _ in found]),
    ]


def best_lines(ledger: Ledger, query: Query) -> list[str]:
    """What is accepted for each shape, over its baseline where it has one.

    Raises:
        Refusal: nothing is accepted for any of the shapes.
    """
    shapes = dict.fromkeys(entry.row.shape for entry, _ in chosen(ledger, query))
    accepted = [shape for shape in shapes if ledger.authoritative(shape) is not None]
    if not accepted:
        raise Refusal("nothing is accepted for these shapes", hint="they are not optimised, whatever their baseline is")
    without = {shape: why for shape in accepted if (why := _no_best(ledger, shape)) is not None}
    rows = [_best(ledger, shape) for shape in accepted if shape not in without]
    entries = [entry for entry in ledger.entries if entry.row.shape in shapes]
    return [
        *aligned([_BEST, *rows], (0, 1, 2, 6, 7)),
        "",
        *(f"No best: {why}." for why in without.values()),
        *_sayings(ledger, entries),
    ]


def _no_best(ledger: Ledger, shape: str) -> str | None:
    try:
        ledger.best(shape)
    except Refusal as refusal:
        return refusal.message
    return None


def _row(entry: Entry, worth: Standing) -> tuple[str, ...]:
    row = entry.row
    compared = f"compared with {row.compared_us:g}" if row.compared_us is not None else ""
    return (
        row.shape,
        _extent(entry),
        row.role.value,
        row.candidate,
        _figure(row.median_us),
        _figure(row.p90_us),
        worth.value,
        entry.evidence.when or "-",
        "; ".join(part for part in (row.note, compared) if part),
    )


def _best(ledger: Ledger, shape: str) -> tuple[str, ...]:
    best = ledger.best(shape)
    try:
        quotient = ledger.speedup(shape)
        over = f"{quotient.value:.2f}" + (" (never re-measured)" if quotient.never_remeasured else "")
    except Refusal:
        over = "-"
    return (
        shape,
        _extent(best),
        best.row.candidate,
        _figure(best.row.median_us),
        _figure(best.row.p90_us),
        f"{best.tops:.2f}",
        standing(best, ledger).value,
        over,
    )


def _is_optimal(ledger: Ledger, entry: Entry) -> bool:
    try:
        require_claim(Claim.OPTIMAL, entry, ledger)
    except Refusal:
        return False
    return True


def _sayings(ledger: Ledger, entries: Sequence[Entry]) -> list[str]:
    """What must be said with the figures."""
    ours = sum(entry.evidence.ours for entry in entries)
    by = sorted({entry.evidence.by for entry in entries if not entry.evidence.ours})
    lines = [f"Measured here: {ours}. Reported by: {'; '.join(by)}."] if by else [f"Measured here: {ours}."]
    if any(entry.row.role is Role.BASELINE and not entry.evidence.remeasured for entry in entries):
        lines.append("A supplied baseline is no measurement, and a quotient over one no measured speed-up.")
    if not any(_is_optimal(ledger, entry) for entry in entries):
        lines.append("No row is optimal: the best found is not the best there is.")
    return lines


def _extent(entry: Entry) -> str:
    return ",".join(map(str, entry.row.extent))


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")
