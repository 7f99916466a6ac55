"""Survivors of earlier runs put to proof, without their cases, and proofs put to today's rules."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tileproof.conformance.case import parse_case
from tileproof.conformance.mutation.devices import SeekingDevice, mutated_program
from tileproof.conformance.mutation.equivalence import proof
from tileproof.conformance.mutation.mutant import Mutant, find
from tileproof.conformance.mutation.result import Outcome, Result
from tileproof.conformance.mutation.trial import entry_digits
from tileproof.conformance.run_case import run_case
from tileproof.conformance.target import Coordinates
from tileproof.kernels.compile import CompiledModule
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.decoding.contraction import Contraction
from tileproof.simulators.ptx.device import decoded
from tileproof.simulators.ptx.findings import Report
from tileproof.simulators.ptx.launch import Prepared


class _FoundError(Exception):
    """The module is there: nothing more needs to run."""


class _Finder(SeekingDevice):
    """Runs a case up to the launch of the kernel that the mutant lies in."""

    def run(self, prepared: Prepared, recorder: Any = None) -> Report:
        """See `Device.run`."""
        if self.found is not None:
            raise _FoundError
        return super().run(prepared, recorder)


def reproved(
    results: Iterable[Result], coordinates: Coordinates, *, ids: Sequence[str] = (), again: bool = False
) -> Iterator[Result]:
    """Results whose proof is another now: survivors that are proved, and what was proved once and is not any more.

    Args:
        results: of a kernel.
        coordinates: where its cases run.
        ids: only of these mutants, by beginnings; of all if there are none.
        again: put to proof what is proved, too, but for proofs over interleavings, which only a run makes.
    """
    known: dict[tuple[str, str], CompiledModule] = {}
    chosen = [one for one in results if _is_due(one, again) and (not ids or one.id.startswith(tuple(ids)))]
    for result in sorted(chosen, key=lambda one: (one.variant, one.entry)):
        key = (result.variant, result.entry)
        if key not in known:
            module = _module(result, coordinates)
            if module is None:
                continue
            known[key] = module
        module = known[key]
        mutant = find(module, result.id, result.entry)
        if mutant is not None:
            yield from _proved(result, mutant, module)


def _is_due(result: Result, again: bool) -> bool:
    proved = result.outcome is Outcome.EQUIVALENT and not result.proof_cases
    return result.outcome is Outcome.SURVIVED or (again and proved)


def _proved(result: Result, mutant: Mutant, module: CompiledModule) -> Iterator[Result]:
    parsed, programs = decoded(module.ptx, Contraction.NONE)
    if entry_digits(parsed.entries[mutant.entry]) != result.ptx:
        return
    try:
        changed = mutated_program(mutant, parsed)
    except Refusal:
        return
    reason = proof(mutant, changed, programs[mutant.entry], module)
    if (reason.outcome, reason.words) != (result.outcome, result.reason):
        yield replace(result, outcome=reason.outcome, reason=reason.words)


def _module(result: Result, coordinates: Coordinates) -> CompiledModule | None:
    """The module that a mutant lies in, by the case that reached it; None where it does not any more."""
    device = _Finder(coordinates, result.id, result.entry)
    try:
        run_case(parse_case(result.case), device)
    except _FoundError:
        return device.module
    return None
