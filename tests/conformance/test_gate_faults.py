"""What every suite must reject is rejected: wrong oracles, a wrong support predicate, sums that are too narrow."""

import pytest

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Tier
from tileproof.conformance.fault import Fault
from tileproof.conformance.faults import fault
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.gate_faults import FAULTS
from tileproof.conformance.registry import contracts, find_case
from tileproof.conformance.run_case import run_case
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

PRODUCT = "ninfer_linear/fp8_a8_gemm/fallback/T5.N9.K33/normal/0"
CODES = "ninfer_quantize/fp8_quantize_rows/scalar/T2.K41.bf16/on-grid/0"
SUBNORMALS = "ninfer_linear/fp8_a8_gemm/fallback/T5.N9.K33/subnormals/0"

CATCHING = {
    **dict.fromkeys(
        ("zeros", "times-0.72", "times-1.05", "sign-flipped", "scales-swapped", "last-k-tile-dropped"), PRODUCT
    ),
    **dict.fromkeys(("nibbles-swapped", "one-code-up", "one-code-down"), CODES),
    "subnormals-as-normals": SUBNORMALS,
    "vectors-for-codes-of-any-alignment": "ninfer_quantize/fp8_quantize_rows/scalar/T2.K48.f32.coff4/top-binade/0",
    "bias-along-the-other-axis": "astrai_mm_fp8/mm_fp8/64x64-s3-lean/Ba0.Bb0.M4.N12.K37.tne4m3b16/bias-alone/0",
    "pairs-summed-in-16-bits": "metainfer_w8a8_gemm/int8_gemm/scalar/M2.N5.K7.S0.kn8/extremes/0",
}
"""The case that finds each, by the name without "gate-"."""


def found(one: Fault, case: Case) -> list[FindingKind]:
    findings = run_case(case, Device(), kernel_source=one.kernel_source(), expected=one.model).findings
    return [finding.kind for finding in findings]


def test_every_fault_of_the_gate_has_its_case() -> None:
    assert {one.name for one in FAULTS} == {f"gate-{name}" for name in CATCHING}


@pytest.mark.parametrize("text", sorted(set(CATCHING.values())))
def test_what_is_shipped_has_no_finding_where_a_fault_has(text: str) -> None:
    assert run_case(find_case(text), Device()).findings == ()


@pytest.mark.parametrize("name", CATCHING)
def test_every_fault_of_the_gate_is_found_by_its_kind(name: str) -> None:
    one = fault(f"gate-{name}")
    kinds = found(one, find_case(CATCHING[name]))
    assert one.caught(kinds), kinds


def test_subnormals_decoded_wrongly_are_found_for_that_and_not_for_an_exact_sum() -> None:
    case = find_case(SUBNORMALS)
    assert found(fault("model-sums-exactly"), case) == []
    assert found(fault("gate-subnormals-as-normals"), case) == ["mismatch"]


@pytest.mark.slow
@pytest.mark.parametrize("one", FAULTS, ids=lambda one: one.name)
def test_every_fault_of_the_gate_is_caught_over_the_smoke_tier(one: Fault) -> None:
    kinds: list[FindingKind] = []
    for case in contracts()[one.contract].cases(Tier.SMOKE):
        try:
            kinds += found(one, case)
        except Refusal:
            assert case.route in ("refused", "empty"), "a model may not take what nobody computes"
    assert one.caught(kinds), sorted(set(kinds))
