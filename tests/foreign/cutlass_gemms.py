"""FP8 products of CUTLASS."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from case import Array, Case, Outcome, bf16, codes, numbers
from cuda_source import compile_cuda
from triton_gemms import MMA, WGMMA, fused, product

from tileproof.simulators.ptx.device import Buffer, Device

ALPHA, BETA = np.float32(0.125), np.float32(1.5)
_FIRST_STEP = 32


@dataclass(frozen=True)
class Compiled:
    """A CUTLASS kernel.

    Attributes:
        ptx: the text.
        tile_m: rows of a block's tile.
        cluster_m: blocks of a cluster, which share each tile of B by a multicast.
        promotion: elements of k that stay in the matrix unit.
    """

    ptx: str
    tile_m: int = 64
    cluster_m: int = 1
    promotion: int | None = None


def build_sm90(schedule: str, epilogue: str, tile_m: int, cluster_m: int, promotion: int | None) -> Compiled:
    """Compile one variant."""
    macros = (f"SCHEDULE={schedule}", f"EPILOGUE_SCHEDULE={epilogue}", f"TILE_M={tile_m}", f"CLUSTER_M={cluster_m}")
    return Compiled(compile_cuda("cutlass_sm90.cu", "compute_90a", macros), tile_m, cluster_m, promotion)


def build_sm89() -> Compiled:
    """Compile the kernel of sm_89."""
    return Compiled(compile_cuda("cutlass_sm89.cu", "compute_89"))


def run_sm89(device: Device, ptx: str, made: Compiled) -> Outcome:
    """Ragged in every dimension: k is 160 of tiles of 64, of which CUTLASS takes the short one first."""
    m, n, k = 100, 72, 160
    a, b, c = codes(m, k, 1), codes(n, k, 2), numbers(m, n, seed=3)
    buffers = [*map(device.upload, (a, b, c)), device.allocate((m, n), np.float32)]
    functions = device.load_ptx(ptx)
    described, parameters = _described(functions, device, (m, n, k), buffers, 3)
    report = functions["gemm"].launch(
        grid=(-(-m // 64), -(-n // 64), 1),
        block=(described[2], 1, 1),
        args=(np.void(parameters),),
        shared_bytes=described[1],
    )
    total = product(MMA, device.arch, _staged(a), _staged(b), promotion=2 * _FIRST_STEP)
    expected = fused(total, ALPHA, BETA * c)
    return Outcome(report, buffers[3].download().view(np.uint32), expected.view(np.uint32))


def _staged(operand: Array) -> Array:
    """k as the kernel adds it, so that its partial sums are those of every 64: the first one is of 32 alone.

    The short tile comes first, padded with zeros. Each iteration adds to the sum after its first instruction, so that
    a partial sum is the second instruction of one tile and the first one of the next (`kStagedAccumulation` in
    cutlass/gemm/threadblock/mma_multistage.h). Zeros before and behind shift that to whole steps.
    """
    rows, k = operand.shape
    short = k % 64 or 64
    zeros = np.zeros((rows, 64), np.uint8)
    filled = [operand[:, :short], zeros[:, : 64 - short], operand[:, short:]]
    return np.concatenate([zeros[:, :_FIRST_STEP], *filled, zeros[:, :_FIRST_STEP]], axis=1)


def run_sm90(device: Device, ptx: str, made: Compiled) -> Outcome:
    """Tensor maps as CUTLASS's host code asks the driver for, of tiles of 128 of k and of 64 × 32 outputs."""
    m, n, k = 200, 256, 288
    a, b, c = codes(m, k, 4), codes(n, k, 5), numbers(m, n, seed=6)
    buffers = [*map(device.upload, (a, b, c)), device.allocate((m, n), np.uint16)]
    functions = device.load_ptx(ptx)
    described, parameters = _described(functions, device, (m, n, k), buffers, 7)
    raw = bytearray(parameters)
    forms: list[dict[str, Any]] = [
        {"shape": (k, m, 1), "strides_bytes": (k, 0), "box": (128, made.tile_m, 1), "swizzle": 128},
        {"shape": (k, n, 1), "strides_bytes": (k, 0), "box": (128, 128 // made.cluster_m, 1), "swizzle": 128},
        {"shape": (n, m, 1), "strides_bytes": (4 * n, 0), "box": (32, 64, 1), "swizzle": 128, "dtype": "float32"},
        {"shape": (n, m, 1), "strides_bytes": (2 * n, 0), "box": (32, 64, 1), "swizzle": 64, "dtype": "bfloat16"},
    ]
    for place, buffer, form in zip(described[3:], buffers, forms, strict=True):
        raw[place : place + 128] = device.tensor_map(buffer, **form).tobytes()
    rows = -(-m // made.tile_m)
    report = functions["gemm"].launch(
        grid=(-(-rows // made.cluster_m) * made.cluster_m, n // 128, 1),
        block=(described[2], 1, 1),
        args=(np.void(bytes(raw)),),
        shared_bytes=described[1],
        cluster=(made.cluster_m, 1, 1),
    )
    total = product(WGMMA, device.arch, a, b, promotion=made.promotion)
    return Outcome(report, buffers[3].download(), bf16(fused(total, ALPHA, BETA * c)))


def _described(
    functions: Any, device: Device, sizes: tuple[int, ...], buffers: Sequence[Buffer], count: int
) -> tuple[list[int], bytes]:
    """Bytes of parameters, shared memory, threads and what else `describe` says; and the parameters."""
    parameters, described = device.upload(np.zeros(4096, np.uint8)), device.allocate((count,), np.int32)
    report = functions["describe"].launch(
        grid=(1, 1, 1), block=(1, 1, 1), args=(parameters, described, *map(np.int32, sizes), *buffers, ALPHA, BETA)
    )
    assert report.findings == [], report.findings
    numbers_ = [int(each) for each in described.download()]
    return numbers_, parameters.download()[: numbers_[0]].tobytes()


_HEADERS = "cutlass_library/source/include"
_IN_ORDER = "bit for bit, in the matrix unit's arithmetic and the kernel's order"
CASES = [
    Case(
        "CUTLASS sm_89",
        "nvidia-cutlass",
        f"{_HEADERS}/cutlass/gemm/kernel/default_gemm.h",
        "DefaultGemm, OpMultiplyAdd, 64×64×64, 3 stages",
        "sm_89",
        _IN_ORDER,
        build_sm89,
        run_sm89,
        ("bar.sync \t0;", ""),
    ),
    Case(
        "CUTLASS sm_90, warp-specialised",
        "nvidia-cutlass",
        f"{_HEADERS}/cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized.hpp",
        "KernelTmaWarpSpecialized, 128×128×128, 5 stages",
        "sm_90a",
        _IN_ORDER,
        partial(build_sm90, "KernelTmaWarpSpecialized", "TmaWarpSpecialized", 128, 1, 128),
        run_sm90,
        ("fence.proxy.async.shared::cta;", ""),
        lowest_leader=True,
    ),
    Case(
        "CUTLASS sm_90, ping-pong in clusters",
        "nvidia-cutlass",
        f"{_HEADERS}/cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp",
        "KernelTmaWarpSpecializedPingpongFP8FastAccum, 64×128×128, clusters of 2",
        "sm_90a",
        _IN_ORDER,
        partial(build_sm90, "KernelTmaWarpSpecializedPingpongFP8FastAccum", "TmaWarpSpecialized", 64, 2, None),
        run_sm90,
        ("fence.proxy.async.shared::cta;", ""),
        lowest_leader=True,
    ),
]
