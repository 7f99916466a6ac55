"""Tensor copies and maps held to the H200: every recorded copy, compiled by NVRTC, and the encoder's answers."""

import importlib.util
import json
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.kernels.tensor_probe import POISON, RANKS, REDUCTIONS, TensorProbe
from tileproof.oracle.addresses.tensor_map import Interleave, Promotion, SwizzleMode, TensorMapRequest, TensorType
from tileproof.oracle.addresses.tma_tile import Fill
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.tensor_map import check

TESTS = Path(__file__).parents[1]
GOLDEN, EVIDENCE = TESTS / "golden", TESTS.parent / "docs" / "evidence" / "h200-2026-11-30"
RECORDED_BYTES = 8192  # of shared memory in the two older recordings


def load_script(name: str) -> ModuleType:
    """A module of tests/h200."""
    spec = importlib.util.spec_from_file_location(name, TESTS / "h200" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


CASES, REQUESTS = load_script("tensor_cases"), load_script("tensor_requests")
DEVICES = {"friendly": Device(), "adversarial": Device(schedule="adversarial", seed=3)}


@cache
def probe(schedule: str) -> TensorProbe:
    return TensorProbe(DEVICES[schedule], RANKS, REDUCTIONS)


def evidence(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((EVIDENCE / name).read_text())
    return loaded


def listing(name: str) -> Any:
    with np.load(GOLDEN / name) as recording:
        return json.loads(recording["listing"].tobytes())


def on_device(copy: Any, tensor: NDArray[Any] | None = None, schedule: str = "friendly") -> tuple[Any, bool, list[str]]:
    """Bytes, completion and findings of one copy; of its own tensor unless another is given."""
    if tensor is not None:
        copy = _WithTensor(copy, tensor)
    left, complete, report = CASES.run(DEVICES[schedule], probe(schedule), copy)
    return left, complete, [str(finding) for finding in report.findings]


class _WithTensor:
    """A copy whose tensor is given."""

    def __init__(self, copy: Any, tensor: NDArray[Any]) -> None:
        self._copy, self._tensor = copy, tensor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._copy, name)

    def tensor(self) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self._tensor).reshape(-1).view(np.uint8)


