"""What a PTX text becomes: samples in the manner of NVRTC, Triton and inline assembly, checked record by record."""

import pickle

import pytest

from tileproof.kernels.compile import compile_source
from tileproof.simulators.ptx.text.parse import parse_module
from tileproof.simulators.ptx.text.syntax import (
    Address,
    Arguments,
    Entry,
    Guard,
    Immediate,
    Instruction,
    Label,
    Location,
    Module,
    Negated,
    Operand,
    Pair,
    Parameter,
    PtxSyntaxError,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"

CUDA = r"""
#include <cuda_bf16.h>
__device__ __noinline__ float scaled(float value, const float* scales) { return value * scales[1]; }
__device__ inline int inner(int value) { return value ^ 0x55; }
__device__ inline int outer(int value) {
    return inner(value)
         + 3 * inner(value + 1);
}
__constant__ float table[3] = {1.0f, 2.0f, 3.0f};
__device__ int counters[4] = {1, 2};
extern "C" __global__ void __launch_bounds__(128, 2) kernel(int* out, const float* in, __nv_bfloat16 one) {
    __shared__ int tile[32];
    extern __shared__ float dynamic[];
    tile[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    if (out[2] > 3) out[1] = scaled(tile[3], in);
    out[4] = outer(tile[4]) + table[out[3]] + counters[out[1] & 3] + dynamic[5] + __bfloat162float(one);
    asm volatile("{ .reg .pred done; .reg .b32 count; mov.b32 count, 3;\n"
                 "again: sub.s32 count, count, 1;\n setp.eq.s32 done, count, 0;\n @!done bra again; }" ::: "memory");
    asm volatile("{ .reg .pred done; again: elect.sync _|done, -1;\n @!done bra again; }" ::: "memory");
    printf("%d\n", out[0]);
}
"""

TRITON = """
.version 8.4
.target sm_90a
.address_size 64
	// .globl	add_kernel
.extern .shared .align 16 .b8 global_smem[];
.visible .entry add_kernel(
	.param .u64 .ptr .global .align 1 add_kernel_param_0,
	.param .u64 .ptr add_kernel_param_1,
	.param .align 64 .b8 add_kernel_param_2[128],
	.param .u32 add_kernel_param_3
)
.reqntid 128
.maxnreg 255
{
	.reg .pred 	%p<3>;
	.reg .b16 	%rs<2>;
	.reg .b32 	%r<12>;
	.reg .b64 	%rd<4>;
	.loc	1 18 0                          // add.py:18:0
$L__func_begin0:
	ld.param.u64 	%rd1, [add_kernel_param_0];
$L__tmp0:
	.loc	1 23 25, function_name $L__info_string3, inlined_at 1 30 5
	// begin inline asm
	mov.u32 %r1, %ctaid.x;
	// end inline asm
	// begin inline asm
	mov.u32 %r2, 0x0;
	mov.u32 %r3, 0x0;
	@%p1 ld.global.v2.b32 { %r2, %r3 }, [ %rd1 + 0 ];
	// end inline asm
	{ .reg .b16 tmp; mov.b32 {tmp, %rs1}, %r2; }
	.pragma "nounroll";
	mov.b64 	%rd2, global_smem;
	ret;
$L__tmp1:
}
	.file	1 "/src/add.py"
	.section	.debug_abbrev
	{
.b8 1                                   // Abbreviation Code
.b8 17,1,37
	}
	.section	.debug_info
	{
.b32 82
.b32 .debug_abbrev
.b64 $L__func_begin0
	}
	.section	.debug_macinfo	{	}
"""


HOPPER = r"""
struct alignas(64) TensorMap { char bytes[128]; };
extern "C" __global__ void __cluster_dims__(2, 1, 1)
kernel(const __grid_constant__ TensorMap map, float* out, long left, long right) {
    extern __shared__ __align__(1024) char smem[];
    unsigned address = (unsigned)__cvta_generic_to_shared(smem), phase = 0;
    float d[4] = {};
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(address));
    asm volatile("{ .reg .pred P1; .reg .b32 R; elect.sync R|P1, 0xFFFFFFFF;\n"
                 "@P1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%2, %3}], [%0+8], %4; }"
                 :: "r"(address), "l"(&map), "r"(0), "r"(64), "h"((unsigned short)3) : "memory");
    asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
                 "@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}" :: "r"(address), "r"(phase));
    asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0+-8], %1;\n"
                 "@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}" :: "r"(address), "r"(phase));
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0, %1, %2, %3}, %4, %5, p, 1, 1;\n}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(left), "l"(right), "r"(1));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
"""


def module_of(body: str, *, before: str = "", parameters: str = "") -> Module:
    return parse_module(f"{HEAD}{before}\n.visible .entry k({parameters})\n{{\n{body}\n}}\n")


def entry_of(body: str, *, before: str = "", parameters: str = "") -> Entry:
    return module_of(body, before=before, parameters=parameters).entries["k"]


def one(body: str) -> Instruction:
    declarations = (
        ".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .shared .align 8 .b8 smem[64]; "
    )
    (instruction,) = entry_of(declarations + body).instructions
    return instruction


def operands(text: str) -> tuple[Operand, ...]:
    return one(f"op.x {text};").operands


R1, R2, RD1, P1, P2 = (Register(name) for name in ("%r1", "%r2", "%rd1", "%p1", "%p2"))


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("%r1", R1),
        ("%tid.x", Special("%tid.x")),
        ("%laneid", Special("%laneid")),
        ("%clock64", Special("%clock64")),
        ("%cluster_ctarank", Special("%cluster_ctarank")),
        ("%envreg31", Special("%envreg31")),
        ("-1", Immediate(-1)),
        ("0f3F800000", Immediate(0x3F800000, "f32")),
        ("smem", Symbol("smem")),
        ("smem+16", Symbol("smem", 16)),
        ("_", Sink()),
        ("!%p1", Negated(P1)),
        ("%p1|%p2", Pair(P1, P2)),
        ("%p1 | _", Pair(P1, Sink())),
        ("_|%p2", Pair(Sink(), P2)),
        ("{%r1,%r2}", Vector((R1, R2))),
        ("{ %r1, _, 7, %tid.x }", Vector((R1, Sink(), Immediate(7), Special("%tid.x")))),
        ("{%r1}", Vector((R1,))),
        ("[%rd1]", Address(RD1)),
        ("[%rd1+8]", Address(RD1, 8)),
        ("[ %rd1 + -8 ]", Address(RD1, -8)),
        ("[%rd1+4*2-1]", Address(RD1, 7)),
        ("[smem+0x10]", Address(Symbol("smem"), 16)),
        ("[16]", Address(Immediate(16))),
        ("[%rd1, {%r1, %r2}]", Address(RD1, 0, Vector((R1, R2)))),
    ],
)
def test_an_operand_becomes_its_record(text: str, operand: Operand) -> None:
    assert operands(text) == (operand,)


