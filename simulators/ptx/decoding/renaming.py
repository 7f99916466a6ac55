"""The operands of one copy of a routine: its own names replaced, everything else left as it stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tileproof.simulators.ptx.text.syntax import (
    Address,
    Arguments,
    Guard,
    Instruction,
    Label,
    Negated,
    Operand,
    Pair,
    Register,
    Scalar,
    Sink,
    Symbol,
    Vector,
)


@dataclass(frozen=True)
class Names:
    """New names of the registers, labels and variables of one copy; what is not in them keeps its name.

    Attributes:
        registers: by unique name.
        symbols: variables and formal parameters, by unique name.
        labels: by unique name.
    """

    registers: Mapping[str, str] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def changes_nothing(self) -> bool:
        """Whether all names stay."""
        return not self.registers and not self.labels and all(name == new for name, new in self.symbols.items())

    def instruction(self, instruction: Instruction) -> Instruction:
        """The instruction with its operands and guard renamed."""
        guard = instruction.guard
        if guard is not None:
            guard = Guard(self.register(guard.register), guard.negated)
        return replace(instruction, operands=tuple(map(self.operand, instruction.operands)), guard=guard)

    def register(self, register: Register) -> Register:
        """A register of the copy."""
        return Register(self.registers.get(register.name, register.name))

    def label(self, name: str) -> str:
        """A label of the copy."""
        return self.labels.get(name, name)

    def operand(self, operand: Operand) -> Operand:
        """Any operand of the copy."""
        match operand:
            case Label(name):
                return Label(self.label(name))
            case Negated(register):
                return Negated(self.register(register))
            case Vector(elements):
                return Vector(tuple(map(self._scalar, elements)))
            case Arguments(elements):
                return Arguments(tuple(map(self._scalar, elements)))
            case Pair(first, second):
                return Pair(self._result(first), self._result(second))
            case Address():
                return self._address(operand)
        return self._scalar(operand)

    def _address(self, address: Address) -> Address:
        base, coordinates = address.base, address.coordinates
        if isinstance(base, Register):
            base = self.register(base)
        elif isinstance(base, Symbol):
            base = self._symbol(base)
        if coordinates is not None:
            coordinates = Vector(tuple(map(self._scalar, coordinates.elements)))
        return replace(address, base=base, coordinates=coordinates)

    def _scalar(self, scalar: Scalar) -> Scalar:
        if isinstance(scalar, Register):
            return self.register(scalar)
        return self._symbol(scalar) if isinstance(scalar, Symbol) else scalar

    def _symbol(self, symbol: Symbol) -> Symbol:
        return Symbol(self.symbols.get(symbol.name, symbol.name), symbol.offset)

    def _result(self, result: Register | Sink) -> Register | Sink:
        return self.register(result) if isinstance(result, Register) else result
