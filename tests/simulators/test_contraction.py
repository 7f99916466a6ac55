"""Multiplications and additions without a rounding mode: run apart and fused, and nothing else is fused."""

from typing import Any

import numpy as np
import pytest

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.decoding.contraction import Contraction
from tileproof.simulators.ptx.device import Device

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
    .reg .pred %p<4>; .reg .f32 %f<16>; .reg .f64 %g<8>; .reg .b16 %h<8>; .reg .b32 %r<8>; .reg .b64 %d<8>;
    ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, %r0;
    mul.wide.u32 %d2, %r0, 16; add.s64 %d2, %d2, %d0; ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d2];
    mul.wide.u32 %d3, %r0, 4; add.s64 %d3, %d3, %d1;
"""
TAIL = "st.global.f32 [%d3], %f9; ret; }"
MUL = "mul.f32 %f4, %f0, %f1;"


def values() -> Any:
    """x, y, z, w of 32 threads, so near to cancelling that one rounding more shows."""
    drawn = np.random.default_rng(0).standard_normal((32, 4)).astype(np.float32)
    drawn[:, 2] = -drawn[:, 0] * drawn[:, 1]
    drawn[:, 3] = drawn[:, 0]
    return drawn


def run(body: str, contraction: str = "none", engine: str = "fast") -> tuple[Any, int]:
    device = Device(contraction=contraction, engine=engine)
    out = device.allocate((32,), np.float32)
    kernel = device.load_ptx(HEAD + body + TAIL)["k"]
    report = kernel.launch(grid=(1, 1, 1), block=(32, 1, 1), args=(device.upload(values()), out))
    assert report.findings == []
    return out.download(), len(kernel.contractible)


def exactly(a: Any, b: Any, c: Any) -> Any:
    """a · b + c, rounded once; where it nearly cancels, float64 has it exactly."""
    return (a.astype(np.float64) * b + c).astype(np.float32)


X, Y, Z, W = (values()[:, index] for index in range(4))
FUSED = {
    "add of a product": (f"{MUL} add.f32 %f9, %f4, %f2;", X * Y + Z, exactly(X, Y, Z)),
    "product added": (f"{MUL} add.f32 %f9, %f2, %f4;", X * Y + Z, exactly(X, Y, Z)),
    "sub from a product": (f"neg.f32 %f5, %f2; {MUL} sub.f32 %f9, %f4, %f5;", X * Y + Z, exactly(X, Y, Z)),
    "sub of a product": (f"neg.f32 %f5, %f2; {MUL} sub.f32 %f9, %f5, %f4;", -Z - X * Y, exactly(-X, Y, -Z)),
    "across a branch, each register written once": (
        f"{MUL} @%p0 bra L; mov.f32 %f6, 0f00000000; L: add.f32 %f9, %f4, %f2;", X * Y + Z, exactly(X, Y, Z),
    ),
    "in a block, registers written again": (
        "mov.f32 %f4, %f0; mul.f32 %f4, %f4, %f1; mul.f32 %f5, %f0, %f1; add.f32 %f9, %f5, %f2; mov.f32 %f5, %f9;",
        X * Y + Z, exactly(X, Y, Z),
    ),
    "under one guard": (f"mov.f32 %f9, %f0; @%p0 {MUL} @%p0 add.f32 %f9, %f4, %f2;", X * Y + Z, exactly(X, Y, Z)),
    "behind a label": (f"{MUL} bra M; M: neg.f32 %f5, %f2; sub.f32 %f9, %f4, %f5;", X * Y + Z, exactly(X, Y, Z)),
}  # fmt: skip
APART = {
    "a rounded product": "mul.rn.f32 %f4, %f0, %f1; add.f32 %f9, %f4, %f2;",
    "a rounded sum": f"{MUL} add.rn.f32 %f9, %f4, %f2;",
    "a product cut to 1": "mul.sat.f32 %f4, %f0, %f1; add.f32 %f9, %f4, %f2;",
    "flushed and not": "mul.ftz.f32 %f4, %f0, %f1; add.f32 %f9, %f4, %f2;",
    "a factor changed in between": f"mov.f32 %f0, %f3; {MUL} mov.f32 %f0, %f1; add.f32 %f9, %f4, %f2;",
    "a product that overwrites its factor": "mul.f32 %f0, %f0, %f1; add.f32 %f9, %f0, %f2;",
    "a product or something else": f"mov.f32 %f4, %f0; @%p0 {MUL} add.f32 %f9, %f4, %f2;",
    "a register of two blocks": f"{MUL} @%p0 bra L; mov.f32 %f4, %f0; L: add.f32 %f9, %f4, %f2;",
}


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_a_pair_runs_apart_and_fused(name: str, engine: str) -> None:
    body, apart, fused = FUSED[name]
    assert (apart != fused).any()
    for contraction, expected in (("none", apart), ("first", fused), ("last", fused)):
        result, count = run(body, contraction, engine)
        np.testing.assert_array_equal(result, expected)
        assert count == 1


@pytest.mark.parametrize("name", APART)
def test_what_is_no_pair_stays_apart(name: str) -> None:
    result, count = run(APART[name])
    assert count == 0
    for contraction in ("first", "last"):
        np.testing.assert_array_equal(run(APART[name], contraction)[0], result)


def test_of_two_products_the_first_or_the_last_is_fused() -> None:
    body = f"{MUL} neg.f32 %f6, %f3; mul.f32 %f5, %f6, %f1; add.f32 %f9, %f4, %f5;"
    product = X * Y
    expected = {"none": 0 * X, "first": exactly(X, Y, -product), "last": exactly(-W, Y, product)}
    for contraction, result in expected.items():
        np.testing.assert_array_equal(run(body, contraction)[0], result)
    assert (expected["first"] != expected["last"]).any()


def test_a_product_stays_for_others_that_read_it() -> None:
    body = f"{MUL} add.f32 %f5, %f4, %f2; add.rn.f32 %f9, %f5, %f4;"
    np.testing.assert_array_equal(run(body, "first")[0], exactly(X, Y, Z) + X * Y)


@pytest.mark.parametrize("type_", ["f64", "f16", "bf16"])
def test_other_types_are_fused_too(type_: str) -> None:
    registers = {"f64": "%g", "f16": "%h", "bf16": "%h"}[type_]
    into = "".join(f"cvt{'' if type_ == 'f64' else '.rn'}.{type_}.f32 {registers}{n}, %f{n};" for n in range(3))
    back = f"cvt{'.rn' if type_ == 'f64' else ''}.f32.{type_} %f9, {registers}4;"
    pair = (
        f"mul.{type_} {registers}3, {registers}0, {registers}1; sub.{type_} {registers}4, {registers}3, {registers}2;"
    )
    # Products of two float32 are exact in float64; of a reciprocal they are not.
    more = "rcp.rn.f64 %g0, %g0; mul.rn.f64 %g2, %g0, %g1;" if type_ == "f64" else ""
    apart, count = run(into + more + pair + back)
    assert count == 1
    assert (run(into + more + pair + back, "first")[0] != apart).any()


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(Refusal, match="unknown contraction"):
        Device(contraction="some")
    assert [str(way) for way in Contraction] == ["none", "first", "last"]
