"""One mutant against the cases that reach it: the first finding kills it."""

import time
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Arrays, Right
from tileproof.conformance.finding import Finding
from tileproof.conformance.mutation.devices import MutatedDevice, mutated_program
from tileproof.conformance.mutation.equivalence import proof
from tileproof.conformance.mutation.mutant import Mutant
from tileproof.conformance.mutation.operator import Group
from tileproof.conformance.mutation.operators import OPERATORS
from tileproof.conformance.mutation.order_proof import Cases, Proved, prove
from tileproof.conformance.mutation.rendering import render
from tileproof.conformance.mutation.result import Outcome, Result
from tileproof.conformance.mutation.variant import digest
from tileproof.conformance.properties.broken import property_of
from tileproof.conformance.registry import contract_of
from tileproof.conformance.run_case import case_inputs, run_case
from tileproof.conformance.target import Coordinates, Schedule, open_device
from tileproof.conformance.worker import step_budget
from tileproof.kernels.compile import CompiledModule
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.decoding.contraction import Contraction
from tileproof.simulators.ptx.device import decoded
from tileproof.simulators.ptx.program import Program
from tileproof.simulators.ptx.text.syntax import Entry

SCHEDULES = (Schedule.FRIENDLY, Schedule.ADVERSARIAL)
"""Detection of wrong order does not depend on the schedule, but values do: the quicker one comes first."""


def entry_digits(entry: Entry) -> str:
    """Digits that stand for an entry's instructions, whatever lines they stand on."""
    return digest(*map(render, entry.instructions), *sorted(entry.labels.items()))


@dataclass(frozen=True)
class Budget:
    """Processor time for one mutant.

    Args:
        cases_s: after so many seconds no further case that reaches it is begun.
        deeper_s: for the further cases, where it survives those.
        proof_s: for a proof over interleavings, of a mutant of order that survives all.
    """

    cases_s: float = 60.0
    deeper_s: float = 10.0
    proof_s: float = 120.0


@dataclass(frozen=True)
class Task:
    """All that is needed to decide one mutant.

    Args:
        mutant: what to run.
        module: that it was made from.
        cases: that reach it, in the order in which they are tried, under both schedules.
        deeper: further cases of the same routes that may reach it, tried under the friendly schedule where it survives.
    """

    mutant: Mutant
    module: CompiledModule
    cases: Sequence[Case]
    deeper: Sequence[Case] = ()


def run_mutant(task: Task, coordinates: Coordinates, budget: Budget) -> Result:
    """Decide one mutant.

    Args:
        task: it, and its cases.
        coordinates: where; their schedule is not used.
        budget: of processor time.
    """
    mutant, module = task.mutant, task.module
    parsed, programs = decoded(module.ptx, Contraction.NONE)
    entry = parsed.entries[mutant.entry]
    result = Result(
        id=mutant.id,
        variant=str(mutant.variant),
        entry=mutant.entry,
        operator=mutant.operator,
        file=mutant.place.file,
        line=mutant.place.line,
        ptx_line=mutant.ptx_line,
        ptx=entry_digits(entry),
        change=" ".join(map(render, mutant.patch.instructions)),
        outcome=Outcome.SURVIVED,
        case=str(task.cases[0]) if task.cases else "",
        reaching=len(task.cases),
    )
    start = time.process_time()
    try:
        program = mutated_program(mutant, parsed)
        trial = _Trial(task, program, coordinates, result)
        result = trial.tried([(case, s) for s in SCHEDULES for case in task.cases], start + budget.cases_s)
        if result.outcome is Outcome.SURVIVED:
            reason = proof(mutant, program, programs[mutant.entry], module)
            result = replace(result, outcome=reason.outcome, reason=reason.words)
        if result.outcome is Outcome.SURVIVED:
            end = time.process_time() + budget.deeper_s
            result = trial.deeper(result, end)
        if result.outcome is Outcome.SURVIVED and OPERATORS[mutant.operator].group is Group.ORDER:
            end = time.process_time() + budget.proof_s
            result = _proved(result, task, program, programs[mutant.entry], coordinates, end)
    except Refusal as refusal:
        result = replace(result, outcome=Outcome.REFUSED, reason=refusal.message)
    return replace(result, seconds=round(time.process_time() - start, 3))