def test_an_opcode_splits_at_its_dots_only() -> None:
    text = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
    instruction = one(f"@!%p1 {text} [smem], [%rd1, {{%r1, %r2}}], [smem+8], %rd2;")
    assert (instruction.mnemonic, ".".join(instruction.qualifiers)) == ("cp", text.removeprefix("cp."))
    assert instruction.qualifiers[4:6] == ("shared::cluster", "global")
    assert instruction.guard == Guard(P1, negated=True)
    assert instruction.operands == (
        Address(Symbol("smem")),
        Address(RD1, 0, Vector((R1, R2))),
        Address(Symbol("smem"), 8),
        Register("%rd2"),
    )


def test_qualifiers_may_stand_apart() -> None:
    assert one("add .s32 %r1, %r1, 1;") == one("add.s32 %r1, %r1, 1;")


def test_an_instruction_without_operands_has_none() -> None:
    assert one("ret;").operands == ()


def test_a_guard_reads_its_predicate() -> None:
    assert one("@%p2 trap;").guard == Guard(P2, negated=False)


def test_a_call_has_lists_of_results_and_arguments() -> None:
    before = ".extern .func (.param .b32 r) f(.param .b64 a, .param .b64 b);"
    body = ".param .b64 a; .param .b64 b; .param .b32 r; call.uni (r), f, (a, b);"
    (call,) = entry_of(body, before=before).instructions
    assert call.operands == (Arguments((Symbol("r"),)), Symbol("f"), Arguments((Symbol("a"), Symbol("b"))))
    (plain,) = entry_of("call g;", before=".func g { ret; }").instructions
    assert plain.operands == (Symbol("g"),)


