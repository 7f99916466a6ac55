"""Matrix units against mmasim and mmaemu: committed vectors in the gate, the packages themselves in the slow tests."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.conformance.matrix_inputs import generate
from tileproof.conformance.matrix_peers import disagreements, peer_versions, peers
from tileproof.conformance.matrix_rows import Row, rows
from tileproof.oracle.matrix_unit import multiply_add
from tileproof.oracle.units.instruction import parse_instruction
from tileproof.oracle.units.unit import IntegerSum

Array = NDArray[Any]

WITNESS = np.load(Path(__file__).parents[1] / "witness" / "matrix_unit.npz")
VECTORS = [name for name in WITNESS.files if name != "versions"]
#: Dot products a row and peer in the slow test.
CASES = 100_000


def row_of(name: str) -> Row:
    _, arch, assembler, instruction = name.split("|")
    return Row(parse_instruction(instruction), arch, assembler)


def answer(row: Row, a: Array, b: Array, c: Array, scale_a: Array | None, scale_b: Array | None) -> Array:
    """D of tiles with M = N = 1."""
    scales = {} if scale_a is None else {"scale_a": scale_a, "scale_b": scale_b}
    return multiply_add(row.instruction.name, a, b, c, arch=row.arch, assembler=row.assembler, **scales)


@pytest.mark.parametrize("name", VECTORS)
def test_the_committed_vectors_agree(name: str) -> None:
    row, cases = row_of(name), WITNESS[name]
    parts = [cases[part][:, None] if part in (cases.dtype.names or ()) else None for part in WITNESS_PARTS]
    a, b, c, scale_a, scale_b = parts
    assert a is not None
    assert b is not None
    assert c is not None
    wrong = disagreements(row.unit, answer(row, a, b, c, scale_a, scale_b), cases["d"][:, None])
    assert not wrong.any(), f"{int(wrong.sum())} of {wrong.size}, first {np.argwhere(wrong)[0]}"


WITNESS_PARTS = ("a", "b", "c", "scale_a", "scale_b")


def test_the_vectors_cover_every_floating_row_and_name_their_versions() -> None:
    covered = {name.split("|", 1)[1] for name in VECTORS}
    missing = [
        str(row)
        for row in rows()
        if not isinstance(row.unit, IntegerSum) and f"{row.arch}|{row.assembler}|{row.instruction.name}" not in covered
    ]
    assert not missing
    versions = json.loads(str(WITNESS["versions"]))
    assert (versions["mmasim"], versions["mmaemu"]) == ("2.1.1", "0.1.0")


@pytest.mark.slow
def test_the_installed_packages_are_those_of_the_vectors() -> None:
    versions = json.loads(str(WITNESS["versions"]))
    assert {name: peer_versions()[name] for name in ("mmasim", "mmaemu")} == {
        name: versions[name] for name in ("mmasim", "mmaemu")
    }


@pytest.mark.slow
@pytest.mark.parametrize("row", list(rows()), ids=str)
def test_the_packages_agree_on_a_hundred_thousand_cases(row: Row) -> None:
    """Needs mmasim and mmaemu (torch): a missing package is a failure, not a pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch and the packages
        asked = [peer for peer in peers() if peer.covers(row.instruction, row.arch, row.unit)]
        assert asked or isinstance(row.unit, IntegerSum), "no witness"
        seed = np.random.SeedSequence(list(str(row).encode()))
        inputs = generate(row.instruction, CASES, np.random.default_rng(seed), rows=1, columns=1)
        observed = answer(row, inputs.a, inputs.b, inputs.c, inputs.scale_a, inputs.scale_b)
        for peer in asked:
            wrong = disagreements(row.unit, observed, peer.dots(row.instruction, row.arch, row.unit, inputs))
            assert not wrong.any(), f"{peer.name}: {int(wrong.sum())} of {wrong.size}"
