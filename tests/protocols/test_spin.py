"""Spin, a model checker of others, as witness: it stores as many states as the search finds, and finds nothing wrong.

Wants `spin` (Debian: apt-get install spin) and a C compiler.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tileproof.simulators.protocols.definition import NOTHING_LEFT_OUT
from tileproof.simulators.protocols.model import Model
from tileproof.simulators.protocols.models.election import Election
from tileproof.simulators.protocols.models.split_k import SplitK
from tileproof.simulators.protocols.search import search

MODELS = Path(__file__).parent / "spin"
# Nothing left out, no two states taken for one, and words of a state that suffice for all.
OPTIONS = ("-O2", "-DSAFETY", "-DNOREDUCE", "-DNOFAIR", "-DVECTORSZ=2048", "-w")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("spin") is None or shutil.which("gcc") is None, reason="no spin or no gcc on the path"
    ),
]


def _by_spin(name: str, folder: Path, **extents: int) -> str:
    """What Spin says of a model of tests/protocols/spin."""
    defines = [f"-D{extent.upper()}={value}" for extent, value in extents.items()]
    subprocess.run(["spin", *defines, "-a", str(MODELS / f"{name}.pml")], cwd=folder, check=True, capture_output=True)
    subprocess.run(["gcc", *OPTIONS, "-o", "pan", "pan.c"], cwd=folder, check=True, capture_output=True)
    run = subprocess.run(["./pan", "-m10000000", "-w24"], cwd=folder, check=True, capture_output=True, text=True)
    return run.stdout


def _same(model: Model, said: str) -> None:
    errors, states = re.search(r"errors: (\d+)", said), re.search(r"^\s*(\d+) states, stored", said, re.MULTILINE)
    assert errors is not None
    assert states is not None
    verdict = search(model, NOTHING_LEFT_OUT)
    assert verdict.is_right
    assert (int(errors[1]), int(states[1])) == (0, verdict.states), said


@pytest.mark.parametrize(("blocks", "slots", "launches"), [(2, 1, 2), (2, 2, 3), (3, 1, 2), (3, 2, 2), (4, 1, 2)])
def test_spin_stores_as_many_states_of_an_election(blocks: int, slots: int, launches: int, tmp_path: Path) -> None:
    said = _by_spin("election", tmp_path, blocks=blocks, slots=slots, launches=launches)
    _same(Election(blocks, slots=slots, launches=launches).model(), said)


@pytest.mark.parametrize(("parts", "launches"), [(2, 2), (3, 2), (4, 2), (3, 3)])
def test_spin_stores_as_many_states_of_a_split_k(parts: int, launches: int, tmp_path: Path) -> None:
    said = _by_spin("split_k", tmp_path, parts=parts, launches=launches)
    _same(SplitK(parts, launches=launches).model(), said)


def test_spin_finds_the_fault_of_a_split_k_whose_blocks_do_not_meet(tmp_path: Path) -> None:
    """That Spin could find something at all: thread 0 goes on without the others."""
    text = (MODELS / "split_k.pml").read_text()
    wrong = text.replace("at == meets && b[_pid].others ->", "at == meets ->").replace(
        "&& QUIET -> b[_pid].at = arrives", "-> b[_pid].at = arrives"
    )
    assert wrong != text
    (tmp_path / "wrong.pml").write_text(wrong)
    subprocess.run(
        ["spin", "-DPARTS=2", "-DLAUNCHES=2", "-a", "wrong.pml"], cwd=tmp_path, check=True, capture_output=True
    )
    subprocess.run(["gcc", *OPTIONS, "-o", "pan", "pan.c"], cwd=tmp_path, check=True, capture_output=True)
    run = subprocess.run(["./pan"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert "errors: 1" in run.stdout
    assert "assertion violated" in run.stdout
