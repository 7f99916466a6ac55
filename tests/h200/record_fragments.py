"""Run on a machine with an H200: record who holds which matrix element, and where wgmma reads shared memory.

    python tests/h200/record_fragments.py FRAGMENTS.npz

Operands are small random integers, so every product is exact and a wrong place shows as a wrong sum. Recorded are the
registers before and after each mma, ldmatrix, stmatrix and movmatrix, and for wgmma the shared memory, the descriptors
and the accumulators. Needs nvcc and CuPy only.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

MEMORY_BYTES = 65536

#: PTX shape and types to registers of A, B and C.
MMA = {
    "m16n8k16.row.col.f32.f16.f16.f32": (4, 2, 4),
    "m16n8k8.row.col.f32.f16.f16.f32": (2, 1, 4),
    "m16n8k16.row.col.f16.f16.f16.f16": (4, 2, 2),
    "m16n8k16.row.col.f32.bf16.bf16.f32": (4, 2, 4),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (4, 2, 4),
    "m16n8k4.row.col.f32.tf32.tf32.f32": (2, 1, 4),
    "m16n8k32.row.col.f32.e4m3.e4m3.f32": (4, 2, 4),
    "m16n8k16.row.col.f32.e4m3.e4m3.f32": (2, 1, 4),
    "m8n8k16.row.col.s32.s8.s8.s32": (1, 1, 2),
    "m16n8k16.row.col.s32.s8.s8.s32": (2, 1, 4),
    "m16n8k32.row.col.s32.s8.s8.s32": (4, 2, 4),
    "m8n8k32.row.col.s32.s4.s4.s32": (1, 1, 2),
    "m16n8k32.row.col.s32.s4.s4.s32": (2, 1, 4),
    "m16n8k64.row.col.s32.s4.s4.s32": (4, 2, 4),
    "m16n8k256.row.col.s32.b1.b1.s32.and.popc": (4, 2, 4),
}
#: wgmma with A in registers (R) or by descriptor (S): name, N, K, D type, operand type, registers of D, immediates.
WGMMA = {
    **{f"f16_ss_{ta}{tb}": ("S", 16, 16, "f32", "f16", 8, f", 1, 1, {ta}, {tb}") for ta in (0, 1) for tb in (0, 1)},
    "tf32_ss": ("S", 16, 8, "f32", "tf32", 8, ", 1, 1"),
    "s8_ss": ("S", 16, 32, "s32", "s8", 8, ""),
    "f16_rs": ("R", 40, 16, "f32", "f16", 20, ", 1, 1, 0"),
    "f16_rs_f16": ("R", 24, 16, "f16", "f16", 6, ", 1, 1, 0"),
    "tf32_rs": ("R", 16, 8, "f32", "tf32", 8, ", 1, 1"),
    "s8_rs": ("R", 256, 32, "s32", "s8", 128, ""),
    "e4m3_rs": ("R", 96, 32, "f32", "e4m3", 48, ", 1, 1"),
    "f16_ss_256": ("S", 256, 16, "f32", "f16", 128, ", 1, 1, 0, 1"),
}
MOVES = {
    f"{op}.m8n8.x{count}{trans}": (op, count, trans)
    for op in ("ldmatrix", "stmatrix")
    for count in (1, 2, 4)
    for trans in ("", ".trans")
}


def listed(first: int, count: int) -> str:
    """PTX operands %first, %first+1, .."""
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def mma_source(name: str, number: int) -> str:
    """One warp: registers in, registers out."""
    a, b, c = MMA[name]
    outputs = ", ".join(f'"+r"(d[{i}])' for i in range(c))
    inputs = ", ".join([f'"r"(in[{i}])' for i in range(a + b)])
    operands = ", ".join([listed(0, c), listed(c, a), listed(c + a, b), listed(0, c)])
    return f"""
extern "C" __global__ void mma{number}(const unsigned* words, unsigned* out) {{
  unsigned in[{a + b}], d[{c}] = {{}};
  for (int i = 0; i < {a + b}; ++i) in[i] = words[threadIdx.x * {a + b} + i];
  asm volatile("mma.sync.aligned.{name} {operands};" : {outputs} : {inputs});
  for (int i = 0; i < {c}; ++i) out[threadIdx.x * {c} + i] = d[i];
}}"""


def wgmma_source(name: str) -> str:
    """One warpgroup: shared memory, registers of A and descriptors relative to the memory in, accumulators out."""
    where, n, k, kind, operand, count, immediates = WGMMA[name]
    outputs = ", ".join(f'"+r"(d[{i}])' for i in range(count))
    a = listed(count, 4) if where == "R" else f"%{count}"
    inputs = ", ".join(f'"r"(a[{i}])' for i in range(4)) if where == "R" else '"l"(desc_a)'
    b = count + (4 if where == "R" else 1)
    return f"""
