"""The lanes of one store at one place."""

from collections.abc import Sequence

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.memory import Bits, Lanes
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Step


def check_overlap(wave: Wave, step: Step, lanes: Lanes, offsets: Lanes, values: Sequence[Bits]) -> None:
    """Lanes of one weak store at one place: with different values a race, with equal ones a note.

    Which of several values stays is undefined (CUDA C++ Programming Guide, "SIMT Architecture").
    """
    if bool(np.all(offsets[1:] > offsets[:-1])):
        return
    order = np.argsort(offsets, kind="stable")
    ordered = offsets[order]
    repeats = ordered[1:] == ordered[:-1]  # accesses are aligned to their size: they coincide or do not touch
    if not repeats.any():
        return
    equal = np.ones(repeats.size, np.bool_)
    for element in values:
        equal &= element[order[1:]] == element[order[:-1]]
    if (repeats & ~equal).any():
        first = np.flatnonzero(repeats & ~equal)
        hit = lanes[np.unique(order[np.concatenate((first, first + 1))])]
        wave.report(
            FindingKind.RACE, f"threads write different values to one address by one {step.opcode}", step.where, hit
        )
    if (repeats & equal).any():
        count = int((repeats & equal).sum())
        wave.note(f"threads write equal values to one address by one {step.opcode}", step.where, count)
