"""Everything that a launch of a random program shows, so that two runs can be held to each other."""

from dataclasses import dataclass

import numpy as np
from random_program import CELLS, OUTPUT_BYTES, RandomProgram

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx import Device
from tileproof.simulators.ptx.findings import Counters, Finding, Note


@dataclass(frozen=True)
class Coordinates:
    """Where a program runs."""

    engine: str
    schedule: str
    seed: int


@dataclass(frozen=True)
class Outcome:
    """Bytes, which of them were written, findings, notes and counters; or the refusal."""

    output: bytes = b""
    written: bytes = b""
    cells: bytes = b""
    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()
    counters: Counters | None = None
    refusal: str = ""


def outcome(program: RandomProgram, place: Coordinates, input_seed: int) -> Outcome:
    """Run a program."""
    device = Device(engine=place.engine, schedule=place.schedule, seed=place.seed)
    output = device.allocate(program.blocks * program.threads * OUTPUT_BYTES, np.uint8)
    words, cells = device.upload(program.input_words(input_seed)), device.upload(np.zeros(6 * CELLS, np.uint32))
    try:
        report = device.load_ptx(program.text)["k"].launch(
            grid=(program.blocks, 1, 1), block=(program.threads, 1, 1), args=(output, words, cells)
        )
    except Refusal as refusal:
        return Outcome(refusal=f"{type(refusal).__name__}: {refusal.message}")
    return Outcome(
        output.download().tobytes(),
        output.written().tobytes(),
        cells.download().tobytes(),
        tuple(report.findings),
        tuple(report.notes),
        report.counters,
    )


def first_difference(left: Outcome, right: Outcome) -> str:
    """In words, where two outcomes differ first; empty where they do not."""
    for name in ("refusal", "findings", "notes", "counters", "written", "cells", "output"):
        one, other = getattr(left, name), getattr(right, name)
        if one == other:
            continue
        if isinstance(one, bytes) and len(one) == len(other):
            place = int(np.flatnonzero(np.frombuffer(one, np.uint8) != np.frombuffer(other, np.uint8))[0])
            return f"{name}: byte {place} is 0x{one[place]:02x} and 0x{other[place]:02x}"
        return f"{name}: {one!r} and {other!r}"
    return ""
