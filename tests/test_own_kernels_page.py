"""The how-to for kernels of one's own is what happens: its commands in order, with the outputs that it shows."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tileproof.conformance.cli import main

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "own_kernels.md"
STEP = re.compile(
    r"Write `(?P<file>[^`]+)`:\n\n```\w+\n(?P<text>.*?)```"
    r"|Put\n?`(?P<line>[^`]+)` before line (?P<before>\d+)"
    r"|```console\n(?P<console>.*?)```",
    re.DOTALL,
)
COMMAND = re.compile(r"^\$ tileproof ([^\n]*)\n(.*?)(?=^\$ |\Z)", re.DOTALL | re.MULTILINE)
SECONDS = re.compile(r"^\d+\.\d s ", re.MULTILINE)
EXAMPLES = ("quantize_rows_tail.cu", "scale_bias.cu", "include", "numpy_quantizer_page.py")


def said(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints, its errors after its data, without progress."""
    main(shlex.split(command))
    out, err = capsys.readouterr()
    return out + "".join(line for line in err.splitlines(keepends=True) if " done, " not in line)


def test_the_how_to_is_what_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in EXAMPLES:
        source = ROOT / "examples" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    ran = 0
    for step in STEP.finditer(PAGE.read_text()):
        if step["file"]:
            Path(step["file"]).write_text(step["text"])
        elif step["line"]:
            lines = Path("rows.cu").read_text().splitlines()
            lines.insert(int(step["before"]) - 1, step["line"])
            Path("rows.cu").write_text("\n".join(lines) + "\n")
        else:
            for command, output in COMMAND.findall(step["console"]):
                ran += 1
                assert SECONDS.sub("", said(command, capsys)) == SECONDS.sub("", output), command
    assert ran == 8


def test_the_words_of_the_how_to_are_those_of_a_page() -> None:
    from tileproof.conformance import pages
    from tileproof.conformance.pages.families import FAMILIES
    from tileproof.conformance.pages.types import TYPES

    text = PAGE.read_text()
    assert [name for name in (*pages.__all__, *FAMILIES, *TYPES) if name not in text] == []
