"""Decoding of branches, exits, barriers, and of moves and conversions that are not plain arithmetic."""

from dataclasses import replace

from tileproof.simulators.ptx.alu.operation import Operation, resolve
from tileproof.simulators.ptx.decoding.decode_cluster import cluster_barrier
from tileproof.simulators.ptx.decoding.decode_matrix import whole_warp
from tileproof.simulators.ptx.decoding.decode_special import TIME_REGISTERS, time_move
from tileproof.simulators.ptx.decoding.inlining import ASSERT_FAIL, FRESH, PRINT
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, pointing_at, where
from tileproof.simulators.ptx.decoding.slots import Slots, bits_of, check_count, elements
from tileproof.simulators.ptx.layout import CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from tileproof.simulators.ptx.program import NONE, BarrierForm, CollectiveMode, Kind, Step
from tileproof.simulators.ptx.text.syntax import Immediate, Instruction, Operand, Register, Special, Symbol, Vector

_WINDOWS = {
    "shared": SHARED_WINDOW,
    "shared::cta": SHARED_WINDOW,
    "shared::cluster": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "const": CONST_WINDOW,
    "param": PARAM_WINDOW,
    "param::entry": PARAM_WINDOW,
}
_BARRIER_REDUCTIONS = {
    ("and", "pred"): CollectiveMode.ALL,
    ("or", "pred"): CollectiveMode.ANY,
    ("popc", "u32"): CollectiveMode.COUNT,
}


def _barrier(slots: Slots, instruction: Instruction) -> Step:
    """`bar` is `barrier.aligned` (PTX ISA, "bar{.cta}")."""
    if instruction.mnemonic == "barrier" and instruction.qualifiers[:1] == ("cluster",):
        return cluster_barrier(slots, instruction)
    qualifiers = [q for q in instruction.qualifiers if q not in ("cta", "aligned")]
    aligned = instruction.mnemonic == "bar" or "aligned" in instruction.qualifiers
    match qualifiers:
        case ["warp", "sync"]:
            members = slots.source(instruction, instruction.operands[0], "b32")
            return Step(Kind.WARP_BARRIER, opcode(instruction), where(instruction), sources=(members,))
        case ["sync"]:
            return _block_barrier(slots, instruction, instruction.operands, aligned)
        case ["arrive"] if len(instruction.operands) == 2:
            return _arrival(slots, instruction, aligned)
        case ["red", name, type_] if (name, type_) in _BARRIER_REDUCTIONS:
            return _reducing_barrier(slots, instruction, _BARRIER_REDUCTIONS[name, type_], type_, aligned)
    raise not_modelled(instruction, "this form of barrier is not modelled")


def _block_barrier(slots: Slots, instruction: Instruction, operands: tuple[Operand, ...], aligned: bool) -> Step:
    if len(operands) not in (1, 2):
        raise not_modelled(instruction, f"{len(operands)} operands where a barrier, and perhaps a count, belong")
    number, *count = (slots.source(instruction, operand, "b32") for operand in operands)
    form = BarrierForm(number, count[0] if count else NONE, aligned)
    return Step(Kind.BARRIER, opcode(instruction), where(instruction), barrier=form)


def _arrival(slots: Slots, instruction: Instruction, aligned: bool) -> Step:
    step = _block_barrier(slots, instruction, instruction.operands, aligned)
    return replace(step, kind=Kind.BARRIER_ARRIVE, sources=(whole_warp(slots),))


def _reducing_barrier(slots: Slots, instruction: Instruction, mode: CollectiveMode, type_: str, aligned: bool) -> Step:
    target, *middle, predicate = instruction.operands
    step = _block_barrier(slots, instruction, tuple(middle), aligned)
    slot, negated = slots.predicate(instruction, predicate)
    assert step.barrier is not None
    return Step(
        Kind.BARRIER,
        step.opcode,
        step.where,
        destinations=(slots.destination(instruction, target, type_),),
        sources=(slot,),
        mode=mode,
        negated=negated,
        barrier=step.barrier,
    )


def _branch(slots: Slots, instruction: Instruction) -> Step:
    if set(instruction.qualifiers) - {"uni"}:
        raise not_modelled(instruction, "this branch form is not modelled")
    target = slots.label(instruction, instruction.operands[0])
    return Step(Kind.BRANCH, opcode(instruction), where(instruction), target=target)


def _exit(slots: Slots, instruction: Instruction) -> Step:
    return Step(Kind.EXIT, opcode(instruction), where(instruction))


def _trap(slots: Slots, instruction: Instruction) -> Step:
    """`trap`, `brkpt`, and what calls and indexed branches leave (`inlining`)."""
    types = _TRAP_OPERANDS.get(instruction.mnemonic, ())
    check_count(instruction, len(instruction.operands), len(types))
    sources = [slots.source(instruction, o, t) for o, t in zip(instruction.operands, types, strict=True)]
    return Step(Kind.TRAP, opcode(instruction), where(instruction), sources=tuple(sources))


_TRAP_OPERANDS = {"brx": ("u32",), ASSERT_FAIL: ("b64", "b64", "b32", "b64", "b64")}


