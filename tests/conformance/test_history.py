"""The history of runs: no run twice, no half of one, and the answers that comparing runs one by one gives."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from test_compare_runs import CASES, run, write
from test_reports import inflated

from tileproof.conformance import history as module
from tileproof.conformance.cli import main
from tileproof.conformance.history import History
from tileproof.conformance.reports.comparison import Change, compare_runs
from tileproof.conformance.reports.run_report import read_run
from tileproof.oracle.refusal import Refusal


def kept(folder: Path, rows: Sequence[tuple[str, str]]) -> History:
    """Runs by commit and endings, a letter a case; `q` passes with other bytes than `p`."""
    history = History(folder / "history.duckdb")
    for at, (commit, endings) in enumerate(rows):
        told = run(["p2" if ending == "q" else ending for ending in endings], commit)
        assert history.add(Path(write(folder / f"{at}.ndjson", told)))
    return history


def test_a_run_counts_once_whatever_its_file_is_called(tmp_path: Path) -> None:
    with History(tmp_path / "history.duckdb") as history:
        first = write(tmp_path / "a", run("pf", "old"))
        assert history.add(Path(first))
        (tmp_path / "b").write_bytes((tmp_path / "a").read_bytes())
        assert not history.add(tmp_path / "b")
        assert [row[0] for row in history.runs()] == [1]


def test_the_first_run_in_which_a_case_changed_is_named(tmp_path: Path) -> None:
    with kept(tmp_path, [("one", "ppf"), ("two", "ppf"), ("three", "fqp"), ("four", "fqp")]) as history:
        assert [(row[0], row[2], row[3], row[4]) for row in history.changes("*")] == [
            (CASES[0], 3, "passed", "failed"),
            (CASES[1], 3, "passed", "passed"),
            (CASES[2], 3, "failed", "passed"),
        ]
        assert history.changes("*T1.*")[0][5] == "mismatch/f"


@pytest.mark.parametrize(
    "rows",
    [
        [("same", "pf"), ("same", "ff")],
        [("same", "pf"), ("same", "qg")],
        [("one", "pf"), ("two", "ff"), ("three", "pf")],
        [("one", "pf"), ("two", "pp"), ("three", "pf"), ("four", "pp")],
        [("one", "pf"), ("two", "ff"), ("three", "ff")],
        [("one", "p"), ("one", "e"), ("two", "p")],
        [("one", "pn"), ("one", "fp")],
    ],
)
def test_what_is_unstable_is_what_the_comparison_of_the_runs_says(rows: list[tuple[str, str]], tmp_path: Path) -> None:
    with kept(tmp_path, rows) as history:
        found = {row[0] for row in history.unstable("*")}
    reports = [read_run(tmp_path / f"{at}.ndjson") for at in range(len(rows))]
    assert found == {one.case for one in compare_runs(reports).of(Change.UNSTABLE)}


def test_trends_count_each_kernel_and_route_run_by_run(tmp_path: Path) -> None:
    with kept(tmp_path, [("one", "pfe"), ("two", "ppn")]) as history:
        assert history.trends("ninfer_*") == [
            ("fp8_quantize_rows", "scalar", "sim", 1, 3, 1, 1, 0.2),
            ("fp8_quantize_rows", "scalar", "sim", 2, 3, 0, 1, 0.2),
        ]
        assert history.trends("astrai_*") == []
        assert history.slowest("*", 1) == [(CASES[0], "sim", 2, 0.1, 0.1)]


@pytest.mark.parametrize("damage", [b"{", b'{"event": "case-finished", "case": 7, "passed": "so"}\n', b"\xff\n"])
def test_of_a_damaged_run_nothing_is_taken_in(damage: bytes, tmp_path: Path) -> None:
    path = Path(write(tmp_path / "run", run("pf", "old")))
    path.write_bytes(path.read_bytes() + damage)
    with History(tmp_path / "history.duckdb") as history:
        with pytest.raises(Refusal, match="cannot be taken in"):
            history.add(path)
        assert history.runs() == []
        assert history.slowest("*", 9) == []


def test_what_is_no_history_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.duckdb"
    text.write_text("no database " * 2000)
    assert main(["history", "list", "--db", str(text)]) == 2
    assert main(["history", "list", "--db", str(tmp_path)]) == 2
    assert main(["history", "add", str(tmp_path / "none"), "--db", str(tmp_path / "new.duckdb")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_history_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with History(tmp_path / "history.duckdb"):
        pass
    monkeypatch.setattr(module, "SCHEMA", 2)
    with pytest.raises(Refusal, match="of version 1; this one reads 2"):
        History(tmp_path / "history.duckdb")


def test_without_duckdb_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Refusal, match="needs DuckDB") as refused:
        History(tmp_path / "history.duckdb")
    assert refused.value.hint == "pip install 'tileproof[history]'"


def test_the_commands_print_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = ["--db", str(tmp_path / "history.duckdb")]
    files = [write(tmp_path / f"{at}", run(endings, f"c{at}")) for at, endings in enumerate(("pf", "ff"))]
    assert main(["history", "add", *files, *db]) == 0
    capsys.readouterr()
    for command in ("list", "trends", "changes", "slowest"):
        assert main(["history", command, *db]) == 0
        assert len(capsys.readouterr().out.splitlines()) >= 2
    assert main(["history", "unstable", *db]) == 0
    assert capsys.readouterr().out == "nothing\n"


def test_since_when_a_case_fails_is_told_by_the_last_stretch_of_one_verdict(tmp_path: Path) -> None:
    rows = [("one", "ppf"), ("two", "fpg"), ("three", "fqp"), ("four", "fep")]
    with kept(tmp_path, rows) as history:
        told = {case: str(stretch) for (case, _), stretch in history.since([*CASES[:3], "no/such/case"]).items()}
    assert told == {
        CASES[0]: "failed so since run 2 (1.ndjson), 3 runs; it passed before",
        CASES[1]: "passed so since run 3 (2.ndjson), 1 run; it passed otherwise before",
        CASES[2]: "passed so since run 3 (2.ndjson), 2 runs; it failed before",
    }


def test_comparison_and_page_say_since_when_a_case_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = ["--db", str(tmp_path / "history.duckdb")]
    files = [write(tmp_path / f"{at}.ndjson", run(endings, f"c{at}")) for at, endings in enumerate(("pp", "pf"))]
    assert main(["history", "add", *files, *db]) == 0
    assert main(["compare", *files, *db]) == 1
    said = "history: failed so since run 2 (1.ndjson), 1 run; it passed before"
    assert said in capsys.readouterr().out
    assert main(["report", files[1], "--html", str(tmp_path / "page.html"), *db]) == 0
    assert "on sim failed so since run 2" in inflated((tmp_path / "page.html").read_text(), "data")[0]["since"]
    assert main(["compare", *files, "--db", str(tmp_path / "none")]) == 2
    assert "no such history of runs" in capsys.readouterr().err


def test_triage_says_since_when_a_case_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = "ninfer_quantize/fp8_quantize_rows/scalar/T3.K129.f32/ties/0"
    events, db, crashes = tmp_path / "run", ["--db", str(tmp_path / "db")], tmp_path / "crashes"
    assert main(["check", case, "--fault", "divide", "--events", str(events), "--crash-dir", str(crashes)]) == 1
    assert main(["history", "add", str(events), *db]) == 0
    capsys.readouterr()
    (crash,) = crashes.glob("*.json")
    assert main(["triage", str(crash), *db]) == 1
    assert "history: on sim failed so since run 1 (run), 1 run; no run before" in capsys.readouterr().out
