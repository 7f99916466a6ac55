"""A proof says of two kernels that they are the same only where they are."""

import pytest

from tileproof.conformance.mutation.assembler import Assembled, assemble, available
from tileproof.conformance.mutation.equivalence import same_form, same_results
from tileproof.conformance.mutation.possible import Registers
from tileproof.simulators.ptx.decoding.contraction import Contraction
from tileproof.simulators.ptx.device import decoded
from tileproof.simulators.ptx.program import Program

TEXT = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_param_0)
.maxntid 128, 1, 1
{{
	.reg .pred %p<3>;
	.reg .b16 %h<3>;
	.reg .f32 %f<3>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [k_param_0];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.u32 %r2, [%rd3];
	{body}
	ret;
}}
"""
NEGATIVE = "its operands are never negative"
ALL = "the same result for every value that its operands can have"
UNREAD = "it differs only in bits that nothing reads"

#: what the kernel does, what the mutant does instead, the proof or none.
PAIRS = (
    ("shr.u32 %r3, %r1, 5; st.global.u32 [%rd3], %r3;", "shr.u32", "shr.s32", NEGATIVE),
    ("shr.u32 %r3, %r2, 5; st.global.u32 [%rd3], %r3;", "shr.u32", "shr.s32", ""),
    ("shr.u32 %r3, %r2, 16; st.global.u16 [%rd3], %r3;", "shr.u32", "shr.s32", UNREAD),
    ("shr.u32 %r3, %r2, 16; cvt.u16.u32 %h1, %r3; st.global.u16 [%rd3], %h1;", "shr.u32", "shr.s32", UNREAD),
    ("shr.u32 %r3, %r2, 15; st.global.u16 [%rd3], %r3;", "shr.u32", "shr.s32", UNREAD),
    ("shr.u32 %r3, %r2, 17; st.global.u16 [%rd3], %r3;", "shr.u32", "shr.s32", ""),
    ("and.b32 %r3, %r1, 127; st.global.u32 [%rd3], %r3;", "127", "255", ALL),
    ("and.b32 %r3, %r1, 127; st.global.u32 [%rd3], %r3;", "127", "126", ""),
    ("and.b32 %r3, %r1, 63; st.global.u32 [%rd3], %r3;", "63", "127", ""),
    ("setp.lt.u32 %p1, %r1, 128; @%p1 st.global.u32 [%rd3], %r1;", "128", "129", ALL),
    ("setp.lt.u32 %p1, %r1, 127; @%p1 st.global.u32 [%rd3], %r1;", "127", "128", ""),
    ("min.u32 %r3, %r1, 127; st.global.u32 [%rd3], %r3;", "127", "200", ALL),
    ("min.u32 %r3, %r1, 127; st.global.u32 [%rd3], %r3;", "min", "max", ""),
    ("shl.b32 %r3, %r1, 4; and.b32 %r4, %r3, 2032; st.global.u32 [%rd3], %r4;", "2032", "2047", ALL),
    ("shl.b32 %r3, %r1, 3; and.b32 %r4, %r3, 2032; st.global.u32 [%rd3], %r4;", "2032", "2047", ""),
    ("cvt.u64.u32 %rd4, %r1; st.global.u64 [%rd3], %rd4;", "cvt.u64.u32", "cvt.u64.s32", NEGATIVE),
    ("cvt.u64.u32 %rd4, %r2; st.global.u64 [%rd3], %rd4;", "cvt.u64.u32", "cvt.u64.s32", ""),
    ("mov.u32 %r3, 0; @%p1 mov.u32 %r3, 1; and.b32 %r4, %r3, 3; st.global.u32 [%rd3], %r4;", "r3, 3", "r3, 1", ""),
    ("and.b32 %r3, %r2, 0xFFFFFF; mul.lo.u32 %r4, %r3, 3; st.global.u32 [%rd3], %r4;", "lo.u32", "lo.s32", NEGATIVE),
    ("and.b32 %r3, %r2, 0xFFFFFF; mul24.lo.u32 %r4, %r3, 3; st.global.u32 [%rd3], %r4;", "lo.u32", "lo.s32", ""),
    ("and.b32 %r3, %r2, 0xFFFFFF; mad24.hi.u32 %r4, %r3, 3, 1; st.global.u32 [%rd3], %r4;", "hi.u32", "hi.s32", ""),
    ("and.b32 %r3, %r2, 0xFFFFFF; bfe.u32 %r4, %r3, 4, 4; st.global.u32 [%rd3], %r4;", "bfe.u32", "bfe.s32", ""),
    ("and.b32 %r3, %r2, 0xFFFFFF; dp4a.u32.u32 %r4, %r3, %r3, 0; st.global.u32 [%rd3], %r4;", "u32.u32", "s32.s32", ""),
    ("and.b32 %r3, %r2, 0xFFFFFF; szext.wrap.u32 %r4, %r3, 4; st.global.u32 [%rd3], %r4;", "wrap.u", "wrap.s", ""),
    ("cvt.u64.u32 %rd4, %r2; cvt.sat.u32.u64 %r3, %rd4; st.global.u32 [%rd3], %r3;", "sat.u32.u64", "sat.s32.u64", ""),
    ("and.b32 %r3, %r2, 0x7FFFFFFF; cvt.rzi.u32.f32 %r4, %r3; st.global.u32 [%rd3], %r4;", "rzi.u", "rzi.s", ""),
    ("sub.s32 %r3, %r1, 1; shr.u32 %r4, %r3, 5; st.global.u32 [%rd3], %r4;", "shr.u32", "shr.s32", ""),
)  # fmt: skip


def program(body: str) -> Program:
    return decoded(TEXT.format(body=body), Contraction.NONE)[1]["k"]


@pytest.mark.parametrize(("body", "old", "new", "proof"), PAIRS)
def test_a_proof_is_given_where_it_holds_and_nowhere_else(body: str, old: str, new: str, proof: str) -> None:
    assert body.count(old) >= 1
    assert same_results(program(body.replace(old, new, 1)), program(body)) == proof


def test_the_same_text_is_the_same_form_and_another_is_not() -> None:
    one, other = program("st.global.u32 [%rd3], %r1;"), program("st.global.u32 [%rd3], %r2;")
    assert same_form(one, one)
    assert not same_form(one, other)


def test_what_a_loop_counts_can_be_anything() -> None:
    body = "mov.u32 %r3, 0; AGAIN: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r2; @%p1 bra AGAIN;"
    of = program(body + " st.global.u32 [%rd3], %r3;")
    slot = next(slot for slot, name in of.registers.items() if name == "%r3")
    assert (Registers(of)[slot].low, Registers(of)[slot].high) == (0, 2**32 - 1)


#: what is computed of a block's number (0 to 2^31 - 2) plus 2^16, and the least and the greatest that %r4 may be.
ENDS = (
    ("add.u32 %r3, %r8, 65536; mov.u32 %r4, %r3;", 65536, 2**31 + 65534),
    ("add.u32 %r3, %r8, 65536; cvt.u16.u32 %h1, %r3; cvt.u32.u16 %r4, %h1;", 0, 65535),
    ("add.u32 %r3, %r8, 65536; cvt.u8.u32 %h1, %r3; cvt.u32.u16 %r4, %h1;", 0, 65535),
    ("add.u32 %r3, %r8, 65536; cvt.u8.u32 %r4, %r3;", 0, 2**32 - 1),
    ("add.u32 %r3, %r8, 65536; cvt.rn.f32.u32 %f1, %r3; mov.b32 %r4, %f1;", 0, 2**32 - 1),
    ("mov.u32 %r4, 7; @%p1 add.u32 %r3, %r8, 65536; add.u32 %r4, %r3, 0;", 0, 2**32 - 1),
    ("@%p1 add.u32 %r4, %r8, 65536;", 0, 2**32 - 1),
    ("add.sat.s32 %r4, %r8, 2147483647;", 0, 2**32 - 1),
)


@pytest.mark.parametrize(("body", "low", "high"), ENDS)
def test_what_is_cut_off_or_no_integer_has_no_ends(body: str, low: int, high: int) -> None:
    """A narrow result wraps, a float is no number of its operand's size, and a guard may leave what was there."""
    of = program("mov.u32 %r8, %ctaid.x; " + body + " st.global.u32 [%rd3], %r4;")
    slot = next(slot for slot, name in of.registers.items() if name == "%r4")
    assert (Registers(of)[slot].low, Registers(of)[slot].high) == (low, high)


@pytest.mark.skipif(not available(), reason="the assembler is a package of development")
def test_the_assembler_tells_code_apart_and_says_what_is_none() -> None:
    first = assemble(TEXT.format(body="add.u32 %r3, %r1, %r2; st.global.u32 [%rd3], %r3;"), "sm_90a")
    exchanged = assemble(TEXT.format(body="add.u32 %r3, %r2, %r1; st.global.u32 [%rd3], %r3;"), "sm_90a")
    other = assemble(TEXT.format(body="sub.u32 %r3, %r1, %r2; st.global.u32 [%rd3], %r3;"), "sm_90a")
    wrong = assemble(TEXT.format(body="add.u32 %r3, %r1;"), "sm_90a")
    assert isinstance(first, Assembled)
    assert first == exchanged
    assert first != other
    assert isinstance(wrong, str)
    assert "line 17" in wrong
