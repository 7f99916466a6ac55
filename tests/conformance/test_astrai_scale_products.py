"""The contract of fp8_scale_products: exact to the bit, its oracle held to exact numbers, every fault found."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tileproof.conformance.astrai_scale_products import ASTRAI_SCALE_PRODUCTS
from tileproof.conformance.astrai_scale_products_cases import FAMILIES, setting, shape_of
from tileproof.conformance.astrai_scale_products_faults import FAULTS
from tileproof.conformance.contract import REFUSED, Tier
from tileproof.conformance.fault import Fault
from tileproof.conformance.properties.probes.wrong_oracles import WRONG, rejected
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import case_inputs, run_case
from tileproof.oracle.formats import FLOAT32
from tileproof.oracle.numbers.float32 import float32_code, multiply
from tileproof.oracle.numbers.number import Kind
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.scale_product import NAN, scale_product
from tileproof.simulators.ptx.device import Device

PREFIX = "astrai_scale_products/fp8_scale_products/fp8_scale_products/"
SMOKE = ASTRAI_SCALE_PRODUCTS.cases(Tier.SMOKE)
BY_NAME = {one.name.removeprefix("scales-"): one for one in FAULTS}
CATCHING = {
    "flushed": "P3.C0/subnormal-products/0",
    "truncated": "P3.C0/random-bits/0",
    "of-one-second": "P3.C0/powers/0",
    "stops-at-a-copy": "P3.C5/ordinary/0",
    "copy-squared": "P3.C5/ordinary/0",
    "last-left-out": "P3.C0/ordinary/0",
    "model-flushes": "P3.C0/subnormal-products/0",
}


@pytest.fixture(scope="module")
def sim() -> Device:
    return Device(schedule="friendly")


def test_every_smoke_case_is_exact_to_the_bit(sim: Device) -> None:
    for case in SMOKE:
        result = run_case(case, sim)
        assert (result.findings, result.route) == ((), case.route), case


@pytest.mark.slow
def test_every_case_of_the_full_tier_is_exact_to_the_bit(sim: Device) -> None:
    for case in ASTRAI_SCALE_PRODUCTS.cases(Tier.FULL):
        assert run_case(case, sim).findings == (), case


def test_smoke_has_every_number_of_scalars_with_every_choice_of_copies_and_every_family_and_offset() -> None:
    launched = [case for case in SMOKE if case.route != REFUSED]
    of = {setting(case.shape) for case in launched}
    assert {(one.scalars, one.copies) for one in of} == {(p, c) for p in (1, 2, 3) for c in range(2**p)}
    assert {case.family for case in SMOKE} == set(FAMILIES)
    assert {view.tensor for case in SMOKE for view in case.shape.views} == {a + b for a in "fso" for b in "abc"}
    assert {case.shape.size("P") for case in SMOKE if case.route == REFUSED} == {0, 4}


def test_families_reach_what_they_are_called_after() -> None:
    tiny = np.finfo(np.float32).tiny
    random = np.random.default_rng(1)
    made = {name: scale_product(*family(random, 4 if name == "powers" else 64)) for name, family in FAMILIES.items()}
    first, second = FAMILIES["ties"](random, 64)
    exact = first.astype(np.float64) * second.astype(np.float64)
    assert {Fraction(one).numerator.bit_length() for one in np.abs(exact)} == {25}, "one bit more than float32 has"
    assert (np.abs(made["subnormal-products"]) < tiny).sum() > 50
    assert (np.abs(made["subnormal-factors"]) >= tiny).all()
    assert 0 < np.isinf(made["overflow"]).sum() < 64
    assert np.isnan(made["specials"]).any()
    assert len(set(made["powers"].tolist())) == 4


def test_the_oracle_is_the_exact_product_rounded_once() -> None:
    random = np.random.default_rng(2)
    for name, family in FAMILIES.items():
        first, second = family(random, 4 if name == "powers" else 16)
        bits = [one.view(np.uint32).tolist() for one in (first, second, scale_product(first, second))]
        for a, b, product in zip(*bits, strict=True):
            exact = multiply(FLOAT32.number(a), FLOAT32.number(b))
            wanted = NAN if exact.kind is Kind.NAN else float32_code(exact)
            assert product == wanted, (name, hex(a), hex(b))


def test_specials_become_what_ieee_and_ptx_say() -> None:
    bits = np.array([0x7F800000, 0xFF800001, 0x80000000, 0x80000000, 0x00000001], np.uint32).view(np.float32)
    by = np.array([0.0, 1.0, 3.0, np.inf, 0.5], np.float32)
    assert scale_product(bits, by).view(np.uint32).tolist() == [0x7FFFFFFF, 0x7FFFFFFF, 0x80000000, 0x7FFFFFFF, 0]
    assert scale_product(bits, None).view(np.uint32).tolist() == bits.view(np.uint32).tolist()


def test_shapes_that_say_nothing_are_refused() -> None:
    for scalars, copies, words in ((5, 0, "makes 5 scalars"), (1, 2, "past the last")):
        with pytest.raises(Refusal, match=words):
            setting(shape_of(scalars, copies))


def found(one: Fault, case: str, device: Device) -> list[Any]:
    result = run_case(find_case(case), device, kernel_source=one.kernel_source(), expected=one.model)
    return [finding.kind for finding in result.findings]


def test_every_fault_has_a_case_of_the_smoke_tier() -> None:
    assert BY_NAME.keys() == CATCHING.keys()
    assert {PREFIX + text for text in CATCHING.values()} <= {str(case) for case in SMOKE}


@pytest.mark.parametrize("name", CATCHING)
def test_every_fault_is_found_by_a_finding_of_the_right_kind(name: str, sim: Device) -> None:
    kinds = found(BY_NAME[name], PREFIX + CATCHING[name], sim)
    assert BY_NAME[name].caught(kinds), kinds


@pytest.mark.slow
@pytest.mark.parametrize("name", CATCHING)
def test_every_fault_is_caught_over_the_smoke_tier(name: str, sim: Device) -> None:
    kinds = [kind for case in SMOKE for kind in found(BY_NAME[name], str(case), sim)]
    assert BY_NAME[name].caught(kinds), sorted(set(kinds))


def test_oracles_that_cannot_be_right_are_rejected() -> None:
    """Scalars have no rows to exchange, so the scalars themselves are exchanged."""
    case = find_case(f"{PREFIX}P3.C2/ordinary/0")
    wrong = {name: one for name, one in WRONG.items() if name != "rows the other way round"}
    assert len(wrong) == len(WRONG) - 1
    assert all(rejected(case, one) for one in wrong.values())
    right = ASTRAI_SCALE_PRODUCTS.expected(case, case_inputs(case), "sm_90a")
    turned = dict(zip(right, [*right.values()][::-1], strict=True))
    findings = run_case(case, Device(schedule="friendly"), expected=lambda values, arch: turned).findings
    assert {one.kind for one in findings} == {"mismatch"}