def _proved(
    survived: Result, task: Task, program: Program, original: Program, coordinates: Coordinates, end: float
) -> Result:
    """The same, equivalent where a proof over all interleavings succeeds; else with the reason why it does not."""
    cases = Cases(task.cases, task.deeper, _inputs, _right)
    ptx = task.module.ptx
    found = prove(task.mutant, program, original, ptx, cases, coordinates, lambda: time.process_time() > end)
    if isinstance(found, Proved):
        return replace(survived, outcome=Outcome.EQUIVALENT, reason=found.words, proof_cases=found.cases)
    return replace(survived, reason=f"not proved: {found}")


@dataclass(frozen=True)
class _Trial:
    """One mutant at work."""

    task: Task
    program: Program
    coordinates: Coordinates
    result: Result

    def tried(self, runs: Sequence[tuple[Case, Schedule]], end: float) -> Result:
        """The first finding of these runs kills it; unfinished where the time is over before."""
        for tried, (case, schedule) in enumerate(runs, 1):
            if time.process_time() > end:
                return replace(self.result, outcome=Outcome.UNFINISHED, tried=tried - 1)
            findings = self._findings(case, schedule)
            if findings:
                return _killed(self.result, case, schedule, findings, tried)
        return replace(self.result, tried=len(runs))

    def deeper(self, survived: Result, end: float) -> Result:
        """Further cases while there is time; what kills it must pass with the kernel as shipped.

        Shapes that have killed others before come first: what one variant of a kernel misses, the next one misses too.
        """
        tried = survived.tried
        for case in sorted(self.task.deeper, key=lambda case: -_KILLERS[case.shape.dimensions]):
            if time.process_time() > end:
                break
            tried += 1
            findings = self._findings(case, Schedule.FRIENDLY)
            if findings and _passes(case, replace(self.coordinates, schedule=Schedule.FRIENDLY)):
                _KILLERS[case.shape.dimensions] += 1
                return _killed(survived, case, Schedule.FRIENDLY, findings, tried)
        return replace(survived, tried=tried)

    def _findings(self, case: Case, schedule: Schedule) -> tuple[Finding, ...]:
        place = replace(self.coordinates, schedule=schedule)
        device = MutatedDevice(place, self.task.mutant, self.program, self.task.module.ptx)
        device.step_budget = step_budget(case)
        return run_case(case, device, inputs=_inputs(case), expected=lambda _, arch: _right(case, arch)).findings


_KILLERS: Counter[Hashable] = Counter()
"""How many mutants further cases of these extents have killed in this process."""


@lru_cache(maxsize=1024)
def _passes(case: Case, coordinates: Coordinates) -> bool:
    device = open_device(coordinates)
    return not run_case(case, device, inputs=_inputs(case), expected=lambda _, arch: _right(case, arch)).findings


def _killed(result: Result, case: Case, schedule: Schedule, findings: Sequence[Finding], tried: int) -> Result:
    return replace(
        result,
        outcome=Outcome.KILLED,
        kinds=tuple(dict.fromkeys(str(one.kind) for one in findings)),
        property=property_of(findings[0], case.family),
        case=str(case),
        schedule=str(schedule),
        tried=tried,
    )


@lru_cache(maxsize=256)
def _inputs(case: Case) -> Arrays:
    return case_inputs(case)


@lru_cache(maxsize=256)
def _right(case: Case, arch: str) -> Right:
    """The right outputs of a case, computed once for all mutants."""
    return contract_of(case).expected(case, _inputs(case), arch)