extern "C" __global__ void {name}(const uint4* image, const unsigned* words, unsigned long long desc_a,
                                  unsigned long long desc_b, unsigned* out) {{
  extern __shared__ unsigned char raw[];
  unsigned start = (unsigned)__cvta_generic_to_shared(raw), base = (start + 1023u) & ~1023u;
  uint4* memory = (uint4*)(raw + (base - start));
  for (unsigned i = threadIdx.x; i < {MEMORY_BYTES} / 16; i += 128) memory[i] = image[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  desc_a += base >> 4; desc_b += base >> 4;
  unsigned a[4], d[{count}] = {{}};
  for (int i = 0; i < 4; ++i) a[i] = words[threadIdx.x * 4 + i];
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n{n}k{k}.{kind}.{operand}.{operand} "
               "{listed(0, count)}, {a}, %{b}, 0{immediates};" : {outputs} : {inputs}, "l"(desc_b));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < {count}; ++i) {{ asm volatile("" : "+r"(d[i]) :: "memory"); }}
  for (int i = 0; i < {count}; ++i) out[threadIdx.x * {count} + i] = d[i];
}}"""


def move_source(name: str, number: int) -> str:
    """One warp: 512 bytes of shared memory and registers in, both out."""
    op, count, trans = MOVES[name]
    form = f"{op}.sync.aligned.m8n8.x{count}{trans}.shared.b16"
    load = op == "ldmatrix"
    text = f"{form} {listed(0, count)}, [%{count}];" if load else f"{form} [%{count}], {listed(0, count)};"
    registers = ", ".join(f'"+r"(d[{i}])' for i in range(count))
    return f"""
extern "C" __global__ void move{number}(const unsigned* image, const unsigned* rows, unsigned* words,
                                        unsigned* after) {{
  __shared__ __align__(16) unsigned memory[128];
  unsigned d[{count}];
  for (int i = 0; i < 4; ++i) memory[threadIdx.x * 4 + i] = image[threadIdx.x * 4 + i];
  for (int i = 0; i < {count}; ++i) d[i] = words[threadIdx.x * {count} + i];
  __syncwarp();
  unsigned address = (unsigned)__cvta_generic_to_shared(memory) + 16 * rows[threadIdx.x];
  asm volatile("{text}" : {registers} : "r"(address) : "memory");
  __syncwarp();
  for (int i = 0; i < {count}; ++i) words[threadIdx.x * {count} + i] = d[i];
  for (int i = 0; i < 4; ++i) after[threadIdx.x * 4 + i] = memory[threadIdx.x * 4 + i];
}}"""


MOVMATRIX = """
extern "C" __global__ void movmatrix(unsigned* words) {
  unsigned d, a = words[threadIdx.x];
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
  words[threadIdx.x] = d;
}"""


def source() -> str:
    """The whole CUDA file."""
    kernels = [mma_source(name, number) for number, name in enumerate(MMA)]
    kernels += [move_source(name, number) for number, name in enumerate(MOVES)]
    return "\n".join([*kernels, *map(wgmma_source, WGMMA), MOVMATRIX])


def small(rng: np.random.Generator, kind: str, count: int) -> NDArray[np.uint32]:
    """Words full of small integers of a type, exact in every sum."""
    if kind == "tf32":
        return rng.integers(-8, 9, count).astype(np.float32).view(np.uint32)
    if kind == "f16":
        return rng.integers(-8, 9, 2 * count).astype(np.float16).view(np.uint32)
    if kind == "bf16":
        high = rng.integers(-8, 9, 2 * count).astype(np.float32).view(np.uint32) >> 16
        return high.astype(np.uint16).view(np.uint32)
    if kind == "e4m3":  # -8, -4, .., 8: codes of one mantissa
        return rng.choice([0x00, 0x38, 0x40, 0x48, 0x50, 0xB8, 0xC0, 0xC8, 0xD0], 4 * count).astype(np.uint8).view("u4")
    return rng.integers(0, 1 << 32, count, dtype=np.uint32)


@dataclass(frozen=True)
class Tiles:
    """One wgmma of two descriptors, addresses relative to the memory."""

    kernel: str
    start_a: int
    leading_a: int
    stride_a: int
    span_a: int
    base_a: int
    start_b: int
    leading_b: int
    stride_b: int
    span_b: int
    base_b: int

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Both as 64-bit values."""
        return tuple(
            start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | base << 49 | (0, 128, 64, 32).index(span) << 62
            for start, leading, stride, span, base in (
                (self.start_a, self.leading_a, self.stride_a, self.span_a, self.base_a),
                (self.start_b, self.leading_b, self.stride_b, self.span_b, self.base_b),
            )
        )


def tiles() -> Iterator[Tiles]:
    """Every swizzle and majorness; aligned starts, starts inside a pattern, odd strides, base offsets."""
    rng = np.random.default_rng(3)
    kernels = [name for name, form in WGMMA.items() if form[0] == "S" and form[1] == 16]
    for kernel in kernels:
        for span in (0, 32, 64, 128):
            for family in ("aligned", "inside", "odd", "base", "both"):
                sides = []
                for _ in range(2):
                    start = int(rng.integers(0, 8)) * 1024
                    leading, stride = (int(x) * 1024 for x in rng.permutation(np.arange(1, 6))[:2])
                    base = 0
                    if family in ("inside", "both"):
                        start += int(rng.integers(1, 64)) * 16
                    if family == "odd":
                        leading, stride = leading + int(rng.integers(64)) * 16, stride + int(rng.integers(64)) * 16
                    if family in ("base", "both") and span:
                        base = int(rng.integers(1, 8))
                        start += 128 * base if family == "base" else 0
                    sides += [start, leading, stride, span, base]
                yield Tiles(kernel, *sides)


