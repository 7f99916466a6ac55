"""A fixed sample of mutants is killed, each by its case and by the kinds of findings that it is known by."""

import contextlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tileproof.conformance.mutation.campaign import KERNELS
from tileproof.conformance.mutation.devices import SeekingDevice, mutated_program
from tileproof.conformance.mutation.equivalence import same_form, same_results, unused_result
from tileproof.conformance.mutation.operators import OPERATORS
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import run_case
from tileproof.conformance.target import Coordinates, Schedule, Target
from tileproof.conformance.worker import step_budget
from tileproof.simulators.ptx.device import decoded
from tileproof.simulators.ptx.machine.budget import BudgetExceeded

SAMPLE = json.loads((Path(__file__).parents[1] / "mutants.json").read_text())
KILLED = [row for row in SAMPLE if row["outcome"] == "killed"]


def by_kernel() -> dict[str, list[dict[str, Any]]]:
    rows = defaultdict(list)
    for row in KILLED:
        rows[row["id"].split("/")[0]].append(row)
    return rows


@pytest.mark.parametrize("kernel", by_kernel())
def test_a_sample_of_mutants_is_killed_as_recorded(kernel: str) -> None:
    wrong = []
    for row in by_kernel()[kernel]:
        case = find_case(row["case"])
        place = Coordinates(Target.SIM, schedule=Schedule(row["schedule"]))
        device = SeekingDevice(place, row["id"], row["entry"])
        device.step_budget = step_budget(case)
        kinds = list(dict.fromkeys(str(one.kind) for one in run_case(case, device).findings))
        if device.found is None or kinds != row["kinds"]:
            wrong.append((row["id"], device.found is not None, kinds, row["kinds"]))
    assert not wrong, "choose the sample anew after a change of a kernel: tests/h200/choose_mutants.py"


def loaded(row: dict[str, Any]) -> SeekingDevice:
    """A device that has loaded a mutant; of a case's first kernel, one step is enough for that."""
    case, place = find_case(row["case"]), Coordinates(Target.SIM, schedule=Schedule(row["schedule"]))
    for steps in (1, step_budget(case)):
        device = SeekingDevice(place, row["id"], row["entry"])
        device.step_budget = steps
        with contextlib.suppress(BudgetExceeded):
            run_case(case, device)
        if device.found is not None:
            break
    return device


@pytest.mark.parametrize("kernel", by_kernel())
def test_no_proof_says_of_a_killed_mutant_that_it_is_the_same(kernel: str) -> None:
    """The proofs but the assembler's, which knows nothing of this device."""
    proved = []
    for row in by_kernel()[kernel][:4]:
        device = loaded(row)
        assert device.found is not None
        assert device.module is not None
        parsed, programs = decoded(device.module.ptx, device.contraction)
        entry = parsed.entries[row["entry"]]
        changed, original = mutated_program(device.found, parsed), programs[row["entry"]]
        if same_form(changed, original) or unused_result(device.found, entry) or same_results(changed, original):
            proved.append(row["id"])
    assert not proved


def test_the_sample_is_large_and_of_every_kernel_that_has_results() -> None:
    assert len(SAMPLE) == 200
    assert len({row["id"] for row in SAMPLE}) == 200
    assert len(by_kernel()) >= 8
    assert by_kernel().keys() <= KERNELS.keys()
    assert len({row["id"].split("/")[1] for row in KILLED}) >= len(OPERATORS) // 3