def test_an_inner_register_shadows_the_outer_one_and_ends_with_its_scope() -> None:
    entry = entry_of(
        ".reg .u32 x; { .reg .b64 x; mov.b64 x, 1; { mov.b64 x, 2; } } { .reg .f32 x; mov.f32 x, x; } mov.u32 x, 3;"
    )
    assert [instruction.operands[0] for instruction in entry.instructions] == [
        *(Register("x@1"), Register("x@1"), Register("x@3"), Register("x")),
    ]
    assert entry.registers == {"x": "u32", "x@1": "b64", "x@3": "f32"}


def test_labels_resolve_from_their_own_scope_outwards() -> None:
    entry = entry_of("{ bra L; nop; L: bra M; } L: { L: bra.uni L; } bra L; M:")
    assert entry.labels == {"L@1": 2, "L": 3, "L@2": 3, "M": 5}
    branches = [i.operands for i in entry.instructions if i.mnemonic == "bra"]
    assert branches == [(Label(name),) for name in ("L@1", "M", "L@2", "L")]


def test_a_label_that_changes_its_meaning_after_its_use_is_refused() -> None:
    """The text allows both readings; ptxas takes it in silence."""
    entry_of("{ bra L; L: }")
    with pytest.raises(PtxSyntaxError, match="'L' means a label of an outer scope here and of an inner scope"):
        entry_of("L: { bra L; L: }")


def test_branch_targets_are_lists_of_labels() -> None:
    entry = entry_of(".reg .u32 i; { A: T: .branchtargets A, B, A; brx.idx i, T; B: }")
    assert entry.branch_targets == {"T@1": ("A@1", "B@1", "A@1")}
    assert entry.instructions[0].operands == (Register("i"), Label("T@1"))
    assert entry.labels == {"A@1": 0, "B@1": 1}


def test_a_range_declares_numbered_registers() -> None:
    entry = entry_of(".reg .b32 %r<3>, x, y<2>; .reg .pred p<0>;")
    assert entry.registers == dict.fromkeys(["%r0", "%r1", "%r2", "x", "y0", "y1"], "b32")


def test_variables_keep_space_size_and_alignment() -> None:
    entry = entry_of(
        ".shared .align 128 .b8 a[1024];\n.local .v4 .f32 b[2], c;\n{ .shared .u64 d[2][3]; .param .b32 e; }",
    )
    assert list(entry.variables.values()) == [
        Variable("a", "shared", "b8", 128, 1024, 7),
        Variable("b", "local", "f32", 16, 8, 8),
        Variable("c", "local", "f32", 16, 4, 8),
        Variable("d@1", "shared", "u64", 8, 6, 9),
        Variable("e@1", "param", "b32", 4, 1, 9),
    ]
    assert entry.variables["d@1"].size_bytes == 48


@pytest.mark.parametrize(
    ("declaration", "size_bytes", "initial"),
    [
        (".global .align 4 .b8 x[8] = {1, 0, 0, 0, 2};", 8, "0100000002000000"),
        (".global .u32 x = 5;", 4, "05000000"),
        (".global .s16 x = -2;", 2, "feff"),
        (".global .u8 x = 300;", 1, "2c"),
        (".global .f32 x = 0f3F800000;", 4, "0000803f"),
        (".global .f32 x = -1.5;", 4, "0000c0bf"),
        (".const .f64 x[2] = {0d3FF0000000000000, 2.0};", 16, "000000000000f03f0000000000000040"),
        (".global .u16 x[] = {1, 2+1};", 4, "01000300"),
        (".global .u16 x[2][2] = {{1}, {2, 3}};", 8, "0100000002000300"),
        (".global .u16 x[][2] = {{1}, {2}, {}};", 12, "010000000200000000000000"),
        (".global .v2 .u8 x[2] = {{1, 2}, {3}};", 4, "01020300"),
        (".global .u64 x[1] = {0xFFFFFFFFFFFFFFFF};", 8, "ffffffffffffffff"),
    ],
)
def test_an_initialiser_gives_all_bytes(declaration: str, size_bytes: int, initial: str) -> None:
    variable = parse_module(HEAD + declaration).variables["x"]
    assert variable.initial is not None
    assert (variable.size_bytes, variable.initial.hex()) == (size_bytes, initial)


def test_an_extern_declaration_and_the_definition_are_one_variable() -> None:
    extern, definition = ".extern .global .u32 x[];", ".visible .global .u32 x[2];"
    for text in (extern + definition, definition + extern):
        assert parse_module(HEAD + text).variables["x"].count == 2
    assert parse_module(HEAD + extern + extern).variables["x"].count == 0


