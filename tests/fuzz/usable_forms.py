"""The arithmetic forms that random programs use."""

from collections.abc import Sequence
from functools import cache

from tileproof.simulators.ptx.alu.forms import Form, accepted_forms
from tileproof.simulators.ptx.alu.operation import arithmetic_mnemonics
from tileproof.simulators.ptx.alu.scalar import SCALARS

FLOATS = ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2")
# An assembler may fuse a product and a sum that say nothing of their rounding; such a program has two meanings.
_FUSES = frozenset({"add", "sub", "mul"})
_ROUNDINGS = frozenset({"rn", "rz", "rm", "rp"})
_APPROXIMATE = frozenset({"approx", "full"})


@cache
def usable_forms(approximate: bool) -> dict[str, list[Form]]:
    found: dict[str, list[Form]] = {}
    for mnemonic in arithmetic_mnemonics():
        usable = [form for form in accepted_forms(mnemonic) if _usable(form, approximate)]
        if usable:
            found[mnemonic] = usable
    return found


def shown_types(types: Sequence[str]) -> tuple[str, ...]:
    """Types of the operands that PTX writes: the carry flag is not among them."""
    return tuple(name for name in types if name != "carry")


def _usable(form: Form, approximate: bool) -> bool:
    if _APPROXIMATE & set(form.qualifiers) and not approximate:
        return False
    types = shown_types(form.operation.destinations) + shown_types(form.operation.sources)
    if any(SCALARS[name].bits not in (16, 32, 64) for name in types if name != "pred"):
        return False
    if not form.operation.requires.met_by("sm_90a"):
        return False
    unrounded = not _ROUNDINGS & set(form.qualifiers)
    return not (form.mnemonic in _FUSES and unrounded and any(name in FLOATS for name in form.types))
