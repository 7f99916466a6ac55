"""The contract of the INT8 products: every kernel byte-exact, every fault found by its kind."""

from typing import Any

import numpy as np
import pytest

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Tier
from tileproof.conformance.fault import Fault
from tileproof.conformance.int8_layout_tokens import LAYOUT_TOKENS
from tileproof.conformance.metainfer_w8a8_cases import FUSED, IN_BLOCK, LAST_M, PARTIAL
from tileproof.conformance.metainfer_w8a8_families import CONVERSION_DEPTH, FAMILIES, generate
from tileproof.conformance.metainfer_w8a8_faults import FAULTS
from tileproof.conformance.metainfer_w8a8_gemm import METAINFER_W8A8_GEMM, TILES, WGMMA_COLUMNS, outputs, partial_sums
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import case_inputs, run_case
from tileproof.kernels.int8_arms import ARMS, GENERIC_TILES, TUNED_TILES, WGMMA, WGMMA_ARMS
from tileproof.kernels.int8_gemm import MAX_DEPTH
from tileproof.simulators.ptx.device import Device

SMOKE = METAINFER_W8A8_GEMM.cases(Tier.SMOKE)
SPLIT = tuple(case for case in SMOKE if case.route in (FUSED, PARTIAL, IN_BLOCK))
BY_NAME = {one.name.removeprefix("w8a8-"): one for one in FAULTS}


@pytest.fixture(scope="module")
def sim() -> Device:
    return Device(schedule="friendly")


@pytest.mark.parametrize("case", SMOKE, ids=str)
def test_the_shipped_kernels_keep_their_contract(case: Case, sim: Device) -> None:
    result = run_case(case, sim)
    assert result.findings == ()
    assert result.route == case.route


def test_a_split_k_is_clean_under_a_hostile_schedule() -> None:
    of_each_route = {case.route: case for case in SPLIT}
    for case in of_each_route.values():
        assert run_case(case, Device(schedule="adversarial", seed=1)).findings == (), case


def test_near_ties_end_lower_where_a_product_is_cut_instead_of_rounded() -> None:
    made = generate("near-ties", 4, 8, 16, np.random.default_rng(1))
    sums = np.abs(made.x.astype(int) @ made.w.astype(int)).astype(np.float64)
    first = sums * made.x_scale.astype(np.float64)[:, np.newaxis]
    second = first.astype(np.float32) * made.w_scale.astype(np.float64)
    below = [(exact.astype(np.float32) > exact) & (exact.astype(np.float32).view(np.uint32) % 2**17 == 0x18000)
             for exact in (first, second)]  # fmt: skip
    assert below[0][::2, [0, 1, 4, 5]].all()  # the product with the row's scale
    assert below[1][1::2, [2, 3, 6, 7]].all()  # with the column's


