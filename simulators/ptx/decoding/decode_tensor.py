"""Decoding of tensor copies: `cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor`, `cp.async.bulk.prefetch.tensor`.

Qualifiers are read in the order of the PTX ISA; what stands behind the mechanism comes in any order. Refused by name:
im2col modes, gather and scatter of rows, and copies of a pair of blocks (`.cta_group`).
"""

from collections.abc import Sequence
from dataclasses import replace

from tileproof.simulators.ptx.async_form import Place, TensorForm
from tileproof.simulators.ptx.decoding.decode_mbarrier import SHARED_SPACES
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.slots import Slots, check_count
from tileproof.simulators.ptx.program import NONE, Access, Kind, StateSpace, Step
from tileproof.simulators.ptx.text.syntax import Address, Instruction, Operand

CHUNK_BYTES = 16
_RANKS = {f"{rank}d": rank for rank in range(1, 6)}
_COMPLETES = "mbarrier::complete_tx::bytes"
_MULTICAST = "multicast::cluster"
_CACHE_HINT = "L2::cache_hint"
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def tensor(slots: Slots, instruction: Instruction) -> Step:
    """`cp.async.bulk.tensor.RANKd.TARGET.SOURCE{.tile}.MECHANISM...`.

    Raises:
        NotModelled: another load mode, or a form that there is not.
    """
    rank, (target, source, *words) = _rank(instruction, instruction.qualifiers[3:])
    words = _tiled(instruction, words)
    if (target, source) == ("global", "shared::cta"):
        return _store(slots, instruction, rank, words, None)
    if target not in ("shared::cta", "shared::cluster") or source != "global" or words[:1] != [_COMPLETES]:
        raise not_modelled(instruction, f"a tensor copy from .{source} to .{target} of this form is not modelled")
    flags = _flags(instruction, words[1:], (_MULTICAST, _CACHE_HINT))
    multicast = _MULTICAST in flags
    if multicast and target != "shared::cluster":
        raise not_modelled(instruction, "a multicast goes to .shared::cluster")
    shared, tensor_map, barrier, *rest = _operands(slots, instruction, 3 + multicast, _CACHE_HINT in flags)
    form = TensorForm(
        rank,
        *_map(slots, instruction, tensor_map, rank),
        shared=Place(*slots.address(instruction, shared), SHARED_SPACES[target]),
        barrier=Place(*slots.address(instruction, barrier), SHARED_SPACES[target]),
        blocks=slots.source(instruction, rest[0], "u16") if multicast else NONE,
    )
    return _step(instruction, form)


def reduce(slots: Slots, instruction: Instruction) -> Step:
    """`cp.reduce.async.bulk.tensor.RANKd.global.shared::cta.OPERATION{.tile}.bulk_group...`.

    Raises:
        NotModelled: another load mode, or a form that there is not.
    """
    rank, (target, source, operation, *words) = _rank(instruction, instruction.qualifiers[4:])
    if (target, source) != ("global", "shared::cta") or operation not in REDUCTIONS:
        raise not_modelled(instruction, "this reduction is not modelled")
    return _store(slots, instruction, rank, _tiled(instruction, words), operation)


def prefetch(slots: Slots, instruction: Instruction) -> Step:
    """`cp.async.bulk.prefetch.tensor.RANKd.L2.global{.tile}...`: changes no value.

    Raises:
        NotModelled: another load mode.
    """
    rank, (level, source, *words) = _rank(instruction, instruction.qualifiers[4:])
    if (level, source) != ("L2", "global"):
        raise not_modelled(instruction, "this form is not modelled")
    flags = _flags(instruction, _tiled(instruction, words), (_CACHE_HINT,))
    (tensor_map,) = _operands(slots, instruction, 1, _CACHE_HINT in flags)
    _map(slots, instruction, tensor_map, rank)
    return Step(Kind.NOTHING, opcode(instruction), where(instruction))


def _store(slots: Slots, instruction: Instruction, rank: int, words: Sequence[str], reduction: str | None) -> Step:
    if words[:1] != ["bulk_group"]:
        raise not_modelled(instruction, "a copy to global memory joins a .bulk_group")
    flags = _flags(instruction, words[1:], (_CACHE_HINT,))
    tensor_map, shared = _operands(slots, instruction, 2, _CACHE_HINT in flags)
    form = TensorForm(
        rank,
        *_map(slots, instruction, tensor_map, rank),
        shared=Place(*slots.address(instruction, shared), StateSpace.SHARED),
        reduction=reduction,
    )
    return _step(instruction, form)


def _rank(instruction: Instruction, words: Sequence[str]) -> tuple[int, Sequence[str]]:
    if len(words) < 3 or words[0] not in _RANKS:
        raise not_modelled(instruction, "this form is not modelled")
    return _RANKS[words[0]], words[1:]


def _tiled(instruction: Instruction, words: Sequence[str]) -> list[str]:
    """The words without the load mode, which must be `.tile` or left out."""
    mode = words[0] if words else ""
    if mode.startswith(("im2col", "tile::")):
        raise not_modelled(instruction, f"the load mode .{mode} is not modelled", "use .tile")
    return list(words[1:] if mode == "tile" else words)


def _flags(instruction: Instruction, words: Sequence[str], known: Sequence[str]) -> list[str]:
    for word in words:
        if word not in known:
            raise not_modelled(instruction, f"the qualifier .{word} is not modelled")
    return list(words)


def _operands(slots: Slots, instruction: Instruction, count: int, hinted: bool) -> list[Operand]:
    """The operands without the cache policy, which changes no value."""
    operands = list(instruction.operands)
    if hinted and operands:
        slots.source(instruction, operands.pop(), "b64")
    check_count(instruction, len(operands), count)
    return operands


def _map(slots: Slots, instruction: Instruction, operand: Operand, rank: int) -> tuple[Place, tuple[int, ...]]:
    """The map's place, a generic address, and the slots of the coordinates of `[map, {c0, ...}]`."""
    if not isinstance(operand, Address) or operand.coordinates is None:
        raise not_modelled(instruction, "an operand [map, {coordinates}] belongs here")
    coordinates = operand.coordinates.elements
    check_count(instruction, len(coordinates), rank)
    slot, offset = slots.address(instruction, replace(operand, coordinates=None))
    return Place(slot, offset, StateSpace.GENERIC), tuple(slots.source(instruction, o, "s32") for o in coordinates)


def _step(instruction: Instruction, form: TensorForm) -> Step:
    barrier = (form.barrier.slot,) if form.barrier else ()
    blocks = (form.blocks,) if form.blocks != NONE else ()
    return Step(
        Kind.TENSOR,
        opcode(instruction),
        where(instruction),
        sources=(form.map.slot, *form.coordinates, form.shared.slot, *barrier, *blocks),
        access=Access(form.shared.space, CHUNK_BYTES, form.shared.offset, False, False, False),
        asynchronous=form,
    )
