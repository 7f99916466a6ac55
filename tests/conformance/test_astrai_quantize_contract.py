"""The contract of the tensor quantiser: what its cases reach, and that the shipped kernel agrees on all of them."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tileproof.conformance.astrai_families import FAMILIES
from tileproof.conformance.astrai_setting import DTYPES, FORMATS, MOST_BLOCKS, TYPES, host, setting, token
from tileproof.conformance.case import Case, parse_shape
from tileproof.conformance.contract import REFUSED, Arrays, Tier
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.registry import contracts, find_case
from tileproof.conformance.run_case import case_inputs, run_case
from tileproof.kernels.fp8_quantize_tensor import MAX_BLOCKS
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.ring_stage import RING_STAGES, Field
from tileproof.oracle.ring.ring_state import scale_field
from tileproof.oracle.scaling.astrai_quantize import Stage, quantize_code
from tileproof.simulators.ptx.device import Device

CONTRACT = contracts()["astrai_quantize"]
SMOKE, FULL = CONTRACT.cases(Tier.SMOKE), CONTRACT.cases(Tier.FULL)
EXAMPLE = "astrai_quantize/fp8_quantize_tensor/tile-scalar/R9.C7.B1.S4.W2.bf16re4m3te5m2/specials/0"


@pytest.mark.parametrize("case", SMOKE, ids=str)
def test_the_shipped_kernel_agrees_under_a_hostile_schedule(case: Case) -> None:
    assert run_case(case, Device(schedule="adversarial")).findings == ()


def test_smoke_has_each_type_family_stage_window_and_route() -> None:
    assert {case.shape.dtype for case in SMOKE} == set(TYPES)
    assert {case.family for case in SMOKE} == set(FAMILIES)
    assert {case.shape.size("S") for case in SMOKE} == set(range(len(RING_STAGES) + 1))
    assert {1, 2, 3, 16, 33} <= {case.shape.size("W") for case in SMOKE}
    assert {case.route for case in SMOKE} == set(CONTRACT.routes["fp8_quantize_tensor"])
    assert {host(case).current for case in SMOKE} == {0, 1}


def test_full_has_every_residue_of_rows_and_columns_for_each_type_format_and_layout() -> None:
    for x, name in product(DTYPES, FORMATS):
        for types in (token(x, name, None), token(x, None, name), token(x, name, name)):
            shapes = [case.shape for case in FULL if case.shape.dtype == types and case.route != REFUSED]
            assert {shape.size("R") % 32 for shape in shapes} == set(range(32))
            assert {shape.size("C") % 64 for shape in shapes} == set(range(64))
            assert {shape.size("B") for shape in shapes} >= set(range(1, 13))


def test_each_case_leaves_its_counter_and_its_slots_clean() -> None:
    for case in SMOKE:
        of = setting(case.shape)
        if of.stage is None or case.route == REFUSED:
            continue
        ring = CONTRACT.expected(case, case_inputs(case), "sm_90a")["ring"]
        assert isinstance(ring, np.ndarray)
        for field in {Field.COUNTER, of.stage.maximum_field} - {None}:
            assert field is not None
            start = of.stage.offset(field, of.window)
            assert not ring[start : start + of.stage.words(field, of.window)].view(np.uint32).any()


def test_codes_are_those_of_the_definition() -> None:
    from tileproof.oracle.formats import source_format

    case = find_case(EXAMPLE)
    values = case_inputs(case)
    of, record = setting(case.shape), source_format(np.dtype(np.float32))
    right = CONTRACT.expected(case, values, "sm_90a")
    assert of.stage is not None
    field = (Field.RECIPROCAL, Field.RECIPROCAL_1)[host(case).current]
    multiplier = record.number(int(values["ring"].view(np.uint32)[of.stage.offset(field, of.window)]))
    for (row, column), value in np.ndenumerate(values["x"].astype(np.float32)):
        number = record.number(int(np.float32(value).view(np.uint32)))
        for output, at, target in (
            ("rows", (row, column), of.types.rows),
            ("transposed", (column, row), of.types.transposed),
        ):
            assert target is not None
            codes = right[output]
            assert isinstance(codes, np.ndarray)
            assert codes[at] == quantize_code(number, multiplier, Stage.MULTIPLIER, target)


def _one_code_off(right: Arrays) -> Arrays:
    rows = right["rows"].copy()
    rows[-1, -1] ^= 1
    return {**right, "rows": rows}


def _transposed_as_it_was(right: Arrays) -> Arrays:
    return {**right, "transposed": np.ascontiguousarray(right["transposed"].T).reshape(right["transposed"].shape)}


def _ring_word_off(right: Arrays) -> Arrays:
    ring = right["ring"].copy()
    ring.view(np.uint32)[-1] ^= 1
    return {**right, "ring": ring}


@pytest.mark.parametrize("change", [_one_code_off, _transposed_as_it_was, _ring_word_off])
def test_a_reference_that_is_wrong_in_one_place_is_a_mismatch(change: Callable[[Arrays], Arrays]) -> None:
    case = find_case(EXAMPLE.replace("specials", "all-codes"))

    def wrong(values: Arrays, arch: str) -> Arrays:
        right = CONTRACT.expected(case, values, arch)
        return change({name: array for name, array in right.items() if isinstance(array, np.ndarray)})

    found = run_case(case, Device(), expected=wrong).findings
    assert {finding.kind for finding in found} == {FindingKind.MISMATCH}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("S4", "S5", "a ring of stage S5"),
        ("bf16re4m3te5m2", "bf16", "unknown element type 'bf16'"),
        ("tile-scalar", "vector", "its shape takes tile-scalar"),
        ("W2", "W0", "its shape takes refused"),
    ],
)
def test_an_id_of_another_meaning_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(Refusal, match=re.escape(words)):
        find_case(EXAMPLE.replace(old, new))


@pytest.mark.parametrize(
    "shape",
    [
        "R33.C8.B1057.S4.W2.bf16re4m3te4m3",
        "R33.C8.B1056.S4.W2.bf16re4m3te4m3",
        "R1.C8.B1.S4.W2.bf16re4m3.xpad3.rpad3",
        "R2.C8.B1.S4.W2.bf16re4m3.xpad3",
        "R0.C8.B1.S4.W2.bf16te4m3.tpad3",
        "R8.C0.B1.S0.W1.bf16te4m3.xpad3",
    ],
)
def test_the_contract_and_the_launcher_agree_on_what_is_refused(shape: str) -> None:
    """Blocks beyond the most, and padding that a step passes over or that no step does."""
    (route,) = CONTRACT.expected_routes(parse_shape(shape))
    result = run_case(find_case(f"astrai_quantize/fp8_quantize_tensor/{route}/{shape}/ties/0"), Device())
    assert (result.findings, result.route) == ((), route)


def test_the_contracts_constants_are_the_kernels() -> None:
    assert MAX_BLOCKS == MOST_BLOCKS


def test_seeds_reach_other_indices_and_margins() -> None:
    hosts = [host(replace(find_case(EXAMPLE), seed=seed)) for seed in range(40)]
    assert {one.index for one in hosts} == {0, 1}
    assert {one.margin for one in hosts} == {0, 1, 3, -2, 9}


def test_wide_margins_make_ordinary_scales_of_subnormal_histories() -> None:
    wide = [case for case in FULL if case.family == "wide-margins"]
    assert {abs(host(case).margin) for case in wide} == {100, 101, 126}
    for case in wide:
        of, counted = setting(case.shape), host(case)
        if counted.margin == -126 and not case.shape.dtype.startswith("f16"):
            assert of.stage is not None
            ring = np.asarray(CONTRACT.expected(case, case_inputs(case), "sm_90a")["ring"])
            assert 1e-9 < ring[of.stage.offset(scale_field(1 - counted.current), of.window)] < 1


@pytest.mark.slow
@pytest.mark.parametrize("case", FULL, ids=str)
def test_the_shipped_kernel_agrees_on_the_full_tier(case: Case) -> None:
    assert run_case(case, Device(schedule="friendly")).findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 20))
def test_the_shipped_kernel_agrees_under_more_hostile_schedules(seed: int) -> None:
    for case in SMOKE:
        assert run_case(case, Device(schedule="adversarial", seed=seed)).findings == (), case
