"""The catalogue of properties: every contract says something of each, what checks exist, and each can fail."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tileproof.conformance.contract import Contract, EditedSource, Tier
from tileproof.conformance.fault import Edit
from tileproof.conformance.faults import fault
from tileproof.conformance.finding import Finding, FindingKind
from tileproof.conformance.host_module import host_text
from tileproof.conformance.properties import checks as by
from tileproof.conformance.properties.broken import FAMILIES, NAMES, property_of
from tileproof.conformance.properties.catalogue import PROPERTIES
from tileproof.conformance.properties.declaration import Absent, Applies, By, Check, Open, applies, declare
from tileproof.conformance.properties.probes.probe import PROBES
from tileproof.conformance.properties.probes.wrong_oracles import WRONG, accepted, rejected
from tileproof.conformance.registry import built_in, find_case
from tileproof.conformance.run_case import run_case
from tileproof.kernels.source import expanded
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

ROOT = Path(__file__).parents[2]
CONTRACTS = tuple(built_in().values())
QUANTIZE = "ninfer_quantize/fp8_quantize_rows/"
TENSOR = "astrai_quantize/fp8_quantize_tensor/"

FAULTS = {
    "P1": ("flushes-subnormal-codes", f"{QUANTIZE}vector/T2.K801.f16.xpad7.cpad7/all-codes/0"),
    "P2": ("ties-away", f"{QUANTIZE}vector/T2.K801.bf16.xpad7.cpad7/ties/0"),
    "P3": ("saturates-a-binade-early", f"{QUANTIZE}vector/T2.K801.bf16.xpad7.cpad7/top-binade/0"),
    "P4": ("zero-row-unguarded", f"{QUANTIZE}scalar/T4.K41.bf16/zero-rows/0"),
    "P5": ("divide", f"{QUANTIZE}vector/T2.K801.f32.xpad3.cpad7/ties/0"),
    "P6": ("ring-window-without-this-step", f"{TENSOR}tile-scalar/R1.C1.B12.S4.W3.f32re4m3te5m2/peak-first/0"),
    "P7": ("scale-of-another-token", "ninfer_linear/fp8_a8_gemm/cp-async/T9.N128.K128/powers/0"),
    "P8": ("halves-swapped", f"{QUANTIZE}vector/T2.K48.bf16/on-grid/0"),
    "P9": ("x-stride-ignored", f"{QUANTIZE}scalar/T3.K41.f32.xpad2/on-grid/0"),
    "P10": ("tail-not-written", f"{QUANTIZE}vector/T2.K41.f32.xpad3.cpad7/on-grid/0"),
    "P11": ("codes-stride-ignored", f"{QUANTIZE}scalar/T3.K41.f32.cpad60/on-grid/0"),
    "P12": ("pair-operands-swapped", f"{QUANTIZE}scalar/T1.K41.bf16/on-grid/0"),
    "P13": ("amax-of-aligned-part", f"{QUANTIZE}scalar/T2.K41.f32/on-grid/0"),
    "P16": ("ring-slot-not-cleaned", f"{TENSOR}vector/R1.C1.B12.S4.W3.bf16re4m3/random-bits/0"),
    "P17": ("missing-barrier", f"{QUANTIZE}scalar/T1.K41.f32/on-grid/0"),
    "P19": ("gate-vectors-for-codes-of-any-alignment", f"{QUANTIZE}scalar/T2.K48.f32.coff4/top-binade/0"),
    "P20": (
        "gate-bias-along-the-other-axis",
        "astrai_mm_fp8/mm_fp8/64x64-s3-lean/Ba0.Bb0.M4.N12.K37.tne4m3b16/bias-alone/0",
    ),
    "P21": ("gate-pairs-summed-in-16-bits", "metainfer_w8a8_gemm/int8_gemm/scalar/M2.N5.K7.S0.kn8/extremes/0"),
    "P23": ("model-sums-exactly", "ninfer_linear/fp8_a8_gemm/cp-async/T9.N128.K128/cancellation/0"),
}
"""A known-bad twin of each property that cases and their runs check: a fault, and a case that is there for it."""


@dataclass(frozen=True)
class Twin:
    """A known-bad twin of a property that a probe checks: an edited file, and the probe's case."""

    probe: str
    case: str
    file: str
    edit: Edit

    def source(self) -> EditedSource:
        text = host_text(self.file) if self.file.endswith(".py") else expanded(self.file)
        return EditedSource(self.file, self.edit.apply(text))


SNAPSHOT = "np.uint64(self._kernel.device.upload(x.buffer.download()).address + x.offset_bytes)"
PROBED = {
    "P14": Twin(
        "far",
        f"{QUANTIZE}scalar/T65537.K131073.bf16/on-grid/0",
        "fp8_quantize_rows",
        Edit("x + row * x_stride", "x + static_cast<int>(row * x_stride)"),
    ),
    "P15": Twin(
        "repeats",
        f"{QUANTIZE}scalar/T2.K9.f32/on-grid/0",
        "fp8_quantize_rows",
        Edit("float amax = 0.0f;\n    for_each", "float amax = 1e20f * clock();\n    for_each"),
    ),
    "P18": Twin(
        "graph",
        f"{QUANTIZE}vector/T3.K64.bf16/on-grid/0",
        "fp8_quantize_rows.py",
        Edit("np.uint64(x.address)", SNAPSHOT),
    ),
    "P22": Twin(
        "anchor",
        f"{QUANTIZE}scalar/T34.K41.bf16/on-grid/0",
        "fp8_quantize_rows",
        Edit("float amax = 0.0f;\n    for_each", "float amax = 1e-2f * blockIdx.x;\n    for_each"),
    ),
}


