"""Brackets through whole kernels: registers, memories, warps, and what they decide in the end."""

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.kernels.compile import compile_source
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.alu.operation import NotModelled, resolve
from tileproof.simulators.ptx.buffer import Buffer
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind, Report

THREADS = 64
X = np.linspace(-3.0, 3.0, THREADS, dtype=np.float32)
ADVERSARIAL = [("adversarial", seed) for seed in range(5)]
on_schedules = pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *ADVERSARIAL])


def launch(body: str, device: Device | None = None, out: Buffer | None = None) -> tuple[Report, Buffer]:
    """Run a kernel: %f0 = x[thread], %f1 = ex2.approx of it, %d5 = &out[thread] of 32 bits; s is shared memory."""
    text = f"""
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out)
{{
    .local .align 16 .b8 depot[64];
    .shared .align 16 .b8 s[4096];
    .reg .pred %p<8>;
    .reg .b8 %c<4>;
    .reg .b16 %h<8>;
    .reg .b32 %r<24>;
    .reg .f32 %f<16>;
    .reg .b64 %d<16>;
    ld.param.u64 %d0, [out];
    ld.param.u64 %d1, [x];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %d4, %r0, 4;
    add.s64 %d5, %d0, %d4;
    add.s64 %d6, %d1, %d4;
    mul.wide.u32 %d7, %r0, 8;
    mov.u32 %r9, s;
    mad.lo.u32 %r10, %r0, 16, %r9;    // &s[16 * thread]
    mov.u32 %r11, depot;
    ld.global.f32 %f0, [%d6];
    ex2.approx.f32 %f1, %f0;
    {body}
    ret;
}}
"""
    device = device or Device()
    x = device.upload(X)
    out = out or device.allocate((THREADS,), np.float32)
    report = device.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(THREADS, 1, 1), args=(x, out))
    return report, out


def codes(array: NDArray[np.float32]) -> NDArray[np.uint32]:
    return array.view(np.uint32)


