"""Every operator changes an instruction as its example says, and the changed text is what the changed records say."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tileproof.conformance.mutation import variant
from tileproof.conformance.mutation.mutant import Mutant, mutants
from tileproof.conformance.mutation.operators import OPERATORS
from tileproof.conformance.mutation.rendering import render
from tileproof.conformance.mutation.variant import Variant
from tileproof.kernels.compile import CompiledModule, compile_source
from tileproof.kernels.source import kernel_text
from tileproof.simulators.ptx.text.parse import parse_module
from tileproof.simulators.ptx.text.syntax import Entry

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k()
{
	.reg .pred %p<5>;
	.reg .b16 %h<5>;
	.reg .b32 %r<9>;
	.reg .f32 %f<5>;
	.reg .b64 %rd<5>;
	.shared .align 16 .b8 s[64];
"""
END = "LABEL:\n\tret;\n}\n"

TENSOR_COPY = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"

#: operator, the line, what it becomes; "" for nothing.
EXAMPLES = (
    ("drop-barrier", "bar.sync 0;", ""),
    ("drop-barrier", "barrier.cluster.wait.aligned;", ""),
    ("drop-fence", "fence.proxy.async.shared::cta;", ""),
    ("drop-wait", "cp.async.wait_group 1;", ""),
    ("drop-commit", "cp.async.commit_group;", ""),
    ("drop-arrive", "mbarrier.arrive.shared::cta.b64 _, [%r1];", ""),
    ("wait-for-less", "cp.async.wait_group 1;", "cp.async.wait_group 2;"),
    ("count", "mbarrier.init.shared::cta.b64 [%r1], 3;", "mbarrier.init.shared::cta.b64 [%r1], 4;"),
    ("count", "bar.sync 1, 64;", "bar.sync 1, 96;"),
    (
        "parity",
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;",
        "xor.b32 mutant, %r2, 1; mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], mutant;",
    ),
    ("scope", "membar.gl;", "membar.cta;"),
    ("scope", "atom.global.add.u32 %r1, [%rd1], 1;", "atom.relaxed.cta.global.add.u32 %r1, [%rd1], 1;"),
    ("semantics", "ld.acquire.gpu.global.u32 %r1, [%rd1];", "ld.relaxed.gpu.global.u32 %r1, [%rd1];"),
    ("semantics", "ld.volatile.global.u32 %r1, [%rd1];", "ld.global.u32 %r1, [%rd1];"),
    ("proxy", "fence.proxy.async.shared::cta;", "fence.proxy.async.global;"),
    ("group", "cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;"),
    (
        "plain-atomic",
        "atom.global.add.u32 %r1, [%rd1], 5;",
        "ld.global.u32 %r1, [%rd1]; add.u32 mutant, %r1, 5; st.global.u32 [%rd1], mutant;",
    ),
    ("negate-guard", "@%p1 bra LABEL;", "@!%p1 bra LABEL;"),
    ("drop-branch", "@%p1 bra LABEL;", ""),
    ("drop-guard", "@!%p1 bra LABEL;", "bra LABEL;"),
    ("bound", "setp.lt.s32 %p1, %r1, 5;", "setp.le.s32 %p1, %r1, 5;"),
    ("opposite", "setp.lt.s32 %p1, %r1, 5;", "setp.ge.s32 %p1, %r1, 5;"),
    ("select", "selp.b32 %r1, %r2, 1, %p1;", "selp.b32 %r1, 1, %r2, %p1;"),
    ("predicate", "and.pred %p1, %p2, %p3;", "or.pred %p1, %p2, %p3;"),
    ("address", "ld.global.u32 %r1, [%rd1+8];", "ld.global.u32 %r1, [%rd1+12];"),
    (
        "coordinates",
        f"{TENSOR_COPY} [%r1], [%rd1, {{%r2, %r3}}], [%r4];",
        f"{TENSOR_COPY} [%r1], [%rd1, {{%r3, %r2}}], [%r4];",
    ),
    ("width", "st.global.u32 [%rd1], %r1;", "st.global.u16 [%rd1], %r1;"),
    ("sign", "ld.global.u8 %h1, [%rd1];", "ld.global.s8 %h1, [%rd1];"),
    ("drop-store", "st.global.u32 [%rd1], 0;", ""),
    ("drop-copy", "cp.async.cg.shared.global [%r1], [%rd1], 16;", ""),
    ("elements", "st.global.v2.u32 [%rd1], {%r1, %r2};", "st.global.v2.u32 [%rd1], {%r2, %r1};"),
    (
        "source-size",
        "cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;",
        "cp.async.cg.shared.global [%r1], [%rd1], 16;",
    ),
    (
        "transpose",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3];",
        "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r1, %r2}, [%r3];",
    ),
    ("constant+1", "and.b32 %r1, %r2, 7;", "and.b32 %r1, %r2, 8;"),
    ("constant-1", "add.s32 %r1, %r2, 1;", "add.s32 %r1, %r2, 0;"),
    ("constant+1", "mul.rn.f32 %f1, %f2, 0f3F800000;", "mul.rn.f32 %f1, %f2, 0f3F800001;"),
    ("constant-bit", "and.b32 %r1, %r2, 112;", "and.b32 %r1, %r2, 80;"),
    ("swap", "sub.s32 %r1, %r2, %r3;", "sub.s32 %r1, %r3, %r2;"),
    ("halves", "mov.b32 %r1, {%h1, %h2};", "mov.b32 %r1, {%h2, %h1};"),
    (
        "fragments",
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6},"
        " {%f1, %f2, %f3, %f4};",
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1, %f2, %f3, %f4}, {%r2, %r1, %r3, %r4}, {%r5, %r6},"
        " {%f1, %f2, %f3, %f4};",
    ),
    ("operation", "shl.b32 %r1, %r2, 3;", "shr.u32 %r1, %r2, 3;"),
    ("signedness", "shr.u32 %r1, %r2, 3;", "shr.s32 %r1, %r2, 3;"),
    ("rounding", "mul.rn.f32 %f1, %f2, %f3;", "mul.rz.f32 %f1, %f2, %f3;"),
    ("saturation", "cvt.rni.sat.s8.f32 %r1, %f1;", "cvt.rni.s8.f32 %r1, %f1;"),
    ("number-format", "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;", "cvt.rn.satfinite.e5m2x2.f32 %h1, %f1, %f2;"),
    ("flush", "add.rn.f32 %f1, %f2, %f3;", "add.rn.ftz.f32 %f1, %f2, %f3;"),
    ("no-function", "abs.f32 %f1, %f2;", "mov.f32 %f1, %f2;"),
    (
        "shuffle",
        "shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1;",
        "shfl.sync.down.b32 %r1|%p1, %r2, 16, 31, -1;",
    ),
)


