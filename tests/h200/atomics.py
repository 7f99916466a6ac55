"""Run on a machine with an H200: every form of `atom` on the GPU and on the CPU device, bit for bit.

    python tests/h200/atomics.py EVIDENCE.json
    python tests/h200/atomics.py --dry EVIDENCE.json     (no GPU: the CPU device twice)

Each form is a kernel of its own; each thread has a cell of its own, in global memory, in shared memory, or in either by
a generic address. Cells and operands are random patterns, boundary values, and pairs that nearly cancel.
"""

import json
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.environment import capture
from tileproof.conformance.operands import boundary
from tileproof.kernels.compile import compile_source
from tileproof.kernels.cupy_device import CupyDevice
from tileproof.simulators.ptx.alu.scalar import SCALARS
from tileproof.simulators.ptx.decoding.qualifiers import ATOMIC_TYPES, VECTOR_ATOMICS
from tileproof.simulators.ptx.device import Device

THREADS, BLOCKS, CELL = 256, 32, 16
PLACES = ("global", "shared", "generic", "generic to shared")
_HALVES = ("f16", "bf16", "f16x2", "bf16x2")
_REGISTERS = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}


@dataclass(frozen=True)
class Form:
    """One atomic: operation, element type, elements, where its cells lie."""

    name: str
    type: str
    count: int
    place: str

    @property
    def opcode(self) -> str:
        space = self.place if self.place in ("global", "shared") else ""
        noftz = "noftz" if self.type in _HALVES else ""
        vector = f"v{self.count}" if self.count > 1 else ""
        return ".".join(word for word in ("atom", space, self.name, noftz, vector, self.type) if word)


def forms() -> Iterator[Form]:
    for name, types in ATOMIC_TYPES.items():
        for type_ in types:
            yield from (Form(name, type_, 1, place) for place in PLACES)
    for type_, pairs in VECTOR_ATOMICS.items():
        for name, count in pairs:
            yield from (Form(name, type_, count, place) for place in ("global", "generic"))


def kernel(form: Form, entry: str) -> str:
    """Cells in and out, two operands a thread (32 bytes), what each thread got back."""
    register = _REGISTERS.get(form.type, form.type)
    names = {letter: [f"{letter}{n}" for n in range(form.count)] for letter in "abr"}
    vector = {k: v[0] if form.count == 1 else "{" + ", ".join(v) + "}" for k, v in names.items()}
    operands = f"{vector['a']}, {vector['b']}" if form.name == "cas" else vector["a"]
    places = {"a": 0, "b": CELL}
    moves = {
        letter: "".join(
            f"ld.global.{register} {n}, [%1+{place + k * _bytes(form)}]; " for k, n in enumerate(names[letter])
        )
        for letter, place in places.items()
    }
    result = "".join(f"st.global.{register} [%2+{k * _bytes(form)}], {n}; " for k, n in enumerate(names["r"]))
    shared = "shared" in form.place
    cell = "&s[threadIdx.x]" if shared else "cells + i"
    address = f'"r"((unsigned)__cvta_generic_to_shared({cell}))' if form.place == "shared" else f'"l"({cell})'
    declared = f".reg .{register} " + ", ".join(name for letter in "abr" for name in names[letter])
    return f"""
extern "C" __global__ void {entry}(uint4* cells, const uint4* operands, uint4* results) {{
    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;
    {"__shared__ uint4 s[256]; s[threadIdx.x] = cells[i];" if shared else ""}
    asm volatile("{{ {declared}; {moves["a"]} {moves["b"] if form.name == "cas" else ""} "
                 "{form.opcode} {vector["r"]}, [%0], {operands}; {result}}}"
                 :: {address}, "l"(operands + 2 * i), "l"(results + i) : "memory");
    {"cells[i] = s[threadIdx.x];" if shared else ""}
}}
"""


def _bytes(form: Form) -> int:
    return 16 if form.type == "b128" else SCALARS[form.type].bits // 8


def patterns(form: Form) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Cells [threads, 16] and operands [threads, 32] as bytes."""
    rng = np.random.default_rng(zlib.crc32(f"{form.name}.{form.type}.{form.count}".encode()))
    size, threads = min(_bytes(form), 8), THREADS * BLOCKS
    dtype = np.dtype(f"u{size}")
    cells = rng.integers(0, 1 << (8 * size), (threads, CELL // size), np.uint64).astype(dtype)
    operands = rng.integers(0, 1 << (8 * size), (threads, 2 * CELL // size), np.uint64).astype(dtype)
    if form.type != "b128":
        telling = boundary(SCALARS[form.type]).astype(dtype)
        for array in (cells, operands):
            chosen = rng.random(array.shape) < 0.6
            array[chosen] = rng.choice(telling, int(chosen.sum()))
    half = slice(0, CELL // size)
    same = rng.random(threads) < 0.3  # equal for compare-and-swap, cancelling for sums
    operands[same, half] = cells[same]
    if SCALARS.get(form.type, SCALARS["b8"]).is_float:
        operands[same, half] ^= dtype.type(1 << (8 * size - 1))
    return cells.view(np.uint8), operands.view(np.uint8)


def outcome(device: Any, function: Any, form: Form) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    cells, operands = patterns(form)
    held, given, results = (device.upload(a) for a in (cells, operands, np.zeros_like(cells)))
    function.launch(grid=(BLOCKS, 1, 1), block=(THREADS, 1, 1), args=(held, given, results))
    after, old = held.download(), results.download()
    for buffer in (held, given, results):
        device.free(buffer)
    return after, old


def main() -> None:
    dry, paths = "--dry" in sys.argv, [argument for argument in sys.argv[1:] if argument != "--dry"]
    start = time.perf_counter()
    every = list(forms())
    module = compile_source("\n".join(kernel(form, f"a{n}") for n, form in enumerate(every)), name="atomics.cu")
    simulated = Device()
    real: Any = Device() if dry else CupyDevice()
    here, there = simulated.load(module), real.load(module)
    rows = []
    for n, form in enumerate(every):
        expected, observed = outcome(simulated, here[f"a{n}"], form), outcome(real, there[f"a{n}"], form)
        used = form.count * _bytes(form)
        wrong = np.logical_or.reduce([(a != b)[:, :used].any(axis=1) for a, b in zip(expected, observed, strict=True)])
        row: dict[str, Any] = {
            "opcode": form.opcode,
            "place": form.place,
            "elements": len(wrong),
            "different": int(wrong.sum()),
        }
        if wrong.any():
            cells, operands = patterns(form)
            columns = {"cell": cells, "operand": operands, "expected": expected[0], "observed": observed[0]}
            first = np.flatnonzero(wrong)[:3]
            row["examples"] = [{k: v[i, :used].tobytes()[::-1].hex() for k, v in columns.items()} for i in first]
        rows.append(row)
    evidence = {
        "what": "atomics on the GPU against the CPU device, one cell a thread: cell and old value, bit for bit",
        "compiler": module.compiler,
        "environment": asdict(capture()),
        "seconds": round(time.perf_counter() - start, 1),
        "forms": len(rows),
        "elements": sum(row["elements"] for row in rows),
        "differing_forms": sum(row["different"] > 0 for row in rows),
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in evidence.items()]
    table = ",\n".join(json.dumps(row) for row in rows)
    Path(paths[0]).write_text("{\n" + ",\n".join(lines) + ',\n"rows": [\n' + table + "\n]\n}\n")
    sys.stdout.write("\n".join([*lines, *(json.dumps(row) for row in rows if row["different"]), ""]))
    sys.exit(1 if evidence["differing_forms"] else 0)


if __name__ == "__main__":
    main()
