"""The contracts of the linear layer: what they ask of a case, that the layer keeps them, that every fault is found."""

from typing import Any

import numpy as np
import pytest

from tileproof.conformance.astrai_linear import ASTRAI_LINEAR, ASTRAI_LINEAR_BACKWARD, CONTRACTS
from tileproof.conformance.astrai_linear_device import STEMS
from tileproof.conformance.astrai_linear_families import FAMILIES, generate
from tileproof.conformance.astrai_linear_faults import FAULTS
from tileproof.conformance.astrai_linear_oracle import OracleSession
from tileproof.conformance.astrai_linear_program import program
from tileproof.conformance.astrai_linear_setting import PROGRAMS, TOKENS, setting
from tileproof.conformance.case import Case, parse_shape
from tileproof.conformance.contract import EditedSource, Tier
from tileproof.conformance.fault import Fault
from tileproof.conformance.host_module import host_modules, host_text
from tileproof.conformance.registry import contracts, find_case
from tileproof.conformance.run_case import run_case
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED
from tileproof.simulators.ptx.device import Device

FORWARD, BACKWARD = (contract.cases(Tier.SMOKE) for contract in CONTRACTS)

# The gradients' cases run the forward passes too; of the families the gate has one, the slow tests all.
GATE = [
    *(
        case
        for case in BACKWARD
        if case.family in ("rising", "falling") or case.shape.size("P") or case.route == "refused"
    ),
    *(case for case in FORWARD if case.route in ("no-gradients", "quantised-weight")),
]


@pytest.fixture(scope="module")
def sim() -> Device:
    return Device(schedule="friendly")


@pytest.mark.parametrize("case", GATE, ids=str)
def test_the_shipped_layer_keeps_its_contract(case: Case, sim: Device) -> None:
    result = run_case(case, sim)
    assert result.findings == ()
    assert result.route == case.route


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_no_hostile_schedule_changes_a_smoke_case(seed: int) -> None:
    device = Device(schedule="adversarial", seed=seed)
    for case in (*FORWARD, *BACKWARD):
        assert run_case(case, device).findings == (), case


@pytest.mark.slow
@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
@pytest.mark.parametrize("arch", ["sm_89", "sm_90a", "sm_120"])
def test_the_shipped_layer_keeps_its_contract_on_every_case_of_the_full_tier(contract: Any, arch: str) -> None:
    device = Device(arch=arch, schedule="friendly")
    for case in contract.cases(Tier.FULL):
        assert run_case(case, device).findings == (), case


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
def test_smoke_has_every_program_family_and_recipe(contract: Any) -> None:
    smoke, full = contract.cases(Tier.SMOKE), contract.cases(Tier.FULL)
    left_out = {"no-gradients"} if contract is ASTRAI_LINEAR_BACKWARD else set()
    assert {case.route for case in smoke} == {*PROGRAMS, "refused"} - left_out
    assert {case.family for case in smoke} == set(FAMILIES)
    assert {case.shape.dtype.removesuffix("b16") for case in smoke} == {one.removesuffix("b16") for one in TOKENS}
    assert len(set(full)) == len(full) > 200
    assert set(smoke) <= set(full)


