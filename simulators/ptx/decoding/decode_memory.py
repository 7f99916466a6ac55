"""Decoding of `ld` and `st`, and what `atom` and `red` share with them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tileproof.simulators.ptx.alu.definedness import whole
from tileproof.simulators.ptx.alu.operation import Operation
from tileproof.simulators.ptx.alu.requirement import BLACKWELL
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.qualifiers import CACHE_HINT, MemoryForm, memory_form
from tileproof.simulators.ptx.decoding.slots import Slots, check_count, elements
from tileproof.simulators.ptx.machine.memory import Bits
from tileproof.simulators.ptx.program import Access, Kind, StateSpace, Step
from tileproof.simulators.ptx.text.syntax import Address, Instruction, Operand

_WIDEST = 16  # bytes of one access, but for the vectors of Blackwell
_CONSTANT_SPACES = (StateSpace.CONST, StateSpace.PARAM)


def _load(slots: Slots, instruction: Instruction) -> Step:
    form = _of_space(slots, instruction, instruction.operands[1])
    _check_width(slots, instruction, form)
    target, address = without_policy(slots, instruction)
    slot, offset = slots.address(instruction, address)
    results = elements(target)
    check_count(instruction, len(results), form.count)
    targets = [slot for result in results for slot in slots.destinations(instruction, result, form.type)]
    types = (form.type,) * form.count if form.type != "b128" else ("b64",) * len(targets)
    return Step(
        Kind.LOAD,
        opcode(instruction),
        where(instruction),
        destinations=tuple(targets),
        sources=(slot,),
        access=access_of(form, offset),
        sign_from=slots.sign_from(targets, types),
    )


def without_policy(slots: Slots, instruction: Instruction) -> tuple[Operand, ...]:
    """The operands without the cache policy that `.L2::cache_hint` brings, which changes no value."""
    if CACHE_HINT not in instruction.qualifiers:
        return instruction.operands
    *operands, policy = instruction.operands
    slots.source(instruction, policy, "b64")
    return tuple(operands)


def _check_width(slots: Slots, instruction: Instruction, form: MemoryForm) -> None:
    """More than 16 bytes at once go to global memory only, on Blackwell (PTX ISA, "ld", "st")."""
    total = form.element_bytes * form.count
    if total <= _WIDEST:
        return
    slots.require(instruction, BLACKWELL)
    if total > 2 * _WIDEST or form.space not in (StateSpace.GLOBAL, StateSpace.GENERIC):
        raise not_modelled(instruction, f"{total} bytes of .{form.space.value} memory at once")


def _of_space(slots: Slots, instruction: Instruction, address: Operand) -> MemoryForm:
    """The form; parameters of calls lie in the lane's local memory."""
    form = memory_form(instruction)
    local = form.space is StateSpace.PARAM and isinstance(address, Address) and slots.is_local(address.base)
    return replace(form, space=StateSpace.LOCAL) if local else form


def _store(slots: Slots, instruction: Instruction) -> Step:
    form = _of_space(slots, instruction, instruction.operands[0])
    if form.space in _CONSTANT_SPACES:
        raise not_modelled(instruction, f"a store to .{form.space.value} is not modelled")
    _check_width(slots, instruction, form)
    address, value = without_policy(slots, instruction)
    slot, offset = slots.address(instruction, address)
    values = elements(value)
    check_count(instruction, len(values), form.count)
    sources = [slot for value in values for slot in slots.sources(instruction, value, form.type)]
    access = access_of(form, offset)
    return Step(Kind.STORE, opcode(instruction), where(instruction), sources=(slot, *sources), access=access)


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


def access_of(form: MemoryForm, offset: int) -> Access:
    """The access of a form; 128 bits are two elements of 64."""
    return Access(
        form.space,
        min(form.element_bytes, 8),
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
}
