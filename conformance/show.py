"""What a kernel takes of a GPU, for each architecture: registers, spills, shared memory, blocks of an SM."""

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources as package_files
from pathlib import Path

from tileproof.kernels.compile import CompiledModule, compile_source
from tileproof.kernels.occupancy import Occupancy, occupancy
from tileproof.kernels.resources import Resources, resources_of
from tileproof.kernels.user_source import read_kernel_file
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.text.parse import parse_module

_SHIPPED = ("tileproof.kernels", "tileproof.kernels.reference")
HEADINGS = (
    "entry",
    "arch",
    "registers",
    "spill bytes",
    "stack",
    "static shared",
    "threads",
    "blocks per SM",
    "warps of SM",
    "stopped by",
)
LEFT = (0, 1, len(HEADINGS) - 1)
"""Columns of words."""


@dataclass(frozen=True)
class BlockSize:
    """What a launch adds to what the compiler knows.

    Args:
        threads: of a block; None for the limit that the kernel was compiled with.
        shared_bytes: dynamic shared memory of a block.
    """

    threads: int | None
    shared_bytes: int


def source_of(name: str) -> tuple[str, str]:
    """File name and CUDA text of a shipped kernel, or of a user's file.

    Raises:
        Refusal: there is neither, or the file cannot be read.
    """
    if name.endswith(".cu"):
        path = Path(name)
        return path.name, read_kernel_file(path)
    shipped = {file.stem: file for file in _shipped_files()}
    if name not in shipped:
        near = difflib.get_close_matches(name, shipped, n=1)
        nearest = f"did you mean {near[0]}? " if near else ""
        known = ", ".join(sorted(shipped))
        raise Refusal(f"no kernel {name!r}", hint=f"{nearest}give a file that ends in .cu, or one of: {known}")
    return shipped[name].name, shipped[name].read_text()


def _shipped_files() -> Iterator[Path]:
    for package in _SHIPPED:
        for file in package_files.files(package).iterdir():
            if file.name.endswith(".cu"):
                yield Path(str(file))


def resource_rows(
    name: str, archs: Sequence[str], size: BlockSize, defines: tuple[str, ...] = ()
) -> list[tuple[str, ...]]:
    """One row of `HEADINGS` for each entry and architecture.

    Args:
        name: of a shipped kernel, or a file.
        archs: to compile for.
        size: of a block.
        defines: macros, see `show_variant.variant_of`.

    Raises:
        Refusal: no such kernel, it does not compile, or its number of threads is not known.
    """
    file, text = source_of(name)
    modules = [compile_source(text, name=file, arch=arch, defines=defines) for arch in archs]
    return [row for module in modules for row in _rows(module, size)]


def _rows(module: CompiledModule, size: BlockSize) -> Iterator[tuple[str, ...]]:
    entries = parse_module(module.ptx).entries
    used = resources_of(module.report)
    for entry in module.entries:
        threads = size.threads or _threads(entry, entries[entry].directives)
        found = occupancy(module.arch, used[entry], threads=threads, dynamic_shared_bytes=size.shared_bytes)
        yield _row(entry, module.arch, used[entry], threads, found)


def _threads(entry: str, directives: Mapping[str, tuple[int, ...]]) -> int:
    """The number of threads that the kernel was compiled for (PTX ISA, ".maxntid", ".reqntid")."""
    limit = directives.get("reqntid") or directives.get("maxntid")
    if not limit:
        raise Refusal(
            f"{entry} was compiled for no number of threads", hint="give --threads, or write __launch_bounds__"
        )
    return math.prod(limit)


def _row(entry: str, arch: str, used: Resources, threads: int, found: Occupancy) -> tuple[str, ...]:
    return (
        entry,
        arch,
        str(used.registers),
        str(used.spill_store_bytes + used.spill_load_bytes),
        str(used.stack_bytes),
        str(used.shared_bytes),
        str(threads),
        str(found.blocks),
        f"{found.warps}/{found.warps_at_most}",
        ", ".join(found.limits),
    )
