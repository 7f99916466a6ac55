"""Run on a machine with an H200: random programs on the GPU and on the simulator, every output byte.

python tests/fuzz/on_gpu.py EVIDENCE.json [PROGRAMS [FIRST_SEED]]

The programs use the arithmetic that alu.json shows to be equal; the driver assembles their PTX.
"""

import hashlib
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import cupy
import numpy as np
from outcome import Coordinates, Outcome, outcome
from random_program import CELLS, OUTPUT_BYTES, RandomProgram, random_program

from tileproof.conformance.environment import capture
from tileproof.conformance.records import to_json

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence" / "h200-2026-11-30"
MEASURED = EVIDENCE / "alu.json"
# Without what follows the opcode in a row: the table of a lop3.
MEASURED_OPCODES = frozenset(row["opcode"].split()[0] for row in json.loads(MEASURED.read_text())["rows"])


def program_of(seed: int) -> RandomProgram:
    return random_program(seed, measured=MEASURED_OPCODES)


def simulated(seed: int) -> Outcome:
    return outcome(program_of(seed), Coordinates("fast", "friendly", seed), seed)


def on_gpu(program: RandomProgram, seed: int) -> tuple[bytes, bytes]:
    """Output and cells of the program on the GPU."""
    module = cupy.cuda.function.Module()
    module.load(program.text.encode() + b"\0")
    output = cupy.zeros(program.blocks * program.threads * OUTPUT_BYTES, cupy.uint8)
    words, cells = cupy.asarray(program.input_words(seed)), cupy.zeros(6 * CELLS, cupy.uint32)
    arguments = (np.uint64(output.data.ptr), np.uint64(words.data.ptr), np.uint64(cells.data.ptr))
    module.get_function("k")((program.blocks,), (program.threads,), arguments)
    return cupy.asnumpy(output).tobytes(), cupy.asnumpy(cells).tobytes()


class Judgement(NamedTuple):
    """What differs (empty for nothing), the simulator's output bytes and the opcodes of the program."""

    difference: str
    output: bytes
    opcodes: frozenset[str]


def judge(seed: int) -> Judgement:
    program, expected = program_of(seed), simulated(seed)
    opcodes = frozenset(line.split()[0] for line in program.text.splitlines() if line.strip())
    return Judgement(difference(program, seed, expected), expected.output, opcodes)


def difference(program: RandomProgram, seed: int, expected: Outcome) -> str:
    if expected.refusal or expected.findings:
        return expected.refusal or f"finding {expected.findings[0]}"
    try:
        output, cells = on_gpu(program, seed)
    except cupy.cuda.driver.CUDADriverError as error:
        return f"GPU: {str(error)[:200]}"
    written = np.frombuffer(expected.written, np.uint8) != 0
    ours, theirs = np.frombuffer(expected.output, np.uint8), np.frombuffer(output, np.uint8)
    wrong = np.flatnonzero(written & (ours != theirs))
    if wrong.size:
        thread, place = divmod(int(wrong[0]), OUTPUT_BYTES)
        return f"{wrong.size} bytes of output, first of thread {thread} at {place}"
    return "" if cells == expected.cells else "cells"


def main() -> None:
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    started = time.monotonic()
    simulated(first)  # compiles the engine once, before the processes share its cache
    digest, different, opcodes = hashlib.sha256(), dict[int, str](), set[str]()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        seeds = range(first, first + count)
        for seed, judgement in zip(seeds, pool.map(judge, seeds, chunksize=8), strict=True):
            digest.update(judgement.output)
            opcodes |= judgement.opcodes
            if judgement.difference:
                different[seed] = judgement.difference
    evidence = {
        "what": "random programs (tests/fuzz) on the GPU and on the simulator: bytes of all outputs",
        "environment": to_json(capture()),
        "programs": count,
        "first_seed": first,
        "different": different,
        "distinct_opcodes": len(opcodes),
        "digest_of_outputs": digest.hexdigest(),
        "seconds": round(time.monotonic() - started, 1),
    }
    Path(sys.argv[1]).write_text(json.dumps(evidence, indent=1) + "\n")
    sys.stdout.write(f"{count} programs, {len(different)} differ\n")
    for seed, difference in list(different.items())[:20]:
        sys.stdout.write(f"seed {seed}: {difference}\n")


if __name__ == "__main__":
    main()
