"""The contract of mm_fp8: what it asks of a case, that the kernel keeps it, and that every fault is found."""

from typing import Any

import numpy as np
import pytest

from tileproof.conformance.astrai_mm_families import FAMILIES, generate
from tileproof.conformance.astrai_mm_fp8 import ASSEMBLER, ASTRAI_MM_FP8, STAGE_K, TILE, finished, rule_of, sums
from tileproof.conformance.astrai_mm_fp8_cases import LARGE, LARGE_LEAN, SMALL, SMALL_LEAN
from tileproof.conformance.astrai_mm_fp8_faults import FAULTS
from tileproof.conformance.astrai_mm_setting import MOST_MATRICES, TYPES, setting
from tileproof.conformance.case import Case, parse_shape
from tileproof.conformance.contract import Tier
from tileproof.conformance.fault import Fault
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import case_inputs, run_case
from tileproof.kernels import mm_fp8_dispatch
from tileproof.kernels.compile import compile_source
from tileproof.kernels.launcher import MAX_GRID
from tileproof.kernels.mm_fp8_dispatch import SCHEDULES, Route
from tileproof.oracle.epilogue import Contraction
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

SMOKE = ASTRAI_MM_FP8.cases(Tier.SMOKE)


@pytest.fixture(scope="module")
def sim() -> Device:
    return Device(schedule="friendly")


@pytest.mark.parametrize("case", SMOKE, ids=str)
def test_the_shipped_kernel_keeps_its_contract(case: Case, sim: Device) -> None:
    result = run_case(case, sim)
    assert result.findings == ()
    assert result.route == case.route


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_no_hostile_schedule_changes_a_smoke_case(seed: int) -> None:
    for case in SMOKE:
        assert run_case(case, Device(schedule="adversarial", seed=seed)).findings == (), case


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_89", "sm_90a", "sm_120"])
def test_the_shipped_kernel_keeps_its_contract_on_every_case_of_the_full_tier(arch: str) -> None:
    device = Device(arch=arch, schedule="friendly")
    for case in ASTRAI_MM_FP8.cases(Tier.FULL):
        assert run_case(case, device).findings == (), case


def test_smoke_has_every_family_layout_and_route() -> None:
    assert {case.family for case in SMOKE} == set(FAMILIES)
    assert {case.shape.dtype[:2] for case in SMOKE} == {"nt", "nn", "tn", "tt"}
    assert {case.route for case in SMOKE} == {*Route, "empty", "refused"}


def test_full_has_every_type_token_and_every_residue_of_128_that_matters() -> None:
    cases = ASTRAI_MM_FP8.cases(Tier.FULL)
    assert {case.shape.dtype for case in cases} == set(TYPES)
    assert len(set(cases)) == len(cases)
    for name in ("M", "N", "K"):
        residues = {case.shape.size(name) % 128 for case in cases if case.shape.dtype == "tne4m3"}
        assert residues >= {edge + side for edge in (16, 32, 48, 64, 96) for side in (-1, 0, 1)} | {127, 0, 1}


def test_a_case_id_has_one_spelling_and_only_known_parts() -> None:
    text = "astrai_mm_fp8/mm_fp8/128x128-s2/Ba4.Bb0.M2048.N1024.K1536.tne5m2b8o8.apad3/normal/0"
    assert str(find_case(text)) == text
    with pytest.raises(Refusal, match="its shape takes refused"):
        find_case(text.replace("Bb0", "Bb3"))
    with pytest.raises(Refusal, match="its shape takes refused"):
        find_case(text.replace("K1536", "K0"))
    with pytest.raises(Refusal, match="unknown element type 'tne5m3'"):
        find_case(text.replace("tne5m2b8o8", "tne5m3"))


