"""What a ledger entry is worth, and what may be said of it.

Rules, each with a test that breaks it:

* a baseline that nobody re-measured is never called measured or optimal;
* a failed or timed-out run proves nothing: neither that the idea is slow nor that it cannot work;
* a fast wrong result is no result;
* of several accepted rows of a shape the authoritative source wins; the others are stale, and one that is later than
  the authority is unconfirmed until the authority has it;
* best found is not best: nothing is optimal without a plateau that was shown.

Source: HuangPuStar/MetaInfer int8-w8a8-gemm-prefill/SKILL.md @f3ac90ad sections 2, 3, 4, 8; int8-w8a8-gemm-decode/
SKILL.md @08ddbe41 sections 0, 4, 6.
"""

from enum import StrEnum

from tileproof.conformance.ledger import Correctness, Entry, Ledger, Role
from tileproof.oracle.refusal import Refusal


class Standing(StrEnum):
    """What an entry is worth."""

    MEASURED = "measured"
    REPORTED = "reported"
    UNCHECKED = "unchecked"
    CONFOUNDED = "confounded"
    SUPPLIED = "supplied"
    STALE = "stale"
    UNCONFIRMED = "unconfirmed"
    WRONG = "wrong"
    NOTHING = "nothing"

    @property
    def meaning(self) -> str:
        """The word in a sentence."""
        return _MEANINGS[self]


class Claim(StrEnum):
    """What somebody might say of an entry."""

    MEASURED = "measured"
    BEST_FOUND = "best found"
    OPTIMAL = "optimal"
    CANNOT_WORK = "cannot work"


_MEANINGS = {
    Standing.MEASURED: "measured here, outputs compared",
    Standing.REPORTED: "measured by others, outputs compared",
    Standing.UNCHECKED: "measured by others, who do not say whether outputs were compared",
    Standing.CONFOUNDED: "more changed than what was tried: no verdict on it",
    Standing.SUPPLIED: "handed over and never re-measured: no measurement",
    Standing.STALE: "overridden by a more authoritative row",
    Standing.UNCONFIRMED: "later than the authority, which does not have it",
    Standing.WRONG: "outputs wrong: no result",
    Standing.NOTHING: "failed or timed out: proves nothing",
}

#: Standings of entries whose figure counts as one.
_COUNTS = (Standing.MEASURED, Standing.REPORTED, Standing.UNCHECKED, Standing.CONFOUNDED)


def standing(entry: Entry, ledger: Ledger) -> Standing:
    """What an entry is worth in its ledger: the first rule that speaks."""
    evidence = entry.evidence
    if entry.row.role is Role.FAILED:
        return Standing.NOTHING
    if evidence.correctness is Correctness.FAILED:
        return Standing.WRONG
    if not evidence.remeasured:
        return Standing.SUPPLIED
    if entry.row.role is Role.ACCEPTED and (overridden := _overridden(entry, ledger)) is not None:
        return overridden
    if entry.row.confounded:
        return Standing.CONFOUNDED
    if evidence.ours:
        return Standing.MEASURED
    return Standing.REPORTED if evidence.correctness is Correctness.ON else Standing.UNCHECKED


def require_claim(claim: Claim, entry: Entry, ledger: Ledger) -> None:
    """Lets a claim pass that the entry bears.

    Raises:
        Refusal: it does not; the message says by which rule.
    """
    worth = standing(entry, ledger)
    name = f"{entry.row.shape}, {entry.row.candidate}"
    match claim:
        case Claim.MEASURED:
            allowed, rule = worth in _COUNTS, worth.meaning
        case Claim.BEST_FOUND:
            best = entry.row.role is Role.ACCEPTED and worth in (Standing.MEASURED, Standing.REPORTED)
            allowed, rule = best, f"it is {entry.row.role.value}, {worth.meaning}"
        case Claim.OPTIMAL:
            best = entry.row.role is Role.ACCEPTED and worth in (Standing.MEASURED, Standing.REPORTED)
            allowed, rule = best and entry.row.plateau, "no plateau was shown"
        case Claim.CANNOT_WORK:
            allowed, rule = False, "a run shows what one candidate did, never what cannot be"
    if not allowed:
        raise Refusal(f"{name} may not be called {claim.value}: {rule}", hint="say what the evidence says")


def _overridden(entry: Entry, ledger: Ledger) -> Standing | None:
    authority = ledger.authoritative(entry.row.shape)
    if authority is None or authority == entry:
        return None
    later = (entry.evidence.when or "") > (authority.evidence.when or "9999")
    return Standing.UNCONFIRMED if later else Standing.STALE
