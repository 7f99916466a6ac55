"""Run on a machine with an H200: every matrix instruction of sm_90 against the oracle, bit for bit.

    python tests/h200/matrix_unit.py EVIDENCE.json [OUTPUTS]

Each instruction computes OUTPUTS (10^7 unless given) elements of D on random and adversarial tiles, generated and
answered by worker processes while the GPU runs. Before that, two probes: operands of small integers, whose result is
exact, show that fragments and descriptors are right; and probe H4 finds the exponent that a zero counts with
(`least_exponent`).
"""

import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.environment import capture
from tileproof.conformance.matrix_inputs import MatrixInputs, generate
from tileproof.kernels.cupy_device import CupyDevice
from tileproof.kernels.device import Device
from tileproof.kernels.matrix_probe import MatrixProbe
from tileproof.oracle.formats import FLOAT32, FloatFormat
from tileproof.oracle.matrix_unit import describe, multiply_add, run_unit
from tileproof.oracle.units.instruction import Family, Instruction, parse_instruction
from tileproof.oracle.units.matrix_operands import check_operands, values_of
from tileproof.oracle.units.operand import OperandType
from tileproof.oracle.units.unit import FusedSum, LateSum, Unit
from tileproof.oracle.units.unit_table import ENTRIES

Array = NDArray[Any]

ARCHITECTURE = "sm_90a"
#: The release that NVRTC belongs to; its assembler expands the 8-bit `mma`.
ASSEMBLER = "13.0"
OUTPUTS = 10_000_000
#: Elements of D that a worker prepares at a time.
BATCH_OUTPUTS = 1 << 20
EXAMPLES = 5


@dataclass
class Comparison:
    """One instruction: counts of elements of D, and what they were like."""

    instruction: str
    unit: str
    outputs: int = 0
    different: int = 0
    nan: int = 0
    infinite: int = 0
    zero: int = 0
    #: Elements that a unit with one fraction bit fewer or more would give other bits for: 0 would prove nothing.
    told_from_one_bit_fewer: int = 0
    told_from_one_bit_more: int = 0
    output_sha256: str = ""
    examples: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Batch:
    """What a worker prepares: operands and the oracle's answers."""

    inputs: MatrixInputs
    d: Array
    fewer: int
    more: int


def main() -> None:
    device, start = CupyDevice(), time.perf_counter()
    outputs = int(sys.argv[2]) if len(sys.argv) > 2 else OUTPUTS
    evidence = collect(device, instructions(), outputs, workers=max(1, (os.cpu_count() or 2) - 1))
    evidence |= {"environment": asdict(capture()), "seconds": round(time.perf_counter() - start, 1)}
    text = json.dumps(evidence, indent=1, default=str) + "\n"
    Path(sys.argv[1]).write_text(text)
    sys.stdout.write(text)
    sys.exit(0 if agrees(evidence) else 1)


def instructions() -> list[Instruction]:
    """Every `mma` of m16n8 and `wgmma` of m64n8 that the table has for sm_90, f64 excepted (no compiled twin)."""
    found = [
        instruction
        for entry in ENTRIES
        if "sm_90" in entry.architectures and entry.family in (Family.MMA, Family.WGMMA)
        for instruction in entry.instructions()
        if (instruction.shape.m, instruction.shape.n) in ((16, 8), (64, 8)) and instruction.accumulator != "f64"
    ]
    return list(dict.fromkeys(found))


def collect(device: Device, chosen: Sequence[Instruction], outputs: int, workers: int) -> dict[str, Any]:
    """All probes and comparisons, as the evidence file has them."""
    probe = MatrixProbe(device, chosen)
    layouts = {instruction.name: layout_is_right(probe, instruction) for instruction in chosen}
    return {
        "what": "matrix instructions of sm_90 on the GPU against oracle.matrix_unit.multiply_add, bit for bit",
        "compiler": probe.module.compiler,
        "kernel_source_sha256": probe.module.source_sha256,
        "small integers exact": layouts,
        "H4": [least_exponent(probe, instruction) for instruction in chosen if has_zero_probe(instruction)],
        "comparisons": [asdict(comparison) for comparison in compare_all(probe, chosen, outputs, workers)],
    }


def agrees(evidence: dict[str, Any]) -> bool:
    """Whether every probe and every element came out as the oracle says."""
    return (
        all(evidence["small integers exact"].values())
        and all(found["observed"] == found["oracle"] for found in evidence["H4"])
        and all(comparison["different"] == 0 for comparison in evidence["comparisons"])
    )