@pytest.mark.parametrize(
    "shape",
    [
        "Ba65536.Bb0.M1.N1.K1.nte4m3",
        "Ba65536.Bb1.M0.N1.K1.nte4m3",
        "Ba0.Bb0.M3.N0.K5.nte4m3b8o8",
        "Ba2.Bb0.M0.N0.K5.nte4m3b8",
        "Ba0.Bb0.M4.N1.K5.tne4m3.opad6",
    ],
)
def test_the_contract_and_the_launcher_agree_on_what_has_no_product(shape: str, sim: Device) -> None:
    """Batches that no grid has room for, and outputs without elements, with and without a bias."""
    (route, *_) = ASTRAI_MM_FP8.expected_routes(parse_shape(shape))
    result = run_case(find_case(f"astrai_mm_fp8/mm_fp8/{route}/{shape}/normal/0"), sim)
    assert (result.findings, result.route) == ((), route)


def test_the_contracts_constants_are_the_kernels() -> None:
    assert mm_fp8_dispatch.STAGE_K == STAGE_K
    assert MAX_GRID[2] == MOST_MATRICES
    assert SCHEDULES[Route.SMALL].extent == TILE
    assert {LARGE, LARGE_LEAN, SMALL, SMALL_LEAN} == set(Route)
    assert compile_source('extern "C" __global__ void k() {}', name="k.cu").compiler.startswith(f"NVRTC {ASSEMBLER}.")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_finite_outputs_or_says_that_it_has_not(family: str) -> None:
    of = setting(parse_shape("Ba2.Bb0.M9.N20.K40.nte5m2b16"))
    made = generate(family, of, np.random.default_rng(1))
    assert (made.a.shape, made.b.shape, made.bias.shape) == ((2, 9, 40), (20, 40), (20,))
    finite = all(np.isfinite(of.types.record.decode(codes)).all() for codes in (made.a, made.b))
    assert (finite and np.isfinite(made.bias.astype(np.float32)).all()) == (family != "specials")


@pytest.mark.parametrize("token", ["nte4m3", "nte4m3o8", "nte5m2", "nte5m2o8"])
def test_ties_are_ties(token: str) -> None:
    case = find_case(f"astrai_mm_fp8/mm_fp8/{SMALL_LEAN}/Ba0.Bb0.M3.N40.K8.{token}/ties/0")
    of, values = setting(case.shape), case_inputs(case)
    total = sums(of, values, "sm_90a").astype(int)
    bits = 4 if of.types.fp8_out else 8
    assert np.all(total % 2 == 1)
    assert np.mean((total >> bits) > 0) > 0.3, "one bit more than the output's, the last of it set"
    assert np.all(total >> (bits + 1) == 0)


def test_a_cancelled_bias_tells_a_fused_addition_from_two_roundings() -> None:
    case = find_case(f"astrai_mm_fp8/mm_fp8/{SMALL_LEAN}/Ba0.Bb0.M9.N10.K70.nte4m3b16/cancelled-bias/0")
    of, values = setting(case.shape), case_inputs(case)
    total = sums(of, values, "sm_90a")
    fused, apart = (
        finished(rule_of(of).contracted(one), of, values, total) for one in (Contraction.SCALE, Contraction.NONE)
    )
    assert np.all(fused.view(np.uint16) != apart.view(np.uint16))


def test_a_bias_alone_comes_back_bit_for_bit(sim: Device) -> None:
    case = find_case(f"astrai_mm_fp8/mm_fp8/{SMALL_LEAN}/Ba0.Bb0.M4.N12.K37.tne4m3b16/bias-alone/0")
    out = run_case(case, sim).outputs["out"]
    assert np.array_equal(out.view(np.uint16), np.tile(case_inputs(case)["bias"], (4, 1)).view(np.uint16))


def _text(shape: str, family: str, route: str = SMALL_LEAN, batches: str = "Ba0.Bb0") -> str:
    return f"astrai_mm_fp8/mm_fp8/{route}/{batches}.{shape}/{family}/0"


