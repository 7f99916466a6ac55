"""Decoding of `tensormap.replace` and `tensormap.cp_fenceproxy`.

`tensormap.replace.tile.FIELD{.SPACE}.b1024.TYPE [map], {entry,} value` and
`tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.SCOPE.sync.aligned [to], [from], 128`.
"""

from collections.abc import Sequence

from tileproof.simulators.ptx.async_form import MapCopyForm, MapEditForm, Place
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.qualifiers import SCOPES
from tileproof.simulators.ptx.decoding.slots import Slots, check_count
from tileproof.simulators.ptx.machine.warp import ALL_LANES
from tileproof.simulators.ptx.program import Access, Kind, StateSpace, Step
from tileproof.simulators.ptx.tensor_map import ALIGNMENT, NBYTES
from tileproof.simulators.ptx.tensor_map_edit import CONSTANT, ENTRIES, WIDE, MapField, check_constant
from tileproof.simulators.ptx.text.syntax import Immediate, Instruction, Operand

_SPACES = {"global": StateSpace.GLOBAL, "shared::cta": StateSpace.SHARED, "": StateSpace.GENERIC}
_COPY = ("cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release")


def _tensormap(slots: Slots, instruction: Instruction) -> Step:
    """Either of the two.

    Raises:
        NotModelled: a form that there is not.
    """
    words = instruction.qualifiers
    if words[:2] == ("replace", "tile") and len(words) in (5, 6):
        space = words[3] if len(words) == 6 else ""
        return _replace(slots, instruction, words[2], space, words[-2:])
    if words[:5] == _COPY and words[5:6] and words[5] in SCOPES and words[6:] == ("sync", "aligned"):
        return _copy(slots, instruction)
    raise not_modelled(instruction, "this form is not modelled")


def _replace(slots: Slots, instruction: Instruction, name: str, space: str, types: Sequence[str]) -> Step:
    known = {field.value: field for field in MapField}
    field = known.get(name)
    if field is None or space not in _SPACES or list(types) != ["b1024", "b64" if field in WIDE else "b32"]:
        raise not_modelled(instruction, "this form is not modelled")
    operands = list(instruction.operands)
    check_count(instruction, len(operands), 2 + (field in ENTRIES))
    entry = _constant(instruction, operands.pop(1)) if field in ENTRIES else 0
    if entry >= ENTRIES.get(field, 1):
        raise not_modelled(instruction, f".{name} has entries 0 to {ENTRIES[field] - 1}")
    if field in CONSTANT:
        check_constant(field, _constant(instruction, operands[1]))
    place = Place(*slots.address(instruction, operands[0]), _SPACES[space])
    value = slots.source(instruction, operands[1], "b64" if field in WIDE else "b32")
    return Step(
        Kind.MAP_EDIT,
        opcode(instruction),
        where(instruction),
        sources=(place.slot, value),
        access=Access(place.space, ALIGNMENT, place.offset, False, False, False),
        asynchronous=MapEditForm(place, field, entry, value),
    )


def _copy(slots: Slots, instruction: Instruction) -> Step:
    check_count(instruction, len(instruction.operands), 3)
    to, origin, size = instruction.operands
    if _constant(instruction, size) != NBYTES:
        raise not_modelled(instruction, f"a tensor map has {NBYTES} bytes")
    target = Place(*slots.address(instruction, to), StateSpace.GLOBAL)
    source = Place(*slots.address(instruction, origin), StateSpace.SHARED)
    return Step(
        Kind.MAP_COPY,
        opcode(instruction),
        where(instruction),
        sources=(target.slot, source.slot, slots.constant(int(ALL_LANES), 32)),
        access=Access(source.space, ALIGNMENT, source.offset, False, False, False),
        asynchronous=MapCopyForm(target, source),
    )


def _constant(instruction: Instruction, operand: Operand) -> int:
    if not isinstance(operand, Immediate) or operand.float_type is not None:
        raise not_modelled(instruction, "a constant belongs here")
    return operand.bits


DECODERS = {"tensormap": _tensormap}