def _fresh(slots: Slots, instruction: Instruction) -> Step:
    """The beginning of a copy of a function (`inlining`), before `fresh` reduces it."""
    behind, *operands = instruction.operands
    registers = [operand.name for operand in operands if isinstance(operand, Register)]
    variables = [operand.name for operand in operands if isinstance(operand, Symbol)]
    return Step(
        Kind.FRESH,
        opcode(instruction),
        where(instruction),
        destinations=tuple(slots.register(name) for name in registers),
        target=slots.label(instruction, behind),
        ranges=tuple(slots.local_range(name) for name in variables),
    )


def _print(slots: Slots, instruction: Instruction) -> Step:
    """`vprintf`: its format and arguments, and perhaps its result before them."""
    *results, format_, arguments = instruction.operands
    return Step(
        Kind.PRINT,
        opcode(instruction),
        where(instruction),
        destinations=tuple(slots.destination(instruction, result, "b32") for result in results),
        sources=tuple(slots.source(instruction, operand, "b64") for operand in (format_, arguments)),
    )


def _nothing(slots: Slots, instruction: Instruction) -> Step:
    return Step(Kind.NOTHING, opcode(instruction), where(instruction))


def _mov_wide(slots: Slots, instruction: Instruction) -> Step:
    """`mov.b128` between registers of 128 bits, and from and to pairs of 64 bits."""
    check_count(instruction, len(instruction.operands), 2)
    target, value = instruction.operands
    for operand in (target, value):
        check_count(instruction, len(elements(operand)), 2 if isinstance(operand, Vector) else 1)
    kinds = ["b64" if isinstance(operand, Vector) else "b128" for operand in (target, value)]
    return Step(
        Kind.ARITHMETIC,
        opcode(instruction),
        where(instruction),
        destinations=tuple(s for o in elements(target) for s in slots.destinations(instruction, o, kinds[0])),
        sources=tuple(s for o in elements(value) for s in slots.sources(instruction, o, kinds[1])),
        operation=_PAIR,
        narrow=(0, 0),
        sign_from=(0, 0),
    )


_PAIR = Operation("mov.b128", ("b64", "b64"), ("b64", "b64"), tuple, lambda values, masks: tuple(masks))


def _mov(slots: Slots, instruction: Instruction) -> Step:
    if instruction.qualifiers == ("b128",):
        return _mov_wide(slots, instruction)
    if len(instruction.operands) == 2 and len(instruction.qualifiers) == 1:
        target, value = instruction.operands
        bits = bits_of(instruction.qualifiers[0])
        if isinstance(value, Special) and value.name in TIME_REGISTERS:
            return time_move(slots, instruction)
        if isinstance(value, Vector):
            return _pack(slots, instruction, target, value, bits)
        if isinstance(target, Vector):
            return _unpack(slots, instruction, target, value, bits)
    with pointing_at(instruction):
        operation = resolve("mov", instruction.qualifiers)
    if operation is None:
        raise not_modelled(instruction, "this form of mov is not modelled")
    return slots.arithmetic(instruction, operation, instruction.operands)


def _pack(slots: Slots, instruction: Instruction, target: Operand, vector: Vector, bits: int) -> Step:
    type_ = f"b{bits // len(vector.elements)}"
    sources = [slots.source(instruction, o, type_) for o in vector.elements]
    return Step(
        Kind.PACK,
        opcode(instruction),
        where(instruction),
        destinations=(slots.destination(instruction, target, f"b{bits}"),),
        sources=tuple(sources),
        element_bits=bits_of(type_),
        narrow=slots.narrow(sources, (type_,) * len(sources)),
    )


def _unpack(slots: Slots, instruction: Instruction, vector: Vector, value: Operand, bits: int) -> Step:
    type_ = f"b{bits // len(vector.elements)}"
    return Step(
        Kind.UNPACK,
        opcode(instruction),
        where(instruction),
        destinations=tuple(slots.destination(instruction, o, type_) for o in vector.elements),
        sources=(slots.source(instruction, value, f"b{bits}"),),
        element_bits=bits_of(type_),
    )


def _cvta(slots: Slots, instruction: Instruction) -> Step:
    """Generic addresses of global memory are the addresses themselves; other spaces lie in a window."""
    qualifiers = list(instruction.qualifiers)
    spaces = [q for q in qualifiers if q not in ("to", "u32", "u64")]
    target, value = instruction.operands
    if len(spaces) != 1 or spaces[0] not in (*_WINDOWS, "global") or qualifiers[-1] != "u64":
        raise not_modelled(instruction, "this form of cvta is not modelled")
    operation = resolve("sub" if "to" in qualifiers else "add", ("u64",))
    assert operation is not None
    window = Immediate(_WINDOWS.get(spaces[0], 0))
    return slots.arithmetic(instruction, operation, (target, value, window))


_NO_EFFECT_ON_VALUES = ("nanosleep", "pmevent")

DECODERS = {
    "bar": _barrier,
    "barrier": _barrier,
    "bra": _branch,
    "ret": _exit,
    "exit": _exit,
    **dict.fromkeys(("trap", "brkpt", "brx", ASSERT_FAIL), _trap),
    PRINT: _print,
    FRESH: _fresh,
    "mov": _mov,
    "cvta": _cvta,
    **dict.fromkeys(_NO_EFFECT_ON_VALUES, _nothing),
}
