"""The parser held to a second judge: ptxas, inside NVRTC, reads the same fragments as inline assembly.

What ptxas rejects, the parser refuses, and what it takes, the parser reads, but for the list that is refused by name.
"""

import pytest

from tileproof.kernels.compile import CompileError, compile_source
from tileproof.simulators.ptx.text.parse import parse_module
from tileproof.simulators.ptx.text.syntax import PtxSyntaxError

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
DECLARED = ".reg .u32 r; .reg .u64 a; .reg .f32 f; .reg .pred p, q;\n"

ACCEPTED = [
    "add .s32 r, r, 1;",
    "{ .reg .f32 r; mov.f32 r, f; } mov.u32 r, 2;",
    "{ bra L; { L: } L: }",
    "{ L: L2: bra L2; }",
    "{ .reg .u32 b<3>, c; mov.u32 b2, c; }",
    "{ .reg .u32 b<0>; }",
    "{ .reg .u32 %laneid; mov.u32 %laneid, 3; }",
    "{ .reg .u32 _x, $y, %z; mov.u32 _x, $y; mov.u32 %z, _x; }",
    "{ T: .branchtargets L; brx.idx r, T; L: }",
    "mov.u32 r, 4*8+(1<<2);",
    "mov.u32 r, -(4);",
    "mov.u32 r, ~0;",
    "mov.u32 r, !0;",
    "mov.u32 r, - 3;",
    "mov.u32 r, WARP_SZ;",
    "mov.u32 r, 0b101U;",
    "mov.u32 r, 017;",
    "mov.u32 r, 0X1f;",
    "mov.u32 r, 0x1ffffffff;",
    "mov.f32 f, 0F3f800000;",
    "mov.f32 f, .5;",
    "mov.f32 f, -1.e3;",
    "mov.u32 r, %clusterid.w;",
    "mov.u32 r, %reserved_smem_offset_cap;",
    "ld.global.u32 r, [a+2-1];",
    "ld.global.u32 r, [a+-4];",
    "ld.global.u32 r, [a+4*2];",
    "ld.global.u32 r, [a+0x1ffffffff];",
    "{ .shared .u32 s[4]; mov.u32 r, s+4; ld.shared.u32 r, [s+-4]; }",
    "{ .shared .u32 s[2][3]; .shared .align 16 .v4 .f32 v; .shared .align 8 .b8 t[8], u[4]; .shared .b128 w[2]; }",
    "{ .global .u32 g[] = {1,2,3}; .global .u32 h[2][2] = {{1,2},{3}}; .global .u32 i = 5; .global .f32 j = 1.5; }",
    "{ .global .u8 g = 300; .global .u8 h = -200; }",
    "{ .param .u32 s; st.param.u32 [s], 3; }",
    "st.global.v2.u32 [a], {r, 1};",
    "setp.eq.u32 p|_, r, 1; setp.eq.u32 _|p, r, 1; setp.eq.u32 p|q, r, 1;",
    "and.pred p, p, !q; @!p bra L; @ q bra L; L:",
    "elect.sync _|p, -1;",
    ".loc 77 1 2\n",
    "{ .reg .u32 x; .loc 77 2 3 mov.u32 x, 1; }",
    '.pragma "nounroll";',
    "add.s32 r, r, 1 /* c */ // d\n;",
    "{ }",
]  # fmt: skip