def test_a_sum_by_a_small_rows_scale_is_below_the_least_normal_number_and_the_output_is_not() -> None:
    made = generate("small-rows", 16, 16, 64, np.random.default_rng(1))
    first = np.abs(made.x.astype(int) @ made.w.astype(int)) * made.x_scale.astype(np.float64)[:, np.newaxis]
    assert np.all(first < 2.0**-126)
    assert np.all((first * made.w_scale > 2.0**-9) == (first > 0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_split_k_is_clean_under_twenty_hostile_schedules(seed: int) -> None:
    for case in SPLIT:
        assert run_case(case, Device(schedule="adversarial", seed=seed)).findings == (), case


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_no_hostile_schedule_changes_a_smoke_case(seed: int) -> None:
    for case in SMOKE:
        assert run_case(case, Device(schedule="adversarial", seed=seed)).findings == (), case


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_the_shipped_kernels_keep_their_contract_on_every_case_of_the_full_tier(arch: str) -> None:
    device = Device(arch=arch, schedule="friendly")
    for case in METAINFER_W8A8_GEMM.cases(Tier.FULL):
        if METAINFER_W8A8_GEMM.obstacle(case, arch) is None:
            assert run_case(case, device).findings == (), case


def test_smoke_has_every_family_order_and_kernel() -> None:
    assert {case.family for case in SMOKE} == set(FAMILIES)
    assert {case.shape.dtype for case in SMOKE} == set(LAYOUT_TOKENS)
    assert {case.route for case in SMOKE} == {*ARMS, *WGMMA_ARMS, "empty", "refused"}
    assert {arm.name: arm.columns for arm in WGMMA} == WGMMA_COLUMNS
    assert set(TILES) == {arm.name for arm in (*TUNED_TILES, *GENERIC_TILES)}


def test_full_has_every_kernel_on_every_order_and_decode_at_both_boundaries() -> None:
    full = METAINFER_W8A8_GEMM.cases(Tier.FULL)
    reached = {(case.route, case.shape.dtype) for case in full}
    assert {(arm, token) for arm in ARMS for token in LAYOUT_TOKENS} <= reached
    for route in (FUSED, PARTIAL, IN_BLOCK):
        assert {case.shape.size("M") for case in full if case.route == route} >= set(LAST_M) >= {16, 17, 32}


def test_kernels_with_wgmma_run_on_their_architecture_alone() -> None:
    wgmma = [case for case in SMOKE if case.route in WGMMA_ARMS]
    assert {METAINFER_W8A8_GEMM.obstacle(case, "sm_90a") for case in SMOKE} == {None}
    assert all(METAINFER_W8A8_GEMM.obstacle(case, "sm_120") for case in wgmma)


def test_the_deepest_sum_of_the_lowest_codes_fits() -> None:
    assert MAX_DEPTH * 128 * 128 < 2**31 <= (MAX_DEPTH + 1) * 128 * 128


def test_the_self_test_of_metainfer_gives_its_outputs() -> None:
    values = {"x_scale": np.full(2, 0.5, np.float32), "w_scale": np.ones(2, np.float32)}
    sums = np.array([[-88, 32], [83, 20]], np.int32)
    assert outputs(sums, values).astype(np.float32).tolist() == [[-44, 16], [41.5, 10]]


def test_ties_are_ties_and_sums_pass_two_to_the_24() -> None:
    made = generate("ties", 8, 64, 64, np.random.default_rng(1))
    sums = np.abs(made.x.astype(int) @ made.w.astype(int))
    assert np.all((sums % 2 == 1) & (sums > 256) & (sums < 512))
    made = generate("conversion", 2, 64, CONVERSION_DEPTH, np.random.default_rng(1))
    sums = np.abs(made.x.astype(np.int64) @ made.w.astype(np.int64))
    assert set(np.unique(sums)) == {2**24 + step * 2**16 + near for step in (1, 3) for near in (-1, 0, 1)}


@pytest.mark.slow
def test_every_kernel_gives_the_same_bits(sim: Device) -> None:
    text = "metainfer_w8a8_gemm/int8_gemm/{}/M17.N128.K256.S0.nk8/uniform/0"
    given = case_inputs(find_case(text.format("scalar")))
    arms = (*TILES, IN_BLOCK, "scalar")
    found = {arm: run_case(find_case(text.format(arm)), sim, inputs=given).output_digest for arm in arms}
    assert len(set(found.values())) == 1


GOLDEN = {
    "64x128x128-b1": "1a9b42d3954e8272135ff1a176f0abe8d8d7794759c9bcbdded8fb3f2c93b7e8",
    "128x64x128-b1": "acea718a0d6382059a8879f3890598a94e0cdcfb7113c0d793f45d5ccfe7ff35",
    "64x64x128-b1": "c850cae13a22b6b02a4930782741141ea2cd4a5403eea29dc25fbc83feaac771",
}
"""SHA-256 of the outputs of the generic kernels, which are not to change with what is tuned."""


@pytest.mark.parametrize("arm", GOLDEN)
def test_the_generic_kernels_stay_bit_identical(arm: str, sim: Device) -> None:
    case = find_case(f"metainfer_w8a8_gemm/int8_gemm/{arm}/M65.N128.K256.S0.kn8/uniform/1")
    assert run_case(case, sim).output_digest == GOLDEN[arm]


@pytest.mark.parametrize(
    ("route", "shape"),
    [
        ("empty", "M0.N64.K128.S2.kn8"),
        ("empty", "M17.N0.K256.S2.nk8.poff4"),
        ("refused", "M0.N64.K64.S2.nk8"),
        ("refused", "M2.N0.K256.S1.p64.woff2"),
        ("refused", "M16.N64.K128.S2.nk8.poff1"),
    ],
)
def test_a_call_without_outputs_has_a_workspace_like_any_other(route: str, shape: str, sim: Device) -> None:
    result = run_case(find_case(_text(route, shape, "uniform")), sim)
    assert (result.findings, result.route) == ((), route)


def _text(route: str, shape: str, family: str) -> str:
    return f"metainfer_w8a8_gemm/int8_gemm/{route}/{shape}/{family}/0"


FUSED_CASE = _text(FUSED, "M16.N128.K256.S3.kn8", "uniform")
PARTIAL_CASE = _text(PARTIAL, "M16.N128.K320.S4.nk8", "one-hot")
IN_BLOCK_CASE = _text(IN_BLOCK, "M16.N128.K256.S0.f16k32", "uniform")
ONE_SLOT = _text("64x128x64-b1", "M65.N256.K192.S0.nk8", "uniform")
TWO_SLOTS = _text("64x128x64-b2", "M65.N128.K192.S0.nk8", "one-hot")
SMALL = "M20.N64.K64.S0.nk8"
CONTIGUOUS = _text("64x64x64-b1", "M65.N64.K128.S0.kn8", "one-hot")
CONVERSION = _text("64x64x64-b2", "M16.N64.K1088.S0.nk8", "conversion")

WGMMA_CASE = _text("wgmma-128x128-s4", "M65.N128.K656.S0.nk8", "uniform")

CATCHING = {
    "no-fence-before-the-arrival": FUSED_CASE,
    "no-fence-behind-the-arrival": FUSED_CASE,
    "no-barrier-before-the-arrival": FUSED_CASE,
    "counter-meant-to-begin-at-zero": FUSED_CASE,
    "counter-of-32-bits": _text(FUSED, "M16.N128.K256.S3.nk8", "worn-counters"),
    "first-arrival-combines": FUSED_CASE,
    "planes-on-one-another": PARTIAL_CASE,
    "last-plane-left-out": PARTIAL_CASE,
    "even-boundaries": PARTIAL_CASE,
    "no-barrier-before-the-groups-meet": IN_BLOCK_CASE,
    "half-of-the-other-group-lost": IN_BLOCK_CASE,
    "no-second-barrier-with-one-slot": ONE_SLOT,
    "no-barrier-after-publishing": TWO_SLOTS,
    "stage-fetched-twice": TWO_SLOTS,
    "last-stage-dropped": ONE_SLOT,
    "tail-rows-not-masked-on-the-way-in": ONE_SLOT,
    "tail-rows-written": ONE_SLOT,
    "warps-in-the-same-columns": TWO_SLOTS,
    "swizzle-of-the-reader-differs": TWO_SLOTS,
    "halves-of-a-fragment-swapped": TWO_SLOTS,
    "exchange-gives-its-own-words": TWO_SLOTS,
    "weight-taken-for-unsigned": ONE_SLOT,
    "reads-another-order": CONTIGUOUS,
    "partner-is-the-neighbour": _text("256x64x64-b2", "M200.N64.K256.S0.f32k256", "uniform"),
    "turned-bytes-of-another-column": CONTIGUOUS,
    "scales-multiplied-first": _text("64x64x64-b2", SMALL, "association"),
    "column-scale-first": _text("scalar", "M3.N11.K70.S0.nk8", "association"),
    "sum-cut-to-float": CONVERSION,
    "output-cut": _text("64x64x64-b2", SMALL, "ties"),
    "small-values-flushed": _text("scalar", "M13.N13.K70.S0.nk8", "odd-scales"),
    "nan-by-the-instruction": _text("64x64x64-b2", SMALL, "odd-scales"),
    "ties-away-from-zero": _text(IN_BLOCK, "M31.N64.K256.S0.f32k256", "ties"),
    "scale-of-the-neighbour": _text("64x64x64-b2", SMALL, "scales"),
    "stage-released-while-it-is-multiplied": WGMMA_CASE,
    "last-products-not-waited-for": WGMMA_CASE,
    "first-products-add-to-nothing": WGMMA_CASE,
    "descriptor-without-its-swizzle": WGMMA_CASE,
    "both-warpgroups-in-the-same-rows": WGMMA_CASE,
    "raster-not-a-bijection": _text("wgmma-128x128-s4", "M1153.N256.K16.S0.nk8", "one-hot"),
    "ring-taken-for-full": WGMMA_CASE,
    "fallback-reads-as-stored": _text("scalar", "M3.N128.K256.S0.p64", "one-hot"),
    "lowest-code-clamped": _text("scalar", "M2.N5.K7.S0.kn8", "extremes"),
}


def found(one: Fault, case: str, device: Device) -> list[Any]:
    return [finding.kind for finding in run_case(find_case(case), device, kernel_source=one.kernel_source()).findings]


def test_every_fault_has_a_case_that_is_of_the_smoke_tier() -> None:
    assert BY_NAME.keys() == CATCHING.keys()
    assert set(CATCHING.values()) <= {str(case) for case in SMOKE}, "where the shipped kernel has no finding"
    assert all(one.precedent and one.what and one.expected for one in FAULTS)


@pytest.mark.parametrize("name", CATCHING)
def test_every_fault_is_found_by_a_finding_of_the_right_kind(name: str, sim: Device) -> None:
    kinds = found(BY_NAME[name], CATCHING[name], sim)
    assert BY_NAME[name].caught(kinds), kinds


@pytest.mark.parametrize("name", ["no-fence-before-the-arrival", "no-fence-behind-the-arrival"])
def test_a_fence_that_is_missing_is_found_under_a_hostile_schedule_too(name: str) -> None:
    kinds = found(BY_NAME[name], FUSED_CASE, Device(schedule="adversarial", seed=1))
    assert "race" in kinds, kinds


@pytest.mark.slow
@pytest.mark.parametrize("name", CATCHING)
def test_every_fault_is_caught_over_the_smoke_tier(name: str, sim: Device) -> None:
    kinds = [kind for case in SMOKE for kind in found(BY_NAME[name], str(case), sim)]
    assert BY_NAME[name].caught(kinds), sorted(set(kinds))


def test_planes_hold_the_parts_and_their_sum_is_the_product() -> None:
    case = find_case(FUSED_CASE)
    values = case_inputs(case)
    parts = partial_sums(case, values)
    assert parts.shape == (3, 16, 128)
    whole = find_case(_text("scalar", "M16.N128.K256.S0.kn8", "uniform"))
    assert np.array_equal(parts.sum(axis=0), partial_sums(whole, values)[0])
