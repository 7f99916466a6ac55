"""A program as tables for the compiled loop: one line a step, operands in a list of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tileproof.simulators.ptx.alu.scalar import SCALARS
from tileproof.simulators.ptx.async_form import CopyForm, GroupAction, GroupForm
from tileproof.simulators.ptx.fast import layout as op
from tileproof.simulators.ptx.fast import warp
from tileproof.simulators.ptx.fast.lower_arithmetic import form_of
from tileproof.simulators.ptx.fast.lower_matrix import lower_matrix
from tileproof.simulators.ptx.layout import SHARED_WINDOW
from tileproof.simulators.ptx.machine.order.kinds import AccessKind, Engine
from tileproof.simulators.ptx.machine.product_registers import product_watch
from tileproof.simulators.ptx.program import (
    NO_GUARD,
    NONE,
    SINK,
    CollectiveMode,
    Kind,
    Program,
    StateSpace,
    Step,
)

Table = npt.NDArray[np.int64]

_EVERY_BIT = (1 << 64) - 1
_SPACES = {
    StateSpace.GLOBAL: op.GLOBAL,
    StateSpace.SHARED: op.SHARED,
    StateSpace.CLUSTER: op.SHARED,  # the same where clusters are single blocks; else all of it is handed back
    StateSpace.LOCAL: op.LOCAL,
    StateSpace.CONST: op.CONST,
    StateSpace.PARAM: op.PARAM,
    StateSpace.GENERIC: op.GENERIC,
}
_SHUFFLES = {
    CollectiveMode.UP: warp.UP,
    CollectiveMode.DOWN: warp.DOWN,
    CollectiveMode.BUTTERFLY: warp.BUTTERFLY,
    CollectiveMode.INDEX: warp.INDEX,
}
_VOTES = {
    CollectiveMode.ALL: warp.ALL,
    CollectiveMode.ANY: warp.ANY,
    CollectiveMode.UNIFORM: warp.UNIFORM,
    CollectiveMode.BALLOT: warp.BALLOT,
}
# PTX ISA, "bar": barriers 0 to 15.
_BARRIERS = 16


@dataclass(frozen=True)
class Bytecode:
    """What the loop reads.

    Attributes:
        code: one line a step (`layout.COLUMNS`).
        operands: slots and masks (`layout.OPERAND_COLUMNS`).
    """

    code: Table
    operands: Table


@dataclass(frozen=True)
class Row:
    """One step before it is written: operation, sources as (slot, mask), results as (slot, mask, sign, wide).

    `rows` are those of the sources that `wgmma` has in registers.
    """

    op: int
    sources: Sequence[tuple[int, int]] = ()
    results: Sequence[tuple[int, int, int, int]] = ()
    constants: Sequence[int] = ()
    rows: Sequence[int] = ()


@lru_cache(maxsize=32)
def lower(program: Program, arch: str) -> Bytecode:
    """The tables of a program on an architecture, whose matrix unit decides those of its matrix instructions."""
    return _Lowering(program, arch).bytecode()


class _Lowering:
    def __init__(self, program: Program, arch: str) -> None:
        self._program = program
        self._arch = arch
        self._operands: list[tuple[int, int, int, int]] = []
        self._plain_barriers = all(
            plain_barrier(step, program) for step in program.steps if step.kind in (Kind.BARRIER, Kind.BARRIER_ARRIVE)
        )

    def bytecode(self) -> Bytecode:
        code = np.zeros((len(self._program.steps), op.COLUMNS), np.int64)
        watched = product_watch(self._program).steps  # the rules of registers of `wgmma` are the reference engine's
        for pc, (line, step) in enumerate(zip(code, self._program.steps, strict=True)):
            row = None if pc in watched else self._row(step, pc)
            if row is not None:
                self._write(line, step, row)
        operands = np.array([[_signed(n) for n in operand] for operand in self._operands], np.int64)
        operands = operands.reshape(-1, op.OPERAND_COLUMNS)
        return Bytecode(code, operands)

    def _write(self, line: Table, step: Step, row: Row) -> None:
        line[op.OP] = row.op
        line[op.GUARD] = step.guard if step.guard != NO_GUARD else -1
        line[op.NEGATED] = step.guard_negated
        line[op.SOURCE], line[op.SOURCES] = len(self._operands), len(row.sources)
        rows = row.rows or (0,) * len(row.sources)
        self._operands += [(*source, number, 0) for source, number in zip(row.sources, rows, strict=True)]
        line[op.RESULT], line[op.RESULTS] = len(self._operands), len(row.results)
        self._operands += row.results
        line[op.TARGET] = step.target
        line[op.K0 : op.K0 + len(row.constants)] = [_signed(n) for n in row.constants]

    def _row(self, step: Step, pc: int) -> Row | None:
        match step.kind:
            case Kind.NOTHING:
                return Row(op.NOTHING)
            case Kind.BRANCH:
                return Row(op.BRANCH)
            case Kind.ARITHMETIC:
                return self._arithmetic(step)
            case Kind.PACK:
                return Row(op.PACK, self._sources(step), self._results(step), (step.element_bits,))
            case Kind.UNPACK:
                return Row(op.UNPACK, self._sources(step), self._results(step), (step.element_bits,))
            case Kind.LOAD | Kind.STORE:
                return self._memory(step, pc)
            case Kind.SHUFFLE:
                assert step.mode is not None
                return Row(op.SHUFFLE, self._sources(step), self._results(step), (_SHUFFLES[step.mode],))
            case Kind.VOTE:
                assert step.mode is not None
                return Row(op.VOTE, self._sources(step), self._results(step), (_VOTES[step.mode], step.negated))
            case Kind.COPY:
                return self._copy(step, pc)
            case Kind.COPY_GROUP:
                return _group(step)
            case Kind.MATRIX_LOAD | Kind.MATRIX_STORE | Kind.MATRIX_TRANSPOSE | Kind.MMA | Kind.WGMMA:
                return self._matrix(step, pc)
            case Kind.BARRIER if self._plain_barriers and step.barrier is not None and step.barrier.count == NONE:
                return Row(op.BARRIER)
        return None

    def _copy(self, step: Step, pc: int) -> Row | None:
        form = step.asynchronous
        assert isinstance(form, CopyForm)
        source, target = form.source, form.target
        if form.ignore != NONE or target.space not in (StateSpace.SHARED, StateSpace.GENERIC):
            return None
        generic = target.space is StateSpace.GENERIC
        partial = form.source_bytes != NONE
        load = (_SPACES[source.space], form.nbytes, source.offset & _EVERY_BIT, form.nbytes, _EVERY_BIT, partial)
        store = (
            SHARED_WINDOW if generic else 0,
            target.offset & _EVERY_BIT,
            _EVERY_BIT if generic else 0xFFFF_FFFF,
            pc,
            Engine.CP_ASYNC.flags,
            Engine.CP_ASYNC.flags | AccessKind(writes=True).flags,
        )
        slots = (target.slot, source.slot, *((form.source_bytes,) if partial else ()))
        sources = [(slot, self._mask(slot, 0)) for slot in slots[:2]] + [(slot, 0xFFFF_FFFF) for slot in slots[2:]]
        return Row(op.COPY, sources, constants=(*load, *store))

    def _matrix(self, step: Step, pc: int) -> Row | None:
        form = lower_matrix(step, self._arch)
        if form is None:
            return None
        sources = list(zip(form.sources, form.masks, strict=True))
        results = [(slot, _EVERY_BIT, 0, 0) for slot in form.results]
        if step.transfer is not None:
            kind = AccessKind(writes=step.kind is Kind.MATRIX_STORE, by_warp=True)
            return Row(form.operation, sources, results, (*form.constants, kind.flags, pc))
        if step.product is None or step.kind is Kind.MMA:
            return Row(form.operation, sources, results, form.constants)
        watch = product_watch(self._program)
        constants = (*form.constants, watch.shapes[step.product.instruction.shape], pc, Engine.WGMMA.proxy_flags)
        return Row(form.operation, sources, results, constants, [watch.rows.get(slot, 0) for slot in form.sources])

    def _sources(self, step: Step, narrow: Mapping[int, int] | None = None) -> list[tuple[int, int]]:
        cuts = step.narrow or (0,) * len(step.sources)
        masks = [self._mask(slot, cut) for slot, cut in zip(step.sources, cuts, strict=True)]
        for position, bits in (narrow or {}).items():
            masks[position] &= (1 << bits) - 1
        return list(zip(step.sources, masks, strict=True))

    def _mask(self, slot: int, cut: int) -> int:
        if slot in self._program.constants:
            return _EVERY_BIT
        return (1 << (cut or self._program.slot_bits[slot])) - 1

    def _results(self, step: Step, widths: Sequence[int] = ()) -> list[tuple[int, int, int, int]]:
        """Results of so many bits, or of their registers' width."""
        signs = step.sign_from or (0,) * len(step.destinations)
        results = []
        for index, (slot, sign) in enumerate(zip(step.destinations, signs, strict=True)):
            wide = (1 << self._program.slot_bits[slot]) - 1 if slot != SINK else 0
            mask = (1 << widths[index]) - 1 if widths else wide
            results.append((slot, mask, 1 << (sign - 1) if sign else 0, wide))
        return results

    def _arithmetic(self, step: Step) -> Row | None:
        operation = step.operation
        assert operation is not None
        program = self._program
        constants = [-1 if s in program.globals_used else program.constants.get(s, -1) for s in step.sources]
        form = form_of(operation.name, constants)
        # The least or greatest of three has the name of that of two.
        if form is None or (operation.name.startswith(("min.", "max.")) and len(operation.sources) != 2):
            return None
        inverted: tuple[int, ...] = ()
        if operation.inverted:
            if form.op not in (op.COMPARE, op.COMPARE_SINGLE, op.COMPARE_DOUBLE, op.SELECT):
                return None
            inverted = (1,)
        elif op.COMPARE_FIRST <= form.op <= op.COMPARE_LAST:
            inverted = (0,)
        widths = [SCALARS[name].bits for name in operation.destinations]
        sources = self._sources(step, form.narrow)[: form.operands]
        return Row(form.op, sources, self._results(step, widths), (*form.constants, *inverted))

    def _memory(self, step: Step, pc: int) -> Row | None:
        access = step.access
        assert access is not None
        if access.strong:
            return None
        slot = step.sources[0]
        space = _SPACES[access.space]
        cut = _EVERY_BIT if space in (op.GENERIC, op.GLOBAL) else 0xFFFF_FFFF
        uniform = space in (op.CONST, op.PARAM) and slot in self._program.constants
        offset = access.offset & _EVERY_BIT
        constants = (space, access.size, offset, step.access_bytes, cut, uniform, AccessKind.of(step, access).flags, pc)
        sources = [(slot, self._mask(slot, 0)), *((s, (1 << 8 * access.size) - 1) for s in step.sources[1:])]
        if step.kind is Kind.LOAD:
            return Row(op.LOAD, sources, self._results(step), constants)
        return Row(op.STORE, sources, (), constants)


def _group(step: Step) -> Row | None:
    form = step.asynchronous
    assert isinstance(form, GroupForm)
    if form.bulk:
        return None
    waits = form.action is not GroupAction.COMMIT
    commits = form.action is not GroupAction.WAIT
    return Row(op.COPY_GROUP, constants=(commits, form.most_pending if waits else -1))


def plain_barrier(step: Step, program: Program) -> bool:
    """Whether a step is `bar.sync` with a number, and perhaps a count, that stand in the program."""
    form = step.barrier
    if step.kind is not Kind.BARRIER or form is None or step.mode is not None:
        return False
    number = program.constants.get(form.number, _BARRIERS)
    return number < _BARRIERS and (form.count == NONE or form.count in program.constants)


def _signed(number: int) -> int:
    """A 64-bit number as numpy's int64."""
    number = int(number) & _EVERY_BIT
    return number - (1 << 64) if number >> 63 else number
