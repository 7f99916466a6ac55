import pytest

from tileproof.conformance import sanitizer_words
from tileproof.conformance.sanitizer_words import blind, reports, summary

RACE = """========= COMPUTE-SANITIZER
hello from the program
========= Error: Race reported between Write access at k005_wrong+0x90 in k.cu:105
=========     and Read access at k005_wrong+0xd0 in k.cu:107 [124 hazards]
=========
========= Warning: Race reported between Read access at k006_wrong+0x10 in k.cu:1
=========     and Write access at k006_wrong+0x30 in k.cu:2 [4 hazards]
=========     and Write access at k006_wrong+0x50 in k.cu:3 [4 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
BARRIER = """========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at k004_right+0x120 in k.cu:9
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""


def test_each_race_is_a_report_with_its_accesses() -> None:
    first, second = reports(RACE)
    assert first.said == (
        "Error: Race reported between Write access at k005_wrong+0x90 in k.cu:105"
        " and Read access at k005_wrong+0xd0 in k.cu:107 [124 hazards]"
    )
    assert len(second.below) == 2
    assert "k006_wrong" in second.text


def test_a_report_that_is_no_race_is_its_first_line() -> None:
    (report,) = reports(BARRIER)
    assert report.said == "Barrier error detected. Divergent thread(s) in block."
    assert report.below[0] == "at k004_right+0x120 in k.cu:9"


def test_the_lines_that_are_kept_are_few_and_short() -> None:
    kept = sanitizer_words.lines(reports(RACE * 9))
    assert kept[1] == "  and Read access at k005_wrong+0xd0 in k.cu:107 [124 hazards]"
    assert len(kept) == 12
    assert len(sanitizer_words.lines([sanitizer_words.Report("x" * 999, ())])[0]) == 160


@pytest.mark.parametrize(
    "line",
    [
        "Error: process didn't terminate successfully",
        "Target application returned an error",
        "ERROR SUMMARY: 0 errors",
        "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)",
        "COMPUTE-SANITIZER",
    ],
)
def test_what_the_tool_says_of_itself_or_of_the_end_is_no_report(line: str) -> None:
    assert reports(f"========= {line}\n=========     The application may have hit an error\n") == ()


def test_what_the_program_writes_is_no_report() -> None:
    assert reports("Race reported between\n== Error: Race\n") == ()


@pytest.mark.parametrize(
    ("log", "count"), [(RACE, 2), (BARRIER, 1), ("========= COMPUTE-SANITIZER\n", None), ("", None)]
)
def test_the_summary_counts_or_is_missing(log: str, count: int | None) -> None:
    assert summary(log) == count


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("", True),
        ("no tool of that name\n", True),
        ("========= Error: Target application terminated before first instrumented API call\n", True),
        ("========= Error: No attachable process found. compute-sanitizer timed-out.\n", True),
        ("========= Device not supported\n", True),
        (RACE, False),
        ("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", False),
    ],
)
def test_a_tool_that_saw_nothing_is_not_silent_but_blind(log: str, expected: bool) -> None:
    assert blind(log) is expected
