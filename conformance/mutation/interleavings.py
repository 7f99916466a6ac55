"""All interleavings of a case's open steps on the CPU device, and whether each gives the same bytes without a finding.

Each is a list of numbers (see `machine/chosen.py`), all launches of the case follow the same one. They are enumerated
from the list without numbers on: wherever a run had a choice behind its own numbers, the lists that choose otherwise
are due.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Arrays, Right
from tileproof.conformance.mutation.determined import obstacle, open_steps, sequential_fences
from tileproof.conformance.mutation.devices import MutatedDevice
from tileproof.conformance.mutation.mutant import Mutant
from tileproof.conformance.run_case import CaseResult, run_case
from tileproof.conformance.target import Coordinates
from tileproof.conformance.worker import step_budget
from tileproof.simulators.ptx.findings import Report
from tileproof.simulators.ptx.launch import Prepared
from tileproof.simulators.ptx.machine.chosen import Chosen
from tileproof.simulators.ptx.machine.schedule import Schedule
from tileproof.simulators.ptx.program import Kind, Program
from tileproof.simulators.ptx.trace.recorder import Recorder

_MEETINGS = (Kind.BARRIER, Kind.WARP_BARRIER, Kind.COPY_GROUP, Kind.WGMMA_ORDER)

_ABOUT_SPEED = "bank conflicts"

MOST_RUNS = 400
"""Of one case: three blocks that collect and take a ticket have 90 interleavings."""


class Undecided(Exception):
    """Why the runs of a case prove nothing."""


@dataclass(frozen=True)
class Trial:
    """A mutant and a case.

    Args:
        mutant: what to run.
        program: the mutant's entry, decoded.
        ptx: of the module that the mutant was made from.
        case: that reaches it.
        inputs: of the case.
        right: of the case.
        has_proved_ring: see `obstacle`.
    """

    mutant: Mutant
    program: Program
    ptx: str
    case: Case
    inputs: Arrays
    right: Right
    has_proved_ring: bool = False


class ChoosingDevice(MutatedDevice):
    """A CPU device that follows numbers through every launch of one program, and allows no other to have choices.

    Attributes:
        followed: schedules of the launches of the program.
        passed: how often a thread passed the program's busiest barrier or wait, of each launch without choices.

    Args:
        coordinates: where it stands in a run.
        trial: what runs.
        choices: the numbers.
    """

    def __init__(self, coordinates: Coordinates, trial: Trial, choices: Sequence[int]) -> None:
        super().__init__(coordinates, trial.mutant, trial.program, trial.ptx)
        self._of = trial.program
        self._has_proved_ring = trial.has_proved_ring
        self._choices = choices
        self._running: Program | None = None
        self.followed: list[Chosen] = []
        self.passed: list[int] = []
        self._meets = frozenset(step.where.ptx_line for step in trial.program.steps if step.kind in _MEETINGS)
        self._has_choices = bool(open_steps(trial.program).any())

    def run(self, prepared: Prepared, recorder: Recorder | None = None) -> Report:
        """See `Device.run`. Raises: Undecided where the program depends on more than the order of its open steps."""
        self._running = prepared.program
        is_ours = prepared.program is self._of
        words = obstacle(prepared.program, has_proved_ring=is_ours and self._has_proved_ring)
        if words:
            raise Undecided(words)
        if not is_ours and open_steps(prepared.program).any():
            raise Undecided(f"{prepared.program.name}, which runs in the same case, has open steps")
        self.profile = is_ours and not self._has_choices
        report = super().run(prepared, recorder)
        if self.profile:
            threads = prod((*prepared.shape.grid, *prepared.shape.block))
            counts = [count for line, count in report.counters.lines.items() if line in self._meets]
            self.passed.append(-(-max(counts, default=0) // threads))
        return report

    def schedule(self) -> Schedule:
        """See `Device.schedule`."""
        usual = super().schedule()
        assert self._running is not None
        if self._running is not self._of:
            return usual
        program = self._running
        self.followed.append(Chosen(program, open_steps(program), sequential_fences(program), self._choices))
        return self.followed[-1]


@dataclass(frozen=True)
class Seen:
    """What all interleavings of a case came to.

    Args:
        runs: how many there are; 0 where the case does not launch the program.
        digest: of the outputs of each.
        passed: how often a thread passed the busiest barrier or wait, where there are no choices.
    """

    runs: int
    digest: str = ""
    passed: int = 0


def explore(trial: Trial, coordinates: Coordinates) -> Seen:
    """Run all.

    Raises:
        Undecided: one has a finding, a note or other bytes; there are too many; or they do not stand for all.
    """
    digest, runs, passed = "", 0, 0
    for runs, (device, result) in enumerate(_results(trial, coordinates), 1):
        passed = max(device.passed, default=0)
        if runs > MOST_RUNS:
            raise Undecided(f"more than {MOST_RUNS} interleavings")
        if result.findings:
            raise Undecided(f"a finding: {result.findings[0].message}")
        noted = [note for note in result.notes if _ABOUT_SPEED not in note]
        if noted:
            raise Undecided(f"a note: {noted[0]}")
        if digest not in ("", result.output_digest):
            raise Undecided("outputs depend on the interleaving")
        digest = result.output_digest
    return Seen(runs, digest, passed)


def _results(trial: Trial, coordinates: Coordinates) -> Iterator[tuple[ChoosingDevice, CaseResult]]:
    left: list[tuple[int, ...]] = [()]
    while left:
        choices = left.pop()
        device = ChoosingDevice(coordinates, trial, choices)
        device.step_budget = step_budget(trial.case)
        result = run_case(trial.case, device, inputs=trial.inputs, expected=lambda *_: trial.right)
        if not device.followed:
            return
        yield device, result
        options = _options(device.followed, trial.program)
        for place in range(len(choices), len(options)):
            zeros = (0,) * (place - len(choices))
            left += [(*choices, *zeros, other) for other in range(1, options[place])]


def _options(followed: Sequence[Chosen], program: Program) -> list[int]:
    """How many there were to choose from, place after place, in each of the launches alike."""
    first = followed[0]
    if any(one.options != first.options for one in followed):
        raise Undecided("two launches of the case have different choices")
    if open_steps(program).any():
        if any(one.waves_begun > 1 for one in followed):
            raise Undecided("not all blocks are resident together")
        if any(one.most_lanes > 1 for one in followed):
            raise Undecided("lanes of one warp take turns at an atomic")
        if any(one.unfenced for one in followed):
            raise Undecided("a thread makes two open steps without a fence.sc between")
    return first.options
