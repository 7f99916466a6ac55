"""Decoding of warp collectives. The member mask is always the last source."""

from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.slots import Slots, check_count, pair
from tileproof.simulators.ptx.program import CollectiveMode, Kind, Step
from tileproof.simulators.ptx.text.syntax import Instruction, Sink

_SHUFFLES = ("up", "down", "bfly", "idx")
_VOTES = ("all", "any", "uni")
_REDUCTIONS = {
    **dict.fromkeys((("add", "u32"), ("add", "s32")), CollectiveMode.ADD),
    **dict.fromkeys((("min", "u32"), ("min", "s32")), CollectiveMode.MIN),
    **dict.fromkeys((("max", "u32"), ("max", "s32")), CollectiveMode.MAX),
    ("and", "b32"): CollectiveMode.AND,
    ("or", "b32"): CollectiveMode.OR,
    ("xor", "b32"): CollectiveMode.XOR,
}


def _shuffle(slots: Slots, instruction: Instruction) -> Step:
    match instruction.qualifiers:
        case ("sync", mode, "b32") if mode in _SHUFFLES:
            pass
        case _:
            raise not_modelled(instruction, "only shfl.sync.{up,down,bfly,idx}.b32 is modelled")
    check_count(instruction, len(instruction.operands), 5)
    results = (*pair(instruction.operands[0]), Sink())[:2]
    return Step(
        Kind.SHUFFLE,
        opcode(instruction),
        where(instruction),
        destinations=tuple(slots.destination(instruction, o, t) for o, t in zip(results, ("b32", "pred"), strict=True)),
        sources=tuple(slots.source(instruction, o, "b32") for o in instruction.operands[1:]),
        mode=CollectiveMode(mode),
    )


def _vote(slots: Slots, instruction: Instruction) -> Step:
    match instruction.qualifiers:
        case ("sync", "ballot", "b32"):
            mode, type_ = CollectiveMode.BALLOT, "b32"
        case ("sync", name, "pred") if name in _VOTES:
            mode, type_ = CollectiveMode(name), "pred"
        case _:
            raise not_modelled(instruction, "only vote.sync.{all,any,uni}.pred and vote.sync.ballot.b32 are modelled")
    check_count(instruction, len(instruction.operands), 3)
    target, predicate, members = instruction.operands
    slot, negated = slots.predicate(instruction, predicate)
    return Step(
        Kind.VOTE,
        opcode(instruction),
        where(instruction),
        destinations=(slots.destination(instruction, target, type_),),
        sources=(slot, slots.source(instruction, members, "b32")),
        mode=mode,
        negated=negated,
    )


def _match(slots: Slots, instruction: Instruction) -> Step:
    match instruction.qualifiers:
        case (("any" | "all") as mode, "sync", ("b32" | "b64") as type_):
            pass
        case _:
            raise not_modelled(instruction, "only match.{any,all}.sync.{b32,b64} is modelled")
    check_count(instruction, len(instruction.operands), 3)
    results = (*pair(instruction.operands[0]), Sink())[:2]
    value = slots.source(instruction, instruction.operands[1], type_)
    return Step(
        Kind.MATCH,
        opcode(instruction),
        where(instruction),
        destinations=tuple(slots.destination(instruction, o, t) for o, t in zip(results, ("b32", "pred"), strict=True)),
        sources=(value, slots.source(instruction, instruction.operands[2], "b32")),
        mode=CollectiveMode(mode),
    )


def _reduce(slots: Slots, instruction: Instruction) -> Step:
    match instruction.qualifiers:
        case ("sync", name, type_) if (name, type_) in _REDUCTIONS:
            pass
        case _:
            raise not_modelled(instruction, "only the integer forms of redux.sync are modelled")
    check_count(instruction, len(instruction.operands), 3)
    target, value, members = instruction.operands
    return Step(
        Kind.REDUCE,
        opcode(instruction),
        where(instruction),
        destinations=(slots.destination(instruction, target, type_),),
        sources=(slots.source(instruction, value, type_), slots.source(instruction, members, "b32")),
        mode=_REDUCTIONS[name, type_],
        signed=type_ == "s32",
    )


def _elect(slots: Slots, instruction: Instruction) -> Step:
    if instruction.qualifiers != ("sync",) or len(instruction.operands) != 2:
        raise not_modelled(instruction, "only elect.sync d|p, membermask is modelled")
    leader, chosen = (*pair(instruction.operands[0]), Sink())[:2]
    return Step(
        Kind.ELECT,
        opcode(instruction),
        where(instruction),
        destinations=(
            slots.destination(instruction, leader, "b32"),
            slots.destination(instruction, chosen, "pred"),
        ),
        sources=(slots.source(instruction, instruction.operands[1], "b32"),),
    )


def _active_mask(slots: Slots, instruction: Instruction) -> Step:
    target = slots.destination(instruction, instruction.operands[0], "b32")
    return Step(Kind.ACTIVE_MASK, opcode(instruction), where(instruction), destinations=(target,))


DECODERS = {
    "shfl": _shuffle,
    "vote": _vote,
    "match": _match,
    "redux": _reduce,
    "elect": _elect,
    "activemask": _active_mask,
}
