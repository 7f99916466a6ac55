"""What the documents name is there, what they show comes out, and the CI jobs are jobs whose commands run."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from tileproof.conformance.cli import app, main

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
OURS = (
    "reading_guide.md",
    "glossary.md",
    "reading_a_failure.md",
    "limits.md",
    *(f"howto/{page.name}" for page in (DOCS / "howto").glob("*.md")),
)
LINK = re.compile(r"\]\(([^)#:]+)\)")
PATH = re.compile(r"`((?:oracle|simulators|kernels|conformance|tests|docs|benchmarks)/[\w/.*]+|fast/\w+\.py)`")
SHOWN = re.compile(r"```console\n\$ tileproof (check [^\n]*)\n(.*?)```", re.DOTALL)
SECONDS = re.compile(r"^\d+\.\d s ", re.MULTILINE)
CASE = "ninfer_quantize/fp8_quantize_rows/scalar/T2.K9.bf16/ties/0"


@pytest.mark.parametrize("page", OURS)
def test_files_and_pages_that_a_page_names_are_there(page: str) -> None:
    text = (DOCS / page).read_text()
    missing = [link for link in LINK.findall(text) if not (DOCS / page).parent.joinpath(link).exists()]
    for name in PATH.findall(text):
        place = ROOT / "simulators/ptx" if name.startswith("fast/") else ROOT
        missing += [] if list(place.glob(name)) else [name]
    assert missing == []


def test_commands_of_all_documents_exist() -> None:
    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    for page in (ROOT / "README.md", *DOCS.rglob("*.md")):
        for fenced in re.findall(r"(?:\$ |`)tileproof ([a-z]+)\b", page.read_text()):
            assert fenced in known, f"{page.name}: tileproof {fenced}"


@pytest.mark.parametrize(("command", "output"), SHOWN.findall((DOCS / "reading_a_failure.md").read_text()))
def test_a_failure_in_the_document_is_what_the_command_prints(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 1
    assert SECONDS.sub("", result.stdout) == SECONDS.sub("", output)


def test_two_failures_are_shown() -> None:
    assert len(SHOWN.findall((DOCS / "reading_a_failure.md").read_text())) == 2


def test_the_glossary_is_in_order_and_has_every_word_once() -> None:
    words = re.findall(r"^\| ([a-z-]+(?: [a-z]+)?) \|", (DOCS / "glossary.md").read_text(), re.MULTILINE)[1:]
    assert len(words) > 40
    assert words == sorted(set(words))


def jobs(name: str) -> Iterator[dict[str, Any]]:
    """The jobs of a workflow."""
    yield from yaml.safe_load((DOCS / "ci" / name).read_text())["jobs"].values()


def tileproof_commands(name: str) -> list[str]:
    """What a workflow calls of tileproof, matrix and environment filled in."""
    runs = [step["run"] for job in jobs(name) for step in job["steps"] if "run" in step]
    found = [
        line.partition("bin/tileproof ")[2] for run in runs for line in run.splitlines() if "bin/tileproof " in line
    ]
    return [one.replace("${{ matrix.part }}", "1").replace('"$GITHUB_STEP_SUMMARY"', "summary.md") for one in found]


@pytest.mark.parametrize("name", ["cpu.yml", "gpu.yml"])
def test_a_ci_job_is_a_workflow_whose_steps_run_or_use_something(name: str) -> None:
    workflow = yaml.safe_load((DOCS / "ci" / name).read_text())
    assert workflow["name"]
    assert workflow[True], "`on:`, which YAML reads as true"
    for job in jobs(name):
        assert job["runs-on"]
        assert job["timeout-minutes"]
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])
        assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in job["steps"] if "uses" in step)


@pytest.mark.parametrize("name", ["cpu.yml", "gpu.yml"])
def test_options_of_a_ci_job_are_those_of_the_commands(name: str) -> None:
    for command in tileproof_commands(name):
        known = CliRunner().invoke(app, [command.split()[0], "--help"], env={"COLUMNS": "200"}).output
        assert [option for option in re.findall(r"--[a-z-]+", command) if option not in known] == [], command


def test_the_commands_of_the_job_without_a_gpu_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, of one case instead of all."""
    monkeypatch.chdir(tmp_path)
    for command in tileproof_commands("cpu.yml"):
        words = shlex.split(command)
        if words[0] == "check":
            words = [word for word in words if word not in ("--tier", "full")]
            words[words.index("--shard") + 1] = "1/1"
            words[words.index("--jobs") + 1] = "1"
            words.append(CASE)
        assert main(words) == 0, command
    assert {path.name for path in tmp_path.iterdir()} >= {"run.ndjson", "run.xml", "run.html", "summary.md"}


def test_the_job_with_a_gpu_says_that_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without a GPU: an error, not a pass."""
    monkeypatch.chdir(tmp_path)
    check = next(command for command in tileproof_commands("gpu.yml") if command.startswith("check"))
    words = shlex.split(check)
    words[words.index("--jobs") + 1] = "1"
    code = main([*words, CASE])
    assert code in (0, 2), "0 where there is a GPU"
