"""Instructions that only some targets have: run where they are, refused elsewhere; and the carry flag of a lane."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind, Report

ONE, TWO, THREE, NAN = 0x3F800000, 0x40000000, 0x40400000, 0x7FFFFFFF


def launch(body: str, target: str = "sm_100a") -> tuple[Report, NDArray[np.uint32]]:
    """One thread; %d0 points to four words of output."""
    text = f"""
.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .reg .b8 %b<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>;
    ld.param.u64 %d0, [out];
    {body}
}}
"""
    device = Device(arch=target)
    out = device.upload(np.zeros(4, np.uint32))
    report = device.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(1, 1, 1), args=(out,))
    return report, out.download()


def first(body: str, target: str = "sm_100a") -> int:
    report, values = launch(body, target)
    assert report.findings == []
    return int(values[0])


@pytest.mark.parametrize(
    ("opcode", "operands", "result"),
    [
        ("max.f32", (ONE, THREE, TWO), THREE),
        ("min.f32", (NAN, THREE, TWO), TWO),
        ("max.NaN.f32", (ONE, NAN, TWO), NAN),
        ("max.abs.f32", (ONE, 0xC0400000, TWO), THREE),
        ("min.ftz.f32", (0x00000001, ONE, TWO), 0),
    ],
)
def test_min_and_max_take_three_floats_on_blackwell(opcode: str, operands: tuple[int, ...], result: int) -> None:
    moves = " ".join(f"mov.b32 %f{n}, {bits};" for n, bits in enumerate(operands, start=1))
    body = f"{moves} {opcode} %f4, %f1, %f2, %f3; st.global.f32 [%d0], %f4;"
    assert first(body) == result
    with pytest.raises(NotModelled, match="sm_90a does not have it"):
        launch(body, "sm_90a")


FP4 = """mov.b32 %f1, 0x40DCCCCD; mov.b32 %f2, 0xBE99999A; cvt.rn.satfinite.e2m1x2.f32 %b1, %f1, %f2;
    cvt.rn.satfinite.e2m1x2.f32 %b2, %f2, %f1; mov.b32 %r1, {%b1, %b2, %b2, %b1}; st.global.b32 [%d0], %r1;"""


@pytest.mark.parametrize("target", ["sm_100a", "sm_100f", "sm_103a", "sm_120a", "sm_120f"])
def test_four_bit_floats_are_packed_from_byte_registers(target: str) -> None:
    assert first(FP4, target) == 0x79979779


@pytest.mark.parametrize("target", ["sm_90a", "sm_100", "sm_120"])
def test_four_bit_floats_are_refused_where_the_target_has_none(target: str) -> None:
    with pytest.raises(NotModelled) as caught:
        launch(FP4, target)
    assert f"{target} does not have it" in caught.value.message
    assert "sm_100a" in caught.value.hint


def test_a_chain_of_carries_crosses_instructions_between() -> None:
    body = """mov.u32 %r1, 0xFFFFFFFF; add.cc.u32 %r2, %r1, 1; mov.u32 %r4, 5; addc.cc.u32 %r3, %r1, 0;
        addc.u32 %r3, %r4, 0; st.global.v2.u32 [%d0], {%r2, %r3};"""
    report, values = launch(body, "sm_90")
    assert report.findings == []
    assert values.tolist() == [0, 6, 0, 0]


def test_a_carry_that_nothing_set_is_undefined() -> None:
    report, _ = launch("mov.u32 %r1, 1; addc.u32 %r2, %r1, 1; st.global.u32 [%d0], %r2;", "sm_90")
    assert [found.kind for found in report.findings] == [FindingKind.UNINITIALISED]


def test_a_predicate_comes_out_of_lop3() -> None:
    body = """{ .reg .pred p, q; mov.u32 %r1, 6; mov.u32 %r2, 3; setp.ne.u32 q, %r1, 6;
        lop3.or.b32 _|p, %r1, %r2, 0, 0xC0, !q; selp.u32 %r3, 7, 8, p; lop3.and.b32 %r4|p, %r1, %r2, 0, 0xC0, q;
        @p add.u32 %r4, %r4, 100; add.u32 %r3, %r3, %r4; st.global.u32 [%d0], %r3; }"""
    assert first(body, "sm_90") == 9