@pytest.mark.parametrize("schedule", ["friendly", "adversarial"])
def test_the_92_recorded_copies_of_rank_2_come_out_of_the_device(schedule: str) -> None:
    tensor = (np.arange(40)[:, np.newaxis] * 256 + np.arange(256)).astype(np.uint16)
    with np.load(GOLDEN / "h200_tma_2d_u16.npz") as recording:
        names = sorted(recording.files)
        for name in names if schedule == "friendly" else names[::8]:
            found = re.fullmatch(r"sw(\d+)_off(\d+)_c(-?\d+)_(-?\d+)", name)
            assert found is not None
            span, offset, c0, c1 = map(int, found.groups())
            copy = CASES.Copy(
                "load", "uint16", (256, 40), (512,), ((span or 64) // 2, 24), (c0, c1), span, offset=offset
            )
            left, complete, findings = on_device(copy, tensor, schedule)
            assert (complete, findings) == (True, []), name
            np.testing.assert_array_equal(left[:RECORDED_BYTES], recording[name], err_msg=name)
            assert (left[RECORDED_BYTES:] == POISON).all(), name


def numbered(entry: dict[str, Any], row_bytes: int) -> NDArray[np.uint8]:
    """The recording's tensor: element e holds e + 1, rows at the pitch of the first stride."""
    size = CASES.Copy.of(_arguments(entry)).type.nbytes
    count = int(np.prod(entry["shape"]))
    low = np.arange(1, count + 1, dtype=np.uint64).view(np.uint8).reshape(count, 8)[:, :size]
    rows = np.ascontiguousarray(low).reshape(-1, entry["shape"][0] * size)
    return np.pad(rows, ((0, 0), (0, row_bytes - rows.shape[1]))).reshape(-1)


def _arguments(entry: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "load", "strides_bytes": []} | {
        name: entry[name] for name in ("dtype", "shape", "box", "corner", "swizzle", "fill", "offset")
    }


def test_the_recorded_ranks_fills_and_narrow_rows_and_their_errors_come_out_of_the_device() -> None:
    errors = {"cudaErrorIllegalInstruction": "misaligned", "cudaErrorMisalignedAddress": "misaligned"}
    with np.load(GOLDEN / "h200_tma_boxes.npz") as recording:
        for number, entry in enumerate(listing("h200_tma_boxes.npz")["cases"]):
            copy = CASES.Copy.of(_arguments(entry))
            extent = -(-copy.shape[0] * copy.type.nbytes // 16) * 16
            tensor, strides = numbered(entry, extent), []
            for length in copy.shape[1:]:
                strides.append(extent)
                extent *= length
            copy = replace(copy, strides_bytes=tuple(strides))
            left, complete, report = CASES.run(DEVICES["friendly"], probe("friendly"), _WithTensor(copy, tensor))
            kinds = sorted({finding.kind.value for finding in report.findings})
            if entry["error"]:
                assert kinds == [errors[entry["error"].split(":")[0]]], entry
                continue
            assert (complete, kinds) == (True, []), entry
            np.testing.assert_array_equal(left[:RECORDED_BYTES], recording[f"case{number}"], err_msg=str(entry))


def test_recorded_loads_multicasts_stores_and_reductions_come_out_of_the_device() -> None:
    kinds = set()
    with np.load(GOLDEN / "h200_tensor_copies.npz") as recording:
        for number, entry in enumerate(listing("h200_tensor_copies.npz")):
            copy = CASES.Copy.of(entry)
            kinds.add(copy.kind)
            left, complete, findings = on_device(copy)
            assert (complete, findings) == (True, []), copy
            np.testing.assert_array_equal(left, recording[f"copy{number}"], err_msg=str(copy))
    assert {"load", "multicast", "store", "add"} <= kinds


def test_recorded_copies_do_not_depend_on_the_schedule() -> None:
    with np.load(GOLDEN / "h200_tensor_copies.npz") as recording:
        for number, entry in list(enumerate(listing("h200_tensor_copies.npz")))[::8]:
            left, complete, findings = on_device(CASES.Copy.of(entry), schedule="adversarial")
            assert (complete, findings) == (True, []), entry
            np.testing.assert_array_equal(left, recording[f"copy{number}"], err_msg=str(entry))


@pytest.mark.parametrize("change", [{"swizzle": 0}, {"offset": 128}, {"corner": (16, 0)}, {"fill": "nan"}], ids=str)
def test_a_copy_of_another_form_does_not_come_out_alike(change: dict[str, Any]) -> None:
    copy = CASES.Copy("load", "float16", (64, 12), (128,), (32, 8), (40, 0), 64, seed=1)
    assert not np.array_equal(on_device(copy)[0], on_device(replace(copy, **change))[0])


def test_every_copy_that_the_h200_refused_has_its_finding() -> None:
    recorded = {row["copy"]: row for row in evidence("tensor_refusals.json")["refused"]}
    cases = CASES.illegal()
    assert [case.name for case in cases] == list(recorded)
    assert all(row["gpu"][0].startswith("cudaError") for row in recorded.values())
    for case in cases:
        if len(case.copy.corner) != 2 or case.garbage:
            continue  # the barrier waits in vain: in test_tensor_copy
        _, _, report = CASES.run(DEVICES["friendly"], probe("friendly"), case.copy, zeros=case.garbage)
        assert {finding.kind.value for finding in report.findings} == {recorded[case.name]["expected"]}, case.name


def accepted(request: TensorMapRequest) -> bool:
    try:
        check(request, 90)
    except Refusal:
        return False
    return True


def request_of(row: list[int]) -> TensorMapRequest:
    """A row of the witness table, as tests/h200/tensor_map.py wrote it."""
    kind, rank, address, *rest = row
    interleave, swizzle, promotion, fill = rest[20:]
    return TensorMapRequest(
        data_type=next(member for member in TensorType if member.number == kind),
        address=address,
        shape=tuple(rest[:rank]),
        strides_bytes=tuple(rest[5 : 4 + rank]),
        box=tuple(rest[10 : 10 + rank]),
        element_strides=tuple(rest[15 : 15 + rank]),
        interleave=Interleave(interleave),
        swizzle=next(mode for mode in SwizzleMode if mode.number == swizzle),
        promotion=Promotion(promotion),
        fill=list(Fill)[fill],
    )


def witnesses() -> list[tuple[TensorMapRequest, bool]]:
    with np.load(GOLDEN / "h200_tensor_map.npz") as table:
        rows, taken = table["requests"].tolist(), table["taken"].tolist()
    return [(request_of(row), answer) for row, answer in zip(rows, taken, strict=True)]


def test_the_driver_s_answers_to_600_requests_are_ours() -> None:
    table = witnesses()
    assert sum(taken for _, taken in table) == len(table) // 2 == 300
    for request, taken in table:
        assert accepted(request) == taken, request


def test_a_rule_left_out_disagrees_with_the_witnesses() -> None:
    """The limit on a box's bytes, which no manual states: requests that break it alone are in the table."""
    smaller = [replace(request, element_strides=(8,) * request.rank) for request, taken in witnesses() if not taken]
    assert any(accepted(request) for request in smaller)


def test_the_driver_s_answers_to_ten_thousand_requests_are_ours() -> None:
    recorded = evidence("tensor_map.json")
    assert recorded["different"] == 0
    answers = [accepted(request) for request in REQUESTS.requests(recorded["gate_requests"])]
    assert REQUESTS.digest(answers) == recorded["gate_digest"]


def test_the_evidence_says_that_nothing_differed() -> None:
    copies, refused = evidence("tensor_copy.json"), evidence("tensor_refusals.json")
    assert (copies["copies"], copies["different"]) == (3000, 0)
    assert refused["alike"] == refused["copies"] == len(refused["refused"])
    assert {name.split()[2] for name in copies["forms"]} == {f"{rank}d" for rank in RANKS}
    reductions = {tuple(name.split()[:2]) for name in copies["forms"]} & {(n, k.label) for n, k in CASES.PAIRS}
    assert len(reductions) == len(CASES.PAIRS)