def test_a_function_declared_first_is_the_one_defined_later() -> None:
    text = ".func (.reg .b32 r) f(.reg .b32 a, .param .align 8 .b8 s[16]) .noreturn"
    declared = parse_module(f"{HEAD}{text};").functions["f"]
    assert not declared.defined
    assert declared.returns == (Parameter("r", "b32", 4, 1, 4, "reg"),)
    assert declared.parameters == (Parameter("a", "b32", 4, 1, 4, "reg"), Parameter("s", "b8", 8, 16, 4))
    module = parse_module(f"{HEAD}{text};{text} {{ add.s32 r, a, 1; call f; }} {text};")
    function = module.functions["f"]
    assert function.defined
    assert function.returns == declared.returns
    assert (function.registers, function.directives) == ({"r": "b32", "a": "b32"}, {"noreturn": ()})
    assert function.instructions[1].operands == (Symbol("f"),)


def test_launch_directives_keep_their_numbers() -> None:
    directives = ".maxntid 256 .minnctapersm 2 .maxnreg 64 .reqnctapercluster 2, 1 .explicitcluster .maxclusterrank 8"
    text = f'{HEAD}.weak .entry k {directives} .pragma "a", "b"; {{ .pragma "c"; ret; }}'
    entry = parse_module(text).entries["k"]
    assert entry.directives == {
        "maxntid": (256, 1, 1),
        "minnctapersm": (2,),
        "maxnreg": (64,),
        "reqnctapercluster": (2, 1, 1),
        "explicitcluster": (),
        "maxclusterrank": (8,),
    }
    assert (entry.linkage, entry.pragmas) == ("weak", ("a", "b", "c"))


def test_a_local_name_hides_the_modules() -> None:
    body = ".reg .u64 r; mov.u64 r, x; .shared .b8 x[4]; mov.u64 r, x;"
    module = module_of(body, before=".global .u32 x;")
    assert module.entries["k"].variables["x"].space == "shared"
    assert module.variables["x"].space == "global"


def test_the_head_of_a_module() -> None:
    module = parse_module("//\n.version 8.10\n.target sm_80, debug\n")
    assert (module.version, module.target, module.address_size) == ((8, 10), ("sm_80", "debug"), 32)


def test_source_lines_follow_the_chain_of_inlined_calls() -> None:
    body = """.loc 1 9 0
        nop;
        .loc 2 5 23, function_name $L__info_string0, inlined_at 1 11 2
        .loc 2 4 23, function_name $L__info_string1+4, inlined_at 2 5 23
        nop;
        .loc 7 4 23
        nop;"""
    text = f'{HEAD}.file 1 "a.cu", 1700000000, 42\n.entry k {{ nop; {body} }}\n.file 2 "dir\\\\b.cuh"'
    module = parse_module(text)
    assert module.files == {1: "a.cu", 2: "dir\\b.cuh"}
    assert [instruction.location for instruction in module.entries["k"].instructions] == [
        None,
        Location("a.cu", 9),
        Location("dir\\b.cuh", 4, Location("dir\\b.cuh", 5, Location("a.cu", 11))),
        Location("(file 7)", 4),
    ]


def test_a_module_in_the_manner_of_triton() -> None:
    module = parse_module(TRITON)
    entry = module.entries["add_kernel"]
    assert module.variables == {"global_smem": Variable("global_smem", "shared", "b8", 16, 0, 6, None, "extern")}
    assert entry.parameters == (
        Parameter("add_kernel_param_0", "u64", 8, 1, 8, "param", "global", 1),
        Parameter("add_kernel_param_1", "u64", 8, 1, 9, "param", "", None),
        Parameter("add_kernel_param_2", "b8", 64, 128, 10),
        Parameter("add_kernel_param_3", "u32", 4, 1, 11),
    )
    assert entry.directives == {"reqntid": (128, 1, 1), "maxnreg": (255,)}
    assert entry.labels == {"$L__func_begin0": 0, "$L__tmp0": 1, "$L__tmp1": 8}
    assert entry.instructions[4].operands == (Vector((Register("%r2"), Register("%r3"))), Address(Register("%rd1")))
    assert entry.instructions[5].operands[0] == Vector((Register("tmp@1"), Register("%rs1")))
    assert entry.instructions[1].location == Location("/src/add.py", 23, Location("/src/add.py", 30))


