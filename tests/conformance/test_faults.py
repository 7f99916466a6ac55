"""A fault fits the kernel as it is today, compiles, and is found for its own reason."""

from importlib import resources

import pytest

from tileproof.conformance.astrai_linear_faults import FAULTS as LINEAR
from tileproof.conformance.astrai_mm_fp8_faults import FAULTS as MM
from tileproof.conformance.astrai_quantize_faults import FAULTS as ASTRAI
from tileproof.conformance.astrai_scale_products_faults import FAULTS as SCALES
from tileproof.conformance.contract import Tier
from tileproof.conformance.fault import Edit, Fault
from tileproof.conformance.faults import fault, faults
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.fp8_a8_tma_faults import FAULTS as TMA
from tileproof.conformance.gate_faults import FAULTS as OF_THE_GATE
from tileproof.conformance.metainfer_pack_faults import FAULTS as PACK
from tileproof.conformance.metainfer_w8a8_faults import FAULTS as W8A8
from tileproof.conformance.ninfer_quantize_faults import FAULTS as QUANTIZE
from tileproof.conformance.registry import contracts, find_case
from tileproof.conformance.run_case import run_case
from tileproof.kernels.compile import compile_source
from tileproof.kernels.fp8_quantize_rows import SOURCE
from tileproof.kernels.source import expanded
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

KERNEL_FAULTS = [one for one in QUANTIZE if one.edits]
PREFIX = "ninfer_quantize/fp8_quantize_rows/"

CATCHING = {
    "divide": "vector/T2.K801.f32.xpad3.cpad7/ties/0",
    "no-saturation": "scalar/T16.K41.f32/tiny-rows/0",
    "saturates-a-binade-early": "vector/T2.K801.bf16.xpad7.cpad7/top-binade/0",
    "through-fp16": "vector/T2.K801.f32.xpad3.cpad7/ties/0",
    "truncates": "vector/T2.K801.f16.xpad7.cpad7/ties/0",
    "ties-away": "vector/T2.K801.bf16.xpad7.cpad7/ties/0",
    "flushes-subnormal-codes": "vector/T2.K801.f16.xpad7.cpad7/subnormals/0",
    "zero-row-unguarded": "scalar/T4.K41.bf16/zero-rows/0",
    "nan-erases-amax": "vector/T5.K41.f16.xpad7.cpad7/specials/0",
    "amax-of-aligned-part": "scalar/T2.K41.f32/on-grid/0",
    "halves-swapped": "vector/T2.K48.bf16/on-grid/0",
    "half-dropped": "vector/T2.K48.f16/on-grid/0",
    "pair-operands-swapped": "scalar/T1.K41.bf16/on-grid/0",
    "tail-not-written": "vector/T2.K41.f32.xpad3.cpad7/on-grid/0",
    "tail-read-past-the-end": "scalar/T2.K41.bf16/on-grid/0",
    "x-stride-ignored": "scalar/T3.K41.f32.xpad2/on-grid/0",
    "codes-stride-ignored": "scalar/T3.K41.f32.cpad60/on-grid/0",
    "missing-barrier": "scalar/T1.K41.f32/on-grid/0",
    "model-divides": "vector/T2.K801.f32.xpad3.cpad7/ties/0",
    "model-rounds-twice": "vector/T2.K801.f32.xpad3.cpad7/ties/0",
}

SMALL = "ninfer_linear/fp8_a8_gemm/cp-async/T9.N128.K384/normal/0"
RAGGED = "ninfer_linear/fp8_a8_gemm/fallback/T5.N9.K33/normal/0"
RESIDUAL = "ninfer_linear_add/fp8_a8_gemm/cp-async/T9.N128.K128/cancelled-residual/0"
PAIRED = "ninfer_linear_swiglu/fp8_a8_gemm/cp-async/T9.N256.K128/normal/0"
SPLIT = "ninfer_attn_input_proj/fp8_a8_gemm/fallback/T1.N14.K33/normal/0"

GEMM_CATCHING = {
    "wait-covers-one-group-too-few": SMALL,
    "no-barrier-after-the-wait": SMALL,
    "no-barrier-before-the-refill": SMALL,
    "staging-over-live-operands": SMALL,
    "no-barrier-before-the-copy-out": SMALL,
    "swizzle-of-the-reader-differs": SMALL,
    "halves-of-a-fragment-swapped": SMALL,
    "k-steps-backwards": "ninfer_linear/fp8_a8_gemm/cp-async/T9.N128.K128/cancellation/0",
    "last-stage-dropped": SMALL,
    "partial-tile-read-past-the-end": SMALL,
    "rows-are-not-aligned": SMALL,
    "fallback-reads-past-the-last-row": RAGGED,
    "fallback-reads-past-the-end-of-k": RAGGED,
    "scales-read-past-the-end": SMALL,
    "residual-read-past-the-end": RESIDUAL,
    "stores-past-the-end": SMALL,
    "scale-of-another-token": SMALL,
    "cuts-instead-of-rounding": SMALL,
    "contraction-left-open": RESIDUAL,
    "residual-added-after-rounding": RESIDUAL,
    "quadratic-silu": PAIRED,
    "up-rows-interleaved": PAIRED,
    "split-one-row-late": SPLIT,
    "model-left-uncontracted": RESIDUAL,
    "model-sums-exactly": "ninfer_linear/fp8_a8_gemm/cp-async/T9.N128.K128/cancellation/0",
}


