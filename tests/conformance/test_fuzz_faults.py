"""Planted faults of every kernel are found by search and shrunk to small shapes with the same signature."""

from pathlib import Path

import pytest

from tileproof.conformance.cli import main
from tileproof.conformance.events import FindingFound, read_events
from tileproof.conformance.faults import fault
from tileproof.conformance.registry import find_case

pytestmark = pytest.mark.slow

FAULTS = {
    "tail-not-written": {"T": 1, "K": 1},
    "x-stride-ignored": {"T": 2, "K": 2},
    "ties-away": {"T": 1, "K": 8},
    "nan-erases-amax": {"T": 4, "K": 8},
}
"""By name, the largest sizes that its least finding may have."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_shrunk(name: str, tmp_path: Path) -> None:
    folders = ["--corpus", str(tmp_path / "corpus"), "--crash-dir", str(tmp_path / "crashes")]
    events = tmp_path / "run.ndjson"
    assert main(["fuzz", "--fault", name, "--examples", "100", *folders, "--events", str(events)]) == 1
    found = [event for event in read_events(events) if isinstance(event, FindingFound)]
    assert {event.finding.kind for event in found} & fault(name).expected
    least = [find_case(event.case).shape for event in found]
    limits = FAULTS[name]
    assert any(all(shape.size(size) <= most for size, most in limits.items()) for shape in least), sorted(
        map(str, least)
    )
    shrunk = sorted({event.crash for event in found if event.crash})
    assert shrunk
    assert main(["replay", *shrunk, *folders[2:]]) == 1
