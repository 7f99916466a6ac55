"""Who runs a case or a file, and gives a launch a deadline, is told of the deadline and of what was found before it."""

from pathlib import Path

import pytest
from async_kernels import module
from test_hostile_budgets import COUNTS, RACE

from tileproof.conformance import cli

LAUNCH = ("--block", "64", "--arg", "u32[64]", "--arg", "u32[64]")


def run(tmp_path: Path, *options: str) -> int:
    path = tmp_path / "endless.ptx"
    path.write_text(module(RACE + COUNTS, ""))
    return cli.main(["ptx", "run", str(path), *LAUNCH, *options])


@pytest.mark.parametrize("option", [("--steps", "5000"), ("--seconds", "0.2")])
def test_a_file_that_does_not_end_is_a_timeout_beside_its_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, str]
) -> None:
    assert run(tmp_path, *option) == 1
    out = capsys.readouterr().out
    assert "FAIL  timeout" in out
    assert f"kernel k: {option[1]} {'steps' if option[0] == '--steps' else 's'} were not enough" in out
    assert "FAIL  race" in out
    assert "2 findings" in out


def test_a_file_that_needs_more_memory_than_it_is_given_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--grid", "64", "--memory", "1") == 2
    assert "of the device's 1048576 bytes" in capsys.readouterr().err
