"""What tests of the order claim that are no pairs of kernels, as cases for faults: mostly of the fast engine."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import signature

import pytest
import test_order_folding
import test_order_many_readers
import test_order_notes
import test_order_polling
import test_order_waves
from order_cases import Claim

MODULES = (test_order_folding, test_order_polling, test_order_many_readers, test_order_notes, test_order_waves)


def claims() -> list[Claim]:
    """One for each test of the modules and each of its parameters."""
    found = []
    for module in MODULES:
        for name, test in vars(module).items():
            if name.startswith("test_"):
                found += [
                    Claim(f"{name} {list(arguments.values())}", _called(test, arguments))
                    for arguments in _arguments(test)
                ]
    return found


def _arguments(test: Callable[..., None]) -> Iterator[Mapping[str, object]]:
    """Every set of arguments of a test, whose parameters stand in marks; of seeds the first two."""
    sets: list[dict[str, object]] = [{}]
    for mark in getattr(test, "pytestmark", []):
        if mark.name != "parametrize":
            continue
        names, values = mark.args
        values = list(values)[:2] if names == "seed" else list(values)
        many = not isinstance(names, str)
        sets = [
            earlier | (dict(zip(names, value, strict=True)) if many else {names: value})
            for earlier in sets
            for value in values
        ]
    yield from sets


def _called(test: Callable[..., None], arguments: Mapping[str, object]) -> Callable[[], None]:
    if "monkeypatch" not in signature(test).parameters:
        return partial(test, **arguments)

    def patched() -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            test(**arguments, monkeypatch=monkeypatch)

    return patched
