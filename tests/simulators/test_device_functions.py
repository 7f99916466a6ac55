"""Device functions: every call is a copy of the function in place, and its parameters are checked like memory."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.decoding import inlining
from tileproof.simulators.ptx.decoding.decode import decode_entry
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind, Report
from tileproof.simulators.ptx.program import Kind
from tileproof.simulators.ptx.text.parse import parse_module

SQUARE = """
.func (.param .b32 sq_r) square(.param .b32 sq_a)
{
    .reg .b32 %r<4>;
    .loc 1 11 1
    ld.param.b32 %r1, [sq_a];
    mul.lo.u32 %r2, %r1, %r1;
    st.param.b32 [sq_r+0], %r2;
    ret;
}
"""
ASSERT = """
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[6] = {110, 32, 62, 32, 48, 0};
.global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};
.global .align 1 .b8 name[2] = {102, 0};
"""


def launch(body: str, declarations: str = "", threads: int = 8) -> tuple[Report, NDArray[np.uint32]]:
    """%r1 is the thread and %d1 where its result goes; the results afterwards."""
    text = f"""
.version 9.0
.target sm_90a
.address_size 64
.file 1 "f.cu"
{declarations}
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %d<8>;
    .loc 1 99 1
    ld.param.u64 %d1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d1, %d1, %d2;
    {body}
}}
"""
    device = Device()
    out = device.upload(np.full(threads, 0xAAAA, np.uint32))
    report = device.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(threads, 1, 1), args=(out,))
    return report, out.download()


def results(body: str, declarations: str = "") -> list[int]:
    report, values = launch(body, declarations)
    assert report.findings == []
    return [int(value) for value in values]


def finding(body: str, declarations: str = "") -> Finding:
    report, _ = launch(body, declarations)
    assert len(report.findings) == 1, report.findings
    return report.findings[0]


CALL = "{ .param .b32 a; .param .b32 r; st.param.b32 [a+0], %r1; call.uni (r), square, (a); ld.param.b32 %r2, [r+0]; }"


def test_a_call_returns_what_its_function_computes() -> None:
    assert results(f"{CALL} st.global.u32 [%d1], %r2;", SQUARE) == [n * n for n in range(8)]


def test_two_calls_do_not_share_registers_labels_or_parameters() -> None:
    clamp = """.func (.reg .b32 o) clamp(.reg .b32 i) { .reg .pred %p; .reg .b32 %r1; mov.u32 %r1, 3;
        setp.lt.u32 %p, i, %r1; @%p bra SMALL; mov.u32 o, %r1; ret; SMALL: mov.u32 o, i; }"""
    body = "call (%r2), clamp, (%r1); call (%r3), clamp, (5); mad.lo.u32 %r2, %r3, 10, %r2; st.global.u32 [%d1], %r2;"
    assert results(body, clamp) == [30 + min(n, 3) for n in range(8)]


def test_functions_call_functions() -> None:
    declarations = (
        SQUARE
        + f""".func (.reg .b32 o) fourth(.reg .b32 %r1) {{ .reg .b32 %r2;
        {CALL} mov.b32 %r1, %r2; {CALL} mov.b32 o, %r2; }}"""
    )
    assert results("call (%r4), fourth, (%r1); st.global.u32 [%d1], %r4;", declarations) == [n**4 for n in range(8)]


def test_a_guarded_call_runs_for_its_lanes_only() -> None:
    body = "mov.u32 %r2, 77; setp.gt.u32 %p1, %r1, 4; @!%p1 call (%r2), square, (%r1); st.global.u32 [%d1], %r2;"
    assert results(body, SQUARE) == [n * n if n <= 4 else 77 for n in range(8)]


def test_a_predicate_register_and_a_constant_pass_as_arguments() -> None:
    select = ".func (.reg .b32 o) pick(.reg .pred p, .param .b32 c) { ld.param.b32 o, [c]; @p mov.u32 o, 1; }"
    body = "setp.lt.u32 %p1, %r1, 2; call (%r2), pick, (%p1, 9); st.global.u32 [%d1], %r2;"
    assert results(body, select) == [1, 1, 9, 9, 9, 9, 9, 9]


def test_a_structure_passes_by_value() -> None:
    total = """.func (.param .b32 r) sum(.param .align 16 .b8 s[16]) { .reg .b32 %r<5>;
        ld.param.v4.b32 {%r1, %r2, %r3, %r4}, [s]; add.u32 %r1, %r1, %r2; add.u32 %r3, %r3, %r4;
        add.u32 %r1, %r1, %r3; st.param.b32 [r], %r1; }"""
    body = """{ .param .align 16 .b8 s[16]; .param .b32 r; st.param.v2.b32 [s+0], {%r1, 10};
        st.param.v2.b32 [s+8], {100, 1000}; call.uni (r), sum, (s); ld.param.b32 %r2, [r]; }
        st.global.u32 [%d1], %r2;"""
    assert results(body, total) == [1110 + n for n in range(8)]


def test_static_variables_of_a_function_are_one_for_all_calls() -> None:
    count = (
        ".func (.reg .b32 o) next() { .global .u32 n = 5; .reg .u64 a; mov.u64 a, n; atom.global.add.u32 o, [a], 1; }"
    )
    body = "setp.ne.u32 %p1, %r1, 0; @%p1 ret; call (%r2), next; call (%r3), next; st.global.v2.u32 [%d1], {%r2, %r3};"
    assert results(body, count)[:2] == [5, 6]


def test_a_branch_by_index_goes_where_its_list_says() -> None:
    body = """and.b32 %r2, %r1, 1; brx.idx %r2, T; T: .branchtargets A, B; A: mov.u32 %r3, 10; bra E;
        B: mov.u32 %r3, 20; E: st.global.u32 [%d1], %r3;"""
    assert results(body) == [10, 20] * 4


def test_an_index_beyond_the_list_of_targets_is_found() -> None:
    found = finding("brx.idx %r1, T; T: .branchtargets A, B, C; A: B: C: st.global.u32 [%d1], %r1;")
    assert (found.kind, found.count) == (FindingKind.TRAP, 5)
    assert "behind the end of its list of targets (index 3)" in found.message


def test_an_undefined_index_of_a_branch_is_found() -> None:
    found = finding("brx.idx %r9, T; T: .branchtargets A; A: ret;")
    assert found.kind is FindingKind.UNINITIALISED


def test_a_finding_inside_a_function_names_the_line_of_the_function() -> None:
    body = (
        "{ .param .b32 a; .param .b32 r; call.uni (r), square, (a); ld.param.b32 %r2, [r]; } st.global.u32 [%d1], %r2;"
    )
    found = finding(body, SQUARE)
    assert (found.kind, found.where.line) == (FindingKind.UNINITIALISED, 99)  # the argument reaches the output
    pointer = ".func f(.reg .b64 p) { .reg .b32 %r1; .loc 1 11 1\n ld.global.u32 %r1, [p]; }"
    found = finding("call f, (64);", pointer)
    assert (found.kind, found.where.line) == (FindingKind.OUT_OF_BOUNDS, 11)


def test_a_function_that_never_writes_its_result_gives_an_undefined_one() -> None:
    lazy = ".func (.param .b32 r) lazy() { ret; }"
    body = "{ .param .b32 r; call.uni (r), lazy, (); ld.param.b32 %r2, [r]; } st.global.u32 [%d1], %r2;"
    assert finding(body, lazy).kind is FindingKind.UNINITIALISED


def test_a_read_past_an_argument_is_out_of_bounds() -> None:
    wide = ".func f(.param .b32 a) { .reg .b64 %d1; ld.param.b64 %d1, [a]; }"
    body = "{ .param .b32 a; st.param.b32 [a], 1; call.uni f, (a); }"
    assert finding(body, wide).kind is FindingKind.OUT_OF_BOUNDS


FAIL = """
    setp.lt.u32 %p1, %r1, 6; @%p1 bra OK;
    mov.u64 %d3, text; cvta.global.u64 %d3, %d3; mov.u64 %d4, file; cvta.global.u64 %d4, %d4;
    mov.u64 %d5, name; cvta.global.u64 %d5, %d5;
    { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s; st.param.b64 [m], %d3;
      st.param.b64 [f], %d4; st.param.b32 [l], 42; st.param.b64 [n], %d5; st.param.b64 [s], 1;
      call.uni __assertfail, (m, f, l, n, s); }
    OK: st.global.u32 [%d1], %r1;
