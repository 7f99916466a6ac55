"""Run on a machine with an H200: record what TMA copies and warp accesses do to shared memory.

    python tests/h200/record_shared_memory.py TMA.npz BANKS.npz        (or - for TMA.npz: only the banks)

TMA.npz: boxes narrower than their swizzle span, ranks 1 to 3, element sizes, and the two fills, each copied once to
poisoned shared memory; and what the driver's encoder answers to illegal maps. BANKS.npz: cycles of warp loads of 4, 8
and 16 bytes a lane, for address patterns of known bank use. Needs CuPy and cuda-bindings only.
"""

import ctypes
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from typing import Any

import cupy
import numpy as np
from cuda.bindings import driver
from numpy.typing import NDArray

MEMORY_BYTES, REPEATS, WARPS = 8192, 64, 8
IDLE = 1 << 20  # the "address" of a lane that takes no part

SOURCE = r"""
struct alignas(64) Map { unsigned char bytes[128]; };
__constant__ Map map;
extern "C" __global__ void copy(int rank, unsigned offset, int c0, int c1, int c2, unsigned bytes,
                                unsigned char* out, int* done) {
  extern __shared__ unsigned char raw[];
  __shared__ alignas(8) unsigned long long barrier;
  unsigned start = (unsigned)__cvta_generic_to_shared(raw);
  unsigned base = (start + 1023u) & ~1023u;
  unsigned char* memory = raw + (base - start);
  for (unsigned i = threadIdx.x; i < 8192; i += blockDim.x) memory[i] = 0xEE;
  unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
    if (rank == 1)
      asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];"
        ::"r"(base + offset), "l"(&map), "r"(c0), "r"(bar) : "memory");
    if (rank == 2)
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2,%3}], [%4];"
        ::"r"(base + offset), "l"(&map), "r"(c0), "r"(c1), "r"(bar) : "memory");
    if (rank == 3)
      asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2,%3,%4}], [%5];"
        ::"r"(base + offset), "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(bar) : "memory");
    int ready = 0;
    for (int i = 0; i < 100000 && !ready; ++i)
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                   : "=r"(ready) : "r"(bar) : "memory");
    *done = ready;
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < 8192; i += blockDim.x) out[i] = memory[i];
}

#define ACCESS(NAME, TEXT)                                                                    \
  extern "C" __global__ void NAME(const unsigned* addresses, long long* cycles, unsigned* sink) { \
    extern __shared__ unsigned char raw[];                                                    \
    for (unsigned i = threadIdx.x; i < 16384; i += blockDim.x) raw[i] = (unsigned char)i;     \
    unsigned chosen = addresses[threadIdx.x % 32], total = 0;                                 \
    unsigned address = (unsigned)__cvta_generic_to_shared(raw) + chosen;                      \
    __syncthreads();                                                                          \
    long long begin = clock64();                                                              \
    if (chosen < 16384) {                                                                     \
      _Pragma("unroll") for (int i = 0; i < 64; ++i) {                                        \
        unsigned a = 0, b = 0, c = 0, d = 0;                                                  \
        asm volatile(TEXT : "+r"(a), "+r"(b), "+r"(c), "+r"(d) : "r"(address) : "memory");    \
        total ^= a ^ b ^ c ^ d;                                                               \
      }                                                                                       \
    }                                                                                         \
    __syncthreads();                                                                          \
    long long end = clock64();                                                                \
    sink[threadIdx.x] = total;                                                                \
    if (threadIdx.x == 0) *cycles = end - begin;                                              \
  }
ACCESS(load4, "ld.volatile.shared.u32 %0, [%4];")
ACCESS(load8, "ld.volatile.shared.v2.u32 {%0, %1}, [%4];")
ACCESS(load16, "ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];")
ACCESS(store4, "st.volatile.shared.u32 [%4], %0;")
ACCESS(store8, "st.volatile.shared.v2.u32 [%4], {%0, %1};")
ACCESS(store16, "st.volatile.shared.v4.u32 [%4], {%0, %1, %2, %3};")
"""

TYPES = {
    "uint8": (driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT8, 1),
    "uint16": (driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT16, 2),
    "uint32": (driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT32, 4),
    "float16": (driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2),
    "bfloat16": (driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2),
    "float32": (driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4),
    "float64": (driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8),
}
SWIZZLES = {
    0: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
    32: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_32B,
    64: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_64B,
    128: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
}
FILLS = {
    "zero": driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    "nan": driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
}


@dataclass(frozen=True)
class Copy:
    """One copy; shapes innermost first."""

    dtype: str
    shape: tuple[int, ...]
    box: tuple[int, ...]
    corner: tuple[int, ...]
    swizzle: int = 0
    fill: str = "zero"
    offset: int = 0
    #: Bytes added to the tensor's address, and to its first stride, for the encoder's refusals.
    address_skew: int = 0
    stride_skew: int = 0


