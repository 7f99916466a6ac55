"""A mutant is killed by a finding, equivalent by a proof, or survives; a run goes on where it ended."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tileproof.conformance.cli import main
from tileproof.conformance.contract import Tier
from tileproof.conformance.finding import Finding, FindingKind
from tileproof.conformance.mutation.assembler import available
from tileproof.conformance.mutation.campaign import KERNELS, Campaign, Selection
from tileproof.conformance.mutation.mutant import Mutant
from tileproof.conformance.mutation.page import page
from tileproof.conformance.mutation.patch import Patch
from tileproof.conformance.mutation.result import Outcome, Result, read_results, write_results
from tileproof.conformance.mutation.summary import describe, ordering, rate, survivors
from tileproof.conformance.mutation.trial import Budget, Task, run_mutant
from tileproof.conformance.mutation.variant import own_files
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import run_case
from tileproof.conformance.selection import select
from tileproof.conformance.target import Coordinates, Schedule, Target
from tileproof.kernels.source import kernel_text
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.text.syntax import Immediate, Instruction

HERE = Coordinates(Target.SIM, schedule=Schedule.FRIENDLY)
KERNEL = "int8_gemm_scalar"
PREFIX = "metainfer_w8a8_gemm/int8_gemm/scalar/"


# One variant of the kernel, and few cases.
CASES = (f"{PREFIX}M[1-5].N?*.K[1-9][0-9].*nk8*",)


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    return Campaign(KERNEL, Selection(cases=CASES), HERE)


def decided(campaign: Campaign, mutant: Mutant, budget_s: float = 60.0) -> Result:
    module = campaign.reach.modules[mutant.variant]
    return run_mutant(Task(mutant, module, campaign.reach.cases(mutant)), HERE, Budget(budget_s))


def first(campaign: Campaign, operator: str, opcode: str) -> Mutant:
    return next(one for one in campaign.mutants if one.operator == operator and f"/{opcode}" in one.id)


def patched(mutant: Mutant, *instructions: Instruction) -> Mutant:
    return replace(mutant, id=f"{KERNEL}/by-hand", patch=Patch(mutant.patch.index, instructions))


def test_a_store_that_is_dropped_is_found_by_the_first_case(campaign: Campaign) -> None:
    result = decided(campaign, first(campaign, "drop-store", "st.global"))
    assert (result.outcome, result.kinds, result.property, result.tried) == (
        Outcome.KILLED, ("unwritten",), "P10", 1
    )  # fmt: skip
    assert result.case.startswith("metainfer_w8a8_gemm/int8_gemm/scalar/")
    assert result.file == "int8_epilogue.cuh" or result.file.startswith("int8_gemm_scalar")


def test_a_mutant_that_changes_nothing_is_proved_to_be_the_same(campaign: Campaign) -> None:
    mutant = first(campaign, "drop-store", "st.global")
    result = decided(campaign, patched(mutant, mutant.original))
    assert (result.outcome, result.reason) == (Outcome.EQUIVALENT, "same decoded form")
    assert result.tried == 2 * result.reaching, "every case under both schedules, before anything is proved"


def test_a_result_that_nothing_reads_is_proved_to_be_the_same(campaign: Campaign) -> None:
    mutant = first(campaign, "operation", "add.s32")
    unused = replace(mutant.original, operands=(*mutant.original.operands[:2], Immediate(77)))
    result = decided(campaign, patched(mutant, unused, mutant.original))
    assert result.outcome is (Outcome.EQUIVALENT if available() else Outcome.SURVIVED)
    assert not available() or result.reason.startswith("same machine code (nvJitLink 13.0, sm_90a)")


def test_a_mutant_that_a_case_would_kill_is_never_asked_to_be_proved(campaign: Campaign) -> None:
    mutant = first(campaign, "operation", "add.s32")
    assert decided(campaign, mutant).outcome is Outcome.KILLED


def test_what_the_device_does_not_model_is_refused_and_counts_as_no_kill(campaign: Campaign) -> None:
    mutant = first(campaign, "operation", "add.s32")
    wrong = replace(mutant.original, mnemonic="nonsense")
    result = decided(campaign, patched(mutant, wrong))
    assert result.outcome is Outcome.REFUSED
    assert "not modelled" in result.reason
    assert rate([result]).counted == 0


def test_a_mutant_whose_time_runs_out_is_unfinished_and_counts_against_the_suite(campaign: Campaign) -> None:
    result = decided(campaign, first(campaign, "drop-store", "st.global"), budget_s=0.0)
    assert (result.outcome, result.tried) == (Outcome.UNFINISHED, 0)
    assert (rate([result]).counted, rate([result]).killed) == (1, 0)


def test_cases_that_reach_an_instruction_come_cheapest_first(campaign: Campaign) -> None:
    found = campaign.reach.cases(first(campaign, "drop-store", "st.global"))
    costs = [campaign.reach.cost[case] for case in found]
    assert len(costs) >= 4
    assert costs == sorted(costs)
    assert all(case.route == "scalar" for case in found)


def test_a_run_goes_on_where_it_ended(campaign: Campaign, tmp_path: Path) -> None:
    few = Selection(operators=("drop-store", "negate-guard"), sample=4).of(campaign.mutants)
    campaign.mutants, before = few, campaign.mutants
    try:
        path = tmp_path / "results.ndjson"
        ran = list(campaign.run(path, jobs=1, budget=Budget(), minutes=None))
        assert {one.id for one in ran} == {one.id for one in few}
        assert read_results(path) == {one.id: one for one in ran}
        with path.open("a") as file:
            file.write('{"id": "cut o')
        assert list(campaign.run(path, jobs=1, budget=Budget(), minutes=None)) == []
        write_results(path, [replace(ran[0], ptx="another kernel"), replace(ran[1], outcome=Outcome.UNFINISHED)])
        again = list(campaign.run(path, jobs=1, budget=Budget(), minutes=None))
        assert len(again) == 4, "of another kernel, unfinished, and two that are missing"
        assert [replace(one, seconds=0) for one in read_results(path).values()] == [
            replace(one, seconds=0) for one in sorted(ran, key=lambda one: one.id)
        ]
    finally:
        campaign.mutants = before


def test_two_processes_decide_what_one_decides(campaign: Campaign, tmp_path: Path) -> None:
    few = Selection(operators=("drop-store", "negate-guard", "select"), sample=4).of(campaign.mutants)
    campaign.mutants, before = few, campaign.mutants
    try:
        both = [
            {
                one.id: (one.outcome, one.kinds, one.case, one.tried)
                for one in campaign.run(path, jobs=jobs, budget=Budget(), minutes=None)
            }
            for jobs, path in ((1, tmp_path / "one.ndjson"), (2, tmp_path / "two.ndjson"))
        ]
    finally:
        campaign.mutants = before
    assert both[0] == both[1]
    assert len(both[0]) == len(few)


def test_a_sample_is_the_beginning_of_every_longer_one(campaign: Campaign) -> None:
    short, long = (Selection(sample=count).of(campaign.mutants) for count in (5, 50))
    assert long[:5] == short
    assert {one.operator for one in long} > {one.operator for one in short}


def test_a_selection_that_matches_nothing_is_refused(campaign: Campaign) -> None:
    with pytest.raises(Refusal, match="no mutant is selected"):
        Selection(operators=("proxy",)).of(campaign.mutants)
    with pytest.raises(Refusal, match="unknown kernel 'int9'"):
        Campaign("int9", Selection(), HERE)


def test_a_kernel_that_fails_as_shipped_has_no_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    right = run_case(find_case(f"{PREFIX}M5.N9.K33.S0.nk8.xoff1.woff3/uniform/0"), Device())
    wrong = replace(right, findings=(Finding(FindingKind.RACE, "two threads", "race"),))
    monkeypatch.setattr("tileproof.conformance.mutation.reach.run_case", lambda case, device: wrong)
    with pytest.raises(Refusal, match="fails with the kernel as shipped: two threads"):
        Campaign(KERNEL, Selection(cases=CASES), HERE)


def test_every_kernel_that_a_contract_runs_can_be_mutated() -> None:
    shipped = {file.removesuffix(".cu") for file in own_files() if file.endswith(".cu")}
    assert shipped == KERNELS.keys()
    for globs in KERNELS.values():
        assert all(select((glob,), Tier.SMOKE) for glob in globs)


def made(number: int, operator: str, outcome: Outcome, **more: Any) -> Result:
    name = f"k/{operator}/{number}"
    return Result(name, "k", "k", operator, "int8_gemm_scalar.cu", 10 + number, 7, "p", outcome, **more)


RESULTS = (
    made(0, "drop-barrier", Outcome.KILLED, kinds=("race",), property="P17", tried=1, seconds=0.1),
    made(1, "drop-barrier", Outcome.SURVIVED, reaching=9),
    made(2, "bound", Outcome.KILLED, kinds=("mismatch",), property="P8", tried=3, seconds=0.5),
    made(3, "bound", Outcome.EQUIVALENT, reason="same machine code"),
    made(4, "swap", Outcome.REFUSED, reason="<no> & form"),
)


def test_equivalent_and_refused_mutants_leave_the_denominator_and_are_told() -> None:
    assert str(rate(RESULTS)) == "2 of 3 killed (66.7 %); 1 equivalent; 1 refused"
    assert str(rate(ordering(RESULTS))) == "1 of 2 killed (50.0 %)"
    assert [one.id for one in survivors(RESULTS)] == ["k/drop-barrier/1"]
    text = "\n".join(describe(RESULTS))
    for part in ("bound            1 of 1 killed", "P17              1  order of accesses", "int8_gemm_scalar.cu:11"):
        assert part in text


def test_the_page_marks_each_mutated_line_and_loads_nothing() -> None:
    text = page("int8_gemm_scalar", RESULTS)
    source = kernel_text("int8_gemm_scalar").splitlines()
    assert text.count('<span class="number">') == len(source)
    for number, mark in ((10, "killed"), (11, "survived"), (13, "equivalent"), (14, "refused")):
        assert f'<details id="int8_gemm_scalar.cu-{number}"' in text
        assert f'<summary class="{mark}"><span class="number">{number}</span>' in text
    assert "&lt;no&gt; &amp; form" in text, "what a result says is text, not markup"
    assert not any(word in text for word in ("http:", "https:", "src=", "<script", "@import"))


def test_the_command_kills_reports_and_says_so_by_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, html = tmp_path / "r.ndjson", tmp_path / "r.html"
    options = ["--case", *CASES, "--operator", "drop-store", "--results", str(path), "--html", str(html)]
    assert main(["mutate", KERNEL, *options]) == 0
    out = capsys.readouterr().out
    assert "killed by property" in out
    assert "100.0 %" in out
    assert html.read_text().startswith("<!DOCTYPE html>")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    write_results(path, [replace(one, outcome=Outcome.SURVIVED) for one in read_results(path).values()])
    assert main(["mutate", KERNEL, *options]) == 1
    assert "survivors" in capsys.readouterr().out
    assert {json.loads(line)["variant"] for line in path.read_text().splitlines()} == {f"{KERNEL}<NMajor>"}
    assert main(["mutate", KERNEL, *options, "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(lines)