def record_registers(module: Any, arrays: dict[str, Any]) -> None:
    """Every mma, and every move with a shuffled order of rows."""
    rng = np.random.default_rng(1)
    for number, name in enumerate(MMA):
        a, b, c = MMA[name]
        kind = name.split(".")[4]
        words = small(rng, kind, 32 * (a + b))
        out = cupy.zeros(32 * c, np.uint32)
        module.get_function(f"mma{number}")((1,), (32,), (cupy.asarray(words), out))
        arrays[f"mma.{name}.in"], arrays[f"mma.{name}.out"] = words.reshape(32, -1), out.get().reshape(32, -1)
    for number, (name, (_, count, _)) in enumerate(MOVES.items()):
        image, words = (rng.integers(0, 1 << 32, n, dtype=np.uint32) for n in (128, 32 * count))
        rows = rng.permutation(32).astype(np.uint32)
        held, after = cupy.asarray(words), cupy.zeros(128, np.uint32)
        module.get_function(f"move{number}")((1,), (32,), (cupy.asarray(image), cupy.asarray(rows), held, after))
        parts = {"image": image, "rows": rows, "before": words.reshape(32, -1)}
        parts |= {"after": held.get().reshape(32, -1), "memory": after.get()}
        arrays |= {f"{name}.{part}": value for part, value in parts.items()}
    words = rng.integers(0, 1 << 32, 32, dtype=np.uint32)
    held = cupy.asarray(words)
    module.get_function("movmatrix")((1,), (32,), (held,))
    arrays["movmatrix.before"], arrays["movmatrix.after"] = words, held.get()


def run_wgmma(module: Any, name: str, image: Any, words: Any, descriptors: tuple[int, ...]) -> NDArray[np.uint32]:
    """The accumulators [128, registers]."""
    kernel, count = module.get_function(name), WGMMA[name][5]
    kernel.max_dynamic_shared_size_bytes = MEMORY_BYTES + 1024
    out = cupy.zeros(128 * count, np.uint32)
    first, second = (np.uint64(bits) for bits in descriptors)
    kernel((1,), (128,), (image, words, first, second, out), shared_mem=MEMORY_BYTES + 1024)
    accumulators: NDArray[np.uint32] = out.get().reshape(128, count)
    return accumulators


def record_wgmma(module: Any, arrays: dict[str, Any]) -> None:
    """A in registers against a plain B, then pairs of descriptors over one random memory."""
    rng = np.random.default_rng(2)
    images = {kind: small(rng, kind, MEMORY_BYTES // 4) for kind in ("f16", "tf32", "s8", "e4m3")}
    arrays |= {f"image.{kind}": image for kind, image in images.items()}
    held = {kind: cupy.asarray(image) for kind, image in images.items()}
    plain = 8 | 8 << 16 | 16 << 32  # K-major, no swizzle: start 128, leading 128, stride 256
    for name, (where, n, _, _, kind, _, _) in WGMMA.items():
        if where == "S" and n == 16:
            continue
        words = small(rng, kind, 512)
        b = plain if where == "R" else 0 | 64 << 16 | 256 << 32 | 1 << 62  # N-major, 128 bytes
        arrays[f"{name}.a"] = words.reshape(128, 4)
        arrays[f"{name}.d"] = run_wgmma(module, name, held[kind], cupy.asarray(words), (plain, b))
    unused = cupy.zeros(512, np.uint32)
    listing, results = list(tiles()), []
    for case in listing:
        results.append(run_wgmma(module, case.kernel, held[WGMMA[case.kernel][4]], unused, case.descriptors))
    values = [
        d.view(np.int32) if "s8" in c.kernel else d.view(np.float32) for c, d in zip(listing, results, strict=True)
    ]
    arrays["tiles.d"] = np.stack([np.asarray(v, np.float64) for v in values]).astype(np.int32)
    arrays["tiles"] = np.frombuffer(json.dumps([asdict(case) for case in listing]).encode(), np.uint8)


def main() -> None:
    """Compiles, runs and writes the file."""
    with tempfile.TemporaryDirectory() as folder:
        text, cubin = Path(folder, "k.cu"), Path(folder, "k.cubin")
        text.write_text(source())
        subprocess.run(["nvcc", "-arch=sm_90a", "-cubin", "-o", cubin, text], check=True)
        module = cupy.RawModule(path=str(cubin))
        arrays: dict[str, Any] = {}
        record_registers(module, arrays)
        record_wgmma(module, arrays)
        cupy.cuda.Device().synchronize()
    np.savez_compressed(sys.argv[1], **arrays)
    sys.stdout.write(f"{len(arrays)} arrays\n")


if __name__ == "__main__":
    main()
