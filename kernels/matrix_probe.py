"""Issues one matrix instruction a tile, D = A·Bᵀ + C, on plain row-major operands: to see what the hardware computes.

The source is generated, one entry an instruction, because instructions differ in nothing but their PTX. sm_90a only:
`mma.sync` with one warp a tile, and `wgmma.mma_async` m64n8 with one warpgroup a tile.

Fragments (PTX ISA 9.1, "Matrix Fragments for mma.m16n8k32" and the other shapes): with g = lane / 4 and t = lane mod 4,
register j of A holds four bytes of row g + 8 (j mod 2) from byte 4 t + 16 (j / 2) on, whatever the operand type, and
register j of B four bytes of row g of Bᵀ from byte 4 t + 16 j on.
"""

import re
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.kernels.compile import compile_source
from tileproof.kernels.device import Device
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.instruction import Family, Instruction
from tileproof.oracle.units.operand import ACCUMULATOR_DTYPES

Array = NDArray[Any]

_THREADS = 128
_WARPS = _THREADS // 32

#: PTX register class, C++ type and asm constraint of an accumulator register.
_REGISTERS = {"f32": ("float", "f"), "s32": ("int", "r"), "f16": ("unsigned", "r")}

_PRELUDE = """
using Byte = unsigned char;
using Address = unsigned long long;

constexpr int kWarpLanes = 32;

// NOTE: without a swizzle a core matrix is 8 rows of 16 bytes, one after the other; "leading" is the distance of the
// next core matrix along K, "stride" along M or N (PTX ISA 9.1, "Matrix Descriptor Format"), in units of 16 bytes.
__device__ Address descriptor(const void* shared, int leading_bytes, int stride_bytes) {
    const Address address = __cvta_generic_to_shared(shared);
    return ((address & 0x3FFFF) >> 4) | static_cast<Address>(leading_bytes >> 4) << 16 |
           static_cast<Address>(stride_bytes >> 4) << 32;
}
"""

_MMA = """
extern "C" __global__ void @ENTRY@(const Byte* a, const Byte* b, const @TYPE@* c, @TYPE@* d, int tiles) {
    const int tile = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / kWarpLanes);
    if (tile >= tiles) return;
    const int lane = threadIdx.x % kWarpLanes, g = lane / 4, t = lane % 4;
    a += static_cast<Address>(tile) * 16 * @ROW_BYTES@;
    b += static_cast<Address>(tile) * 8 * @ROW_BYTES@;
    unsigned x[@A_REGISTERS@], y[@B_REGISTERS@];
    for (int j = 0; j < @A_REGISTERS@; ++j)
        x[j] = *reinterpret_cast<const unsigned*>(a + (g + 8 * (j % 2)) * @ROW_BYTES@ + 4 * t + 16 * (j / 2));
    for (int j = 0; j < @B_REGISTERS@; ++j)
        y[j] = *reinterpret_cast<const unsigned*>(b + g * @ROW_BYTES@ + 4 * t + 16 * j);
    @TYPE@ z[@C_REGISTERS@];
    const Address base = static_cast<Address>(tile) * 16 * @C_COLUMNS@;
    for (int j = 0; j < @C_REGISTERS@; ++j) z[j] = c[base + @C_PLACE@];
    asm volatile("@PTX@" : @OUTPUTS@ : @INPUTS@);
    for (int j = 0; j < @C_REGISTERS@; ++j) d[base + @C_PLACE@] = z[j];
}
"""

_WGMMA = """
extern "C" __global__ void @ENTRY@(const uint4* a, const uint4* b, const @TYPE@* c, @TYPE@* d, int tiles) {
    __shared__ __align__(128) uint4 x[128], y[16];
    const int tile = static_cast<int>(blockIdx.x), i = static_cast<int>(threadIdx.x);
    // Thread i carries half (i mod 2) of row i / 2.
    x[(i % 2) * 64 + i / 2] = a[static_cast<Address>(tile) * 128 + i];
    if (i < 16) y[(i % 2) * 8 + i / 2] = b[static_cast<Address>(tile) * 16 + i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const int g = i % kWarpLanes / 4, t = i % 4, warp = i / kWarpLanes;
    @TYPE@ z[@C_REGISTERS@];
    const Address base = (static_cast<Address>(tile) * 64 + 16 * warp) * @C_COLUMNS@;
    for (int j = 0; j < @C_REGISTERS@; ++j) z[j] = c[base + @C_PLACE@];
    const Address a_descriptor = descriptor(x, 1024, 128), b_descriptor = descriptor(y, 128, 128);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("@PTX@" : @OUTPUTS@ : "l"(a_descriptor), "l"(b_descriptor) : "memory");
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int j = 0; j < @C_REGISTERS@; ++j) d[base + @C_PLACE@] = z[j];
}
"""


