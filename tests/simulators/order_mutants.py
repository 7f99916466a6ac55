"""Every small fault of a function: a condition forced, a comparison or a call turned, a store left out."""

import ast
import inspect
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from types import CodeType

from order_edit import code_of, function_at, source_of

from tileproof.simulators.ptx.machine import order

#: Where the rules of order stand, but for those in compiled code.
FILES = ("order.order", "order.knowledge", "order.objects", "order.patterns", "order.checks", "order.kinds")
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One function with one fault.

    Attributes:
        place: of the function, see `order_edit`.
        fault: in words, and its source text.
        code: of the faulty function.
    """

    place: str
    fault: str
    code: CodeType

    @property
    def name(self) -> str:
        return f"{self.place}: {self.fault}"


def places() -> list[str]:
    """All functions of the rule files."""
    found = []
    for file in FILES:
        module = import_module(f"{order.__name__.rpartition('.')[0]}.{file}")
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.FunctionDef):
                found.append(f"{file}:{node.name}")
            elif isinstance(node, ast.ClassDef):
                found += [f"{file}:{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)]
    return found


def mutants(place: str) -> Iterator[Mutant]:
    """The function's mutants, each with a name of its own."""
    tree = ast.parse(source_of(function_at(place)))
    seen: dict[str, int] = {}
    for index, node in enumerate(ast.walk(tree)):
        for fault, change in _faults(node):
            mutated = deepcopy(tree)
            _replace(mutated, list(ast.walk(mutated))[index], change)
            count = seen[fault] = seen.get(fault, 0) + 1
            name = fault if count == 1 else f"{fault} ({count})"
            yield Mutant(place, name, code_of(ast.fix_missing_locations(mutated)))


def _faults(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """What may stand for a node, None for nothing."""
    match node:
        case ast.If() | ast.IfExp():
            for holds in (True, False):
                yield f"{ast.unparse(node.test)} is {holds}", ast.Constant(holds)
        case ast.comprehension(ifs=[test]):
            yield f"{ast.unparse(test)} is True", ast.Constant(True)
        case ast.BoolOp(values=values) if len(values) > 1:
            for index, value in enumerate(values):
                rest = values[:index] + values[index + 1 :]
                kept = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
                yield f"without {ast.unparse(value)} in {ast.unparse(node)}", kept
        case ast.Compare(ops=[operator]) if type(operator) in _TURNED:
            turned = ast.Compare(node.left, [_TURNED[type(operator)]()], node.comparators)
            yield f"{ast.unparse(turned)}, not {ast.unparse(node)}", turned
        case ast.BinOp(op=ast.Add(), right=ast.Constant(value=1)):
            yield f"{ast.unparse(node.left)} without + 1", node.left
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield f"without {ast.unparse(node)}", None
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield f"without {ast.unparse(node)}", None


def _replace(tree: ast.AST, node: ast.AST, new: ast.AST | None) -> None:
    """Put something in a node's place; for a condition, in the place of its test."""
    new = deepcopy(new)
    if isinstance(node, ast.If | ast.IfExp):
        assert isinstance(new, ast.expr)
        node.test = new
        return
    if isinstance(node, ast.comprehension):
        node.ifs = []
        return
    _Swap(node, ast.Pass() if new is None else new).visit(tree)


class _Swap(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else super().visit(node)
