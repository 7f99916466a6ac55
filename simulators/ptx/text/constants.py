"""Numbers and constant expressions.

``16 + 4*2`` is 24. Evaluated are ``- + ~ !`` before a value, ``* + - << & ^ |`` between values, and parentheses; the
other operators of C are refused by name. PTX computes in 64 bits; a result from -2**63 to 2**64 - 1 has the same bits
here, and any other is refused instead of wrapped. Source: PTX ISA 9.0, section 4.5.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from functools import lru_cache

from tileproof.simulators.ptx.text.syntax import Immediate, PtxSyntaxError
from tileproof.simulators.ptx.text.tokens import Cursor, Kind, quote

MAX_NESTING = 32
"""Deepest nesting of parentheses and signs: far beyond any real expression, far below Python's recursion limit."""

MAX_NUMBER_CHARS = 128
"""Longest number in characters: 64 binary digits take 67."""

WARP_SIZE = 32
"""Value of the predefined constant ``WARP_SZ`` on every architecture so far (PTX ISA 9.0, section 4.4)."""

_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "|": (1, operator.or_),
    "^": (2, operator.xor),
    "&": (3, operator.and_),
    "<<": (4, operator.lshift),
    "+": (5, operator.add),
    "-": (5, operator.sub),
    "*": (6, operator.mul),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "!": lambda value: int(not value),
}
CONSTANT_MARKS = frozenset({*_UNARY, "("})
"""Punctuation that a constant can begin with."""

_REFUSED = frozenset({"/", ">>", "<", ">", "=", "?"})
_BASES = {"x": 16, "b": 2}


@lru_cache(maxsize=1 << 16)
def _number(text: str) -> Immediate | None:
    """The value of a number token; None if it does not fit."""
    if len(text) > MAX_NUMBER_CHARS:
        return None
    prefix = text[:2].lower()
    if prefix == "0f":
        return Immediate(int(text[2:], 16), "f32")
    if prefix == "0d":
        return Immediate(int(text[2:], 16), "f64")
    digits = text.removesuffix("U")
    if digits.isdigit():
        octal = len(digits) > 1 and digits[0] == "0"
        if octal and ("8" in digits or "9" in digits):
            return None
        return _in_range(int(digits, 8 if octal else 10))
    if base := _BASES.get(prefix[1:]):
        return _in_range(int(digits[2:], base))
    return _decimal_float(text)


def _in_range(value: int) -> Immediate | None:
    return Immediate(value) if -(1 << 63) <= value < 1 << 64 else None


def _decimal_float(text: str) -> Immediate | None:
    value = float(text)
    if value == float("inf"):
        return None
    return Immediate(int.from_bytes(struct.pack("<d", value), "little"), "f64")


def read_constant(cursor: Cursor) -> Immediate:
    """A number or constant expression.

    Raises:
        PtxSyntaxError: no number, out of range, operator not modelled, arithmetic on floats, nested too deep.
    """
    if cursor.token.kind is Kind.NUMBER and cursor.following.text in ",;])}":
        return _read_number(cursor)
    value = _read_expression(cursor, 0, 0)
    if cursor.token.text in _REFUSED:
        cursor.fail("the end of the constant", hint="this operator in constant expressions is not modelled")
    return value


def read_integer(cursor: Cursor, expected: str, *, low: int, high: int) -> int:
    """A plain integer from ``low`` to ``high``, without operators; ``expected`` names it in the error."""
    line = cursor.line
    if cursor.token.kind is not Kind.NUMBER:
        cursor.fail(expected)
    text = cursor.token.text
    value = _read_number(cursor)
    if value.float_type is not None or not low <= value.bits <= high:
        raise PtxSyntaxError(f"{expected} must be an integer from {low} to {high}, not {quote(text)}", line=line)
    return value.bits


def _read_number(cursor: Cursor) -> Immediate:
    token = cursor.token
    value = _number(token.text)
    if value is None:
        raise PtxSyntaxError(
            f"{quote(token.text)} is out of range",
            line=cursor.line,
            hint="integers have 64 bits, a leading 0 means octal, floats are finite",
        )
    cursor.take()
    return value


def _read_expression(cursor: Cursor, level: int, depth: int) -> Immediate:
    left = _read_unary(cursor, depth)
    while (binary := _BINARY.get(cursor.token.text)) is not None and binary[0] > level:
        line, name = cursor.line, cursor.take().text
        right = _read_expression(cursor, binary[0], depth)
        _refuse_floats(left, right, line=line)
        if name == "<<" and not 0 <= right.bits < 64:
            raise PtxSyntaxError(f"the constant is shifted by {right.bits}, not by 0 to 63", line=line)
        left = _check_range(binary[1](left.bits, right.bits), line)
    return left


def _read_unary(cursor: Cursor, depth: int) -> Immediate:
    if depth > MAX_NESTING:
        raise PtxSyntaxError(f"the constant is nested deeper than {MAX_NESTING}", line=cursor.line)
    line = cursor.line
    if cursor.accept("("):
        value = _read_expression(cursor, 0, depth + 1)
        cursor.expect(")", "at the end of the constant expression")
        return value
    if unary := _UNARY.get(cursor.token.text):
        name = cursor.take().text
        value = _read_unary(cursor, depth + 1)
        if value.float_type == "f64" and name == "-":
            return Immediate(value.bits ^ 1 << 63, "f64")
        _refuse_floats(value, line=line)
        return _check_range(unary(value.bits), line)
    if cursor.accept("WARP_SZ"):
        return Immediate(WARP_SIZE)
    if cursor.token.kind is not Kind.NUMBER:
        cursor.fail("a number")
    return _read_number(cursor)


def _refuse_floats(*values: Immediate, line: int) -> None:
    if any(value.float_type is not None for value in values):
        raise PtxSyntaxError("arithmetic on float constants is not modelled", line=line, hint="write the result")


def _check_range(value: int, line: int) -> Immediate:
    result = _in_range(value)
    if result is None:
        raise PtxSyntaxError(f"the constant expression gives {value}, which needs more than 64 bits", line=line)
    return result
