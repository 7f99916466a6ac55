"""Compilation: the cache is optional, and a compiled helper is what its source says."""

from typing import Any

import numba
import pytest

from tileproof.oracle.numbers import compiled


def double(value: int) -> int:
    return 2 * value


@pytest.mark.parametrize(
    ("compile_it", "caches"), [(compiled.compiled, [True, False]), (compiled.inlined, [False])], ids=["own", "helper"]
)
def test_without_a_place_for_the_cache_functions_are_compiled_anew_and_helpers_ask_for_none(
    compile_it: Any, caches: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    right = numba.njit

    def njit(function: Any, *, cache: bool = False, **options: Any) -> Any:
        if function is not double:  # numba compiles its own helpers too
            return right(function, cache=cache, **options)
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function 'double': no locator available for file")
        return right(function, **options)

    monkeypatch.setattr(numba, "njit", njit)
    assert compile_it(double)(21) == 42
    assert asked == caches
