"""The script that runs mutants on a GPU, without one: what it loads, and how it counts."""

import importlib.util
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tileproof.conformance.finding import Finding, FindingKind
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import run_case
from tileproof.kernels.compile import CompiledModule
from tileproof.simulators.ptx.device import Device, HasPtx


@pytest.fixture(scope="module")
def script() -> Any:
    path = Path(__file__).parents[1] / "h200" / "mutants.py"
    spec = importlib.util.spec_from_file_location("mutants_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_text_that_a_gpu_would_load_is_killed_on_the_cpu_device_too(script: Any) -> None:
    chosen = next(one for one in script.sample() if one.id.startswith("int8_pack/") and one.outcome == "killed")

    class Loads(Device):
        """What `MutatedGpu` does, with the CPU device below it."""

        def load(self, module: HasPtx) -> Any:
            assert isinstance(module, CompiledModule)
            mutant = script.find(module, chosen.id, chosen.entry)
            if mutant is None:
                return super().load(module)
            entry = script.parse_module(module.ptx).entries[mutant.entry]
            return self.load_ptx(mutant.patch.text(module.ptx, entry))

    found = run_case(find_case(chosen.case), Loads()).findings
    assert tuple(dict.fromkeys(str(one.kind) for one in found)) == chosen.kinds


def test_a_mutant_runs_until_its_first_finding_and_no_further(script: Any) -> None:
    case = find_case(script.sample()[0].case)
    answers = [(), (Finding(FindingKind.MISMATCH, "", ""), Finding(FindingKind.UNWRITTEN, "", "")), ()]

    class Fake:
        def run(self, job: Any) -> Any:
            assert job.coordinates.seed == 7
            return type("Result", (), {"findings": answers.pop(0)})

    assert script.kinds(Fake(), case, 7) == ["mismatch", "unwritten"]
    assert len(answers) == 1


def test_what_did_not_run_is_no_wrong_value(script: Any) -> None:
    one = asdict(script.sample()[0])
    rows = [{**one, "gpu": found} for found in (["mismatch"], [], ["not run: the driver does not assemble it"])]
    evidence = script.evidence(rows, {"a": [], "b": ["crash"]}, 1.0)
    assert evidence["counts"]["all"] == {"mutants": 3, "ran": 2, "wrong": 1}
    assert evidence["shipped_with_findings"] == {"b": ["crash"]}


def test_mutants_that_workers_share_are_each_judged_once_and_none_after_the_end(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "kinds", lambda worker, case, number: [f"{number}"] if number != 3 else 1 / 0)
    found = script.run(range(1, 5), float("inf"), 3)
    assert list(found.values()) == [["1"], ["2"], ["not run: division by zero"], ["4"]]
    assert script.run(range(1, 5), 0.0, 3) == {}


def test_what_hung_is_judged_anew_and_nothing_else(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [one.id for one in script.sample()[:3]]
    rows = [{"id": one, "gpu": found} for one, found in zip(ids, (["mismatch"], ["timeout"], []), strict=True)]
    monkeypatch.setattr(script, "as_shipped", lambda names: {name: [] for name in names})
    monkeypatch.setattr(script, "kinds", lambda worker, case, number: [f"anew {number}"])
    again, shipped = script.hung_again({"mutants": rows, "shipped_with_findings": {"a": ["timeout"]}}, float("inf"))
    assert [row["gpu"] for row in again] == [["mismatch"], ["anew 2"], []]
    assert shipped == {"a": []}
