"""Decoding of `ld`, `st`, `atom` and `red`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tileproof.simulators.ptx.alu.definedness import whole
from tileproof.simulators.ptx.alu.operation import Operation, resolve
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.qualifiers import ATOMIC_TYPES, MemoryForm, memory_form
from tileproof.simulators.ptx.decoding.slots import Slots, check_count, elements
from tileproof.simulators.ptx.machine.memory import Bits
from tileproof.simulators.ptx.program import SINK, Access, Kind, StateSpace, Step
from tileproof.simulators.ptx.text.syntax import TYPE_BYTES, Address, Instruction, Operand

_CONSTANT_SPACES = (StateSpace.CONST, StateSpace.PARAM)


def _load(slots: Slots, instruction: Instruction) -> Step:
    form = _of_space(slots, instruction, instruction.operands[1])
    slot, offset = slots.address(instruction, instruction.operands[1])
    results = elements(instruction.operands[0])
    check_count(instruction, len(results), form.count)
    types = (form.type,) * form.count
    targets = [slots.destination(instruction, o, t) for o, t in zip(results, types, strict=True)]
    return Step(
        Kind.LOAD,
        opcode(instruction),
        where(instruction),
        destinations=tuple(targets),
        sources=(slot,),
        access=_access(form, offset),
        sign_from=slots.sign_from(targets, types),
    )


def _of_space(slots: Slots, instruction: Instruction, address: Operand) -> MemoryForm:
    """The form; parameters of calls lie in the lane's local memory."""
    form = memory_form(instruction)
    local = form.space is StateSpace.PARAM and isinstance(address, Address) and slots.is_local(address.base)
    return replace(form, space=StateSpace.LOCAL) if local else form


def _store(slots: Slots, instruction: Instruction) -> Step:
    form = _of_space(slots, instruction, instruction.operands[0])
    if form.space in _CONSTANT_SPACES:
        raise not_modelled(instruction, f"a store to .{form.space.value} is not modelled")
    slot, offset = slots.address(instruction, instruction.operands[0])
    values = elements(instruction.operands[1])
    check_count(instruction, len(values), form.count)
    sources = [slots.source(instruction, value, form.type) for value in values]
    access = _access(form, offset)
    return Step(Kind.STORE, opcode(instruction), where(instruction), sources=(slot, *sources), access=access)


def _atomic(slots: Slots, instruction: Instruction) -> Step:
    form = memory_form(instruction)
    returns = instruction.mnemonic == "atom"
    name = _atomic_name(instruction, form)
    slot, offset = slots.address(instruction, instruction.operands[1 if returns else 0])
    operands = instruction.operands[2 if returns else 1 :]
    check_count(instruction, len(operands), 2 if name == "cas" else 1)
    values = [slots.source(instruction, operand, form.type) for operand in operands]
    target = slots.destination(instruction, instruction.operands[0], form.type) if returns else SINK
    return Step(
        Kind.ATOMIC,
        opcode(instruction),
        where(instruction),
        destinations=(target,),
        sources=(slot, *values),
        operation=_atomic_operation(instruction, name, form),
        access=_access(form, offset),
        sign_from=slots.sign_from((target,), (form.type,)),
    )


def _atomic_name(instruction: Instruction, form: MemoryForm) -> str:
    names = [q for q in instruction.qualifiers if q in ATOMIC_TYPES]
    if len(names) != 1 or form.count != 1 or form.type not in ATOMIC_TYPES[names[0]]:
        raise not_modelled(instruction, "this atomic operation is not modelled")
    if instruction.mnemonic == "red" and names[0] in ("exch", "cas"):
        raise not_modelled(instruction, f"red has no .{names[0]}")
    if form.space in (*_CONSTANT_SPACES, StateSpace.LOCAL):
        raise not_modelled(instruction, f"there are no atomics on .{form.space.value}")
    return names[0]


def _atomic_operation(instruction: Instruction, name: str, form: MemoryForm) -> Operation | None:
    """The combining step; None for exchange and compare-and-swap, which do not compute."""
    if name in ("exch", "cas"):
        return None
    if name in WRAPPING_OPERATIONS:
        return WRAPPING_OPERATIONS[name]
    if form.type != "f32":
        return resolve(name, (form.type,))
    # PTX ISA, "atom": atom.add.f32 on global memory flushes subnormal inputs and results to sign-preserving zero;
    # on shared memory it does not.
    if form.space is StateSpace.GENERIC:
        raise not_modelled(instruction, "atom.add.f32 on a generic address: global flushes subnormals, shared does not")
    return resolve("add", ("f32",) if form.space is StateSpace.SHARED else ("ftz", "f32"))


def _increment(values: Sequence[Bits]) -> tuple[Bits, ...]:
    """PTX ISA, "atom": inc(r, s) = (r >= s) ? 0 : r + 1."""
    return (np.where(values[0] >= values[1], np.uint64(0), values[0] + np.uint64(1)),)


def _decrement(values: Sequence[Bits]) -> tuple[Bits, ...]:
    """PTX ISA, "atom": dec(r, s) = (r == 0 || r > s) ? s : r - 1."""
    wraps = (values[0] == 0) | (values[0] > values[1])
    return (np.where(wraps, values[1], values[0] - np.uint64(1)),)


WRAPPING_OPERATIONS: Mapping[str, Operation] = {
    name: Operation(f"{name}.u32", ("u32",), ("u32", "u32"), compute, whole(32))
    for name, compute in (("inc", _increment), ("dec", _decrement))
}


def _access(form: MemoryForm, offset: int) -> Access:
    return Access(
        form.space,
        TYPE_BYTES[form.type],
        offset,
        form.strong,
        form.acquires,
        form.releases,
        form.scope,
        form.non_coherent,
    )


DECODERS = {
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "atom": _atomic,
    "red": _atomic,
}