PLAIN = _text("M16.N16.K320.nte4m3", "cancellation")
TALL = _text("M130.N20.K192.nte4m3", "one-hot", LARGE)
CROSSWISE = _text("M20.N18.K320.tne4m3", "cancellation")
NN = _text("M65.N33.K70.nne4m3", "one-hot")
RAGGED = _text("M17.N9.K33.nte4m3b8o8", "normal")
BIASED = _text("M9.N10.K70.nte4m3b16", "cancelled-bias")
BATCH = _text("M16.N8.K32.nte4m3", "normal", batches="Ba3.Bb3")
VIEW = _text("M5.N24.K48.nte4m3.aoff1.opad8", "normal")

CATCHING = {
    "staging-over-live-rings": TALL,
    "lean-ring-under-crosswise-fetch": CROSSWISE,
    "ring-one-slot-short": TALL,
    "wait-covers-one-group-too-few": PLAIN,
    "empty-group-not-committed": PLAIN,
    "no-barrier-after-the-wait": PLAIN,
    "no-barrier-before-a-lean-refill": PLAIN,
    "no-barrier-before-the-copy-out": PLAIN,
    "permute-takes-another-byte": NN,
    "permute-swaps-its-halves": NN,
    "tail-bytes-not-zeroed": RAGGED,
    "ragged-segment-copied-whole": PLAIN,
    "alignment-not-asked": VIEW,
    "crosswise-lines-past-the-end-of-k": NN,
    "swizzle-of-the-reader-differs": PLAIN,
    "base-of-a-fragment-added-twice": TALL,
    "halves-of-a-fragment-swapped": PLAIN,
    "e5m2-multiplied-as-e4m3": _text("M17.N9.K66.nte5m2", "subnormals"),
    "k-steps-backwards": PLAIN,
    "ragged-stage-dropped": RAGGED,
    "batch-stride-ignored": BATCH,
    "broadcast-stride-not-zero": _text("M16.N8.K32.nte4m3", "normal", batches="Ba3.Bb1"),
    "output-batch-stride-ignored": BATCH,
    "raster-not-a-bijection": _text("M577.N65.K16.nte4m3", "one-hot"),
    "bias-added-after-rounding": BIASED,
    "contraction-left-out": BIASED,
    "scale-after-the-bias": BIASED,
    "fp8-bias-without-its-scale": RAGGED,
    "output-scale-divides": RAGGED,
    "bias-read-past-the-end": BIASED,
    "swizzle-of-the-copy-out-differs": PLAIN,
    "copy-out-guarded-by-the-stride": VIEW,
    "rows-written-past-the-end": PLAIN,
}
BY_NAME = {one.name.removeprefix("mm-"): one for one in FAULTS}


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


@pytest.mark.slow
@pytest.mark.parametrize("name", CATCHING)
def test_every_fault_is_caught_over_the_smoke_tier(name: str, sim: Device) -> None:
    kinds = [kind for case in SMOKE for kind in found(BY_NAME[name], str(case), sim)]
    assert BY_NAME[name].caught(kinds), sorted(set(kinds))


def test_a_small_tile_lies_over_no_slot_that_is_read_behind_two_others(sim: Device) -> None:
    """The staged 64 x 64 tile covers two slots of A: the missing drain shows only where the last stage lies there."""
    one = BY_NAME["staging-over-live-rings"]
    for stages, races in ((1, True), (3, False)):
        case = _text(f"M64.N64.K{64 * stages}.nte4m3", "one-hot", SMALL)
        assert bool(found(one, case, sim)) == races


@pytest.mark.parametrize(("token", "step"), [("nte4m3", 2**17), ("nte5m2o8", 2**21)])
def test_near_ties_end_lower_where_a_product_is_cut_instead_of_rounded(token: str, step: int) -> None:
    of = setting(parse_shape(f"Ba0.Bb0.M9.N20.K40.{token}"))
    made = generate("near-ties", of, np.random.default_rng(1))
    exact = np.abs(3 * np.float64(np.float32(made.scale)))
    rounded = np.float32(exact)
    assert rounded > exact
    assert rounded.view(np.uint32) % step == step // 4 * 3  # an odd digit, and half of it
