"""Proofs for kernels whose warps wait at mbarriers: what a dropped warp barrier could change, and that it does not.

The lanes of a warp that come to a warp barrier straight from an aligned collective, without a step between that anybody
sees, have met there already. Dropping the barrier lets no lane do anything earlier that it could not have done: what a
run may come to stays the same, but for the order that the barrier gave to memory. So it is proved

1. that the barrier is *idle*: on every way back from it there is an aligned collective before any step that others see;
2. that waits only wait: what a poll says decides nothing but whether to poll again;
3. that the ring of the kernel is right in every interleaving, by its model (`simulators/protocols`), so that all
   phases, and with them all values and the order of all accesses, are the same in all runs;
4. that a run of each case without the barrier has no race (`interleavings.py`).
"""

from collections.abc import Iterator, Mapping
from functools import cache

from tileproof.conformance.mutation.mutant import Mutant
from tileproof.simulators.ptx.async_form import MbarrierAction, MbarrierForm
from tileproof.simulators.ptx.program import MATRIX_KINDS, NO_GUARD, SINK, Kind, Program, Step

RINGS: Mapping[str, tuple[str, str]] = {"int8_gemm_wgmma": ("wgmma-ring", "INT8_STAGES")}
"""Kernels by stem: the family of models, and the macro that says how many stages a variant has."""

_CONSUMERS = (2, 4)
_QUIET = frozenset({Kind.ARITHMETIC, Kind.PACK, Kind.UNPACK, Kind.BRANCH, Kind.NOTHING})


def obstacle(mutant: Mutant, original: Program) -> str:
    """Why the proof does not hold of a dropped step, its race-free runs set aside; "" where it does."""
    if mutant.variant.kernel not in RINGS:
        return "no model of a ring stands for the kernel"
    dropped = [index for index, step in enumerate(original.steps) if step.where.ptx_line == mutant.ptx_line]
    if mutant.patch.instructions or len(dropped) != 1:
        return "more than one dropped step"
    if not is_idle(original, dropped[0]):
        return "the step is no idle warp barrier"
    return polls_decide(original) or model_says(*mutant.variant.defines, kernel=mutant.variant.kernel)


def is_idle(program: Program, index: int) -> bool:
    """Whether a step is a warp barrier of all lanes to which they come straight from an aligned collective."""
    step = program.steps[index]
    if step.kind is not Kind.WARP_BARRIER or step.guard != NO_GUARD:
        return False
    if program.constants.get(step.sources[0], 0) & _ALL_LANES != _ALL_LANES:
        return False
    seen, left = set[int](), [*_before(program.steps, index)]
    while left:
        at = left.pop()
        if at < 0 or (program.steps[at].kind not in _QUIET and not _is_collective(program.steps[at])):
            return False
        if at in seen or _is_collective(program.steps[at]):
            continue
        seen.add(at)
        left += _before(program.steps, at)
    return True


_ALL_LANES = 0xFFFF_FFFF


def _is_collective(step: Step) -> bool:
    return step.kind in MATRIX_KINDS and step.guard == NO_GUARD


def _before(steps: tuple[Step, ...], index: int) -> Iterator[int]:
    """From where a thread may come to a step; -1 for the beginning."""
    if index == 0:
        yield -1
    else:
        last = steps[index - 1]
        if not (last.guard == NO_GUARD and last.kind in (Kind.BRANCH, Kind.EXIT, Kind.TRAP)):
            yield index - 1
    yield from (at for at, step in enumerate(steps) if step.kind is Kind.BRANCH and step.target == index)


def polls_decide(program: Program) -> str:
    """What a poll of an mbarrier decides beyond polling again; "" where that is all."""
    for index, step in enumerate(program.steps):
        if step.kind is not Kind.MBARRIER:
            continue
        form = step.asynchronous
        assert isinstance(form, MbarrierForm)
        if form.action is not MbarrierAction.WAIT:
            if any(slot >= 0 for slot in step.destinations):
                return f"{step.opcode} at {step.where.place} says in which phase it came"
            continue
        words = _decides(program, index)
        if words:
            return words
    return ""


def _decides(program: Program, wait: int) -> str:
    """Likewise, of one wait: its answer goes through arithmetic to branches back to it, and nowhere else."""
    known = set(program.steps[wait].destinations) - {SINK}
    at = wait + 1
    while at < len(program.steps):
        step = program.steps[at]
        if step.kind is Kind.BRANCH and step.guard in known:
            between = program.steps[step.target : wait] if step.target <= wait else None
            if between is None or any(one.kind is not Kind.ARITHMETIC for one in between):
                return f"a poll at {program.steps[wait].where.place} decides where to go on"
            used = (*program.steps[:wait], *program.steps[at + 1 :])
            if any(known & {*one.sources, one.guard} for one in used):
                return f"what a poll at {program.steps[wait].where.place} says is used again"
            return ""
        if step.kind is not Kind.ARITHMETIC or step.guard != NO_GUARD:
            break
        if known & {*step.sources}:
            known |= {*step.destinations} - {SINK}
        at += 1
    return f"no branch back to the poll at {program.steps[wait].where.place}"


@cache
def model_says(*defines: str, kernel: str) -> str:
    """What the model finds wrong with a variant's ring, for fewer tiles than stages, as many and more; or ""."""
    from tileproof.conformance.protocols import protocol  # here: the search loads slowly
    from tileproof.simulators.protocols.search import search

    family, macro = RINGS[kernel]
    stages = int(dict(one.split("=", 1) for one in defines)[macro])
    for tiles in (1, stages, 2 * stages + 1):
        for consumers in _CONSUMERS:
            sizes = {"stages": stages, "tiles": tiles, "consumers": consumers}
            wrong = search(protocol(family).build(sizes, None).model()).wrong
            if wrong:
                return f"{family} of {stages} stages: {wrong}"
    return ""
