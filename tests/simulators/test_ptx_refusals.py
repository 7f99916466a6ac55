"""Texts that are no module: every one ends in a PtxSyntaxError that names the line, soon, and in nothing else."""

import pickle
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.text.bodies import MAX_SCOPE_DEPTH
from tileproof.simulators.ptx.text.declarations import MAX_REGISTERS, MAX_VARIABLE_BYTES
from tileproof.simulators.ptx.text.locations import MAX_INLINE_DEPTH
from tileproof.simulators.ptx.text.parse import parse_module
from tileproof.simulators.ptx.text.syntax import Location, PtxSyntaxError

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
MANY = 100_000

VALID = (
    HEAD
    + """.extern .shared .align 16 .b8 dyn[];
.global .align 4 .b8 data[8] = {1, 0x2, 3};
.func (.param .b32 r) f(.param .b32 a) { .reg .b32 t; ld.param.b32 t, [a]; st.param.b32 [r+0], t; ret; }
.visible .entry k(.param .u64 .ptr .global .align 8 in, .param .align 64 .b8 map[128])
.maxntid 128, 1, 1
{
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .f32 %f<3>;
    .shared .align 8 .b8 bar[16];
    .loc 1 5 2, function_name $L__info, inlined_at 1 9 4
    ld.param.u64 %rd1, [in];
$L__BB0_1:
    setp.lt.and.s32 %p1|%p2, %r1, -7, !%p1;
    @!%p1 bra.uni $L__BB0_1;
    { .reg .b32 x<2>; elect.sync _|%p1, 0xffffffff; mov.b64 {x0, _}, %rd1; bra done; done: }
    T: .branchtargets $L__BB0_1;
    brx.idx %r1, T;
    fma.rn.f32 %f1, %f1, 0f3F800000, 1.5;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [dyn], [map, {%r1, 4*2}], [bar+-8];
    { .param .b32 a; .param .b32 r; call.uni (r), f, (a); }
    .pragma "nounroll";
    ret;
}
.file 1 "a.cu"
.section .debug_str { $L__info: .b8 97,0 }
"""
)


def refusal_of(text: str) -> PtxSyntaxError:
    with pytest.raises(PtxSyntaxError) as error:
        parse_module(text)
    return error.value


