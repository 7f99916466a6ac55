"""Frozen records to JSON and back.

What is written is plain: an enum as its text, a tuple as a list, a record as an object with its fields. What is read
back is checked against the annotations field by field, because a crash file or an event file may come from anywhere:
no other code runs, nothing is guessed, and the first thing wrong is named by its path (`findings[2].kind`).
"""

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from tileproof.oracle.refusal import Refusal

Record = TypeVar("Record")

MAX_SHOWN = 60

_PRIMITIVES = {str: "a text", int: "an integer", bool: "true or false", type(None): "null"}


def to_json(value: object) -> Any:
    """The JSON value of a record, or of what a record may hold."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    return value


def from_json(cls: type[Record], data: object, path: str = "") -> Record:
    """The record of class `cls` that `data` spells.

    Args:
        cls: a frozen dataclass of strings, numbers, enums, tuples, mappings and further records.
        data: what `json.loads` gave.
        path: what to call the record in a message.

    Raises:
        Refusal: a field is missing, unknown, or not of its type; the message names it.
    """
    if not isinstance(data, dict):
        raise _wrong(path, "an object", data)
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := data.keys() - fields.keys():
        raise Refusal(f"{_join(path, min(unknown))}: no such field", hint="known are " + ", ".join(fields))
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _read(hints[name], data[name], _join(path, name))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise Refusal(f"{_join(path, name)}: missing")
    return cls(**values)


def shorten(value: object) -> str:
    """A value as a message shows it: its beginning where it is long, and no letter that a terminal cannot print."""
    shown = repr(value)
    return shown if len(shown) <= MAX_SHOWN else shown[: MAX_SHOWN - 3] + "..."


def parse_json(text: str | bytes, what: str) -> object:
    """`json.loads` with one line for everything that can be wrong with the text.

    Raises:
        Refusal: not JSON, not UTF-8, nested too deep, with a number of absurd length, or with a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"{what} is not readable JSON: {error}") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object; json itself would keep the last value of a key and drop the others."""
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {shorten(next(key for key in keys if keys.count(key) > 1))} is there twice")
    return found


def _read(hint: Any, data: object, path: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return None if data is None else _read(next(a for a in arguments if a is not type(None)), data, path)
    if origin is tuple:
        return _read_tuple(arguments, data, path)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(data, dict):
            raise _wrong(path, "an object", data)
        return {key: _read(arguments[1], item, _join(path, key)) for key, item in data.items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _read_enum(hint, data, path)
    if dataclasses.is_dataclass(hint):
        return from_json(typing.cast("type[Any]", hint), data, path)
    if hint is float and type(data) in (int, float):
        try:
            return float(typing.cast(float, data))
        except OverflowError:
            raise _wrong(path, "a number of the size of a float", data) from None
    if type(data) is not hint:  # exact: True is not an integer here
        raise _wrong(path, _PRIMITIVES.get(hint, "a number"), data)
    return data


def _read_tuple(arguments: tuple[Any, ...], data: object, path: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise _wrong(path, "a list", data)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(data)
    if len(data) != len(arguments):
        raise Refusal(f"{path}: {len(data)} items, not {len(arguments)}")
    return tuple(_read(hint, item, f"{path}[{i}]") for i, (hint, item) in enumerate(zip(arguments, data, strict=True)))


def _read_enum(hint: type[Enum], data: object, path: str) -> Enum:
    try:
        return hint(data)
    except ValueError:
        raise _wrong(path, "one of " + ", ".join(str(member.value) for member in hint), data) from None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _wrong(path: str, wanted: str, data: object) -> Refusal:
    return Refusal(f"{path or 'record'}: {shorten(data)} is not {wanted}")
