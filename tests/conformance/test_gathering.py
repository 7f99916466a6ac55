"""One bug on several shapes is told as one failure; two bugs are told as two."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tileproof.conformance.cli import main
from tileproof.conformance.compare import compare_bits, explaining_class, where_words
from tileproof.conformance.contract import TensorSpec
from tileproof.conformance.events import CaseExplained, FindingFound
from tileproof.conformance.failure import describe_failure
from tileproof.conformance.finding import Finding, FindingKind, Place, Proof, Why
from tileproof.conformance.gathering import Failure, gather
from tileproof.conformance.registry import contract_of, find_case
from tileproof.conformance.target import Coordinates, Target

ROWS = "ninfer_quantize/fp8_quantize_rows"
SIM = Coordinates(Target.SIM)
ONE, TWO, THREE = (f"{ROWS}/scalar/T{t}.K{k}.bf16/ties/0" for t, k in ((1, 1), (2, 9), (3, 17)))
VECTOR = f"{ROWS}/vector/T1.K64.bf16/ties/0"
PROVED = Why(Proof.PROVED, "another rounding: ties go away from zero", "proved: explains 8 of 8")
OTHER = Why(Proof.PROVED, "elements are shifted: by one column", "proved: explains 8 of 8")
SEEN = Why(Proof.SEEN, "elements are never written", "seen")
GUESS = Why(Proof.GUESS, "elements are shifted: by one column", "no proof: explains 3 of 8")


def spec(case: str, name: str) -> TensorSpec:
    one = find_case(case)
    return next(spec for spec in contract_of(one).tensors(one.shape) if spec.name == name)


def wrong(case: str, name: str = "codes", *, all_of_it: bool = False, steps: int = 1) -> FindingFound:
    """The last element of each row of an output differs, or every element."""
    tensor = spec(case, name)
    expected = np.full(tensor.shape, 0x30, f"u{tensor.dtype.itemsize}")
    observed = expected.copy()
    observed[... if all_of_it else (..., -1)] += steps
    last = np.zeros(tensor.shape, np.bool_)
    last[..., -1] = True
    found = compare_bits(tensor, expected, observed, classes={"the last column": last})
    assert found is not None
    return FindingFound(case, (Target.SIM,), "ABCDEFG", found)


def of_line(case: str, kind: FindingKind, line: int) -> FindingFound:
    found = Finding(kind, f"{kind} at {line}", f"{kind}/k.cu:{line}", place=Place(line, "k.cu", line, (), 1))
    return FindingFound(case, (Target.SIM,), "ABCDEFG", found)


def explained(case: str, why: Why) -> CaseExplained:
    return CaseExplained(case, Target.SIM, why)


def signatures(found: Sequence[FindingFound]) -> set[str]:
    return {one.finding.signature for one in found}


def test_a_dropped_tail_of_several_shapes_is_one_failure_with_all_its_cases() -> None:
    found = [wrong(ONE), wrong(TWO), wrong(THREE), wrong(THREE, steps=3)]
    assert len(signatures(found)) == 4, "everywhere, in several classes, in the last column; one step, many"
    (failure,) = gather(found)
    assert failure.cases == {ONE, TWO, THREE}
    assert failure.head.smallest.case == ONE
    told = describe_failure(failure, (SIM,))
    assert [line for line in told if line.startswith("      alike  ")]
    assert "      3 cases fail here, by one bug or by several; this is the smallest" in told


def test_cases_are_said_to_fail_alike_where_their_signature_or_a_proof_is_one() -> None:
    same = [wrong(TWO), wrong(THREE, all_of_it=True)]
    reasons = [explained(one.case, PROVED) for one in same]
    one_signature = [same[0], replace(same[0], case=THREE)]
    for found, why, words in (
        (one_signature, [], "fail alike"),
        (same, reasons, "fail alike"),
        (same, [], "fail here, by one bug or by several"),
    ):
        (failure,) = gather(found, why)
        assert f"      2 cases {words}; this is the smallest" in describe_failure(failure, (SIM,))


@pytest.mark.parametrize("seed", range(5))
def test_failures_are_the_same_in_whatever_order_cases_end(seed: int) -> None:
    found = [wrong(ONE), wrong(TWO), wrong(THREE), wrong(VECTOR), wrong(TWO, "scales"), wrong(THREE, "scales")]
    found += [of_line(TWO, FindingKind.RACE, 3), of_line(THREE, FindingKind.UNINITIALISED, 4)]
    shuffled = random.Random(seed).sample(found, len(found))
    assert gather(shuffled) == gather(found)


def test_another_output_is_another_failure() -> None:
    assert len(gather([wrong(TWO), wrong(THREE, "scales")])) == 2


def test_another_route_is_another_failure_unless_the_same_is_proved_of_both() -> None:
    found = [wrong(TWO), wrong(VECTOR, all_of_it=True)]
    assert len(signatures(found)) == 2
    assert len(gather(found)) == 2
    assert len(gather(found, [explained(TWO, PROVED), explained(VECTOR, GUESS)])) == 2
    (failure,) = gather(found, [explained(TWO, PROVED), explained(VECTOR, PROVED)])
    assert failure.cases == {TWO, VECTOR}


def test_different_causes_that_are_proved_are_different_failures() -> None:
    found = [wrong(TWO), wrong(ONE)]
    assert len(gather(found, [explained(TWO, PROVED), explained(ONE, OTHER)])) == 2
    assert len(gather(found, [explained(TWO, PROVED), explained(ONE, GUESS)])) == 1, "a guess parts nothing"


def test_a_third_signature_does_not_join_two_that_are_proved_to_be_different() -> None:
    found = [wrong(TWO), wrong(ONE), wrong(THREE, steps=3)]
    failures = gather(found, [explained(TWO, PROVED), explained(ONE, OTHER)])
    assert len(failures) == 2
    assert sum(len(failure.cases) for failure in failures) == 3


def test_the_best_explanation_is_told_and_of_which_case_it_is() -> None:
    (failure,) = gather([wrong(ONE), wrong(TWO)], [explained(ONE, GUESS), explained(TWO, PROVED)])
    assert failure.explained is not None
    assert failure.explained.why is PROVED
    assert any(f"said of {TWO}" in line for line in describe_failure(failure, (SIM,)))


def test_other_lines_of_code_and_other_kinds_are_other_failures() -> None:
    found = [of_line(ONE, FindingKind.RACE, 3), of_line(TWO, FindingKind.RACE, 4), of_line(TWO, FindingKind.ASYNC, 4)]
    assert len(gather(found)) == 2, "a race folds into what the same case has of an earlier cause"
    assert len(gather([wrong(ONE), unwritten(TWO)])) == 2, "no case has both"


def unwritten(case: str) -> FindingFound:
    found = wrong(case)
    message = "codes: 1 of 2 elements never written"
    finding = Finding(FindingKind.UNWRITTEN, message, "unwritten/codes/x", "codes", found.finding.mismatch)
    return FindingFound(case, (Target.SIM,), "ABCDEFG", finding)


def test_what_is_never_written_and_what_is_wrong_in_the_same_cases_is_one_failure() -> None:
    """Once a stride that was ignored came out as four failures."""
    found = [wrong(ONE), unwritten(TWO), wrong(TWO), unwritten(THREE)]
    (failure,) = gather(found)
    assert failure.head.kind is FindingKind.UNWRITTEN
    assert failure.cases == {ONE, TWO, THREE}
    assert len(gather(found, [explained(ONE, PROVED), explained(TWO, SEEN), explained(THREE, SEEN)])) == 2
    assert len(gather([*found, unwritten(ONE)], [explained(one, SEEN) for one in (ONE, TWO, THREE)])) == 1


def test_causes_that_were_seen_of_different_cases_part_nothing() -> None:
    found = [wrong(ONE), wrong(TWO)]
    other = Why(Proof.SEEN, "bytes outside the outputs' elements are written", "seen")
    assert len(gather(found, [explained(ONE, SEEN), explained(TWO, other)])) == 1


def test_what_follows_is_told_once_for_each_output_with_the_number_of_its_cases() -> None:
    races = [of_line(case, FindingKind.RACE, 3) for case in (ONE, TWO, THREE)]
    (failure,) = gather([*races, wrong(ONE), wrong(TWO), wrong(THREE), wrong(TWO, "scales")])
    also = [(group.smallest.finding.tensor, len(group.cases)) for group in failure.also]
    assert also == [("codes", 3), ("scales", 1)]


def test_what_differs_from_launch_to_launch_is_apart_from_what_is_wrong() -> None:
    found = wrong(TWO)
    unstable = replace(found.finding, signature="mismatch/codes/not repeatable")
    assert len(gather([wrong(ONE), replace(found, finding=unstable)])) == 2


def told(found: FindingFound) -> str:
    (failure,) = gather([found])
    assert isinstance(failure, Failure)
    return "\n".join(describe_failure(failure, (SIM,)))


def test_an_element_that_was_never_written_has_no_distance_from_the_right_value() -> None:
    text = told(unwritten(THREE))
    assert "3 of 51 were never written; all are the last column (3 of 3)" in text
    assert "steps of the format" not in text
    assert "poison " in text
    assert "observed" not in text


def test_a_class_that_chance_alone_would_do_is_said_to_be_that() -> None:
    """Once it was told "in several classes" beside "all are the last column"."""
    found = wrong(TWO)
    assert found.finding.signature.endswith("in several classes")
    assert "too few to say in which class" in found.finding.message
    text = told(found)
    assert "in several classes" not in text
    assert "all are the last column (2 of 2), which may be chance" in text
    assert "which may be chance" not in told(wrong(THREE))


def test_words_for_a_person_name_a_class_where_the_signature_does() -> None:
    differs, first = np.zeros((2, 64), np.bool_), np.zeros((2, 64), np.bool_)
    differs[:, 0] = first[:, 0] = True
    assert explaining_class(differs, {"the first column": first}) == where_words(differs, {"the first column": first})
    differs[0, 5] = True
    assert where_words(differs, {"the first column": first}) == "in several classes"


def test_a_fault_of_the_tail_is_one_failure_over_its_shapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cases = [f"{ROWS}/scalar/T{t}.K{k}.bf16/ties/0" for t, k in ((1, 1), (1, 7), (2, 9), (3, 17), (2, 33))]
    assert main(["check", "--fault", "ties-away", *cases]) == 1
    assert capsys.readouterr().out.count("FAIL  ") == 1
