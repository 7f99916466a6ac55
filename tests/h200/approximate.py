"""Run on a machine with an H200: do the brackets of the approximate functions hold there?

    python tests/h200/approximate.py EVIDENCE.json [RESULTS.npz]
    python tests/h200/approximate.py --dry EVIDENCE.json     (no GPU: compile the sweeps, judge the nominal results)

Every form with one f32 operand runs on all 2^32 patterns, every division on 2^33 pairs, every f64 form on all upper
words: on the GPU, against float64 (`approximate_sweep`). Beside it, results of all forms, the 16-bit ones on all
patterns, come back and are held bit by bit to `Operation.allowed`, special values included.
"""

import json
import os
import sys
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from approximate_sweep import BLOCKS, ROW, THREADS, Sweep, source_of

from tileproof.conformance.environment import capture
from tileproof.conformance.operands import Bits, operands, probe_of, read_types
from tileproof.kernels.compile import compile_source
from tileproof.kernels.cupy_device import CupyDevice
from tileproof.kernels.opcode_probe import THREADS as PROBE_THREADS
from tileproof.kernels.opcode_probe import probe_source, stored_dtype
from tileproof.simulators.ptx.alu.forms import Form, accepted_forms
from tileproof.simulators.ptx.alu.ieee import BINARIES, in_order
from tileproof.simulators.ptx.alu.operation import arithmetic_mnemonics
from tileproof.simulators.ptx.alu.scalar import SCALARS, unpack

PATTERNS = 1 << 32
EXTRA = 1 << 20
KEPT = 1 << 17
EXAMPLES = 8


def forms() -> list[Form]:
    every = [form for mnemonic in arithmetic_mnemonics() for form in accepted_forms(mnemonic)]
    return [form for form in every if form.operation.allowed is not None]


def sweeps() -> tuple[Sweep, ...]:
    found: list[Sweep] = []
    for form in forms():
        if form.types[0] in ("f32", "f64"):
            found.append(Sweep(form.opcode, f"sweep{len(found)}"))
            if form.mnemonic == "div":  # divisors of exponents near 0, for ordinary quotients
                found.append(Sweep(form.opcode, f"sweep{len(found)}", 0x87FFFFFF, 0x38000000))
    return tuple(found)


def swept(device: CupyDevice | None) -> list[dict[str, Any]]:
    chosen = sweeps()
    module = compile_source(source_of(chosen), name="approximate.cu")
    if device is None:
        return []
    functions, rows = device.load(module), []
    for sweep in chosen:
        buffer = device.upload(np.zeros((len(sweep.limits), len(ROW)), np.uint64))
        start = time.perf_counter()
        functions[sweep.entry].launch(
            grid=(BLOCKS, 1, 1), block=(THREADS, 1, 1), args=(buffer, np.uint64(0), np.uint64(PATTERNS))
        )
        for limit, row in zip(sweep.limits, buffer.download(), strict=True):
            rows.append(_row(sweep, limit, row, time.perf_counter() - start))
            sys.stdout.write(json.dumps(rows[-1]) + "\n")
        device.free(buffer)
    return rows


def _row(sweep: Sweep, limit: float, row: Bits, seconds: float) -> dict[str, Any]:
    worst = {}
    for name, word in zip(ROW[:3], row, strict=False):
        error = float(np.array(int(word) >> 32, np.uint32).view(np.float32))
        worst[name] = {"error": error, "at": f"{int(word) & 0xFFFFFFFF:#010x}"}
    counts = {name: int(value) for name, value in zip(ROW[3:], row[3:], strict=True)}
    near = {"divisors": "2^-15 to 2^1"} if sweep.divisor_bits else {}
    return {"opcode": sweep.opcode, "up_to": str(limit), **near, **worst, **counts, "seconds": round(seconds, 2)}


def elements(form: Form) -> tuple[Bits, ...]:
    """Boundary values, random patterns, all patterns of a lone 16-bit operand; further random ones for f32."""
    drawn = operands(form, zlib.crc32(form.opcode.encode()))
    types = read_types(form)
    if types[0].bits < 32:
        return drawn
    rng = np.random.default_rng(7)
    more = (rng.integers(0, 1 << scalar.bits, EXTRA, np.uint64) if scalar.bits < 64 else
            rng.integers(0, 1 << 63, EXTRA, np.uint64) * np.uint64(2) for scalar in types)  # fmt: skip
    return tuple(np.concatenate(pair) for pair in zip(drawn, more, strict=True))


