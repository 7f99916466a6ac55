"""The examples do what they say: the right kernels pass, the wrong ones are found by their cause."""

import shutil
from pathlib import Path

import pytest

from tileproof.conformance.cli import main
from tileproof.conformance.events import CaseFinished, Event, FindingFound, read_events

EXAMPLES = Path(__file__).parent.parent / "examples"
RIGHT = {
    "quantize_rows.cu": "*K257*",
    "scale_bias.cu": "*Rows3.Columns102*",
    "axpy.ptx": "*N25*",
    "column_sums_page.py": "*Columns33*",
    "numpy_quantizer_page.py": "*K129*",
}
"""And the cases of the smoke tier that the gate takes: on both sides of a tile."""

WRONG = {"quantize_rows_tail.cu": "mismatch", "column_sums_race_page.py": "race"}
NEEDS_TORCH = ("torch_cast_page.py",)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    monkeypatch.chdir(tmp_path / "examples")
    return Path.cwd()


def run(file: str, *options: str) -> tuple[int, list[Event]]:
    """The exit code and the events of a run."""
    code = main(["try", file, *options, "--events", "run.ndjson"])
    return code, list(read_events(Path("run.ndjson")))


@pytest.mark.parametrize(("file", "cases"), RIGHT.items())
def test_a_right_kernel_passes(file: str, cases: str, folder: Path) -> None:
    code, events = run(file, cases, "--tier", "smoke")
    assert code == 0
    assert all(event.passed for event in events if isinstance(event, CaseFinished))
    assert sum(isinstance(event, CaseFinished) for event in events) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("file", RIGHT)
@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_a_right_kernel_passes_every_case(file: str, seed: str, folder: Path) -> None:
    assert run(file, "--tier", "full", "--seed", seed)[0] == 0


@pytest.mark.parametrize(("file", "kind"), WRONG.items())
def test_a_wrong_kernel_is_found_by_its_cause(file: str, kind: str, folder: Path) -> None:
    code, events = run(file, "--first-failure")
    assert code == 1
    found = [event.finding for event in events if isinstance(event, FindingFound)]
    assert kind in {finding.kind for finding in found}


def test_every_example_is_tried_here() -> None:
    files = {path.name for path in EXAMPLES.glob("*_page.py")}
    named = {*RIGHT, *WRONG, *NEEDS_TORCH}
    pages = {name if name.endswith(".py") else f"{Path(name).stem}_page.py" for name in named}
    assert files == pages


@pytest.mark.slow
def test_torch_casts_to_e4m3_as_its_page_says(folder: Path) -> None:
    code, _ = run("torch_cast_page.py", "--tier", "full")
    assert code == 0
