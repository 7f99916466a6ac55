"""CUDA source lines: ``.file`` and ``.loc``. Source: PTX ISA 9.0, section 11.5.

``.loc 1 4 23, function_name $L__info_string1, inlined_at 1 5 23`` names a line by file number, line and column, and
the call site it was inlined at by the same three numbers of an earlier ``.loc``, which may itself have been inlined.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from tileproof.simulators.ptx.text.constants import read_integer
from tileproof.simulators.ptx.text.syntax import Location
from tileproof.simulators.ptx.text.tokens import Cursor, Kind

MAX_INLINE_DEPTH = 100
"""Longest chain of call sites kept; a longer one loses its outermost, which only a report would show."""

MAX_NUMBER = 10**9 - 1
"""Largest file, line or column number."""

_NAME = r'"(?:[^"\\\n]|\\[^\n])*+"'
_FILE = re.compile(rf"^[ \t]*\.file[ \t]+([0-9]{{1,9}})[ \t]+({_NAME})(?:[ \t]+({_NAME}))?", re.ASCII | re.MULTILINE)
_Place: TypeAlias = tuple[int, int, int]


def find_files(text: str) -> dict[int, str]:
    """The files that a text names, by number: compilers write ``.file`` after the code that refers to it."""
    return {int(match[1]): _joined(match[2], match[3]) for match in _FILE.finditer(text)}


def read_file(cursor: Cursor) -> tuple[int, str]:
    """``.file number "name"[, timestamp, size]``; LLVM may write the directory as a string of its own before it."""
    cursor.expect(".file", "before a file number")
    number = read_integer(cursor, "the number of the file", low=0, high=MAX_NUMBER)
    name = cursor.expect_kind(Kind.STRING, "the name of the file in quotes").text
    second = cursor.take().text if cursor.token.kind is Kind.STRING else None
    for what in ("the time stamp of the file", "the size of the file"):
        if cursor.accept(","):
            read_integer(cursor, what, low=0, high=(1 << 64) - 1)
    return number, _joined(name, second)


class Locations:
    """Reads the ``.loc`` directives of one routine."""

    def __init__(self, files: Mapping[int, str]) -> None:
        self._files = files
        self._seen: dict[_Place, Location] = {}
        self._depths: dict[_Place, int] = {}

    def read(self, cursor: Cursor) -> Location:
        """One ``.loc`` directive."""
        cursor.expect(".loc", "before a source line")
        place = self._read_place(cursor)
        site: _Place | None = None
        while cursor.accept(","):
            if cursor.accept("inlined_at"):
                site = self._read_place(cursor)
            elif cursor.accept("function_name"):
                cursor.expect_name("the label of a function name")
                if cursor.accept("+"):
                    read_integer(cursor, "the offset of a function name", low=0, high=MAX_NUMBER)
            else:
                cursor.fail("'function_name' or 'inlined_at' behind .loc")
        caller, depth = self._find_site(site, place) if site else (None, 0)
        location = Location(self._file(place[0]), place[1], caller)
        self._seen[place], self._depths[place] = location, depth
        return location

    def _read_place(self, cursor: Cursor) -> _Place:
        file, line, column = (
            read_integer(cursor, f"the {what} number of .loc", low=0, high=MAX_NUMBER)
            for what in ("file", "line", "column")
        )
        return file, line, column

    def _find_site(self, site: _Place, place: _Place) -> tuple[Location, int]:
        """The call site and its depth; a call on the very line of its callee would else chain without end."""
        depth = self._depths.get(site, 0) + 1
        if site in self._seen and site != place and depth <= MAX_INLINE_DEPTH:
            return self._seen[site], depth
        return Location(self._file(site[0]), site[1]), 1

    def _file(self, number: int) -> str:
        return self._files.get(number, f"(file {number})")  # ptxas accepts numbers without .file


def _joined(first: str, second: str | None) -> str:
    return _unquote(first) if second is None else f"{_unquote(first)}/{_unquote(second)}"


def _unquote(text: str) -> str:
    return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
