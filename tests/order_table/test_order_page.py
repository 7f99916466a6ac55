import json
from pathlib import Path
from typing import Any

import order_page
import pytest
from order_page import EVIDENCE, both, counts, line, rows_of, short, values, ward
from record_device import RIGHT_SEEDS, WRONG_SEEDS
from table import PAIRS

PAIR = PAIRS[0]


@pytest.mark.parametrize(
    ("said", "cell"),
    [
        (None, "not run"),
        ("", "–"),
        ("Error: Race reported between Write access at k+0x100 and Read access at k+0x110 [512 hazards]", "race"),
        ("Warning: Race reported between Write access at k+0x100 and Read access at k+0x110", "race (warning)"),
        ("Barrier error detected. Divergent thread(s) in block.", "barrier error"),
        ("Potential invalid __shared__ write of size 4 bytes", "early or late access"),
        ("it did not end", "does not end"),
        ("CUDA_ERROR_LAUNCH_FAILED", "GPU error"),
        ("words | that nobody foresaw, and which are longer than a cell", "words / that nobody foresaw, and which a"),
    ],
)
def test_a_cell_is_short_and_unknown_words_stay(said: str | None, cell: str) -> None:
    assert short(said) == cell


@pytest.mark.parametrize(
    ("said", "cell"),
    [
        (None, "not run"),
        ("race_free", "–"),
        ("potential_race", "race"),
        ("unsupported: control_predicate_not_static", "unsupported"),
        ("a new result", "a new result"),
    ],
)
def test_a_verdict_of_sentryward_is_a_cell(said: str | None, cell: str) -> None:
    assert ward(said) == cell


def test_a_cell_has_both_kernels_or_one_word_for_them() -> None:
    assert both("race", "–") == "race / –"
    assert both("–", "–") == "–"


@pytest.mark.parametrize(
    ("row", "cell"),
    [
        ({"wrong_values": 3000}, "3,000"),
        ({"wrong_values": 0}, "0"),
        ({"wrong_values": None, "wrong_ended": "it did not end"}, "does not end"),
        ({"wrong_values": None}, "not run"),
        ({"wrong_values": 2, "wrong_values_in_turn": 1668}, "2; in turn 1,668"),
        ({"wrong_values": None, "wrong_ended": "it did not end", "wrong_values_in_turn": 0}, "does not end; in turn 0"),
        ({}, "not run"),
    ],
)
def test_values_are_a_count_or_say_why_there_is_none(row: dict[str, Any], cell: str) -> None:
    assert values(row) == cell


def test_evidence_of_another_kernel_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    row = {"name": PAIR.name, "digest": PAIR.digest}
    path.write_text(json.dumps({"rows": [row, {"name": "gone", "digest": "x"}]}))
    assert rows_of(path, PAIRS) == {PAIR.name: row}
    path.write_text(json.dumps({"rows": [{**row, "digest": "of another text"}, {"name": PAIRS[1].name}]}))
    assert rows_of(path, PAIRS) == {}


def test_a_row_without_evidence_says_so_in_every_cell() -> None:
    cells = line(PAIR, {}, {}, {}).strip("| ").split(" | ")
    assert cells == [PAIR.name, PAIR.edge, *["not run"] * 7]


def test_where_no_value_can_be_wrong_none_was() -> None:
    gpu = rows_of(EVIDENCE / "h200-2026-11-30" / "order_table.json", PAIRS)
    invisible = [pair for pair in PAIRS if not pair.visible]
    assert invisible
    for pair in invisible:
        assert line(pair, {}, gpu, {}).endswith("| none can be |")
        assert gpu[pair.name]["wrong_values"] in (0, None)


def test_the_counts_leave_out_what_was_not_run() -> None:
    said = {"memcheck": "", "racecheck": "Error: Race reported", "initcheck": None, "synccheck": ""}
    gpu = {"a": {"wrong": said, "right": said, "wrong_values": 5, "right_values": 0}}
    ours = {
        "a": {"wrong": {"as_expected": 51, "launches": 51}, "right": {"as_expected": 200, "launches": 201}},
        "b": {"wrong": {"as_expected": 50, "launches": 51}, "right": {"as_expected": 201, "launches": 201}},
    }
    lines = counts(ours, gpu, {"a": {"wrong": "unsupported: x", "right": "race_free"}}).splitlines()[2:]
    assert lines == [
        "| tileproof, every schedule | 1 of 2 | 1 of 2 |",
        "| memcheck | 0 of 1 | 0 of 1 |",
        "| racecheck | 1 of 1 | 1 of 1 |",
        "| initcheck | 0 of 0 | 0 of 0 |",
        "| synccheck | 0 of 1 | 0 of 1 |",
        "| SentryWard | 0 of 0 | 0 of 1 |",
        "| a wrong value on the H200 | 1 of 1 | 0 of 1 |",
    ]


@pytest.mark.parametrize("name", ["cpu_device", "h200-2026-11-30", "sentryward-0.1.1"])
def test_the_evidence_covers_the_table(name: str) -> None:
    assert list(rows_of(EVIDENCE / name / "order_table.json", PAIRS)) == [pair.name for pair in PAIRS]


def test_the_record_of_the_cpu_device_has_every_launch_as_expected() -> None:
    for row in rows_of(EVIDENCE / "cpu_device" / "order_table.json", PAIRS).values():
        assert row["wrong"]["as_expected"] == row["wrong"]["launches"] == WRONG_SEEDS + 1, row["name"]
        assert row["right"]["as_expected"] == row["right"]["launches"] == RIGHT_SEEDS + 1, row["name"]


def test_the_page_has_every_row() -> None:
    page = order_page.page()
    assert all(f"\n| {pair.name} | {pair.edge} |" in page for pair in PAIRS)