class MatrixProbe:
    """A set of instructions, compiled for one device.

    Args:
        device: where they run.
        instructions: each an m16n8 `mma` or an m64n8 `wgmma` with accumulators f32, f16 or s32.

    Raises:
        Refusal: an instruction has another shape or accumulator.
        CompileError: the architecture lacks one of them.
    """

    def __init__(self, device: Device, instructions: Sequence[Instruction]) -> None:
        self._device = device
        source = probe_source(instructions)
        self.module = compile_source(source, name="matrix_probe.cu", arch=device.arch)
        self._functions = device.load(self.module)

    def run(self, instruction: Instruction, a: Array, b: Array, c: Array) -> Array:
        """D of tiles: a [tiles, M, K], b [tiles, N, K] raw codes, c [tiles, M, N]; d like c."""
        tiles, per_block = len(c), _WARPS if instruction.family is Family.MMA else 1
        given = [self._device.upload(np.ascontiguousarray(array)) for array in (a, b, c)]
        d = self._device.allocate(c.shape, ACCUMULATOR_DTYPES[instruction.accumulator])
        try:
            self._functions[entry_name(instruction)].launch(
                grid=(ceil(tiles / per_block), 1, 1), block=(_THREADS, 1, 1), args=(*given, d, np.int32(tiles))
            )
            return d.download()
        finally:
            for buffer in (*given, d):
                self._device.free(buffer)


def probe_source(instructions: Iterable[Instruction]) -> str:
    """CUDA C++ with one entry an instruction."""
    return _PRELUDE + "".join(map(_entry, instructions))


def entry_name(instruction: Instruction) -> str:
    """The entry that issues an instruction."""
    return re.sub(r"\W", "_", instruction.name)


def _entry(instruction: Instruction) -> str:
    _check(instruction)
    row_bytes = instruction.shape.k * instruction.a.code_dtype.itemsize
    a_registers, b_registers = 2 * row_bytes // 16, row_bytes // 16
    packed = instruction.accumulator == "f16"
    c_registers = 2 if packed else 4
    cpp_type, constraint = _REGISTERS[instruction.accumulator]
    warp = instruction.family is Family.MMA
    fields = {
        "ENTRY": entry_name(instruction),
        "TYPE": cpp_type,
        "ROW_BYTES": row_bytes,
        "A_REGISTERS": a_registers,
        "B_REGISTERS": b_registers,
        "C_REGISTERS": c_registers,
        "C_COLUMNS": 4 if packed else 8,
        "C_PLACE": "(g + 8 * j) * 4 + t" if packed else "(g + 8 * (j / 2)) * 8 + 2 * t + j % 2",
        "PTX": _mma(instruction, a_registers, b_registers, c_registers) if warp else _wgmma(instruction, c_registers),
        "OUTPUTS": _operands("+" + constraint, "z", c_registers),
        "INPUTS": f"{_operands('r', 'x', a_registers)}, {_operands('r', 'y', b_registers)}",
    }
    text = _MMA if warp else _WGMMA
    for name, value in fields.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def _check(instruction: Instruction) -> None:
    m, n = {Family.MMA: (16, 8), Family.WGMMA: (64, 8)}.get(instruction.family, (0, 0))
    if (instruction.shape.m, instruction.shape.n) != (m, n) or instruction.accumulator not in _REGISTERS:
        raise Refusal(
            f"the probe cannot issue {instruction.name}",
            hint="it issues mma of m16n8 and wgmma of m64n8 with accumulators f32, f16 and s32",
        )


def _mma(instruction: Instruction, a: int, b: int, c: int) -> str:
    saturates = ".satfinite" if instruction.saturates else ""
    types = f"{instruction.accumulator}.{instruction.a.name}.{instruction.b.name}.{instruction.accumulator}"
    z, x, y = _list(0, c), _list(c, a), _list(c + a, b)
    return f"mma.sync.aligned.{instruction.shape}.row.col{saturates}.{types} {z}, {x}, {y}, {z};"


def _wgmma(instruction: Instruction, c: int) -> str:
    """scale-d is true: C takes part. Operands are not negated, and f16 and bf16 not transposed."""
    saturates = ".satfinite" if instruction.saturates else ""
    types = f"{instruction.accumulator}.{instruction.a.name}.{instruction.b.name}"
    scales = "" if instruction.accumulator == "s32" else ", 1, 1"
    layout = ", 0, 0" if instruction.a.name in ("f16", "bf16") else ""
    name = f"wgmma.mma_async.sync.aligned.{instruction.shape}{saturates}.{types}"
    body = f"{name} {_list(0, c)}, %{c}, %{c + 1}, p{scales}{layout};"
    return f"{{ .reg .pred p; setp.eq.u32 p, 0, 0; {body} }}"


def _list(first: int, count: int) -> str:
    return "{" + ", ".join(f"%{index}" for index in range(first, first + count)) + "}"


def _operands(constraint: str, name: str, count: int) -> str:
    return ", ".join(f'"{constraint}"({name}[{index}])' for index in range(count))
