"""What can be wrong, by cause: the words that triage answers with."""

from enum import StrEnum

from tileproof.conformance.finding import FindingKind


class Cause(StrEnum):
    """A root cause; the value is what is printed."""

    ENVIRONMENT = "the environment is another one than when it was recorded"
    ELSEWHERE = "only another device shows it"
    ORACLE = "the reference is wrong: a second reference agrees with the kernel"

    ONE_SIDE = "one target is as the reference says, the other is not"
    NO_SIDE = "neither target is as the reference says"
    EITHER_SIDE = "both targets are as the reference allows"
    UNJUDGED = "nothing says which target is right"
    SCHEDULE = "the outcome depends on the order of threads"
    APPROXIMATE = "an approximate function leaves the result open"
    FUSED = "a multiplication and the addition behind it are fused"
    ASSEMBLER = "the assembler is known to make something else of such an instruction"

    CRASH = "the device or its worker did not survive the launch"
    REFUSAL = "the launcher refuses or accepts wrongly"
    WRONG_ROUTE = "another route was taken"
    TRAP = "the kernel trapped"
    OUT_OF_BOUNDS = "an access out of bounds"
    MISALIGNED = "a misaligned access"
    USE_AFTER_FREE = "memory that was given back is used"
    DIVERGENCE = "a collective instruction without the lanes that it needs"
    BARRIER = "a barrier is misused"
    ASYNC = "an asynchronous copy or product is misused"
    DEADLOCK = "nobody can go on"
    SCOPE = "synchronisation does not reach the other thread"
    RACE = "two accesses without order between them"
    LEAK = "shared state is left behind"
    UNINITIALISED = "a value that nothing wrote is used"
    OUTSIDE_WRITTEN = "bytes outside the outputs' elements are written"
    INPUT_CHANGED = "an input is written"
    NEVER_WRITTEN = "elements are never written"

    TRANSPOSED = "elements stand transposed"
    SHIFTED = "elements are shifted"
    HALVES_SWAPPED = "halves or neighbours are exchanged"
    PERMUTED = "bits of the offset are exchanged, or a swizzle is missing or at another base"
    OPERAND_MISPLACED = "an operand is read at another place of its tile: a swizzle, a fragment, a stride"
    WRONG_PACK = "a packed weight is read in another order"
    TAIL = "only a partial tile is wrong"
    PART_LOST = "a part of what is stored or added is lost"
    PART_OF_K = "a part of K is left out or taken twice"
    STALE = "data of an earlier step, launch or member of a batch is used"

    OTHER_SCALE = "a scale or bias of another row, column or step is used, or in another way"
    RECIPROCAL = "a reciprocal stands for a division, or the reverse"
    ROUNDING = "another rounding"
    DOUBLE_ROUNDING = "a value is rounded twice"
    OVERFLOW = "values beyond the range wrap or saturate wrongly"
    SUBNORMALS = "subnormal values are lost"
    SPECIAL = "zero, infinity or NaN is treated wrongly"
    FORMAT = "codes are taken for those of another format or sign"
    ORDER_OF_SUM = "the same terms are added in another order"
    NARROW_SUM = "the accumulator is narrower or wider than declared"
    EPILOGUE = "the epilogue's operations are fused, ordered or approximated in another way"
    STATE = "the state that is kept between calls goes wrong"
    UNEXPLAINED = "no explanation that is known fits"


OF_FINDING = {
    FindingKind.CRASH: Cause.CRASH,
    FindingKind.TIMEOUT: Cause.CRASH,
    FindingKind.REFUSAL: Cause.REFUSAL,
    FindingKind.ROUTE: Cause.WRONG_ROUTE,
    FindingKind.TRAP: Cause.TRAP,
    FindingKind.MISALIGNED: Cause.MISALIGNED,
    FindingKind.OUT_OF_BOUNDS: Cause.OUT_OF_BOUNDS,
    FindingKind.USE_AFTER_FREE: Cause.USE_AFTER_FREE,
    FindingKind.DIVERGENCE: Cause.DIVERGENCE,
    FindingKind.BARRIER: Cause.BARRIER,
    FindingKind.ASYNC: Cause.ASYNC,
    FindingKind.DEADLOCK: Cause.DEADLOCK,
    FindingKind.SCOPE: Cause.SCOPE,
    FindingKind.RACE: Cause.RACE,
    FindingKind.LEAK: Cause.LEAK,
    FindingKind.UNINITIALISED: Cause.UNINITIALISED,
    FindingKind.CANARY: Cause.OUTSIDE_WRITTEN,
    FindingKind.INPUT_CHANGED: Cause.INPUT_CHANGED,
    FindingKind.UNWRITTEN: Cause.NEVER_WRITTEN,
}
"""Causes that a finding names by itself, those first from which others follow."""
