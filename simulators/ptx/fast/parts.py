"""How the parts of the compiled loop are compiled: with the loop, not each for itself.

Division by zero is IEEE 754's, integers wrap, and nobody calls a part from Python.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def part(function: Function) -> Function:
    """A function of the loop."""
    return cast(Function, numba.njit(function, no_cpython_wrapper=True, error_model="numpy"))


def inlined(function: Function) -> Function:
    """A function that becomes part of its callers."""
    return cast(Function, numba.njit(function, no_cpython_wrapper=True, error_model="numpy", forceinline=True))
