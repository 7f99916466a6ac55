"""Survivors of earlier runs put to proof again, without their cases: proofs that are newer than the runs."""

from collections.abc import Iterable, Iterator
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


def reproved(results: Iterable[Result], coordinates: Coordinates) -> Iterator[Result]:
    """Survivors that are proved now, as results; nothing of the others.

    Args:
        results: of a kernel.
        coordinates: where its cases run.
    """
    known: dict[tuple[str, str], CompiledModule] = {}
    alive = [one for one in results if one.outcome is Outcome.SURVIVED]
    for result in sorted(alive, key=lambda one: (one.variant, one.entry)):
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


def _proved(result: Result, mutant: Mutant, module: CompiledModule) -> Iterator[Result]:
    parsed, programs = decoded(module.ptx, Contraction.NONE)
    if entry_digits(parsed.entries[mutant.entry]) != result.ptx:
        return
    try:
        changed = mutated_program(mutant, parsed)
    except Refusal:
        return
    reason = proof(mutant, changed, programs[mutant.entry], module)
    if reason.outcome is not Outcome.SURVIVED:
        yield replace(result, outcome=reason.outcome, reason=reason.words)


def _module(result: Result, coordinates: Coordinates) -> CompiledModule | None:
    """The module that a mutant lies in, by the case that reached it; None where it does not any more."""
    device = _Finder(coordinates, result.id, result.entry)
    try:
        run_case(parse_case(result.case), device)
    except _FoundError:
        return device.module
    return None
