import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from outcome import Coordinates, Outcome, first_difference, outcome
from random_program import Flaw, random_program
from two_engines import compare
from usable_forms import usable_forms

from tileproof.simulators.ptx.findings import Counters, Finding, FindingKind, Note, Where

CHUNK = 10
SHOWN = Outcome(b"ab", b"\xff\xff", b"c", counters=Counters(thread_instructions=1))


@pytest.mark.parametrize("first", range(0, 60, CHUNK))
def test_two_engines_show_the_same_of_random_programs(first: int) -> None:
    differences = [difference for seed in range(first, first + CHUNK) if (difference := compare(seed)[0])]
    assert differences == []


@pytest.mark.parametrize("flaw", [flaw for flaw in Flaw if flaw not in (Flaw.NONE, Flaw.APPROXIMATE)])
def test_some_program_of_every_flaw_has_a_finding(flaw: Flaw) -> None:
    place = Coordinates("fast", "friendly", 0)
    assert any(outcome(random_program(seed, flaw), place, seed).findings for seed in range(8))


def test_a_program_depends_on_its_seed_alone() -> None:
    assert random_program(7).text == random_program(7).text != random_program(8).text


@pytest.mark.parametrize("hash_seed", [1, 4])
def test_forms_stand_in_one_order_in_every_process(hash_seed: int) -> None:
    """Under one of these seeds two forms of shf used to change places, and with them the programs of some seeds."""
    script = "from usable_forms import usable_forms; print(*(form.opcode for form in usable_forms(True)['shf']))"
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [form.opcode for form in usable_forms(True)["shf"]]


@pytest.mark.parametrize(
    "changed",
    [
        replace(SHOWN, output=b"aB"),
        replace(SHOWN, written=b"\xff\x00"),
        replace(SHOWN, cells=b"d"),
        replace(SHOWN, counters=Counters(thread_instructions=2)),
        replace(SHOWN, findings=(Finding(FindingKind.RACE, "m", Where(1)),)),
        replace(SHOWN, notes=(Note("m", Where(1)),)),
        replace(SHOWN, refusal="Refusal: m"),
    ],
)
def test_an_outcome_that_differs_in_anything_is_seen(changed: Outcome) -> None:
    assert first_difference(SHOWN, replace(SHOWN)) == ""
    assert first_difference(SHOWN, changed) != ""


def test_inputs_hold_special_numbers_and_random_ones() -> None:
    words = random_program(0).input_words(0)
    assert np.isin(words, np.array([0x7F800000, 0x80000000], np.uint32)).any()
    assert np.unique(words).size > words.size // 2
