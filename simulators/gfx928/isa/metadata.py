"""Registers, LDS, scratch and spills of a kernel, from the metadata of its code object.

The names are AMD's (LLVM, "User Guide for AMDGPU Backend", code object V3 metadata, kernel map): of each map in the
list `amdhsa.kernels` the scalar keys are read, what is nested deeper is not. The directives `.amdhsa_*` of the same
listing must say the same of LDS and scratch.

    amdhsa.kernels:
      - .group_segment_fixed_size: 16384      LDS, bytes
        .name:           kernel
        .private_segment_fixed_size: 0        scratch, bytes a lane
        .sgpr_count:     43
        .sgpr_spill_count: 0
        .vgpr_count:     63
        .vgpr_spill_count: 0
        .wavefront_size: 64
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tileproof.oracle.maps.dumma_fragments import LANES
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.isa.instruction import shown
from tileproof.simulators.gfx928.isa.listing import Listing

_LIST = "amdhsa.kernels:"
#: No figure of a kernel is larger.
_LARGEST = 1 << 31


@dataclass(frozen=True)
class Figures:
    """What a kernel takes."""

    name: str
    vgprs: int
    sgprs: int
    lds_bytes: int
    scratch_bytes: int
    vgpr_spills: int
    sgpr_spills: int

    def __str__(self) -> str:
        return (
            f"{self.vgprs} VGPR, {self.sgprs} SGPR, {self.lds_bytes} bytes of LDS, "
            f"{self.scratch_bytes} bytes of scratch, {self.vgpr_spills} VGPR and {self.sgpr_spills} SGPR spilled"
        )


def read_figures(listing: Listing) -> dict[str, Figures]:
    """The figures of every kernel by name.

    Raises:
        Refusal: no metadata, a key missing, twice or no number, a wave that is not of 64, or a contradiction.
    """
    if not listing.metadata:
        raise Refusal(
            "the listing has no metadata",
            hint="keep .amdgpu_metadata of clang -S, or append the YAML of llvm-readelf --notes between --- and ...",
        )
    _require_gfx9(listing)
    found: dict[str, Figures] = {}
    for number, entries in _kernels(listing):
        figures = _figures(number, entries)
        if figures.name in found:
            raise Refusal(f"line {number}: the metadata has kernel {shown(figures.name)} twice")
        _require_same(figures, listing.directives.get(figures.name, {}))
        found[figures.name] = figures
    return found


def _require_gfx9(listing: Listing) -> None:
    """Other targets count their waits in other ways."""
    parts = ((number, *text.partition(":")[::2]) for number, text in listing.metadata)
    said = [(number, target.strip().strip("'\"")) for number, key, target in parts if key == "amdhsa.target"]
    for number, target in (*listing.targets, *said):
        if not re.search(r"--gfx9[0-9a-f]{2}(:|\Z)", target):
            raise Refusal(f"line {number}: target {shown(target)}", hint="listings of gfx9 targets are read")
        if target != (*listing.targets, *said)[0][1]:
            raise Refusal(f"line {number}: target {shown(target)} is another", hint="give one code object's listing")


def _kernels(listing: Listing) -> Iterator[tuple[int, dict[str, str]]]:
    """The scalar entries of each map of `amdhsa.kernels`, with the line where it begins."""
    lines = iter(listing.metadata)
    if not any(text.strip() == _LIST for _, text in lines):
        raise Refusal(f"the metadata has no {_LIST}", hint="code object V3 or later")
    entries: dict[str, str] = {}
    begin, dash = 0, None
    for number, text in lines:
        bare = text.lstrip(" ")
        if not bare or bare.startswith("#"):
            continue
        indent = len(text) - len(bare)
        if indent == 0 and not bare.startswith("-"):
            break
        if bare.startswith("- ") and (dash is None or indent == dash):
            if entries:
                yield begin, entries
            begin, dash, entries = number, indent, {}
            bare, indent = bare[2:].lstrip(" "), indent + 2
        if dash is None:
            raise Refusal(f"line {number}: {shown(bare)!r} is outside a list", hint=f"{_LIST} is a list of maps")
        if indent == dash + 2:
            _enter(entries, number, bare)
    if entries:
        yield begin, entries


def _enter(entries: dict[str, str], number: int, text: str) -> None:
    key, colon, value = text.partition(":")
    if not colon or not key.startswith("."):
        raise Refusal(f"line {number}: {shown(text)!r} is no entry of a kernel's metadata", hint=".key: value")
    if key in entries:
        raise Refusal(f"line {number}: {shown(key)} is there twice")
    entries[key] = value.strip().strip("'\"")


def _figures(number: int, entries: dict[str, str]) -> Figures:
    def count(key: str) -> int:
        value = entries.get(key, "nothing")
        if not (value.isascii() and value.isdecimal() and len(value) <= 10 and int(value) <= _LARGEST):
            raise Refusal(f"line {number}: {key} is {shown(value)!r}", hint="a kernel's metadata has it as a number")
        return int(value)

    name = entries.get(".name")
    if not name:
        raise Refusal(f"line {number}: a kernel without .name")
    if entries.get(".uses_dynamic_stack", "false") != "false":
        raise Refusal(f"{shown(name)}: a dynamic stack", hint="how much scratch it takes is then in no figure")
    if count(".wavefront_size") != LANES:
        raise Refusal(f"{shown(name)}: a wave of {count('.wavefront_size')} lanes", hint=f"gfx928 has {LANES}")
    return Figures(
        name=name,
        vgprs=count(".vgpr_count"),
        sgprs=count(".sgpr_count"),
        lds_bytes=count(".group_segment_fixed_size"),
        scratch_bytes=count(".private_segment_fixed_size"),
        vgpr_spills=count(".vgpr_spill_count"),
        sgpr_spills=count(".sgpr_spill_count"),
    )


def _require_same(figures: Figures, directives: dict[str, str]) -> None:
    pairs = (
        (".amdhsa_group_segment_fixed_size", figures.lds_bytes),
        (".amdhsa_private_segment_fixed_size", figures.scratch_bytes),
    )
    for name, value in pairs:
        if name in directives and directives[name] != str(value):
            raise Refusal(
                f"{figures.name}: {name} is {shown(directives[name])}, the metadata says {value}",
                hint="the listing is of two code objects, or was edited",
            )
