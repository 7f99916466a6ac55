"""Addresses of lanes from an expression, such as `lane % 8 * 128 + lane // 8 * 16`: whole numbers, no other Python."""

import ast
import operator
from collections.abc import Callable

from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import Swizzle

LIMIT = 1 << 31
"""What no number of an expression may reach: more than any shared memory."""
MAX_LETTERS = 500
HINT = "whole numbers, lane, + - * // % & | ^ << >>, brackets, and swizzle32, swizzle64, swizzle128 of an address"

_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_SWIZZLES = {f"swizzle{span}": Swizzle.tma(span) for span in (32, 64, 128)}


def addresses_of(expression: str, lanes: int) -> list[int]:
    """The byte address of each lane.

    Raises:
        Refusal: another expression than the hint allows, a division by 0, or a number out of range.
    """
    if len(expression) > MAX_LETTERS:
        raise Refusal(f"an expression of {len(expression)} letters; the most is {MAX_LETTERS}")
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
        return [_value(tree, lane) for lane in range(lanes)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Refusal(f"no expression of lane: {expression!r}", hint=HINT) from None
    except ZeroDivisionError:
        raise Refusal(f"{expression!r} divides by 0", hint=HINT) from None


def _value(node: ast.expr, lane: int) -> int:
    match node:
        case ast.Name(id="lane"):
            found = lane
        case ast.Constant(value=value) if type(value) is int:
            found = value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            second = _value(right, lane)
            if isinstance(op, ast.LShift | ast.RShift) and not 0 <= second < 32:
                raise Refusal(f"a shift by {second}", hint="shifts are by 0 to 31")
            found = _OPERATIONS[type(op)](_value(left, lane), second)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _SWIZZLES:
            found = _SWIZZLES[name].apply(_value(argument, lane))
        case _:
            raise Refusal(f"{ast.unparse(node)!r} is not understood", hint=HINT)
    if not -LIMIT < found < LIMIT:
        raise Refusal(f"{ast.unparse(node)!r} is {found} for lane {lane}", hint=f"numbers are below {LIMIT}")
    return found