def copies() -> list[Copy]:
    """Every copy of the recording."""
    narrow = [
        Copy("uint16", (256, 40), (row // 2, 12), (8, 4), span, offset=offset)
        for span in (32, 64, 128)
        for row in range(16, span, 16)
        for offset in (0, 640)
    ]
    ranks = [
        Copy("uint16", (512,), (64,), (490,)),
        Copy("uint16", (512,), (64,), (-8,), 128),
        Copy("uint16", (64, 9, 7), (32, 4, 5), (40, -1, 4), 64, offset=256),
        Copy("uint8", (96, 9, 7), (64, 4, 5), (48, 6, -2), 64, offset=384),
        Copy("uint16", (64, 9, 7), (64, 3, 3), (0, 0, 0), 128, offset=128),
        Copy("uint8", (129, 11), (64, 16), (80, -3), 64),
        Copy("uint32", (64, 11), (32, 8), (40, 5), 128),
        Copy("float64", (32, 11), (16, 8), (20, 5), 128, offset=896),
    ]
    fills = [
        Copy(dtype, (64, 8), (16, 4), (56, 6), 0, "nan") for dtype in ("float16", "bfloat16", "float32", "float64")
    ]
    corners = [Copy("uint8", (256, 11), (64, 8), (c0, 0), 64) for c0 in (1, 2, 4, 8, 16, 24, 32, -8, -16)]
    corners += [Copy("uint16", (256, 11), (32, 8), (c0, 0)) for c0 in (1, 4, 8, 12, -4)]
    corners += [Copy("uint32", (256, 11), (16, 8), (c0, 0)) for c0 in (1, 2, 4)]
    bases = [Copy("uint16", (256, 11), (32, 4), (0, 0), span, offset=o) for span in (0, 64) for o in (16, 32, 64, 192)]
    return narrow + ranks + fills + corners + bases


def illegal() -> dict[str, Copy]:
    """Maps asked of the encoder only."""
    legal = Copy("uint16", (256, 40), (32, 8), (0, 0), 64)
    return {
        "legal": legal,
        "row beyond span": replace(legal, box=(40, 8)),
        "row of 24 bytes": replace(legal, box=(12, 8), swizzle=0),
        "box of 256": replace(legal, box=(32, 256)),
        "box of 257": replace(legal, box=(32, 257)),
        "box of 0": replace(legal, box=(32, 0)),
        "address by 8": replace(legal, address_skew=8),
        "stride by 8": replace(legal, stride_skew=8),
        "box beyond tensor": replace(legal, box=(32, 64)),
        "nan fill of integers": replace(legal, fill="nan"),
    }


def encode(copy: Copy, address: int) -> tuple[int, Any]:
    """The driver's answer and the map."""
    kind, size = TYPES[copy.dtype]
    strides: list[int] = []
    step = size
    for length in copy.shape[:-1]:
        step *= length
        step = -(-step // 16) * 16 + (copy.stride_skew if not strides else 0)
        strides.append(step)
    strides = strides or [16]  # rank 1 has none; the binding wants a list that is not empty
    result, encoded = driver.cuTensorMapEncodeTiled(
        kind,
        len(copy.shape),
        address + copy.address_skew,
        [driver.cuuint64_t(n) for n in copy.shape],
        [driver.cuuint64_t(n) for n in strides],
        [driver.cuuint32_t(n) for n in copy.box],
        [driver.cuuint32_t(1)] * len(copy.shape),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        SWIZZLES[copy.swizzle],
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
        FILLS[copy.fill],
    )
    return int(result), encoded


def tensor_bytes(copy: Copy) -> NDArray[np.uint8]:
    """The tensor's bytes: element number e counts from 1 in C order, padded rows of a multiple of 16 bytes."""
    size = TYPES[copy.dtype][1]
    count = int(np.prod(copy.shape))
    elements = np.arange(1, count + 1, dtype=np.uint64).view(np.uint8).reshape(count, 8)[:, :size]
    rows = elements.reshape(-1, copy.shape[0] * size)
    pad = -rows.shape[1] % 16
    return np.ascontiguousarray(np.pad(rows, ((0, 0), (0, pad))) if len(copy.shape) > 1 else rows)


def record_copy(module: Any, number: int, path: str) -> None:
    """Copies one box; a fault ends the process and so says which box it was."""
    copy = copies()[number]
    kernel, where = module.get_function("copy"), module.get_global("map")
    source = cupy.asarray(tensor_bytes(copy))
    result, encoded = encode(copy, source.data.ptr)
    if result:
        sys.exit(f"encoder {result}")
    held = np.frombuffer(ctypes.string_at(int(encoded.getPtr()), 128), np.uint8).copy()
    where.copy_from_host(held.ctypes.data, 128)
    out, done = cupy.zeros(MEMORY_BYTES, np.uint8), cupy.zeros(1, np.int32)
    size = int(np.prod(copy.box)) * TYPES[copy.dtype][1]
    corner = [np.int32(c) for c in (*copy.corner, 0, 0)[:3]]
    arguments = (np.int32(len(copy.box)), np.uint32(copy.offset), *corner, np.uint32(size), out, done)
    kernel((1,), (128,), arguments, shared_mem=MEMORY_BYTES + 1024)
    cupy.cuda.Device().synchronize()
    np.savez(path, memory=out.get(), complete=done.get())


def record_tma(path: str) -> None:
    """Copies every box once, each in a process of its own."""
    arrays, listing = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for number, copy in enumerate(copies()):
            part = f"{folder}/{number}.npz"
            run = subprocess.run(
                [sys.executable, __file__, "--copy", str(number), part], capture_output=True, text=True, check=False
            )
            entry: dict[str, Any] = asdict(copy)
            if run.returncode == 0:
                with np.load(part) as recorded:
                    arrays[f"case{number}"] = recorded["memory"]
                    entry |= {"error": "", "complete": int(recorded["complete"][0])}
            else:
                lines = [line for line in run.stderr.splitlines() if "CUDA" in line or "encoder" in line]
                entry["error"] = lines[0].split(": ", 1)[-1] if lines else run.stderr[-200:]
            listing.append(entry)
    scratch = cupy.zeros(1 << 16, np.uint8)
    answers = {name: encode(copy, scratch.data.ptr)[0] for name, copy in illegal().items()}
    text = json.dumps({"cases": listing, "encoder": answers})
    np.savez_compressed(path, listing=np.frombuffer(text.encode(), np.uint8), **arrays)
    sys.stdout.write("\n".join(json.dumps(entry) for entry in listing) + "\n" + json.dumps(answers) + "\n")


def patterns(width: int) -> NDArray[np.uint32]:
    """Address patterns of 32 lanes: strides, shared words in and between phases, random, and with idle lanes."""
    rng = np.random.default_rng(width)
    lane = np.arange(32)
    twins = {"by 1": lane // 2, "by 2": lane // 4 * 2 + lane % 2, "by 4": lane // 8 * 4 + lane % 4}
    chosen = [lane * stride % 16384 // width for stride in (0, width, 2 * width, 4 * width, 128, 256, 132, 136, 144)]
    chosen += [lane % group for group in (2, 4, 8, 16)] + [lane // group for group in (4, 8, 16)]
    chosen += [lane ^ mask for mask in (1, 8, 16, 31)] + list(twins.values())
    for span in (64, 128, 256, 512, 2048, 16384):
        values = max(span // width, 1)
        random = [rng.integers(0, values, 32) for _ in range(24)]
        chosen += random
        for index in twins.values():  # neighbours share an address: in every phase, in one half, in one quarter
            chosen += [random[i][index] for i in range(6)]
            for part in (lane < 16, lane >= 16, lane // 8 == 0, lane // 8 == 1, lane // 8 == 3):
                chosen += [np.where(part, random[i][index], random[i + 1]) for i in range(2)]
        mixed = [np.where(lane < 16, r[twins["by 1"]], r[twins["by 2"]]) for r in random[:6]]
        chosen += mixed
        idle = [np.where(rng.random(32) < share, IDLE, r) for share in (0.1, 0.5, 0.9) for r in random[:4] + mixed[:4]]
        chosen += [*idle, *[np.where(rng.random(32) < 0.3, IDLE, r[twins["by 1"]]) for r in random[:6]]]
    chosen += [rng.permutation(32) for _ in range(12)]
    for active in (1, 2, 8, 9, 16, 17, 24):
        chosen.append(np.where(lane < active, lane, IDLE))
    return np.array([np.where(c == IDLE, IDLE, c * width) for c in chosen], np.uint32)


def record_banks(module: Any, path: str) -> None:
    """Times every pattern, the least of five."""
    arrays: dict[str, Any] = {"repeats": np.int64(REPEATS), "warps": np.int64(WARPS)}
    for width in (4, 8, 16):
        arrays[f"addresses{width}"] = patterns(width)
        for name in ("load", "store"):
            kernel = module.get_function(f"{name}{width}")
            cycles, sink = cupy.zeros(5, np.int64), cupy.zeros(32 * WARPS, np.uint32)
            measured = []
            for addresses in cupy.asarray(patterns(width)):
                for run in range(5):
                    kernel((1,), (32 * WARPS,), (addresses, cycles[run:], sink), shared_mem=16384)
                measured.append(int(cycles.get().min()))
            arrays[f"{name}{width}"] = np.array(measured, np.int64)
    np.savez_compressed(path, **arrays)


def main() -> None:
    """Writes both files."""
    module = cupy.RawModule(code=SOURCE, options=("-std=c++17",))
    if sys.argv[1] == "--copy":
        record_copy(module, int(sys.argv[2]), sys.argv[3])
    else:
        record_banks(module, sys.argv[2])
        if sys.argv[1] != "-":
            record_tma(sys.argv[1])


if __name__ == "__main__":
    main()