def test_what_nvrtc_writes_becomes_a_whole_module() -> None:
    compiled = compile_source(CUDA, name="sample.cu")
    module = parse_module(compiled.ptx)
    entry = module.entries["kernel"]
    assert (module.version, module.target, module.address_size) == ((9, 0), ("sm_90a",), 64)
    assert list(module.files.values()) == ["/tileproof/sample.cu"] or "sample.cu" in str(module.files)
    assert module.variables["table"].initial == bytes.fromhex("0000803f0000004000004040")
    assert module.variables["counters"].initial == bytes.fromhex("01000000020000000000000000000000")
    assert (module.variables["dynamic"].linkage, module.variables["dynamic"].count) == ("extern", 0)
    assert {name: function.defined for name, function in module.functions.items()} == {
        "vprintf": False,
        "_Z6scaledfPKf": True,
    }
    assert entry.directives == {"maxntid": (128, 1, 1), "minnctapersm": (2,)}
    assert [(parameter.type, parameter.size_bytes) for parameter in entry.parameters] == [
        ("u64", 8),
        ("u64", 8),
        ("b8", 2),
    ]
    assert [variable.size_bytes for variable in entry.variables.values() if variable.space == "shared"] == [128]
    assert sum(label.startswith("again@") for label in entry.labels) == 2
    assert {"call", "bar", "elect", "ld", "st"} <= {instruction.mnemonic for instruction in entry.instructions}


def test_every_nvrtc_instruction_is_read_with_its_own_line() -> None:
    """A second, line-wise reading of the same text counts instructions without knowing the grammar."""
    text = compile_source(CUDA, name="sample.cu").ptx
    module = parse_module(text)
    lines = text.splitlines()
    read = [i for routine in (*module.entries.values(), *module.functions.values()) for i in routine.instructions]
    for instruction in read:
        assert ".".join((instruction.mnemonic, *instruction.qualifiers)) in lines[instruction.line - 1]
    opcode_lines = {i.line for i in read}
    for number, line in enumerate(lines, 1):
        if line.startswith("\t@") or (line.startswith("\t") and line[1:2].islower() and line.rstrip().endswith(";")):
            assert number in opcode_lines, line


def test_inlined_lines_of_nvrtc_name_their_call_sites() -> None:
    module = parse_module(compile_source(CUDA, name="sample.cu").ptx)
    first = CUDA[: CUDA.index("return inner(value)")].count("\n") + 1
    kernel = CUDA[: CUDA.index("out[4] = outer")].count("\n") + 1
    chains = set()
    for instruction in module.entries["kernel"].instructions:
        chain, location = [], instruction.location
        while location is not None:
            chain.append(location.line)
            location = location.inlined_at
        chains.add(tuple(chain))
    assert {(4, first, kernel), (4, first + 1, kernel)} <= chains


def test_inline_assembly_of_tensor_copies_and_matrix_units_is_read() -> None:
    entry = parse_module(compile_source(HOPPER, name="hopper.cu").ptx).entries["kernel"]
    by_name = {".".join((i.mnemonic, *i.qualifiers[:2])): i for i in entry.instructions}
    assert (entry.parameters[0].align, entry.parameters[0].size_bytes) == (64, 128)
    waits = [label for label in entry.labels if label.startswith("LAB_WAIT@")]
    assert len(waits) == 2
    targets = [i.operands[0] for i in entry.instructions if i.mnemonic == "bra"]
    assert [targets.count(Label(name)) for name in waits] == [1, 1]
    copy = by_name["cp.async.bulk"]
    assert "mbarrier::complete_tx::bytes" in copy.qualifiers
    assert isinstance(copy.operands[1], Address)
    assert copy.operands[1].coordinates is not None
    assert len(copy.operands[1].coordinates.elements) == 2
    product = by_name["wgmma.mma_async.sync"]
    assert isinstance(product.operands[0], Vector)
    assert len(product.operands[0].elements) == 4
    assert product.operands[4:] == (Immediate(1), Immediate(1))
    assert isinstance(by_name["elect.sync"].operands[0], Pair)


def test_modules_compare_and_pickle() -> None:
    module = parse_module(TRITON)
    assert pickle.loads(pickle.dumps(module)) == module
    assert parse_module(TRITON.replace("255", "254")) != module