def observed(device: CupyDevice | None, chosen: Sequence[Form], given: Sequence[tuple[Bits, ...]]) -> list[Bits]:
    probes = [probe_of(form, f"probe{number}") for number, form in enumerate(chosen)]
    if device is None:
        return [form.operation.compute(values)[0] for form, values in zip(chosen, given, strict=True)]
    functions = device.load(compile_source(probe_source(probes), name="approximate_probes.cu"))
    results = []
    for probe, values in zip(probes, given, strict=True):
        inputs = [device.upload(v.astype(stored_dtype(t))) for v, t in zip(values, probe.sources, strict=True)]
        count = len(values[0])
        output = device.upload(np.full(count, 0xA5A5, stored_dtype(probe.destinations[0])))
        functions[probe.entry].launch(
            grid=(-(-count // PROBE_THREADS), 1, 1),
            block=(PROBE_THREADS, 1, 1),
            args=(*inputs, *[inputs[0]] * (4 - len(inputs)), output, output, np.uint32(count)),
        )
        results.append(output.download().astype(np.uint64))
        for buffer in (*inputs, output):
            device.free(buffer)
    return results


def judged(form: Form, values: tuple[Bits, ...], results: Bits) -> dict[str, Any]:
    """Each lane of each result against its bracket."""
    operation = form.operation
    assert operation.allowed is not None
    scalar = SCALARS[form.types[0]]
    binary, bits = BINARIES[scalar.lane.name], scalar.bits // scalar.lanes
    low, high = operation.allowed(values, True)
    outside = np.zeros(len(results), np.bool_)
    off = 0
    for lane in zip(*(unpack(word, scalar.lanes, bits) for word in (low, results, high)), strict=True):
        below, place, above = (in_order(code, binary) for code in lane)
        outside |= (place < below) | (place > above)
    for lane in zip(*(unpack(w, scalar.lanes, bits) for w in (results, operation.compute(values)[0])), strict=True):
        got, nominal = (in_order(code, binary) for code in lane)
        finite = (lane[0] & np.uint64(binary.sign - 1)) < binary.infinity
        distance = np.where(got > nominal, got - nominal, nominal - got)[finite & ~outside]
        off = max(off, int(distance.max(initial=0)))
    where = np.flatnonzero(outside)
    shown = where[np.linspace(0, len(where) - 1, min(EXAMPLES, len(where))).astype(int)]
    examples = [
        {"operands": [f"{int(v[i]):#x}" for v in values], "result": f"{int(results[i]):#x}",
         "low": f"{int(low[i]):#x}", "high": f"{int(high[i]):#x}"} for i in shown
    ]  # fmt: skip
    return {
        "opcode": form.opcode,
        "elements": len(results),
        "outside": len(where),
        "farthest_from_nominal_codes": off,
        "decided": int((low == high).sum()),
        "examples": examples,
    }


def _kept(form: Form, results: Bits) -> Any:
    return results[:KEPT].astype(stored_dtype(form.operation.destinations[0]))


_WORK: list[tuple[Form, tuple[Bits, ...], Bits]] = []


def _judge(number: int) -> dict[str, Any]:
    return judged(*_WORK[number])


def _text(value: Any) -> str:
    """JSON, of a list one line an element."""
    return "[\n" + ",\n".join(map(json.dumps, value)) + "\n]" if isinstance(value, list) else json.dumps(value)


def main() -> None:
    dry, paths = "--dry" in sys.argv, [argument for argument in sys.argv[1:] if argument != "--dry"]
    start = time.perf_counter()
    device = None if dry else CupyDevice()
    chosen = forms()
    given = [elements(form) for form in chosen]
    results = observed(device, chosen, given)
    sys.stdout.write(f"probes: {time.perf_counter() - start:.1f} s\n")
    rows = swept(device)
    sys.stdout.write(f"sweeps: {time.perf_counter() - start:.1f} s\n")
    if len(paths) > 1:
        np.savez_compressed(paths[1], **{f.opcode: _kept(f, r) for f, r in zip(chosen, results, strict=True)})
    _WORK[:] = zip(chosen, given, results, strict=True)
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("fork")) as pool:  # none of them touches the GPU
        table = list(pool.map(_judge, range(len(_WORK))))
    evidence: dict[str, Any] = {
        "what": "approximate functions on the GPU against the brackets of simulators.ptx.alu.approximate",
        "environment": asdict(capture()),
        "seconds": round(time.perf_counter() - start, 1),
        "outside": sum(row["outside"] for row in [*rows, *table]),
        "points_inexact": sum(row["points_inexact"] for row in rows if not row["opcode"].endswith("f64")),
        "sweeps": rows,
        "elements": table,
    }
    lines = [f'"{key}": {_text(value)}' for key, value in evidence.items()]
    Path(paths[0]).write_text("{\n" + ",\n".join(lines) + "\n}\n")
    for row in table:
        sys.stdout.write(json.dumps(row) + "\n")
    sys.exit(1 if evidence["outside"] or evidence["points_inexact"] else 0)


if __name__ == "__main__":
    main()
