"""Decoding of `mbarrier` and `cp.async.mbarrier.arrive`. Qualifiers stand in any order."""

from collections.abc import Collection

from tileproof.simulators.ptx.async_form import MbarrierAction, MbarrierForm, Place
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.slots import Slots, check_count
from tileproof.simulators.ptx.program import NONE, Access, Kind, Scope, StateSpace, Step
from tileproof.simulators.ptx.text.syntax import Instruction, Operand, Sink

OBJECT_BYTES = 8  # PTX ISA, "Size and alignment of mbarrier object"
SHARED_SPACES = {
    "shared": StateSpace.SHARED,
    "shared::cta": StateSpace.SHARED,
    "shared::cluster": StateSpace.CLUSTER,
}
_SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER}
_ORDERED = {"release": True, "acquire": True, "relaxed": False}
_LAYOUTS = ("layout::v0",)


def mbarrier(slots: Slots, instruction: Instruction) -> Step:
    """`mbarrier.*`.

    Raises:
        NotModelled: another layout, a report, or a form that there is not.
    """
    action, *words = instruction.qualifiers
    decoder = _ACTIONS.get(action)
    if decoder is None:
        raise not_modelled(instruction, f"mbarrier has no .{action} here")
    return decoder(slots, instruction, words)


def copies_arrive(slots: Slots, instruction: Instruction) -> Step:
    """`cp.async.mbarrier.arrive{.noinc}`."""
    words = [word for word in instruction.qualifiers if word not in ("async", "mbarrier", "arrive")]
    check_count(instruction, len(instruction.operands), 1)
    place = _object(slots, instruction, words, instruction.operands[0], known=("noinc",))
    form = MbarrierForm(MbarrierAction.COPIES_ARRIVE, place, no_increment="noinc" in words)
    return _step(instruction, form, (place.slot,))


def _init(slots: Slots, instruction: Instruction, words: list[str]) -> Step:
    check_count(instruction, len(instruction.operands), 2)
    place = _object(slots, instruction, words, instruction.operands[0], known=_LAYOUTS)
    count = slots.source(instruction, instruction.operands[1], "u32")
    return _step(instruction, MbarrierForm(MbarrierAction.INIT, place, count=count), (place.slot, count))


def _invalidate(slots: Slots, instruction: Instruction, words: list[str]) -> Step:
    check_count(instruction, len(instruction.operands), 1)
    place = _object(slots, instruction, words, instruction.operands[0])
    return _step(instruction, MbarrierForm(MbarrierAction.INVALIDATE, place), (place.slot,))


def _transactions(slots: Slots, instruction: Instruction, words: list[str]) -> Step:
    check_count(instruction, len(instruction.operands), 2)
    place = _object(slots, instruction, words, instruction.operands[0], known=("relaxed", *_SCOPES), remote=True)
    count = slots.source(instruction, instruction.operands[1], "u32")
    form = MbarrierForm(MbarrierAction(instruction.qualifiers[0]), place, bytes=count)
    return _step(instruction, form, (place.slot, count))


def _arrive(slots: Slots, instruction: Instruction, words: list[str]) -> Step:
    known = ("release", "relaxed", *_SCOPES, "expect_tx", "noComplete")
    state, address, *rest = instruction.operands
    expects, no_complete = "expect_tx" in words, "noComplete" in words
    if len(rest) > 1 or ((expects or no_complete) and not rest):
        raise not_modelled(instruction, f"{len(instruction.operands)} operands do not fit")
    place = _object(slots, instruction, words, address, known=known, remote=True)
    if place.space is StateSpace.CLUSTER and not isinstance(state, Sink):
        raise not_modelled(instruction, "an arrive on another block's mbarrier returns no state", "write _")
    operand = slots.source(instruction, rest[0], "u32") if rest else NONE
    form = MbarrierForm(
        MbarrierAction.ARRIVE,
        place,
        count=NONE if expects else operand,
        bytes=operand if expects else NONE,
        drops=instruction.qualifiers[0] == "arrive_drop",
        no_complete=no_complete,
        orders=_orders(words),
        scope=_scope(words),
    )
    target = slots.destination(instruction, state, "b64")
    return _step(instruction, form, (place.slot, *([operand] if rest else [])), (target,))


def _wait(slots: Slots, instruction: Instruction, words: list[str]) -> Step:
    may_fail = instruction.qualifiers[0] == "try_wait"
    complete, address, phase, *hint = instruction.operands
    if len(hint) > int(may_fail):
        raise not_modelled(instruction, f"{len(instruction.operands)} operands do not fit")
    parity = "parity" in words
    place = _object(slots, instruction, words, address, known=("acquire", "relaxed", *_SCOPES, "parity"))
    operand = slots.source(instruction, phase, "u32" if parity else "b64")
    for time in hint:
        slots.source(instruction, time, "u32")
    form = MbarrierForm(
        MbarrierAction.WAIT,
        place,
        phase=operand,
        parity=parity,
        may_fail=may_fail,
        orders=_orders(words),
        scope=_scope(words),
    )
    return _step(instruction, form, (place.slot, operand), (slots.destination(instruction, complete, "pred"),))


def _pending_count(slots: Slots, instruction: Instruction, words: list[str]) -> Step:
    check_count(instruction, len(instruction.operands), 2)
    if words != ["b64"]:
        raise not_modelled(instruction, "this form is not modelled")
    state = slots.source(instruction, instruction.operands[1], "b64")
    target = slots.destination(instruction, instruction.operands[0], "u32")
    return _step(instruction, MbarrierForm(MbarrierAction.PENDING_COUNT, None, phase=state), (state,), (target,))


def _object(
    slots: Slots,
    instruction: Instruction,
    words: list[str],
    operand: Operand,
    *,
    known: Collection[str] = (),
    remote: bool = False,
) -> Place:
    """Where the object lies; refuses qualifiers other than its space, `.b64` and the known ones."""
    spaces = [SHARED_SPACES[word] for word in words if word in SHARED_SPACES]
    if unknown := [word for word in words if word not in (*SHARED_SPACES, *known, "b64")]:
        raise not_modelled(instruction, f"the qualifier .{unknown[0]} is not modelled")
    space = spaces[0] if spaces else StateSpace.GENERIC
    if space is StateSpace.CLUSTER and not remote:
        raise not_modelled(instruction, "it takes no mbarrier of another block")
    return Place(*slots.address(instruction, operand), space)


def _orders(words: list[str]) -> bool:
    """Release of an arrive and acquire of a wait are the default."""
    return next((_ORDERED[word] for word in words if word in _ORDERED), True)


def _scope(words: list[str]) -> Scope:
    return next((_SCOPES[word] for word in words if word in _SCOPES), Scope.CTA)


def _step(
    instruction: Instruction, form: MbarrierForm, sources: tuple[int, ...], destinations: tuple[int, ...] = ()
) -> Step:
    space = form.object.space if form.object else None
    return Step(
        Kind.MBARRIER,
        opcode(instruction),
        where(instruction),
        destinations=destinations,
        sources=sources,
        access=Access(space, OBJECT_BYTES, 0, True, False, False) if space else None,
        asynchronous=form,
    )


_ACTIONS = {
    "init": _init,
    "inval": _invalidate,
    "expect_tx": _transactions,
    "complete_tx": _transactions,
    "arrive": _arrive,
    "arrive_drop": _arrive,
    "test_wait": _wait,
    "try_wait": _wait,
    "pending_count": _pending_count,
}
