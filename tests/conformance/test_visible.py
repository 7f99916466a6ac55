"""Nothing that a file or a kernel says acts on a terminal, in Markdown, in JUnit or in a page."""

import ast
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from runner_fakes import SIM, FakeRunner, small_case, wrong

from tileproof.conformance import cli
from tileproof.conformance.crash import CrashFolder
from tileproof.conformance.events import (
    CaseErrored,
    CaseExplained,
    CaseFinished,
    CaseNotRun,
    Event,
    FindingFound,
    RunStarted,
    TargetUnavailable,
    WaiverFailed,
    event_line,
)
from tileproof.conformance.finding import Place, Proof, Why
from tileproof.conformance.input_file import read_input
from tileproof.conformance.session import Plan, Session
from tileproof.conformance.target import Target
from tileproof.conformance.visible import visible, visible_data, visible_lines
from tileproof.oracle.refusal import Refusal

ESCAPE, BELL, BACK, RIGHT_TO_LEFT, WIDTH_0 = "\x1b[2J\x1b]0;title\x07", "\x07", "a\bb", "\u202e", "\u200b"
HOSTILE = f"{ESCAPE}{BELL}{BACK}{RIGHT_TO_LEFT}{WIDTH_0}\x9b31m\r\u2028\ud800 ```| <script>"
OURS = Path(cli.__file__).parent


def test_what_prints_nothing_is_written_as_its_number() -> None:
    assert visible("größe, файл, 数, a\tb") == "größe, файл, 数, a\tb"
    assert visible("\x1b[31m\x00\x9b") == "\\x1b[31m\\x00\\x9b"
    assert visible("\u202e\u2028\ud800\U000e0001") == "\\u202e\\u2028\\ud800\\U000e0001"
    assert visible("a\nb") == "a\\x0ab"
    assert visible_lines("a\r\nb\rc\n") == ["a", "b\\x0dc", ""]
    assert visible_data({"a": ["\x1b", 1, None, ("\x07",)]}) == {"a": ["\\x1b", 1, None, ["\\x07"]]}


def hostile_run(folder: Path) -> list[Event]:
    """A run whose event file somebody has written: every text in it is hostile."""
    told = list(Session(Plan((small_case(),), (SIM,)), CrashFolder(folder), {Target.SIM: FakeRunner(wrong)}).events())
    case = str(small_case())
    events: list[Event] = []
    for event in told:
        if isinstance(event, RunStarted):
            environment = replace(event.environment, gpu=HOSTILE, git=HOSTILE)
            places = tuple(replace(place, arch=HOSTILE) for place in event.targets)
            event = replace(event, tier=HOSTILE, fault=HOSTILE, environment=environment, targets=places)
        elif isinstance(event, FindingFound):
            place = Place(1, HOSTILE, 1, (HOSTILE,), 2)
            found = replace(event.finding, message=f"{HOSTILE}\n{HOSTILE}", signature=HOSTILE, place=place)
            event = replace(event, finding=found, origin=HOSTILE, crash=HOSTILE)
        elif isinstance(event, CaseFinished):
            event = replace(event, notes=(HOSTILE,), route=HOSTILE)
        events.append(event)
    end = events.pop()
    return [
        *events,
        TargetUnavailable(Target.GPU, HOSTILE),
        CaseExplained(case, Target.SIM, Why(Proof.PROVED, HOSTILE, HOSTILE)),
        CaseErrored(case, Target.GPU, HOSTILE, HOSTILE, HOSTILE),
        CaseNotRun(case, Target.HOST, HOSTILE),
        WaiverFailed(HOSTILE, HOSTILE, HOSTILE),
        end,
    ]


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.ndjson"
    path.write_text("".join(map(event_line, hostile_run(tmp_path / "crashes"))))
    return path


def acts(text: str) -> set[str]:
    """The letters of a text that act or hide, but for the ends of lines."""
    return {letter for letter in text if not letter.isprintable() and letter not in "\n\t"}


def test_no_text_of_an_event_file_acts_in_a_report(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(run_file)]) == 0
    said = capsys.readouterr().out
    assert acts(said) == set()
    assert "\\x1b[2J" in said
    for line in said.splitlines():  # of Markdown: what is hostile stands in a fence, or is escaped
        assert "<script>" not in line or line.startswith(("FAIL", "      ")), line


def test_no_text_of_an_event_file_acts_in_a_file_that_is_written(run_file: Path) -> None:
    asked = ["--html", "run.html", "--junit", "run.xml", "--markdown", "run.md"]
    assert cli.main(["report", str(run_file), *asked]) == 0
    for name in ("run.html", "run.xml", "run.md"):
        assert acts(Path(name).read_text()) == set(), name
    failure = ElementTree.parse("run.xml").find("testsuite/testcase/failure")
    assert failure is not None
    assert "\\x1b[2J" in (failure.text or "")


def test_no_text_of_an_event_file_acts_in_a_comparison_or_a_history(
    run_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", str(run_file), str(run_file)]) == 0
    run_file.write_text(run_file.read_text().replace("\\ud800", ""))  # DuckDB refuses half a character
    assert cli.main(["history", "add", str(run_file), "--db", "h.db"]) == 0
    for command in ("list", "trends", "changes", "unstable", "slowest"):
        assert cli.main(["history", command, "--db", "h.db"]) == 0
    assert acts(capsys.readouterr().out) == set()


def test_no_name_of_a_file_acts_in_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["report", f"{tmp_path}/\x1b[31mrun"], ["show", "\x1b[31mx.cu", "--resources"]):
        assert cli.main(arguments) == 2
        error = capsys.readouterr().err
        assert acts(error) == set()
        assert "\\x1b[31m" in error


def test_no_name_of_a_tensor_acts_where_it_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = json.dumps({"\x1b[2J": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0")
    assert cli.main(["check", "--input", str(path)]) == 2
    assert acts(capsys.readouterr().err) == set()


@pytest.mark.parametrize("name", ["a\nhint: run this", "a\r\nb", "\x1b[2J"])
def test_a_refusal_of_a_tensor_is_one_line_whatever_its_name(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, tensors = tmp_path / "w.npz", tmp_path / "w.safetensors"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(f"{name}.npy", b"no array")
    header = json.dumps({name: {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 4]}}).encode()
    tensors.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    for path in (archive, tensors):
        with pytest.raises(Refusal) as caught:
            read_input(str(path))
        assert acts(caught.value.message) == set()
        assert "\n" not in caught.value.message


def test_no_name_in_ptx_acts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { frob\x1b[2Jnicate; ret; }\n")
    assert cli.main(["ptx", "run", str(path)]) == 2
    said = capsys.readouterr()
    assert acts(said.err + said.out) == set()


MAY_WRITE = {"saying.py", "__main__.py", "progress.py", "protocol_progress.py", "fuzz/console.py"}
"""Where text goes to a stream directly, each behind `visible` or without a text of others."""


def test_commands_write_to_the_streams_through_one_place() -> None:
    found = set()
    for path in OURS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("write", "writelines"):
                written = ast.unparse(node.value)
                if written in ("sys.stdout", "sys.stderr") or written.endswith("stream"):
                    found.add(str(path.relative_to(OURS)))
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "typer.echo"):
                found.add(str(path.relative_to(OURS)))
    assert found <= MAY_WRITE
