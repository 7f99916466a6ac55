"""Run on a machine with an H200: random programs whose bytes differ from the simulator's, made as short as possible.

python tests/fuzz/shrink_on_gpu.py OUT.json PROGRAMS FIRST_SEED SECONDS

Statements are taken out of a program as long as it still differs and the simulator still has no finding, so what the
GPU gets is right. Loops stay, so that it ends.
"""

import json
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from on_gpu import on_gpu, program_of
from outcome import Coordinates, outcome
from random_program import OUTPUT_BYTES, RandomProgram

_STAYS = re.compile(r"%[cq]\d|LOOP|OUT\d|^\.|^[{}]|^$|^selp.u32 %t0|^or.b32 %t0|%scratch")


def difference(program: RandomProgram, seed: int) -> dict[str, Any] | None:
    """Where the GPU's bytes differ from the simulator's: threads, place in a thread's output, both words."""
    expected = outcome(program, Coordinates("fast", "friendly", seed), seed)
    if expected.refusal or expected.findings:
        return None
    output, cells = on_gpu(program, seed)
    written = np.frombuffer(expected.written, np.uint8) != 0
    ours, theirs = (np.frombuffer(b, np.uint8).reshape(-1, OUTPUT_BYTES) for b in (expected.output, output))
    wrong = (ours != theirs) & written.reshape(-1, OUTPUT_BYTES)
    if not wrong.any():
        return None if cells == expected.cells else {"cells": True}
    threads = np.flatnonzero(wrong.any(1))
    places = np.flatnonzero(wrong.any(0))
    thread = int(threads[0])
    return {
        "threads": [int(t) for t in threads[:8]],
        "count": int(threads.size),
        "places": [int(p) for p in places],
        "ours": ours[thread].tobytes().hex(),
        "gpu": theirs[thread].tobytes().hex(),
    }


def shortened(program: RandomProgram, seed: int, ends: float) -> RandomProgram:
    lines = program.text.split("\n")
    candidates = [i for i, line in enumerate(lines) if not _STAYS.search(line.strip()) and i > 8]
    gone: set[int] = set()

    def without(indices: Sequence[int]) -> RandomProgram:
        kept = [line for i, line in enumerate(lines) if i not in gone and i not in set(indices)]
        return replace(program, text="\n".join(kept))

    size = max(len(candidates) // 2, 1)
    while size and time.monotonic() < ends:
        at = 0
        left = [c for c in candidates if c not in gone]
        while at < len(left) and time.monotonic() < ends:
            chunk = left[at : at + size]
            try:
                still = difference(without(chunk), seed)
            except Exception:
                still = None
            if still:
                gone.update(chunk)
            at += size
        size //= 2
    return without([])


def work(seed: int, ends: float) -> dict[str, Any]:
    program = program_of(seed)
    try:
        found = difference(program, seed)
    except Exception as error:
        return {"seed": seed, "error": str(error)[:200]}
    if found is None:
        return {"seed": seed}
    if time.monotonic() > ends:
        return {"seed": seed, "found": found}
    short = shortened(program, seed, min(ends, time.monotonic() + 40))
    return {"seed": seed, "found": found, "text": short.text, "blocks": short.blocks, "short": difference(short, seed)}


def main() -> None:
    count, first, seconds = (int(word) for word in sys.argv[2:5])
    ends = time.monotonic() + seconds
    work(first, time.monotonic())
    results = []
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for result in pool.map(work, range(first, first + count), [ends] * count):
            results.append(result)
            Path(sys.argv[1]).write_text(json.dumps(results))
    found = [r for r in results if "found" in r]
    errors = sum("error" in result for result in results)
    sys.stdout.write(f"{len(results)} programs, {len(found)} differ, {errors} errors\n")


if __name__ == "__main__":
    main()
