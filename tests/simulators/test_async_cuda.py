"""CUDA kernels that use mbarriers and copies through libcu++, compiled by NVRTC, on the CPU device."""

from typing import Any

import numpy as np
import pytest
from async_kernels import on_few_schedules
from numpy.typing import NDArray

from tileproof.kernels.compile import CompiledModule, compile_source
from tileproof.simulators.ptx.device import Device

SOURCE = r"""
#include <cuda/barrier>
#include <cuda/ptx>
#include <cuda/pipeline>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace ptx = cuda::ptx;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

extern "C" __global__ void rounds(int* out) {
  __shared__ Barrier barrier;
  __shared__ int s[128];
  const int t = threadIdx.x;
  if (t == 0) init(&barrier, blockDim.x);
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    s[t] = 10 * i + t;
    barrier.arrive_and_wait();
    sum += s[127 - t];
    barrier.wait(barrier.arrive());
  }
  out[t] = sum;
}

extern "C" __global__ void bulk(const int* in, int* out) {
  __shared__ alignas(128) int s[256];
  __shared__ Barrier barrier;
  const int t = threadIdx.x;
  if (t == 0) { init(&barrier, blockDim.x); ptx::fence_proxy_async(ptx::space_shared); }
  __syncthreads();
  Barrier::arrival_token token;
  if (t == 0) {
    cuda::memcpy_async(s, in, cuda::aligned_size_t<16>(sizeof(s)), barrier);
    token = barrier.arrive();
  } else {
    token = barrier.arrive();
  }
  barrier.wait(std::move(token));
  s[t] += 1;
  s[t + 128] += 2;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (t == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out, s, sizeof(s));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}

extern "C" __global__ void pipeline(const int* in, int* out) {
  namespace cg = cooperative_groups;
  __shared__ alignas(16) int s[2][512];
  auto block = cg::this_thread_block();
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto pipe = cuda::make_pipeline(block, &state);
  const int t = threadIdx.x;
  int sum = 0;
  for (int i = 0, fetched = 0; i < 6; ++i) {
    for (; fetched < 6 && fetched < i + 2; ++fetched) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, s[fetched % 2], in + 512 * fetched, cuda::aligned_size_t<16>(2048), pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    for (int j = 0; j < 4; ++j) sum += s[i % 2][4 * ((t + 1) % 128) + j] * (i + 1);
    pipe.consumer_release();
  }
  out[t] = sum;
}

extern "C" __global__ void group_copy(const int* in, int* out) {
  namespace cg = cooperative_groups;
  __shared__ alignas(16) int s[512];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s, in, cuda::aligned_size_t<16>(sizeof(s)));
  cg::wait(block);
  out[threadIdx.x] = s[511 - threadIdx.x];
}
"""
INPUT = np.random.default_rng(0).integers(0, 1000, 3072, dtype=np.int32)
THREADS = np.arange(128)
# What each kernel leaves in its output.
EXPECTED: dict[str, NDArray[Any]] = {
    "rounds": 30 + 3 * (127 - THREADS),
    "bulk": INPUT[:256] + np.repeat([1, 2], 128),
    "pipeline": (INPUT.reshape(6, 128, 4).sum(axis=2) * np.arange(1, 7)[:, None]).sum(axis=0)[(THREADS + 1) % 128],
    "group_copy": INPUT[:512][::-1][:128],
}


@pytest.fixture(scope="module")
def module() -> CompiledModule:
    """The kernels; their headers take seconds to compile."""
    return compile_source(SOURCE, name="k.cu")


@on_few_schedules
@pytest.mark.parametrize("name", EXPECTED)
def test_kernels_of_the_standard_library_run(name: str, schedule: str, seed: int, module: CompiledModule) -> None:
    device = Device(schedule=schedule, seed=seed)
    out = device.upload(np.zeros(256, np.int32))
    args = (out,) if name == "rounds" else (device.upload(INPUT), out)
    report = device.load(module)[name].launch(grid=(1, 1, 1), block=(128, 1, 1), args=args)
    assert report.findings == []
    np.testing.assert_array_equal(out.download()[: EXPECTED[name].size], EXPECTED[name])