def test_the_catalogue_has_the_twenty_four_properties() -> None:
    assert [one.number for one in PROPERTIES.values()] == [*range(1, 25)]
    assert all(one.name and one.claim and one.bites for one in PROPERTIES.values())


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
def test_a_contract_says_of_each_property_that_it_applies_and_how_or_why_not(contract: Contract) -> None:
    assert tuple(contract.properties) == tuple(PROPERTIES)
    families = {*contract.families}
    for id_, said in contract.properties.items():
        if isinstance(said, Applies):
            assert said.checks, id_
            for check in said.checks:
                if check.name.startswith("inputs "):
                    assert {*check.name.removeprefix("inputs ").split(", ")} <= families, (id_, check.name)


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
def test_every_test_and_probe_that_a_contract_names_is_there(contract: Contract) -> None:
    checks = [one for said in contract.properties.values() if isinstance(said, Applies) for one in said.checks]
    for check in checks:
        if check.by is By.TEST:
            file, _, name = check.name.partition("::")
            assert f"\ndef {name}(" in (ROOT / file).read_text(), check.name
        if check.by is By.PROBE:
            assert check.name in PROBES
            assert check.cases
            assert all(find_case(case).contract == contract.name for case in check.cases)


def test_nothing_is_open() -> None:
    found = {(one.name, id_) for one in CONTRACTS for id_, said in one.properties.items() if isinstance(said, Open)}
    assert found == set()


SLOW = ("P3", "P5", "P11", "P13", "P16", "P20")
"""Twins whose faults other tests of the gate find, too."""


@pytest.mark.parametrize("id_", [pytest.param(id_, marks=pytest.mark.slow if id_ in SLOW else ()) for id_ in FAULTS])
def test_a_property_that_cases_check_can_fail(id_: str) -> None:
    one, case = fault(FAULTS[id_][0]), find_case(FAULTS[id_][1])
    said = built_in()[case.contract].properties[id_]
    assert isinstance(said, Applies)
    assert said.takes(case), f"{case} is not there for {id_}"
    device = Device()
    assert run_case(case, device, kernel_source=one.kernel_source(), expected=one.model).findings
    assert not run_case(case, device).findings


@pytest.mark.parametrize("id_", PROBED)
def test_a_property_that_a_probe_checks_can_fail(id_: str) -> None:
    twin = PROBED[id_]
    case = find_case(twin.case)
    said = built_in()[case.contract].properties[id_]
    assert isinstance(said, Applies)
    assert any(check.name == twin.probe and twin.case in check.cases for check in said.checks)
    assert PROBES[twin.probe](case, twin.source()) != ()


def test_an_oracle_that_is_not_wrong_is_not_rejected() -> None:
    case = find_case(f"{QUANTIZE}scalar/T3.K41.bf16/on-grid/0")
    assert not rejected(case, lambda array, name: array)
    assert all(rejected(case, wrong) for wrong in WRONG.values())
    assert accepted(find_case(f"{QUANTIZE}scalar/T1.K41.bf16/zero-rows/0")) != (), "zeros are right there"


def test_every_property_has_a_known_bad_twin() -> None:
    assert {*FAULTS, *PROBED, "P24"} == PROPERTIES.keys()


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
def test_every_check_by_cases_has_a_case(contract: Contract) -> None:
    cases = contract.cases(Tier.FULL)
    for id_, said in contract.properties.items():
        for check in said.checks if isinstance(said, Applies) else ():
            if check.by in (By.CASES, By.RUN):
                assert any(map(check.takes, cases)), (id_, check.name)


def test_a_declaration_that_leaves_a_property_out_is_refused() -> None:
    every = {id_: applies(by.order()) for id_ in PROPERTIES}
    assert tuple(declare(**every)) == tuple(PROPERTIES)
    with pytest.raises(Refusal, match="nothing is said of P24"):
        declare(**{id_: said for id_, said in every.items() if id_ != "P24"})
    with pytest.raises(Refusal, match="no property P25"):
        declare(**every, P25=applies(by.order()))
    with pytest.raises(Refusal, match="P3 applies, and nothing checks it"):
        declare(**{**every, "P3": applies()})
    for said in (Absent("no"), Open("")):
        with pytest.raises(Refusal, match=r"P3: .* is no reason"):
            declare(**{**every, "P3": said})


def test_a_finding_stands_for_a_property() -> None:
    mismatch = Finding(FindingKind.MISMATCH, "differs", "mismatch/codes/ties")
    assert property_of(mismatch, "ties") == "P2"
    assert property_of(Finding(FindingKind.MISMATCH, "differs", "mismatch/codes/not repeatable"), "ties") == "P9"
    assert property_of(Finding(FindingKind.RACE, "r", "race"), "ties") == "P17"
    assert property_of(Finding(FindingKind.TIMEOUT, "t", "timeout"), "ties") == "ends"
    assert FAMILIES.keys() < NAMES.keys()


def test_a_check_counts_the_cases_that_are_there_for_it() -> None:
    refused = find_case(f"{QUANTIZE}refused/T3.K0.f32/on-grid/0")
    ordinary = find_case(f"{QUANTIZE}scalar/T3.K41.f32.xpad2/on-grid/0")
    assert [by.poison().takes(case) for case in (refused, ordinary)] == [False, True]
    assert [by.refusals().takes(case) for case in (refused, ordinary)] == [True, False]
    assert [by.zero_and_one("K").takes(case) for case in (refused, ordinary)] == [True, False]
    assert [by.views().takes(case) for case in (refused, ordinary)] == [False, True]
    assert not Check(By.TEST, "tests/x.py::test_y").takes(ordinary)
