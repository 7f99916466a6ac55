"""Bodies of entries and functions: statements, nested scopes, labels. Source: PTX ISA 9.0, sections 4.2, 9.7.12, 11.

Registers and variables are declared before their use, labels may follow it. A branch therefore keeps its label as
written until the routine ends and is resolved then, from the scope that it stands in outwards.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tileproof.simulators.ptx.text.declarations import VARIABLE_SPACES, RegisterQuota, read_registers, read_variables
from tileproof.simulators.ptx.text.locations import Locations
from tileproof.simulators.ptx.text.operands import read_call_operands, read_operand, read_register, read_scalar
from tileproof.simulators.ptx.text.scopes import Named, Scope
from tileproof.simulators.ptx.text.syntax import Guard, Instruction, Label, Location, Operand, PtxSyntaxError, Variable
from tileproof.simulators.ptx.text.tokens import Cursor, Kind, quote

MAX_SCOPE_DEPTH = 64
"""Deepest nesting of ``{ }``; inlined inline assembly reaches three or four."""

REFUSED_DIRECTIVES = frozenset({".callprototype", ".calltargets", ".alias", ".tex", ".section", ".attribute"})
"""Legal PTX that is refused by name inside a body."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A label that was used: where, from which scope, and what the name meant when it was read."""

    name: str
    scope: Scope
    meaning: Named | None
    line: int


@lru_cache(maxsize=1 << 14)
def _split_opcode(text: str) -> tuple[str, tuple[str, ...]]:
    mnemonic, *qualifiers = text.split(".")
    return mnemonic, tuple(qualifiers)


