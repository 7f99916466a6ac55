"""Proofs that a mutant of order does what the kernel does: every interleaving of every case that reaches it is run.

*No choices*: where threads meet only at barriers and at waits for their own copies, a run without a race stands for
all interleavings of its case; all cases of the full tier that launch the mutant run. *All choices*: where there are
atomics, all their orders are run, on the cheapest cases made small (`SCALED`). That refutes, and proves nothing yet:
when a block makes its fence, with the atomics of others before or after it, decides too, and is not run. *Rings of
mbarriers*: see `ring_proof.py`. The premises are checked by machine (`determined.py`); what does not meet them is not
proved.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tileproof.conformance.case import Case, Dimension
from tileproof.conformance.contract import Arrays, Right
from tileproof.conformance.mutation import ring_proof
from tileproof.conformance.mutation.determined import obstacle, open_steps
from tileproof.conformance.mutation.interleavings import Seen, Trial, Undecided, explore
from tileproof.conformance.mutation.mutant import Mutant
from tileproof.conformance.registry import contract_of
from tileproof.conformance.target import Coordinates, Schedule
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.program import Program

_GRIDS = ((96, 64, 2), (64, 96, 2), (96, 64, 3), (95, 63, 2), (63, 95, 2), (95, 63, 3))
_STAGES = (1, 2, 3, 4)
_WINDOW = 33  # more than a warp has lanes

SCALED: Mapping[str, tuple[Mapping[str, int], ...]] = {
    "astrai_quantize": (
        *({"R": rows, "C": columns, "B": blocks, "S": 4, "W": _WINDOW} for rows, columns, blocks in _GRIDS),
        *(
            {"R": rows, "C": columns, "B": 2, "S": stage, "W": _WINDOW}
            for stage in _STAGES[:-1]
            for rows, columns in ((96, 64), (95, 63))
        ),
    )
}
"""Of contracts whose kernels elect a block: dimensions with which so many blocks run, each with work of its own, and
every form of the ring: what one form needs another may not, as a barrier among lanes where there is a single slot."""

MOST_SCALED = 1
"""Cases that are scaled, of those that reach the mutant: the cheapest."""

LEAST_CASES = 3
"""With fewer nothing is proved."""


@dataclass(frozen=True)
class Proved:
    """What a proof says.

    Args:
        words: of the result.
        cases: that ran.
    """

    words: str
    cases: tuple[str, ...]


@dataclass(frozen=True)
class Cases:
    """Cases and what belongs to them.

    Args:
        reaching: the mutant's instruction, the cheapest first.
        further: of the same routes, that may launch it.
        inputs: of a case.
        right: of a case on an architecture.
    """

    reaching: Sequence[Case]
    further: Sequence[Case]
    inputs: Callable[[Case], Arrays]
    right: Callable[[Case, str], Right]


def prove(
    mutant: Mutant,
    program: Program,
    original: Program,
    ptx: str,
    cases: Cases,
    coordinates: Coordinates,
    is_late: Callable[[], bool],
) -> Proved | str:
    """A proof, or why there is none.

    Args:
        mutant: that no case kills.
        program: its entry, decoded.
        original: the entry as shipped.
        ptx: of the module that it was made from.
        cases: that may show it.
        coordinates: where; their schedule is not used.
        is_late: whether time is over: then nothing is proved.
    """
    words = obstacle(program)
    has_ring = bool(words)
    if has_ring:
        missing = ring_proof.obstacle(mutant, original) or obstacle(program, has_proved_ring=True)
        if missing:
            return f"{words}; {missing}"
    has_choices = bool(open_steps(program).any())
    chosen = _scaled(cases.reaching) if has_choices else (*cases.reaching, *cases.further)
    place = replace(coordinates, schedule=Schedule.FRIENDLY)
    seen: dict[Case, Seen] = {}
    for case in chosen:
        if is_late():
            return f"time was over after {len(seen)} of {len(chosen)} cases"
        trial = Trial(mutant, program, ptx, case, cases.inputs(case), cases.right(case, place.arch), has_ring)
        try:
            seen[case] = explore(trial, place)
        except Undecided as undecided:
            return f"{case}: {undecided}"
    ran = {case: one for case, one in seen.items() if one.runs > (1 if has_choices else 0)}
    if len(ran) < LEAST_CASES:
        return f"only {len(ran)} cases have what a proof needs"
    if has_choices:
        return _LATE_FENCES
    words = _words(list(ran.values())) + (_RING if has_ring else "")
    return Proved(words, tuple(map(str, ran)))


# A counter that the last block sets back by a plain store: a block that has taken its ticket may make the fence behind
# it only after the last block's fence, and then nothing orders its ticket before the store (PTX ISA, "Fence-SC").
_LATE_FENCES = "a fence of one block may come behind another block's atomics, and these orders are not run"
_RING = "; an idle warp barrier of a ring that its model proves"


def _words(seen: Sequence[Seen]) -> str:
    passed = sorted({one.passed for one in seen})
    times = ", ".join(map(str, passed))
    return (
        f"every interleaving does the same: no race, and nothing that a schedule decides, in {len(seen)} cases, "
        f"whose threads pass a barrier or wait {times} times"
    )


def _scaled(reaching: Sequence[Case]) -> tuple[Case, ...]:
    """The cheapest cases with other numbers of blocks."""
    return tuple(dict.fromkeys(small for case in reaching[:MOST_SCALED] for small in _small(case)))


def _small(case: Case) -> Iterator[Case]:
    for sizes in SCALED.get(case.contract, ()):
        dimensions = tuple(Dimension(one.name, sizes.get(one.name, one.size)) for one in case.shape.dimensions)
        small = replace(case, shape=replace(case.shape, dimensions=dimensions))
        try:
            contract_of(small).check(small)
        except Refusal:
            continue
        yield small
