"""A right kernel has no finding, and each way of being wrong has a finding of its own kind."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from numpy_device import Behaviour, NumpyDevice, Rows, right

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Tier
from tileproof.conformance.finding import Finding, FindingKind
from tileproof.conformance.ninfer_quantize import NINFER_QUANTIZE
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import CaseResult, run_case
from tileproof.kernels import fp8_quantize_rows
from tileproof.oracle.refusal import Refusal

PADDED = find_case("ninfer_quantize/fp8_quantize_rows/vector/T3.K43.bf16.xpad5.cpad5/on-grid/0")
PLAIN = find_case("ninfer_quantize/fp8_quantize_rows/scalar/T3.K43.f32/on-grid/0")


def run(behaviour: Behaviour, case: Case = PADDED) -> CaseResult:
    device = NumpyDevice(behaviour)
    result = run_case(case, device)
    assert not device.memory, "every buffer is given back"
    return result


def only(result: CaseResult) -> Finding:
    assert len(result.findings) == 1, result.findings
    return result.findings[0]


def after_right(change: Callable[[Rows], None]) -> Behaviour:
    def behaviour(rows: Rows) -> None:
        right(rows)
        change(rows)

    return behaviour


@pytest.mark.parametrize("tier", Tier)
def test_the_oracle_as_a_kernel_has_no_finding_on_any_case(tier: Tier) -> None:
    device = NumpyDevice()
    for case in NINFER_QUANTIZE.cases(tier):
        result = run_case(case, device)
        assert result.findings == (), f"{case}: {result.findings}"
        assert result.route == case.route


def test_a_case_runs_twice_and_an_empty_one_not_at_all() -> None:
    for text, launches in ((str(PADDED), 2), ("ninfer_quantize/fp8_quantize_rows/empty/T0.K5.f32/on-grid/0", 0)):
        device = NumpyDevice()
        run_case(find_case(text), device)
        assert device.launches == launches


def test_one_flipped_bit_is_one_mismatch_with_its_evidence() -> None:
    def flip(rows: Rows) -> None:
        rows.codes[1, 17] ^= 1

    finding = only(run(after_right(flip)))
    assert finding.kind is FindingKind.MISMATCH
    assert finding.tensor == "codes"
    evidence = finding.mismatch
    assert evidence is not None
    assert (evidence.index, evidence.count, evidence.of, evidence.largest_step) == ((1, 17), 1, 3 * 43, 1)
    assert int(evidence.expected.raw, 16) ^ int(evidence.observed.raw, 16) == 1
    assert [witness.name for witness in evidence.witnesses] == ["x[1,17]", "scales[1]"]
    assert [witness.bits.format for witness in evidence.witnesses] == ["BFLOAT16", "FLOAT32"]
    assert [line.index("+") if "+" in line else line.find("#") for line in evidence.map[1:]] == [-1, 17, -1]


def test_a_wrong_sign_of_zero_is_a_mismatch() -> None:
    case = find_case("ninfer_quantize/fp8_quantize_rows/scalar/T4.K43.f16/zero-rows/0")

    def negate_zeros(rows: Rows) -> None:
        rows.codes[...] = np.where(rows.codes == 0, 0x80, rows.codes)

    assert "mismatch/codes/sign" in only(run(after_right(negate_zeros), case)).signature


def test_a_scale_one_ulp_off_is_a_mismatch_of_scales() -> None:
    def nudge(rows: Rows) -> None:
        rows.scales[2] = np.nextafter(rows.scales[2], np.float32(1e30))

    finding = only(run(after_right(nudge)))
    assert (finding.kind, finding.tensor) == (FindingKind.MISMATCH, "scales")
    assert finding.mismatch is not None
    assert finding.mismatch.index == (2,)


def test_an_unwritten_element_is_told_apart_from_a_wrong_one() -> None:
    def without_last_column(rows: Rows) -> None:
        kept = rows.codes[:, -1].copy()
        right(rows)
        rows.codes[:, -1] = kept

    finding = only(run(without_last_column))
    assert finding.kind is FindingKind.UNWRITTEN
    assert finding.mismatch is not None
    assert (finding.mismatch.count, finding.mismatch.index) == (3, (0, 42))
    assert finding.signature == "unwritten/codes/only in the ragged tail (K mod 8)"


@pytest.mark.parametrize("poison", [0xA5, 0x5A])
def test_a_constant_that_equals_a_poison_is_a_mismatch_and_not_unwritten(poison: int) -> None:
    def constant(rows: Rows) -> None:
        right(rows)
        rows.codes[0, 0] = poison

    assert only(run(constant)).kind is FindingKind.MISMATCH


def test_an_unwritten_scale_is_seen_byte_by_byte() -> None:
    def half_a_scale(rows: Rows) -> None:
        kept = rows.scales.view(np.uint8)[4:6].copy()
        right(rows)
        rows.scales.view(np.uint8)[4:6] = kept

    finding = only(run(half_a_scale))
    assert (finding.kind, finding.tensor) == (FindingKind.UNWRITTEN, "scales")


@pytest.mark.parametrize("case", [PADDED, PLAIN])
@pytest.mark.parametrize("tensor", ["codes", "scales"])
@pytest.mark.parametrize("at", [-1, 0])
def test_a_byte_in_a_red_zone_is_a_canary(case: Case, tensor: str, at: int) -> None:
    def write(rows: Rows) -> None:
        buffer = list(rows.memory.values())[("x", "codes", "scales").index(tensor)]
        buffer[at] ^= 0xFF

    finding = only(run(after_right(write), case))
    assert (finding.kind, finding.tensor) == (FindingKind.CANARY, tensor)
    assert ("after the last" if at else "before the first") in finding.message


def test_a_byte_between_rows_is_a_canary() -> None:
    def write(rows: Rows) -> None:
        np.lib.stride_tricks.as_strided(rows.codes, (3, 44), rows.codes.strides)[0, 43] = 1

    finding = only(run(after_right(write)))
    assert finding.kind is FindingKind.CANARY
    assert "the gap between rows" in finding.message


@pytest.mark.parametrize("where", ["element", "gap"])
def test_a_changed_input_is_found_in_elements_and_in_padding(where: str) -> None:
    def write(rows: Rows) -> None:
        raw = rows.x.view(np.uint16)
        np.lib.stride_tricks.as_strided(raw, (3, 48), raw.strides)[0, 3 if where == "element" else 43] ^= 1

    finding = only(run(after_right(write)))
    assert (finding.kind, finding.tensor) == (FindingKind.INPUT_CHANGED, "x")


@pytest.mark.parametrize("value", [0, 1e30])
def test_a_kernel_that_reads_padding_is_found_whatever_it_does_with_nan(value: float) -> None:
    def reads_a_column_too_many(rows: Rows) -> None:
        x = np.lib.stride_tricks.as_strided(rows.x, (3, 44), rows.x.strides)
        with np.errstate(invalid="ignore"):
            amax = np.fmax.reduce(np.abs(x.astype(np.float32)), axis=1)
        right(rows)
        rows.scales[...] = amax / np.float32(448)

    finding = only(run(reads_a_column_too_many))
    assert (finding.kind, finding.tensor) == (FindingKind.MISMATCH, "scales")
    assert finding.signature.endswith("not repeatable")


def test_another_route_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fp8_quantize_rows, "select_route", lambda x, codes: "scalar")
    finding = only(run(right))
    assert (finding.kind, finding.signature) == (FindingKind.ROUTE, "route/vector->scalar")


def test_a_launcher_that_refuses_a_legal_case_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(x: object, codes: object) -> str:
        raise Refusal("no such luck")

    monkeypatch.setattr(fp8_quantize_rows, "select_route", refuse)
    finding = only(run(right))
    assert (finding.kind, finding.signature) == (FindingKind.REFUSAL, "refusal/refused")


def test_a_launcher_that_accepts_an_illegal_case_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = find_case("ninfer_quantize/fp8_quantize_rows/refused/T3.K0.f32/on-grid/0")
    assert run(right, case).findings == ()
    monkeypatch.setattr(fp8_quantize_rows, "check_tensors", lambda *_: {"T": 3, "K": 0})
    finding = only(run(lambda rows: None, case))
    assert (finding.kind, finding.signature) == (FindingKind.REFUSAL, "refusal/accepted")


def test_the_users_own_tensor_replaces_the_generated_one() -> None:
    case = find_case("ninfer_quantize/fp8_quantize_rows/scalar/T3.K43.bf16/file/0")
    x = np.arange(3 * 43).reshape(3, 43).astype(ml_dtypes.bfloat16)
    result = run_case(case, NumpyDevice(), inputs={"x": x})
    assert result.findings == ()
    assert result.outputs["scales"].tolist() == (x.astype(np.float32).max(axis=1) / np.float32(448)).tolist()
    with pytest.raises(Refusal, match="takes its inputs from a file"):
        run_case(case, NumpyDevice())


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (np.zeros((3, 44), np.float32), r"float32 \(3, 44\)"),
        (np.zeros((3, 43), np.float16), r"float16 \(3, 43\)"),
    ],
)
def test_inputs_that_do_not_fit_the_case_are_refused(x: NDArray[Any], says: str) -> None:
    with pytest.raises(Refusal, match=says):
        run_case(PLAIN, NumpyDevice(), inputs={"x": x})
    with pytest.raises(Refusal, match="inputs are"):
        run_case(PLAIN, NumpyDevice(), inputs={"y": x})


def test_equal_outputs_have_equal_digests_and_different_ones_do_not() -> None:
    def flip(rows: Rows) -> None:
        rows.codes[0, 0] ^= 1

    assert run(right).output_digest == run(right).output_digest != run(after_right(flip)).output_digest
    assert run(right).output_digest != run(right, PLAIN).output_digest
