"""Matrix products in Triton."""

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from case import Array, Case, Outcome, bf16, codes, numbers
from triton_source import Compiled, TritonKernel, compile_kernel

from tileproof.oracle.gemm import gemm
from tileproof.oracle.products.accumulation_order import AccumulationOrder, RaggedK
from tileproof.simulators.ptx.device import Buffer, Device

WGMMA, MMA = "wgmma.m64n128k32.f32.e4m3.e4m3", "mma.m16n8k32.f32.e4m3.e4m3"
GROUP = 128

BLOCKWISE = TritonKernel(
    "torchao",
    "torchao/kernel/blockwise_quantization.py",
    "blockwise_fp8_gemm_kernel",
    {"a_ptr": "*fp8e4nv", "b_ptr": "*fp8e4nv", "c_ptr": "*fp32", "a_s_ptr": "*fp32", "b_s_ptr": "*fp32", "M": "i32"},
    {"N": 128, "K": 512, "M_BUCKET": 6, "BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": GROUP},
    aligned=("a_ptr", "b_ptr", "c_ptr", "a_s_ptr", "b_s_ptr"),
    target=89,
    options={"num_warps": 4, "num_stages": 3},
)
_STRIDES = {f"stride_{name}": "i32" for name in ("am", "bn", "cm", "As_m", "Bs_n")}
HOPPER = TritonKernel(
    "sglang",
    "sglang/kernels/ops/gemm/fp8_kernel.py",
    "_w8a8_block_fp8_matmul_hopper",
    {"A": "*fp8e4nv", "B": "*fp8e4nv", "C": "*fp32", "As": "*fp32", "Bs": "*fp32"}
    | dict.fromkeys(("M", "N", "K", "group_n", "group_k"), "i32")
    | _STRIDES,
    {f"stride_{name}": 1 for name in ("ak", "bk", "cn", "As_k", "Bs_k")}
    | {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": GROUP, "GROUP_SIZE_M": 32}
    | {"needs_masking": False, "SWAP_AB": False, "SPLIT_K": 1},
    aligned=("A", "B", "C", "As", "Bs", "N", "K", "group_n", "group_k", "stride_am", "stride_bn", "stride_cm"),
    options={"num_warps": 4, "num_stages": 3},
)
PERSISTENT_BLOCKS = 3
TMA = TritonKernel(
    "flashinfer-python",
    "flashinfer/triton/kernels/sm_constraint_gemm.py",
    "gemm_kernel_descriptor_persistent",
    {"a_ptr": "*fp8e4nv", "b_ptr": "*fp8e4nv", "c_ptr": "*bf16", "M": "i32", "N": "i32", "K": "i32"}
    | {"alpha": "fp32", "beta": "fp32"},
    {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8}
    | {"EPILOGUE_SUBTILE": False, "NUM_SMS": PERSISTENT_BLOCKS},
    helpers=("_compute_pid",),
    aligned=("a_ptr", "b_ptr", "c_ptr", "N", "K"),
    options={"num_warps": 4, "num_stages": 3},
)
INT8 = TritonKernel(
    "torchao",
    "torchao/prototype/quantized_training/int8_mm.py",
    "_scaled_int8_mm_kernel",
    {"A_ptr": "*i8", "B_ptr": "*i8", "C_ptr": "*fp32", "row_scale_ptr": "*fp32", "col_scale_ptr": "*fp32"}
    | dict.fromkeys(("M", "N", "K", "stride_am", "stride_bn", "stride_cm"), "i32"),
    {"stride_ak": 1, "stride_bk": 1, "stride_cn": 1, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8}
    | {"EVEN_K": False, "COL_SCALE_SCALAR": False},
    aligned=("A_ptr", "B_ptr", "C_ptr", "row_scale_ptr", "col_scale_ptr"),
    target=80,
    options={"num_warps": 4, "num_stages": 3},
)


def product(instruction: str, arch: str, a: Array, b: Array, promotion: int | None = None) -> Array:
    """A·Bᵀ in the matrix unit's own arithmetic, k ascending."""
    order = AccumulationOrder(
        instruction=instruction, arch=arch, assembler="13.0", promotion=promotion, ragged_k=RaggedK.ZERO_FILL
    )
    return gemm(order, a, b)


def fused(x: Array, y: npt.ArrayLike, z: npt.ArrayLike) -> Array:
    """x · y + z of finite float32, rounded once.

    The product is exact in float64, its sum with z is rounded to odd there, and so rounds to float32 as the exact one.
    """
    product_ = np.asarray(x, np.float64) * np.asarray(y, np.float64)
    product_, addend = np.broadcast_arrays(product_, np.asarray(z, np.float64))
    total = product_ + addend
    part = total - product_
    lost = (product_ - (total - part)) + (addend - part)
    bits = total.view(np.int64)
    step = np.where((lost > 0) == (total > 0), 1, -1)
    odd = np.where((lost != 0) & (bits & 1 == 0), bits + step, bits)
    rounded: Array = odd.view(np.float64).astype(np.float32)
    return rounded


def scaled_product(instruction: str, arch: str, a: Array, b: Array, a_scales: Array, b_scales: Array) -> Array:
    """Sum over groups of 128 of (product · scale of A) · scale of B, the last multiplication fused with the sum."""
    total = np.zeros((len(a), len(b)), np.float32)
    of_columns = np.repeat(b_scales, GROUP, axis=0)[: len(b)]
    for group in range(a.shape[1] // GROUP):
        part = slice(group * GROUP, (group + 1) * GROUP)
        scaled = product(instruction, arch, a[:, part], b[:, part]) * a_scales[:, group, None]
        total = fused(scaled, of_columns[None, :, group], total)
    return total


def blockwise(
    kernel: TritonKernel, instruction: str, shape: tuple[int, int, int], device: Device, ptx: str, made: Compiled
) -> Outcome:
    """A scale for each row and 128 of k of A, and for each 128 × 128 of B."""
    m, n, k = shape
    a, b = codes(m, k, 1), codes(n, k, 2)
    scales = np.random.default_rng(3)
    a_scales = (scales.random((m, k // GROUP)) + 0.5).astype(np.float32)
    b_scales = (scales.random((-(-n // GROUP), k // GROUP)) + 0.5).astype(np.float32)
    given = [device.upload(each) for each in (a, b, a_scales, b_scales)]
    out, scratch = device.allocate((m, n), np.float32), device.upload(np.zeros(16, np.uint8))
    tile_m, tile_n = (kernel.constants[name] for name in ("BLOCK_SIZE_M", "BLOCK_SIZE_N"))
    tiles = (-(-m // tile_m), -(-n // tile_n))
    arguments: list[Any] = [*given[:2], out, *given[2:]]
    if kernel is HOPPER:
        groups = k // GROUP
        arguments += [np.int32(each) for each in (m, n, k, GROUP, GROUP, k, k, n, groups, groups)]
        grid = (tiles[0] * tiles[1], 1, 1)
    else:
        arguments.append(np.int32(m))
        grid = (*tiles, 1)
    report = device.load_ptx(ptx)[kernel.name].launch(
        grid=grid, block=(made.threads, 1, 1), args=(*arguments, scratch, scratch), shared_bytes=made.shared_bytes
    )
    expected = scaled_product(instruction, device.arch, a, b, a_scales, b_scales)
    return Outcome(report, out.download().view(np.uint32), expected.view(np.uint32))


def descriptors(device: Device, ptx: str, made: Compiled) -> Outcome:
    """D = alpha · A·Bᵀ + beta · C in place of C, by persistent blocks that build their tensor maps themselves."""
    m, n, k = 200, 256, 160
    a, b = codes(m, k, 4), codes(n, k, 5)
    c = numbers(m, n, seed=6).astype(ml_dtypes.bfloat16)
    alpha, beta = np.float32(0.5), np.float32(1.7)
    out, scratch = device.upload(c.view(np.uint16)), device.upload(np.zeros(16, np.uint8))
    maps: Buffer = device.allocate((PERSISTENT_BLOCKS * made.scratch_bytes,), np.uint8)
    report = device.load_ptx(ptx)[TMA.name].launch(
        grid=(PERSISTENT_BLOCKS, 1, 1),
        block=(made.threads, 1, 1),
        args=(*map(device.upload, (a, b)), out, *map(np.int32, (m, n, k)), alpha, beta, maps, scratch),
        shared_bytes=made.shared_bytes,
    )
    total = product(WGMMA, device.arch, a, b)
    expected = bf16(fused(total, alpha, beta * c.astype(np.float32)))
    return Outcome(report, out.download(), expected)


def integers(device: Device, ptx: str, made: Compiled) -> Outcome:
    """(A·Bᵀ as float32 · row scale) · column scale of 8-bit integers; ragged in every dimension."""
    m, n, k = 100, 72, 200
    drawn = np.random.default_rng(7)
    a, b = (drawn.integers(-128, 128, (rows, k), np.int8) for rows in (m, n))
    row_scales, column_scales = (numbers(rows, seed=seed) for rows, seed in ((m, 8), (n, 9)))
    given = [device.upload(each) for each in (a, b, row_scales, column_scales)]
    out, scratch = device.allocate((m, n), np.float32), device.upload(np.zeros(16, np.uint8))
    sizes = [np.int32(each) for each in (m, n, k, k, k, n)]
    report = device.load_ptx(ptx)[INT8.name].launch(
        grid=(-(-m // 64) * -(-n // 64), 1, 1),
        block=(made.threads, 1, 1),
        args=(*given[:2], out, *given[2:], *sizes, scratch, scratch),
        shared_bytes=made.shared_bytes,
    )
    total = (a.astype(np.int32) @ b.astype(np.int32).T).astype(np.float32)
    expected = total * row_scales[:, None] * column_scales
    return Outcome(report, out.download().view(np.uint32), expected.view(np.uint32))


def _case(name: str, kernel: TritonKernel, arch: str, run: Any, judged: str, breaks: tuple[str, str]) -> Case:
    build = partial(compile_kernel, kernel)
    return Case(name, kernel.package, kernel.file, kernel.name, arch, judged, build, run, breaks)


_IN_ORDER = "bit for bit, in the matrix unit's arithmetic and the kernel's order"
CASES = [
    _case(
        "blockwise product, mma",
        BLOCKWISE,
        "sm_89",
        partial(blockwise, BLOCKWISE, MMA, (48, 128, 512)),
        _IN_ORDER,
        ("cp.async.wait_group \t2;", "cp.async.wait_group \t3;"),
    ),
    _case(
        "blockwise product, wgmma",
        HOPPER,
        "sm_90a",
        partial(blockwise, HOPPER, WGMMA, (96, 256, 512)),
        _IN_ORDER,
        ("fence.proxy.async.shared::cta;", ""),
    ),
    _case(
        "persistent product, TMA and wgmma",
        TMA,
        "sm_90a",
        descriptors,
        _IN_ORDER,
        ("@%p1 fence.proxy.tensormap::generic.acquire.gpu", "// "),
    ),
    _case("8-bit integer product, mma", INT8, "sm_80", integers, "bit for bit", ("bar.sync \t0;", "")),
]
