"""Run on a machine with an H200: every arithmetic opcode of the simulator on the GPU, bit for bit.

    python tests/h200/alu.py EVIDENCE.json [DIFFERENCES.npz]
    python tests/h200/alu.py --dry EVIDENCE.json     (no GPU: the simulator's functions stand in for it)

Each form that `forms.accepted_forms` finds is issued by a kernel of its own on boundary values, crossed, and on more
than 10^5 random patterns (all patterns of a lone operand of up to 16 bits). What the assembler rejects is listed. For
each rule in `alu.assumption` the elements that it decides are counted on their own.
"""

import json
import os
import pickle
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import alu_rules
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.environment import capture
from tileproof.conformance.operands import Bits, operands, probe_of, read_types
from tileproof.kernels.compile import CompiledModule, CompileError, compile_source
from tileproof.kernels.cupy_device import CupyBuffer, CupyDevice
from tileproof.kernels.opcode_probe import THREADS, Probe, probe_source, stored_bits, stored_dtype
from tileproof.simulators.ptx.alu.forms import Form, accepted_forms
from tileproof.simulators.ptx.alu.operation import arithmetic_mnemonics
from tileproof.simulators.ptx.alu.scalar import SCALARS, widen

Results = list[NDArray[Any]]
MODULE_SIZE = 64
EXAMPLES, KEPT = 3, 400


@dataclass(frozen=True)
class Item:
    """One form and the kernel that issues it; lop3 once a table."""

    form: Form
    probe: Probe

    @property
    def name(self) -> str:
        return self.probe.opcode + (f" {self.probe.immediate:#04x}" if self.probe.immediate is not None else "")


@dataclass
class Row:
    """One opcode: elements compared, elements that differ, and a few of them."""

    opcode: str
    elements: int
    different: int
    examples: list[dict[str, list[str]]] = field(default_factory=list)


@dataclass
class Judged:
    """A row, what it says about each assumption (elements decided, different ones), and differences to keep."""

    row: Row
    decided: dict[str, tuple[int, int]]
    differences: NDArray[np.uint64] | None


def items() -> list[Item]:
    found: list[Item] = []
    for mnemonic in arithmetic_mnemonics():
        for form in (form for form in accepted_forms(mnemonic) if form.operation.allowed is None):
            for table in range(256) if mnemonic == "lop3" else (None,):
                found.append(Item(form, probe_of(form, f"probe{len(found)}", table)))
    return found


Compiled = tuple[list[CompiledModule], dict[str, str]]


def compiled(chunk: Sequence[Item]) -> Compiled:
    """The modules of a chunk, halved until the assembler takes the parts; and what it says of the rest, by opcode."""
    try:
        return [compile_source(probe_source(item.probe for item in chunk), name="alu.cu")], {}
    except CompileError as error:
        if len(chunk) == 1:
            line = next((line for line in str(error).splitlines() if "error" in line), str(error)[-200:])
            return [], {chunk[0].name: line.split("error")[-1].strip(" :")}
    return joined(compiled(half) for half in halves(chunk))


def halves(chunk: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
    return chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]


def joined(parts: Iterable[Compiled]) -> Compiled:
    modules: list[CompiledModule] = []
    rejected: dict[str, str] = {}
    for taken, refused in parts:
        modules, rejected = modules + taken, rejected | refused
    return modules, rejected


def compile_apart(chunks: Sequence[Sequence[Item]]) -> Compiled:
    """Every chunk in a process of its own, for the assembler may crash; a chunk that did is halved."""
    waiting, parts = list(chunks), list[Compiled]()
    running: list[tuple[ForkProcess, Sequence[Item], Path]] = []
    with TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 1):
                chunk = waiting.pop(0)
                path = Path(folder) / chunk[0].probe.entry
                path.unlink(missing_ok=True)
                process = get_context("fork").Process(target=_compile_into, args=(path, chunk))
                process.start()
                running.append((process, chunk, path))
            time.sleep(0.01)
            for process, chunk, path in [entry for entry in running if not entry[0].is_alive()]:
                running.remove((process, chunk, path))
                if process.exitcode == 0:
                    parts.append(pickle.loads(path.read_bytes()))
                elif len(chunk) > 1:
                    waiting += halves(chunk)
                else:
                    parts.append(([], {chunk[0].name: f"the assembler ended with {process.exitcode}"}))
    return joined(parts)


