"""Compilation of the array twins to machine code, cached on disk.

Numba keeps the cache beside the source, or where NUMBA_CACHE_DIR says, or below the user's cache directory when the
package is installed read-only. Where none of these can be written, a function is compiled anew in each process.

NOTE: the cache watches the file of the compiled function and no other. Helpers and constants that a compiled function
uses stand in its own file.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """The function in machine code: without the interpreter lock, integers wrap, division by zero is not checked."""
    return _compile(function, forceinline=False)


def inlined(function: Function) -> Function:
    """A compiled helper that becomes part of its caller, which saves counting references to its arrays at each call.

    It has no cache of its own: that would outlive changes of the helpers that it uses from other files.
    """
    return _compile(function, cache=False, forceinline=True)


def borrowing(function: Function) -> Function:
    """Like `compiled`, of a function that makes no arrays: it does not count references to those that it is given."""
    return _compile(function, forceinline=False, _nrt=False)


def borrowing_inlined(function: Function) -> Function:
    """Like `inlined`, of a function that makes no arrays."""
    return _compile(function, cache=False, forceinline=True, _nrt=False)


def _compile(function: Function, *, cache: bool = True, **options: bool) -> Function:
    machine = partial(numba.njit, nogil=True, error_model="numpy", **options)
    try:
        return cast(Function, machine(function, cache=cache))
    except RuntimeError:  # numba: "no locator available for file"
        return cast(Function, machine(function))
