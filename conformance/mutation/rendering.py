"""An instruction record back to PTX text, as a parser in the same scope reads it.

Example: `Instruction("add", ("s32",), (Register("x@3"), Register("%r1"), Immediate(5)), None, ...)` is
`add.s32 x, %r1, 5;`: what follows the `@` names the scope that the register was declared in.
"""

from typing import assert_never

from tileproof.simulators.ptx.text.syntax import (
    Address,
    Arguments,
    Immediate,
    Instruction,
    Label,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)


def render(instruction: Instruction) -> str:
    """The instruction with its guard, operands and semicolon."""
    guard = ""
    if instruction.guard is not None:
        guard = f"@{'!' if instruction.guard.negated else ''}{_name(instruction.guard.register.name)} "
    opcode = ".".join((instruction.mnemonic, *instruction.qualifiers))
    operands = ", ".join(map(render_operand, instruction.operands))
    return f"{guard}{opcode} {operands};" if operands else f"{guard}{opcode};"


def render_operand(operand: Operand) -> str:
    """One operand."""
    match operand:
        case Register(name) | Special(name) | Label(name):
            return _name(name)
        case Immediate(bits, float_type):
            return _constant(bits, float_type)
        case Symbol(name, offset):
            return f"{_name(name)}+{offset}" if offset else _name(name)
        case Sink():
            return "_"
        case Negated(register):
            return f"!{_name(register.name)}"
        case Vector(elements):
            return f"{{{', '.join(map(render_operand, elements))}}}"
        case Arguments(elements):
            return f"({', '.join(map(render_operand, elements))})"
        case Pair(first, second):
            return f"{render_operand(first)}|{render_operand(second)}"
        case Address(base, offset, coordinates):
            inside = f"{render_operand(base)}+{offset}" if offset else render_operand(base)
            return f"[{inside}]" if coordinates is None else f"[{inside}, {render_operand(coordinates)}]"
        case _:
            assert_never(operand)


def _name(name: str) -> str:
    return name.partition("@")[0]


def _constant(bits: int, float_type: str | None) -> str:
    if float_type == "f32":
        return f"0f{bits:08X}"
    if float_type == "f64":
        return f"0d{bits:016X}"
    return str(bits)