def test_a_case_id_has_one_spelling_and_only_known_parts() -> None:
    text = "astrai_linear/fp8_linear/late-backward/P4.S3.B2.M5.N9.K17.W2.e4m3e5m2b16.xoff1/rising/0"
    assert str(find_case(text)) == text
    for old, new, words in (
        ("P4", "P11", "program P11"),
        ("W2", "W0", "takes refused"),
        ("M5", "M0", "takes refused"),
        ("late-backward", "training", "takes late-backward"),
        ("e4m3e5m2", "e5m2e4m3", "unknown element type"),
        ("rising", "risen", "unknown input family"),
    ):
        with pytest.raises(Refusal, match=words):
            find_case(text.replace(old, new))
    with pytest.raises(Refusal, match="steps without gradients"):
        find_case("astrai_linear_backward/fp8_linear/no-gradients/P2.S3.B0.M5.N9.K17.W2.e4m3e5m2/rising/0")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_makes_as_many_rings_as_it_says_and_every_output(name: str) -> None:
    with_gradients = name != "no-gradients"
    shape = parse_shape(f"P{PROGRAMS.index(name)}.S6.B0.M3.N4.K5.W2.e4m3e4m3")
    of = setting(shape)
    values = generate("ordinary", of, np.random.default_rng(0))
    del values["bias"]
    session = OracleSession(of, 0, values, "sm_90a", with_gradients=with_gradients)
    program(name).run(session)
    assert session.words.size == 3 * program(name).weights(6) * DOUBLE_BUFFERED.size(2)
    for output, steps in session.outputs.items():
        assert sorted(steps) == (list(range(6)) if with_gradients or output == "out" else [])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_finite_values_or_says_that_it_has_not(family: str) -> None:
    of = setting(parse_shape("P0.S4.B2.M9.N20.K40.W2.e4m3e5m2b16"))
    made = generate(family, of, np.random.default_rng(1))
    assert (made["x"].shape, made["w"].shape) == ((4, 2, 9, 40), (4, 20, 40))
    assert (made["g"].shape, made["bias"].shape) == ((4, 2, 9, 20), (20,))
    finite = all(np.isfinite(made[name].astype(np.float32)).all() for name in ("x", "w", "g"))
    assert finite == (family not in ("specials", "nan-first"))


def test_rising_values_saturate_and_falling_ones_are_remembered() -> None:
    of = setting(parse_shape("P0.S3.B0.M9.N8.K40.W2.e4m3e5m2"))
    for family, grows in (("rising", True), ("falling", False)):
        x = generate(family, of, np.random.default_rng(2))["x"].astype(np.float32)
        largest = np.abs(x).reshape(3, -1).max(axis=1)
        assert (largest[1] > 4 * largest[0]) == grows
        assert (largest[0] > 4 * largest[1]) != grows


def test_an_edited_host_file_and_those_behind_it_are_modules_of_their_own() -> None:
    shipped = host_modules(STEMS, None)
    text = host_text("fp8_linear_state.py").replace("self.version = 0", "self.version = 7")
    made: Any = host_modules(STEMS, EditedSource("fp8_linear_state.py", text))
    assert made["fp8_linear_state"].Weight(None).version == 7
    assert made["fp8_linear"].LinearStates is made["fp8_linear_state"].LinearStates
    assert made["mm_fp8"] is shipped["mm_fp8"], "what stands in front of it is shared"
    assert host_modules(STEMS, None) == shipped
    with pytest.raises(Refusal, match="no host file of this contract"):
        host_modules(STEMS, EditedSource("launcher.py", ""))


def _case(contract: str, program_name: str, shape: str, family: str) -> str:
    return f"{contract}/fp8_linear/{program_name}/P{PROGRAMS.index(program_name)}.{shape}/{family}/0"


PLAIN, BIASED = "S3.B0.M5.N9.K17.W2.e4m3e5m2", "S3.B0.M5.N9.K17.W2.e4m3e5m2b16"
TRAINED = _case("astrai_linear", "training", PLAIN, "rising")
GRADIENTS = _case("astrai_linear_backward", "training", PLAIN, "rising")
INFERENCE = _case("astrai_linear", "no-gradients", PLAIN, "falling")
LATE = _case("astrai_linear_backward", "late-backward", PLAIN, "rising")
SHARED = _case("astrai_linear", "shared-activation", BIASED, "falling")
RECIPE = _case("astrai_linear", "changed-recipe", PLAIN, "falling")
RESET = _case("astrai_linear", "reset", BIASED.replace("S3", "S4"), "rising")
RESTORED = _case("astrai_linear", "restored", PLAIN.replace("S3", "S6"), "falling")
ORDER = _case("astrai_linear_backward", "training", "S2.B2.M9.N8.K33.W3.e4m3e5m2", "cancellation")

EMPTY = "astrai_quantize/fp8_quantize_tensor/vector/R0.C7.B12.S4.W3.bf16re4m3/saturation/0"

