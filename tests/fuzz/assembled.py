"""What ptxas 13.0.88 assembles to something that PTX does not say; docs/ptxas.md shows the machine code.

Random programs for a GPU leave it out, so that a difference means something.
"""

from usable_forms import FLOATS

from tileproof.simulators.ptx.alu.forms import Form

_LOSES_ITS_GUARD = frozenset({"testp", "set"})
_VIDEO = frozenset(f"v{name}{lanes}" for name in ("add", "sub", "avrg", "absdiff", "min", "max") for lanes in (2, 4))
# Canonical or with its bits, by what ptxas makes of it; and of two NaN of f64 either one, by the order that it chooses.
_NAN_IS_OPEN = frozenset({"neg", "abs"})
_LOST_IN_LOOPS = frozenset({"mad", "madc"})  # .hi: an unrolled loop has half of them


def assembled_right(form: Form, *, guarded: bool) -> bool:
    """Whether the assembler keeps to PTX, whatever the operands."""
    if form.mnemonic in _LOSES_ITS_GUARD or (form.mnemonic in _VIDEO and "add" in form.qualifiers):
        return not guarded
    if form.mnemonic in _LOST_IN_LOOPS and "hi" in form.qualifiers:
        return False
    if form.operation.destinations[0] == "f64" and form.operation.sources.count("f64") > 1:
        return False
    return not (form.mnemonic in _NAN_IS_OPEN and form.types[0] in FLOATS)


def folds_one_register(form: Form) -> bool:
    """Whether it makes a copy of an operand that is there twice, NaN and all."""
    return form.mnemonic in ("min", "max") and form.types[0] in FLOATS


def converts_its_amount(form: Form) -> bool:
    """Whether it may convert an operand, the bits of a float, to an integer."""
    return form.mnemonic in ("shl", "shr")