SOURCE = """
extern "C" __global__ void scale(const int* x, int* y, int count) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) y[at] = max(x[at], 3) + 1;
    __syncthreads();
    for (int i = at; i < count; i += 32) y[i] ^= x[i] >> 2;
}
"""
OTHER = """
extern "C" __global__ void other(int* y) { y[threadIdx.x] -= 5; }
"""


def entry_of(line: str) -> Entry:
    return parse_module(f"{HEAD}\t{line}\n{END}").entries["k"]


def made(entry: Entry) -> list[Mutant]:
    return list(mutants(Variant("k", ()), entry))


@pytest.mark.parametrize(("operator", "line", "changed"), EXAMPLES)
def test_an_operator_makes_what_its_example_says(operator: str, line: str, changed: str) -> None:
    found = [
        " ".join(map(render, one.patch.instructions))
        for one in made(entry_of(line))
        if one.operator == operator and one.patch.index == 0
    ]
    assert changed in found


def test_every_operator_has_an_example() -> None:
    assert {name for name, _, _ in EXAMPLES} == set(OPERATORS)


@pytest.mark.parametrize("line", sorted({line for _, line, _ in EXAMPLES}))
def test_no_operator_leaves_an_instruction_as_it_is(line: str) -> None:
    entry = entry_of(line)
    assert [one.id for one in made(entry) if one.patch.instructions == (one.original,)] == []


def test_operands_that_are_the_same_are_not_exchanged() -> None:
    assert "swap" not in {one.operator for one in made(entry_of("sub.s32 %r1, %r2, %r2;"))}


def kernels() -> Iterator[CompiledModule]:
    for name, defines in (
        ("fp8_quantize_rows", ()),
        ("fp8_a8_gemm_tma", ("FP8_A8_OUTPUT=Linear",)),
        ("int8_gemm_wgmma", ("INT8_COLUMNS=128", "INT8_STAGES=3")),
    ):
        yield compile_source(kernel_text(name), name=f"{name}.cu", defines=defines)


@pytest.mark.parametrize("module", list(kernels()), ids=lambda module: module.name)
def test_a_patched_text_is_read_as_the_patched_records(module: CompiledModule) -> None:
    parsed = parse_module(module.ptx)
    for entry in parsed.entries.values():
        every = made(entry)
        chosen = [one for one in every if one.patch.registers] + every[::211]
        for one in chosen:
            text = one.patch.text(module.ptx, entry)
            read, meant = parse_module(text).entries[entry.name], one.patch.entry(entry)
            assert [*map(render, read.instructions)] == [*map(render, meant.instructions)], one.id
            assert read.labels == meant.labels, one.id
            assert text.count("\n") == module.ptx.count("\n"), "lines of findings and of `.loc` stay what they are"


def ids(module: CompiledModule) -> list[str]:
    return [one.id for entry in parse_module(module.ptx).entries.values() for one in made(entry)]


def test_ids_are_unique_and_do_not_depend_on_lines_above_or_on_register_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(text: str) -> CompiledModule:
        monkeypatch.setattr(variant, "_own_text", lambda file: tuple(text.splitlines()) if file == "k.cu" else ())
        return compile_source(text, name="k.cu")

    first = ids(compiled(SOURCE))
    assert len(set(first)) == len(first) > 30
    assert ids(compiled("// a line\n" + SOURCE.replace("+ 1;", "+ 1;  // a remark") + OTHER)) != first
    longer = compiled("// a line\n// another\n" + SOURCE + OTHER)
    assert len(ids(longer)) > len(first), "a further entry has mutants of its own"
    assert first == [one for one in ids(longer) if one in set(first)], "and those of the first keep their ids"
    renamed = replace(compiled(SOURCE), ptx=compiled(SOURCE).ptx.replace("%rd", "%other"))
    assert ids(renamed) == first