def _compile_into(path: Path, chunk: Sequence[Item]) -> None:
    path.write_bytes(pickle.dumps(compiled(chunk)))


@lru_cache(maxsize=4)
def _drawn(key: str, form: Form) -> tuple[Bits, ...]:
    return operands(form, zlib.crc32(key.encode()))


def drawn(item: Item) -> tuple[Bits, ...]:
    """The elements of an opcode: the same for all that read operands of the same types."""
    key = " ".join(scalar.name for scalar in read_types(item.form))
    return _shared(key, item)[: len(item.probe.sources)]


_FORMS: dict[str, Form] = {}


def _shared(key: str, item: Item) -> tuple[Bits, ...]:
    return _drawn(key, _FORMS.setdefault(key, item.form))


def values(item: Item) -> tuple[Bits, ...]:
    """What the operation reads: each operand cut to its type, and the table of lop3."""
    cut = [bits & np.uint64(SCALARS[t].mask) for bits, t in zip(drawn(item), item.probe.sources, strict=True)]
    table = item.probe.immediate
    return tuple(cut) if table is None else (*cut[:3], np.full_like(cut[0], table), *cut[3:])


def expected(item: Item) -> Results:
    """What the simulator says that the registers hold."""
    results = item.form.operation.compute(values(item))
    types = item.probe.destinations
    return [
        widen(bits, t, stored_bits(t)).astype(stored_dtype(t)) if t not in ("pred", "carry") else bits.astype(np.uint16)
        for bits, t in zip(results, types, strict=False)  # a probe may leave the second result out
    ]


