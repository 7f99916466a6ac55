"""Decoding of `barrier.cluster`, and of `mapa`, `getctarank` and `isspacep`, which ask about addresses."""

from tileproof.simulators.ptx.decoding.decode_matrix import whole_warp
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.qualifiers import SPACES
from tileproof.simulators.ptx.decoding.slots import Slots, check_count
from tileproof.simulators.ptx.program import (
    AddressForm,
    AddressQuestion,
    ClusterBarrierForm,
    Kind,
    StateSpace,
    Step,
)
from tileproof.simulators.ptx.text.syntax import Instruction

_WIDTHS = {"u32": 32, "u64": 64}


def cluster_barrier(slots: Slots, instruction: Instruction) -> Step:
    """`barrier.cluster.arrive{.release, .relaxed}{.aligned}` and `.wait{.acquire}{.aligned}`."""
    what, *words = instruction.qualifiers[1:]
    legal = {"arrive": ("release", "relaxed", "aligned"), "wait": ("acquire", "aligned")}.get(what, ())
    if not legal or not set(words) <= set(legal) or len(set(words)) != len(words):
        raise not_modelled(instruction, "this form of barrier.cluster is not modelled")
    check_count(instruction, len(instruction.operands), 0)
    return Step(
        Kind.CLUSTER_ARRIVE if what == "arrive" else Kind.CLUSTER_WAIT,
        opcode(instruction),
        where(instruction),
        sources=(whole_warp(slots),),
        cluster=ClusterBarrierForm("relaxed" in words, "aligned" in words),
    )


def _mapa(slots: Slots, instruction: Instruction) -> Step:
    space, type_ = _form(instruction)
    check_count(instruction, len(instruction.operands), 3)
    target, address, rank = instruction.operands
    return _question(
        slots,
        instruction,
        AddressForm(AddressQuestion.MAP, space, _WIDTHS[type_]),
        slots.destination(instruction, target, type_),
        (slots.source(instruction, address, type_), slots.source(instruction, rank, "u32")),
    )


def _getctarank(slots: Slots, instruction: Instruction) -> Step:
    space, type_ = _form(instruction)
    check_count(instruction, len(instruction.operands), 2)
    target, address = instruction.operands
    return _question(
        slots,
        instruction,
        AddressForm(AddressQuestion.RANK, space, _WIDTHS[type_]),
        slots.destination(instruction, target, "u32"),
        (slots.source(instruction, address, type_),),
    )


def _isspacep(slots: Slots, instruction: Instruction) -> Step:
    if len(instruction.qualifiers) != 1 or instruction.qualifiers[0] not in SPACES:
        raise not_modelled(instruction, "this form of isspacep is not modelled")
    check_count(instruction, len(instruction.operands), 2)
    target, address = instruction.operands
    space = SPACES[instruction.qualifiers[0]]
    return _question(
        slots,
        instruction,
        AddressForm(AddressQuestion.INSIDE, space, 64),
        slots.destination(instruction, target, "pred"),
        (slots.source(instruction, address, "u64"),),
    )


def _form(instruction: Instruction) -> tuple[StateSpace, str]:
    match instruction.qualifiers:
        case ("shared::cluster", ("u32" | "u64") as type_):
            return StateSpace.CLUSTER, type_
        case ("u64" as type_,):
            return StateSpace.GENERIC, type_
    raise not_modelled(instruction, "only the forms .shared::cluster.{u32,u64} and .u64 are modelled")


def _question(slots: Slots, instruction: Instruction, form: AddressForm, target: int, sources: tuple[int, ...]) -> Step:
    return Step(
        Kind.CLUSTER_ADDRESS,
        opcode(instruction),
        where(instruction),
        destinations=(target,),
        sources=sources,
        address=form,
    )


DECODERS = {"mapa": _mapa, "getctarank": _getctarank, "isspacep": _isspacep}