# Comparison


def compare_all(probe: MatrixProbe, chosen: Sequence[Instruction], outputs: int, workers: int) -> Iterator[Comparison]:
    """One comparison an instruction; workers stay ahead of the GPU."""
    tasks = [
        (instruction.name, seed, tiles_of(instruction, outputs))
        for instruction in chosen
        for seed in range(batches(instruction, outputs))
    ]
    with prepared(tasks, workers) as batch:
        for instruction in chosen:
            unit = describe(instruction.name, arch=ARCHITECTURE, assembler=ASSEMBLER).unit
            comparison, digest = Comparison(instruction.name, str(unit)), hashlib.sha256()
            for _ in range(batches(instruction, outputs)):
                compare(probe, instruction, next(batch), comparison, digest)
            comparison.output_sha256 = digest.hexdigest()
            yield comparison


@contextmanager
def prepared(tasks: Sequence[tuple[str, int, int]], workers: int) -> Iterator[Iterator[Batch]]:
    """The batches of all tasks in order; without workers they are made here, one when it is asked for."""
    if not workers:
        yield map(prepare, tasks)
        return
    prepare((tasks[0][0], 0, 1))  # compiles the oracle once, for all workers
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the workers use every core
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield pool.imap(prepare, tasks)


def batches(instruction: Instruction, outputs: int) -> int:
    """Batches that together have at least this many outputs."""
    return -(-outputs // (tiles_of(instruction, outputs) * instruction.shape.m * instruction.shape.n))


def tiles_of(instruction: Instruction, outputs: int) -> int:
    """Tiles of one batch."""
    return -(-min(outputs, BATCH_OUTPUTS) // (instruction.shape.m * instruction.shape.n))


def prepare(task: tuple[str, int, int]) -> Batch:
    """Operands of one batch and the oracle's D; run in a worker. The task: instruction, seed, tiles."""
    name, seed, tiles = task
    instruction = parse_instruction(name)
    seeds = np.random.SeedSequence([seed, int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])])
    inputs = generate(instruction, tiles, np.random.default_rng(seeds))
    d = multiply_add(name, inputs.a, inputs.b, inputs.c, arch=ARCHITECTURE, assembler=ASSEMBLER)
    fewer, more = (told_apart(instruction, inputs, d, bits) for bits in (-1, 1))
    return Batch(inputs, d, fewer, more)


def told_apart(instruction: Instruction, inputs: MatrixInputs, d: Array, bits: int) -> int:
    """Elements that a unit with other fraction bits would give other bits for."""
    unit = widened(describe(instruction.name, arch=ARCHITECTURE, assembler=ASSEMBLER).unit, bits)
    if unit is None:
        return 0
    operands = check_operands(instruction, inputs.a, inputs.b, inputs.c, None, None)
    other = values_of(instruction, run_unit(unit, instruction, operands), operands.shape)
    return int((bits_of(other) != bits_of(d)).sum())


def widened(unit: Unit, bits: int) -> Unit | None:
    """The unit with so many fraction bits more; None for one that has none."""
    match unit:
        case FusedSum():
            return replace(unit, fraction_bits=unit.fraction_bits + bits)
        case LateSum():
            return replace(unit, unit=replace(unit.unit, fraction_bits=unit.unit.fraction_bits + bits))
    return None


def compare(probe: MatrixProbe, instruction: Instruction, batch: Batch, comparison: Comparison, digest: Any) -> None:
    """Run one batch and count."""
    inputs = batch.inputs
    observed = probe.run(instruction, inputs.a, inputs.b, inputs.c)
    digest.update(observed.tobytes())
    wrong = bits_of(observed) != bits_of(batch.d)
    comparison.outputs += observed.size
    comparison.different += int(wrong.sum())
    comparison.told_from_one_bit_fewer += batch.fewer
    comparison.told_from_one_bit_more += batch.more
    comparison.zero += int((observed == 0).sum())
    if observed.dtype.kind == "f":
        comparison.nan += int(np.isnan(observed).sum())
        comparison.infinite += int(np.isinf(observed).sum())
    for tile, row, column in np.argwhere(wrong)[: EXAMPLES - len(comparison.examples)].tolist():
        comparison.examples.append(
            {
                "a": inputs.a[tile, row].tolist(),
                "b": inputs.b[tile, column].tolist(),
                "c": hex(int(bits_of(inputs.c)[tile, row, column])),
                "gpu": hex(int(bits_of(observed)[tile, row, column])),
                "oracle": hex(int(bits_of(batch.d)[tile, row, column])),
            }
        )


