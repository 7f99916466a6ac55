"""The ledger: measured facts with their evidence, and what is asked of them.

A row says what somebody's candidate took for one shape; its evidence says who measured, when, on what, how, with
correctness checked or not, and where it is written. What a row is worth is not written down but follows from these by
rule (`ledger_rules`). Example: 327.36 us for iteration 10 of TP8 o_proj stands in the ledger, and is never the best
figure of that shape, because its outputs were wrong.

    ledger = read_ledger()                                    # `ledger_file`
    ledger.best("TP8 M4096 o_proj").row.median_us             # 322.99
    ledger.speedup("TP8 M4096 o_proj").never_remeasured       # True: the divisor was supplied, not measured
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property

from tileproof.oracle.refusal import Refusal


class Role(StrEnum):
    """What a row is in the search that it comes from."""

    ACCEPTED = "accepted"
    #: Accepted on the way, or another run of what was accepted.
    SUPERSEDED = "superseded"
    REJECTED = "rejected"
    BASELINE = "baseline"
    #: It ended without a figure.
    FAILED = "failed"


class Correctness(StrEnum):
    """Whether the outputs of the timed kernel were compared."""

    ON = "on"
    OFF = "off"
    FAILED = "failed"
    NOT_STATED = "not stated"


class Authority(StrEnum):
    """What kind of source a row comes from; those that come first override those that come later."""

    #: The project's own list of accepted facts.
    LEDGER = "ledger"
    #: A document about one kernel.
    REFERENCE = "reference"
    #: Figures of single runs.
    RUN = "run"
    #: The header of a source file.
    VARIANT = "variant"
    DRAFT = "draft"
    #: Handed over without a measurement.
    SUPPLIED = "supplied"

    @property
    def rank(self) -> int:
        """Higher overrides lower."""
        return -list(Authority).index(self)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Where figures come from."""

    by: str
    #: Whether this project measured.
    ours: bool
    #: ISO date; None where the source gives none.
    when: str | None
    device: str
    protocol: str
    correctness: Correctness
    authority: Authority
    #: Whether anybody who reports the figure measured it; a supplied baseline was not.
    remeasured: bool
    source: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure, or one failure."""

    shape: str
    #: M, N, K.
    extent: tuple[int, int, int]
    role: Role
    candidate: str
    #: Key of the evidence.
    evidence: str
    #: Microseconds.
    median_us: float | None = None
    p90_us: float | None = None
    #: The figure that it was compared with, where that is not the accepted one.
    compared_us: float | None = None
    #: More changed than what was tried: registers spilled, other residency.
    confounded: bool = False
    #: Whether a plateau was shown: that further search brings nothing.
    plateau: bool = False
    note: str = ""


@dataclass(frozen=True)
class Entry:
    """A row with its evidence."""

    row: Row
    evidence: Evidence

    @property
    def tops(self) -> float:
        """10^12 operations a second, 2 M N K / median.

        Raises:
            Refusal: the row has no figure.
        """
        m, n, k = self.row.extent
        return 2 * m * n * k / figure(self) / 1e6


@dataclass(frozen=True)
class Speedup:
    """A quotient and what it divides."""

    value: float
    best: Entry
    baseline: Entry

    @property
    def never_remeasured(self) -> bool:
        """Whether the divisor is no measurement."""
        return not self.baseline.evidence.remeasured


def figure(entry: Entry) -> float:
    """The median of a row.

    Raises:
        Refusal: it has none.
    """
    if entry.row.median_us is None:
        raise Refusal(f"{entry.row.shape}, {entry.row.candidate}: no figure", hint="a run that failed has none")
    return entry.row.median_us


@dataclass(frozen=True)
class Ledger:
    """All entries, in the order of their file."""

    entries: tuple[Entry, ...]

    @cached_property
    def shapes(self) -> tuple[str, ...]:
        """Every shape, in the order in which they first come."""
        return tuple(dict.fromkeys(entry.row.shape for entry in self.entries))

    def select(self, pattern: str = "*", role: Role | None = None) -> Iterator[Entry]:
        """Entries whose shape fits a glob."""
        for entry in self.entries:
            if fnmatchcase(entry.row.shape, pattern) and role in (None, entry.row.role):
                yield entry

    def authoritative(self, shape: str) -> Entry | None:
        """The accepted entry that overrides the others of its shape: by authority, then by date; None without one."""
        accepted = [entry for entry in self.entries if entry.row.shape == shape and entry.row.role is Role.ACCEPTED]
        return max(accepted, key=lambda e: (e.evidence.authority.rank, e.evidence.when or ""), default=None)

    def best(self, shape: str) -> Entry:
        """What is accepted for a shape: the best found, which is not the best there is.

        A lower figure that was rejected, was wrong, or comes from another run does not count.

        Raises:
            Refusal: nothing was accepted for it, not with its outputs compared, or not with a figure that was measured.
        """
        found = self.authoritative(shape)
        if found is None:
            raise Refusal(f"nothing is accepted for {shape!r}", hint="it is not optimised, whatever its baseline is")
        if found.evidence.correctness is not Correctness.ON:
            raise Refusal(f"{shape}: {found.row.candidate} was accepted without a comparison of its outputs")
        if not found.evidence.remeasured or found.row.median_us is None:
            raise Refusal(f"{shape}: {found.row.candidate} was accepted without a figure that was measured")
        return found

    def speedup(self, shape: str) -> Speedup:
        """The baseline over the best.

        Raises:
            Refusal: one of them is missing, they are of unlike products or devices, or the divisor's outputs are wrong.
        """
        best = self.best(shape)
        baselines = [entry for entry in self.select(shape, Role.BASELINE) if entry.row.shape == shape]
        if len(baselines) != 1:
            raise Refusal(f"{shape} has {len(baselines)} baselines", hint="a quotient needs one")
        self._require_comparable(best, baselines[0])
        return Speedup(figure(baselines[0]) / figure(best), best, baselines[0])

    def _require_comparable(self, best: Entry, baseline: Entry) -> None:
        of_best, of_baseline = ((e.row.extent, e.evidence.device) for e in (best, baseline))
        if of_best != of_baseline:
            raise Refusal(
                f"{best.row.shape}: {of_baseline} over {of_best}", hint="a quotient is of one product and device"
            )
        if baseline.evidence.correctness is Correctness.FAILED:
            raise Refusal(
                f"{best.row.shape}: the outputs of {baseline.row.candidate} are wrong", hint="it is no divisor"
            )
