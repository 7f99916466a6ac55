"""The page on running cases: every command in it is one, and the comparison that it shows is what comes out."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tileproof.conformance.cli import app, main

PAGE = (Path(__file__).parent.parent / "docs" / "running.md").read_text()
IDS = [
    "ninfer_quantize/fp8_quantize_rows/vector/T1.K64.bf16/ties/0",
    "ninfer_quantize/fp8_quantize_rows/scalar/T2.K9.bf16/ties/0",
]


def test_the_comparison_on_the_page_is_what_comes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", "--fault", "ties-away", "--events", "before.ndjson", *IDS]) == 1
    assert main(["check", "--events", "after.ndjson", *IDS]) == 0
    capsys.readouterr()
    ((command, shown),) = re.findall(r"```console\n\$ tileproof (compare [^\n]*)\n(.*?)```", PAGE, re.DOTALL)
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out == shown
    assert main(["report", "before.ndjson", "--html", "run.html", "--junit", "run.xml", "--markdown", "run.md"]) == 0
    assert {path.name for path in tmp_path.glob("run.*")} == {"run.html", "run.xml", "run.md"}
    Path("before.ndjson").rename("run.ndjson")
    asked = re.findall(r"\$ tileproof (history [^\n#]*)", PAGE)
    assert len(asked) == 6
    assert [main(shlex.split(command)) for command in asked] == [0] * 6


def test_every_option_on_the_page_is_one_of_the_command() -> None:
    known = {name: CliRunner().invoke(app, [name, "--help"]).output for name in ("check", "report", "fuzz")}
    commands = re.findall(r"tileproof (check|report|fuzz) ([^\n`]*)", PAGE)
    assert len(commands) >= 6
    for name, rest in commands:
        assert [option for option in re.findall(r"--[a-z-]+", rest) if option not in known[name]] == []
    table = PAGE.partition("| option |")[2].partition("\n\n")[0]
    assert [option for option in re.findall(r"`(--[a-z-]+)", table) if option not in known["check"]] == []


def test_a_search_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"tileproof (fuzz [^\n#]*--examples[^\n#]*)", PAGE)
    assert main(shlex.split(command)) == 0
    assert list(tmp_path.glob(".tileproof/corpus/ninfer_quantize/*.json"))


def test_the_jobs_of_the_page_are_yaml() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert yaml.safe_load(text)["jobs"].keys() == {"cpu", "gpu"}