def in_body(body: str) -> str:
    return f"{HEAD}.entry k(.param .u64 p) {{ {REGISTERS}{body}\n}}"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "expected '.version' at the beginning of a module, found the end of the text"),
        ("__global__ void k() {}", 1, "expected '.version' at the beginning of a module, found '__global__'"),
        (".version 9\n", 1, "expected the PTX version as major.minor, found '9'"),
        (".version 9.0\n.entry", 2, "expected '.target' after the version, found '.entry'"),
        (".version 9.0\n.target 90", 2, "expected a target such as sm_90a, found '90'"),
        (".version 9.0 .target sm_90\n.address_size 48", 2, "the address size is 48, not 32 or 64"),
        (HEAD + "nop;", 4, "expected a directive that a module can hold, found 'nop'"),
        (HEAD + ".visible\n.pragma", 5, "expected a variable, an .entry or a .func, found '.pragma'"),
        (HEAD + ".alias a, b;", 4, ".alias outside a body is not modelled"),
        (HEAD + ".reg .b32 r;", 4, ".reg outside a body is not modelled"),
        (HEAD + ".local .b32 r;", 4, ".local outside a body is not modelled"),
        (HEAD + ".global .attribute(.managed) .b32 x;", 4, ".attribute (managed and unified memory) is not modelled"),
        (HEAD + ".func .attribute(.unified(1, 2)) f;", 4, ".attribute is not modelled"),
        (HEAD + ".const[2] .b32 x;", 4, "numbered constant banks are not modelled"),
        (HEAD + ".global .texref t;", 4, ".texref is not modelled"),
        (HEAD + ".global .bf16 x;", 4, "expected a type, found '.bf16'"),
        (HEAD + ".global .pred x;", 4, "expected a type that has a size in memory, found '.pred'"),
        (HEAD + ".global .b33 x;", 4, "expected a type such as .b32, found '.b33'"),
        (HEAD + ".global .align 3 .b8 x;", 4, "the alignment 3 is not a power of two"),
        (HEAD + ".global .b8 x[];", 4, "'x' has no size"),
        (HEAD + ".global .b8 x[0];", 4, "'x' has no size"),
        (HEAD + ".global .b8 x[2+2];", 4, "expected ']' after the number of elements, found '+'"),
        (HEAD + ".global .b8 x[2][];", 4, "expected the number of elements, found ']'"),
        (HEAD + ".global .b8 x, x;", 4, "'x' is declared twice in its scope"),
        (HEAD + ".global .b8 x;\n.const .b8 x;", 5, "'x' is declared twice in its scope"),
        (HEAD + ".shared .b32 x = 1;", 4, "a variable in .shared cannot have an initial value"),
        (HEAD + ".global .b8 x[2] = {1, 2,\n3};", 5, "more initial values than the 2 elements"),
        (HEAD + ".global .b8 x[2] = 1;", 4, "expected '{' before the initial values of an array, found '1'"),
        (HEAD + ".global .b8 x = {1};", 4, "expected a number, found '{'"),
        (HEAD + ".global .u64 x = y;", 4, "the address of a symbol as initial value is not modelled"),
        (HEAD + ".global .u64 x[1] = {generic(y)};", 4, "the address of a symbol as initial value is not modelled"),
        (HEAD + ".global .f32 x = 1;", 4, "the initial value does not have the type .f32"),
        (HEAD + ".global .b32 x = 1.5;", 4, "the initial value does not have the type .b32"),
        (HEAD + ".global .f16 x = 1.5;", 4, "an initial value of type .f16 is not modelled"),
        (HEAD + ".global .f32 x = 1e99;", 4, "the initial value 1e+99 is too large for .f32"),
        (HEAD + ".global .f64 x = 0f3F800000;", 4, "an initial value of type .f64 is written with 0d or in decimal"),
        (HEAD + ".entry k() { ret; }\n.entry k() { ret; }", 5, "'k' is declared twice in its scope"),
        (HEAD + ".func k; .entry k() { ret; }", 4, "'k' is declared twice in its scope"),
        (HEAD + ".entry k; .func k { ret; }", 4, "'k' is declared twice in its scope"),
        (HEAD + ".entry k(.param .b32 a, .param .b32 a);", 4, "'a' is declared twice in its scope"),
        (HEAD + ".entry k(.b32 a);", 4, "expected '.param' before a parameter, found '.b32'"),
        (HEAD + ".entry k(.param .b32 a .param .b32 b);", 4, "expected ',' or ')' after a parameter, found '.param'"),
        (HEAD + ".entry k() .maxntid x { }", 4, "expected the number behind .maxntid, found 'x'"),
        (HEAD + ".entry k() .maxnreg 8 .maxnreg 9 { }", 4, ".maxnreg is given twice"),
        (HEAD + ".entry k() .fast { }", 4, "expected a directive that a routine can have, or its body, found '.fast'"),
        (HEAD + ".entry k() ret;", 4, "expected the body of 'k' or ';', found 'ret'"),
        (HEAD + ".entry a.b() { }", 4, "expected the name of an entry, found 'a.b'"),
        (HEAD + ".section .debug_str\n{ { }", 4, "the '{' of this .section is not closed"),
        (HEAD + '.file 1 "a"\n.file 1 "b"', 5, "file 1 has two names"),
        (HEAD + ".file 1 a", 4, "expected the name of the file in quotes, found 'a'"),
        (in_body("add.s32 %r1, %r2, 1"), 6, "expected ',' or ';' after an operand of 'add.s32', found '}'"),
        (in_body("not.b32 %r1, %r2\nret;"), 6, "expected ',' or ';' after an operand of 'not.b32', found 'ret'"),
        (in_body("add.s32 %r1, %r9, 1;"), 5, "'%r9' is not declared"),
        (in_body("mov.b32 %r1, %foo;"), 5, "'%foo' is not declared"),
        (in_body("mov.b64 %rd1, smem;"), 5, "'smem' is not declared"),
        (in_body("ld.shared.b32 %r1, [smem+4];"), 5, "'smem' is not declared"),
        (in_body("call nowhere;"), 5, "'nowhere' is not declared"),
        (in_body("mov.b32 x, 1; .reg .b32 x;"), 5, "'x' is not declared"),
        (in_body("{ .reg .b32 x; } mov.b32 x, 1;"), 5, "'x' is not declared"),
        (in_body("bra nowhere;"), 5, "the label 'nowhere' is not declared"),
        (in_body("{ L: } bra L;"), 5, "the label 'L' is not declared"),
        (in_body("bra %r1;"), 5, "'%r1' is no target of this branch"),
        (in_body("bra 0;"), 5, "expected the label to branch to, found '0'"),
        (in_body("L: T: .branchtargets L; bra T;"), 5, "'T' is no target of this branch"),
        (in_body("L: brx.idx %r1, L;"), 5, "'L' is no target of this branch"),
        (in_body("L: T: .branchtargets L, T; brx.idx %r1, T;"), 5, "'T' is no target of this branch"),
        (in_body(".branchtargets L;"), 5, "expected a label before '.branchtargets', found '.branchtargets'"),
        (in_body("P: .callprototype _ (.param .b64 _);"), 5, ".callprototype in a body is not modelled"),
        (in_body("P: .calltargets f;"), 5, ".calltargets in a body is not modelled"),
        (in_body("L: mov.b64 %rd1, L;"), 5, "the label 'L' is an operand of bra and brx only"),
        (in_body("L: L:"), 5, "'L' is declared twice in its scope"),
        (in_body(".reg .b32 L; L:"), 5, "'L' is declared twice in its scope"),
        (in_body(".reg .b32 %tid; mov.b32 %r1, %tid.x;"), 5, "'%tid.x': elements of vector registers are not modelled"),
        (in_body(".reg .b32 %r3;"), 5, "'%r3' is declared twice in its scope"),
        (in_body(".reg .b32 %r<9>;"), 5, "'%r0' is declared twice in its scope"),
        (in_body(".reg .b32 p;"), 5, "'p' is declared twice in its scope"),
        (in_body(".reg .v4 .b32 v;"), 5, "a vector of registers (.v4) is not modelled"),
        (in_body(".reg .b32 v; mov.b32 %r1, v.x;"), 5, "'v.x': elements of vector registers are not modelled"),
        (in_body(".reg .tf32 v;"), 5, "expected a type, found '.tf32'"),
        (in_body(".reg .b32 %x<4000000000>;"), 5, f"4000000000 registers pass the limit of {MAX_REGISTERS}"),
        (in_body(".reg .b32 %x<-1>;"), 5, "expected the number of registers, found '-'"),
        (in_body(".reg .b32 a b;"), 5, "expected ';' or ',' after the name of a register, found 'b'"),
        (in_body("@%r1 ret;"), 5, "the guard '%r1' has the type .b32, not .pred"),
        (in_body("@!p ret;"), 5, "expected a predicate after '@', found 'p'"),
        (in_body("@%p1 { }"), 5, "expected an instruction, found '{'"),
        (in_body("@%p1 L: ret;"), 5, "expected an operand, found ':'"),
        (in_body("%r1 = 3;"), 5, "expected an instruction, found '%r1'"),
        (in_body(";"), 5, "expected an instruction, a directive, a label or '}', found ';'"),
        (in_body(".fast;"), 5, "expected a directive that a body can hold, found '.fast'"),
        (in_body("ld.b32 %r1, [%rd1-4];"), 5, "expected ']' at the end of the address, found '-'"),
        (in_body("ld.b32 %r1, [%rd1+%rd2];"), 5, "expected a number, found '%rd2'"),
        (in_body("ld.b32 %r1, [%rd1+1.5];"), 5, "the offset of an address is a float"),
        (in_body("ld.b32 %r1, [4+%rd1];"), 5, "expected a number, found '%rd1'"),
        (in_body("ld.b32 %r1, [%tid.x];"), 5, "'%tid.x' is not declared"),
        (in_body("ld.b32 %r1, [];"), 5, "expected a number, found ']'"),
        (in_body("tex.2d {%r1}, [p, %r1, {%r1}];"), 5, "expected the coordinates '{...}' of a tensor, found '%r1'"),
        (in_body("ld.b32 %r1, p[4];"), 5, "the array index behind 'p' is not modelled"),
        (in_body("mov.b64 {}, %rd1;"), 5, "the vector '{}' has no elements"),
        (in_body("mov.b64 {{%r1}}, %rd1;"), 5, "expected a register or constant in the list, found '{'"),
        (in_body("mov.b64 {%r1 %r2}, %rd1;"), 5, "expected '}' or ',' in a list, found '%r2'"),
        (in_body("setp.eq.s32 %p1|3, %r1, 1;"), 5, "expected a register after '|', found '3'"),
        (in_body("setp.eq.s32 %p1|p, %r1, 1;"), 5, "expected a register after '|', found 'p'"),
        (in_body("mov.b32 %r1, @;"), 5, "expected an operand, found '@'"),
        (in_body("mov.b32 %r1, ;"), 5, "expected an operand, found ';'"),
        (in_body("mov.b32 %r1, -;"), 5, "expected a number, found ';'"),
        (in_body("mov.b32 %r1, 0x1ffffffffffffffff;"), 5, "'0x1ffffffffffffffff' is out of range"),
        (in_body(".loc 1 2"), 6, "expected the column number of .loc, found '}'"),
        (in_body(".loc 1 2 3, at 4"), 5, "expected 'function_name' or 'inlined_at' behind .loc, found 'at'"),
        (in_body(".pragma nounroll;"), 5, "expected a string in quotes after .pragma, found 'nounroll'"),
        (in_body("}"), 6, "expected a directive that a module can hold, found '}'"),
        (in_body("{"), 6, "expected an instruction, a directive, a label or '}', found the end of the text"),
        (in_body("/* never closed"), 5, "the comment '/*' is not closed"),
    ],
)  # fmt: skip
def test_a_malformed_text_is_refused_with_line_and_reason(text: str, line: int, reason: str) -> None:
    error = refusal_of(text)
    assert (error.line, error.reason) == (line, reason)
    assert error.message == f"PTX line {line}: {error.reason}"


