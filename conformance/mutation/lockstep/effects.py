"""What an effect reads, and when two effects are the same but for the values that they read."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

from tileproof.conformance.mutation.lockstep.pair import Pair
from tileproof.simulators.ptx.findings import Where
from tileproof.simulators.ptx.program import NO_GUARD, Kind, Program, Step

_SLOTS = frozenset(
    {"slot", "slots", "number", "count", "bytes", "phase", "source_bytes", "ignore", "nbytes", "blocks", "byte_mask"}
    | {"values", "coordinates", "value", "descriptor", "adds_c", "policy", "mask"}
)
"""Fields of forms that hold slots. A field of another name is compared as it stands: where it holds slots of registers
they are the same or the effects are not."""


def operands_of(step: Step) -> tuple[int, ...]:
    """Slots that an effect reads: its sources, and those that its form names."""
    forms = (step.barrier, step.asynchronous, step.product)
    return (*step.sources, *(slot for form in forms if form is not None for slot in _slots(form)))


def _slots(form: object) -> Iterator[int]:
    assert is_dataclass(form)
    for one in fields(form):
        value = getattr(form, one.name)
        if is_dataclass(value):
            yield from _slots(value)
        elif one.name in _SLOTS:
            numbers = value if isinstance(value, tuple) else (value,)
            yield from (number for number in numbers if isinstance(number, int) and number >= 0)


def same_effect(old: Step, new: Step) -> bool:
    """Whether two steps do the same to the same operands; offsets of addresses are operands."""
    return _bare(old) == _bare(new)


def _bare(step: Step) -> Step:
    access = None if step.access is None else replace(step.access, offset=0)
    signs = () if step.kind is Kind.LOAD else step.sign_from
    return replace(
        step, opcode="", where=Where(0), sources=(), narrow=(), guard=NO_GUARD, guard_negated=False, access=access,
        sign_from=signs,
    )  # fmt: skip


def alike(both: Pair, old: Step, new: Step) -> bool:
    """Whether two computing steps are the same, constants and all."""
    if replace(old, opcode="", where=Where(0), sources=()) != replace(new, opcode="", where=Where(0), sources=()):
        return False
    return [_meaning(both.original, slot) for slot in old.sources] == [
        _meaning(both.changed, slot) for slot in new.sources
    ]


def _meaning(program: Program, slot: int) -> object:
    if slot in program.constants:
        return ("constant", program.constants[slot], program.slot_bits[slot])
    if slot in program.specials:
        return ("special", program.specials[slot])
    return program.shared_symbols.get(slot, slot)
