"""`cp.async` in machine code: the bytes, counters and findings of the reference engine."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Report
from tileproof.simulators.ptx.machine.asynchronous import small_copy

Array = NDArray[Any]


def said(report: Report) -> tuple[object, ...]:
    """What both engines must say alike."""
    return report.findings, report.notes, report.counters


def kernel(copy: str, body: str = "") -> str:
    """Each thread copies to its place in shared memory, waits and writes what is there to global memory."""
    return f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
    .shared .align 16 .b8 memory[2048];
    .reg .pred %p;
    .reg .b32 %t, %s, %v, %never;
    .reg .b64 %in, %out, %d, %generic;
    ld.param.u64 %in, [in];
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %d, %t, 16;
    add.s64 %in, %in, %d;
    mul.wide.u32 %d, %t, 4;
    add.s64 %out, %out, %d;
    mov.u32 %s, memory;
    mad.lo.u32 %s, %t, 16, %s;
    cvt.u64.u32 %generic, %s;
    cvta.shared.u64 %generic, %generic;
    {body}
    {copy}
    cp.async.commit_group;
    cp.async.wait_group 0;
    ld.shared.u32 %v, [%s];
    st.global.u32 [%out], %v;
}}
"""


def run(text: str, engine: str, count: int = 512, schedule: str = "friendly", seed: int = 0) -> tuple[Report, Array]:
    device = Device(engine=engine, order=False, schedule=schedule, seed=seed)
    given = device.upload(np.random.default_rng(1).integers(0, 1 << 32, count, np.uint32))
    out = device.upload(np.zeros(256, np.uint32))
    report = device.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(128, 1, 1), args=(given, out))
    return report, out.download()


def hostile(text: str, engine: str, seed: int) -> tuple[Report, Array]:
    """The same under a hostile schedule."""
    return run(text, engine, schedule="adversarial", seed=seed)


COPIES = {
    "16 bytes": "cp.async.cg.shared.global [%s], [%in], 16;",
    "8 bytes": "cp.async.ca.shared.global [%s], [%in], 8;",
    "4 bytes, further on": "cp.async.ca.shared.global [%s], [%in+4], 4;",
    "generic addresses": "cp.async.cg.shared.global [%generic], [%in], 16;",
    "half of the threads": "setp.lt.u32 %p, %t, 64; mov.u32 %v, 0; st.shared.u32 [%s], %v; "
    "@%p cp.async.cg.shared.global [%s], [%in], 16;",
    "all bytes, by an operand": "mov.u32 %v, 16; cp.async.cg.shared.global [%s], [%in], 16, %v;",
    "no bytes by some, whose sources are nowhere": "setp.lt.u32 %p, %t, 77; selp.u32 %v, 8, 0, %p; "
    "@!%p mov.u64 %in, 0; cp.async.ca.shared.global [%s], [%in], 8, %v;",
    "no bytes by any": "mov.u32 %v, 0; cp.async.ca.shared.global [%s], [%in], 4, %v; st.global.u32 [%out+512], %t;",
    "two groups": "cp.async.ca.shared.global [%s], [%in], 4; cp.async.commit_group; "
    "cp.async.ca.shared.global [%s+4], [%in], 4; cp.async.wait_group 1; cp.async.wait_all;",
}
WRONG = {
    "past the allocation": "cp.async.cg.shared.global [%s], [%in+64], 16;",
    "past shared memory": "cp.async.cg.shared.global [%s+1024], [%in], 16;",
    "not aligned": "cp.async.cg.shared.global [%s], [%in+4], 16;",
    "more bytes than are written": "mov.u32 %v, 20; cp.async.cg.shared.global [%s], [%in], 16, %v;",
    "as many bytes as nothing wrote": "cp.async.cg.shared.global [%s], [%in], 16, %never;",
    "past shared memory, no bytes": "mov.u32 %v, 0; cp.async.cg.shared.global [%s+1024], [%in], 16, %v;",
    "an address that nothing wrote": "cp.async.cg.shared.global [%never], [%in], 16;",
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_are_those_of_the_reference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, words = run(kernel(COPIES[name]), "reference")
    assert expected.findings == []
    assert words.any()

    def never(*_: Any) -> None:
        raise AssertionError("the copy was handed back")

    monkeypatch.setattr(small_copy, "_issue", never)
    report, result = run(kernel(COPIES[name]), "fast")
    assert said(report) == said(expected)
    assert np.array_equal(result, words)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_copy_is_found_alike(name: str) -> None:
    expected, words = run(kernel(WRONG[name]), "reference")
    report, result = run(kernel(WRONG[name]), "fast")
    assert expected.findings
    assert said(report) == said(expected)
    assert np.array_equal(result, words)


def test_bits_that_nothing_wrote_are_copied_along() -> None:
    device = {engine: Device(engine=engine, order=False) for engine in ("reference", "fast")}
    reports = []
    for machine in device.values():
        given, out = machine.allocate(512, np.uint32), machine.upload(np.zeros(128, np.uint32))
        function = machine.load_ptx(kernel(COPIES["16 bytes"]))["k"]
        reports.append(function.launch(grid=(1, 1, 1), block=(128, 1, 1), args=(given, out)))
    assert reports[0].findings
    assert said(reports[0]) == said(reports[1])


def test_a_thread_that_exits_without_a_wait_is_found_alike() -> None:
    text = kernel(COPIES["16 bytes"]).replace("cp.async.wait_group 0;", "exit;")
    expected, _ = run(text, "reference")
    assert expected.findings
    assert said(run(text, "fast")[0]) == said(expected)


@pytest.mark.parametrize("name", COPIES)
def test_copies_in_flight_are_those_of_the_reference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [hostile(kernel(COPIES[name]), "reference", seed) for seed in range(6)]
    assert all(report.findings == [] for report, _ in runs)

    def never(*_: Any) -> None:
        raise AssertionError("the copy was handed back")

    monkeypatch.setattr(small_copy, "_issue", never)
    for seed, (expected, words) in enumerate(runs):
        report, result = hostile(kernel(COPIES[name]), "fast", seed)
        assert said(report) == said(expected)
        assert np.array_equal(result, words)


@pytest.mark.parametrize("engine", ["reference", "fast"])
def test_bytes_in_flight_are_nobodys_until_they_land(engine: str) -> None:
    text = kernel(COPIES["16 bytes"]).replace("cp.async.wait_group 0;", "")
    text = text.replace("st.global.u32 [%out], %v;", "st.global.u32 [%out], %v; cp.async.wait_all;")
    kinds = {str(f.kind) for seed in range(6) for f in hostile(text, engine, seed)[0].findings}
    assert "uninitialised" in kinds
