"""The generated pages are what the code says today."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parent.parent / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name",
    [
        "ptx.md",
        "formats.md",
        "order_table.md",
        "foreign.md",
        "weak_memory.md",
        "gfx928.md",
        "libraries.md",
        "faults.md",
        "mutants.md",
        "coverage.md",
    ],
)
def test_a_generated_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text() == generator().PAGES[name](), "run: python docs/generate.py"


def test_every_precedent_has_a_fault_a_test_or_a_reason() -> None:
    generator()  # puts the folder on the path
    from faults_page import precedents

    from tileproof.conformance.faults import faults

    every = precedents()
    assert [one.number for one in every if one.set == "report"] == [*range(1, 34)]
    assert [one.number for one in every if one.set == "system"] == [*range(1, 40)]
    for one in every:
        assert set(one.faults) <= faults().keys(), one
        assert all((DOCS.parent / file).is_file() for file in one.tests), one
        assert one.faults or one.absent, one
        assert len(set(one.faults)) == len(one.faults), one


def test_every_reason_of_a_survivor_is_needed() -> None:
    generator()
    from mutants_page import reasons, results

    from tileproof.conformance.mutation.summary import survivors
    from tileproof.conformance.mutation.variant import SourceLine, source_text

    alive = [one for found in results().values() for one in survivors(found)]
    for row in reasons():
        named = {one.id for one in alive} & {*row.get("mutants", "").split()}
        lines = [one for one in alive if one.file == row.get("file") and one.operator in row["operators"].split()]
        assert named or any(row["line"] in source_text(SourceLine(one.file, one.line)) for one in lines), row


def test_every_compiled_kernel_is_in_the_file_of_known_kernels_as_its_source_is_today() -> None:
    generator()  # puts the folder on the path
    from coverage_page import covered

    found, device = covered()
    assert device.compiled == 0, "run: python docs/generate.py"
    assert found.unexplained == ()


def test_every_explanation_of_a_hole_is_needed() -> None:
    generator()  # puts the folder on the path
    from coverage_page import covered

    from tileproof.conformance.coverage.explained import EXPLAINED

    assert {(hole.kind, hole.name) for hole in covered()[0].holes} >= EXPLAINED.keys()


def test_the_architecture_page_stays_a_page() -> None:
    assert len((DOCS / "architecture.md").read_text().splitlines()) <= 60
