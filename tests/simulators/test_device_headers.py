"""Kernels that include the CUDA headers run: their conversions and helpers are inline PTX of many kinds."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.kernels.compile import compile_source
from tileproof.simulators.ptx import Device

VALUES = np.array([0.0, -0.0, 1.0, -1.5, 3.140625, 1e-40, 448.0, 3e38], np.float32)


def run(source: str, *arrays: NDArray[Any]) -> list[NDArray[Any]]:
    device = Device()
    buffers = [device.upload(array) for array in arrays]
    kernel = device.load(compile_source(source, name="k.cu"))["k"]
    report = kernel.launch(grid=(1, 1, 1), block=(8, 1, 1), args=buffers)
    assert report.findings == []
    return [buffer.download() for buffer in buffers]


def test_bf16_widens_and_narrows_as_the_type_says() -> None:
    source = """
    #include <cuda_bf16.h>
    extern "C" __global__ void k(const float* x, __nv_bfloat16* narrow, float* wide) {
        const __nv_bfloat16 value = __float2bfloat16_rn(x[threadIdx.x]);
        narrow[threadIdx.x] = value;
        wide[threadIdx.x] = __bfloat162float(value);
    }"""
    _, narrow, wide = run(source, VALUES, np.zeros(8, ml_dtypes.bfloat16), np.zeros(8, np.float32))
    expected = VALUES.astype(ml_dtypes.bfloat16)
    assert narrow.tobytes() == expected.tobytes()
    assert wide.tobytes() == expected.astype(np.float32).tobytes()


def test_fp8_and_half_headers_convert_as_the_type_says() -> None:
    source = """
    #include <cuda_fp16.h>
    #include <cuda_fp8.h>
    extern "C" __global__ void k(const float* x, __nv_fp8_e4m3* codes, __half* halves) {
        codes[threadIdx.x] = __nv_fp8_e4m3(x[threadIdx.x]);
        halves[threadIdx.x] = __float2half_rn(x[threadIdx.x] * 0.5f);
    }"""
    x = VALUES[:7].repeat(2)[:8].copy()
    _, codes, halves = run(source, x, np.zeros(8, np.uint8), np.zeros(8, np.float16))
    assert codes.tobytes() == x.astype(ml_dtypes.float8_e4m3fn).tobytes()
    assert halves.tobytes() == (x * np.float32(0.5)).astype(np.float16).tobytes()


@pytest.mark.parametrize("header", ["cooperative_groups.h", "cuda/std/cstdint", "cuda/atomic"])
def test_headers_of_the_toolkit_compile(header: str) -> None:
    module = compile_source(f'#include <{header}>\nextern "C" __global__ void k(int* o) {{ o[0] = 1; }}', name="k.cu")
    assert module.entries == ("k",)