"""


def test_a_failed_assertion_is_found_with_its_text_and_ends_its_lanes() -> None:
    report, values = launch(FAIL, ASSERT)
    (found,) = report.findings
    assert (found.kind, found.count) == (FindingKind.TRAP, 2)
    assert found.message == "the assertion `n > 0` fails (a.cu:42, f)"
    assert values.tolist() == [0, 1, 2, 3, 4, 5, 0xAAAA, 0xAAAA]


def test_printf_leaves_a_note_and_returns_the_number_of_its_conversions() -> None:
    declarations = ASSERT.replace("110, 32, 62, 32, 48, 0", "37, 100, 37, 37, 10, 0")  # "%d%%\n"
    body = """mov.u64 %d3, text; cvta.global.u64 %d3, %d3; { .param .b64 f; .param .b64 a; .param .b32 r;
        st.param.b64 [f], %d3; st.param.b64 [a], 0; call.uni (r), vprintf, (f, a); ld.param.b32 %r2, [r]; }
        st.global.u32 [%d1], %r2;"""
    report, values = launch(body, declarations)
    assert report.findings == []
    assert [note.message for note in report.notes] == ["printf of '%d%%\\n'; its arguments are not formatted here"]
    assert values.tolist() == [1] * 8


@pytest.mark.parametrize("opcode", ["trap", "brkpt"])
def test_a_kernel_that_traps_is_found(opcode: str) -> None:
    found = finding(f"setp.eq.u32 %p1, %r1, 3; @%p1 {opcode};")
    assert (found.kind, found.count, found.message) == (FindingKind.TRAP, 1, f"the kernel executes {opcode}")


REFUSED = {
    "recursion": ("call f;", ".func f; .func g { call f; } .func f { call g; }", "recursive calls", "f -> g -> f"),
    "an extern function": ("call f;", ".extern .func f;", "declared, not defined", "f"),
    "too many arguments": ("call f, (1);", ".func f { ret; }", "1 arguments or results", "0"),
    "an argument of another size": (
        "{ .param .b64 a; call f, (a); }",
        ".func f(.param .b32 x) { ret; }",
        "a@1 has 8 bytes",
        "4",
    ),
    "a kernel's parameter as argument": ("call f, (out);", ".func f(.param .b64 x) { ret; }", "not a .param", "out"),
    "a call through a register": ("call %d1, ();", "", "indirect calls", "PTX line"),
    "alloca": ("alloca.u64 %d1, 8;", "", "alloca", "PTX line"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_calls_outside_the_model_are_refused_by_name(name: str) -> None:
    body, declarations, *parts = REFUSED[name]
    with pytest.raises(NotModelled) as caught:
        launch(body, declarations)
    assert all(part in caught.value.message for part in parts)


def test_copies_of_copies_do_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlining, "MAX_INSTRUCTIONS", 1000)
    chain = "".join(f".func f{n} {{ call f{n - 1}; call f{n - 1}; }}" for n in range(1, 30))
    with pytest.raises(Refusal, match="instructions with its calls"):
        launch("call f29;", ".func f0 { nop; }" + chain)


LOOP = """mov.u32 %r5, 0; AGAIN: setp.eq.u32 %p1, %r5, 0; { .param .b32 r; call.uni (r), f, (%p1);
    ld.param.b32 %r2, [r]; } st.global.u32 [%d1], %r2; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 2; @%p2 bra AGAIN;"""
FORGETFUL = {
    "register": """.func (.param .b32 r) f(.reg .pred first) { .reg .b32 %r1; @first mov.u32 %r1, 7;
        st.param.b32 [r], %r1; }""",
    "result": ".func (.param .b32 r) f(.reg .pred first) { @!first ret; st.param.b32 [r], 7; }",
    "local variable": """.func (.param .b32 r) f(.reg .pred first) { .reg .b32 %r1; .local .b32 l;
        @first st.local.b32 [l], 7; ld.local.b32 %r1, [l]; st.param.b32 [r], %r1; }""",
}


@pytest.mark.parametrize("name", FORGETFUL)
def test_a_second_call_does_not_find_what_the_first_one_left(name: str) -> None:
    assert finding(LOOP, FORGETFUL[name]).kind is FindingKind.UNINITIALISED


def test_a_function_that_writes_first_runs_in_a_loop_without_a_finding() -> None:
    good = """.func (.param .b32 r) f(.reg .pred first) { .reg .b32 %r<3>; .local .b32 l; mov.u32 %r1, 5;
        @first mov.u32 %r1, 7; @first bra A; mov.u32 %r2, 1; bra B; A: mov.u32 %r2, 2; B: add.u32 %r1, %r1, %r2;
        st.local.b32 [l], %r1; ld.local.b32 %r1, [l]; st.param.b32 [r], %r1; }"""
    assert results(LOOP, good) == [6] * 8


def test_what_every_path_writes_first_costs_nothing_in_a_loop() -> None:
    text = """
.version 9.0
.target sm_90a
.address_size 64
.func (.reg .b32 o) f(.reg .b32 i) { .reg .b32 %r<9>; add.u32 %r1, i, 1; mov.u32 o, %r1; }
.entry k() { .reg .b32 %r<4>; .reg .pred %p; AGAIN: call (%r2), f, (%r1); setp.eq.u32 %p, %r2, 0; @%p bra AGAIN; }
"""
    module = parse_module(text)
    assert Kind.FRESH not in {step.kind for step in decode_entry(module, module.entries["k"]).steps}
