"""Operands to slots: the register file's layout while one kernel is decoded."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tileproof.simulators.ptx.alu.carry import CARRY
from tileproof.simulators.ptx.alu.operation import Operation
from tileproof.simulators.ptx.alu.requirement import Requirement
from tileproof.simulators.ptx.alu.scalar import SCALARS
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.variables import Variables
from tileproof.simulators.ptx.machine.memory import Bits
from tileproof.simulators.ptx.program import NONE, SINK, Kind, Step
from tileproof.simulators.ptx.text.syntax import (
    Address,
    Entry,
    Immediate,
    Instruction,
    Label,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)

_VECTORS = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
SPECIALS = frozenset(f"%{name}.{axis}" for name in _VECTORS for axis in "xyz") | {
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%is_explicit_cluster",
    "%smid",
    "%nsmid",
    "%gridid",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%dynamic_smem_size",
    "%total_smem_size",
    "%aggr_smem_size",
}
_SPECIAL_BITS = {"%is_explicit_cluster": 1, "%gridid": 64}


class Slots:
    """Gives every register, constant and special register of a kernel its slot.

    Attributes:
        entry: the kernel.
        target: the module's, such as "sm_90a".
        bits: width of every slot.
        constants: slot to raw bits.
        specials: slot to the name of a special register.
        shared_symbols: slot to the name of the shared variable, and byte offset in it, whose address it holds.
        globals_used: constant slot to the module variable, and byte offset in it, whose address it holds.
    """

    def __init__(self, entry: Entry, variables: Variables, target: str) -> None:
        self.entry = entry
        self.target = target
        self.bits = [64 if type_ == "b128" else bits_of(type_) for type_ in entry.registers.values()]
        self.constants: dict[int, int] = {}
        self.specials: dict[int, str] = {}
        self.shared_symbols: dict[int, tuple[str, int]] = {}
        self.globals_used: dict[int, tuple[Variable, int]] = {}
        self._variables = variables
        self._registers = {name: slot for slot, name in enumerate(entry.registers)}
        self._upper_halves = {n: self._new_slot(64) for n, type_ in entry.registers.items() if type_ == "b128"}
        self._constant_slots: dict[int, int] = {}
        self._special_slots: dict[str, int] = {}
        self._carry_slot = NONE
        self._shared_slots: dict[tuple[str, int], int] = {}
        self._shared_names = frozenset(v.name for v in (*variables.shared.static, *variables.shared.dynamic))

    def register(self, name: str) -> int:
        """The slot of a register."""
        return self._registers[name]

    @property
    def names(self) -> dict[int, str]:
        """Register names by slot."""
        return {slot: name for name, slot in self._registers.items()}

    def source(self, instruction: Instruction, operand: Operand, type_: str) -> int:
        """The slot of a source operand read as `type_`."""
        match operand:
            case Register(name):
                self._check_width(instruction, name, type_)
                return self._registers[name]
            case Immediate(bits, float_type):
                if float_type is not None and bits_of(float_type) != bits_of(type_):
                    raise not_modelled(instruction, f"an {float_type} immediate as an operand of type {type_}")
                return self.constant(bits & ((1 << bits_of(type_)) - 1), bits_of(type_))
            case Special(name):
                return self._special(instruction, name)
            case Symbol(name, offset):
                return self.symbol(instruction, name, offset)
            case Negated(register):
                raise not_modelled(instruction, f"the negated predicate operand !{register.name} here")
            case _:
                raise not_modelled(instruction, f"an operand of the form {type(operand).__name__} here")

    def predicate(self, instruction: Instruction, operand: Operand) -> tuple[int, bool]:
        """The slot of `p` or `!p`, and whether it is negated."""
        negated = isinstance(operand, Negated)
        return self.source(instruction, operand.register if isinstance(operand, Negated) else operand, "pred"), negated

    def destination(self, instruction: Instruction, operand: Operand, type_: str) -> int:
        """The slot of a result of `type_`, or SINK."""
        if isinstance(operand, Sink):
            return SINK
        if not isinstance(operand, Register):
            raise not_modelled(instruction, f"a result of the form {type(operand).__name__}")
        self._check_width(instruction, operand.name, type_)
        return self._registers[operand.name]

    def sources(self, instruction: Instruction, operand: Operand, type_: str) -> tuple[int, ...]:
        """The slots of a source operand: two of 64 bits, the lower one first, for 128 bits."""
        return self._halves(instruction, operand) if type_ == "b128" else (self.source(instruction, operand, type_),)

    def destinations(self, instruction: Instruction, operand: Operand, type_: str) -> tuple[int, ...]:
        """The slots of a result: two of 64 bits, the lower one first, for 128 bits."""
        if type_ != "b128":
            return (self.destination(instruction, operand, type_),)
        return (SINK, SINK) if isinstance(operand, Sink) else self._halves(instruction, operand)

    def _halves(self, instruction: Instruction, operand: Operand) -> tuple[int, int]:
        if not isinstance(operand, Register) or operand.name not in self._upper_halves:
            raise not_modelled(instruction, "128 bits need a register of type .b128")
        return self._registers[operand.name], self._upper_halves[operand.name]

    def arithmetic(self, instruction: Instruction, operation: Operation, operands: Sequence[Operand]) -> Step:
        """A step that computes `operation`: destinations first, sources after them, as PTX writes them."""
        self.require(instruction, operation.requires)
        results = pair(operands[0])
        shown = [type_ for type_ in operation.sources if type_ != CARRY]
        given = [type_ for type_ in operation.destinations if type_ != CARRY]
        if len(operands) - 1 != len(shown) or not len(given) - operation.optional <= len(results) <= len(given):
            raise not_modelled(instruction, f"{len(operands)} operands do not fit {operation.name}")
        if any(not isinstance(operands[1 + index], Immediate) for index in operation.immediates):
            raise not_modelled(instruction, f"{operation.name} chooses its function by a constant")
        inputs = [operand.register if isinstance(operand, Negated) else operand for operand in operands[1:]]
        negated = [index for index, operand in enumerate(operands[1:]) if isinstance(operand, Negated)]
        sources = [self.source(instruction, o, t) for o, t in zip(inputs, shown, strict=True)]
        results += (Sink(),) * (len(given) - len(results))
        targets = [self.destination(instruction, o, t) for o, t in zip(results, given, strict=True)]
        sources += [self._carry()] * (len(operation.sources) - len(shown))
        targets += [self._carry()] * (len(operation.destinations) - len(given))
        return Step(
            Kind.ARITHMETIC,
            opcode(instruction),
            where(instruction),
            destinations=tuple(targets),
            sources=tuple(sources),
            operation=_with_negated(operation, negated) if negated else operation,
            narrow=self.narrow(sources, operation.sources),
            sign_from=self.sign_from(targets, operation.destinations),
        )

    def require(self, instruction: Instruction, requirement: Requirement) -> None:
        """Refuse an instruction that the module's target does not have."""
        if not requirement.met_by(self.target):
            raise not_modelled(instruction, f"{self.target} does not have it", f"it needs .target {requirement}")

    def _carry(self) -> int:
        """The slot of the carry flag, which nothing has written at first."""
        if self._carry_slot == NONE:
            self._carry_slot = self._new_slot(1)
        return self._carry_slot

    def narrow(self, slots: Sequence[int], types: Sequence[str]) -> tuple[int, ...]:
        """Bits of each operand type where its register is wider, else 0."""
        return tuple(
            bits_of(t) if slot not in self.constants and self.bits[slot] > bits_of(t) else 0
            for slot, t in zip(slots, types, strict=True)
        )

    def sign_from(self, slots: Sequence[int], types: Sequence[str]) -> tuple[int, ...]:
        """Bits to sign-extend from where a signed result goes to a wider register, else 0."""
        return tuple(
            bits_of(t) if slot != SINK and t.startswith("s") and self.bits[slot] > bits_of(t) else 0
            for slot, t in zip(slots, types, strict=True)
        )

    def constant(self, bits: int, width: int = 64) -> int:
        """The slot that holds a constant."""
        slot = self._constant_slots.get(bits)
        if slot is None:
            slot = self._new_slot(width)
            self._constant_slots[bits] = slot
            self.constants[slot] = bits
        return slot

    def is_local(self, base: Operand) -> bool:
        """Whether an address begins at a variable in local memory, as the parameters of calls do."""
        variable = self.entry.variables.get(base.name) if isinstance(base, Symbol) else None
        return variable is not None and variable.space == "local"

    def local_range(self, name: str) -> tuple[int, int]:
        """Address and bytes of a variable in local memory."""
        return self._variables.addresses[name], self.entry.variables[name].size_bytes

    def symbol(self, instruction: Instruction, name: str, offset: int) -> int:
        """The slot that holds a variable's or parameter's address in its own space."""
        variables = self._variables
        for addresses in (variables.addresses, variables.parameters.offsets):
            if name in addresses:
                return self.constant((addresses[name] + offset) & 0xFFFF_FFFF_FFFF_FFFF)
        if name in self._shared_names:
            return self._shared_symbol(name, offset)
        if name not in variables.globals:
            raise not_modelled(instruction, f"the address of {name} is not modelled")
        slot = self._new_slot(64)
        self.constants[slot] = 0
        self.globals_used[slot] = (variables.globals[name], offset)
        return slot

    def address(self, instruction: Instruction, operand: Operand) -> tuple[int, int]:
        """(slot, byte offset) of `[base + offset]`."""
        if not isinstance(operand, Address) or operand.coordinates is not None:
            raise not_modelled(instruction, "an address operand of this form is not modelled")
        match operand.base:
            case Register(name):
                return self._registers[name], operand.offset
            case Symbol(name, offset):
                return self.symbol(instruction, name, offset), operand.offset
            case Immediate(bits):
                return self.constant(bits & 0xFFFF_FFFF_FFFF_FFFF), operand.offset

    def label(self, instruction: Instruction, operand: Operand) -> int:
        """The step index of a label."""
        if not isinstance(operand, Label):
            raise not_modelled(instruction, "its target is not a label")
        return self.entry.labels[operand.name]

    def _check_width(self, instruction: Instruction, register: str, type_: str) -> None:
        have = self.entry.registers[register]
        if have == "b128" or (type_ == "pred") != (have == "pred") or bits_of(have) < bits_of(type_):
            raise not_modelled(instruction, f"register {register} of type .{have} as an operand of type .{type_}")

    def _new_slot(self, width: int) -> int:
        self.bits.append(width)
        return len(self.bits) - 1

    def _shared_symbol(self, name: str, offset: int) -> int:
        """One slot for each address: it differs from block to block of a cluster, so it is no constant."""
        key = (name, offset)
        if key not in self._shared_slots:
            self._shared_slots[key] = self._new_slot(32)
            self.shared_symbols[self._shared_slots[key]] = key
        return self._shared_slots[key]

    def _special(self, instruction: Instruction, name: str) -> int:
        if name == "WARP_SZ":
            return self.constant(32)
        if name not in SPECIALS:
            raise not_modelled(instruction, f"the special register {name} is not modelled")
        if name not in self._special_slots:
            self._special_slots[name] = self._new_slot(_SPECIAL_BITS.get(name, 32))
            self.specials[self._special_slots[name]] = name
        return self._special_slots[name]


def bits_of(type_: str) -> int:
    """Width of a PTX type in bits; 1 for predicates."""
    return SCALARS[type_].bits


def pair(operand: Operand) -> tuple[Operand, ...]:
    """The results that `d` or `p|q` names."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand,)


def elements(operand: Operand) -> tuple[Operand, ...]:
    """The elements of `{a, b}`, or the operand itself."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


def check_count(instruction: Instruction, have: int, want: int) -> None:
    """Refuse another number of operands than belongs there."""
    if have != want:
        raise not_modelled(instruction, f"{have} operands where {want} belong")


def _with_negated(operation: Operation, positions: Sequence[int]) -> Operation:
    """The operation with the predicate operands at `positions` read inverted (`setp.lt.and.s32 p, a, b, !q`)."""

    def inverted(values: Sequence[Bits]) -> list[Bits]:
        return [value ^ np.uint64(1) if index in positions else value for index, value in enumerate(values)]

    compute, undefined = operation.compute, operation.undefined
    return replace(
        operation,
        compute=lambda values: compute(inverted(values)),
        undefined=lambda values, masks: undefined(inverted(values), masks),
        inverted=tuple(positions),
    )
