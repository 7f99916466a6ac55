"""One mutant against the cases that reach it: the first finding kills it."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Arrays, Right
from tileproof.conformance.finding import Finding
from tileproof.conformance.mutation.devices import MutatedDevice, mutated_program
from tileproof.conformance.mutation.equivalence import proof
from tileproof.conformance.mutation.mutant import Mutant
from tileproof.conformance.mutation.property import property_of
from tileproof.conformance.mutation.rendering import render
from tileproof.conformance.mutation.result import Outcome, Result
from tileproof.conformance.mutation.variant import digest
from tileproof.conformance.registry import contract_of
from tileproof.conformance.run_case import case_inputs, run_case
from tileproof.conformance.target import Coordinates, Schedule
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


def run_mutant(
    mutant: Mutant, module: CompiledModule, cases: Sequence[Case], coordinates: Coordinates, budget_s: float
) -> Result:
    """Decide one mutant.

    Args:
        mutant: what to run.
        module: that it was made from.
        cases: that reach it, in the order in which they are tried.
        coordinates: where; both schedules are tried, with its seed.
        budget_s: seconds of processor time after which no further case is begun.
    """
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
        reaching=len(cases),
    )
    start = time.process_time()
    try:
        program = mutated_program(mutant, parsed)
        result = _tried(result, mutant, program, module, cases, coordinates, start + budget_s)
        if result.outcome is Outcome.SURVIVED:
            reason = proof(mutant, program, programs[mutant.entry], module)
            result = replace(result, outcome=reason.outcome, reason=reason.words)
    except Refusal as refusal:
        result = replace(result, outcome=Outcome.REFUSED, reason=refusal.message)
    return replace(result, seconds=round(time.process_time() - start, 3))


def _tried(
    result: Result,
    mutant: Mutant,
    program: Program,
    module: CompiledModule,
    cases: Sequence[Case],
    coordinates: Coordinates,
    end: float,
) -> Result:
    tried = 0
    for schedule in SCHEDULES:
        for case in cases:
            if time.process_time() > end:
                return replace(result, outcome=Outcome.UNFINISHED, tried=tried)
            tried += 1
            device = MutatedDevice(replace(coordinates, schedule=schedule), mutant, program, module.ptx)
            findings = _findings(case, device)
            if findings:
                return _killed(result, case, schedule, findings, tried)
    return replace(result, tried=tried)


def _findings(case: Case, device: MutatedDevice) -> tuple[Finding, ...]:
    device.step_budget = step_budget(case)
    found = run_case(case, device, inputs=_inputs(case), expected=lambda _, arch: _right(case, arch)).findings
    if not device.loaded:
        raise Refusal(f"case {case} does not load {device.name} of the mutant: the case is not one that reaches it")
    return found


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


@cache
def _inputs(case: Case) -> Arrays:
    return case_inputs(case)


@cache
def _right(case: Case, arch: str) -> Right:
    """The right outputs of a case, computed once for all mutants."""
    return contract_of(case).expected(case, _inputs(case), arch)
