"""PTX text to a module: the front door of the front end. Source: PTX ISA 9.0, sections 5.4, 7, 11.

``parse_module(text)`` reads everything that NVRTC, nvcc, Triton and inline assembly write into a module, resolves
every name, and refuses the rest with the PTX line. Debug sections are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from tileproof.simulators.ptx.text.bodies import Body, read_pragma
from tileproof.simulators.ptx.text.constants import read_integer
from tileproof.simulators.ptx.text.declarations import RegisterQuota, read_parameters, read_variables
from tileproof.simulators.ptx.text.locations import find_files, read_file
from tileproof.simulators.ptx.text.scopes import Scope, redeclared
from tileproof.simulators.ptx.text.syntax import (
    Entry,
    Function,
    Module,
    Parameter,
    PtxSyntaxError,
    Routine,
    Symbol,
    Variable,
)
from tileproof.simulators.ptx.text.tokens import Cursor, Kind, quote

LINKAGES = frozenset({".visible", ".extern", ".weak", ".common"})

REFUSED_DIRECTIVES = {
    ".alias": "give the callers the function itself",
    ".tex": "textures are not modelled",
    ".reg": "declare registers inside a body",
    ".local": "declare local variables inside a body",
    ".param": "declare parameters in the list of an entry or function",
    ".attribute": "managed and unified memory are not modelled",
}
"""Legal PTX that is refused by name outside bodies, and what to do instead."""

_MOST_NUMBERS = {
    **dict.fromkeys((".maxntid", ".reqntid", ".reqnctapercluster"), 3),
    **dict.fromkeys((".minnctapersm", ".maxnctapersm", ".maxnreg", ".maxclusterrank"), 1),
    **dict.fromkeys((".explicitcluster", ".blocksareclusters", ".noreturn"), 0),
}
"""Directives between the parameters and the body, and how many numbers each takes (PTX ISA 9.0, section 11.4)."""

_AnyRoutine = TypeVar("_AnyRoutine", bound=Routine)


def parse_module(text: str) -> Module:
    """Reads a whole PTX module.

    Raises:
        PtxSyntaxError: with the PTX line, what was expected and what was found. Raised for every text that is not a
            module: no other exception leaves this function.
    """
    return _ModuleReader(text).read()


@dataclass(frozen=True, slots=True)
class _Header:
    """What stands before the body of a routine; ``scope`` has the parameters."""

    name: str
    line: int
    linkage: str
    scope: Scope
    returns: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    directives: Mapping[str, tuple[int, ...]]
    pragmas: tuple[str, ...]


class _ModuleReader:
    def __init__(self, text: str) -> None:
        self.cursor = Cursor(text)
        self.files_ahead = find_files(text)
        self.files: dict[int, str] = {}
        self.scope = Scope()
        self.quota = RegisterQuota()
        self.entries: dict[str, Entry] = {}
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}
        self.declared_entries: set[str] = set()

    def read(self) -> Module:
        cursor = self.cursor
        version, target, address_size = _read_version(cursor), _read_target(cursor), _read_address_size(cursor)
        while cursor.token.kind is not Kind.END:
            self._read_directive()
        return Module(
            version=version,
            target=target,
            address_size=address_size,
            entries=self.entries,
            functions=self.functions,
            variables=self.variables,
            files=self.files,
        )

    def _read_directive(self) -> None:
        cursor = self.cursor
        text = cursor.token.text
        if text == ".file":
            self._read_file()
        elif text == ".section":
            _skip_section(cursor)
        elif text == ".pragma":
            read_pragma(cursor)
        elif text == "@" and cursor.following.text == "@":
            _skip_line(cursor)
        elif text in REFUSED_DIRECTIVES:
            hint = REFUSED_DIRECTIVES[text]
            raise PtxSyntaxError(f"{text} outside a body is not modelled", line=cursor.line, hint=hint)
        else:
            self._read_declaration()

    def _read_file(self) -> None:
        line = self.cursor.line
        number, name = read_file(self.cursor)
        if self.files.setdefault(number, name) != name:
            raise PtxSyntaxError(f"file {number} has two names", line=line)

    def _read_declaration(self) -> None:
        cursor = self.cursor
        linkage = cursor.take().text[1:] if cursor.token.text in LINKAGES else ""
        text = cursor.token.text
        if text == ".entry":
            self._read_entry(linkage)
        elif text == ".func":
            self._read_function(linkage)
        elif text in (".global", ".const", ".shared"):
            self._read_variables(linkage)
        else:
            cursor.fail("a variable, an .entry or a .func" if linkage else "a directive that a module can hold")

    def _read_variables(self, linkage: str) -> None:
        """An ``.extern`` declaration may stand beside the definition and beside others of its kind."""
        if self.cursor.following.text == "[":
            raise PtxSyntaxError("numbered constant banks are not modelled", line=self.cursor.line)
        for variable in read_variables(self.cursor, Scope(), linkage):
            known = self.variables.get(variable.name)
            if variable.name in self.scope.names and (known is None or "extern" not in (known.linkage, linkage)):
                raise redeclared(variable.name, variable.line)
            self.scope.names[variable.name] = Symbol(variable.name)
            if known is None or known.linkage == "extern":
                self.variables[variable.name] = variable

    def _read_entry(self, linkage: str) -> None:
        header = self._read_header(linkage)
        declared = header.name in self.declared_entries
        if self.cursor.accept(";"):
            self._name_routine(header, again=declared)
            self.declared_entries.add(header.name)
        else:
            self._name_routine(header, again=declared and header.name not in self.entries)
            self.entries[header.name] = self._read_body(Entry, header)

    def _read_function(self, linkage: str) -> None:
        header = self._read_header(linkage)
        known = self.functions.get(header.name)
        if self.cursor.accept(";"):
            self._name_routine(header, again=known is not None)
            self.functions.setdefault(header.name, _declared_function(header))
        else:
            self._name_routine(header, again=known is not None and not known.defined)
            self.functions[header.name] = replace(self._read_body(Function, header), returns=header.returns)

    def _name_routine(self, header: _Header, *, again: bool) -> None:
        """Makes the name known before the body, which may call itself."""
        if header.name in self.scope.names and not again:
            raise redeclared(header.name, header.line)
        self.scope.names[header.name] = Symbol(header.name)

    def _read_header(self, linkage: str) -> _Header:
        """``.func (results) name (parameters) directives``; entries have no results."""
        cursor, scope = self.cursor, Scope(self.scope)
        is_function = cursor.take().text == ".func"
        _refuse_attribute(cursor)
        has_results = is_function and cursor.token.text == "("
        returns = read_parameters(cursor, scope, self.quota) if has_results else ()
        line = cursor.line
        name = cursor.expect_name("the name of a function" if is_function else "the name of an entry")
        parameters = read_parameters(cursor, scope, self.quota) if cursor.token.text == "(" else ()
        directives, pragmas = _read_performance_directives(cursor)
        if cursor.token.text not in ("{", ";"):
            cursor.fail(f"the body of {quote(name)} or ';'")
        return _Header(name, line, linkage, scope, returns, parameters, directives, pragmas)

    def _read_body(self, kind: type[_AnyRoutine], header: _Header) -> _AnyRoutine:
        formal = header.returns + header.parameters
        registers = {parameter.name: parameter.type for parameter in formal if parameter.space == "reg"}
        body = Body(self.cursor, header.scope, registers, self.files_ahead, self.quota)
        return kind(
            name=header.name,
            line=header.line,
            linkage=header.linkage,
            parameters=header.parameters,
            registers=body.registers,
            variables=body.variables,
            instructions=tuple(body.instructions),
            labels=body.labels,
            branch_targets=body.branch_targets,
            directives=header.directives,
            pragmas=header.pragmas + tuple(body.pragmas),
        )


def _declared_function(header: _Header) -> Function:
    return Function(
        name=header.name,
        line=header.line,
        linkage=header.linkage,
        parameters=header.parameters,
        directives=header.directives,
        returns=header.returns,
        defined=False,
    )


def _read_version(cursor: Cursor) -> tuple[int, int]:
    cursor.expect(".version", "at the beginning of a module", hint="is this the PTX text, not a cubin or CUDA source?")
    match = re.fullmatch(r"([0-9]{1,4})\.([0-9]{1,4})", cursor.token.text)
    if match is None:
        cursor.fail("the PTX version as major.minor")
    cursor.take()
    return int(match[1]), int(match[2])


def _read_target(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect(".target", "after the version")
    target = [cursor.expect_name("a target such as sm_90a")]
    while cursor.accept(","):
        target.append(cursor.expect_name("a further word of the target"))
    return tuple(target)


def _read_address_size(cursor: Cursor) -> int:
    if not cursor.accept(".address_size"):
        return 32  # PTX ISA 9.0, section 11.1.3
    line = cursor.line
    size = read_integer(cursor, "the address size", low=32, high=64)
    if size not in (32, 64):
        raise PtxSyntaxError(f"the address size is {size}, not 32 or 64", line=line)
    return size


def _read_performance_directives(cursor: Cursor) -> tuple[dict[str, tuple[int, ...]], tuple[str, ...]]:
    directives: dict[str, tuple[int, ...]] = {}
    pragmas: list[str] = []
    while cursor.token.kind is Kind.DIRECTIVE:
        text, line = cursor.token.text, cursor.line
        if text == ".pragma":
            pragmas += read_pragma(cursor)
            continue
        if text[1:] in directives:
            raise PtxSyntaxError(f"{text} is given twice", line=line)
        if text not in _MOST_NUMBERS:
            cursor.fail("a directive that a routine can have, or its body")
        cursor.take()
        directives[text[1:]] = _read_numbers(cursor, text, _MOST_NUMBERS[text])
    return directives, tuple(pragmas)


def _read_numbers(cursor: Cursor, directive: str, most: int) -> tuple[int, ...]:
    """Up to ``most`` numbers; extents that are left out are 1."""
    numbers: list[int] = []
    while len(numbers) < most and (not numbers or cursor.accept(",")):
        numbers.append(read_integer(cursor, f"the number behind {directive}", low=0, high=(1 << 32) - 1))
    return (*numbers, *(1 for _ in range(most - len(numbers))))


def _refuse_attribute(cursor: Cursor) -> None:
    if cursor.token.text == ".attribute":
        raise PtxSyntaxError(".attribute is not modelled", line=cursor.line, hint=REFUSED_DIRECTIVES[".attribute"])


def _skip_line(cursor: Cursor) -> None:
    """``@@DWARF ...``: debug data of PTX 1, one line each (PTX ISA, section 11.5)."""
    line = cursor.line
    while cursor.line == line and cursor.token.kind is not Kind.END:
        cursor.take()


def _skip_section(cursor: Cursor) -> None:
    line = cursor.line
    cursor.take()
    while cursor.token.kind in (Kind.DIRECTIVE, Kind.WORD, Kind.STRING, Kind.NUMBER) or cursor.token.text == ",":
        cursor.take()
    cursor.expect("{", "after the name of a section")
    depth = 1
    while depth:
        token = cursor.take()
        if token.kind is Kind.END:
            raise PtxSyntaxError("the '{' of this .section is not closed", line=line)
        depth += (token.text == "{") - (token.text == "}")
