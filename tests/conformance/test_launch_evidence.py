"""What launchers pass is a part of a mark: another grid or argument loses it, another place in memory does not."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tileproof.conformance.contract import EditedSource, Tier
from tileproof.conformance.coverage.coverage import Sources, coverage
from tileproof.conformance.coverage.tables import lines
from tileproof.conformance.evidence.dry_device import DryDevice
from tileproof.conformance.evidence.kernel_file import FILE as KERNELS
from tileproof.conformance.evidence.kernel_file import read_modules
from tileproof.conformance.evidence.launch_file import FILE, read_forms, write_forms
from tileproof.conformance.evidence.launch_form import Passed, form_digest, form_of
from tileproof.conformance.evidence.launched import asked
from tileproof.conformance.evidence.recordings import recordings
from tileproof.conformance.evidence.standing import Standing, standing
from tileproof.conformance.host_module import host_text
from tileproof.conformance.registry import contracts, find_case
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.machine.memory import GLOBAL_BASE

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
CASE = find_case("ninfer_quantize/fp8_quantize_rows/vector/T2.K801.bf16.xpad7.cpad7/all-codes/0")
LAUNCHER = "fp8_quantize_rows.py"
CASES = [
    find_case(name)
    for name in (
        "ninfer_linear/fp8_a8_gemm/tma/T257.N128.K64/on-grid/0",
        "astrai_mm_fp8/mm_fp8/64x64-s3-lean/Ba2.Bb2.M33.N40.K32.nte4m3/on-grid/0",
        "astrai_linear/fp8_linear/training/P0.S3.B0.M5.N9.K17.W2.e4m3e5m2/rising/0",
        "metainfer_w8a8_gemm/int8_gemm/wgmma-128x256-s4/M128.N256.K16.S0.nk8/uniform/0",
        "metainfer_pack/int8_pack/scalar/K9.N100.nk8/random/0",
    )
]
EDITS = {
    "a block more": ('grid=(extents["T"], 1, 1)', 'grid=(extents["T"] + 1, 1, 1)'),
    "fewer threads": ("block=(THREADS, 1, 1)", "block=(THREADS // 2, 1, 1)"),
    "shared memory": ("block=(THREADS, 1, 1),", "block=(THREADS, 1, 1),\n            shared_bytes=64,"),
    "a size": ('np.int64(extents["K"])', 'np.int64(extents["K"] - 1)'),
    "a stride": ("np.int64(x.strides[0])", "np.int64(codes.strides[0] + 1)"),
    "another tensor": ("np.uint64(x.address)", "np.uint64(codes.address)"),
    "a later element": ("np.uint64(x.address)", "np.uint64(x.address + 16)"),
    "an argument less": ('                np.int64(extents["K"]),\n', ""),
}


def device() -> DryDevice:
    return DryDevice(read_modules(EVIDENCE / KERNELS))


@pytest.mark.parametrize("name", EDITS)
def test_a_launcher_that_passes_something_else_loses_its_mark(name: str) -> None:
    old, new = EDITS[name]
    text = host_text(LAUNCHER)
    assert text.count(old) == 1
    shipped = asked([CASE], device())[CASE]
    edited = asked([CASE], device(), EditedSource(LAUNCHER, text.replace(old, new)))[CASE]
    assert edited.kernels == shipped.kernels
    recorded = recordings(EVIDENCE)[str(CASE)]
    assert standing(shipped.kernels, recorded, form=shipped.form, kept=shipped.form) is Standing.CONFIRMED
    assert standing(edited.kernels, recorded, form=edited.form, kept=shipped.form) is Standing.LOST
    assert standing(edited.kernels, recorded, form=edited.form) is Standing.CONFIRMED, "of which nothing was kept"


def test_a_launcher_whose_text_alone_changes_keeps_its_mark() -> None:
    text = (
        host_text(LAUNCHER)
        .replace("extents = check_tensors", "extents = dict(check_tensors")
        .replace("RULES, (x, codes, scales))", "RULES, (x, codes, scales)))")
    )
    assert text != host_text(LAUNCHER)
    assert asked([CASE], device(), EditedSource(LAUNCHER, text)) == asked([CASE], device())


def test_where_buffers_happen_to_be_changes_nothing() -> None:
    """Behind other cases they lie elsewhere; of tensor maps that changes the checksum, too."""
    alone = {case: asked([case], device())[case] for case in CASES}
    assert asked(CASES[::-1], device()) == alone
    assert len({one.form for one in alone.values()}) == len(CASES)


def test_addresses_are_told_by_tensor_and_structures_by_words() -> None:
    inside, workspace = GLOBAL_BASE + 0x110, GLOBAL_BASE + 0x9000
    words = np.array([inside, 7, workspace], np.uint64)
    one = Passed((1, 2, 3), (32, 1, 1), (1, 1, 1), 64, (np.uint64(inside), np.int32(-5), np.void(words.tobytes())))
    told = form_of(one, {"x": (GLOBAL_BASE + 0x100, 0x20), "y": (GLOBAL_BASE, 0x20)})
    assert told == "(1, 2, 3) (32, 1, 1) (1, 1, 1) 64 x+16 int32:-5 {x+16, 7, elsewhere}"
    assert form_digest([one], {}) != form_digest([one, one], {})


def test_the_file_keeps_what_is_written_and_refuses_what_is_none(tmp_path: Path) -> None:
    path = tmp_path / FILE
    assert read_forms(path) == {}
    forms = {"b": "1", "a": "1", "c": "2"}
    write_forms(path, forms)
    assert read_forms(path) == forms
    assert path.read_text().count("\n") == 4, "a line for each digest"
    for text in ("[]", "{", json.dumps({"launches": {"1": "a"}}), json.dumps({"launch": {}})):
        path.write_text(text)
        with pytest.raises(Refusal):
            read_forms(path)


def test_coverage_says_whose_launcher_passes_something_else() -> None:
    contract = replace(contracts()["ninfer_quantize"], cases=lambda tier: [CASE])
    sources = Sources([contract], device(), recordings(EVIDENCE), (), explained={})
    kept = asked([CASE], device())[CASE].form
    (mark,) = coverage(replace(sources, forms={str(CASE): kept})).marks
    assert (mark.cases[Standing.CONFIRMED], mark.lost) == (1, ())
    found = coverage(replace(sources, forms={str(CASE): "0" * 16}))
    assert found.marks[0].cases[Standing.LOST] == 1
    assert "ninfer_quantize: 1 marks lost, of fp8_quantize_rows: what its launcher passes" in list(lines(found))


def test_what_was_kept_is_what_launchers_pass_today() -> None:
    """Where it fails, a launcher has changed: its cases run on a GPU again, then `tests/h200/keep_launches.py GLOB`."""
    kept = read_forms(EVIDENCE / FILE)
    wanted = [case for contract in contracts().values() for case in contract.cases(Tier.SMOKE) if str(case) in kept]
    assert len(wanted) > 400
    today = asked(wanted, device())
    assert [str(case) for case, one in today.items() if one.form != kept[str(case)]] == []