def bits_of(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}")


# Probes


def layout_is_right(probe: MatrixProbe, instruction: Instruction) -> bool:
    """Small integers, each element different enough to tell a wrong place: the sum is exact in every unit."""
    m, n, k = instruction.shape.m, instruction.shape.n, instruction.shape.k
    random = np.random.default_rng(4)
    a, b = (random.integers(0, 4, (1, size, k)) for size in (m, n))
    c = random.integers(0, 8, (1, m, n))
    x, y = encode(instruction.a, a.astype(np.float64)), encode(instruction.b, b.astype(np.float64))
    accumulators = c.astype({"f32": np.float32, "f16": np.float16, "s32": np.int32}[instruction.accumulator])
    d = probe.run(instruction, x, y, accumulators)
    return bool((d.astype(np.float64) == a @ b.swapaxes(1, 2) + c).all())


def encode(operand: OperandType, values: NDArray[np.float64]) -> Array:
    """Raw codes of values that the operand type holds exactly."""
    if operand.record is None:
        return values.astype(operand.code_dtype)
    record = FLOAT32 if operand.name == "tf32" else operand.record
    assert isinstance(record, FloatFormat), "every type of sm_90 but tf32 converts"
    return np.asarray(record.encode(values), operand.code_dtype)


def has_zero_probe(instruction: Instruction) -> bool:
    """Whether products of the operand type can be small enough for the exponent of a zero to matter."""
    return (instruction.accumulator, instruction.a.name) in (("f16", "f16"), ("f32", "bf16"), ("f32", "tf32"))


#: N = 2^j - 1 as a product of two significands of at most 8 bits.
_FACTORS = {1: (1, 1), 2: (3, 1), 3: (7, 1), 4: (15, 1), 5: (31, 1), 6: (63, 1), 7: (127, 1), 8: (255, 1)}
_FACTORS |= {9: (73, 7), 10: (33, 31), 11: (89, 23), 12: (65, 63)}


def least_exponent(probe: MatrixProbe, instruction: Instruction) -> dict[str, Any]:
    """H4: with C = 0, the smallest 2^q that still counts beside a product just below a visible one.

    float16: 2^-25 is a tie and gives 0; any 2^q that is kept beside it gives 0x0001. float32: N · 2^q with
    N = 2^(-149-q) - 1 is one unit short of 2^-149, the smallest result; 2^q that is kept beside it completes it. Both
    products lie below the exponent of a zero, so the terms are cut at 2^(least exponent - fraction bits).
    """
    half = instruction.accumulator == "f16"
    exponents = range(-28, -49, -1) if half else range(-150, -162, -1)
    places = [(0, 1), (1, 0), (0, instruction.shape.k - 1)]
    kept: dict[str, list[int]] = {"observed": [], "oracle": []}
    for first, second in places:
        inputs = zero_probe(instruction, exponents, first, second)
        oracle = multiply_add(instruction.name, inputs.a, inputs.b, inputs.c, arch=ARCHITECTURE, assembler=ASSEMBLER)
        observed = probe.run(instruction, inputs.a, inputs.b, inputs.c)
        for name, d in (("observed", observed), ("oracle", oracle)):
            visible = [q for q, value in zip(exponents, bits_of(d)[:, 0, 0], strict=True) if value == 1]
            kept[name].append(min(visible, default=0))
    return {"instruction": instruction.name, "places": places, **kept}


def zero_probe(instruction: Instruction, exponents: Sequence[int], first: int, second: int) -> MatrixInputs:
    """One tile a q, two products in row 0, column 0."""
    m, n, k = instruction.shape.m, instruction.shape.n, instruction.shape.k
    half = instruction.accumulator == "f16"
    a, b = np.zeros((len(exponents), m, k)), np.zeros((len(exponents), n, k))
    for tile, q in enumerate(exponents):
        x, y = (1, 1) if half else _FACTORS[-149 - q]
        base = -25 if half else q
        a[tile, 0, first], b[tile, 0, first] = np.ldexp(x, base // 2), np.ldexp(y, base - base // 2)
        a[tile, 0, second], b[tile, 0, second] = np.ldexp(1.0, q // 2), np.ldexp(1.0, q - q // 2)
    dtype = np.float16 if half else np.float32
    return MatrixInputs(encode(instruction.a, a), encode(instruction.b, b), np.zeros((len(exponents), m, n), dtype))


if __name__ == "__main__":
    main()
