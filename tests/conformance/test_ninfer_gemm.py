"""The contracts of ninfer's FP8 operators: what they ask of a case, and that kernels keep it."""

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileproof.conformance.allowed import contains, settle
from tileproof.conformance.case import Case, parse_case
from tileproof.conformance.contract import Allowed, Comparison, Tier
from tileproof.conformance.crash import CrashFolder
from tileproof.conformance.events import CaseFinished, CaseNotRun
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.gemm_families import FAMILIES, Extents, generate
from tileproof.conformance.ninfer_gemm import ASSEMBLER, CONTRACTS, OPERATORS, TILE_TOKENS
from tileproof.conformance.registry import contract_of, contracts, find_case
from tileproof.conformance.run_case import case_inputs, run_case
from tileproof.conformance.session import Plan, Session
from tileproof.conformance.target import Coordinates, Target
from tileproof.conformance.worker import InProcess
from tileproof.kernels.compile import compile_source
from tileproof.kernels.fp8_a8_gemm import Fp8A8Gemm
from tileproof.kernels.fp8_a8_selector import CP_ASYNC
from tileproof.oracle.formats import E4M3FN
from tileproof.oracle.quantize import quantize_rows
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

BF16 = np.dtype(ml_dtypes.bfloat16)
every_contract = pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)


def sample(name: str) -> list[Case]:
    """Some of the smoke tier: the smallest case of each route."""

    def size(case: Case) -> int:
        return math.prod(dimension.size for dimension in case.shape.dimensions)

    return list(
        {case.route: case for case in sorted(contracts()[name].cases(Tier.SMOKE), key=size, reverse=True)}.values()
    )


@every_contract
def test_shipped_kernels_keep_their_contract(contract: Any) -> None:
    for case in sample(contract.name):
        many_blocks = case.shape.size("N") > 1000
        result = run_case(case, Device(schedule="friendly" if many_blocks else "adversarial", seed=1))
        assert result.findings == (), case
        assert result.route == case.route


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_89", "sm_90a", "sm_120"])
@every_contract
def test_shipped_kernels_keep_their_contract_on_every_case_of_the_full_tier(contract: Any, arch: str) -> None:
    for case in contract.cases(Tier.FULL):
        if (arch, case.route) != ("sm_89", "tma"):  # which `check` tells as not run: no tensor copies
            assert run_case(case, Device(arch=arch, schedule="friendly")).findings == (), case


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@every_contract
def test_no_hostile_schedule_changes_a_smoke_case(contract: Any, seed: int) -> None:
    for case in contract.cases(Tier.SMOKE):
        assert run_case(case, Device(schedule="adversarial", seed=seed)).findings == (), case


@pytest.mark.parametrize("arch", ["sm_89", "sm_120"])
def test_the_right_bits_are_those_of_the_architecture(arch: str) -> None:
    case = find_case("ninfer_linear/fp8_a8_gemm/cp-async/T17.N128.K128/cancellation/0")
    assert run_case(case, Device(arch=arch)).findings == ()
    values, contract = case_inputs(case), contract_of(case)
    here, there = (contract.expected(case, values, name)["out"] for name in (arch, "sm_90a"))
    assert isinstance(here, np.ndarray)
    assert isinstance(there, np.ndarray)
    assert np.mean(here != there) > 0.5, "the family tells the units apart"


def test_a_case_that_an_architecture_has_no_route_for_is_not_run_and_says_why(tmp_path: Path) -> None:
    case = find_case("ninfer_linear/fp8_a8_gemm/tma/T9.N128.K320/cancellation/0")
    for arch, passes in (("sm_90a", True), ("sm_89", False)):
        plan = Plan((case,), (Coordinates(Target.SIM, arch),))
        session = Session(plan, CrashFolder(tmp_path), {Target.SIM: InProcess()})
        last = [event for event in session.events() if isinstance(event, (CaseFinished, CaseNotRun))][-1]
        assert isinstance(last, CaseFinished) == passes
        if isinstance(last, CaseNotRun):
            assert last.reason == "sm_89 has no tensor copies"