def on_gpu(modules: Sequence[CompiledModule], chosen: Sequence[Item]) -> Mapping[str, Results]:
    """The results of every entry; they are poisoned first."""
    device = CupyDevice()
    functions = {name: function for module in modules for name, function in device.load(module).items()}
    results: dict[str, Results] = {}
    held: list[CupyBuffer] = []
    key = ""
    for item in sorted(chosen, key=lambda item: [scalar.name for scalar in read_types(item.form)]):
        elements = drawn(item)
        if key != (key := " ".join(scalar.name for scalar in read_types(item.form))):
            for buffer in held:
                device.free(buffer)
            held = [
                device.upload(bits.astype(stored_dtype(t)))
                for bits, t in zip(elements, item.probe.sources, strict=True)
            ]
        count = len(elements[0])
        outputs = [device.upload(np.full(count, 0xA5A5, stored_dtype(t))) for t in item.probe.destinations]
        functions[item.probe.entry].launch(
            grid=(-(-count // THREADS), 1, 1),
            block=(THREADS, 1, 1),
            args=(*held, *[held[0]] * (4 - len(held)), *outputs, *[outputs[0]] * (2 - len(outputs)), np.uint32(count)),
        )
        results[item.probe.entry] = [output.download() for output in outputs]
        for output in outputs:
            device.free(output)
    return results


_OBSERVED: Mapping[str, Results] = {}


def judge(item: Item) -> Judged:
    """Compare one opcode."""
    right, elements = expected(item), values(item)
    observed = _OBSERVED[item.probe.entry] if _OBSERVED else right
    wrong = np.logical_or.reduce([a != b for a, b in zip(observed, right, strict=True)])
    decided = {}
    for assumption in item.form.operation.assumptions:
        mask = alu_rules.decides(assumption, item.form, elements)
        decided[assumption.text] = int(mask.sum()), int((wrong & mask).sum())
    where = np.flatnonzero(wrong)
    columns = (elements, right, observed)
    shown = where[np.linspace(0, len(where) - 1, min(EXAMPLES, len(where))).astype(int)]
    examples = [
        {name: [f"{int(c[i]):#x}" for c in column] for name, column in zip(_COLUMNS, columns, strict=True)}
        for i in shown
    ]
    kept = where[np.linspace(0, len(where) - 1, min(KEPT, len(where))).astype(int)]
    table = np.array([c[kept].astype(np.uint64) for column in columns for c in column]) if len(where) else None
    return Judged(Row(item.name, len(elements[0]), len(where), examples), decided, table)


_COLUMNS = ("operands", "expected", "observed")


def rules(judged: Sequence[Judged]) -> Iterator[dict[str, Any]]:
    """Each assumption: opcodes, elements that it decides, different ones, and the opcodes that differ."""
    for assumption in alu_rules.ASSUMPTIONS:
        mine = [(j.row.opcode, *j.decided[assumption.text]) for j in judged if assumption.text in j.decided]
        yield {
            "rule": assumption.text,
            "opcodes": len(mine),
            "elements": sum(elements for _, elements, _ in mine),
            "different": sum(different for _, _, different in mine),
            "differing_opcodes": [opcode for opcode, _, different in mine if different],
        }


_WORK: list[Callable[[], Any]] = []


def _do(number: int) -> Any:
    return _WORK[number]()


def in_processes(function: Callable[[Any], Any], work: Sequence[Any]) -> list[Any]:
    """In processes that fork, so that they see the work and this one's results; none of them touches the GPU."""
    _WORK[:] = [partial(function, piece) for piece in work]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("fork")) as pool:
        return list(pool.map(_do, range(len(work))))


def report(judged: Sequence[Judged], rejected: Mapping[str, str], compiler: str, seconds: float) -> dict[str, Any]:
    return {
        "what": "arithmetic opcodes on the GPU against Operation.compute of simulators.ptx.alu, bit for bit",
        "compiler": compiler,
        "environment": asdict(capture()),
        "seconds": round(seconds, 1),
        "opcodes": len(judged),
        "elements": sum(j.row.elements for j in judged),
        "differing_opcodes": sum(j.row.different > 0 for j in judged),
        "rules": list(rules(judged)),
        "rejected_by_the_assembler": rejected,
        "rows": [asdict(j.row) for j in judged],
    }


def text_of(evidence: dict[str, Any]) -> str:
    """JSON with one line a rule, a rejection, a row."""
    lines = []
    for key, value in evidence.items():
        parts = value.items() if key == "rejected_by_the_assembler" else value if isinstance(value, list) else None
        if parts is None:
            lines.append(f'"{key}": {json.dumps(value)}')
        elif isinstance(value, dict):
            lines.append(f'"{key}": {{\n' + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in parts) + "\n}")
        else:
            lines.append(f'"{key}": [\n' + ",\n".join(json.dumps(part) for part in parts) + "\n]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    global _OBSERVED
    dry, paths = "--dry" in sys.argv, [argument for argument in sys.argv[1:] if argument != "--dry"]
    start = time.perf_counter()
    every = list(items())
    chunks = [every[first : first + MODULE_SIZE] for first in range(0, len(every), MODULE_SIZE)]
    modules, rejected = compile_apart(chunks)
    chosen = [item for item in every if item.name not in rejected]
    sys.stdout.write(f"{len(chosen)} opcodes, {len(rejected)} rejected, {time.perf_counter() - start:.1f} s\n")
    if not dry:
        _OBSERVED = on_gpu(modules, chosen)
    sys.stdout.write(f"launched, {time.perf_counter() - start:.1f} s\n")
    chosen.sort(key=lambda item: item.form.types != ("f64",))  # the slow ones first: exact rational arithmetic
    judged: list[Judged] = in_processes(judge, chosen)
    evidence = report(judged, rejected, modules[0].compiler, time.perf_counter() - start)
    Path(paths[0]).write_text(text_of(evidence))
    if len(paths) > 1:
        arrays: dict[str, Any] = {j.row.opcode: j.differences for j in judged if j.differences is not None}
        np.savez_compressed(paths[1], **arrays)
    sys.stdout.write(
        text_of({key: value for key, value in evidence.items() if not key.startswith("re")} | {"rows": []})
    )
    sys.exit(1 if evidence["differing_opcodes"] else 0)


if __name__ == "__main__":
    main()
