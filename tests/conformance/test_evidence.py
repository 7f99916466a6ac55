"""The recordings of the GPU hold for today's simulator: same case, same bytes."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Tier
from tileproof.conformance.registry import contracts
from tileproof.conformance.run_case import run_case
from tileproof.kernels.compile import compile_source
from tileproof.kernels.fp8_quantize_rows import NAME, SOURCE
from tileproof.simulators.ptx.device import Device

CONTRACT = contracts()["ninfer_quantize"]
FOLDER = Path(__file__).parents[2] / "docs" / "evidence" / "h200-2026-11-30"


@cache
def evidence(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return loaded


@pytest.mark.parametrize("case", CONTRACT.cases(Tier.SMOKE), ids=str)
def test_the_simulator_gives_the_bytes_that_the_gpu_gave(case: Case) -> None:
    assert run_case(case, Device()).output_digest == evidence("cases.json")["digests"][str(case)]


def test_every_case_of_the_full_tier_was_run_on_the_gpu() -> None:
    assert {str(case) for case in CONTRACT.cases(Tier.FULL)} == set(evidence("cases.json")["digests"])


def test_the_ptx_that_ran_on_the_gpu_is_the_ptx_that_is_simulated() -> None:
    module = compile_source(SOURCE, name=f"{NAME}.cu")
    recorded = evidence("quantize_rows.json")
    assert module.compiler == recorded["compiler"]
    assert hashlib.sha256(module.ptx.encode()).hexdigest() == recorded["ptx_sha256"]
