"""Decoding of asynchronous copies: `cp.async`, `cp.async.bulk`, `cp.reduce.async.bulk`, `st.async`, `red.async`.

Tensor copies, `cp.async.bulk.tensor` and its like, are in `decode_tensor`.
"""

from collections.abc import Collection, Sequence

from tileproof.simulators.ptx.alu.operation import Operation, resolve
from tileproof.simulators.ptx.async_form import BulkForm, CopyForm, GroupAction, GroupForm, Place, StoreForm
from tileproof.simulators.ptx.decoding import decode_tensor
from tileproof.simulators.ptx.decoding.decode_mbarrier import SHARED_SPACES, copies_arrive, mbarrier
from tileproof.simulators.ptx.decoding.decode_memory import WRAPPING_OPERATIONS
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.slots import Slots, check_count, elements
from tileproof.simulators.ptx.program import NONE, Access, Kind, StateSpace, Step
from tileproof.simulators.ptx.text.syntax import TYPE_BYTES, Immediate, Instruction, Negated, Operand, Register

BULK_BYTES = 16  # PTX ISA, "cp.async.bulk": addresses and size are multiples of 16
_COMPLETES = "mbarrier::complete_tx::bytes"
_CACHE_HINT = "L2::cache_hint"
_PREFETCH_SIZES = ("L2::64B", "L2::128B", "L2::256B")
_COPY_BYTES = {"ca": (4, 8, 16), "cg": (16,)}
_SPACES = {**SHARED_SPACES, "global": StateSpace.GLOBAL}
# What the copies reduce with, by the space of the target (PTX ISA, "cp.reduce.async.bulk", "red.async").
_SHARED_REDUCTIONS = {
    "add": ("u32", "s32", "u64"),
    **dict.fromkeys(("min", "max"), ("u32", "s32")),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("and", "or", "xor"), ("b32",)),
}
_GLOBAL_REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64", "f16", "bf16")),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
}
# How a bulk copy from one space to another says that it is complete.
_MECHANISMS = {
    ("shared::cta", "global"): _COMPLETES,
    ("shared::cluster", "global"): _COMPLETES,
    ("shared::cluster", "shared::cta"): _COMPLETES,
    ("global", "shared::cta"): "bulk_group",
}
_HALF_TYPES = ("f16", "bf16")
_STORE_TYPES = ("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64")
_VECTORS = {"v2": 2, "v4": 4}
_MOST_GROUPS = 1 << 30


def _copy(slots: Slots, instruction: Instruction) -> Step:
    """`cp.async.*`."""
    match instruction.qualifiers[1:]:
        case ("ca" | "cg", *_):
            return _small_copy(slots, instruction)
        case ("commit_group" | "wait_group" | "wait_all", *words):
            return _group(instruction, words, bulk=False)
        case ("mbarrier", "arrive", *_):
            return copies_arrive(slots, instruction)
        case ("bulk", "commit_group" | "wait_group", *words):
            return _group(instruction, words, bulk=True)
        case ("bulk", "tensor", *_):
            return decode_tensor.tensor(slots, instruction)
        case ("bulk", "prefetch", "tensor", *_):
            return decode_tensor.prefetch(slots, instruction)
        case ("bulk", "prefetch", "L2", "global", *words) if set(words) <= {_CACHE_HINT}:
            return Step(Kind.NOTHING, opcode(instruction), where(instruction))
        case ("bulk", "shared" | "shared::cta" | "shared::cluster" | "global", *words):
            return _bulk(slots, instruction, words)
    raise not_modelled(instruction, "this form is not modelled")


def _small_copy(slots: Slots, instruction: Instruction) -> Step:
    """`cp.async.{ca,cg}.shared.global [target], [source], bytes {, source bytes or ignore} {, policy}`."""
    level, *words = instruction.qualifiers[1:]
    hinted = _CACHE_HINT in words
    spaces = [word for word in words if word != _CACHE_HINT and word not in _PREFETCH_SIZES]
    if spaces not in (["shared", "global"], ["shared::cta", "global"]):
        raise not_modelled(instruction, "this form is not modelled")
    target, source, size, *rest = instruction.operands
    rest = _without_policy(slots, instruction, rest, hinted)
    if not isinstance(size, Immediate) or size.bits not in _COPY_BYTES[level]:
        legal = " or ".join(map(str, _COPY_BYTES[level]))
        raise not_modelled(instruction, f"cp.async.{level} copies {legal} bytes")
    place, origin = _place(slots, instruction, target, "shared"), _place(slots, instruction, source, "global")
    source_bytes = ignore = NONE
    negated = False
    for operand in rest:
        if isinstance(operand, Negated) or (isinstance(operand, Register) and _is_predicate(slots, operand)):
            ignore, negated = slots.predicate(instruction, operand)
        else:
            source_bytes = slots.source(instruction, operand, "u32")
    extra = tuple(slot for slot in (source_bytes, ignore) if slot != NONE)
    return Step(
        Kind.COPY,
        opcode(instruction),
        where(instruction),
        sources=(place.slot, origin.slot, *extra),
        access=Access(place.space, size.bits, place.offset, False, False, False),
        asynchronous=CopyForm(place, origin, size.bits, source_bytes, ignore, negated),
    )


