"""The contract of int8_pack: every order byte-exact, every fault found, an unwritten buffer told from a wrong one."""

from typing import Any

import numpy as np
import pytest

from tileproof.conformance.contract import Tier
from tileproof.conformance.fault import Fault
from tileproof.conformance.int8_layout_tokens import LAYOUT_TOKENS
from tileproof.conformance.metainfer_pack import FAMILIES, METAINFER_PACK
from tileproof.conformance.metainfer_pack_cases import BACK, TOKENS
from tileproof.conformance.metainfer_pack_faults import FAULTS
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import run_case
from tileproof.kernels.int8_layouts import WEIGHT_LAYOUTS
from tileproof.kernels.int8_pack import Int8Pack
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.addresses.probe import bit_map, index_planes, recover_map
from tileproof.oracle.diagnosis import Diagnosis, diagnose_pack
from tileproof.oracle.layouts import PACKS
from tileproof.simulators.ptx.device import Device

SMOKE = METAINFER_PACK.cases(Tier.SMOKE)
BY_NAME = {one.name.removeprefix("pack-"): one for one in FAULTS}
CATCHING = {
    "most-left-unwritten": "vector/K32.N32.nk8/random/0",
    "words-turned-and-bytes-not": "vector/K32.N32.nk8/random/0",
    "halves-of-a-run-swapped": "vector/K128.N32.s64k8/random/0",
    "partner-is-the-neighbour": "vector/K512.N64.f32k256/random/0",
    "partial-patch-moved-whole": "vector/K37.N64.p64/plane-0/0",
}


@pytest.fixture(scope="module")
def sim() -> Device:
    return Device(schedule="friendly")


@pytest.mark.parametrize("token", TOKENS)
def test_every_smoke_case_of_an_order_is_byte_exact(token: str, sim: Device) -> None:
    ran = 0
    for case in SMOKE:
        if case.shape.dtype == token:
            result = run_case(case, sim)
            assert (result.findings, result.route) == ((), case.route), case
            ran += 1
    assert ran


@pytest.mark.slow
def test_every_residue_is_byte_exact(sim: Device) -> None:
    for case in METAINFER_PACK.cases(Tier.FULL):
        assert run_case(case, sim).findings == (), case


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_hostile_schedule_changes_a_smoke_case(seed: int) -> None:
    for case in SMOKE:
        assert run_case(case, Device(schedule="adversarial", seed=seed)).findings == (), case


def test_smoke_has_every_order_way_route_and_family() -> None:
    assert {case.shape.dtype for case in SMOKE} == set(TOKENS)
    assert {case.route for case in SMOKE} == {"vector", "scalar", "empty", "refused"}
    assert {case.family for case in SMOKE} == set(FAMILIES)
    assert {(case.shape.dtype, case.route) for case in SMOKE} >= {(t, r) for t in TOKENS for r in ("vector", "scalar")}


def test_the_kernels_know_every_published_order_of_int8_weights() -> None:
    assert set(LAYOUT_TOKENS.values()) == set(WEIGHT_LAYOUTS)
    metainfer = {name for name, record in PACKS.items() if "MetaInfer" in record.source}
    assert metainfer == set(WEIGHT_LAYOUTS)


def test_full_has_every_residue_of_both_extents_and_addresses() -> None:
    full = METAINFER_PACK.cases(Tier.FULL)
    for way in ("", BACK):
        seen = {(c.shape.size("K") % 16, c.shape.size("N") % 16) for c in full if c.shape.dtype == f"{way}nk8"}
        assert len(seen) == 256
        for token in LAYOUT_TOKENS:
            views = {(v.tensor, v.offset) for c in full if c.shape.dtype == way + token for v in c.shape.views}
            assert {(tensor, offset) for tensor in "rp" for offset in range(1, 16)} <= views


def found(one: Fault, case: str, device: Device) -> list[Any]:
    return [finding.kind for finding in run_case(find_case(case), device, kernel_source=one.kernel_source()).findings]


def test_every_fault_has_a_case_that_is_of_the_smoke_tier() -> None:
    assert BY_NAME.keys() == CATCHING.keys()
    assert {f"metainfer_pack/int8_pack/{text}" for text in CATCHING.values()} <= {str(case) for case in SMOKE}


@pytest.mark.parametrize("name", CATCHING)
def test_every_fault_is_found_by_a_finding_of_the_right_kind(name: str, sim: Device) -> None:
    kinds = found(BY_NAME[name], f"metainfer_pack/int8_pack/{CATCHING[name]}", sim)
    assert BY_NAME[name].caught(kinds), kinds


@pytest.mark.slow
@pytest.mark.parametrize("name", CATCHING)
def test_every_fault_is_caught_over_the_smoke_tier(name: str, sim: Device) -> None:
    kinds = [kind for case in SMOKE for kind in found(BY_NAME[name], str(case), sim)]
    assert BY_NAME[name].caught(kinds), sorted(set(kinds))


EXTENT, POISON = 64, 0xA5


def packed_by(name: str, weight: Any, sim: Device) -> Any:
    """What an edited kernel packs n-major into a poisoned buffer, as uint8."""
    source = BY_NAME[name].kernel_source()
    assert source is not None
    raw, packed = sim.upload(weight.view(np.int8)), sim.upload(np.full(weight.size, POISON, np.uint8).view(np.int8))
    Int8Pack(sim, source=source.text).pack(Tensor.whole(raw), Tensor.whole(packed), "n-major")
    return packed.download().view(np.uint8)


def diagnosis_of(name: str, sim: Device) -> Diagnosis:
    weight = np.random.default_rng(7).integers(0, 256, (EXTENT, EXTENT)).astype(np.uint8)
    return diagnose_pack(packed_by(name, weight, sim), PACKS["n-major"], weight, poison=POISON)


def test_the_diagnosis_tells_an_unwritten_buffer_from_a_wrong_transposition(sim: Device) -> None:
    unwritten, wrong = (diagnosis_of(name, sim) for name in ("most-left-unwritten", "words-turned-and-bytes-not"))
    assert sum(map(len, unwritten.unwritten)) >= 0.7 * unwritten.size
    assert unwritten.is_explained
    assert not unwritten.explanations, "what was written is right"
    assert wrong.unwritten == ()
    assert wrong.differing > 0.6 * wrong.size


def test_index_planes_name_the_bits_that_a_wrong_transposition_exchanges(sim: Device) -> None:
    """Bits 0 and 1 of k stand where those of n belong, which are bits 6 and 7 of the position n * 64 + k."""
    size = EXTENT * EXTENT
    planes = [
        packed_by("words-turned-and-bytes-not", plane.reshape(EXTENT, EXTENT), sim) for plane in index_planes(size)
    ]
    from_raw = recover_map(np.stack(planes))  # position in W of each packed byte
    positions = PACKS["n-major"].offset(from_raw // EXTENT, from_raw % EXTENT, EXTENT, EXTENT)
    found_map = bit_map(positions)
    assert found_map is not None
    wanted = np.arange(size)
    swapped = wanted & ~0xC3 | (wanted & 3) << 6 | wanted >> 6 & 3
    assert np.array_equal(positions, swapped)