CATCHING = {
    "folds-without-gradients": INFERENCE,
    "advances-without-a-fold": INFERENCE,
    "folds-without-advancing": GRADIENTS,
    "unchanged-weight-folds-again": RECIPE,
    "changed-weight-keeps-its-codes": TRAINED,
    "weight-folds-into-the-gradients-ring": TRAINED,
    "empty-tensor-launches-nothing": EMPTY,
    "scale-of-the-next-step": TRAINED,
    "scales-kept-as-views": LATE,
    "gradients-scales-swapped": GRADIENTS,
    "recast-in-the-forward-format": GRADIENTS,
    "gradients-ring-of-the-forward-format": GRADIENTS,
    "gradients-scale-by-448": GRADIENTS,
    "scales-added": TRAINED,
    "rings-keyed-by-address": SHARED,
    "recipe-change-keeps-the-rings": RECIPE,
    "reset-keeps-the-recipe": RESET,
    "reset-keeps-the-rings": RESET,
    "checkpoint-with-orphans": RESTORED,
    "checkpoint-without-its-index": RESTORED,
    "checkpoint-without-its-pair": RESTORED,
    "backward-does-not-flatten": ORDER,
    "both-operands-of-one-description": TRAINED,
    "optional-pointers-not-cleared": TRAINED,
    "operands-of-dw-the-other-way-round": GRADIENTS,
    "bias-summed-in-another-order": ORDER,
    "bias-strands-backwards": ORDER,
    "bias-no-barrier": GRADIENTS,
    "bias-column-past-the-end": GRADIENTS,
    "bias-of-what-is-not-there": GRADIENTS,
    "seed-divides": SHARED,
    "seed-drops-nan": _case("astrai_linear", "training", "S2.B2.M9.N8.K33.W2.e5m2e5m2b16", "nan-first"),
    "seed-of-one-slot": _case("astrai_linear", "unchanged-weight", BIASED, "ordinary"),
}
BY_NAME = {one.name.removeprefix("linear-"): one for one in FAULTS}


def found(one: Fault, case: str, device: Device) -> list[Any]:
    return [finding.kind for finding in run_case(find_case(case), device, kernel_source=one.kernel_source()).findings]


def test_every_fault_has_a_case_of_the_smoke_tier_and_edits_that_match() -> None:
    assert BY_NAME.keys() == CATCHING.keys()
    smoke = {str(case) for contract in contracts().values() for case in contract.cases(Tier.SMOKE)}
    assert set(CATCHING.values()) <= smoke, "where the shipped layer has no finding"
    for name, one in BY_NAME.items():
        assert one.precedent, name
        assert CATCHING[name].startswith(f"{one.contract}/"), name
        assert one.kernel_source() is not None, name


@pytest.mark.parametrize("name", CATCHING)
def test_every_fault_is_found_by_a_finding_of_the_right_kind(name: str, sim: Device) -> None:
    kinds = found(BY_NAME[name], CATCHING[name], sim)
    assert BY_NAME[name].caught(kinds), kinds


@pytest.mark.slow
@pytest.mark.parametrize("name", CATCHING)
def test_every_fault_is_caught_over_the_smoke_tier(name: str, sim: Device) -> None:
    cases = contracts()[BY_NAME[name].contract].cases(Tier.SMOKE)
    kinds = [kind for case in cases for kind in found(BY_NAME[name], str(case), sim)]
    assert BY_NAME[name].caught(kinds), sorted(set(kinds))


def test_an_address_that_a_dead_weight_had_is_inherited_only_by_the_fault(sim: Device) -> None:
    case = _case("astrai_linear", "renewed-weight", BIASED, "ordinary")
    assert run_case(find_case(case), sim).findings == ()
    assert found(BY_NAME["rings-keyed-by-address"], case, sim)


def test_the_summaries_name_what_a_contract_runs() -> None:
    assert "forward" in ASTRAI_LINEAR.summary
    assert "gradients" in ASTRAI_LINEAR_BACKWARD.summary