def pending_groups(instruction: Instruction, operand: Operand) -> int:
    """How many groups a wait leaves in flight: an immediate, of which more than there can be is as good as all."""
    if not isinstance(operand, Immediate) or operand.float_type is not None or operand.bits < 0:
        raise not_modelled(instruction, "the number of groups must be an immediate that is not negative")
    return min(operand.bits, _MOST_GROUPS)


def _group(instruction: Instruction, words: Sequence[str], *, bulk: bool) -> Step:
    action = GroupAction(instruction.qualifiers[2 if bulk else 1])
    reads_only = bulk and action is GroupAction.WAIT and list(words) == ["read"]
    if words and not reads_only:
        raise not_modelled(instruction, "this form is not modelled")
    check_count(instruction, len(instruction.operands), int(action is GroupAction.WAIT))
    most = 0
    for operand in instruction.operands:
        most = pending_groups(instruction, operand)
    form = GroupForm(action, bulk, most, reads_only)
    return Step(Kind.COPY_GROUP, opcode(instruction), where(instruction), asynchronous=form)


def _bulk(slots: Slots, instruction: Instruction, words: Sequence[str]) -> Step:
    """`cp.async.bulk.TARGET.SOURCE.MECHANISM...`; `words` are the qualifiers behind the target."""
    form = _bulk_form(slots, instruction, instruction.qualifiers[2], words, None, 1)
    return _bulk_step(instruction, form)


def _reduce(slots: Slots, instruction: Instruction) -> Step:
    """`cp.reduce.async.bulk.TARGET.SOURCE.MECHANISM....OPERATION.TYPE`."""
    if instruction.qualifiers[3:4] == ("tensor",):
        return decode_tensor.reduce(slots, instruction)
    if instruction.qualifiers[:3] != ("reduce", "async", "bulk") or len(instruction.qualifiers) < 7:
        raise not_modelled(instruction, "this form is not modelled")
    space, *words = instruction.qualifiers[3:]
    rules = _GLOBAL_REDUCTIONS if space == "global" else _SHARED_REDUCTIONS
    name, type_, rest = _reduction(instruction, words, rules)
    if (type_ in _HALF_TYPES and name == "add") != ("noftz" in rest):
        raise not_modelled(instruction, ".add of .f16 and .bf16, and only that, needs .noftz")
    rest = [word for word in rest if word != "noftz"]
    form = _bulk_form(slots, instruction, space, rest, _operation(name, type_), TYPE_BYTES.get(type_, 2))
    return _bulk_step(instruction, form)


def _bulk_form(
    slots: Slots,
    instruction: Instruction,
    space: str,
    words: Sequence[str],
    operation: Operation | None,
    element_bytes: int,
) -> BulkForm:
    origin, mechanism, *flags = words
    if _MECHANISMS.get((space, origin)) != mechanism or (operation is not None and origin == "global"):
        raise not_modelled(instruction, f"a copy from .{origin} to .{space} with .{mechanism} is not modelled")
    allowed = {_CACHE_HINT} | ({"multicast::cluster"} if origin == "global" and space == "shared::cluster" else set())
    if space == "global" and operation is None:
        allowed.add("cp_mask")
    if unknown := [flag for flag in flags if flag not in allowed]:
        raise not_modelled(instruction, f"the qualifier .{unknown[0]} is not modelled")
    operands = _without_policy(slots, instruction, list(instruction.operands), _CACHE_HINT in flags)
    with_barrier = mechanism == _COMPLETES
    check_count(instruction, len(operands), 3 + with_barrier + ("multicast::cluster" in flags) + ("cp_mask" in flags))
    target, source, size, *rest = operands
    return BulkForm(
        _place(slots, instruction, target, space),
        _place(slots, instruction, source, origin),
        slots.source(instruction, size, "u32"),
        _place(slots, instruction, rest.pop(0), space) if with_barrier else None,
        slots.source(instruction, rest[0], "u16") if "multicast::cluster" in flags else NONE,
        operation,
        element_bytes,
        slots.source(instruction, rest[0], "u16") if "cp_mask" in flags else NONE,
    )