def ends(values: NDArray[np.float32] = X) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The bracket of ex2.approx.f32."""
    operation = resolve("ex2", ("approx", "f32"))
    assert operation is not None
    assert operation.allowed is not None
    low, high = operation.allowed([codes(values).astype(np.uint64)], True)
    return low.astype(np.uint32).view(np.float32), high.astype(np.uint32).view(np.float32)


def assert_bracket(out: Buffer, low: NDArray[np.float32], high: NDArray[np.float32]) -> None:
    got = out.bracket()
    np.testing.assert_array_equal(codes(got[0]), codes(low))
    np.testing.assert_array_equal(codes(got[1]), codes(high))
    nominal = out.download()
    assert (got[0] <= nominal).all()
    assert (nominal <= got[1]).all()


LAST = np.arange(THREADS) ^ 1
MOVES = {
    "register": "st.global.f32 [%d5], %f1;",
    "move": "mov.f32 %f2, %f1; mov.b32 %r1, %f2; st.global.u32 [%d5], %r1;",
    "shared memory": "st.shared.f32 [%r10], %f1; bar.sync 0; ld.shared.f32 %f2, [%r10]; st.global.f32 [%d5], %f2;",
    "local memory": "st.local.f32 [%r11], %f1; ld.local.f32 %f2, [%r11]; st.global.f32 [%d5], %f2;",
    "global memory": "st.global.f32 [%d5], %f1; ld.global.f32 %f2, [%d5]; st.global.f32 [%d5], %f2;",
    "vectors": "st.shared.v4.f32 [%r10], {%f0, %f1, %f0, %f0}; ld.shared.v2.b32 {%r1, %r2}, [%r10];"
    "st.global.b32 [%d5], %r2;",
    "a wide load": "st.shared.v2.f32 [%r10], {%f0, %f1}; ld.shared.b64 %d8, [%r10]; shr.u64 %d8, %d8, 32;"
    "cvt.u32.u64 %r1, %d8; st.global.u32 [%d5], %r1;",
    "a wide register": "mov.b32 %r1, %f1; mov.b64 %d8, {%r0, %r1}; mov.b64 {%r2, %r3}, %d8; st.global.u32 [%d5], %r3;",
    "two halves": "mov.b32 %r1, %f1; mov.b64 %d8, {%r1, %r0}; st.shared.b64 [%r10], %d8; ld.shared.u32 %r2, [%r10];"
    "st.global.u32 [%d5], %r2;",
    "shuffle": "mov.b32 %r1, %f1; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;"
    "st.global.u32 [%d5], %r3;",
    "logic": "mov.b32 %r1, %f1; and.b32 %r1, %r1, -1; or.b32 %r1, %r1, 0; xor.b32 %r1, %r1, 0;"
    "prmt.b32 %r1, %r1, 0, 0x3210; st.global.u32 [%d5], %r1;",
    "selection": "setp.lt.f32 %p1, %f1, 0f00000000; selp.f32 %f2, %f0, %f1, %p1; st.global.f32 [%d5], %f2;",
    "asynchronous copy": "st.global.f32 [%d5], %f1; bar.sync 0; and.b32 %r1, %r0, 3; setp.eq.u32 %p1, %r1, 0;"
    "mul.lo.u32 %r2, %r0, 4; add.u32 %r2, %r2, %r9; @%p1 cp.async.cg.shared.global [%r2], [%d5], 16;"
    "cp.async.wait_all; bar.sync 0; ld.shared.f32 %f2, [%r2]; st.global.f32 [%d5], %f2;",
    "small asynchronous copy": "st.global.f32 [%d5], %f1; mul.lo.u32 %r2, %r0, 4; add.u32 %r2, %r2, %r9;"
    "cp.async.ca.shared.global [%r2], [%d5], 4; cp.async.wait_all; ld.shared.f32 %f2, [%r2]; st.global.f32 [%d5], %f2;",
    "bulk copy": "mul.lo.u32 %r2, %r0, 4; add.u32 %r2, %r2, %r9; st.shared.f32 [%r2], %f1;"
    "fence.proxy.async.shared::cta; bar.sync 0; setp.eq.u32 %p1, %r0, 0;"
    "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r9], 256; @%p1 cp.async.bulk.commit_group;"
    "@%p1 cp.async.bulk.wait_group 0;",
    "a loop": "mov.u32 %r1, 0; LOOP: mov.f32 %f2, %f1; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 3; @%p1 bra LOOP;"
    "st.global.f32 [%d5], %f2;",
}


@pytest.mark.parametrize("body", MOVES.values(), ids=MOVES.keys())
def test_a_bracket_moves_with_its_value(body: str) -> None:
    report, out = launch(body)
    assert not report.findings
    low, high = ends()
    assert_bracket(out, low, high)
    undecided = int((codes(low) != codes(high)).sum())
    assert 0 < undecided < THREADS, "integral powers are exact, the others are not"
    assert report.counters.global_bytes_undecided == 4 * undecided * (
        body.count("st.global") + body.count("bulk.global")
    )


@on_schedules
def test_a_bracket_reaches_another_thread_on_every_schedule(schedule: str, seed: int) -> None:
    body = "st.shared.f32 [%r10], %f1; bar.sync 0; xor.b32 %r1, %r0, 1; mad.lo.u32 %r2, %r1, 16, %r9;"
    report, out = launch(body + "ld.shared.f32 %f2, [%r2]; st.global.f32 [%d5], %f2;", Device("sm_90a", schedule, seed))
    assert not report.findings
    low, high = ends()
    assert_bracket(out, low[LAST], high[LAST])


DECIDED = {
    "overwritten register": "mov.f32 %f1, %f0; st.global.f32 [%d5], %f1;",
    "overwritten memory": "st.global.f32 [%d5], %f1; st.global.f32 [%d5], %f0;",
    "overwritten halves": "st.global.f32 [%d5], %f1; mov.b32 %r1, %f0; mov.b32 {%h0, %h1}, %r1;"
    "st.global.u16 [%d5], %h0; st.global.u16 [%d5+2], %h1;",
    "multiplied by zero and added": "fma.rn.f32 %f2, %f1, 0f00000000, %f0; st.global.f32 [%d5], %f2;",
    "far below": "add.f32 %f2, %f1, 0f4E800000; sub.f32 %f2, %f2, 0f4E800000; mul.f32 %f2, %f2, 0f00000000;"
    "add.f32 %f2, %f2, %f0; st.global.f32 [%d5], %f2;",
    "masked": "mov.b32 %r1, %f1; and.b32 %r1, %r1, 0; mov.b32 %r2, %f0; or.b32 %r1, %r1, %r2;st.global.u32 [%d5], %r1;",
}


@pytest.mark.parametrize("body", DECIDED.values(), ids=DECIDED.keys())
def test_what_does_not_depend_on_the_choice_is_decided(body: str) -> None:
    report, out = launch(body)
    assert not report.findings
    assert_bracket(out, X, X)


LONG = """
    mov.f32 %f3, 0f00000000; mov.u32 %r1, 0;
    LOOP: and.b32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 2; @!%p1 bra NEXT;
    ex2.approx.f32 %f4, %f3; fma.rn.f32 %f3, %f4, %f0, %f1; st.shared.f32 [%r10], %f3;
    NEXT: ld.shared.f32 %f5, [%r10]; mul.f32 %f3, %f3, 0f3F000000; add.f32 %f3, %f3, %f5; mov.f32 %f6, %f5;
    add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 24; @%p2 bra LOOP;
    mov.f32 %f5, %f0; st.shared.f32 [%r10], %f5; ld.shared.f32 %f6, [%r10]; add.f32 %f6, %f6, %f5;
    setp.lt.u32 %p3, %r0, 40; @%p3 st.global.f32 [%d5], %f3; @!%p3 st.global.f32 [%d5], %f6;
