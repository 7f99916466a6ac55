"""Decoding of what concerns caches: policies, priorities, prefetches, and `discard`.

A policy is opaque; here it is the number 0, which nothing reads. `discard.global.L2 [a], 128` leaves 128 bytes with no
value (PTX ISA, "discard"), so it is a store of bits that nothing wrote.
"""

from tileproof.simulators.ptx.alu.operation import resolve
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.slots import Slots
from tileproof.simulators.ptx.program import Access, Kind, StateSpace, Step
from tileproof.simulators.ptx.text.syntax import Immediate, Instruction

_LINE_BYTES = 128
_POLICIES = ("fractional", "range", "cvt")
_SPACES = {(): StateSpace.GENERIC, ("global",): StateSpace.GLOBAL}


def _createpolicy(slots: Slots, instruction: Instruction) -> Step:
    if instruction.qualifiers[:1] not in [(name,) for name in _POLICIES] or instruction.qualifiers[-1] != "b64":
        raise not_modelled(instruction, "a policy is .fractional, .range or .cvt, of type .b64")
    operation = resolve("mov", ("b64",))
    assert operation is not None
    return slots.arithmetic(instruction, operation, (instruction.operands[0], Immediate(0)))


def _discard(slots: Slots, instruction: Instruction) -> Step:
    *space, level = instruction.qualifiers
    size = instruction.operands[1] if len(instruction.operands) > 1 else None
    if level != "L2" or tuple(space) not in _SPACES or size != Immediate(_LINE_BYTES):
        raise not_modelled(instruction, f"only discard{{.global}}.L2 of {_LINE_BYTES} bytes exists")
    slot, offset = slots.address(instruction, instruction.operands[0])
    access = Access(_SPACES[tuple(space)], _LINE_BYTES, offset, strong=False, acquires=False, releases=False)
    return Step(Kind.DISCARD, opcode(instruction), where(instruction), sources=(slot,), access=access)


def _hint(slots: Slots, instruction: Instruction) -> Step:
    return Step(Kind.NOTHING, opcode(instruction), where(instruction))


DECODERS = {
    "createpolicy": _createpolicy,
    "discard": _discard,
    **dict.fromkeys(("applypriority", "prefetch", "prefetchu"), _hint),
}
