"""Issues one TMA tensor copy a launch: to see which bytes move where.

Each entry is a block of 1,024 threads with dynamic shared memory of MEMORY_BYTES bytes, from a multiple of 1,024 on.
`load_Rd` poisons it, copies one box of a tensor map of rank R into it, waits on an mbarrier for `bytes` bytes, and
hands all of it back. `multicast_Rd` does so in two blocks of a cluster: one thread copies into those of a mask.
`store_Rd` and `OP_Rd` fill it from an array, and store the box, or reduce it, into the tensor.
The source is generated because the entries differ in nothing but rank and operation, which are part of the instruction.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.kernels.compile import CompiledModule, compile_source
from tileproof.kernels.device import Argument, Buffer, Device, Report

#: Bytes of shared memory that a probe hands over.
MEMORY_BYTES = 16384
#: What they hold before a load.
POISON = 0xEE
RANKS = (1, 2, 3, 4, 5)
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")

Bytes = NDArray[np.uint8]

_THREADS = 1024
# NOTE: 1,024 bytes so that the memory can start at a multiple of 1,024, the longest period of a swizzle.
_SHARED_BYTES = MEMORY_BYTES + 1024

_PRELUDE = f"""
struct alignas(64) Map {{ unsigned char bytes[128]; }};
struct Corner {{ int c[5]; }};

constexpr unsigned kMemory = {MEMORY_BYTES} / sizeof(uint4), kPoison = {POISON} * 0x01010101u, kPolls = 20000;

