"""Every probe that a contract names finds nothing wrong with the kernels as shipped."""

import pytest

from tileproof.conformance.properties.declaration import Applies, By
from tileproof.conformance.properties.probes.probe import PROBES
from tileproof.conformance.registry import built_in, find_case

COUSINS = (
    "ninfer_linear_add",
    "ninfer_linear_swiglu",
    "ninfer_attn_input_proj",
    "ninfer_gdn_input_proj",
    "astrai_linear_backward",
)
"""Contracts whose kernels another contract's probes run already; theirs are for the slow lane."""

LONG = ("T131136.N128.K65536", "M65535.N64.K131008", "bf16re4m3te5m2/zeros")
"""Extents whose probe takes a second, beside others of the same property."""


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
    return case.split("/")[0] in COUSINS or any(extents in case for extents in LONG)


@pytest.mark.parametrize(
    ("probe", "case"),
    [pytest.param(probe, case, marks=pytest.mark.slow if is_slow(case) else ()) for probe, case in runs()],
)
def test_a_probe_finds_nothing_wrong_with_what_is_shipped(probe: str, case: str) -> None:
    assert PROBES[probe](find_case(case), None) == ()


def test_every_probe_is_named_by_a_contract() -> None:
    assert {probe for probe, _ in runs()} == PROBES.keys()
