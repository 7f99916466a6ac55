"""What a kernel's PTX says of its parameters: which are addresses, what is read and written behind each, and how wide.

Addresses are followed from `ld.param` through `mov`, `cvta`, `add`, `sub`, `selp` and the addend of `mad`; nobody
multiplies an address, so other operations end the trail. Example: `ld.param.u64 %rd1, [p0]; cvta.to.global.u64 %rd2,
%rd1; add.s64 %rd3, %rd2, %rd9; st.global.f32 [%rd3], %f1` says that parameter 0 is written as f32.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tileproof.simulators.ptx.text.syntax import Address, Entry, Instruction, Parameter, Register, Symbol, Vector

_CARRIES = frozenset({"mov", "cvta", "add", "sub", "selp"})
_READS = frozenset({"ld", "ldu", "atom"})
_WRITES = frozenset({"st", "atom", "red"})
_TYPES = {"f16x2": "f16", "bf16x2": "bf16", "b8": "u8", "b16": "u16", "b32": "u32", "b64": "u64", "b128": "u64"}
_KNOWN = ("f32", "f16", "bf16", "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
_MAX_ROUNDS = 8


@dataclass
class ParameterUse:
    """How a kernel uses one parameter.

    Args:
        parameter: as declared.
        is_address: whether memory is reached through it.
        reads: whether that memory is read.
        writes: whether it is written.
        types: element types of the accesses, as pages write them.
    """

    parameter: Parameter
    is_address: bool = False
    reads: bool = False
    writes: bool = False
    types: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class KernelUse:
    """What a kernel's PTX tells of its launch.

    Args:
        parameters: in order.
        block: threads that it declares, by `.reqntid` or `.maxntid`; None where it says nothing.
        rows_by_y: it asks for its block's place along y.
        global_index: it asks for the block's width, as kernels with a thread for each element do.
    """

    parameters: tuple[ParameterUse, ...]
    block: tuple[int, ...] | None
    rows_by_y: bool
    global_index: bool


def kernel_use(entry: Entry) -> KernelUse:
    """Read a kernel."""
    uses = {one.name: ParameterUse(one) for one in entry.parameters}
    carried: dict[str, frozenset[str]] = {}
    for _ in range(_MAX_ROUNDS):
        before = dict(carried)
        for instruction in entry.instructions:
            _follow(instruction, uses, carried)
        if carried == before:
            break
    for instruction in entry.instructions:
        _access(instruction, uses, carried)
    names = {name for one in entry.instructions for name in _special_names(one)}
    block = entry.directives.get("reqntid") or entry.directives.get("maxntid")
    return KernelUse(tuple(uses.values()), block, "%ctaid.y" in names, "%ntid.x" in names)


def _follow(instruction: Instruction, uses: Mapping[str, ParameterUse], carried: dict[str, frozenset[str]]) -> None:
    """Pass addresses on from an instruction's sources to its result."""
    operands = instruction.operands
    if not operands or not isinstance(operands[0], Register):
        return
    sources: Iterable[object] = operands[1:]
    if instruction.mnemonic == "ld" and "param" in instruction.qualifiers:
        found = _parameter(operands[1], uses)
    elif instruction.mnemonic in _CARRIES or instruction.mnemonic == "mad":
        taken = list(sources)[-1:] if instruction.mnemonic == "mad" else sources
        found = frozenset[str]().union(
            *(carried.get(one.name, frozenset()) for one in taken if isinstance(one, Register))
        )
    else:
        return
    if found:
        carried[operands[0].name] = carried.get(operands[0].name, frozenset()) | found


def _parameter(operand: object, uses: Mapping[str, ParameterUse]) -> frozenset[str]:
    """The parameter of eight bytes that an operand of `ld.param` names."""
    if isinstance(operand, Address) and isinstance(operand.base, Symbol) and operand.base.name in uses:
        name = operand.base.name
        return frozenset({name}) if uses[name].parameter.size_bytes == 8 else frozenset()
    return frozenset()


def _access(instruction: Instruction, uses: Mapping[str, ParameterUse], carried: Mapping[str, frozenset[str]]) -> None:
    if "param" in instruction.qualifiers or "shared" in instruction.qualifiers:
        return
    is_copy = instruction.mnemonic == "cp"
    if not is_copy and instruction.mnemonic not in _READS | _WRITES:
        return
    addresses = [one for one in instruction.operands if isinstance(one, Address)]
    for address in addresses:
        base = address.base
        for name in carried.get(base.name, frozenset()) if isinstance(base, Register) else ():
            use = uses[name]
            use.is_address = True
            use.reads |= is_copy or instruction.mnemonic in _READS
            use.writes |= instruction.mnemonic in _WRITES
            kind = instruction.qualifiers[-1] if instruction.qualifiers else ""
            kind = _TYPES.get(kind, kind)
            if kind in _KNOWN and not is_copy:
                use.types.add(kind)


def _special_names(instruction: Instruction) -> Iterable[str]:
    for operand in instruction.operands:
        for one in operand.elements if isinstance(operand, Vector) else (operand,):
            name = getattr(one, "name", "")
            if isinstance(name, str) and name.startswith("%"):
                yield name