"""


# The register is decided before the memory is read, by an instruction that only one of the engines knows.
UNSEEN = {
    space: f"st.{space}.f32 [{place}], %f1; ex2.approx.f32 %f1, 0f00000000; ld.{space}.f32 %f2, [{place}];"
    "st.global.f32 [%d5], %f2;"
    for space, place in (("local", "%r11"), ("shared", "%r10"), ("global", "%d5"))
}


@pytest.mark.parametrize(
    "body", [*UNSEEN.values(), *MOVES.values(), *DECIDED.values(), "st.shared.f32 [%r10], %f0;" + LONG]
)
def test_both_engines_carry_the_same(body: str) -> None:
    reports, brackets = [], []
    for engine in ("reference", "fast"):
        report, out = launch(body, Device(engine=engine))
        reports.append((report.findings, report.notes, report.counters))
        brackets.append([end.tobytes() for end in (out.download(), *out.bracket())])
    assert reports[0] == reports[1]
    assert brackets[0] == brackets[1]


def test_a_half_that_is_stored_over_leaves_the_other_half_open() -> None:
    _, out = launch("st.global.f32 [%d5], %f1; mov.b32 %r1, %f0; cvt.u16.u32 %h0, %r1; st.global.u16 [%d5], %h0;")
    low, high = (codes(end) for end in out.bracket())
    first, last = (codes(end) >> 16 for end in ends())
    assert ((low >> 16 <= first) & (last <= high >> 16)).all()
    assert (low & 0xFFFF == codes(X) & 0xFFFF)[first == last].all()


def test_the_next_launch_reads_what_the_last_one_left_open() -> None:
    device = Device()
    _, out = launch("st.global.f32 [%d5], %f1;", device)
    report, _ = launch("ld.global.f32 %f3, [%d5]; neg.f32 %f3, %f3; st.global.f32 [%d5], %f3;", device, out)
    assert not report.findings
    low, high = ends()
    assert_bracket(out, -high, -low)


AGAIN = "ex2.approx.f32 %f2, %f0; "  # the same operand may have another result
DECIDES = {
    "branch": (
        AGAIN + "setp.gt.f32 %p1, %f1, %f2; @%p1 bra END; mov.u32 %r1, 0; END:",
        AGAIN + "neg.f32 %f2, %f2; setp.gt.f32 %p1, %f1, %f2; @%p1 bra END; mov.u32 %r1, 0; END:",
        "which way a branch goes; both ways are legal",
    ),
    "predicate": (
        AGAIN + "setp.eq.f32 %p1, %f1, %f2; @%p1 mov.u32 %r1, 0;",
        AGAIN + "neg.f32 %f2, %f2; setp.eq.f32 %p1, %f1, %f2; @%p1 mov.u32 %r1, 0;",
        "whether mov.u32 executes",
    ),
    "address": (
        "mov.b32 %r1, %f1; and.b32 %r1, %r1, 4; add.u32 %r2, %r9, %r1; mov.u32 %r3, 0; st.shared.u32 [%r10], %r3;"
        "st.shared.u32 [%r10+4], %r3; bar.sync 0; ld.shared.u32 %r3, [%r2];",
        "mov.b32 %r1, %f1; shr.u32 %r1, %r1, 31; shl.b32 %r1, %r1, 2; add.u32 %r2, %r9, %r1; mov.u32 %r3, 0;"
        "st.shared.u32 [%r10], %r3; bar.sync 0; ld.shared.u32 %r3, [%r2];",
        "the address of ld.shared.u32",
    ),
    "vote": (
        AGAIN + "setp.ne.f32 %p1, %f1, %f2; vote.sync.ballot.b32 %r1, %p1, -1;",
        "setp.gt.f32 %p1, %f1, 0f00000000; vote.sync.ballot.b32 %r1, %p1, -1;",
        "what vote.sync.ballot.b32 does",
    ),
    "shuffle's lane": (
        "mov.b32 %r1, %f1; and.b32 %r1, %r1, 1; shfl.sync.idx.b32 %r2, %r0, %r1, 31, -1;",
        "mov.b32 %r1, %f1; and.b32 %r1, %r1, 0; shfl.sync.idx.b32 %r2, %r0, %r1, 31, -1;",
        "what shfl.sync.idx.b32 does",
    ),
    "barrier's vote": (
        AGAIN + "setp.le.f32 %p1, %f1, %f2; bar.red.and.pred %p2, 0, %p1;",
        "setp.gt.f32 %p1, %f1, 0f00000000; bar.red.and.pred %p2, 0, %p1;",
        "what bar.red.and.pred does",
    ),
}


@pytest.mark.parametrize(("wrong", "right", "says"), DECIDES.values(), ids=DECIDES.keys())
def test_an_open_value_that_decides_is_named_and_a_decided_one_is_silent(wrong: str, right: str, says: str) -> None:
    (finding,) = launch(wrong)[0].findings
    assert finding.kind is FindingKind.APPROXIMATE
    assert finding.message.startswith("an approximate value decides ")
    assert says in finding.message
    assert not launch(right)[0].findings


@pytest.mark.parametrize(
    "body",
    [
        "atom.shared.add.u32 %r1, [%r10], %r2;",
        "red.shared.add.f32 [%r10], %f1;",
        "st.shared.f32 [%r10], %f1; red.shared.add.f32 [%r10], %f0;",
    ],
)
def test_an_atomic_on_an_open_value_is_refused(body: str) -> None:
    with pytest.raises(NotModelled, match="an atomic"):
        launch("mov.b32 %r2, %f1; st.shared.f32 [%r10], %f0;" + body)


PLACE = "and.b32 %r2, %r0, 31; mad.lo.u32 %r2, %r2, 16, %r9; shr.u32 %r3, %r0, 5; mad.lo.u32 %r2, %r3, 1024, %r2;"
MATRIX_MOVES = {
    "stmatrix and ldmatrix": PLACE + "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r1}; bar.sync 0;"
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r2];",
    "both transposed": PLACE + "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r2], {%r1}; bar.sync 0;"
    "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r4}, [%r2];",
    "movmatrix, twice": "movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r1;"
    "movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r4;",
}


@pytest.mark.parametrize("moves", MATRIX_MOVES.values(), ids=MATRIX_MOVES.keys())
def test_matrix_moves_carry_brackets_of_bf16_pairs(moves: str) -> None:
    pairs = "cvt.rn.bf16x2.f32 %r1, %f0, %f1; mul.rn.bf16x2 %r1, %r1, %r1; ex2.approx.ftz.bf16x2 %r1, %r1;"
    plain = launch(pairs + "st.global.u32 [%d5], %r1;")[1].bracket()
    report, out = launch(pairs + moves + "st.global.u32 [%d5], %r4;")
    assert not report.findings
    np.testing.assert_array_equal(codes(out.bracket()[0]), codes(plain[0]))
    np.testing.assert_array_equal(codes(out.bracket()[1]), codes(plain[1]))
    assert (codes(plain[0]) != codes(plain[1])).any()


def test_a_product_with_an_open_operand_is_open_and_others_are_not() -> None:
    product = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, %f7}, {%r1, %r1, %r1, %r1},"
    product += "{%r1, %r1}, {%f8, %f8, %f8, %f8}; st.global.f32 [%d5], %f4;"
    start = "mov.f32 %f8, 0f00000000; cvt.rn.bf16x2.f32 %r1, %f0, %f0;"
    second_warp = "setp.gt.u32 %p1, %r0, 40; @%p1 ex2.approx.ftz.bf16x2 %r1, %r1;"
    opened = launch(start + second_warp + product)[1].bracket()
    assert list(codes(opened[0]) != codes(opened[1])) == [False] * 32 + [True] * 32
    decided = launch(start + product)[1].bracket()
    np.testing.assert_array_equal(codes(decided[0]), codes(decided[1]))


def test_a_kernel_without_approximate_functions_keeps_no_tables() -> None:
    device = Device()
    _, out = launch("mov.f32 %f1, %f0; st.global.f32 [%d5], %f1;", device)
    allocation = device.memory.find(out.address)
    assert allocation is not None
    assert allocation.brackets is None
    low, high = out.bracket()
    np.testing.assert_array_equal(low, high)


def test_an_upload_over_a_bracket_decides_and_odd_sizes_have_none() -> None:
    device = Device()
    _, out = launch("st.global.f32 [%d5], %f1;", device)
    allocation = device.memory.find(out.address)
    assert allocation is not None
    allocation.fill(0, X.tobytes())
    assert_bracket(out, X, X)
    with pytest.raises(Refusal, match="elements of 16 bytes"):
        device.allocate((2,), np.complex128).bracket()


SILU = """
#include <cuda_bf16.h>
extern "C" __global__ void silu(const float* x, __nv_bfloat16* y, const unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = __float2bfloat16(x[i] / (1.0f + EXP(-x[i])));
}
"""


@pytest.mark.parametrize("exponential", ["__expf", "expf"])
def test_silu_in_bf16_is_decided_but_for_few_and_holds_the_true_value(exponential: str) -> None:
    count = 100_000
    x = (np.random.default_rng(5).normal(size=count) * 6).astype(np.float32)
    device = Device()
    y = device.allocate((count,), ml_dtypes.bfloat16)
    module = compile_source(SILU.replace("EXP", exponential), name="silu.cu")
    report = device.load(module)["silu"].launch(
        grid=(-(-count // 256), 1, 1), block=(256, 1, 1), args=(device.upload(x), y, np.uint32(count))
    )
    assert not report.findings
    low, high = (end.astype(np.float64) for end in y.bracket())
    values = x.astype(np.float64)
    exact = (values / (1 + np.exp(-values))).astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
    assert ((low <= exact) & (exact <= high)).all()
    assert ((low <= y.download().astype(np.float64)) & (y.download().astype(np.float64) <= high)).all()
    first, last = (end.view(np.uint16).astype(np.int64) for end in y.bracket())
    assert set(np.abs(last - first)) == {0, 1}, "at most two neighbours"
    undecided = int((first != last).sum())
    assert report.counters.global_bytes_undecided == 2 * undecided
    print(f"SiLU with {exponential}: {undecided} of {count} outputs undecided, {undecided / count:.2e}")  # noqa: T201
