"""The script that records the order table on a GPU, with a launcher and a tool that only play their part."""

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from table import PAIRS

SCRIPT = Path(__file__).parents[1] / "h200" / "order_table.py"

#: Kernel 3 ends the process, 7 is silent for ever, 9 leaves the tool without its summary, 11 lets the first one stall.
LAUNCHER = """
import os, sys, time
lines = open(sys.argv[2]).read().splitlines()[1:]
stalled = os.path.join(os.path.dirname(sys.argv[2]), "stalled")
if lines[0].startswith("11 ") and not os.path.exists(stalled):
    open(stalled, "w").close()
    time.sleep(60)
print("@@ process", os.getpid(), flush=True)
for line in lines:
    index = int(line.split()[0])
    print("@@", index, flush=True)
    if index == 3:
        print("!! CUDA_ERROR_LAUNCH_FAILED", flush=True)
        sys.exit(3)
    if index == 7:
        time.sleep(60)
    if sys.argv[1] == "values":
        print("##", 100 + index, flush=True)
print("@@ done", flush=True)
"""
TOOL = """
import subprocess, sys
arguments = sys.argv[1:]
tool, log = arguments[arguments.index("--tool") + 1], arguments[arguments.index("--log-file") + 1]
place = arguments.index(sys.executable)
manifest = open(arguments[-1]).read().splitlines()[1:]
again = "--racecheck-report" in arguments
code = subprocess.run(arguments[place:]).returncode
with open(log, "w") as out:
    if tool == "initcheck":
        print("========= Device not supported", file=out)
        sys.exit(1)
    print("========= COMPUTE-SANITIZER", file=out)
    for line in manifest:
        name = line.split()[1]
        if tool == "racecheck" and name == "k001_wrong" or again:
            print(f"========= Error: Race reported between Write access at {name}+0x90 in k.cu:5", file=out)
            print(f"=========     and Read access at {name}+0xa0 in k.cu:6 [4 hazards]", file=out)
            print("=========", file=out)
    if tool == "memcheck" and code == 3:
        print("========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719).", file=out)
    if not any(line.startswith("9 ") for line in manifest):
        print("========= ERROR SUMMARY: 0 errors", file=out)
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("h200_order_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for name in ("SILENCE_S", "VALUES_SILENCE_S", "BEGIN_SILENCE_S", "LAST_WORDS_S"):
        vars(module)[name] = 1.0
    return module


@pytest.fixture
def bench(script: ModuleType, tmp_path: Path) -> Any:
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    tool = tmp_path / "tool"
    tool.write_text(f"#!{sys.executable}\n{TOOL}")
    tool.chmod(0o755)
    return script.Bench(tmp_path, [sys.executable, str(tmp_path / "launcher.py")], str(tool))


def known(script: ModuleType, bench: Any, tool: str, kernels: tuple[int, ...]) -> dict[int, Any]:
    found = script.run_all([script.Task(tool, "wrong", kernels)], bench, 3, time.monotonic() + 60)
    return {index: getattr(word, "said", word) for (_, _, index), word in found.items()}


def test_values_go_on_behind_a_kernel_that_ends_or_does_not_end(script: ModuleType, bench: Any) -> None:
    assert known(script, bench, "values", (1, 3, 5, 7, 8)) == {
        1: 101, 3: "CUDA_ERROR_LAUNCH_FAILED", 5: 105, 7: "it did not end", 8: 108,
    }  # fmt: skip


def test_a_report_goes_to_the_kernel_that_it_names(script: ModuleType, bench: Any) -> None:
    said = known(script, bench, "racecheck", (0, 1, 2))
    assert said[0] == said[2] == ""
    assert said[1] == (
        "Error: Race reported between Write access at k+0x90 in k.cu:5 and Read access at k+0xa0 in k.cu:6 [4 hazards]"
    )


def test_a_report_that_names_no_kernel_goes_to_the_one_that_ended_the_process(script: ModuleType, bench: Any) -> None:
    said = known(script, bench, "memcheck", (2, 3, 4))
    assert said[3].startswith("Program hit CUDA_ERROR_LAUNCH_FAILED")
    assert said[2] == said[4] == ""


def test_a_kernel_that_ends_the_process_without_a_word_is_not_silent(script: ModuleType, bench: Any) -> None:
    assert known(script, bench, "synccheck", (2, 3)) == {2: "", 3: "CUDA_ERROR_LAUNCH_FAILED"}
    assert known(script, bench, "synccheck", (7, 8)) == {7: "it did not end", 8: ""}


def test_kernels_of_a_process_that_the_tool_left_without_a_summary_come_alone(script: ModuleType, bench: Any) -> None:
    said = known(script, bench, "racecheck", (8, 9))
    assert said[8] == ""
    assert said[9].startswith("Error: Race reported")  # the second try has it


def test_a_process_that_never_began_is_tried_once_more(script: ModuleType, bench: Any) -> None:
    assert known(script, bench, "synccheck", (11, 12)) == {11: "", 12: ""}
    assert [log.count("again=True") for log in bench.logs] == [0, 1]


def test_a_tool_that_is_blind_leaves_all_unknown(script: ModuleType, bench: Any) -> None:
    assert known(script, bench, "initcheck", (0, 1)) == {}


def test_what_there_is_no_time_for_is_unknown(script: ModuleType, bench: Any) -> None:
    assert script.run_all(script.tool_tasks(PAIRS[:8]), bench, 3, time.monotonic() - 1) == {}
    row = script.row(0, PAIRS[0], {})
    assert row["wrong_values"] is None
    assert row["wrong"] == dict.fromkeys(script.TOOLS)
    assert "lines" not in row


def test_every_tool_gets_every_kernel_of_both_sides_and_those_that_may_hang_come_last(script: ModuleType) -> None:
    tasks = script.tool_tasks(PAIRS)
    every = [(task.tool, task.side, kernel) for task in tasks for kernel in task.kernels]
    assert len(every) == len(set(every)) == 4 * 2 * len(PAIRS)
    assert tasks[0].side == "wrong"
    hanging = sum(pair.may_hang for pair in PAIRS)
    assert hanging
    assert all(PAIRS[task.kernels[0]].may_hang and len(task.kernels) == 1 for task in tasks[-4 * hanging :])


def test_what_the_tools_wrote_is_kept(script: ModuleType, bench: Any) -> None:
    known(script, bench, "racecheck", (0, 1))
    assert "racecheck" in bench.logs[0]
    assert "Race reported" in bench.logs[0]


def test_a_row_keeps_words_lines_and_counts(script: ModuleType) -> None:
    word = script.Word("Race", ["Race", "  and"])
    row = script.row(
        4,
        PAIRS[4],
        {("racecheck", "wrong", 4): word, ("values", "wrong", 4): 7, ("values", "right", 4): script.Word("end")},
    )
    assert row["wrong"]["racecheck"] == "Race"
    assert row["lines"] == {"wrong, racecheck": ["Race", "  and"]}
    assert (row["wrong_values"], row["right_values"], row["right_ended"]) == (7, None, "end")


def test_words_of_an_older_evidence_are_kept_for_the_same_kernels_and_not_asked_for_again(script: ModuleType) -> None:
    word = script.Word("Race", ["Race"])
    row = script.row(4, PAIRS[4], {("racecheck", "wrong", 4): word, ("memcheck", "right", 4): script.Word("")})
    known = script.words_of({"rows": [row]})
    assert known == {("racecheck", "wrong", 4): word, ("memcheck", "right", 4): script.Word("")}
    left = {(task.tool, task.side, kernel) for task in script.tool_tasks(PAIRS, known) for kernel in task.kernels}
    assert len(left) == 8 * len(PAIRS) - 2
    assert not left & set(known)
    assert script.words_of({"rows": [{**row, "digest": "other"}]}) == {}


def test_machine_code_for_the_gpu_comes_without_line_information(script: ModuleType) -> None:
    text = script.texts()["k000_wrong"]
    bare = script.bare(text)
    assert ".loc" in text
    assert not any(word in bare for word in (".loc", ".file", ".debug"))
    assert [line for line in text.splitlines() if "shared.u32" in line] == [
        line for line in bare.splitlines() if "shared.u32" in line
    ]
