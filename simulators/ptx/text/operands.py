"""Operands of instructions. Source: PTX ISA 9.0, section 6.4."""

from __future__ import annotations

from tileproof.simulators.ptx.text.constants import CONSTANT_MARKS, read_constant
from tileproof.simulators.ptx.text.scopes import SPECIAL_REGISTERS, Scope, undeclared
from tileproof.simulators.ptx.text.syntax import (
    Address,
    Arguments,
    Immediate,
    Label,
    Negated,
    Operand,
    Pair,
    PtxSyntaxError,
    Register,
    Scalar,
    Sink,
    Special,
    Symbol,
    Vector,
)
from tileproof.simulators.ptx.text.tokens import Cursor, Kind, quote


def read_operand(cursor: Cursor, scope: Scope) -> Operand:
    """Any operand but those of branches and calls."""
    token = cursor.token
    if token.kind is Kind.WORD:
        scalar = read_scalar(cursor, scope)
        if cursor.token.text == "|" and isinstance(scalar, Register | Sink):
            return _read_pair(cursor, scope, scalar)
        return scalar
    if token.text == "[":
        return _read_address(cursor, scope)
    if token.text == "{":
        return _read_vector(cursor, scope)
    if token.text == "!" and cursor.following.kind is Kind.WORD:
        cursor.take()
        return Negated(read_register(cursor, scope, "a predicate after '!'"))
    if token.kind is not Kind.NUMBER and token.text not in CONSTANT_MARKS:
        cursor.fail("an operand")
    return read_constant(cursor)


def read_scalar(cursor: Cursor, scope: Scope) -> Scalar:
    """A register, special register, immediate, address of a symbol, or sink."""
    token = cursor.token
    if token.kind is not Kind.WORD:
        return read_constant(cursor)
    name = token.text
    named = scope.find(name)
    if isinstance(named, Register):
        cursor.take()
        return named
    if isinstance(named, Symbol):
        cursor.take()
        return _read_symbol(cursor, named)
    if isinstance(named, Label):
        raise PtxSyntaxError(f"the label {quote(name)} is an operand of bra and brx only", line=cursor.line)
    # NOTE: a declared %tid hides the predefined one, whose %tid.x is then an error to ptxas too (measured on H200).
    if "." in name and isinstance(scope.find(name.split(".")[0]), Register):
        raise PtxSyntaxError(f"{quote(name)}: elements of vector registers are not modelled", line=cursor.line)
    if name in SPECIAL_REGISTERS:
        cursor.take()
        return Special(name)
    if name == "_":
        cursor.take()
        return Sink()
    if name == "WARP_SZ":
        return read_constant(cursor)
    raise undeclared(name, cursor.line)


def read_register(cursor: Cursor, scope: Scope, expected: str) -> Register:
    """A declared register."""
    if cursor.token.kind is not Kind.WORD:
        cursor.fail(expected)
    named = scope.find(cursor.token.text)
    if named is None:
        raise undeclared(cursor.token.text, cursor.line)
    if not isinstance(named, Register):
        cursor.fail(expected)
    cursor.take()
    return named


def read_call_operands(cursor: Cursor, scope: Scope) -> tuple[Operand, ...]:
    """``(results), callee, (arguments)``, both lists optional."""
    operands: list[Operand] = []
    while True:
        if cursor.token.text == "(":
            operands.append(Arguments(_read_list(cursor, scope, "(", ")")))
        else:
            operands.append(read_scalar(cursor, scope))
        if not cursor.accept(","):
            return tuple(operands)


def _read_symbol(cursor: Cursor, symbol: Symbol) -> Symbol:
    if cursor.token.text == "[":
        raise PtxSyntaxError(
            f"the array index behind {quote(symbol.name)} is not modelled",
            line=cursor.line,
            hint="write the address: name+bytes",
        )
    offset = _read_offset(cursor)
    return Symbol(symbol.name, offset) if offset else symbol


def _read_offset(cursor: Cursor) -> int:
    if not cursor.accept("+"):
        return 0
    line = cursor.line
    offset = read_constant(cursor)
    if offset.float_type is not None:
        raise PtxSyntaxError("the offset of an address is a float", line=line)
    return offset.bits


def _read_pair(cursor: Cursor, scope: Scope, first: Register | Sink) -> Pair:
    cursor.expect("|", "between two results")
    if cursor.token.text == "_":
        return Pair(first, _read_sink(cursor, scope))
    return Pair(first, read_register(cursor, scope, "a register after '|'"))


def _read_sink(cursor: Cursor, scope: Scope) -> Register | Sink:
    scalar = read_scalar(cursor, scope)
    assert isinstance(scalar, Register | Sink)  # a declared "_" or the sink itself
    return scalar


def _read_list(cursor: Cursor, scope: Scope, opening: str, closing: str) -> tuple[Scalar, ...]:
    cursor.expect(opening, "before the list")
    elements: list[Scalar] = []
    if cursor.accept(closing):
        return ()
    while True:
        if cursor.token.text in "{[(":
            cursor.fail("a register or constant in the list", hint="lists do not nest")
        elements.append(read_scalar(cursor, scope))
        if not cursor.accept(","):
            break
    cursor.expect(closing, "or ',' in a list")
    return tuple(elements)


def _read_vector(cursor: Cursor, scope: Scope) -> Vector:
    line = cursor.line
    elements = _read_list(cursor, scope, "{", "}")
    if not elements:
        raise PtxSyntaxError("the vector '{}' has no elements", line=line)
    return Vector(elements)


def _read_address(cursor: Cursor, scope: Scope) -> Address:
    cursor.expect("[", "before the address")
    base = _read_base(cursor, scope)
    offset = _read_offset(cursor)
    coordinates = None
    if cursor.accept(","):
        if cursor.token.text != "{":
            cursor.fail("the coordinates '{...}' of a tensor", hint="texture operands are not modelled")
        coordinates = _read_vector(cursor, scope)
    hint = "a negative offset is written [register+-8]" if cursor.token.text == "-" else ""
    cursor.expect("]", "at the end of the address", hint=hint)
    cursor.accept(".unified")  # a promise about the address that changes nothing (PTX ISA, "ld")
    return Address(base, offset, coordinates)


def _read_base(cursor: Cursor, scope: Scope) -> Register | Symbol | Immediate:
    if cursor.token.kind is not Kind.WORD:
        return read_constant(cursor)
    named = scope.find(cursor.token.text)
    if named is None:
        raise undeclared(cursor.token.text, cursor.line)
    if isinstance(named, Label):
        cursor.fail("a register, variable or constant as base of the address")
    cursor.take()
    return named