@pytest.fixture(scope="module")
def sim() -> Device:
    return Device(arch="sm_90a", schedule="friendly")


def test_there_are_at_least_ten_faults_each_with_a_precedent_and_a_case() -> None:
    assert len(KERNEL_FAULTS) >= 10
    assert all(one.precedent and one.what and one.expected for one in faults().values())
    # In test_fp8_a8_tma_faults.py, test_astrai_faults.py, test_astrai_mm_fp8.py, test_astrai_linear_contract.py,
    # test_astrai_scale_products.py, test_metainfer_pack.py, test_metainfer_w8a8.py, test_gate_faults.py.
    elsewhere = {one.name for one in (*TMA, *ASTRAI, *MM, *LINEAR, *SCALES, *PACK, *W8A8, *OF_THE_GATE)}
    assert CATCHING.keys() | GEMM_CATCHING.keys() | elsewhere == faults().keys()
    assert {one.contract for one in faults().values()} <= contracts().keys()


@pytest.mark.parametrize("one", KERNEL_FAULTS, ids=lambda one: one.name)
def test_every_edit_matches_once_and_the_edited_kernel_compiles(one: Fault) -> None:
    source = one.kernel_source()
    assert source is not None
    assert source.text != expanded(source.name)
    compile_source(source.text, name=f"{source.name}.cu")


@pytest.mark.parametrize("name", CATCHING)
def test_every_fault_is_found_by_a_finding_of_the_right_kind(name: str, sim: Device) -> None:
    one = fault(name)
    case = find_case(PREFIX + CATCHING[name])
    assert run_case(case, sim).findings == (), "the kernel as shipped has no finding there"
    found = run_case(case, sim, kernel_source=one.kernel_source(), expected=one.model).findings
    assert one.caught(finding.kind for finding in found), [(f.kind, f.message) for f in found]


@pytest.mark.parametrize("text", sorted(set(GEMM_CATCHING.values())))
def test_the_shipped_products_have_no_finding_where_a_fault_has(text: str, sim: Device) -> None:
    assert run_case(find_case(text), sim).findings == ()


@pytest.mark.parametrize("name", GEMM_CATCHING)
def test_every_fault_of_a_product_is_found_by_a_finding_of_the_right_kind(name: str, sim: Device) -> None:
    one = fault(name)
    case = find_case(GEMM_CATCHING[name])
    found = run_case(case, sim, kernel_source=one.kernel_source(), expected=one.model).findings
    assert one.caught(finding.kind for finding in found), [(f.kind, f.message) for f in found]


def test_a_finding_in_a_header_names_the_header(sim: Device) -> None:
    source = fault("no-barrier-before-the-copy-out").kernel_source()
    (found,) = run_case(find_case(SMALL), sim, kernel_source=source).findings
    assert found.place is not None
    assert found.place.file == "fp8_a8_epilogue.cuh"
    assert "output_vector" in "".join(resources.files("tileproof.kernels").joinpath(found.place.file).read_text())
    assert "fp8_a8_epilogue.cuh" in found.message


@pytest.mark.parametrize(("kernel", "model"), [("divide", "model-divides"), ("through-fp16", "model-rounds-twice")])
def test_a_fault_of_the_kernel_agrees_with_the_same_fault_of_the_model(kernel: str, model: str, sim: Device) -> None:
    case = find_case(PREFIX + CATCHING[kernel])
    found = run_case(case, sim, kernel_source=fault(kernel).kernel_source(), expected=fault(model).model).findings
    assert found == ()


def test_a_product_that_is_not_contracted_agrees_with_a_model_that_is_not(sim: Device) -> None:
    kernel, model = fault("contraction-left-open"), fault("model-left-uncontracted")
    case = find_case(RESIDUAL)
    assert run_case(case, sim, kernel_source=kernel.kernel_source(), expected=model.model).findings == ()


def test_an_edit_that_does_not_match_exactly_once_is_refused() -> None:
    with pytest.raises(Refusal, match="0 times"):
        Edit("no such text", "").apply(SOURCE)
    with pytest.raises(Refusal, match="2 times"):
        Edit("a", "b").apply("a a")


def test_a_fault_is_caught_only_by_every_expected_kind_and_nothing_foreign() -> None:
    one = fault("tail-read-past-the-end")
    mismatch, bounds = FindingKind.MISMATCH, FindingKind.OUT_OF_BOUNDS
    assert one.caught({mismatch, bounds})
    assert one.caught({mismatch, bounds, FindingKind.UNINITIALISED})
    assert not one.caught({mismatch})
    assert not one.caught({mismatch, bounds, FindingKind.RACE})
    assert not one.caught(())


def test_an_unknown_fault_is_refused_with_near_matches() -> None:
    with pytest.raises(Refusal, match="did you mean missing-barrier"):
        fault("missing-barriers")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CATCHING, *GEMM_CATCHING])
def test_every_fault_is_caught_over_the_smoke_tier(name: str, sim: Device) -> None:
    one = fault(name)
    source = one.kernel_source()
    cases = contracts()[one.contract].cases(Tier.SMOKE)
    found = [f for case in cases for f in run_case(case, sim, kernel_source=source, expected=one.model).findings]
    assert one.caught(finding.kind for finding in found), sorted({f.kind for f in found})
