"""The solver, which is a package of development: where it is missing nothing is proved by it."""

from importlib import import_module
from typing import Any


def _load() -> Any:
    try:
        return import_module("z3")
    except ImportError:
        return None


z3: Any = _load()


def available() -> bool:
    """Whether there is a solver."""
    return z3 is not None


def name() -> str:
    """Its name and version."""
    return f"z3 {z3.get_version_string()}"
