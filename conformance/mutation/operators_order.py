"""Operators on what orders threads, copies and proxies."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tileproof.conformance.mutation.operator import Change, Group, Operator, dropped, opcode, with_operand
from tileproof.conformance.mutation.operator import with_qualifiers as qualified
from tileproof.conformance.mutation.patch import own_register
from tileproof.simulators.ptx.text.syntax import Immediate, Instruction, Operand, Register

_WAITS = ("cp.async.wait_group", "cp.async.wait_all", "cp.async.bulk.wait_group", "wgmma.wait_group")
_COMMITS = ("cp.async.commit_group", "cp.async.bulk.commit_group", "wgmma.commit_group")
_BARRIERS = ("bar.sync", "bar.arrive", "bar.warp.sync", "barrier.")
_FENCES = ("fence.", "membar.", "wgmma.fence")
_ARRIVES = ("mbarrier.arrive", "mbarrier.complete_tx", "mbarrier.expect_tx", "cp.async.mbarrier.arrive")
_STRONG = {"acquire": "relaxed", "release": "relaxed", "acq_rel": "relaxed", "volatile": ""}
_SCOPES = {"gl": "cta", "sys": "cta", "gpu": "cta", "cluster": "cta"}
_ATOMIC_OPERATIONS = ("add", "min", "max", "and", "or", "xor")


def _dropping(*beginnings: str) -> Callable[[Instruction], Iterator[Change]]:
    def changes(instruction: Instruction) -> Iterator[Change]:
        if opcode(instruction).startswith(beginnings):
            yield dropped()

    return changes


def _wait_for_less(instruction: Instruction) -> Iterator[Change]:
    """One more group may be on its way."""
    if opcode(instruction).startswith(_WAITS) and instruction.operands:
        count = instruction.operands[0]
        assert isinstance(count, Immediate)
        yield with_operand(instruction, 0, Immediate(count.bits + 1), f"{count.bits}>{count.bits + 1}")


def _count(instruction: Instruction) -> Iterator[Change]:
    """One arrival, one warp or 16 bytes more or fewer."""
    step = {"mbarrier.init": 1, "mbarrier.arrive.expect_tx": 16, "bar.sync": 32, "bar.arrive": 32}
    for beginning, by in step.items():
        at = 1 if beginning.startswith("bar.") else len(instruction.operands) - 1
        if opcode(instruction).startswith(beginning) and 0 < at < len(instruction.operands):
            for signed in (by, -by):
                yield from _moved(instruction, at, signed)


def _moved(instruction: Instruction, at: int, by: int) -> Iterator[Change]:
    operand = instruction.operands[at]
    if isinstance(operand, Immediate):
        if operand.bits + by >= 0:
            yield with_operand(instruction, at, Immediate(operand.bits + by), f"{by:+}")
    elif isinstance(operand, Register):
        yield _through_own(instruction, at, "add", "s32", Immediate(by), f"{by:+}")


def _through_own(instruction: Instruction, at: int, mnemonic: str, kind: str, by: Operand, detail: str) -> Change:
    """An operand that an instruction before it has changed, in a register of the patch's own."""
    name, declared = own_register("b32")
    made = replace(
        instruction,
        mnemonic=mnemonic,
        qualifiers=(kind,),
        operands=(Register(name), instruction.operands[at], by),
        guard=None,
    )
    (changed,) = with_operand(instruction, at, Register(name), detail).instructions
    return Change(detail, (made, changed), declared)


def _parity(instruction: Instruction) -> Iterator[Change]:
    """Waits for the other phase."""
    if instruction.mnemonic != "mbarrier" or "parity" not in instruction.qualifiers:
        return
    operand = instruction.operands[2]
    if isinstance(operand, Immediate):
        yield with_operand(instruction, 2, Immediate(operand.bits ^ 1), "other")
    else:
        yield _through_own(instruction, 2, "xor", "b32", Immediate(1), "other")


