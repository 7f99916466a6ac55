"""A rule is deleted by editing the source text of one function: the edited code takes the function's place.

`edited` exchanges the code object of a live function, so everybody who holds the function runs the edited code. The
compiled part of the order is edited in its plain Python form, which `uncompiled` puts in the place of machine code;
only the reference engine calls it so.
"""

import ast
import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from textwrap import dedent, indent
from types import CodeType, FunctionType
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

from tileproof.simulators.ptx.machine import plan
from tileproof.simulators.ptx.machine.order import compiled_order, compiled_warps

_MACHINE = "tileproof.simulators.ptx.machine"


def function_at(place: str) -> FunctionType:
    """The function at a place below the machine's package, as "order.patterns:Patterns._keep"; never its wrapper."""
    module, name = place.split(":")
    found: Any = import_module(f"{_MACHINE}.{module}")
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    for wrapper in ("fget", "__func__", "__wrapped__", "py_func"):
        found = getattr(found, wrapper, found)
    assert isinstance(found, FunctionType)
    return found


def source_of(function: FunctionType) -> str:
    """The function's text, without its decorators, beginning at `def`."""
    lines = dedent(inspect.getsource(function)).splitlines(keepends=True)
    node = ast.parse("".join(lines)).body[0]
    assert isinstance(node, ast.FunctionDef)
    return "".join(lines[node.lineno - 1 :])


def with_body(text: str, body: str) -> str:
    """A function's text with another body."""
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    head = text.splitlines(keepends=True)[: node.body[0].lineno - 1]
    return "".join(head) + indent(body, "    ") + "\n"


def code_of(tree: ast.Module) -> CodeType:
    """The code of the only function of a module."""
    (code,) = (each for each in compile(tree, "<edited>", "exec").co_consts if isinstance(each, CodeType))
    return code


@contextmanager
def exchanged(function: FunctionType, code: CodeType) -> Iterator[None]:
    """Within, the function has other code."""
    before = function.__code__
    function.__code__ = code
    try:
        with patch.object(plan, "_PLANS", WeakKeyDictionary()):  # which hold what the function made
            yield
    finally:
        function.__code__ = before


@contextmanager
def edited(place: str, old: str, new: str) -> Iterator[None]:
    """Within, `new` stands at a place for `old`, which stands there once; for the whole body where `old` is empty."""
    function = function_at(place)
    text = source_of(function)
    if old and text.count(old) != 1:
        raise ValueError(f"the text to edit stands {text.count(old)} times in {place}: {old}")
    text = text.replace(old, new) if old else with_body(text, new)
    with exchanged(function, code_of(ast.parse(text))):
        yield


def _leave_to_the_others(*_: object) -> bool:
    return False


@contextmanager
def uncompiled(*, short_cut: bool = False) -> Iterator[None]:
    """Within, the compiled part of the order is plain Python; its short cut is not taken unless asked for."""
    with ExitStack() as stack:
        for module in (compiled_order, compiled_warps):
            for name, function in list(vars(module).items()):
                if hasattr(function, "py_func"):
                    stack.enter_context(patch.object(module, name, function.py_func))
        if not short_cut:
            stack.enter_context(patch.object(compiled_warps, "pass_warps", _leave_to_the_others))
        yield