def test_a_launcher_that_takes_another_route_than_it_was_told_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is never launched proves nothing, however right the results are."""
    prepare = Fp8A8Gemm.prepare
    monkeypatch.setattr(Fp8A8Gemm, "prepare", lambda self, given, outputs, route: prepare(self, given, outputs, None))
    case = find_case("ninfer_linear/fp8_a8_gemm/tma/T9.N128.K320/cancellation/0")
    found = run_case(case, Device()).findings
    assert [finding.kind for finding in found] == [FindingKind.ROUTE]
    assert "took route fallback; the contract's rule gives tma" in found[0].message


@every_contract
def test_a_call_without_tokens_is_judged_whatever_its_views(contract: Any) -> None:
    """Of the paired one, too, whose outputs are sets: what approximate functions left open is asked of no element."""
    case = f"{contract.name}/fp8_a8_gemm/empty/T0.N112.K32.xpad3.wsoff1/on-grid/0"
    assert run_case(find_case(case), Device()).findings == ()


def test_a_case_id_of_a_product_names_no_element_type() -> None:
    text = "ninfer_linear/fp8_a8_gemm/cp-async/T1345.N14336.K5120/ties/0"
    assert str(find_case(text)) == text
    with pytest.raises(Refusal, match="has element type bf16"):
        find_case(text.replace("K5120", "K5120.bf16"))
    with pytest.raises(Refusal, match="its shape takes fallback"):
        find_case(text.replace("K5120", "K5121"))
    with pytest.raises(Refusal, match="its shape takes tma or cp-async or fallback"):
        find_case(text.replace("cp-async", "empty"))


@every_contract
def test_every_tiled_shape_may_take_the_fallback_too(contract: Any) -> None:
    for case in contract.cases(Tier.FULL):
        routes = contract.expected_routes(case.shape)
        assert case.route in routes
        assert routes[-1] in ("fallback", "empty", "refused")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_finite_or_says_that_it_is_not(family: str) -> None:
    made = generate(family, Extents(20, 64, 128), np.random.default_rng(1))
    assert made.x.shape == (20, 128)
    assert (made.weight.shape, made.weight_scales.shape, made.residual.shape) == ((64, 128), (64,), (20, 64))
    finite = np.isfinite(made.x.astype(np.float32)).all() and np.isfinite(E4M3FN.decode(made.weight)).all()
    assert finite == (family != "specials")


@pytest.mark.parametrize("family", ["on-grid", "powers", "cancellation", "large-among-tiny", "ties"])
def test_a_pinned_family_has_power_of_two_scales_that_differ_in_neighbours(family: str) -> None:
    scales = quantize_rows(generate(family, Extents(17, 64, 128), np.random.default_rng(1)).x).scales
    assert np.all(np.frexp(scales)[0] == 0.5)
    assert np.all(scales[1:] != scales[:-1])


def test_ties_are_ties() -> None:
    case = find_case("ninfer_linear/fp8_a8_gemm/cp-async/T9.N128.K128/ties/0")
    operator, values = OPERATORS[case.contract], case_inputs(case)
    right = quantize_rows(values["x"])
    exact = E4M3FN.decode(right.codes) @ E4M3FN.decode(values["weight"]).T * right.scales[:, np.newaxis]
    exact = exact * values["weight_scales"].astype(np.float64)
    rounded = operator.finished(values, operator.sums(values, right.codes, "sm_90a"), right.scales).astype(np.float64)
    step = np.exp2(np.floor(np.log2(np.abs(exact))) - 7)
    assert np.mean(np.abs(rounded - exact) == step / 2) > 0.2


def test_near_ties_are_just_below_a_tie_that_float32_rounds_to() -> None:
    case = find_case("ninfer_linear/fp8_a8_gemm/cp-async/T16.N128.K128/near-ties/0")
    values = case_inputs(case)
    right = quantize_rows(values["x"])
    sums = np.abs(E4M3FN.decode(right.codes) @ E4M3FN.decode(values["weight"]).T)
    first = sums * right.scales.astype(np.float64)[:, np.newaxis]
    second = first.astype(np.float32) * np.float64(147 / 128)
    assert np.all(sums[::2] == 49)
    assert np.all(sums[1::2] == 16)
    for exact in (first[::2], second[1::2]):
        rounded = exact.astype(np.float32)
        assert np.all((rounded > exact) & (rounded.view(np.uint32) % 2**17 == 0x18000))


def test_tiny_outputs_and_scales_are_below_the_least_normal_number() -> None:
    made = generate("tiny", Extents(16, 64, 128), np.random.default_rng(1))
    scales = quantize_rows(made.x).scales
    least = np.float32(2.0**-126)
    assert np.all(scales[::2] < least)
    assert np.all(scales[1::2] > least)
    assert np.any((made.weight_scales != 0) & (made.weight_scales.astype(np.float32) < least))


def test_tiny_gates_and_ups_are_below_the_least_normal_number_and_their_outputs_are_not() -> None:
    made = generate("tiny-gates", Extents(16, 64, 128), np.random.default_rng(1))
    sums = E4M3FN.decode(quantize_rows(made.x).codes) @ E4M3FN.decode(made.weight).T
    values = np.abs(sums * made.weight_scales.astype(np.float64))
    gates, ups = values[:, :32], values[:, 32:]
    small = (np.arange(32) // 2 % 3 == 0, np.arange(32) // 2 % 3 == 1)
    assert np.all(gates[:, small[0]] < 2.0**-126)
    assert np.all(ups[:, small[1]] < 2.0**-126)
    assert np.all((gates * ups > 2.0**-30)[:, small[0] | small[1]])


def test_undecided_elements_are_counted_and_members_of_their_set() -> None:
    case = find_case("ninfer_linear_swiglu/fp8_a8_gemm/cp-async/T9.N128.K128/normal/0")
    assert contract_of(case).comparison is Comparison.SET
    result = run_case(case, Device())
    assert result.findings == ()
    open_ = int(result.undecided["out"].sum())
    assert open_ > 0
    assert any(note.startswith(f"out: {open_} of 576 elements have two right values") for note in result.notes)


def test_an_end_of_the_carried_bracket_outside_the_set_is_a_mismatch() -> None:
    case = find_case("ninfer_linear_swiglu/fp8_a8_gemm/cp-async/T9.N128.K128/normal/0")

    def narrow(values: Any, arch: str) -> Any:
        right = contract_of(case).expected(case, values, arch)
        out = right["out"]
        assert isinstance(out, Allowed)
        return {**right, "out": Allowed(out.upper, out.upper)}

    kinds = {finding.kind for finding in run_case(case, Device(), expected=narrow).findings}
    assert kinds == {FindingKind.MISMATCH}


def test_a_set_settles_what_is_inside_and_names_the_nearer_end_of_what_is_not() -> None:
    right = Allowed(np.array([2.0, -2.0, np.nan, 0.0], BF16), np.array([2.03125, -1.96875, np.nan, 0.0], BF16))
    seen = np.array([2.015625, -2.5, 1.0, -0.0], BF16).view(np.uint16)
    assert contains("BFLOAT16", right, seen).tolist() == [True, False, False, False]
    expected, observed = settle("BFLOAT16", right, [seen])
    assert expected.view(BF16)[:2].astype(float).tolist() == [2.015625, -2.0]
    assert np.array_equal(observed, seen)


def test_the_residual_is_read_in_place_and_nothing_beside_it_is_touched() -> None:
    case = find_case("ninfer_linear_add/fp8_a8_gemm/cp-async/T3.N128.K128.opad8/cancelled-residual/0")
    assert run_case(case, Device()).findings == ()


def test_the_declared_assembler_and_tile_are_the_kernels() -> None:
    module = compile_source('extern "C" __global__ void k() {}', name="k.cu")
    assert module.compiler.startswith(f"NVRTC {ASSEMBLER}.")
    assert CP_ASYNC.block_tokens == TILE_TOKENS
    assert parse_case("a/b/c/T1.N2.K3/d/0").shape.dtype == ""
