"""Kernels that nobody here wrote: right on the CPU device, without findings, on every schedule; broken, they are found.

`make foreign` fetches the packages and runs this. Without them every test fails; none is skipped.
"""

from pathlib import Path

import packages
import pytest
from case import Case
from cases import CASES

from tileproof.simulators.ptx.findings import FindingKind

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
@pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), ("adversarial", 1), ("adversarial", 2)])
def test_it_is_right_and_without_findings(case: Case, schedule: str, seed: int) -> None:
    outcome = case.launch(schedule=schedule, seed=seed)
    assert [finding.message for finding in outcome.report.findings] == []
    assert outcome.wrong == 0


@pytest.mark.parametrize("case", [case for case in CASES if case.lowest_leader], ids=lambda case: case.name)
def test_a_kernel_that_needs_the_lowest_lane_elected_stops_otherwise(case: Case) -> None:
    """A finding that is real by the letter, seen on some seeds: CUTLASS arms its mbarriers in thread 0 of the producer
    warp and loads in the thread that `elect.sync` elects, which PTX does not promise to be the same one.
    """
    found = [
        finding
        for seed in (1, 2, 3)
        for finding in case.launch(schedule="adversarial", seed=seed, lowest_leader=False).report.findings
    ]
    assert {finding.kind for finding in found} >= {FindingKind.DEADLOCK}


@every_case
def test_the_reference_engine_gives_the_same(case: Case) -> None:
    fast, reference = (case.launch(engine=engine) for engine in ("fast", "reference"))
    assert reference.report.findings == []
    assert (fast.got == reference.got).all()
    assert fast.report.counters == reference.report.counters
    assert fast.report.notes == reference.report.notes


@every_case
@pytest.mark.parametrize("contraction", ["first", "last"])
def test_pairs_that_an_assembler_may_fuse_are_right_both_ways(case: Case, contraction: str) -> None:
    """Today no kernel has such a pair: their compilers fuse themselves, or say that they do not."""
    outcome = case.launch(contraction=contraction)
    assert outcome.report.findings == []
    assert outcome.wrong == 0


@every_case
def test_what_breaks_it_is_found(case: Case) -> None:
    right, wrong = case.breaks
    assert right in case.built.ptx
    assert case.launch(case.built.ptx.replace(right, wrong)).report.findings


def test_there_are_at_least_six_kernels() -> None:
    assert len(CASES) >= 6


def test_the_makefile_fetches_these_versions() -> None:
    text = (Path(__file__).parents[2] / "Makefile").read_text()
    assert all(f"{name}=={version}" in text for name, version in packages.VERSIONS.items())
