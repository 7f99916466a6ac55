"""Finds the unit that executes an instruction; what no entry covers is refused, with what would be covered."""

import re
from collections.abc import Iterable

from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.amd_units import AMD_ARCHITECTURES, AMD_ENTRIES
from tileproof.oracle.units.instruction import Instruction
from tileproof.oracle.units.nvidia_units import (
    EARLY_ASSEMBLERS,
    NVIDIA_ARCHITECTURES,
    NVIDIA_ENTRIES,
    PRESENT_ASSEMBLERS,
)
from tileproof.oracle.units.unit import KnownUnit
from tileproof.oracle.units.unit_entry import Entry

ENTRIES = (*NVIDIA_ENTRIES, *AMD_ENTRIES)
ARCHITECTURES = (*NVIDIA_ARCHITECTURES, *AMD_ARCHITECTURES)
ASSEMBLERS = (*EARLY_ASSEMBLERS, *PRESENT_ASSEMBLERS)

_SUFFIX = re.compile(r"(?<=\d)[af]$")


def find_unit(instruction: Instruction, arch: str, assembler: str) -> KnownUnit:
    """The unit that executes an instruction on an architecture.

    Args:
        instruction: the parsed name.
        arch: "sm_90", "gfx942", ...; a suffix letter ("sm_90a") decides no arithmetic and is dropped.
        assembler: CUDA release of ptxas; it matters where an instruction is expanded to others.

    Raises:
        Refusal: the architecture, the instruction on it, or the assembler is outside what is known.
    """
    base = base_architecture(arch)
    if assembler not in ASSEMBLERS:
        raise Refusal(
            f"assembler {assembler!r} was not examined",
            hint=f"examined: {', '.join(ASSEMBLERS)}; a driver that compiles PTX has its own release",
        )
    entries = [entry for entry in ENTRIES if base in entry.architectures and entry.has(instruction)]
    if not entries:
        raise _unknown_instruction(instruction, base)
    for entry in entries:
        if not entry.assemblers or assembler in entry.assemblers:
            return KnownUnit(entry.unit(instruction), entry.evidence, entry.source)
    known = [name for entry in entries for name in entry.assemblers]
    raise Refusal(
        f"assembler {assembler} does not have {instruction.family} {instruction.shape} with these types on {base}",
        hint=f"assemblers that have it: {', '.join(known)}",
    )


def base_architecture(arch: str) -> str:
    """The architecture without its suffix letter.

    Raises:
        Refusal: it is none that is modelled.
    """
    if not isinstance(arch, str):
        raise Refusal(f"architecture {arch!r} is no text", hint="write it like 'sm_90' or 'gfx942'")
    base = arch if arch in AMD_ARCHITECTURES else _SUFFIX.sub("", arch)
    if base not in ARCHITECTURES:
        raise Refusal(
            f"the matrix unit of architecture {arch!r} is not modelled",
            hint=f"modelled: {', '.join(ARCHITECTURES)}; of others no model is published",
        )
    return base


def _unknown_instruction(instruction: Instruction, arch: str) -> Refusal:
    """Names what the architecture has that is nearest: the same types, else the same family, else its families."""
    here = [entry for entry in ENTRIES if arch in entry.architectures]
    family = [entry for entry in here if entry.family is instruction.family]
    pairs = [entry for entry in family if instruction.operands in entry.operands]
    a, b = instruction.operands
    if pairs:
        hint = f"with A {a} and B {b} it has {_listed(_forms(entry) for entry in pairs)}"
    elif family:
        types = (f"{a}.{b}" for entry in family for a, b in entry.operands)
        hint = f"types of A and B in {instruction.family} there: {_listed(types)}"
    else:
        hint = f"families there: {_listed(str(entry.family) for entry in here)}"
    wanted = f"{instruction.family}.{instruction.shape} with accumulator {instruction.accumulator}, A {a}, B {b}"
    return Refusal(f"{arch} has no modelled {wanted}{_qualifiers(instruction)}", hint=hint)


def _qualifiers(instruction: Instruction) -> str:
    words = [f"kind::{instruction.kind}"] * bool(instruction.kind) + ["satfinite"] * instruction.saturates
    words += [f"{instruction.scales} scales"] * bool(instruction.scales) + ["1k"] * instruction.one_k
    return f" ({', '.join(words)})" if words else ""


def _forms(entry: Entry) -> str:
    first, last = entry.shapes[0], entry.shapes[-1]
    span = (
        str(first)
        if first == last
        else f"{first} to {last}"
        if len(entry.shapes) > 3
        else _listed(map(str, entry.shapes))
    )
    kinds = [f"kind::{kind}" for kind in entry.kinds if kind] + ["satfinite"] * entry.saturates + ["1k"] * entry.one_k
    scales = [f"block_scale.scale_vec::{entry.scales}X"] if entry.scales else []
    return ".".join([span, *kinds, *scales, "|".join(entry.units)])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def support_table() -> str:
    """What is modelled and how it is known, as a Markdown table with one row an entry."""
    head = ("architectures", "instruction", "A, B", "assembler", "evidence", "source")
    rows = [head, tuple("---" for _ in head)]
    for entry in ENTRIES:
        types = _listed(dict.fromkeys(name for pair in entry.operands for name in pair))
        form = f"{entry.family}.{_forms(entry)}".replace("|", " or ")
        assembler = ", ".join(entry.assemblers) or "any"
        rows.append((", ".join(entry.architectures), form, types, assembler, entry.evidence.value, entry.source))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
