"""A Python callable as a box: `module:function`, called with codes.

    def product(a, b):              # uint8 codes [M, K] and [N, K] (uint16 for f16 and bf16)
        ...
        return out                  # [M, N] floats: numpy, or anything that numpy takes

The module is looked for in the current folder too.
"""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from tileproof.conformance.fingerprint.box import Box
from tileproof.oracle.refusal import Refusal


def user_box(name: str, operand: str, *, multiple: int = 1, depth: int = 1) -> Box:
    """The box that `module:function` names; parameters called `c` and `bias` are given where it has them.

    Args:
        name: module and function.
        operand: type of its codes.
        multiple: M and N are multiples of it.
        depth: K is a multiple of it.

    Raises:
        Refusal: the module cannot be imported, or has no such function.
    """
    function = function_of(name)
    taken = inspect.signature(function).parameters
    return Box(
        name=name,
        operand=operand,
        multiply=function,
        takes_c="c" in taken,
        takes_bias="bias" in taken,
        rows=multiple,
        columns=multiple,
        depth=depth,
        one_shape=True,
    )


def function_of(name: str) -> Callable[..., Any]:
    """What `module:function` names.

    Raises:
        Refusal: the module cannot be imported, or has no such function.
    """
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise Refusal(
            f"{name!r} is no route and no module:function", hint="`tileproof fingerprint --list` lists routes"
        )
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except ImportError as error:
        raise Refusal(f"module {module_name!r} cannot be imported: {error}") from error
    except AttributeError as error:
        raise Refusal(f"module {module_name!r} has no {function_name!r}") from error
    if not callable(function):
        raise Refusal(f"{name} is a {type(function).__name__}, no function")
    return cast(Callable[..., Any], function)
