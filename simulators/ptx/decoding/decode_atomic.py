"""Decoding of `atom` and `red`: all types and widths, vectors, and what memory the arithmetic depends on."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tileproof.simulators.ptx.alu.ieee import BINARY64, is_nan
from tileproof.simulators.ptx.alu.operation import Operation, resolve
from tileproof.simulators.ptx.alu.requirement import ALWAYS, Requirement
from tileproof.simulators.ptx.alu.scalar import Bits
from tileproof.simulators.ptx.decoding.decode_memory import WRAPPING_OPERATIONS, access_of, without_policy
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.qualifiers import ATOMIC_TYPES, VECTOR_ATOMICS, MemoryForm, memory_form
from tileproof.simulators.ptx.decoding.slots import Slots, check_count, elements
from tileproof.simulators.ptx.program import SINK, Kind, StateSpace, Step
from tileproof.simulators.ptx.text.syntax import Instruction, Operand

_NO_ATOMICS = (StateSpace.CONST, StateSpace.PARAM, StateSpace.LOCAL)
_SHARED = (StateSpace.SHARED, StateSpace.CLUSTER)
# PTX ISA, "atom", "Target ISA Notes".
_HOPPER = Requirement(90)
_LATE_TYPES = ("bf16", "bf16x2", "b128")
_HALVES = ("f16", "bf16", "f16x2", "bf16x2")


def _atomic(slots: Slots, instruction: Instruction) -> Step:
    form = memory_form(instruction)
    returns = instruction.mnemonic == "atom"
    name = _name(instruction, form)
    slots.require(instruction, _HOPPER if form.count > 1 or form.type in _LATE_TYPES else ALWAYS)
    written = without_policy(slots, instruction)
    slot, offset = slots.address(instruction, written[1 if returns else 0])
    operands = written[2 if returns else 1 :]
    check_count(instruction, len(operands), 2 if name == "cas" else 1)
    values = [slot for operand in operands for slot in _values(slots, instruction, operand, form)]
    targets = _targets(slots, instruction, form) if returns else (SINK,) * len(_slot_types(form))
    shared, elsewhere = _operations(name, form)
    return Step(
        Kind.ATOMIC,
        opcode(instruction),
        where(instruction),
        destinations=targets,
        sources=(slot, *values),
        operation=shared if form.space in _SHARED else elsewhere,
        shared_operation=shared if form.space is StateSpace.GENERIC and shared != elsewhere else None,
        access=access_of(form, offset),
        sign_from=slots.sign_from(targets, _slot_types(form)),
    )


def _slot_types(form: MemoryForm) -> tuple[str, ...]:
    """The type of each slot that the elements take: 128 bits are two of 64."""
    return ("b64", "b64") if form.type == "b128" else (form.type,) * form.count


def _targets(slots: Slots, instruction: Instruction, form: MemoryForm) -> tuple[int, ...]:
    results = elements(instruction.operands[0])
    check_count(instruction, len(results), form.count)
    return tuple(slot for result in results for slot in slots.destinations(instruction, result, form.type))


def _values(slots: Slots, instruction: Instruction, operand: Operand, form: MemoryForm) -> Sequence[int]:
    values = elements(operand)
    check_count(instruction, len(values), form.count)
    return [slot for value in values for slot in slots.sources(instruction, value, form.type)]


def _name(instruction: Instruction, form: MemoryForm) -> str:
    names = [q for q in instruction.qualifiers if q in ATOMIC_TYPES]
    if len(names) != 1:
        raise not_modelled(instruction, "it needs one operation, such as .add")
    (name,) = names
    permitted = VECTOR_ATOMICS.get(form.type, ()) if form.count > 1 else ()
    if form.type not in ATOMIC_TYPES[name] if form.count == 1 else (name, form.count) not in permitted:
        vector = f".v{form.count}" if form.count > 1 else ""
        raise not_modelled(instruction, f"there is no atomic .{name} of {vector}.{form.type}")
    if instruction.mnemonic == "red" and name in ("exch", "cas"):
        raise not_modelled(instruction, f"red has no .{name}")
    if form.space in _NO_ATOMICS:
        raise not_modelled(instruction, f"there are no atomics on .{form.space.value}")
    if form.count > 1 and form.space in _SHARED:
        raise not_modelled(instruction, "there are no vector atomics on .shared")
    if ("noftz" in instruction.qualifiers) != (form.type in _HALVES):
        raise not_modelled(instruction, ".noftz belongs to f16, bf16 and their pairs, and is mandatory there")
    return name


def _operations(name: str, form: MemoryForm) -> tuple[Operation | None, Operation | None]:
    """The combining steps on shared and on other memory; None for what does not compute.

    On global memory atom.add.f32 flushes subnormal inputs and results to zero of the same sign, on shared memory it
    does not (PTX ISA, "atom"; measured, h200-2026-11-30/atomics.json).
    """
    if name in ("exch", "cas"):
        return None, None
    if name in WRAPPING_OPERATIONS:
        return WRAPPING_OPERATIONS[name], WRAPPING_OPERATIONS[name]
    plain = resolve(name, (form.type,))
    if form.type == "f64":
        assert plain is not None
        return _double_sums(plain)
    return plain, resolve("add", ("ftz", "f32")) if form.type == "f32" else plain


def _double_sums(add: Operation) -> tuple[Operation, Operation]:
    """atom.add.f64 on shared and on global memory, which differ in NaN: measured, h200-2026-11-30/atomics.json.

    On shared memory it is the sum of operand and cell, in that order. On global memory a NaN passes as it is, not made
    quiet, the operand's before the cell's.
    """

    def shared(values: Sequence[Bits]) -> tuple[Bits, ...]:
        return add.compute(values[::-1])

    def elsewhere(values: Sequence[Bits]) -> tuple[Bits, ...]:
        (total,) = add.compute(values)
        for operand in values:
            total = np.where(is_nan(operand, BINARY64), operand, total)
        return (total,)

    return replace(add, compute=shared), replace(add, compute=elsewhere)


DECODERS = {"atom": _atomic, "red": _atomic}