def _bulk_step(instruction: Instruction, form: BulkForm) -> Step:
    barrier = (form.barrier.slot,) if form.barrier else ()
    extra = tuple(slot for slot in (form.blocks, form.byte_mask) if slot != NONE)
    granule = form.element_bytes if form.operation else 1 if form.byte_mask != NONE else BULK_BYTES
    space = form.source.space if form.target.space is StateSpace.GLOBAL else form.target.space
    return Step(
        Kind.BULK,
        opcode(instruction),
        where(instruction),
        sources=(form.target.slot, form.source.slot, form.nbytes, *barrier, *extra),
        access=Access(space, granule, 0, False, False, False),
        asynchronous=form,
    )


def _store(slots: Slots, instruction: Instruction) -> Step:
    """`st.async{.weak}{.shared::cluster}.mbarrier::complete_tx::bytes{.v2,.v4}.TYPE [a], b, [mbarrier]`."""
    _check_words(instruction, ("async", "weak", "shared::cluster", _COMPLETES, *_VECTORS, *_STORE_TYPES))
    types = [word for word in instruction.qualifiers if word in _STORE_TYPES]
    count = next((_VECTORS[word] for word in instruction.qualifiers if word in _VECTORS), 1)
    if len(types) != 1 or _COMPLETES not in instruction.qualifiers or count * TYPE_BYTES[types[0]] > 16:
        raise not_modelled(instruction, "this form is not modelled")
    return _async_store(slots, instruction, types[0], count, None)


def _red(slots: Slots, instruction: Instruction) -> Step:
    """`red.async{.relaxed}{.cluster}{.shared::cluster}.mbarrier::complete_tx::bytes.OPERATION.TYPE`."""
    name, type_, rest = _reduction(instruction, instruction.qualifiers[1:], _SHARED_REDUCTIONS)
    if set(rest) - {"relaxed", "cluster", "shared::cluster", _COMPLETES} or _COMPLETES not in rest:
        raise not_modelled(instruction, "this form is not modelled")
    return _async_store(slots, instruction, type_, 1, _operation(name, type_))


def _async_store(slots: Slots, instruction: Instruction, type_: str, count: int, operation: Operation | None) -> Step:
    check_count(instruction, len(instruction.operands), 3)
    target, value, barrier = instruction.operands
    values = elements(value)
    check_count(instruction, len(values), count)
    place, signal = (_place(slots, instruction, operand, "shared::cluster") for operand in (target, barrier))
    sources = tuple(slots.source(instruction, each, type_) for each in values)
    size = TYPE_BYTES[type_]
    return Step(
        Kind.ASYNC_STORE,
        opcode(instruction),
        where(instruction),
        sources=(place.slot, *sources, signal.slot),
        access=Access(place.space, size, place.offset, operation is not None, False, False),
        asynchronous=StoreForm(place, signal, sources, size, operation),
    )


def _reduction(
    instruction: Instruction, words: Sequence[str], rules: dict[str, tuple[str, ...]]
) -> tuple[str, str, list[str]]:
    """Operation, type, and the other qualifiers."""
    names = [word for word in words if word in rules]
    if len(names) != 1 or words[-1] not in rules[names[0]]:
        raise not_modelled(instruction, "this reduction is not modelled")
    return names[0], words[-1], [word for word in words[:-1] if word != names[0]]


def _operation(name: str, type_: str) -> Operation:
    if name in WRAPPING_OPERATIONS:
        return WRAPPING_OPERATIONS[name]
    # The reduction of f32 flushes subnormal inputs and results to sign-preserving zero (PTX ISA,
    # "cp.reduce.async.bulk").
    found = resolve(name, ("ftz", type_) if type_ == "f32" else (type_,))
    assert found is not None
    return found


def _check_words(instruction: Instruction, known: Collection[str]) -> None:
    if unknown := [word for word in instruction.qualifiers if word not in known]:
        raise not_modelled(instruction, f"the qualifier .{unknown[0]} is not modelled")


def _without_policy(slots: Slots, instruction: Instruction, operands: list[Operand], hinted: bool) -> list[Operand]:
    """The operands without the cache policy that a hint brings: it changes no value."""
    if hinted and operands:
        slots.source(instruction, operands.pop(), "b64")
    return operands


def _place(slots: Slots, instruction: Instruction, operand: Operand, space: str) -> Place:
    return Place(*slots.address(instruction, operand), _SPACES[space])


def _is_predicate(slots: Slots, register: Register) -> bool:
    return slots.entry.registers[register.name] == "pred"


DECODERS = {
    "mbarrier": mbarrier,
    "cp.async": _copy,
    "cp.reduce": _reduce,
    "st.async": _store,
    "red.async": _red,
}