class Body:
    """Reads one body; its fields are those of ``syntax.Routine``.

    Args:
        cursor: stands at the ``{``.
        scope: the routine's own, with its parameters.
        registers: of the parameters.
        files: names by ``.file`` number.
        quota: registers that the module may still declare.
    """

    def __init__(
        self, cursor: Cursor, scope: Scope, registers: Mapping[str, str], files: Mapping[int, str], quota: RegisterQuota
    ) -> None:
        self.registers: dict[str, str] = dict(registers)
        self.variables: dict[str, Variable] = {}
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self.pragmas: list[str] = []
        self._cursor = cursor
        self._scope = scope
        self._depth = 1
        self._scope_count = 0
        self._quota = quota
        self._locations = Locations(files)
        self._location: Location | None = None
        self._branches: list[tuple[int, _Use]] = []
        self._target_lists: list[tuple[str, list[_Use]]] = []
        self._read()
        self._resolve_labels()

    def _read(self) -> None:
        cursor = self._cursor
        cursor.expect("{", "at the beginning of a body")
        while self._depth:
            token = cursor.token
            if token.kind is Kind.WORD:
                if cursor.following.text == ":":
                    self._read_label()
                else:
                    self._read_instruction(None)
            elif token.text == "@":
                self._read_instruction(self._read_guard())
            elif token.kind is Kind.DIRECTIVE:
                self._read_directive()
            elif token.text == "{":
                self._open_scope()
            elif token.text == "}":
                self._close_scope()
            else:
                cursor.fail("an instruction, a directive, a label or '}'")

    def _open_scope(self) -> None:
        if self._depth == MAX_SCOPE_DEPTH:
            raise PtxSyntaxError(f"scopes are nested deeper than {MAX_SCOPE_DEPTH}", line=self._cursor.line)
        self._cursor.take()
        self._depth += 1
        self._scope_count += 1
        self._scope = Scope(self._scope, f"@{self._scope_count}")

    def _close_scope(self) -> None:
        self._cursor.take()
        self._depth -= 1
        assert self._scope.parent is not None  # the module's scope encloses every routine
        self._scope = self._scope.parent

    def _read_instruction(self, guard: Guard | None) -> None:
        cursor, scope = self._cursor, self._scope
        opcode = cursor.expect_kind(Kind.WORD, "an instruction")
        line = cursor.line_of(opcode)
        mnemonic, qualifiers = _split_opcode(opcode.text)
        if mnemonic[0] in "%$_":
            raise PtxSyntaxError(f"expected an instruction, found {quote(opcode.text)}", line=line)
        if cursor.token.kind is Kind.DIRECTIVE:
            qualifiers += self._read_spaced_qualifiers()
        operands: tuple[Operand, ...] = ()
        if cursor.token.text != ";":
            if mnemonic in ("bra", "brx"):
                operands = self._read_branch_operands(mnemonic)
            elif mnemonic == "call":
                operands = read_call_operands(cursor, scope)
            else:
                operands = self._read_operands()
        if cursor.token.text != ";":
            self._refuse_end(opcode.text, line)
        cursor.take()
        self.instructions.append(Instruction(mnemonic, qualifiers, operands, guard, line, self._location))

    def _read_spaced_qualifiers(self) -> tuple[str, ...]:
        """What follows the opcode in ``add .s32``; ptxas takes that as well."""
        qualifiers: list[str] = []
        while self._cursor.token.kind is Kind.DIRECTIVE:
            qualifiers.append(self._cursor.take().text[1:])
        return tuple(qualifiers)

    def _read_operands(self) -> tuple[Operand, ...]:
        cursor, scope = self._cursor, self._scope
        operands = [read_operand(cursor, scope)]
        while cursor.accept(","):
            operands.append(read_operand(cursor, scope))
        return tuple(operands)

    def _refuse_end(self, opcode: str, line: int) -> None:
        hint = "" if self._cursor.line == line else f"the instruction begins on line {line}"
        self._cursor.fail(f"',' or ';' after an operand of {quote(opcode)}", hint=hint)

    def _read_guard(self) -> Guard:
        cursor = self._cursor
        cursor.expect("@", "before a guard")
        negated = cursor.accept("!")
        line = cursor.line
        register = read_register(cursor, self._scope, "a predicate after '@'")
        if self.registers[register.name] != "pred":
            raise PtxSyntaxError(
                f"the guard {quote(register.name)} has the type .{self.registers[register.name]}, not .pred", line=line
            )
        return Guard(register, negated)

    def _read_branch_operands(self, mnemonic: str) -> tuple[Operand, ...]:
        """``bra label`` or ``brx.idx index, list``."""
        cursor = self._cursor
        index: tuple[Operand, ...] = ()
        if mnemonic == "brx":
            index = (read_scalar(cursor, self._scope),)
            cursor.expect(",", "after the index of 'brx'")
        use = self._read_use("the label to branch to" if mnemonic == "bra" else "the name of a .branchtargets list")
        self._branches.append((len(self.instructions), use))
        return (*index, Label(use.name))

    def _read_use(self, expected: str) -> _Use:
        cursor = self._cursor
        line = cursor.line
        name = cursor.expect_name(expected)
        return _Use(name, self._scope, self._scope.find(name), line)

    def _read_label(self) -> None:
        cursor = self._cursor
        line = cursor.line
        name = cursor.expect_name("a label without dots")
        cursor.expect(":", "after a label")
        unique = self._scope.declare(name, Label, line)
        if cursor.accept(".branchtargets"):
            self._target_lists.append((unique, self._read_targets()))
        else:
            self.labels[unique] = len(self.instructions)

    def _read_targets(self) -> list[_Use]:
        targets = [self._read_use("a label in .branchtargets")]
        while self._cursor.accept(","):
            targets.append(self._read_use("a label in .branchtargets"))
        self._cursor.expect(";", "at the end of .branchtargets")
        return targets

    def _read_directive(self) -> None:
        cursor = self._cursor
        text = cursor.token.text
        if text == ".loc":
            self._location = self._locations.read(cursor)
        elif text == ".reg":
            cursor.take()
            self.registers |= read_registers(cursor, self._scope, self._quota)
        elif text in VARIABLE_SPACES:
            self.variables |= {variable.name: variable for variable in read_variables(cursor, self._scope)}
        elif text == ".pragma":
            self.pragmas += read_pragma(cursor)
        elif text == ".branchtargets":
            cursor.fail("a label before '.branchtargets'")
        elif text in REFUSED_DIRECTIVES:
            raise PtxSyntaxError(f"{text} in a body is not modelled", line=cursor.line)
        else:
            cursor.fail("a directive that a body can hold")

    def _resolve_labels(self) -> None:
        lists = {name for name, _ in self._target_lists}
        for index, use in self._branches:
            instruction = self.instructions[index]
            unique = _resolve(use, lists if instruction.mnemonic == "brx" else self.labels)
            if unique != use.name:
                operands = (*instruction.operands[:-1], Label(unique))
                self.instructions[index] = replace(instruction, operands=operands)
        for name, uses in self._target_lists:
            self.branch_targets[name] = tuple(_resolve(use, self.labels) for use in uses)


def read_pragma(cursor: Cursor) -> list[str]:
    """The strings of ``.pragma "a", "b";``."""
    cursor.expect(".pragma", "before its strings")
    strings = [cursor.expect_kind(Kind.STRING, "a string in quotes after .pragma").text[1:-1]]
    while cursor.accept(","):
        strings.append(cursor.expect_kind(Kind.STRING, "a string in quotes after .pragma").text[1:-1])
    cursor.expect(";", "at the end of .pragma")
    return strings


def _resolve(use: _Use, allowed: Container[str]) -> str:
    """The unique name of a label or .branchtargets list, whichever are ``allowed``."""
    named = use.scope.find(use.name)
    if named is None:
        hint = "a label is seen in its own { } only"
        raise PtxSyntaxError(f"the label {quote(use.name)} is not declared", line=use.line, hint=hint)
    if named.name not in allowed or not isinstance(named, Label):
        hint = "bra takes a label, brx.idx the name of a .branchtargets list"
        raise PtxSyntaxError(f"{quote(use.name)} is no target of this branch", line=use.line, hint=hint)
    if use.meaning is not None and use.meaning != named:
        raise PtxSyntaxError(
            f"{quote(use.name)} means a label of an outer scope here and of an inner scope further down",
            line=use.line,
            hint="give the two labels different names",
        )
    return named.name
