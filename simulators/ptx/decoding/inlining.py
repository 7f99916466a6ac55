"""Calls and indexed branches, expanded: a kernel with its device functions in place.

Every call site gets a copy of the function of its own, with registers, labels and local variables of its own, so that
nothing behind this file knows calls. Parameters in `.param` space are variables in the lane's local memory: a formal
parameter *is* the variable that the call names for it (PTX ISA, "call", "Parameterized device functions"). So

    st.param.b32 [a], %r1;  call.uni (r), f, (a);  ld.param.b32 %r2, [r];

with `f` reading `[f_a]` and writing `[f_r]` becomes a store to `a`, the body with `a` for `f_a` and `r` for `f_r`, and
a load of `r`, each checked for bounds and definedness like any access to local memory. `ret` branches behind the copy.
Instructions of a copy keep the PTX and CUDA lines of the function. `brx.idx` becomes one comparison and branch for each
of its targets (PTX ISA, "brx.idx").
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from tileproof.simulators.ptx.decoding.instruction_text import not_modelled
from tileproof.simulators.ptx.decoding.renaming import Names
from tileproof.simulators.ptx.text.declarations import MAX_REGISTERS
from tileproof.simulators.ptx.text.syntax import (
    TYPE_BYTES,
    Address,
    Arguments,
    Entry,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    Operand,
    Parameter,
    Register,
    Routine,
    Scalar,
    Sink,
    Symbol,
    Variable,
)

MAX_INSTRUCTIONS = 1 << 17
"""Longest kernel after expansion; copies of copies grow without bound otherwise."""

ASSERT_FAIL, PRINT, FRESH = "call __assertfail", "call vprintf", "call"
"""Mnemonics that no PTX text can contain: calls of the two functions of the CUDA runtime that are modelled; and, of any
other call, the beginning of its copy, where registers and local variables are undefined."""

_RUNTIME = {
    "__assertfail": (ASSERT_FAIL, ("b64", "b64", "b32", "b64", "b64")),  # message, file, line, function, char size
    "vprintf": (PRINT, ("b64", "b64")),  # format, arguments
}
_PER_COPY = ("local", "param")


def expand(module: Module, entry: Entry) -> Entry:
    """The kernel without calls and indexed branches.

    Raises:
        NotModelled: an indirect or recursive call, a function that the module only declares, arguments that do not fit
            its parameters, or a kernel that grows too long.
    """
    return _Expansion(module, entry).kernel()


class _Expansion:
    def __init__(self, module: Module, entry: Entry) -> None:
        self._functions = module.functions
        self._entry = entry
        self._registers: dict[str, str] = {}
        self._variables: dict[str, Variable] = {}
        self._instructions: list[Instruction] = []
        self._labels: dict[str, int] = {}
        self._copies = 0

    def kernel(self) -> Entry:
        """The expanded kernel."""
        self._copy(self._entry, self._names(self._entry, "", {}), None, ())
        return replace(
            self._entry,
            registers=self._registers,
            variables=self._variables,
            instructions=tuple(self._instructions),
            labels=self._labels,
            branch_targets={},
        )

    def _names(self, routine: Routine, suffix: str, formals: Mapping[str, str]) -> Names:
        """Names of one copy, its registers and variables declared: static variables are one for all copies."""
        registers = {name: name + suffix for name in routine.registers} if suffix else {}
        self._registers |= {registers.get(name, name): type_ for name, type_ in routine.registers.items()}
        symbols = dict(formals)
        for name, variable in routine.variables.items():
            unique = f"{name}@{routine.name}" if variable.space == "global" else name
            if suffix:
                unique = name + suffix if variable.space in _PER_COPY else f"{name}@{routine.name}"
            symbols[name] = unique
            space = "local" if variable.space == "param" else variable.space
            self._variables[unique] = replace(variable, name=unique, space=space)
        labels = {name: name + suffix for name in (*routine.labels, *routine.branch_targets)} if suffix else {}
        return Names(registers, symbols, labels)

    def _copy(self, routine: Routine, names: Names, end: str | None, chain: tuple[str, ...]) -> None:
        """Append the instructions of a routine; `end` is where its `ret` goes, None in the kernel itself."""
        at: dict[int, list[str]] = {}
        for label, index in routine.labels.items():
            at.setdefault(index, []).append(names.label(label))
        lists = {
            names.label(name): tuple(map(names.label, targets)) for name, targets in routine.branch_targets.items()
        }
        unchanged = names.changes_nothing
        for index, instruction in enumerate(routine.instructions):
            self._mark(at.get(index, ()))
            renamed = instruction if unchanged else names.instruction(instruction)
            self._append(renamed, lists, end, (*chain, routine.name))
        self._mark(at.get(len(routine.instructions), ()))

    def _mark(self, labels: Sequence[str]) -> None:
        for label in labels:
            self._labels[label] = len(self._instructions)

    def _append(
        self, instruction: Instruction, lists: Mapping[str, tuple[str, ...]], end: str | None, chain: tuple[str, ...]
    ) -> None:
        match instruction.mnemonic:
            case "call":
                self._call(instruction, chain)
            case "brx":
                self._branch_by_index(instruction, lists)
            case "ret" if end is not None:
                self._emit(replace(instruction, mnemonic="bra", operands=(Label(end),)))
            case _:
                self._emit(instruction)

    def _emit(self, instruction: Instruction) -> None:
        if len(self._instructions) >= MAX_INSTRUCTIONS:
            raise not_modelled(instruction, f"the kernel has more than {MAX_INSTRUCTIONS} instructions with its calls")
        self._instructions.append(instruction)

    def _unique(self, name: str) -> str:
        self._copies += 1
        return f"{name}#{self._copies}"

    def _register(self, type_: str) -> Register:
        name = self._unique("%")
        self._registers[name] = type_
        return Register(name)

    def _call(self, call: Instruction, chain: tuple[str, ...]) -> None:
        results, name, arguments = _parts(call)
        function = self._functions.get(name)
        if function is None:
            raise not_modelled(call, f"{name} is not a function of the module: indirect calls are not modelled")
        behind = self._unique("behind")
        if call.guard is not None:
            inverted = Guard(call.guard.register, not call.guard.negated)
            self._emit(replace(call, mnemonic="bra", qualifiers=(), operands=(Label(behind),), guard=inverted))
            call = replace(call, guard=None)
        if function.defined:
            self._inline(call, function, results, arguments, chain, behind)
        else:
            self._runtime_call(call, name, results, arguments)
        self._labels[behind] = len(self._instructions)

    def _inline(
        self,
        call: Instruction,
        function: Function,
        results: tuple[Scalar, ...],
        arguments: tuple[Scalar, ...],
        chain: tuple[str, ...],
        behind: str,
    ) -> None:
        if function.name in chain:
            path = " -> ".join((*chain[chain.index(function.name) :], function.name))
            raise not_modelled(call, f"recursive calls are not modelled ({path})")
        pairs = [*_paired(call, function.returns, results), *_paired(call, function.parameters, arguments)]
        symbols = {p.name: self._actual(call, p, actual) for p, actual in pairs if p.space == "param"}
        if len(self._registers) + len(function.registers) > MAX_REGISTERS:
            raise not_modelled(call, f"the kernel has more than {MAX_REGISTERS} registers with its calls")
        suffix = self._unique("")
        names = self._names(function, suffix, symbols)
        registers = [Register(name) for name in names.registers.values()]
        returned = [symbols[p.name] for p in function.returns if p.space == "param"]
        own = [names.symbols[name] for name, v in function.variables.items() if v.space in _PER_COPY]
        fresh: tuple[Operand, ...] = (Label(behind), *registers, *(Symbol(name) for name in (*returned, *own)))
        self._emit(replace(call, mnemonic=FRESH, operands=fresh))
        for parameter, argument in _paired(call, function.parameters, arguments):
            self._pass_in(call, parameter, argument, names)
        end = self._unique("end")
        self._copy(function, names, end, chain)
        self._labels[end] = len(self._instructions)
        for parameter, result in _paired(call, function.returns, results):
            self._pass_out(call, parameter, result, names)

    def _actual(self, call: Instruction, formal: Parameter, actual: Scalar) -> str:
        """The variable that a formal parameter in `.param` space stands for."""
        if not isinstance(actual, Symbol):
            name = self._unique(formal.name)
            self._variables[name] = Variable(name, "local", formal.type, formal.align, formal.count, formal.line)
            return name
        variable = self._variables.get(actual.name)
        if variable is None or variable.space != "local" or actual.offset:
            raise not_modelled(call, f"the argument {actual.name} is not a .param variable of the caller")
        if variable.size_bytes != formal.size_bytes:
            message = f"{actual.name} has {variable.size_bytes} bytes, the parameter {formal.name} {formal.size_bytes}"
            raise not_modelled(call, message)
        return actual.name

    def _pass_in(self, call: Instruction, formal: Parameter, actual: Scalar, names: Names) -> None:
        if formal.space == "reg":
            target = names.register(Register(formal.name))
            self._emit(replace(call, mnemonic="mov", qualifiers=(_bits(formal),), operands=(target, actual)))
        elif not isinstance(actual, Symbol):
            address = Address(Symbol(names.symbols[formal.name]))
            self._emit(replace(call, mnemonic="st", qualifiers=("local", _bits(formal)), operands=(address, actual)))

    def _pass_out(self, call: Instruction, formal: Parameter, actual: Scalar, names: Names) -> None:
        if isinstance(actual, Sink):
            return
        if formal.space == "reg":
            source = names.register(Register(formal.name))
            self._emit(replace(call, mnemonic="mov", qualifiers=(_bits(formal),), operands=(actual, source)))
        elif not isinstance(actual, Symbol):
            address = Address(Symbol(names.symbols[formal.name]))
            self._emit(replace(call, mnemonic="ld", qualifiers=("local", _bits(formal)), operands=(actual, address)))

    def _runtime_call(
        self, call: Instruction, name: str, results: tuple[Scalar, ...], arguments: tuple[Scalar, ...]
    ) -> None:
        """A function that the module only declares: of the CUDA runtime, two have a meaning here."""
        if name not in _RUNTIME:
            raise not_modelled(call, f"the function {name} is declared, not defined, in this module")
        mnemonic, types = _RUNTIME[name]
        if len(arguments) != len(types) or len(results) > 1:
            raise not_modelled(call, f"{len(arguments)} arguments where {name} takes {len(types)}")
        values = [self._argument(call, argument, type_) for argument, type_ in zip(arguments, types, strict=True)]
        count = [self._register("b32") for _ in results]
        self._emit(replace(call, mnemonic=mnemonic, qualifiers=(), operands=(*count, *values)))
        for result, register in zip(results, count, strict=True):
            if isinstance(result, Symbol):
                self._emit(
                    replace(call, mnemonic="st", qualifiers=("local", "b32"), operands=(Address(result), register))
                )
            elif not isinstance(result, Sink):
                self._emit(replace(call, mnemonic="mov", qualifiers=("b32",), operands=(result, register)))

    def _argument(self, call: Instruction, argument: Scalar, type_: str) -> Operand:
        if not isinstance(argument, Symbol):
            return argument
        register = self._register(type_)
        self._emit(replace(call, mnemonic="ld", qualifiers=("local", type_), operands=(register, Address(argument))))
        return register

    def _branch_by_index(self, branch: Instruction, lists: Mapping[str, tuple[str, ...]]) -> None:
        """One comparison and branch a target; an index beyond the list ends in a `trap` that says so."""
        if set(branch.qualifiers) - {"uni"} != {"idx"}:
            raise not_modelled(branch, "this branch form is not modelled")
        index, label = branch.operands
        assert isinstance(label, Label)
        behind = self._unique("behind")
        if branch.guard is not None:
            inverted = Guard(branch.guard.register, not branch.guard.negated)
            self._emit(replace(branch, mnemonic="bra", qualifiers=(), operands=(Label(behind),), guard=inverted))
            branch = replace(branch, guard=None)
        chosen = self._register("pred")
        for number, target in enumerate(lists[label.name]):
            compare = (chosen, index, Immediate(number))
            self._emit(replace(branch, mnemonic="setp", qualifiers=("eq", "u32"), operands=compare))
            guard = Guard(chosen, False)
            self._emit(replace(branch, mnemonic="bra", qualifiers=(), operands=(Label(target),), guard=guard))
        self._emit(replace(branch, operands=(index,)))
        self._labels[behind] = len(self._instructions)


def _parts(call: Instruction) -> tuple[tuple[Scalar, ...], str, tuple[Scalar, ...]]:
    """Results, name and arguments of a direct call."""
    operands = list(call.operands)
    results: tuple[Scalar, ...] = ()
    if operands and isinstance(operands[0], Arguments):
        results = operands[0].elements
        del operands[0]
    if not operands or not isinstance(operands[0], Symbol):
        raise not_modelled(call, "indirect calls are not modelled", hint="compile with the callee known (inline it)")
    name, *rest = operands
    assert isinstance(name, Symbol)
    if not rest:
        return results, name.name, ()
    if len(rest) != 1 or not isinstance(rest[0], Arguments):
        raise not_modelled(call, "a call of this form is not modelled")
    return results, name.name, rest[0].elements


def _paired(
    call: Instruction, formals: Sequence[Parameter], actuals: Sequence[Scalar]
) -> list[tuple[Parameter, Scalar]]:
    pairs: list[tuple[Parameter, Scalar]] = []
    for formal, actual in zip_longest(formals, actuals):
        if formal is None or actual is None:
            raise not_modelled(call, f"{len(actuals)} arguments or results where the function has {len(formals)}")
        pairs.append((formal, actual))
    return pairs


def _bits(formal: Parameter) -> str:
    """The untyped type that moves a scalar parameter."""
    return "pred" if formal.type == "pred" else f"b{8 * TYPE_BYTES[formal.type] * formal.count}"
