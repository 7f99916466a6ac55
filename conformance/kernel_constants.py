"""The constants that a kernel's text declares, so that what is said of a kernel is said of the one that is shipped."""

import ast
import operator
import re
from collections.abc import Mapping
from functools import cache

from tileproof.kernels.source import expanded
from tileproof.oracle.refusal import Refusal

_DECLARED = re.compile(r"constexpr int ([^;]+);")
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv}


@cache
def kernel_constants(kernel: str) -> Mapping[str, int]:
    """Every `constexpr int` of a kernel and its headers that numbers and earlier ones of them make up.

    Others, such as sizes of types, are left out.
    """
    known: dict[str, int] = {}
    for declaration in _DECLARED.findall(expanded(kernel)):
        for part in declaration.split(","):
            name, _, text = part.partition("=")
            value = _value(text.strip(), known)
            if value is not None:
                known[name.strip()] = value
    return known


def kernel_constant(kernel: str, name: str) -> int:
    """One of them. Raises: Refusal where the kernel declares no such number."""
    known = kernel_constants(kernel)
    if name not in known:
        raise Refusal(f"kernel {kernel} declares no number {name}", hint=f"it declares {', '.join(known)}")
    return known[name]


def _value(text: str, known: Mapping[str, int]) -> int | None:
    try:
        return _evaluated(ast.parse(text, mode="eval").body, known)
    except (SyntaxError, KeyError):
        return None


def _evaluated(node: ast.expr, known: Mapping[str, int]) -> int:
    """Raises: KeyError for anything but numbers, known names and the four operations."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return known[name]
        case ast.BinOp(left=left, op=op, right=right):
            return int(_OPERATORS[type(op)](_evaluated(left, known), _evaluated(right, known)))
    raise KeyError(ast.dump(node))
