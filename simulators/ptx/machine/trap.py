"""Kernels that give up or say something: `trap`, `brkpt`, assertions that fail, `printf`.

A GPU ends the whole grid at a trap. Here the lanes that reach it end, with a finding, and the others go on.
"""

import numpy as np

from tileproof.simulators.ptx.decoding.inlining import ASSERT_FAIL
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.addressing import split_generic
from tileproof.simulators.ptx.machine.memory import Bits, Lanes
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Step

# Longest string shown of those that kernels hand over by address.
MAX_STRING_BYTES = 256
_UNREADABLE = "(unreadable)"


def report(wave: Wave, step: Step, selection: Selection) -> None:
    """The finding of lanes that give up: an assertion with its text, file and line, one finding for each of them."""
    lanes = wave.ids(selection)
    if step.opcode == "brx.idx":
        index = wave.registers.read(step.sources[0], selection)
        message = "brx.idx takes an entry behind the end of its list of targets"
        wave.report(FindingKind.TRAP, message, step.where, lanes, f" (index {int(index[0])})")
    elif step.opcode == ASSERT_FAIL:
        _assertions(wave, step, selection, lanes)
    else:
        wave.report(FindingKind.TRAP, f"the kernel executes {step.opcode}", step.where, lanes)


def _assertions(wave: Wave, step: Step, selection: Selection, lanes: Lanes) -> None:
    operands = np.stack([wave.registers.read(slot, selection) for slot in step.sources])
    for number in range(len(alike := np.unique(operands, axis=1).T)):
        group = np.flatnonzero((alike[number] == operands.T).all(axis=1))
        message, file, line, function = (int(bits) for bits in alike[number][:4])
        text, name, inside = (read_string(wave, int(lanes[group[0]]), address) for address in (message, file, function))
        wave.report(
            FindingKind.TRAP,
            f"the assertion `{text}` fails ({name}:{line & 0xFFFF_FFFF}, {inside})",
            step.where,
            lanes[group],
        )


def printed(wave: Wave, step: Step, selection: Selection) -> None:
    """`printf`: a note with the format, and the number of its conversions as result (CUDA C++ Guide, "printf")."""
    lanes = wave.ids(selection)
    formats = wave.registers.read(step.sources[0], selection)
    counts = np.zeros(lanes.size, np.uint64)
    for address in np.unique(formats):
        group = np.flatnonzero(formats == address)
        text = read_string(wave, int(lanes[group[0]]), int(address))
        counts[group] = text.replace("%%", "").count("%")
        wave.note(f"printf of {text!r}; its arguments are not formatted here", step.where, group.size)
    for slot in step.destinations:
        wave.registers.write(slot, selection, counts, None)


def read_string(wave: Wave, lane: int, address: int) -> str:
    """The text up to its zero byte at a generic address that a lane holds, as far as it can be read."""
    places: Bits = np.uint64(address) + np.arange(MAX_STRING_BYTES, dtype=np.uint64)
    found = np.full(MAX_STRING_BYTES, -1, np.int64)
    for space, chosen, part in split_generic(places):
        inside = np.arange(MAX_STRING_BYTES) if chosen is None else chosen
        for piece in wave.spaces[space].locate(part, np.full(part.size, lane), 1)[0]:
            values, masks = piece.backing.load(piece.offsets, 1)
            defined = np.ones(values.size, np.bool_) if masks is None else masks == 0
            found[inside[piece.positions]] = np.where(defined, values.astype(np.int64), -1)
    if found[0] < 0:
        return _UNREADABLE
    end = np.flatnonzero(found <= 0)
    text = found[: end[0] if end.size else MAX_STRING_BYTES].astype(np.uint8).tobytes()
    return text.decode(errors="replace")