REJECTED = [
    "add.s32 r, r, 1;;",
    ";",
    "add.s32 r, r, 1\n",
    "add.s32 r, r 1;",
    "{ { L: } bra L; }",
    "{ mov.u32 x, 1; .reg .u32 x; }",
    "{ .reg .u32 x; .reg .u32 x; }",
    "{ .reg .u32 b<3>, b1; }",
    "{ .reg .u32 b<2>c; }",
    "{ .reg .pred L; bra L; L: }",
    "{ .reg .u32 x; x: }",
    "bra 0;",
    "{ .branchtargets L; L: }",
    "{ .reg .u32 c.d; }",
    "{ .reg .tf32 x; }",
    "mov.u32 r, 09;",
    "mov.u32 r, 3u;",
    "mov.u32 r, 0x;",
    "mov.u32 r, 0xfffffffffffffffff;",
    "mov.u32 r, 99999999999999999999;",
    "mov.f32 f, -0f3f800000;",
    "mov.u32 r, %foo;",
    "mov.u32 r, %nwarpid.x;",
    "call foo;",
    "ld.global.u32 r, [a-1];",
    "ld.global.u32 r, [4+a];",
    "{ .shared .u32 s; mov.u32 r, 4+s; }",
    "{ .shared .u32 s; ld.shared.u32 r, [s-4]; }",
    "{ .local .align 3 .u32 s; }",
    "{ .shared .u32 s[]; }",
    "{ .shared .u32 s[4][]; }",
    "{ .shared .pred s; }",
    "{ .shared .u32 s = 5; }",
    "{ .shared .bf16 s; }",
    "{ .shared .u32 s, .align 8 t; }",
    "{ .local .v3 .u32 s; }",
    "{ .global .u32 s[0]; }",
    "{ .global .u32 s[2+2]; }",
    "{ .global .u32 s[2] = {1,2,3}; }",
    "{ .global .u32 s[2][2] = {1,2,3}; }",
    "{ .global .f32 s[2] = {1, 2}; }",
    "{ .global .f16 s = 0f3f800000; }",
    "@p { }",
]  # fmt: skip

REFUSED_BY_NAME = [
    "{ .reg .v2 .u32 x; mov.v2.u32 x, {1,2}; }",
    "mov.u32 r, 1?2:3;",
    "mov.u32 r, 8>>1;",
    "{ .shared .u32 s[4]; ld.shared.u32 r, s[1]; }",
    "{ L: { bra L; L: } }",
    "{ .global .u32 s; .global .u64 g = s; }",
]


def compile_fragment(fragment: str) -> str:
    """PTX of a kernel that has the fragment as inline assembly; CompileError where ptxas rejects it."""
    escaped = fragment.replace("%", "%%").replace('"', '\\"').replace("\n", "\\n")
    # NOTE: without an operand NVRTC leaves "%%" as it stands.
    source = f'extern "C" __global__ void k(int used) {{ asm volatile("{escaped}" :: "r"(used)); }}'
    return compile_source(source, name="fragment.cu").ptx


def assembles(fragment: str) -> bool:
    try:
        compile_fragment(f"{{ {DECLARED}{fragment} }}")
    except CompileError as error:
        return "ptxas" not in error.message  # an error of the C++ compiler is a mistake of the test
    return True


def parses(fragment: str) -> bool:
    try:
        parse_module(f"{HEAD}.visible .entry k() {{ {{ {DECLARED}{fragment} }} ret; }}")
    except PtxSyntaxError:
        return False
    return True


def test_ptxas_takes_all_that_is_listed_as_accepted() -> None:
    """One compilation of all fragments; the parser reads what NVRTC made of them."""
    ptx = compile_fragment("\n".join(f"{{ {DECLARED}{fragment} }}" for fragment in ACCEPTED))
    assert len(parse_module(ptx).entries["k"].instructions) > len(ACCEPTED)


@pytest.mark.parametrize("fragment", ACCEPTED)
def test_the_parser_reads_what_ptxas_takes(fragment: str) -> None:
    assert parses(fragment)


@pytest.mark.parametrize("fragment", REJECTED)
def test_the_parser_refuses_what_ptxas_rejects(fragment: str) -> None:
    assert (parses(fragment), assembles(fragment)) == (False, False)


@pytest.mark.parametrize("fragment", REFUSED_BY_NAME)
def test_legal_text_outside_the_model_is_refused(fragment: str) -> None:
    assert (parses(fragment), assembles(fragment)) == (False, True)
