"""The text of a shipped kernel, alone or with this package's headers in it.

A fault may lie in a header, and a module is one text: `expanded` puts each header where it is first included. `#line`
keeps file names and lines as they are, so that findings still name the header.
"""

import re
from importlib import resources

from tileproof.kernels.compile import VIRTUAL_ROOT

_INCLUDE = re.compile(r'#include "(\w+\.cuh)"')

_INCLUDES = re.compile(r'^#include "(\w+\.cuh)"', re.MULTILINE)


def kernel_text(name: str) -> str:
    """The text of `name`.cu."""
    return _read(f"{name}.cu")


def source_text(file: str) -> str:
    """The text of a kernel's or a header's file."""
    return _read(file)


def expanded(name: str) -> str:
    """The text of `name`.cu with each of our headers in place of its first `#include`."""
    return "\n".join(_lines(f"{name}.cu", set())) + "\n"


def with_headers(text: str) -> str:
    """A text behind all of our headers that it includes, directly or not: what its code depends on, for a digest."""
    seen: set[str] = set()
    left = [text]
    for one in left:  # which grows
        fresh = [file for file in _INCLUDES.findall(one) if file not in seen]
        seen.update(fresh)
        left += map(_read, dict.fromkeys(fresh))
    return "".join([*(f"{file}\n{_read(file)}" for file in sorted(seen)), text])


def _lines(file: str, seen: set[str]) -> list[str]:
    lines = [f'#line 1 "{VIRTUAL_ROOT}{file}"']
    for number, line in enumerate(_read(file).splitlines(), start=1):
        found = _INCLUDE.fullmatch(line)
        if found is None:
            lines.append("" if line == "#pragma once" else line)
            continue
        if found[1] not in seen:
            seen.add(found[1])
            lines += _lines(found[1], seen)
        lines.append(f'#line {number + 1} "{VIRTUAL_ROOT}{file}"')
    return lines


def _read(file: str) -> str:
    return resources.files("tileproof.kernels").joinpath(file).read_text()