__device__ unsigned aligned_base(unsigned start) {{ return (start + 1023u) & ~1023u; }}
"""

_LOAD = """
extern "C" __global__ void load_@RANK@d(const __grid_constant__ Map map, Corner corner, unsigned offset, unsigned bytes,
                                      uint4* out, unsigned* done) {
    extern __shared__ __align__(16) unsigned char raw[];
    __shared__ alignas(8) unsigned long long barrier;
    const unsigned start = static_cast<unsigned>(__cvta_generic_to_shared(raw)), base = aligned_base(start);
    const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    uint4* memory = reinterpret_cast<uint4*>(raw + (base - start));
    for (unsigned i = threadIdx.x; i < kMemory; i += blockDim.x)
        memory[i] = make_uint4(kPoison, kPoison, kPoison, kPoison);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.tensor.@RANK@d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {@COORDINATES@}], [%2];"
                     ::"r"(base + offset), "l"(&map), "r"(bar), @CORNER@ : "memory");
    }
    unsigned ready = 0;
    for (unsigned i = 0; i < kPolls && !ready; ++i)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                     : "=r"(ready) : "r"(bar) : "memory");
    if (threadIdx.x == 0) *done = ready;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < kMemory; i += blockDim.x) out[i] = memory[i];
}
"""

_MULTICAST = """
extern "C" __global__ void __cluster_dims__(2, 1, 1)
multicast_@RANK@d(const __grid_constant__ Map map, Corner corner, unsigned offset, unsigned bytes, unsigned mask,
                  uint4* out, unsigned* done) {
    extern __shared__ __align__(16) unsigned char raw[];
    __shared__ alignas(8) unsigned long long barrier;
    const unsigned start = static_cast<unsigned>(__cvta_generic_to_shared(raw)), base = aligned_base(start);
    const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(&barrier)), rank = blockIdx.x;
    uint4* memory = reinterpret_cast<uint4*>(raw + (base - start));
    for (unsigned i = threadIdx.x; i < kMemory; i += blockDim.x)
        memory[i] = make_uint4(kPoison, kPoison, kPoison, kPoison);
    const bool taken = mask >> rank & 1u;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        if (taken)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x == 0 && rank == 0)
        asm volatile("cp.async.bulk.tensor.@RANK@d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     ".multicast::cluster [%0], [%1, {@COORDINATES@}], [%2], %@MASK@;"
                     ::"r"(base + offset), "l"(&map), "r"(bar), @CORNER@,
                       "h"(static_cast<unsigned short>(mask)) : "memory");
    unsigned ready = taken ? 0 : 1;
    for (unsigned i = 0; i < kPolls && !ready; ++i)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                     : "=r"(ready) : "r"(bar) : "memory");
    if (threadIdx.x == 0) done[rank] = ready;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < kMemory; i += blockDim.x) out[rank * kMemory + i] = memory[i];
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
"""

_STORE = """
extern "C" __global__ void @NAME@_@RANK@d(const __grid_constant__ Map map, Corner corner, unsigned offset,
                                        const uint4* in) {
    extern __shared__ __align__(16) unsigned char raw[];
    const unsigned start = static_cast<unsigned>(__cvta_generic_to_shared(raw)), base = aligned_base(start);
    uint4* memory = reinterpret_cast<uint4*>(raw + (base - start));
    for (unsigned i = threadIdx.x; i < kMemory; i += blockDim.x) memory[i] = in[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("@OPCODE@ [%1, {@COORDINATES@}], [%0];"
                     ::"r"(base + offset), "l"(&map), "r"(0), @CORNER@ : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""


class TensorProbe:
    """Loads, stores and reductions of some ranks, compiled for one device.

    Args:
        device: where they run.
        ranks: ranks of the tensors.
        reductions: of REDUCTIONS.

    Raises:
        CompileError: the architecture has no tensor copies.
    """

    def __init__(self, device: Device, ranks: Iterable[int] = RANKS, reductions: Sequence[str] = ()) -> None:
        self._device = device
        self.module: CompiledModule = compile_source(
            probe_source(ranks, reductions), name="tensor_probe.cu", arch=device.arch
        )
        self._functions = device.load(self.module)

    def load(
        self, tensor_map: np.void, corner: Sequence[int], *, offset: int, expected_bytes: int
    ) -> tuple[Bytes, bool, Report]:
        """Shared memory after the copy of a box to byte `offset`, whether the barrier completed, and the report.

        Args:
            tensor_map: of the device.
            corner: coordinates of the box's first element, innermost first.
            offset: bytes from the start of the memory to the destination.
            expected_bytes: what the barrier waits for.
        """
        out = self._device.allocate((MEMORY_BYTES,), np.dtype(np.uint8))
        done = self._device.allocate((1,), np.dtype(np.uint32))
        try:
            report = self._launch(
                f"load_{len(corner)}d", tensor_map, corner, np.uint32(offset), np.uint32(expected_bytes), out, done
            )
            return out.download(), bool(done.download()[0]), report
        finally:
            self._device.free(out)
            self._device.free(done)

    def multicast(
        self, tensor_map: np.void, corner: Sequence[int], *, offset: int, expected_bytes: int, mask: int
    ) -> tuple[Bytes, bool, Report]:
        """`load` into the blocks of a cluster of two that `mask` names: uint8 [2 * MEMORY_BYTES], block after block."""
        out = self._device.allocate((2 * MEMORY_BYTES,), np.dtype(np.uint8))
        done = self._device.allocate((2,), np.dtype(np.uint32))
        try:
            name, numbers = f"multicast_{len(corner)}d", (np.uint32(offset), np.uint32(expected_bytes), np.uint32(mask))
            report = self._launch(name, tensor_map, corner, *numbers, out, done, blocks=2)
            return out.download(), bool(done.download().all()), report
        finally:
            self._device.free(out)
            self._device.free(done)

    def store(
        self, tensor_map: np.void, corner: Sequence[int], *, offset: int, memory: Bytes, reduction: str | None = None
    ) -> Report:
        """Store, or reduce, the box that lies from byte `offset` of `memory` (uint8 [MEMORY_BYTES]) on."""
        source: Buffer = self._device.upload(memory)
        try:
            name = f"{reduction or 'store'}_{len(corner)}d"
            return self._launch(name, tensor_map, corner, np.uint32(offset), source)
        finally:
            self._device.free(source)

    def _launch(
        self, entry: str, tensor_map: np.void, corner: Sequence[int], *arguments: Argument, blocks: int = 1
    ) -> Report:
        given = np.zeros(5, np.int32)
        given[: len(corner)] = corner
        return self._functions[entry].launch(
            grid=(blocks, 1, 1),
            block=(_THREADS, 1, 1),
            args=(tensor_map, np.void(given.tobytes()), *arguments),
            shared_bytes=_SHARED_BYTES,
        )


def probe_source(ranks: Iterable[int] = RANKS, reductions: Sequence[str] = ()) -> str:
    """CUDA C++ with a load, a multicast, a store and the reductions of each rank."""
    return _PRELUDE + "".join(_entries(rank, reductions) for rank in ranks)


def _entries(rank: int, reductions: Sequence[str]) -> str:
    opcodes = {"store": f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"}
    opcodes |= {op: f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op}.tile.bulk_group" for op in reductions}
    texts = [_LOAD, _MULTICAST, *(_STORE.replace("@NAME@", n).replace("@OPCODE@", o) for n, o in opcodes.items())]
    return "".join(_numbered(text, rank) for text in texts)


def _numbered(text: str, rank: int) -> str:
    fields: dict[str, Any] = {
        "RANK": rank,
        "MASK": 3 + rank,
        "COORDINATES": ", ".join(f"%{3 + index}" for index in range(rank)),
        "CORNER": ", ".join(f'"r"(corner.c[{index}])' for index in range(rank)),
    }
    for name, value in fields.items():
        text = text.replace(f"@{name}@", str(value))
    return text
