"""A small e4m3 product by `ldmatrix` and `mma`, compiled from CUDA, against the oracle; and what breaks it."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.kernels.compile import compile_source
from tileproof.oracle.gemm import gemm
from tileproof.oracle.products.accumulation_order import AccumulationOrder, RaggedK
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind, Report

Array = NDArray[Any]

GEMM = r"""
constexpr int kRows = 64, kColumns = 32, kDepth = 64, kPitch = kDepth + 16;

// One block of four warps makes 64 x 32 outputs; a warp has 16 rows. K is a multiple of 64.
extern "C" __global__ void gemm(const unsigned char* a, const unsigned char* b, float* c, int n, int k) {
  __shared__ __align__(16) unsigned char left[kRows][kPitch], right[kColumns][kPitch];
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  a += (size_t)blockIdx.y * kRows * k;
  b += (size_t)blockIdx.x * kColumns * k;
  float sum[kColumns / 8][4] = {};
  for (int start = 0; start < k; start += kDepth) {
    for (int i = thread; i < kRows * kDepth / 16; i += 128)
      *(uint4*)&left[i / 4][i % 4 * 16] = *(const uint4*)&a[(size_t)(i / 4) * k + start + i % 4 * 16];
    const int row = thread / 4, byte = thread % 4 * 16;
    *(uint4*)&right[row][byte] = *(const uint4*)&b[(size_t)row * k + start + byte];
    __syncthreads();
    for (int step = 0; step < kDepth; step += 32) {
      unsigned x[4];
      const unsigned row = __cvta_generic_to_shared(&left[warp * 16 + lane % 16][step + lane / 16 * 16]);
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(row));
      for (int j = 0; j < kColumns / 8; ++j) {
        unsigned y[2];
        const unsigned column = __cvta_generic_to_shared(&right[j * 8 + lane % 8][step + lane / 8 % 2 * 16]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(y[0]), "=r"(y[1]) : "r"(column));
        asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]), "+f"(sum[j][3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
      }
    }
    __syncthreads();
  }
  const int g = lane / 4, t = lane % 4;
  for (int j = 0; j < kColumns / 8; ++j)
    for (int i = 0; i < 4; ++i)
      c[(size_t)(blockIdx.y * kRows + warp * 16 + g + i / 2 * 8) * n + blockIdx.x * kColumns + j * 8 + 2 * t + i % 2] =
          sum[j][i];
}
"""


ORDER = AccumulationOrder(
    instruction="mma.m16n8k32.f32.e4m3.e4m3", arch="sm_90a", assembler="13.0", ragged_k=RaggedK.ZERO_FILL
)


def multiply(source: str, device: Device, a: Array, b: Array) -> tuple[Array, Report]:
    """The product of a [m, k] and b [n, k], m a multiple of 64, n of 32, k of 64."""
    out = device.allocate((len(a), len(b)), np.float32)
    args = (device.upload(a), device.upload(b), out, np.int32(len(b)), np.int32(a.shape[1]))
    function = device.load(compile_source(source, name="gemm.cu"))["gemm"]
    report = function.launch(grid=(len(b) // 32, len(a) // 64, 1), block=(128, 1, 1), args=args)
    return out.download(), report


def finite(rows: int, depth: int, seed: int) -> Array:
    codes = np.random.default_rng(seed).integers(0, 256, (rows, depth), np.uint8)
    return np.where(codes & 0x7F == 0x7F, codes ^ 0x40, codes).astype(np.uint8)


@pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), ("adversarial", 1), ("adversarial", 2)])
def test_a_tiled_product_has_the_oracles_bits(schedule: str, seed: int) -> None:
    a, b = finite(128, 192, 1), finite(96, 192, 2)
    result, report = multiply(GEMM, Device(schedule=schedule, seed=seed), a, b)
    assert report.findings == []
    assert np.array_equal(result.view(np.uint32), gemm(ORDER, a, b).view(np.uint32))
    assert report.counters.shared_bytes_read > 0


BROKEN = {
    "the barrier after the copies is missing": ("__syncthreads();", "", FindingKind.RACE),
    "rows are not aligned": ("kPitch = kDepth + 16", "kPitch = kDepth + 8", FindingKind.MISALIGNED),
    "rows lie past the tile": ("warp * 16 + lane % 16]", "warp * 32 + 64 + lane % 16]", FindingKind.OUT_OF_BOUNDS),
    "half of a tile is not copied": ("i < kRows * kDepth / 16", "i < kRows * kDepth / 32", FindingKind.UNINITIALISED),
    "a lane leaves early": ("for (int step", "if (lane == 5 && start) return; for (int step", FindingKind.DIVERGENCE),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("schedule", ["friendly", "adversarial"])
def test_a_broken_tiled_product_is_found(name: str, schedule: str) -> None:
    right, wrong, kind = BROKEN[name]
    _, report = multiply(
        GEMM.replace(right, wrong, 1), Device(schedule=schedule), finite(64, 128, 1), finite(32, 128, 2)
    )
    assert kind in {finding.kind for finding in report.findings}