def test_a_refusal_ends_with_a_hint_where_there_is_a_remedy() -> None:
    error = refusal_of(in_body("ld.b32 %r1, [%rd1-4];"))
    assert str(error).endswith("\nhint: a negative offset is written [register+-8]")
    assert refusal_of(in_body("mov.b32 %r1, 2\nret;")).hint == "the instruction begins on line 5"


def test_a_refusal_is_a_refusal_and_survives_pickling() -> None:
    error = refusal_of(in_body("bra 0;"))
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, PtxSyntaxError)
    assert issubclass(PtxSyntaxError, Refusal)
    assert (str(again), again.line, again.reason) == (str(error), error.line, error.reason)


HOSTILE = {
    "scopes nested too deep": in_body("{" * MANY),
    "parentheses nested too deep": in_body("mov.b32 %r1, " + "(" * MANY),
    "signs nested too deep": in_body("mov.b32 %r1, " + "-" * MANY + "1;"),
    "braces nested too deep": in_body("mov.b64 " + "{" * MANY),
    "initialiser nested too deep": f"{HEAD}.global .b8 x[1] = " + "{" * MANY,
    "dimensions without end": f"{HEAD}.global .b8 x" + "[1]" * MANY + ";",
    "dimensions beyond memory": f"{HEAD}.global .b8 x" + "[9999999]" * 16 + ";",
    "initialised beyond memory": f"{HEAD}.global .b8 x[99999999999] = {{1}};",
    "initialiser of open size beyond memory": f"{HEAD}.global .b8 x[][99999999999] = {{{{1}}, {{2}}}};",
    "a register range beyond memory": in_body(".reg .b32 %x<18446744073709551615>;"),
    "many register ranges": in_body("".join(f".reg .b32 %x{index}_<65536>;" for index in range(99))),
    "a register range with a long name": in_body(f".reg .b32 {'x' * MANY}<9999>;"),
    "a name without end": in_body(f"mov.b32 {'x' * 1_000_000}, 1;"),
    "a number without end": in_body(f"mov.b32 %r1, {'1' * 1_000_000};"),
    "a fraction without end": in_body(f"mov.b32 %r1, 1.{'1' * 1_000_000};"),
    "a broken number without end": in_body(f"mov.b32 %r1, {'1' * 1_000_000}x;"),
    "an opcode without end": in_body("mov" + ".x" * MANY + " %foo;"),
    "spaced qualifiers without end": in_body("mov" + " .x" * MANY + " %foo;"),
    "a shift beyond memory": in_body("mov.b32 %r1, 1<<18446744073709551615;"),
    "a product beyond memory": in_body("mov.b32 %r1, 9" + "*9" * MANY + ";"),
    "an unclosed comment": HEAD + "/*" * MANY,
    "an unclosed string": HEAD + '.file 1 "' + '\\"' * MANY,
    "lines of nothing": "\n" * 1_000_000 + "x",
    "a long body that ends at the end": in_body("nop;\n" * MANY + "{"),
    "undeclared labels": in_body("".join(f"bra L{index};\n" for index in range(10_000))),
    "many lists and branches": in_body(
        "L:" + "".join(f"T{index}: .branchtargets L;\nbrx.idx %r1, T{index};" for index in range(5_000)) + "bra T0;"
    ),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_refused_within_seconds_in_one_short_line(text: str) -> None:
    start = time.process_time()
    error = refusal_of(text)
    assert time.process_time() - start < 5.0
    assert len(error.message) < 300
    assert "\n" not in error.message


def test_scopes_may_nest_to_the_limit_and_no_deeper() -> None:
    parse_module(in_body("{" * (MAX_SCOPE_DEPTH - 1) + "}" * (MAX_SCOPE_DEPTH - 1)))
    assert f"deeper than {MAX_SCOPE_DEPTH}" in refusal_of(in_body("{" * MAX_SCOPE_DEPTH)).reason


def test_the_limit_of_registers_counts_the_whole_module() -> None:
    first = f"{HEAD}.func f(.reg .b32 y) {{ .reg .b32 x<999>; }}"
    assert len(parse_module(first).functions["f"].registers) == 1_000
    error = refusal_of(f"{first} .func g() {{ .reg .b32 x<{MAX_REGISTERS - 999}>; }}")
    assert f"pass the limit of {MAX_REGISTERS}" in error.reason


def test_a_variable_may_fill_the_address_space_and_no_more() -> None:
    parse_module(f"{HEAD}.global .b8 x[{MAX_VARIABLE_BYTES}];")
    assert f"the limit is {MAX_VARIABLE_BYTES}" in refusal_of(f"{HEAD}.global .b8 x[{MAX_VARIABLE_BYTES + 1}];").reason


def chain_lengths(lines: list[str]) -> set[int]:
    lengths = set()
    for instruction in parse_module(in_body("\n".join(lines))).entries["k"].instructions:
        location: Location | None = instruction.location
        length = 0
        while location is not None:
            location, length = location.inlined_at, length + 1
        lengths.add(length)
    return lengths


def test_chains_of_inlined_calls_end() -> None:
    each_in_the_last = [f".loc 1 {n} 1, function_name $F, inlined_at 1 {n - 1} 1\n nop;" for n in range(1, 1_000)]
    assert max(chain_lengths(each_in_the_last)) == MAX_INLINE_DEPTH + 1
    one_in_itself = [".loc 1 1 1, function_name $F, inlined_at 1 1 1\n nop;"] * 1_000
    assert chain_lengths(one_in_itself) == {2}


def test_the_text_that_is_mutated_below_is_a_module() -> None:
    assert len(parse_module(VALID).entries["k"].instructions) == 11


def parse_or_refuse(text: str) -> None:
    with suppress(PtxSyntaxError):
        parse_module(text)


def test_no_truncated_text_raises_anything_but_a_syntax_error() -> None:
    for length in range(0, len(VALID), 2):
        parse_or_refuse(VALID[:length])


PIECES = st.sampled_from(
    [
        *"{}[]()<>;:,.+-*/|&^~!@?=%$_#\"\\\0 \n",
        *("x", "%r1", "%p1", "%tid.x", "$L__BB0_1", "dyn", "T", "f", "L:", "<9>", "{{", "}}", "/*", "//", '"s"', "é"),
        *("0", "-1", "99999999999999999999", "0x", "0f", "1.5", "WARP_SZ", "bra", "brx.idx", "call", "inlined_at"),
        *(".reg", ".param", ".b32", ".pred", ".v4", ".loc", ".file", ".align", ".branchtargets", ".entry", ".func"),
    ]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(VALID)), st.integers(0, 12), PIECES | st.text(max_size=4)), max_size=4))
def test_no_mutated_text_raises_anything_but_a_syntax_error(edits: list[tuple[int, int, str]]) -> None:
    text = VALID
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    parse_or_refuse(text)


@settings(deadline=None)
@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_no_random_text_raises_anything_but_a_syntax_error(text: str) -> None:
    parse_or_refuse(text)
    parse_or_refuse(HEAD + text)
    parse_or_refuse(in_body(text))


@settings(deadline=None)
@given(st.lists(PIECES, max_size=40).map(" ".join))
def test_no_heap_of_pieces_raises_anything_but_a_syntax_error(text: str) -> None:
    parse_or_refuse(HEAD + text)
    parse_or_refuse(in_body(text))
    parse_or_refuse(in_body("mov.b32 %r1, " + text))
    parse_or_refuse(f"{HEAD}.global .b32 x = {text}")
