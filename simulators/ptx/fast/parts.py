"""How the parts of compiled functions are compiled: into their callers, and for nobody else.

Division by zero is IEEE 754's, integers wrap, and nobody calls a part from Python or through its address.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

_quiet = partial(numba.njit, no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy")


def part(function: Function) -> Function:
    """A function that is compiled into its callers."""
    return cast(Function, _quiet(function))


def inlined(function: Function) -> Function:
    """A function that becomes part of its callers."""
    return cast(Function, _quiet(function, forceinline=True))
