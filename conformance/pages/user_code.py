"""Calls of a page's functions: by the names that they want, and with errors told in the page's own lines."""

import inspect
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tileproof.oracle.refusal import Refusal


class PageError(Refusal):
    """A page says something that cannot be: an error of the page, never a verdict on the kernel."""


def call_named(function: Callable[..., Any], known: Mapping[str, Any]) -> Any:
    """Call a page's function with those of the known values that it names.

    Raises:
        PageError: it names something else, or raised an error; the message has the line in the page.
    """
    arguments = wanted(function, known)
    try:
        with np.errstate(all="ignore"):
            return function(**arguments)
    except Refusal as refusal:
        raise PageError(f"{place(function, refusal)}: {refusal.message}", hint=refusal.hint) from None
    except Exception as error:
        raise PageError(f"{place(function, error)}: {described(error)}") from None


def wanted(function: Callable[..., Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the known values that a function names, all where it takes `**names`. Raises: PageError."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise PageError(f"{function!r} is no function whose parameters can be read") from None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(known)
    unknown = [one.name for one in parameters if one.name not in known and one.default is one.empty]
    if unknown or any(one.kind in (one.VAR_POSITIONAL, one.POSITIONAL_ONLY) for one in parameters):
        names = ", ".join(unknown) or "parameters without a name"
        raise PageError(f"{defined_at(function)} wants {names}", hint=f"it may name {', '.join(known)}")
    return {one.name: known[one.name] for one in parameters if one.name in known}


def defined_at(function: Callable[..., Any]) -> str:
    """`rows_page.py:12, launch` of a function."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", repr(function))
    return name if code is None else f"{Path(code.co_filename).name}:{code.co_firstlineno}, {name}"


def place(function: Callable[..., Any], error: BaseException) -> str:
    """The last line of the function's own file that an error came through, with the function's name."""
    code = getattr(function, "__code__", None)
    if code is None:
        return getattr(function, "__name__", repr(function))
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == code.co_filename]
    line = frames[-1].lineno if frames else code.co_firstlineno
    return f"{Path(code.co_filename).name}:{line}, {code.co_name}"


def described(error: BaseException) -> str:
    """`KeyError: 'x'`: an error in one line, cut where it is long."""
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    return text if len(text) <= 300 else text[:297] + "..."
