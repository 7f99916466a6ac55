"""Which matrix instructions the device has, asked of the oracle's table of units: a part of docs/ptx.md."""

from collections.abc import Iterable, Iterator

from tileproof.oracle.fragments import find_fragments
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.instruction import Family, Instruction
from tileproof.oracle.units.nvidia_units import NVIDIA_ENTRIES
from tileproof.oracle.units.unit_entry import Entry
from tileproof.simulators.ptx.limits import Limits
from tileproof.simulators.ptx.machine.matrix import ASSEMBLER

_FAMILIES = (Family.MMA, Family.WGMMA)


def matrix_table() -> str:
    """One row for each group of instructions that share a unit: shapes, types, architectures, evidence."""
    lines = ["| instruction | A and B | C and D | architectures | evidence |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *dict.fromkeys(_rows())]) + "\n"


def _rows() -> Iterator[str]:
    for entry in NVIDIA_ENTRIES:
        architectures = [arch for arch in entry.architectures if _is_modelled(arch)]
        found = [instruction for instruction in entry.instructions() if _has_fragments(instruction)]
        present = not entry.assemblers or ASSEMBLER in entry.assemblers
        if entry.family in _FAMILIES and present and not entry.scales and architectures and found:
            yield _row(entry, architectures, found)


def _row(entry: Entry, architectures: list[str], found: list[Instruction]) -> str:
    columns = {shape.n for shape in entry.shapes}
    shapes = _listed(f"m{i.shape.m}n{'N' if len(columns) > 2 else i.shape.n}k{i.shape.k}" for i in found)
    kinds = "".join(f" kind::{kind}" for kind in entry.kinds if kind)
    name = f"`{entry.family}` {shapes}{kinds}{' satfinite' if entry.saturates else ''}"
    evidence = f"{entry.evidence.value}: {entry.source}"
    return f"| {name} | {_operands(entry)} | {_listed(entry.units)} | {_listed(architectures)} | {evidence} |"


def _operands(entry: Entry) -> str:
    """Every entry has either pairs of equal types or all pairs."""
    types = _listed(a for a, _ in entry.operands)
    return types if all(a == b for a, b in entry.operands) else f"any pair of {types}"


def _listed(words: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(words))


def _is_modelled(arch: str) -> bool:
    try:
        Limits.of(arch)
    except Refusal:
        return False
    return True


def _has_fragments(instruction: Instruction) -> bool:
    try:
        find_fragments(instruction.name)
    except Refusal:
        return False
    return True
