"""Tensor copies where they are used: a two-stage pipeline that feeds wgmma, and what is said of each missing piece."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.kernels.compile import CompiledModule, compile_source
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind

M, N, K = 64, 64, 512

SOURCE = r"""
struct alignas(64) Map { unsigned char bytes[128]; };
constexpr unsigned kStages = 2, kTile = 64 * 128;

__device__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ void load(unsigned target, const Map& map, int k, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 ::"r"(target), "l"(&map), "r"(k), "r"(0), "r"(barrier) : "memory");
}

__device__ void fill(unsigned base, unsigned barrier, const Map& a, const Map& b, int k) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(2 * kTile) : "memory");
    load(base, a, k, barrier);
    load(base + kTile, b, k, barrier);
}

__device__ void wait(unsigned barrier, unsigned parity) {
    unsigned ready = 0;
    while (!ready)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                     : "=r"(ready) : "r"(barrier), "r"(parity) : "memory");
}

// K-major tiles of 128-byte rows, swizzled by 128 bytes: groups of 8 rows are 1,024 bytes apart.
__device__ unsigned long long descriptor(unsigned address) {
    return ((address & 0x3FFFFull) >> 4) | 1ull << 16 | (1024ull >> 4) << 32 | 1ull << 62;
}

__device__ void multiply(float* d, unsigned base) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (unsigned step = 0; step < 4; ++step)
        asm volatile("wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 "
                     "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, 1, 1;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                     : "l"(descriptor(base + 32 * step)), "l"(descriptor(base + kTile + 32 * step)));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

extern "C" __global__ void gemm(const __grid_constant__ Map a, const __grid_constant__ Map b, float* d, int tiles) {
    __shared__ alignas(1024) unsigned char memory[kStages * 2 * kTile];
    __shared__ alignas(8) unsigned long long full[kStages];
    const unsigned base = shared_address(memory), barriers = shared_address(full);
    if (threadIdx.x == 0)
        for (unsigned stage = 0; stage < kStages; ++stage)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * stage) : "memory");
    __syncthreads();
    if (threadIdx.x == 0)
        for (unsigned stage = 0; stage < kStages; ++stage)
            fill(base + stage * 2 * kTile, barriers + 8 * stage, a, b, 128 * stage);
    float sums[8] = {};
    for (int tile = 0; tile < tiles; ++tile) {
        const unsigned stage = tile % kStages, parity = tile / kStages & 1;
        wait(barriers + 8 * stage, parity);
        multiply(sums, base + stage * 2 * kTile);
        __syncthreads();  // all warps have read the slot
        if (threadIdx.x == 0 && tile + kStages < tiles)
            fill(base + stage * 2 * kTile, barriers + 8 * stage, a, b, 128 * (tile + kStages));
    }
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int j = 0; j < 8; ++j) d[(16 * warp + g + 8 * (j / 2 % 2)) * 16 + 8 * (j / 4) + 2 * t + j % 2] = sums[j];
}
"""


@dataclass(frozen=True)
class Outcome:
    kinds: list[FindingKind]
    messages: str
    d: NDArray[np.float32]


@cache
def compiled(source: str) -> CompiledModule:
    return compile_source(source, name="pipeline.cu", arch="sm_90a")


def operands() -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, (rows, K)).astype(np.float32) for rows in (M, N))
    return a, b


def run(source: str = SOURCE, schedule: str = "friendly", seed: int = 0, swizzle: int = 128) -> Outcome:
    device = Device(schedule=schedule, seed=seed)
    a, b = (device.upload(x.astype(ml_dtypes.float8_e4m3fn)) for x in operands())
    maps = [device.tensor_map(x, shape=(K, 64), strides_bytes=(K,), box=(128, 64), swizzle=swizzle) for x in (a, b)]
    d = device.allocate((M, 16), np.dtype(np.float32))
    kernel = device.load(compiled(source))["gemm"]
    report = kernel.launch(grid=(1, 1, 1), block=(128, 1, 1), args=(*maps, d, np.int32(K // 128)))
    messages = " | ".join(finding.message for finding in report.findings)
    return Outcome([finding.kind for finding in report.findings], messages, d.download())


@pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *[("adversarial", seed) for seed in range(3)]])
def test_a_pipeline_of_tensor_copies_and_wgmma_gives_the_product(schedule: str, seed: int) -> None:
    outcome = run(schedule=schedule, seed=seed)
    assert outcome.messages == ""
    a, b = operands()
    np.testing.assert_array_equal(outcome.d, a @ b[:16].T)


def test_a_map_of_another_swizzle_gives_another_product() -> None:
    outcome = run(swizzle=0)
    a, b = operands()
    assert outcome.kinds == []
    assert not np.array_equal(outcome.d, a @ b[:16].T)


def changed(old: str, new: str) -> str:
    assert SOURCE.count(old) == 1
    return SOURCE.replace(old, new)


@pytest.mark.parametrize(
    ("source", "kind", "words"),
    [
        (changed('"r"(2 * kTile) : "memory"', '"r"(kTile) : "memory"'), FindingKind.ASYNC, "in its place"),
        (changed("load(base + kTile, b, k, barrier);", ""), FindingKind.DEADLOCK, "bytes"),
        (changed("tile / kStages & 1", "tile / kStages & 1 ^ 1"), FindingKind.DEADLOCK, "phases"),
        (changed("memory), barriers", "memory) + 64, barriers"), FindingKind.MISALIGNED, "multiple of 128"),
        (
            changed("load(base, a, k, barrier);", "load(base, a, k + 8, barrier);"),
            FindingKind.MISALIGNED,
            "multiple of 16",
        ),
    ],
    ids=["half of the bytes expected", "one copy missing", "parity one ahead", "tile at 64", "column by 8"],
)
def test_what_is_wrong_in_a_pipeline_is_told(source: str, kind: FindingKind, words: str) -> None:
    outcome = run(source, "adversarial", 1)
    assert kind in outcome.kinds
    assert words in outcome.messages
