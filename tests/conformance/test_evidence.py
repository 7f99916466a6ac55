"""The recordings of the GPU hold for today's simulator: same case, same bytes."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Contract, Tier
from tileproof.conformance.registry import contracts
from tileproof.conformance.run_case import run_case
from tileproof.kernels.compile import compile_source
from tileproof.kernels.fp8_quantize_rows import NAME, SOURCE
from tileproof.simulators.ptx.device import Device

CONTRACT = contracts()["ninfer_quantize"]
FOLDER = Path(__file__).parents[2] / "docs" / "evidence"
FIRST, LATEST = "h200-2026-11-30", "h200-2026-12-01"
DIGESTS = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("h200-*/*cases.json"))


@cache
def evidence(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return loaded


@pytest.mark.parametrize("case", CONTRACT.cases(Tier.SMOKE), ids=str)
def test_the_simulator_gives_the_bytes_that_the_gpu_gave(case: Case) -> None:
    recorded = [evidence(name)["digests"] for name in DIGESTS]
    assert [run_case(case, Device()).output_digest] == [one[str(case)] for one in recorded if str(case) in one]


@pytest.mark.parametrize("contract", contracts().values(), ids=lambda contract: contract.name)
def test_every_case_of_every_tier_was_run_on_the_gpu(contract: Contract) -> None:
    recorded = [evidence(name) for name in DIGESTS]
    ran = {case for one in recorded for case in (*one["digests"], *one["passed_with_different_bytes"])}
    assert {str(case) for case in contract.cases(Tier.SOAK)} <= ran
    assert all(one["differing"] == 0 for one in recorded)


@pytest.mark.parametrize("name", DIGESTS)
def test_only_outputs_that_a_contract_leaves_open_differ_between_the_devices(name: str) -> None:
    assert {case.split("/")[0] for case in evidence(name)["passed_with_different_bytes"]} <= {"ninfer_linear_swiglu"}


def test_the_ptx_that_ran_on_the_gpu_is_the_ptx_that_is_simulated() -> None:
    module = compile_source(SOURCE, name=f"{NAME}.cu")
    recorded = evidence(f"{FIRST}/quantize_rows.json")
    assert module.compiler == recorded["compiler"]
    assert hashlib.sha256(module.ptx.encode()).hexdigest() == recorded["ptx_sha256"]


def test_the_gpu_alone_gave_the_bytes_that_both_devices_gave() -> None:
    confirmed = evidence(f"{LATEST}/confirmed.json")
    both = [evidence(name)["digests"] for name in DIGESTS]
    assert confirmed["failed"] == []
    assert sum(len(group["cases"]) for group in confirmed["launched"]) == confirmed["passed"]
    without = {case for case in confirmed["other"] if not any(case in one for one in both)}
    assert {case.split("/")[0] for case in without} <= {"ninfer_linear_swiglu"}
    assert all(digest in {one.get(case, digest) for one in both} for case, digest in confirmed["other"].items())
