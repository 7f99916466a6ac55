"""A cached loop is never used after a file that is compiled into it has changed."""

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tileproof.oracle.units import unit_kernels
from tileproof.simulators.ptx.fast import stamp
from tileproof.simulators.ptx.machine.order import compiled_order, compiled_warps

# The file of a compiled function is watched by numba itself; these hold the functions that carry the stamp.
LOOPS = ("loop", "gates")
PACKAGE = "tileproof.simulators.ptx.fast"


def imported(module: str) -> set[str]:
    """Modules of ours that a module takes names from."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text())
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tileproof."):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if find_spec_of(name) else node.module for name in names}
    return found


def find_spec_of(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def compiled_in(start: str) -> set[Path]:
    """Files whose text or constants end up in the functions of `start`: those of the room, and what they import."""
    files: set[Path] = set()
    waiting, seen = [start], set[str]()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        spec = find_spec(module)
        assert spec is not None
        files.add(Path(spec.origin or "").resolve())
        if module.startswith(PACKAGE):  # what other rooms import decides nothing here
            waiting += imported(module)
    return files


@pytest.mark.parametrize("name", LOOPS)
def test_every_file_that_is_compiled_into_the_loop_is_watched(name: str) -> None:
    watched = {path.resolve() for path in stamp.WATCHED}
    missing = compiled_in(f"{PACKAGE}.{name}") - watched - {Path(stamp.__file__).resolve()}
    assert missing == set()


def test_a_file_that_is_not_watched_would_be_seen() -> None:
    assert Path(stamp.__file__).with_name("pointers.py").resolve() in compiled_in(f"{PACKAGE}.loop")


def inlined_in(module: ModuleType) -> Iterator[Any]:
    """The helpers of a module that become part of their callers."""
    for function in vars(module).values():
        if getattr(function, "targetoptions", {}).get("forceinline"):
            yield function


@pytest.mark.parametrize("module", [compiled_order, compiled_warps, unit_kernels])
def test_no_inlined_helper_has_a_cache_that_outlives_the_files_of_its_own_helpers(module: ModuleType) -> None:
    helpers = list(inlined_in(module))
    assert helpers
    assert all(helper.stats.cache_path is None for helper in helpers)
