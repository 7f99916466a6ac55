"""Who may touch the registers of `wgmma`, and when: accumulators, and fragments of A.

`wgmma` works on its registers on its own, from its issue until a `wgmma.wait_group` covers its group; nobody else may
read or write them before. A `wgmma.fence` of each warp must stand between any other access to such a register and the
next `wgmma` that uses it, and before the first; only one `wgmma` after another of the same shape on the same
accumulators needs none. Both rules are of PTX ISA, "wgmma.fence" and "wgmma.wait_group".

A `mov` between registers gives the other one the same standing: compilers rename accumulators by moves that the
assembler leaves out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tileproof.oracle.units.instruction import Shape
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT, distinct
from tileproof.simulators.ptx.matrix_form import RegisterMatrix
from tileproof.simulators.ptx.program import Kind, Program, Step

Rows = npt.NDArray[np.int64]
Table = npt.NDArray[np.int64]
Report = Callable[[FindingKind, str, Step, Lanes], None]

#: How a register stands towards the next `wgmma`: accessed since the last fence, or not. From 1 on it was last an
#: accumulator, and the number is that of the shape.
_TOUCHED, _FENCED = -1, 0
#: How a `wgmma` uses a register.
_ACCUMULATES, _READS = 0, 1
_NEVER = -1


@dataclass(frozen=True)
class ProductWatch:
    """What a program does with registers of `wgmma`.

    Attributes:
        rows: their slots, and those that moves tie to them, numbered.
        shapes: of its matrix instructions, numbered from 1.
        steps: those, but for `wgmma` itself, that read or write such registers.
    """

    rows: Mapping[int, int]
    shapes: Mapping[Shape, int]
    steps: frozenset[int]


@lru_cache(maxsize=32)
def product_watch(program: Program) -> ProductWatch:
    """What to watch in a program; nothing where there is no `wgmma`."""
    rows = {slot: row for row, slot in enumerate(watched_slots(program))}
    shapes = dict.fromkeys(step.product.instruction.shape for step in program.steps if step.product is not None)
    steps = frozenset(
        pc
        for pc, step in enumerate(program.steps if rows else ())
        if step.kind is not Kind.WGMMA and any(slot in rows for slot in (*step.sources, *step.destinations))
    )
    return ProductWatch(rows, {shape: number for number, shape in enumerate(shapes, start=1)}, steps)


class ProductRegisters:
    """The standing of every register that a `wgmma` uses, in every warp; and the groups of the warps.

    Attributes:
        committed: for every warp the number of its committed groups.
        watched: steps, but for `wgmma` itself, that read or write such registers.
        registers: what is known of each register in each warp, for compiled code.
        warps: what is known of each warp, for compiled code.
        disturb: changes registers of lanes whose values the ISA leaves undefined; None to leave them.

    Args:
        program: the kernel.
        warps: of the wave.
        report: kind, message, step and lanes of a finding.
    """

    def __init__(self, program: Program, warps: int, report: Report) -> None:
        self._program = program
        self._report = report
        self.disturb: Callable[[Sequence[int], Lanes], None] | None = None
        watch = product_watch(program)
        self._row, self._shapes, self.watched = watch.rows, watch.shapes, watch.steps
        # One row a register, one column a warp: its standing; for each use the group of the last wgmma that uses it so;
        # and where that one stands in the program.
        self.registers: Table = np.full((5, len(watch.rows), warps), _NEVER, np.int64)
        self._standing, self._group, self._user = self.registers[0], self.registers[1:3], self.registers[3:]
        self._standing[:] = _TOUCHED
        # For each warp how many groups it knows complete and has committed, and a wgmma that no commit has followed.
        self.warps: Table = np.zeros((3, warps), np.int64)
        self._complete, self.committed, self._uncommitted = self.warps
        self._uncommitted[:] = _NEVER

    def touch(self, step: Step, lanes: Lanes) -> None:
        """Lanes execute a step that is `watched`: it reads or writes registers of a `wgmma`."""
        warps = distinct(lanes >> WARP_SHIFT)
        reads, writes = self._rows(step.sources), self._rows(step.destinations)
        if _is_move(step) and reads.size:
            self.registers[:, writes, warps] = self.registers[:, reads, warps]
            return
        for rows, verb in ((reads, "reads"), (writes, "writes")):
            if not rows.size:
                continue
            busy = self._busy(rows, warps)
            if busy.any():
                self._report_busy(step, lanes, warps, rows, busy, f"{verb} a register")
            self._standing[rows[:, np.newaxis], warps] = _TOUCHED

    def issue(self, step: Step, pc: int, lanes: Lanes) -> None:
        """Whole warpgroups issue a `wgmma`."""
        product = step.product
        assert product is not None
        warps, shape = np.unique(lanes >> WARP_SHIFT), self._shapes[product.instruction.shape]
        accumulators = self._rows(product.d.slots)
        fragments = self._rows(product.a.slots if isinstance(product.a, RegisterMatrix) else ())
        continues = self._standing[np.ix_(accumulators, warps)] == shape
        self._report_unfenced(step, lanes, warps, self._unfenced(accumulators, warps) & ~continues)
        self._report_unfenced(step, lanes, warps, self._unfenced(fragments, warps))
        busy = self._busy(accumulators, warps)
        busy[_ACCUMULATES] &= ~continues
        self._report_busy(step, lanes, warps, accumulators, busy, "accumulates in registers")
        busy = self._busy(fragments, warps)
        busy[_READS] = False
        self._report_busy(step, lanes, warps, fragments, busy, "reads A from registers")
        self._standing[np.ix_(accumulators, warps)] = shape
        for use, rows in ((_ACCUMULATES, accumulators), (_READS, fragments)):
            self._group[use][np.ix_(rows, warps)] = self.committed[warps]
            self._user[use][np.ix_(rows, warps)] = pc
        self._uncommitted[warps] = pc

    def fence(self, lanes: Lanes) -> None:
        """`wgmma.fence`: what the warps did to registers is in order before their next `wgmma`.

        An accumulator in flight is nobody's yet: it stays one, so that a `wgmma` of its shape may go on with it.
        """
        warps = np.unique(lanes >> WARP_SHIFT)
        standing = self._standing[:, warps]
        in_flight = (standing > _FENCED) & (self._group[_ACCUMULATES][:, warps] >= self._complete[warps])
        self._standing[:, warps] = np.where(in_flight, standing, _FENCED)

    def commit(self, lanes: Lanes) -> None:
        """`wgmma.commit_group`."""
        warps = np.unique(lanes >> WARP_SHIFT)
        self.committed[warps] += 1
        self._uncommitted[warps] = _NEVER

    def wait(self, lanes: Lanes, pending: int) -> Lanes:
        """`wgmma.wait_group`: for each lane the number of its groups that are complete, from the first on."""
        warps = np.unique(lanes >> WARP_SHIFT)
        self._complete[warps] = np.maximum(self._complete[warps], self.committed[warps] - pending)
        complete: Lanes = self._complete[lanes >> WARP_SHIFT]
        return complete

    def leave(self, lanes: Lanes) -> None:
        """The lanes exit."""
        left = self._uncommitted[lanes >> WARP_SHIFT]
        for pc in np.unique(left[left != _NEVER]):
            step = self._program.steps[int(pc)]
            message = f"threads exit without a wgmma.commit_group for their {step.opcode}, so that no wait covers it"
            self._report(FindingKind.ASYNC, message, step, lanes[left == pc])

    def _rows(self, slots: Iterable[int]) -> Rows:
        return np.array(sorted({self._row[slot] for slot in slots if slot in self._row}), np.int64)

    def _unfenced(self, rows: Rows, warps: Lanes) -> Mask:
        """Where a fence is missing; of an accumulator in flight it is a wait."""
        standing = self._standing[np.ix_(rows, warps)]
        in_flight: Mask = (standing > _FENCED) & self._busy(rows, warps)[_ACCUMULATES]
        missing: Mask = (standing != _FENCED) & ~in_flight
        return missing

    def _busy(self, rows: Rows, warps: Lanes) -> Mask:
        """Whether a `wgmma` may still use a register, for each use, [2, rows, warps]."""
        mask: Mask = self._group[:, rows[:, np.newaxis], warps] >= self._complete[warps]
        return mask

    def _report_busy(self, step: Step, lanes: Lanes, warps: Lanes, rows: Rows, busy: Mask, what: str) -> None:
        users = np.where(busy, self._user[:, rows[:, np.newaxis], warps], _NEVER)
        for pc in np.unique(users[users != _NEVER]):
            other = self._program.steps[int(pc)]
            message = (
                f"{step.opcode} {what} that {other.opcode} at {other.where.place} may still use: no wgmma.wait_group "
                "between covers it"
            )
            hit = lanes[np.isin(lanes >> WARP_SHIFT, warps[(users == pc).any(axis=(0, 1))])]
            self._report(FindingKind.ASYNC, message, step, hit)
            self._disturb(other, hit)

    def _report_unfenced(self, step: Step, lanes: Lanes, warps: Lanes, wrong: Mask) -> None:
        hit = warps[wrong.any(axis=0)]
        if hit.size:
            message = f"{step.opcode} uses registers that were accessed since the last wgmma.fence: one is missing"
            self._report(FindingKind.ASYNC, message, step, lanes[np.isin(lanes >> WARP_SHIFT, hit)])
            self._disturb(step, lanes[np.isin(lanes >> WARP_SHIFT, hit)])

    def _disturb(self, step: Step, lanes: Lanes) -> None:
        """The accumulators of a `wgmma` whose registers were touched too early are anything."""
        if self.disturb is not None and step.product is not None:
            self.disturb(step.product.d.slots, lanes)


def _is_move(step: Step) -> bool:
    return step.operation is not None and step.operation.name.startswith("mov.")


def watched_slots(program: Program) -> list[int]:
    """The registers of `wgmma`, and those that moves tie to them."""
    if not program.has_warpgroups:
        return []
    found: set[int] = set()
    for step in program.steps:
        if step.kind is Kind.WGMMA and step.product is not None:
            found.update(step.product.d.slots)
            found.update(step.product.a.slots if isinstance(step.product.a, RegisterMatrix) else ())
    moves = [(step.sources[0], step.destinations[0]) for step in program.steps if _is_move(step)]
    fixed = program.constants.keys() | program.specials.keys() | program.shared_symbols.keys()
    size = 0
    while size != len(found):
        size = len(found)
        for pair in moves:
            if not found.isdisjoint(pair) and fixed.isdisjoint(pair):
                found.update(pair)
    return sorted(found)
