"""What the CPU device does not model is refused by name and line, before anything runs; nothing is guessed."""

import pytest

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device


def load(body: str, declarations: str = "") -> None:
    Device().load_ptx(f"""
.version 9.0
.target sm_90a
.address_size 64
.file 1 "tile.cu"
{declarations}
.visible .entry k(.param .u64 a, .param .align 64 .b8 map[128])
{{
    .reg .pred %p<4>;
    .reg .b16 %h<8>;
    .reg .b32 %r<80>;
    .reg .b64 %d<8>;
    .reg .f32 %f<80>;
    .reg .f64 %e<4>;
    .loc 1 77 5
    {body}
    ret;
}}
""")


REFUSED = {
    "asynchronous copy of another size": "cp.async.cg.shared.global [%r1], [%d1], 8;",
    "mbarrier with reports": "mbarrier.init.layout::v1.shared::cta.b64 [%r1], 1;",
    "matrix load that unpacks": "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {%r1}, [%r2];",
    "sparse matrices": "wgmma.mma_async.sp.sync.aligned.m64n8k32.f16.f16.f16 {%r1, %r2}, %d1, %d2, %r3, 0, 1;",
    "wgmma without aligned": "wgmma.fence.sync;",
    "approximate function of another form": "ex2.approx.bf16x2 %r1, %r2;",
    "scalar video instruction": "vadd.s32.s32.s32 %r1, %r2, %r3;",
    "stochastic rounding": "cvt.rs.f16x2.f32 %r1, %f1, %f2, %r2;",
    "complement of a comparison of halves": "setp.lt.f16 %p1|%p2, %h1, %h2;",
    "strong load of private memory": "ld.volatile.param.u64 %d1, [a];",
    "function of a register": "lop3.b32 %r1, %r2, %r3, %r4, %r5;",
    "logic with a test that goes nowhere": "lop3.or.b32 %r1, %r2, %r3, %r4, 3, %p1;",
    "another target's form": "add.rn.f32x2 %d1, %d2, %d3;",
    "fma out of bounds": "fma.rn.oob.f16 %h1, %h2, %h3, %h4;",
    "three operands of another target": "max.f32 %f1, %f2, %f3, %f4;",
    "unknown instruction": "frobnicate.u32 %r1, %r2;",
    "unknown qualifier of a load": "ld.global.sideways.u32 %r1, [%d1];",
    "vector of packed halves": "st.global.v2.f16x3 [%d1], {%r1, %r2};",
    "128-bit element": "ld.global.b128 %d1, [%d2];",
    "load without a type": "ld.global %r1, [%d1];",
    "too few elements": "ld.global.v4.u32 {%r1, %r2}, [%d1];",
    "store to constant memory": "st.const.u32 [%r1], %r2;",
    "store to a parameter": "st.param.u32 [a], %r2;",
    "narrow register": "add.u64 %r1, %d1, %d2;",
    "predicate as a number": "add.u32 %r1, %p1, %r2;",
    "number as a predicate": "selp.u32 %r1, %r2, %r3, %r4;",
    "float of another width": "add.f64 %e1, %e2, 0f3F800000;",
    "address to a narrow space": "cvta.to.global.u32 %r1, %r2;",
    "environment register": "mov.u32 %r1, %envreg3;",
    "clock in arithmetic": "add.u32 %r1, %r2, %clock;",
    "barrier arrival without a count": "bar.arrive 0;",
    "relaxed wait": "barrier.cluster.wait.relaxed;",
    "register count": "setmaxnreg.inc.sync.aligned.u32 100;",
    "undecorated shuffle": "shfl.bfly.b32 %r1, %r2, 1, 31;",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_instruction_and_both_lines(name: str) -> None:
    opcode = REFUSED[name].split()[0].rstrip(";")
    with pytest.raises(NotModelled) as caught:
        load(REFUSED[name])
    assert opcode in caught.value.message
    assert "PTX line 16, tile.cu:77" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "body",
    ["call.uni f, (), %d1;", "T: .calltargets f; call %d1, (), T;"],
)
def test_indirect_calls_are_refused(body: str) -> None:
    with pytest.raises(Refusal):
        load(body, ".func f { ret; }")


ACCEPTED = {
    "acquire load": "ld.acquire.gpu.global.u32 %r1, [%d1];",
    "space before semantics": "ld.global.acquire.gpu.b32 %r1, [%d1];",
    "release store": "st.global.release.sys.b32 [%d1], %r1;",
    "relaxed store": "st.relaxed.cluster.shared.u32 [%r1], %r2;",
    "acquire-release atomic": "atom.acq_rel.gpu.global.add.u32 %r1, [%d1], 1;",
    "cache hints": "ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r1, %r2, %r3, %r4}, [%d1];",
    "cache operators": "st.global.cg.f32 [%d1], %f1;",
    "weak": "ld.weak.global.ca.u32 %r1, [%d1];",
    "fences": "membar.gl; fence.acq_rel.cta; fence.sc.gpu; fence.proxy.async; fence.mbarrier_init.release.cluster;",
    "hints": "prefetch.global.L2 [%d1]; nanosleep.u32 100; griddepcontrol.wait; pmevent 1;",
    "sinks": "ld.global.v2.u32 {_, %r1}, [%d1]; atom.global.add.u32 _, [%d1], 1; mov.b64 {_, %r2}, %d1;",
    "parameter by address": "mov.b64 %d1, map; cvta.param.u64 %d2, %d1; ld.param.u8 %h1, [%d1+5];",
    "immediate address": "ld.global.u32 %r1, [4096];",
    "warp size": "mov.u32 %r1, WARP_SZ;",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_forms_that_compilers_write_are_accepted(name: str) -> None:
    load(ACCEPTED[name])
