"""Triage names the cause of a failure, and claims no proof that it does not have."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from triage_table import device, measured
from triage_truth import BY_HAND, cases, truths

from tileproof.conformance.cli import main
from tileproof.conformance.contract import Arrays, Contract, Right, Role, TensorSpec
from tileproof.conformance.faults import fault, faults
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.registry import contracts, find_case
from tileproof.conformance.triage.cause import OF_FINDING, Cause
from tileproof.conformance.triage.definitions import definitions
from tileproof.conformance.triage.explanation import Explanation, Strength
from tileproof.conformance.triage.moved import moved
from tileproof.conformance.triage.ratio import ratio
from tileproof.conformance.triage.references import references
from tileproof.conformance.triage.scene import Scene
from tileproof.conformance.triage.triage import observe, triage
from tileproof.conformance.triage.what_if import WhatIf, weigh
from tileproof.oracle.swizzle import Swizzle

CASE = "ninfer_linear/fp8_a8_gemm/cp-async/T9.N128.K384/normal/0"
SHAPE = (16, 32)

# One of a kind; the slow tests take all.
QUICK = (
    "divide",
    "tail-not-written",
    "missing-barrier",
    "model-divides",
    "swizzle-of-the-reader-differs",
    "w8a8-lowest-code-clamped",
    "pack-words-turned-and-bytes-not",
)


@pytest.mark.parametrize("name", QUICK)
def test_the_right_cause_comes_first(name: str) -> None:
    told = triage(observe(find_case(cases()[name]), device(name), fault=fault(name)))
    assert told[0].cause in truths(fault(name)), [str(one) for one in told]
    assert told[0].is_proof, [str(one) for one in told]


def test_a_case_that_passes_has_no_cause() -> None:
    scene = observe(find_case(CASE), device(""))
    assert scene.findings == ()
    assert [one.cause for one in triage(scene)] == [Cause.UNEXPLAINED]


def test_nearly_every_fault_has_a_truth_and_a_case() -> None:
    """A new fault may come without; it counts as one that is not named."""
    assert BY_HAND.keys() <= faults().keys()
    without = [name for name, one in faults().items() if not truths(one) or name not in cases()]
    assert 20 * len(without) <= len(faults()), without


def test_every_finding_but_a_wrong_value_names_its_cause() -> None:
    values = {FindingKind.MISMATCH, FindingKind.APPROXIMATE}
    assert set(OF_FINDING) == set(FindingKind) - values


@pytest.mark.slow
def test_the_right_cause_comes_first_for_nine_of_ten_faults_and_no_proof_is_false() -> None:
    rows = list(measured())
    wrong = [f"{row.fault}: {row.told[0]}" for row in rows if not row.is_right]
    wrong += [name for name in faults() if name not in cases()]
    assert 10 * len(wrong) <= len(faults()), wrong
    assert [row.fault for row in rows if row.false_proofs] == []


def scene_of(
    observed: np.ndarray[Any, Any],
    expected: np.ndarray[Any, Any],
    form: str = "FLOAT32",
) -> Scene:
    """One output, `out`."""
    spec = TensorSpec("out", "o", Role.OUTPUT, observed.dtype, form, observed.shape)
    contract: Contract = replace(contracts()["ninfer_linear"], tensors=lambda shape: (spec,))
    return Scene(
        contract=contract,
        case=find_case(CASE),
        arch="sm_90a",
        values={},
        outputs={"out": observed},
        findings=(),
        expected=lambda values, arch: {"out": expected},
    )


def numbers() -> np.ndarray[Any, Any]:
    """Different ones."""
    return np.random.default_rng(1).permutation(np.arange(1, 513)).astype(np.float32).reshape(SHAPE)


REARRANGED: Mapping[Cause, np.ndarray[Any, Any]] = {
    Cause.TRANSPOSED: np.ascontiguousarray(numbers().T).reshape(SHAPE),
    Cause.HALVES_SWAPPED: np.concatenate([numbers()[:, 16:], numbers()[:, :16]], axis=1),
}


@pytest.mark.parametrize("cause", [Cause.TRANSPOSED, Cause.HALVES_SWAPPED])
def test_elements_that_stand_elsewhere_are_proved_to(cause: Cause) -> None:
    told = list(moved(scene_of(REARRANGED[cause], numbers())))
    assert told[0].cause is cause
    assert told[0].is_proof


def test_a_shift_leaves_an_edge_and_so_is_no_proof() -> None:
    shifted = np.roll(numbers().reshape(-1), 3).reshape(SHAPE)
    shifted.reshape(-1)[:3] = -1
    told = list(moved(scene_of(shifted, numbers())))
    assert told[0].cause is Cause.SHIFTED
    assert told[0].strength is Strength.PARTIAL


def test_a_swizzle_at_a_wrong_base_is_found_with_the_offset() -> None:
    """A tile of bytes written with the 128-byte swizzle and read with it from 256 bytes on."""
    place = np.arange(4096)
    apply = Swizzle.tma(128).apply
    right = np.random.default_rng(2).integers(0, 256, 4096).astype(np.uint8)
    written = np.empty_like(right)
    written[apply(place)] = right
    read = written[apply(place + 256) - 256]
    told = list(moved(scene_of(read.reshape(32, 128), right.reshape(32, 128), "UINT8")))
    assert told[0].cause is Cause.PERMUTED
    assert told[0].is_proof
    assert "256" in told[0].text


def test_other_numbers_are_not_taken_for_moved_ones() -> None:
    assert not any(one.is_proof for one in moved(scene_of(numbers() + 1000, numbers())))
    assert not any(one.strength is Strength.PARTIAL for one in moved(scene_of(numbers() * 2 + 0.5, numbers())))


def test_a_factor_is_a_hint_and_never_a_proof() -> None:
    (whole,) = ratio(scene_of(numbers() * np.float32(0.72), numbers()))
    assert whole.cause is Cause.OTHER_SCALE
    assert "0.72" in whole.text
    assert not whole.is_proof
    (row,) = ratio(scene_of(numbers() * np.arange(1, 17, dtype=np.float32)[:, np.newaxis], numbers()))
    assert "one for a row" in row.text
    assert list(ratio(scene_of(numbers() + 100, numbers()))) == []
    assert list(ratio(scene_of(numbers(), numbers()))) == []


def rule(cause: Cause, out: np.ndarray[Any, Any]) -> WhatIf:
    return WhatIf(cause, "so", lambda: {"out": out})


def test_a_rule_that_predicts_every_bit_is_proved_and_one_that_misses_a_bit_is_not() -> None:
    observed = numbers() * 2
    scene = scene_of(observed, numbers())
    (proved,) = weigh(scene, [rule(Cause.ROUNDING, observed)])
    assert proved.strength is Strength.PROVED
    almost = observed.copy()
    almost[3, 4] += 1
    (hint,) = weigh(scene, [rule(Cause.ROUNDING, almost)])
    assert hint.strength is Strength.HINT
    assert (hint.explained, hint.contradicted) == (511, 1)
    assert list(weigh(scene, [rule(Cause.ROUNDING, numbers())])) == []


def test_two_causes_that_predict_every_bit_are_no_proof_of_either() -> None:
    observed = numbers() * 2
    told = list(
        weigh(scene_of(observed, numbers()), [rule(cause, observed) for cause in (Cause.STALE, Cause.ROUNDING)])
    )
    assert [one.cause for one in told] == [Cause.STALE, Cause.ROUNDING]
    assert [one.strength for one in told] == [Strength.ALIKE] * 2
    assert not any(one.is_proof for one in told)


def test_a_rule_that_says_nothing_of_an_output_proves_nothing_of_it() -> None:
    assert list(weigh(scene_of(numbers() * 2, numbers()), [WhatIf(Cause.STALE, "so", dict)])) == []


def test_the_reference_is_wrong_only_where_the_second_one_agrees_everywhere() -> None:
    scene = scene_of(numbers(), numbers() + 1)
    (told,) = references(replace(scene, second=lambda values, arch: {"out": numbers()}))
    assert (told.cause, told.strength) == (Cause.ORACLE, Strength.PROVED)
    nearly = numbers()
    nearly[0, 0] += 1
    assert list(references(replace(scene, second=lambda values, arch: {"out": nearly}))) == []
    assert list(references(scene)) == []


@pytest.mark.parametrize("name", ["truncates", "contraction-left-open"])
def test_the_reference_is_its_definition_where_the_kernel_is_wrong_and_a_wrong_one_is_seen(name: str) -> None:
    """Definitions in Python integers beside arrays, at elements that differ."""
    scene = observe(find_case(cases()[name]), device(name), fault=fault(name))
    assert list(definitions(scene)) == []
    tensor = next(name for name in scene.specs if scene.differing[name].any())

    def wrong(values: Arrays, arch: str) -> Right:
        right = {one: np.array(value) for one, value in scene.right.items()}
        right[tensor].view(f"u{right[tensor].dtype.itemsize}")[...] ^= 1
        return right

    (told,) = definitions(replace(scene, expected=wrong))
    assert (told.cause, told.strength) == (Cause.ORACLE, Strength.SEEN)
    assert triage(replace(scene, expected=wrong))[0].cause is Cause.ORACLE


def test_an_explanation_says_whether_it_is_a_proof() -> None:
    told = [Explanation(Cause.ROUNDING, "so", strength, 5, 7, 2) for strength in Strength]
    assert ["proof" in str(one).replace("no proof", "") or "proved" in str(one) for one in told] == [
        one.strength is Strength.PROVED for one in told
    ]
    assert all("no proof" in str(one) for one in told if not one.is_proof)


def test_the_command_explains_a_crash_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = cases()["truncates"]
    assert main(["check", case, "--fault", "truncates", "--schedule", "friendly", "--crash-dir", str(tmp_path)]) == 1
    (crash,) = tmp_path.glob("*.json")
    capsys.readouterr()
    assert main(["triage", crash.stem, "--crash-dir", str(tmp_path)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{crash.stem}  {case}"
    assert out[1].startswith(f"  1. {Cause.ROUNDING}: codes are cut toward zero")
    assert main(["triage", "nowhere", "--crash-dir", str(tmp_path)]) == 2