def _scope(instruction: Instruction) -> Iterator[Change]:
    """The block only."""
    for old, new in _SCOPES.items():
        if instruction.mnemonic != "mbarrier" and old in instruction.qualifiers:
            if "proxy" in instruction.qualifiers or "mbarrier_init" in instruction.qualifiers:
                continue
            yield qualified(instruction, old, new)
    if instruction.mnemonic in ("atom", "red") and not {*_SCOPES, "cta"} & {*instruction.qualifiers}:
        yield Change("cta", (replace(instruction, qualifiers=("relaxed", "cta", *instruction.qualifiers)),))


def _semantics(instruction: Instruction) -> Iterator[Change]:
    """Relaxed, or no longer volatile."""
    if instruction.mnemonic in ("ld", "st", "atom", "red", "mbarrier"):
        for old in _STRONG.keys() & {*instruction.qualifiers}:
            if instruction.mnemonic != "mbarrier":
                yield qualified(instruction, old, _STRONG[old])


def _proxy(instruction: Instruction) -> Iterator[Change]:
    """The other state space."""
    if "proxy" in instruction.qualifiers and "async" in instruction.qualifiers:
        for old, new in {"shared::cta": "global", "shared::cluster": "global", "global": "shared::cta"}.items():
            if old in instruction.qualifiers:
                yield qualified(instruction, old, new)


def _group(instruction: Instruction) -> Iterator[Change]:
    """Waits until sources were read only, not until destinations are written."""
    if opcode(instruction) == "cp.async.bulk.wait_group":
        yield Change("read", (replace(instruction, qualifiers=(*instruction.qualifiers, "read")),))


def _plain(instruction: Instruction) -> Iterator[Change]:
    """Load, compute and store, where one atomic did it."""
    known = [name for name in (*_ATOMIC_OPERATIONS, "exch") if name in instruction.qualifiers]
    if instruction.mnemonic not in ("atom", "red") or not known or instruction.qualifiers[-1] == "b64":
        return
    kind = instruction.qualifiers[-1]
    space = tuple(word for word in instruction.qualifiers if word in ("global", "shared"))
    result, (address, value) = instruction.operands[:-2], instruction.operands[-2:]
    name, registers = own_register("b64" if kind.endswith("64") else "b32")
    register = result[0] if result else Register(name)
    load = replace(instruction, mnemonic="ld", qualifiers=(*space, kind), operands=(register, address))
    store = replace(instruction, mnemonic="st", qualifiers=(*space, kind), operands=(address, value))
    if known[0] == "exch":
        yield Change("", (load, store), {} if result else registers)
        return
    made = replace(
        instruction,
        mnemonic=known[0],
        qualifiers=(_arithmetic(known[0], kind),),
        operands=(Register(name), register, value),
    )
    yield Change("", (load, made, replace(store, operands=(address, Register(name)))), registers)


def _arithmetic(operation: str, kind: str) -> str:
    return f"b{kind[1:]}" if operation in ("and", "or", "xor") else kind


OPERATORS = (
    Operator("drop-barrier", Group.ORDER, _dropping(*_BARRIERS)),
    Operator("drop-fence", Group.ORDER, _dropping(*_FENCES)),
    Operator("drop-wait", Group.ORDER, _dropping(*_WAITS)),
    Operator("drop-commit", Group.ORDER, _dropping(*_COMMITS)),
    Operator("drop-arrive", Group.ORDER, _dropping(*_ARRIVES)),
    Operator("wait-for-less", Group.ORDER, _wait_for_less),
    Operator("count", Group.ORDER, _count),
    Operator("parity", Group.ORDER, _parity),
    Operator("scope", Group.ORDER, _scope),
    Operator("semantics", Group.ORDER, _semantics),
    Operator("proxy", Group.ORDER, _proxy),
    Operator("group", Group.ORDER, _group),
    Operator("plain-atomic", Group.ORDER, _plain),
)
