"""The normal form of a kernel's PTX: what it does, without how the compiler happened to call and number it.

Kept: target, parameters, directives, every instruction with opcode, types, constants and operands in order, the memory
that it declares, and the functions that it calls. Left out: names of registers, labels, parameters and variables,
which are numbered in the order in which they first appear; lines, files, comments, labels that nothing jumps to, the
language's version. Two kernels of one form do the same; one edited instruction gives another form.

Machine code would not do: one PTX gives another SASS with every release of the assembler.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tileproof.conformance.mutation.rendering import render
from tileproof.kernels.compile import CompiledModule
from tileproof.simulators.ptx.text.syntax import (
    Address,
    Arguments,
    Guard,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Parameter,
    Register,
    Routine,
    Scalar,
    Symbol,
    Variable,
    Vector,
)

DIGITS = 16
"""Hexadecimal digits of a digest."""


@lru_cache(maxsize=1024)
def ptx_digests(text: str) -> Mapping[str, str]:
    """The digest of each kernel of a PTX text, by entry name. Raises: PtxSyntaxError, as the parser."""
    from tileproof.simulators.ptx.device import parsed  # here: the device loads a compiler

    module = parsed(text)
    return {name: _digest(normal_form(module, name)) for name in module.entries}


def ptx_digest(module: CompiledModule, entry: str) -> str:
    """The digest of one kernel of a compiled module."""
    return ptx_digests(module.ptx)[entry]


def normal_form(module: Module, entry: str) -> str:
    """The form of one kernel, a line an instruction."""
    lines = [f"target {' '.join(module.target)} {module.address_size}"]
    routines: list[Routine] = [module.entries[entry]]
    variables = _Variables()
    for routine in routines:  # which grows by the functions that are called
        names = _Names(routine, module, variables)
        lines += _routine(routine, names)
        called = (module.functions[name] for name in names.functions)
        routines += [one for one in called if all(one is not known for known in routines)]
    return "\n".join(lines)


def _digest(form: str) -> str:
    return hashlib.sha256(form.encode()).hexdigest()[:DIGITS]


@dataclass
class _Variables:
    """Variables of all routines of a kernel: a function that names the module's variable names the kernel's.

    Attributes:
        count: how many there are.
        of_module: numbers of those of the module.
    """

    count: int = 0
    of_module: dict[str, str] = field(default_factory=dict)

    def number(self, name: str, *, is_of_module: bool) -> str:
        """As `v0`."""
        if is_of_module and name in self.of_module:
            return self.of_module[name]
        number = f"v{self.count}"
        self.count += 1
        if is_of_module:
            self.of_module[name] = number
        return number


@dataclass
class _Names:
    """The names of one routine, each replaced by a number of its kind at its first appearance.

    Attributes:
        functions: names of functions that appear; they keep them.
    """

    routine: Routine
    module: Module
    variables_so_far: _Variables
    functions: dict[str, None] = field(default_factory=dict)
    _given: dict[tuple[str, str], str] = field(default_factory=dict)
    _count: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._parameters = {one.name: f"p{place}" for place, one in enumerate(self.routine.parameters)}

    def register(self, name: str) -> str:
        """As `%f32.0`."""
        kind = self.routine.registers.get(name, "")
        return self._number(f"%{kind}.", name)

    def label(self, name: str) -> str:
        """As `L0`."""
        return self._number("L", name)

    def symbol(self, name: str) -> str:
        """A parameter as `p0` by its place, a variable as `v0`; a function keeps its name."""
        if name in self._parameters:
            return self._parameters[name]
        if self.variable(name) is not None:
            key = ("v", name)
            if key not in self._given:
                is_of_module = name not in self.routine.variables
                self._given[key] = self.variables_so_far.number(name, is_of_module=is_of_module)
            return self._given[key]
        if name in self.module.functions:
            self.functions.setdefault(name)
        return name

    def variable(self, name: str) -> Variable | None:
        """The variable of that name, of the routine or else of the module."""
        return self.routine.variables.get(name) or self.module.variables.get(name)

    @property
    def variables(self) -> Iterator[tuple[str, Variable]]:
        """Number and record of the variables that have appeared."""
        for (kind, name), number in self._given.items():
            variable = self.variable(name) if kind == "v" else None
            if variable is not None:
                yield number, variable

    @property
    def unused(self) -> Iterator[Variable]:
        """Variables of the routine that have not appeared; they take memory all the same."""
        return (one for name, one in self.routine.variables.items() if ("v", name) not in self._given)

    def _number(self, kind: str, name: str) -> str:
        key = (kind, name)
        if key not in self._given:
            self._given[key] = f"{kind}{self._count[kind]}"
            self._count[kind] += 1
        return self._given[key]


def _routine(routine: Routine, names: _Names) -> Iterator[str]:
    yield f"routine {routine.linkage} {sorted(routine.directives.items())} {routine.pragmas}"
    yield from (f"parameter {_parameter(one, names)}" for one in routine.parameters)
    yield from (f"returns {_parameter(one, names)}" for one in getattr(routine, "returns", ()))
    targets = _jumped_to(routine)
    body = []
    for index, instruction in enumerate(routine.instructions):
        body += [f"{names.label(name)}:" for name in targets.get(index, ())]
        body.append(render(_renamed(instruction, names)))
    body += [f"{names.label(name)}:" for name in targets.get(len(routine.instructions), ())]
    lists = {name: tuple(map(names.label, labels)) for name, labels in routine.branch_targets.items()}
    yield from body
    yield from (f"targets {names.label(name)} {labels}" for name, labels in sorted(lists.items()))
    yield from (f"variable {number} {_variable(one)}" for number, one in names.variables)
    yield from (f"unused {_variable(one)}" for one in names.unused)


def _jumped_to(routine: Routine) -> Mapping[int, list[str]]:
    """The labels that an instruction or a list names, by the instruction that follows them."""
    named = {operand.name for one in routine.instructions for operand in one.operands if isinstance(operand, Label)} | {
        label for labels in routine.branch_targets.values() for label in labels
    }
    found: dict[int, list[str]] = {}
    for name, index in routine.labels.items():
        if name in named:
            found.setdefault(index, []).append(name)
    return found


def _parameter(one: Parameter, names: _Names) -> str:
    register = f" {names.register(one.name)}" if one.space == "reg" else ""
    return f"{one.space} {one.type} {one.align} {one.count} {one.pointer_space} {one.pointer_align}{register}"


def _variable(one: Variable) -> str:
    initial = None if one.initial is None else one.initial.hex()
    return f"{one.space} {one.type} {one.align} {one.count} {one.linkage} {initial}"


def _renamed(instruction: Instruction, names: _Names) -> Instruction:
    guard = instruction.guard
    if guard is not None:
        guard = Guard(Register(names.register(guard.register.name)), guard.negated)
    operands = tuple(_operand(operand, names) for operand in instruction.operands)
    return replace(instruction, guard=guard, operands=operands)


def _operand(operand: Operand, names: _Names) -> Operand:
    match operand:
        case Register() | Symbol():
            return _scalar(operand, names)
        case Label(name):
            return Label(names.label(name))
        case Negated(register):
            return Negated(Register(names.register(register.name)))
        case Vector(elements):
            return Vector(tuple(_scalar(one, names) for one in elements))
        case Arguments(elements):
            return Arguments(tuple(_scalar(one, names) for one in elements))
        case Pair(first, second):
            return Pair(_scalar(first, names), _scalar(second, names))  # type: ignore[arg-type]
        case Address(base, offset, coordinates):
            inside = None if coordinates is None else Vector(tuple(_scalar(one, names) for one in coordinates.elements))
            return Address(_scalar(base, names), offset, inside)  # type: ignore[arg-type]
        case _:
            return operand


def _scalar(operand: Scalar, names: _Names) -> Scalar:
    match operand:
        case Register(name):
            return Register(names.register(name))
        case Symbol(name, offset):
            return Symbol(names.symbol(name), offset)
        case _:
            return operand
