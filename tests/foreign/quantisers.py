"""Row quantisers in Triton."""

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from case import Array, Case, Outcome, numbers, undecided
from triton_source import Compiled, TritonKernel, compile_kernel

from tileproof.simulators.ptx.device import Device

ROWS, COLUMNS = 12, 400
GROUP, GROUPS = 128, 3
MOST = np.float32(448)
_E4M3 = ml_dtypes.float8_e4m3fn

SGLANG = TritonKernel(
    "sglang",
    "sglang/kernels/ops/quantization/fp8_kernel.py",
    "_per_token_group_quant_8bit",
    {"y_ptr": "*bf16", "y_q_ptr": "*fp8e4nv", "y_s_ptr": "*fp32", "y_stride": "i32", "N": "i32", "eps": "fp32"}
    | {"bit8_min": "fp32", "bit8_max": "fp32"},
    {"BLOCK": 512},
    aligned=("y_ptr", "y_q_ptr", "y_s_ptr", "y_stride", "N"),
)
TORCHAO = TritonKernel(
    "torchao",
    "torchao/prototype/blockwise_fp8_training/kernels.py",
    "triton_fp8_blockwise_act_quant_lhs_kernel",
    {"x_ptr": "*bf16", "y_ptr": "*fp8e4nv", "s_ptr": "*fp32", "M": "i32"}
    | {f"{name}_stride_dim_0": "i32" for name in "xy"}
    | {"s_stride_dim_1": "i32"},
    {"x_stride_dim_1": 1, "y_stride_dim_1": 1, "s_stride_dim_0": 1, "K": GROUP * GROUPS, "BLOCK_SIZE": GROUP}
    | {"NUM_GROUPS": 8, "EPS": 1e-12, "FP8_MAX": 448.0},
    aligned=("x_ptr", "y_ptr", "s_ptr", "x_stride_dim_0", "y_stride_dim_0"),
)


def rows(columns: int) -> Array:
    """bfloat16 rows of very different magnitudes, one of them zero."""
    values = numbers(ROWS, columns, seed=3) * np.float32(2) ** np.arange(-20, 20, 40 / ROWS, dtype=np.float32)[:, None]
    values[5] = 0
    rounded: Array = values.astype(ml_dtypes.bfloat16)
    return rounded


def quantise_tokens(device: Device, ptx: str, made: Compiled) -> Outcome:
    """A row a block: scale = amax / 448, codes of x · (1 / scale), both divisions `div.full`."""
    x = rows(COLUMNS)
    given, scratch = device.upload(x.view(np.uint16)), device.upload(np.zeros(16, np.uint8))
    out, scales = device.allocate(x.shape, np.uint8), device.allocate((ROWS,), np.float32)
    size, least = np.int32(COLUMNS), np.float32(1e-10)
    report = device.load_ptx(ptx)[SGLANG.name].launch(
        grid=(ROWS, 1, 1),
        block=(made.threads, 1, 1),
        args=(given, out, scales, size, size, least, -MOST, MOST, scratch, scratch),
        shared_bytes=made.shared_bytes,
    )
    wide = x.astype(np.float32)
    scale = np.maximum(np.abs(wide).max(axis=1), least) / MOST
    code = np.clip(wide * (np.float32(1) / scale)[:, None], -MOST, MOST).astype(_E4M3)
    got = np.concatenate([out.download().reshape(-1).astype(np.uint32), scales.download().view(np.uint32)])
    expected = np.concatenate([code.view(np.uint8).reshape(-1).astype(np.uint32), scale.view(np.uint32)])
    return Outcome(report, got, expected, undecided(out, scales))


def quantise_blocks(device: Device, ptx: str, made: Compiled) -> Outcome:
    """1 × 128 blocks: the factor 448 / amax in float64, rounded; the scale is its reciprocal, `div.rn`."""
    x = rows(GROUP * GROUPS)
    given, scratch = device.upload(x.view(np.uint16)), device.upload(np.zeros(16, np.uint8))
    out, scales = device.allocate(x.shape, np.uint8), device.allocate((GROUPS, ROWS), np.float32)
    stride = np.int32(GROUP * GROUPS)
    report = device.load_ptx(ptx)[TORCHAO.name].launch(
        grid=(-(-ROWS // 8), GROUPS, 1),
        block=(made.threads, 1, 1),
        args=(given, stride, out, stride, scales, np.int32(ROWS), np.int32(ROWS), scratch, scratch),
        shared_bytes=made.shared_bytes,
    )
    wide = x.astype(np.float32).reshape(ROWS, GROUPS, GROUP)
    amax = np.maximum(np.abs(wide).max(axis=2), np.float32(1e-12)).astype(np.float64)
    factor = (448.0 / amax).astype(np.float32)
    code = np.clip(wide * factor[:, :, None], -MOST, MOST).astype(_E4M3)
    scale = (np.float32(1) / factor).T
    got = np.concatenate([out.download().reshape(-1).astype(np.uint32), scales.download().reshape(-1).view(np.uint32)])
    expected = np.concatenate([code.view(np.uint8).reshape(-1).astype(np.uint32), scale.reshape(-1).view(np.uint32)])
    return Outcome(report, got, expected, undecided(out, scales))


def _case(name: str, kernel: TritonKernel, run: Callable[[Device, str, Any], Outcome], judged: str) -> Case:
    breaks = ("bar.sync \t0;", "")
    build = partial(compile_kernel, kernel)
    return Case(name, kernel.package, kernel.file, kernel.name, "sm_90a", judged, build, run, breaks)


CASES = [
    _case("token quantiser", SGLANG, quantise_tokens, "bit for bit, at the nominal value of `div.full`"),
    _case("block quantiser", TORCHAO, quantise_blocks, "bit for bit"),
]
