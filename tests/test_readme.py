"""What the README shows is what comes out."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tileproof.conformance.cli import app
from tileproof.conformance.contract import Tier
from tileproof.conformance.faults import faults
from tileproof.conformance.registry import contracts

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"```console\n\$ tileproof (check --fault [^\n]*)\n(.*?)```", re.DOTALL)
KERNEL = re.compile(
    r"Write `([^`]*)`[^`]*```cuda\n(.*?)```\n\n```console\n\$ tileproof (ptx run [^\n]*)\n(.*?)```", re.DOTALL
)
SECONDS = re.compile(r"^\d+\.\d s ", re.MULTILINE)


def shown() -> list[tuple[str, str]]:
    return BLOCK.findall(README.read_text())


def run(command: str) -> Result:
    return CliRunner().invoke(app, shlex.split(command))


def test_the_readme_shows_two_failures() -> None:
    assert len(shown()) == 2


@pytest.mark.parametrize(("command", "output"), shown(), ids=["ties-away", "missing-barrier"])
def test_a_failure_in_the_readme_is_what_the_command_prints(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(command)
    assert result.exit_code == 1
    assert SECONDS.sub("", result.stdout) == SECONDS.sub("", output)


def test_the_kernel_file_in_the_readme_has_the_finding_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((name, source, command, output),) = KERNEL.findall(README.read_text())
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(source)
    result = run(command)
    assert (result.exit_code, result.stdout) == (1, output)


def test_the_kernel_and_its_page_in_the_readme_come_to_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (section,) = re.findall(r"## Judge your own kernel\n(.*?)\n## ", README.read_text(), re.DOTALL)
    blocks = dict(re.findall(r"```(cuda|python|console)\n(.*?)```", section, re.DOTALL))
    monkeypatch.chdir(tmp_path)
    Path("scale.cu").write_text(blocks["cuda"])
    Path("scale_page.py").write_text(blocks["python"])
    command, _, output = blocks["console"].partition("\n")
    result = run(command.removeprefix("$ tileproof "))
    assert result.exit_code == 1
    assert SECONDS.sub("", result.stdout) == SECONDS.sub("", output)


def test_the_readme_counts_the_faults_that_there_are() -> None:
    (count,) = re.findall(r"(\d+) deliberate faults", README.read_text())
    assert int(count) == len(faults())


def test_the_readme_counts_the_cases_that_the_full_tier_has() -> None:
    rows = re.findall(r"^\| (`[a-z_`, 0-9]+`) \|[^\n]*?\| ([\d,]+) cases", README.read_text(), re.MULTILINE)
    told = {tuple(re.findall(r"`(\w+)`", names)): int(count.replace(",", "")) for names, count in rows}
    known = contracts()
    assert told == {names: sum(len(known[name].cases(Tier.FULL)) for name in names) for names in told}
    assert sorted(name for names in told for name in names) == sorted(known), "every contract has a row"


def test_the_smoke_tier_is_a_part_of_the_full_tier_and_that_of_the_soak_tier() -> None:
    """As the README counts them."""
    for contract in contracts().values():
        smoke, full, soak = (set(contract.cases(tier)) for tier in (Tier.SMOKE, Tier.FULL, Tier.SOAK))
        assert smoke <= full <= soak, contract.name


def test_the_python_in_the_readme_runs() -> None:
    (code,) = re.findall(r"## Use the CPU device from Python\n\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
