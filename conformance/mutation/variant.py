"""Which compiled module and which entry a mutant lies in, and where its lines stand in the CUDA source."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

from tileproof.kernels.compile import CompiledModule
from tileproof.simulators.ptx.text.syntax import Location

_DEFINE = "--define-macro="


@dataclass(frozen=True, order=True)
class Variant:
    """A kernel's file compiled with certain macros.

    Args:
        kernel: stem of the file.
        defines: macros as "NAME=VALUE".
    """

    kernel: str
    defines: tuple[str, ...]

    @classmethod
    def of(cls, module: CompiledModule) -> "Variant":
        """The variant that a compiled module is."""
        defines = [option.removeprefix(_DEFINE) for option in module.options if option.startswith(_DEFINE)]
        return cls(module.name.removesuffix(".cu"), tuple(defines))

    def __str__(self) -> str:
        values = ", ".join(define.partition("=")[2] for define in self.defines)
        return f"{self.kernel}<{values}>" if values else self.kernel


@dataclass(frozen=True)
class SourceLine:
    """A line of CUDA; file is "" and line 0 where the compiler says nothing."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "(no line)"


def source_line(location: Location | None) -> SourceLine:
    """The line of ours that an instruction belongs to: of a function of CUDA's own headers, the line that calls it."""
    while location is not None and not _own_text(location.file) and location.inlined_at is not None:
        location = location.inlined_at
    return SourceLine("", 0) if location is None else SourceLine(location.file, location.line)


def source_text(place: SourceLine) -> str:
    """The text of a line of ours, without the spaces around it; "" for any other."""
    text = _own_text(place.file)
    return text[place.line - 1].strip() if 0 < place.line <= len(text) else ""


def own_files() -> Iterator[str]:
    """Names of the CUDA files of this package."""
    for file in resources.files("tileproof.kernels").iterdir():
        if file.name.endswith((".cu", ".cuh")):
            yield file.name


@cache
def _own_text(file: str) -> tuple[str, ...]:
    if "/" in file or not file.endswith((".cu", ".cuh")):
        return ()
    path = resources.files("tileproof.kernels").joinpath(file)
    return tuple(path.read_text().splitlines()) if path.is_file() else ()


def digest(*parts: object) -> str:
    """Ten hexadecimal digits that stand for these texts."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:10]
