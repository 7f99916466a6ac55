"""The how-tos are what happens: their files, Python and commands, in order, in one folder."""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tileproof.conformance.cli import main
from tileproof.simulators.ptx.alu import bitmask, operation

DOCS = Path(__file__).parent.parent / "docs"
STEP = re.compile(
    r"Write `(?P<file>[^`]+)`:\n\n```\w+\n(?P<text>.*?)```|```(?P<kind>python|console)\n(?P<body>.*?)```", re.DOTALL
)
COMMAND = re.compile(r"^\$ tileproof ([^\n]*)\n(.*?)(?=^\$ |\Z)", re.DOTALL | re.MULTILINE)
SECONDS = re.compile(r"^\d+\.\d s ", re.MULTILINE)
OURS = ("dequantize_rows", "rows_contract")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, whose modules can be imported, and nothing left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in OURS:
        sys.modules.pop(name, None)
    bitmask.FAMILIES.pop("parity", None)
    operation._families.cache_clear()
    operation.resolve.cache_clear()


def follow(page: str, capsys: pytest.CaptureFixture[str]) -> int:
    """Do what a page says; the number of steps."""
    known: dict[str, object] = {"__name__": page}
    steps = 0
    for step in STEP.finditer((DOCS / page).read_text()):
        steps += 1
        if step["file"]:
            Path(step["file"]).write_text(step["text"])
        elif step["kind"] == "python":
            exec(compile(step["body"], page, "exec"), known)
        else:
            for command, output in COMMAND.findall(step["body"]):
                main(shlex.split(command))
                said = SECONDS.sub("", capsys.readouterr().out)
                shown = ".*".join(map(re.escape, SECONDS.sub("", output).split("...\n")))
                assert re.fullmatch(shown, said, re.DOTALL), (command, said)
    return steps


@pytest.mark.parametrize(
    ("pages", "steps"),
    [
        (("howto/add_a_format.md",), 3),
        (("howto/add_an_instruction.md",), 3),
        (("howto/add_a_kernel.md", "howto/add_a_contract.md", "howto/add_a_fault.md"), 8),
    ],
    ids=["format", "instruction", "kernel, contract and fault"],
)
def test_a_how_to_is_what_happens(
    pages: tuple[str, ...], steps: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sum(follow(page, capsys) for page in pages) == steps
