"""The faults of int8_pack: edits of the kernel and of its headers."""

from tileproof.conformance.fault import MISMATCH, Edit, Fault
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.metainfer_pack_cases import CONTRACT, KERNEL

UNWRITTEN = frozenset({FindingKind.UNWRITTEN})
OUT_OF_BOUNDS = frozenset({FindingKind.OUT_OF_BOUNDS})

_ITERATION_10 = "MetaInfer prefill skill section 3.2: TP8 o_proj iteration 10 (16,775,923 mismatches, and fast)"
_RULE = "MetaInfer prefill skill section 3.2: every pack is held to its index relation"


def _fault(
    name: str,
    what: str,
    precedent: str,
    expected: frozenset[FindingKind],
    *edits: Edit,
    possible: frozenset[FindingKind] = frozenset(),
) -> Fault:
    return Fault(f"pack-{name}", CONTRACT, what, precedent, expected, possible, file=KERNEL, edits=edits)


FAULTS = (
    _fault(
        "most-left-unwritten",
        "moves the patches of the first 16 k alone, so that most of the buffer is never written",
        _ITERATION_10,
        UNWRITTEN,
        Edit("static_cast<size_t>(of.k + kEdge - 1) / kEdge * (of.n / kEdge)) return;", "of.n / kEdge) return;"),
    ),
    _fault(
        "words-turned-and-bytes-not",
        "transposes a patch by words and leaves the bytes within them where they were",
        "MetaInfer prefill skill section 3.2: a vectorised transposition that is none",
        MISMATCH,
        Edit(
            "bytes_of(words[4 * quad][from], words[4 * quad + 1][from],\n"
            "                                                      words[4 * quad + 2][from], "
            "words[4 * quad + 3][from], column % 4);",
            "words[4 * quad + column % 4][from];",
        ),
    ),
    _fault(
        "halves-of-a-run-swapped",
        "writes the second eight k of a patch where the first eight belong",
        _RULE,
        MISMATCH,
        Edit("first, 2 * half, second, 2 * half);", "first, 2 - 2 * half, second, 2 - 2 * half);"),
    ),
    _fault(
        "partner-is-the-neighbour",
        "takes columns 8 to 15 of a patch for the partners of 0 to 7, where these are 16 columns away",
        "MetaInfer decode skill, o_proj in tile pairs",
        MISMATCH,
        Edit("Layout::kPartner == 16 ? n + i % 8 + i / 8 * 16 : n + i;", "n + i;"),
        possible=UNWRITTEN | frozenset({FindingKind.RACE}),
    ),
    _fault(
        "partial-patch-moved-whole",
        "moves 16 k of a patch that has fewer",
        "tails of K",
        OUT_OF_BOUNDS,
        Edit("of.k - k < kEdge ? of.k - k : kEdge};", "kEdge};"),
        possible=MISMATCH,
    ),
)
