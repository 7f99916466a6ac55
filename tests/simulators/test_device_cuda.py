"""CUDA kernels of every common shape, compiled by NVRTC, on the CPU device: bit-exact and silent on all schedules."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.kernels.compile import compile_source
from tileproof.simulators.ptx.device import Device

Array = NDArray[Any]
Extent = tuple[int, int, int]

SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(4)]]
on_all_schedules = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)

SOURCE = r"""
constexpr int kTile = 16;

extern "C" __global__ void sgemm(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float left[kTile][kTile], right[kTile][kTile + 1];
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0.0f;
  for (int start = 0; start < k; start += kTile) {
    left[threadIdx.y][threadIdx.x] = row < m && start + threadIdx.x < k ? a[row * k + start + threadIdx.x] : 0.0f;
    const bool inside = column < n && start + threadIdx.y < k;
    right[threadIdx.y][threadIdx.x] = inside ? b[(start + threadIdx.y) * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum = fmaf(left[threadIdx.y][i], right[i][threadIdx.x], sum);
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" __global__ void saxpy(float a, const float* x, float* y, long long n) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaf(a, x[i], y[i]);
}

extern "C" __global__ void block_sum(const int* x, int* sums, int n) {
  extern __shared__ int part[];
  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  part[t] = i < n ? x[i] : 0;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = part[0];
}

extern "C" __global__ void warp_scan(int* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  const bool inside = i < n;
  int value = inside ? x[i] : 0;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int below = __shfl_up_sync(0xffffffffu, value, distance);
    if (lane >= distance) value += below;
  }
  if (inside) x[i] = value;
}

extern "C" __global__ void histogram(const unsigned char* x, unsigned* bins, int n) {
  __shared__ unsigned local_bins[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local_bins[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&local_bins[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local_bins[i]);
}

extern "C" __global__ void transpose(const unsigned short* x, unsigned short* y, int rows, int columns) {
  __shared__ unsigned short tile[32][33];
  int column = blockIdx.x * 32 + threadIdx.x;
  for (int r = threadIdx.y; r < 32; r += blockDim.y) {
    const int row = blockIdx.y * 32 + r;
    if (row < rows && column < columns) tile[r][threadIdx.x] = x[row * columns + column];
  }
  __syncthreads();
  column = blockIdx.y * 32 + threadIdx.x;
  for (int r = threadIdx.y; r < 32; r += blockDim.y) {
    const int row = blockIdx.x * 32 + r;
    if (row < columns && column < rows) y[row * rows + column] = tile[threadIdx.x][r];
  }
}

extern "C" __global__ void last_block(const int* x, int* partial, unsigned* ticket, int* total, int n) {
  __shared__ bool last;
  int sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  sum = __reduce_add_sync(0xffffffffu, sum);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  sum = 0;
  for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += partial[i];
  sum = __reduce_add_sync(0xffffffffu, sum);
  if (threadIdx.x == 0) *total = sum;
}

extern "C" __global__ void collatz(const unsigned* x, unsigned* steps, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned value = x[i], count = 0;
  while (value != 1) { value = value % 2 ? 3 * value + 1 : value / 2; ++count; }
  steps[i] = count;
}

extern "C" __global__ void nested(const int* x, int* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int r = 0;
  for (int a = 0; a < x[i] % 5; ++a) {
    if ((x[i] + a) % 3 == 0) { for (int b = 0; b <= a; ++b) { if (b == 2) break; r += b * 7 + 1; } }
    else if (a == 3) { r -= 100; continue; }
    else r ^= x[i];
    r *= 3;
  }
  y[i] = r;
}

__constant__ int weights[5] = {3, -1, 4, 1, -5};
__device__ unsigned long long visits = 40;

extern "C" __global__ void weigh(const int* x, long long* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = (long long)x[i] * weights[i % 5];
  atomicAdd(&visits, 1ull);
}

extern "C" __global__ void read_visits(unsigned long long* y) { *y = visits; }

extern "C" __global__ void sort_rows(int* x, int rows, int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  int mine[12];
  for (int i = 0; i < columns; ++i) mine[i] = x[row * columns + i];
  for (int i = 1; i < columns; ++i) {
    const int value = mine[i];
    int j = i;
    for (; j > 0 && mine[j - 1] > value; --j) mine[j] = mine[j - 1];
    mine[j] = value;
  }
  for (int i = 0; i < columns; ++i) x[row * columns + i] = mine[i];
}

extern "C" __global__ void where(int* y) {
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  y[block * blockDim.x * blockDim.y * blockDim.z + thread] =
      threadIdx.x + 100 * threadIdx.y + 10000 * threadIdx.z +
      1000000 * blockIdx.x + 20000000 * blockIdx.y + 400000000 * blockIdx.z;
}

__device__ int pick(const int* p, int i) { return p[i]; }
extern "C" __global__ void generic(const int* x, int* y, int n) {
  __shared__ int s[64];
  int l[4];
  const int t = threadIdx.x;
  s[t] = 10 * t;
  for (int i = 0; i < 4; ++i) l[i] = 1000 * i + t;
  __syncthreads();
  const int* p = t % 4 == 0 ? s : t % 4 == 1 ? l : t % 4 == 2 ? weights : x;
  y[t] = pick(p, (t * 7) % 4);
}

struct Shape { int size[6]; unsigned char flag; };
extern "C" __global__ void by_value(Shape shape, short scale, double* y) {
  if (threadIdx.x < 6) y[threadIdx.x] = shape.size[threadIdx.x] * (double)scale + shape.flag;
}

extern "C" __global__ void hand_over(const int* x, int* y, int n) {
  __shared__ volatile int ready;
  if (threadIdx.x == 0) ready = 0;
  __syncthreads();
  if (threadIdx.x == 0) { *(volatile int*)y = x[0] + n; ready = 1; }
  if (threadIdx.x == 32) { while (ready == 0) {} y[1] = 5; }
}

extern "C" __global__ void votes(const int* x, int* y) {
  const int t = threadIdx.x;
  const int any = __syncthreads_or(x[t] == 77), all = __syncthreads_and(x[t] < 100);
  const int count = __syncthreads_count(x[t] % 3 == 0);
  y[t] = any + 10 * all + 100 * count;
}

extern "C" __global__ void aggregate(const int* x, int* out, unsigned* count, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (x[i] % 3) {
    const unsigned active = __activemask();
    const int lane = threadIdx.x % 32, leader = __ffs(active) - 1;
    unsigned base = 0;
    if (lane == leader) base = atomicAdd(count, __popc(active));
    base = __shfl_sync(active, base, leader);
    out[base + __popc(active & ((1u << lane) - 1))] = x[i];
  }
}

extern "C" __global__ void groups(const int* x, unsigned* peers, int* sums) {
  const int t = threadIdx.x;
  const unsigned mine = __match_any_sync(0xffffffffu, x[t]);
  peers[t] = mine;
  sums[t] = __reduce_add_sync(mine, t);
}
"""


def run(
    device: Device, name: str, grid: Extent, block: Extent, args: Sequence[Array | np.generic], shared_bytes: int = 0
) -> list[Array]:
    """Launch a kernel of SOURCE, silently; the arrays among the arguments after it."""
    kernel = device.load(compile_source(SOURCE, name="kernels.cu"))[name]
    placed = [device.upload(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    report = kernel.launch(grid=grid, block=block, args=placed, shared_bytes=shared_bytes)
    assert report.findings == []
    return [arg.download() for arg in placed if not isinstance(arg, np.generic)]


def integers(count: int, low: int, high: int, dtype: Any = np.int32) -> Array:
    return np.random.default_rng(count).integers(low, high, count).astype(dtype)


@on_all_schedules
def test_tiled_sgemm_with_ragged_edges(schedule: str, seed: int) -> None:
    m, n, k = 19, 35, 21
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    args = (a, b, np.zeros((m, n), np.float32), np.int32(m), np.int32(n), np.int32(k))
    _, _, c = run(Device(schedule=schedule, seed=seed), "sgemm", (3, 2, 1), (16, 16, 1), args)
    expected = np.zeros((m, n), np.float32)
    for i in range(k):  # float64 holds the product exactly, and its sum with a float32 to well below half an ulp
        expected = (a[:, i : i + 1].astype(np.float64) * b[i].astype(np.float64) + expected).astype(np.float32)
    np.testing.assert_array_equal(c.view(np.uint32), expected.view(np.uint32))


@on_all_schedules
def test_saxpy_whose_last_block_is_ragged(schedule: str, seed: int) -> None:
    x, y = np.arange(1000, dtype=np.float32), np.arange(1000, dtype=np.float32)[::-1]
    args = (np.float32(0.5), x, y, np.int64(1000))
    _, result = run(Device(schedule=schedule, seed=seed), "saxpy", (11, 1, 1), (96, 1, 1), args)
    np.testing.assert_array_equal(result, x * np.float32(0.5) + y)


@on_all_schedules
def test_block_reduction_in_dynamic_shared_memory(schedule: str, seed: int) -> None:
    x = integers(500, -1000, 1000)
    args = (x, np.zeros(4, np.int32), np.int32(500))
    _, sums = run(Device(schedule=schedule, seed=seed), "block_sum", (4, 1, 1), (128, 1, 1), args, shared_bytes=512)
    assert sums.tolist() == [int(x[start : start + 128].sum()) for start in range(0, 500, 128)]


@on_all_schedules
def test_warp_scan_by_shuffles(schedule: str, seed: int) -> None:
    x = integers(150, -50, 50)
    (result,) = run(Device(schedule=schedule, seed=seed), "warp_scan", (3, 1, 1), (64, 1, 1), (x, np.int32(150)))
    expected = np.concatenate([np.cumsum(x[start : start + 32]) for start in range(0, 150, 32)])
    np.testing.assert_array_equal(result, expected)


@on_all_schedules
def test_histogram_with_shared_atomics(schedule: str, seed: int) -> None:
    x = integers(3000, 0, 256, np.uint8) // np.uint8(3)
    args = (x, np.zeros(256, np.uint32), np.int32(3000))
    _, bins = run(Device(schedule=schedule, seed=seed), "histogram", (3, 1, 1), (160, 1, 1), args)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=256))


@on_all_schedules
def test_padded_transposition_of_halves(schedule: str, seed: int) -> None:
    x = integers(45 * 70, 0, 65536, np.uint16).reshape(45, 70)
    args = (x, np.zeros((70, 45), np.uint16), np.int32(45), np.int32(70))
    _, y = run(Device(schedule=schedule, seed=seed), "transpose", (3, 2, 1), (32, 8, 1), args)
    np.testing.assert_array_equal(y, x.T)


@on_all_schedules
def test_last_block_adds_up_what_all_blocks_left(schedule: str, seed: int) -> None:
    x = integers(700, -9, 9)
    args = (x, np.zeros(5, np.int32), np.zeros(1, np.uint32), np.zeros(1, np.int32), np.int32(700))
    _, _, ticket, total = run(Device(schedule=schedule, seed=seed), "last_block", (5, 1, 1), (32, 1, 1), args)
    assert total[0] == x.sum()
    assert ticket[0] == 0, "the ticket counter wraps around to zero for the next launch"


def collatz(value: int) -> int:
    steps = 0
    while value != 1:
        value = 3 * value + 1 if value % 2 else value // 2
        steps += 1
    return steps


@on_all_schedules
def test_loops_with_divergent_trip_counts_and_early_exits(schedule: str, seed: int) -> None:
    x = np.arange(1, 71, dtype=np.uint32)
    args = (x, np.zeros(70, np.uint32), np.int32(70))
    _, steps = run(Device(schedule=schedule, seed=seed), "collatz", (2, 1, 1), (48, 1, 1), args)
    assert steps.tolist() == [collatz(int(value)) for value in x]


def nested(x: int) -> int:
    """The kernel `nested` in Python integers, for x >= 0."""
    r = 0
    for a in range(x % 5):
        if (x + a) % 3 == 0:
            for b in range(a + 1):
                if b == 2:
                    break
                r += b * 7 + 1
        elif a == 3:
            r -= 100
            continue
        else:
            r ^= x
        r *= 3
    return r


@on_all_schedules
def test_nested_divergence_with_break_and_continue(schedule: str, seed: int) -> None:
    x = integers(100, 0, 10_000)
    args = (x, np.zeros(100, np.int32), np.int32(100))
    _, y = run(Device(schedule=schedule, seed=seed), "nested", (2, 1, 1), (64, 1, 1), args)
    assert y.tolist() == [nested(int(value)) for value in x]


@on_all_schedules
def test_constant_memory_and_a_module_variable_that_outlives_launches(schedule: str, seed: int) -> None:
    device = Device(schedule=schedule, seed=seed)
    functions = device.load(compile_source(SOURCE, name="kernels.cu"))
    x = integers(90, -(2**31), 2**31 - 1)
    y, visits = device.allocate((90,), np.int64), device.allocate((1,), np.uint64)
    for _ in range(2):
        report = functions["weigh"].launch(grid=(3, 1, 1), block=(32, 1, 1), args=(device.upload(x), y, np.int32(90)))
        assert report.findings == []
    assert functions["read_visits"].launch(grid=(1, 1, 1), block=(1, 1, 1), args=(visits,)).findings == []
    np.testing.assert_array_equal(y.download(), x.astype(np.int64) * np.resize([3, -1, 4, 1, -5], 90))
    assert visits.download()[0] == 40 + 2 * 90


@on_all_schedules
def test_local_arrays_with_dynamic_indices(schedule: str, seed: int) -> None:
    x = integers(40 * 12, -100, 100).reshape(40, 12)
    args = (x, np.int32(40), np.int32(12))
    (result,) = run(Device(schedule=schedule, seed=seed), "sort_rows", (2, 1, 1), (24, 1, 1), args)
    np.testing.assert_array_equal(result, np.sort(x, axis=1))


@on_all_schedules
@pytest.mark.parametrize("block", [(5, 3, 2), (32, 2, 1), (1, 1, 33), (7, 1, 1)])
def test_grids_and_blocks_of_three_dimensions(schedule: str, seed: int, block: Extent) -> None:
    grid = (3, 2, 2)
    threads, blocks = block[0] * block[1] * block[2], grid[0] * grid[1] * grid[2]
    (y,) = run(Device(schedule=schedule, seed=seed), "where", grid, block, (np.zeros(blocks * threads, np.int32),))
    bz, by, bx, z, yy, x = np.indices((*grid[::-1], *block[::-1]))
    expected = x + 100 * yy + 10000 * z + 1000000 * bx + 20000000 * by + 400000000 * bz
    np.testing.assert_array_equal(y, expected.reshape(-1))


@on_all_schedules
def test_generic_addresses_of_four_windows_in_one_instruction(schedule: str, seed: int) -> None:
    x = np.array([11, 22, 33, 44], np.int32)
    args = (x, np.zeros(64, np.int32), np.int32(64))
    _, y = run(Device(schedule=schedule, seed=seed), "generic", (1, 1, 1), (64, 1, 1), args)
    t = np.arange(64)
    i = t * 7 % 4
    choices = (10 * i, 1000 * i + t, np.array([3, -1, 4, 1])[i], x[i])
    np.testing.assert_array_equal(y, np.choose(t % 4, choices))


@on_all_schedules
def test_a_structure_by_value(schedule: str, seed: int) -> None:
    shape = np.zeros((), np.dtype([("size", np.int32, 6), ("flag", np.uint8)], align=True))
    shape["size"], shape["flag"] = [1, -2, 3, -4, 5, 2**31 - 1], 9
    args = (shape[()], np.int16(-3), np.zeros(6))
    (y,) = run(Device(schedule=schedule, seed=seed), "by_value", (1, 1, 1), (32, 1, 1), args)
    np.testing.assert_array_equal(y, shape["size"] * -3.0 + 9)


@on_all_schedules
def test_a_spin_on_a_flag_that_another_warp_sets(schedule: str, seed: int) -> None:
    args = (np.array([30], np.int32), np.zeros(2, np.int32), np.int32(12))
    _, y = run(Device(schedule=schedule, seed=seed), "hand_over", (3, 1, 1), (64, 1, 1), args)
    assert y.tolist() == [42, 5]


@on_all_schedules
def test_barriers_that_vote(schedule: str, seed: int) -> None:
    x = integers(80, 0, 101)
    _, y = run(Device(schedule=schedule, seed=seed), "votes", (1, 1, 1), (80, 1, 1), (x, np.zeros(80, np.int32)))
    expected = int((x == 77).any()) + 10 * int((x < 100).all()) + 100 * int((x % 3 == 0).sum())
    assert set(y.tolist()) == {expected}


@on_all_schedules
def test_warp_aggregated_atomics_under_divergence(schedule: str, seed: int) -> None:
    x = integers(300, 0, 1000)
    args = (x, np.zeros(300, np.int32), np.zeros(1, np.uint32), np.int32(300))
    _, out, count = run(Device(schedule=schedule, seed=seed), "aggregate", (4, 1, 1), (96, 1, 1), args)
    kept = x[x % 3 != 0]
    assert count[0] == kept.size
    np.testing.assert_array_equal(np.sort(out[: kept.size]), np.sort(kept))


@on_all_schedules
def test_collectives_over_groups_of_a_warp(schedule: str, seed: int) -> None:
    x = integers(64, 0, 5)
    args = (x, np.zeros(64, np.uint32), np.zeros(64, np.int32))
    _, peers, sums = run(Device(schedule=schedule, seed=seed), "groups", (1, 1, 1), (64, 1, 1), args)
    for t in range(64):
        group = [s for s in range(t // 32 * 32, t // 32 * 32 + 32) if x[s] == x[t]]
        assert peers[t] == sum(1 << s % 32 for s in group)
        assert sums[t] == sum(group)
