"""Every probe that a contract names finds nothing wrong with the kernels as shipped."""

import pytest

from tileproof.conformance.contract import EditedSource
from tileproof.conformance.properties.declaration import Applies, By
from tileproof.conformance.properties.probes.probe import PROBES
from tileproof.conformance.registry import built_in, find_case
from tileproof.kernels import fp8_bias_gradient

LONG = (
    "ninfer_linear_add/",
    "ninfer_linear_swiglu/",
    "ninfer_attn_input_proj/",
    "ninfer_gdn_input_proj/",
    "astrai_linear",
    "astrai_mm_fp8/",
    "/decode-",
    "/tile-",
    "T131136.N128.K65536",
    "T4194240.N2048.K64",
    "M65535.N64.K131008",
    "/wgmma-",
    "unp64k16",
)
"""What ids hold whose probes are for the slow lane: each takes a second, and others of its probe are here."""


def runs() -> list[tuple[str, str]]:
    return [
        (check.name, case)
        for contract in built_in().values()
        for said in contract.properties.values()
        if isinstance(said, Applies)
        for check in said.checks
        if check.by is By.PROBE
        for case in check.cases
    ]


def is_slow(case: str) -> bool:
    return any(part in case for part in LONG)


@pytest.mark.parametrize(
    ("probe", "case"),
    [pytest.param(probe, case, marks=pytest.mark.slow if is_slow(case) else ()) for probe, case in runs()],
)
def test_a_probe_finds_nothing_wrong_with_what_is_shipped(probe: str, case: str) -> None:
    assert PROBES[probe](find_case(case), None) == ()


def test_every_probe_is_named_by_a_contract() -> None:
    assert {probe for probe, _ in runs()} == PROBES.keys()


@pytest.mark.parametrize("width", ["int", "unsigned"])
def test_a_sum_over_rows_whose_offset_is_cut_is_noticed(width: str) -> None:
    (case,) = (case for probe, case in runs() if probe == "far column sums")
    offset = "row * columns + column"
    assert fp8_bias_gradient.SOURCE.count(offset) == 1
    cut = fp8_bias_gradient.SOURCE.replace(offset, f"static_cast<{width}>({offset})")
    assert PROBES["far column sums"](find_case(case), None) == ()
    assert PROBES["far column sums"](find_case(case), EditedSource(fp8_bias_gradient.NAME, cut))
