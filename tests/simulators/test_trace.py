"""The trace of one element names exactly the inputs that it was made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.kernels.compile import compile_source
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.arguments import Argument
from tileproof.simulators.ptx.device import Device, Function
from tileproof.simulators.ptx.findings import Index3
from tileproof.simulators.ptx.machine.memory import Bits
from tileproof.simulators.ptx.matrix_form import RegisterMatrix
from tileproof.simulators.ptx.program import SINK, Kind
from tileproof.simulators.ptx.trace.look import Look
from tileproof.simulators.ptx.trace.slicing import RULES, Rule
from tileproof.simulators.ptx.trace.trace import Element, Trace

Array = NDArray[Any]
KERNELS = Path(__file__).parents[2] / "benchmarks" / "kernels"

TILED = r"""
// c [m, n] = a [m, k] b [k, n] by tiles of 8 x 8 in shared memory.
extern "C" __global__ void tiled(const float* a, const float* b, float* c, int n, int k) {
  __shared__ float left[8][8], right[8][9];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 8 + y, column = blockIdx.x * 8 + x;
  float sum = 0;
  for (int start = 0; start < k; start += 8) {
    left[y][x] = a[row * k + start + x];
    right[y][x] = b[(start + y) * n + column];
    __syncthreads();
    for (int i = 0; i < 8; ++i) sum += left[y][i] * right[i][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
"""
COPIED = TILED.replace("left[y][x] = a[row * k + start + x];", "copy(&left[y][x], &a[row * k + start + x]);").replace(
    "right[y][x] = b[(start + y) * n + column];\n",
    """copy(&right[y][x], &b[(start + y) * n + column]);
    asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
""",
)
COPIED = (
    r"""
__device__ void copy(float* to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
"""
    + COPIED
)
REDUCED = r"""
// y [row] = sum of x [row, 64], one warp a row.
extern "C" __global__ void reduced(const float* x, float* y) {
  const int row = threadIdx.x / 32, lane = threadIdx.x % 32;
  float sum = x[row * 64 + lane] + x[row * 64 + 32 + lane];
  for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (lane == 0) y[row] = sum;
}
"""
MATRIX = r"""
#include <cuda_fp16.h>
// c [16, 8] = a [16, 16] b [8, 16]^T in half precision, by ldmatrix and mma; two outputs in one register.
extern "C" __global__ void matrix(const __half* a, const __half* b, __half* c) {
  __shared__ __align__(16) __half left[16][24], right[8][24];
  const int lane = threadIdx.x;
  for (int i = 0; i < 8; ++i) left[i * 2 + lane / 16][lane % 16] = a[i * 32 + lane];
  for (int i = 0; i < 4; ++i) right[i * 2 + lane / 16][lane % 16] = b[i * 32 + lane];
  __syncwarp();
  unsigned x[4], y[2];
  float s[4] = {};
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"((unsigned)__cvta_generic_to_shared(&left[lane % 16][lane / 16 * 8])));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(y[0]), "=r"(y[1]) : "r"((unsigned)__cvta_generic_to_shared(&right[lane % 8][lane / 8 % 2 * 8])));
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};" : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  __half2* out = (__half2*)c;
  out[lane / 4 * 4 + lane % 4] = __floats2half2_rn(s[0], s[1]);
  out[(lane / 4 + 8) * 4 + lane % 4] = __floats2half2_rn(s[2], s[3]);
}
"""


def function(device: Device, source: str) -> Function:
    (found,) = device.load(compile_source(source, name="trace.cu")).values()
    return found


def inputs(trace: Trace) -> dict[int | None, set[int]]:
    """Flat indices by argument."""
    return {each.argument: set(each.elements.tolist()) for each in trace.inputs}


def row(m: int, columns: int) -> set[int]:
    return set(range(m * columns, (m + 1) * columns))


def column(n: int, rows: int, columns: int) -> set[int]:
    return set(range(n, rows * columns, columns))


def product(device: Device, shape: tuple[int, int, int]) -> tuple[tuple[Argument, ...], Index3]:
    m, n, k = shape
    numbers = np.random.default_rng(1)
    a, b = numbers.standard_normal((m, k), np.float32), numbers.standard_normal((k, n), np.float32)
    args = (device.upload(a), device.upload(b), device.allocate((m, n), np.float32), np.int32(n), np.int32(k))
    return args, (n // 8, m // 8, 1)


@pytest.mark.parametrize("source", [TILED, COPIED], ids=["loads and stores", "cp.async"])
@pytest.mark.parametrize("schedule", ["friendly", "adversarial"])
def test_an_element_of_a_product_comes_from_its_row_and_its_column(source: str, schedule: str) -> None:
    device = Device(schedule=schedule, engine="reference")
    args, grid = product(device, (16, 24, 16))
    trace = function(device, source).trace(Element(2, (11, 5)), grid=grid, block=(8, 8, 1), args=args)
    assert not trace.report.findings
    assert inputs(trace) == {0: row(11, 16), 1: column(5, 16, 24)}
    assert trace.steps[-1].opcode.startswith("st.global")
    assert trace.steps[-1].executions == 1
    assert "block (0, 1, 0) thread (5, 3, 0)" in trace.steps[-1].example
    assert not trace.unwritten


def test_a_reduction_by_shuffles_comes_from_all_lanes_of_its_warp() -> None:
    device = Device(engine="reference")
    x = device.upload(np.arange(192, dtype=np.float32).reshape(3, 64))
    y = device.allocate((3,), np.float32)
    trace = function(device, REDUCED).trace(Element(1, (1,)), grid=(1, 1, 1), block=(96, 1, 1), args=(x, y))
    assert inputs(trace) == {0: row(1, 64)}
    # A butterfly of 5 steps: the last shuffle of one lane, then of two, ... then of 16.
    assert sorted(s.executions for s in trace.steps if s.opcode.startswith("shfl")) == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("place", [(0, 0), (3, 5), (13, 4)])
def test_an_element_of_a_matrix_instruction_comes_from_its_row_and_its_column(place: tuple[int, int]) -> None:
    """Half precision: two elements in every register, and only one of them counts."""
    device = Device(engine="reference")
    args = matrices(device)
    trace = function(device, MATRIX).trace(Element(2, place), grid=(1, 1, 1), block=(32, 1, 1), args=args)
    assert inputs(trace) == {0: row(place[0], 16), 1: row(place[1], 16)}


def matrices(device: Device) -> tuple[Argument, ...]:
    numbers = np.random.default_rng(2)
    a, b = (numbers.standard_normal((rows, 16)).astype(np.float16) for rows in (16, 8))
    return device.upload(a), device.upload(b), device.allocate((16, 8), np.float16)


@pytest.mark.parametrize("kernel", ["e4m3_gemm_wgmma", "e4m3_gemm_tma"])
def test_an_element_of_wgmma_comes_from_rows_in_shared_memory(kernel: str) -> None:
    """Fed by `cp.async` or loads, and by tensor copies; B is held transposed."""
    device, depth = Device(engine="reference", order=False), 128
    codes = np.random.default_rng(3).integers(0, 0x70, (2, 128, depth), np.uint8)
    a, b = (device.upload(each) for each in codes)
    out = device.allocate((128, 128), np.float32)
    form: dict[str, Any] = {"shape": (depth, 128), "strides_bytes": (depth,), "box": (128, 128), "swizzle": 128}
    tensor = kernel.endswith("tma")
    given = tuple(device.tensor_map(each, **form) for each in (a, b)) if tensor else (a, b)
    trace = function(device, (KERNELS / f"{kernel}.cu").read_text()).trace(
        Element(2, (77, 30)),
        grid=(1, 1, 1),
        block=(256, 1, 1),
        args=(*given, out, np.int32(128), np.int32(depth)),
        shared_bytes=4 * 128 * 128 if tensor else 0,
    )
    found = {each.address: set(each.elements.tolist()) for each in trace.inputs}
    assert found == {a.address: row(77, depth), b.address: row(30, depth)}
    products = [step for step in trace.steps if step.opcode.startswith("wgmma")]
    assert sum(step.executions for step in products) == depth // 32


FRAGMENTS = r"""
// d = a b^T + c of one warpgroup, m64n8k16: a, c and d as the threads hold them, b as it lies in shared memory.
extern "C" __global__ void fragments(const uint4* a, const unsigned* b, const float4* c, float4* d, int adds) {
  __shared__ __align__(128) unsigned tile[64];
  const int t = threadIdx.x;
  if (t < 64) tile[t] = b[t];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  const uint4 x = a[t];
  float4 s = c[t];
  const unsigned long long address = __cvta_generic_to_shared(tile);
  const unsigned long long descriptor = (address & 0x3FFFF) >> 4 | 8ull << 16 | 16ull << 32;
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %9, 0; wgmma.fence.sync.aligned;"
               "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1, 0;"
               "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }"
               : "+f"(s.x), "+f"(s.y), "+f"(s.z), "+f"(s.w)
               : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "l"(descriptor), "r"(adds) : "memory");
  d[t] = s;
}
"""


@pytest.mark.parametrize("adds", [0, 1])
def test_wgmma_takes_a_from_registers_and_c_only_where_it_is_added(adds: int) -> None:
    """Thread 37 is in group 1 and place 1 of warp 1: its second sum is of row 17 and column 3."""
    device, numbers = Device(engine="reference"), np.random.default_rng(4)
    a, b = (device.upload(numbers.standard_normal(size).astype(np.float16)) for size in (128 * 8, 128))
    c, d = device.upload(np.ones(512, np.float32)), device.allocate((512,), np.float32)
    args = (a, b, c, d, np.int32(adds))
    trace = function(device, FRAGMENTS).trace(Element(3, (37 * 4 + 1,)), grid=(1, 1, 1), block=(128, 1, 1), args=args)
    assert not trace.report.findings
    row_17 = {8 * thread + half for thread in range(36, 40) for half in (0, 1, 4, 5)}
    column_3 = {*range(24, 32), *range(64 + 24, 64 + 32)}
    assert inputs(trace) == {0: row_17, 1: column_3, **({2: {37 * 4 + 1}} if adds else {})}


CLUSTER = r"""
// Blocks of a cluster of two: each thread gives its word to the other block, and adds what it reads there.
extern "C" __global__ void __cluster_dims__(2, 1, 1) peers(const int* x, int* y) {
  __shared__ int given[32], own[32];
  __shared__ __align__(8) unsigned long long told;
  const int t = threadIdx.x, i = blockIdx.x * 32 + t;
  unsigned bar = (unsigned)__cvta_generic_to_shared(&told), to = (unsigned)__cvta_generic_to_shared(&given[t]);
  unsigned from = (unsigned)__cvta_generic_to_shared(&own[t ^ 1]), done = 0, value;
  own[t] = x[i] * 2;
  if (t == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;"
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" :: "r"(bar) : "memory");
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  asm volatile("{ .reg .u32 r, a, b; mov.u32 r, %%cluster_ctarank; xor.b32 r, r, 1;"
               "mapa.shared::cluster.u32 a, %1, r; mapa.shared::cluster.u32 b, %2, r;"
               "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [a], %3, [b];"
               "mapa.shared::cluster.u32 a, %4, r; ld.shared::cluster.u32 %0, [a]; }"
               : "=r"(value) : "r"(to), "r"(bar), "r"(x[i]), "r"(from) : "memory");
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;"
                 "selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar) : "memory");
  y[i] = given[t] + value;
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
"""


@pytest.mark.parametrize("schedule", ["friendly", "adversarial"])
def test_what_a_peer_of_the_cluster_gave_is_followed_to_its_thread(schedule: str) -> None:
    device = Device(schedule=schedule, engine="reference")
    x, y = device.upload(np.arange(128, dtype=np.int32)), device.allocate((128,), np.int32)
    trace = function(device, CLUSTER).trace(Element(1, (64 + 7,)), grid=(4, 1, 1), block=(32, 1, 1), args=(x, y))
    assert not trace.report.findings
    assert inputs(trace) == {0: {96 + 7, 96 + 6}}


@pytest.mark.parametrize("place", [5, 9999])
def test_an_element_of_any_wave_is_traced(place: int) -> None:
    device = Device(engine="reference")
    x, y = device.upload(np.arange(10240, dtype=np.float32)), device.allocate((10240,), np.float32)
    source = """extern "C" __global__ void scale(float* y, const float* x) {
        const int i = blockIdx.x * 128 + threadIdx.x;
        y[i] = 2 * x[10239 - i];
    }"""
    trace = function(device, source).trace(Element(0, (place,)), grid=(80, 1, 1), block=(128, 1, 1), args=(y, x))
    assert inputs(trace) == {1: {10239 - place}}
    assert f"block ({place // 128}, 0, 0): threads {place % 128}" in trace.steps[-1].lanes


Change = Callable[[Look], Look]


def forgetting(kind: Kind, change: Change) -> Mapping[Kind, Rule]:
    """Rules of which one looks at a changed instruction."""
    return {**RULES, kind: lambda look: RULES[kind](change(look))}


def without_b(look: Look) -> Look:
    product = look.step.product
    assert product is not None
    assert isinstance(product.b, RegisterMatrix)
    nowhere = replace(product.b, slots=(SINK,) * len(product.b.slots))
    return replace(look, step=replace(look.step, product=replace(product, b=nowhere)))


def first_source_only(look: Look) -> Look:
    step, operation = look.step, look.step.operation
    assert operation is not None

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        return operation.undefined(values, [masks[0], *(mask * 0 for mask in masks[1:])])

    return replace(look, step=replace(step, operation=replace(operation, undefined=undefined)))


def own_lane(look: Look) -> Look:
    """A shuffle reads its own lane."""
    values = look.values.copy()
    values[look.step.sources[1]] = 0
    return replace(look, values=values)


@pytest.mark.parametrize(
    ("source", "kind", "change"),
    [
        (MATRIX, Kind.MMA, without_b),
        (TILED, Kind.ARITHMETIC, first_source_only),
        (REDUCED, Kind.SHUFFLE, own_lane),
    ],
)
def test_a_rule_that_forgets_an_operand_finds_other_inputs(source: str, kind: Kind, change: Change) -> None:
    device = Device(engine="reference")
    if source is MATRIX:
        args, grid, block, element = matrices(device), (1, 1, 1), (32, 1, 1), Element(2, (3, 5))
    elif source is TILED:
        (args, grid), block, element = product(device, (8, 8, 8)), (8, 8, 1), Element(2, (3, 5))
    else:
        args = (device.upload(np.ones((1, 64), np.float32)), device.allocate((1,), np.float32))
        grid, block, element = (1, 1, 1), (32, 1, 1), Element(1, (0,))
    fn = function(device, source)
    options: dict[str, Any] = {"grid": grid, "block": block, "args": args}
    right, wrong = (inputs(fn.trace(element, **options, rules=rules)) for rules in (RULES, forgetting(kind, change)))
    assert right != wrong


def test_a_value_by_parameter_and_a_constant_are_named() -> None:
    device = Device(engine="reference")
    source = """extern "C" __global__ void scale(float* y, const float* x, float a) {
        y[threadIdx.x] = a * x[threadIdx.x] + 3.0f;
    }"""
    x, y = device.upload(np.ones(32, np.float32)), device.allocate((32,), np.float32)
    options: dict[str, Any] = {"grid": (1, 1, 1), "block": (32, 1, 1)}
    trace = function(device, source).trace(Element(0, (7,)), **options, args=(y, x, np.float32(2)))
    assert inputs(trace) == {1: {7}}
    assert trace.parameters == ("scale_param_2",)
    assert trace.constants == ("0x40400000",)
    opcodes = [step.opcode for step in trace.steps]
    assert opcodes == ["ld.param.f32", "ld.global.f32", "mul.rn.f32", "add.rn.f32", "st.global.f32"]


def test_an_element_that_nothing_wrote_is_its_own_input() -> None:
    device = Device(engine="reference")
    args, _ = product(device, (8, 16, 8))
    trace = function(device, TILED).trace(Element(2, (0, 9)), grid=(1, 1, 1), block=(8, 8, 1), args=args)
    assert inputs(trace) == {2: {9}}
    assert not trace.steps


def test_a_value_that_nothing_wrote_is_said() -> None:
    device = Device(engine="reference")
    source = """extern "C" __global__ void copy(int* y) {
        __shared__ int tile[32];
        if (threadIdx.x == 3) tile[3] = 1;
        y[threadIdx.x] = tile[threadIdx.x];
    }"""
    for place, unwritten in ((3, False), (4, True)):
        args = (device.allocate((32,), np.int32),)
        trace = function(device, source).trace(Element(0, (place,)), grid=(1, 1, 1), block=(32, 1, 1), args=args)
        assert trace.unwritten is unwritten
        assert not trace.inputs


@pytest.mark.parametrize(("element", "words"), [(Element(2, (8, 0)), "no element"), (Element(3, (0,)), "no buffer")])
def test_an_element_that_is_none_is_refused(element: Element, words: str) -> None:
    device = Device(engine="reference")
    args, grid = product(device, (8, 8, 8))
    with pytest.raises(Refusal, match=words):
        function(device, TILED).trace(element, grid=grid, block=(8, 8, 1), args=args)


def test_a_launch_that_is_too_large_for_a_trace_is_refused_with_the_remedy() -> None:
    device = Device(engine="reference")
    args, grid = product(device, (8, 8, 8))
    with pytest.raises(Refusal, match="fewer blocks"):
        function(device, TILED).trace(Element(2, (0, 0)), grid=grid, block=(8, 8, 1), args=args, limit=1000)
