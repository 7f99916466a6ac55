"""Pairs of a multiplication and an addition that the assembler may fuse.

`mul`, `add` and `sub` of floats without a rounding mode round to nearest even, but "may be optimized aggressively by
the code optimizer. In particular, mul/add sequences with no rounding modifiers may be optimized to use
fused-multiply-add instructions" (PTX ISA, "add", "sub", "mul"). So a kernel with such a pair has two legal results. The
device runs them unfused, or all of them fused; where both operands of an addition are products, the first or the last
one is. Which of its pairs an assembler fuses, it decides one by one: the two ways are the ends of that.

A pair is a product whose register the addition reads directly. It reaches it within a block, or each of the registers
that take part has one definition, as compilers write. What reaches through `mov` or `neg` is not found, nor a product
that overwrites its own factor (`mul x, x, a`).
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.text.syntax import Entry, Instruction, Operand, Pair, Register, Vector


class Contraction(StrEnum):
    """What becomes of the pairs: nothing; all are fused, the first or the last operand where both are products."""

    NONE = "none"
    FIRST = "first"
    LAST = "last"

    @classmethod
    def parse(cls, name: str) -> "Contraction":
        """Raises Refusal for an unknown name."""
        try:
            return cls(name)
        except ValueError:
            raise Refusal(f"unknown contraction {name!r}", hint=f"one of: {', '.join(cls)}") from None


_TYPES = frozenset({"f32", "f64", "f16", "f16x2", "bf16", "bf16x2", "f32x2"})
_ROUNDINGS = frozenset({"rn", "rz", "rm", "rp"})
_ENDS = frozenset({"bra", "brx", "ret", "exit", "trap"})


@dataclass(frozen=True)
class Fusible:
    """A pair.

    Attributes:
        product: index of the `mul`.
        place: which operand of the sum it is, 1 or 2.
    """

    product: int
    place: int


def pairs(entry: Entry) -> dict[int, list[Fusible]]:
    """For each `add` and `sub` that may be fused, by its index, with what: one product, or two."""
    found: dict[int, list[Fusible]] = {}
    reach = _Reach(entry)
    for index, instruction in enumerate(entry.instructions):
        if _plain(instruction, ("add", "sub"), ("ftz", "sat")):
            fusible = [each for place in (1, 2) if (each := reach.product(index, place)) is not None]
            if fusible:
                found[index] = fusible
    return found


def contract(entry: Entry, how: Contraction) -> Entry:
    """The kernel with its pairs fused; the products stay for whoever else reads them."""
    fusible = pairs(entry) if how is not Contraction.NONE else {}
    if not fusible:
        return entry
    registers = dict(entry.registers)
    instructions: list[Instruction] = []
    starts: list[int] = []
    for index, instruction in enumerate(entry.instructions):
        starts.append(len(instructions))
        if index in fusible:
            chosen = fusible[index][0 if how is Contraction.FIRST else -1]
            spare = f"contracted@{index}"
            fused = list(_fused(instruction, entry.instructions[chosen.product], chosen.place, spare))
            if len(fused) > 1:
                registers[spare] = _kind(instruction)
            instructions += fused
        else:
            instructions.append(instruction)
    starts.append(len(instructions))
    labels = {name: starts[index] for name, index in entry.labels.items()}
    return replace(entry, instructions=tuple(instructions), labels=labels, registers=registers)


def _kind(instruction: Instruction) -> str:
    return instruction.qualifiers[-1]


def _plain(instruction: Instruction, names: tuple[str, ...], flags: tuple[str, ...]) -> bool:
    """Whether it is such an operation on one type of float, without a rounding mode."""
    words = instruction.qualifiers
    if instruction.mnemonic not in names or not words or words[-1] not in _TYPES:
        return False
    return set(words[:-1]) <= set(flags) and not _ROUNDINGS & set(words)


def _fused(total: Instruction, product: Instruction, place: int, spare: str) -> Iterator[Instruction]:
    """`fma.rn`, behind a `neg` of what a `sub` takes away."""
    target, first, second = total.operands
    x, y = product.operands[1:]
    other = second if place == 1 else first
    flags = tuple(word for word in total.qualifiers[:-1] if word == "ftz")
    if total.mnemonic == "sub":
        negated = other if place == 1 else x
        yield replace(total, mnemonic="neg", qualifiers=(*flags, _kind(total)), operands=(Register(spare), negated))
        x, other = (x, Register(spare)) if place == 1 else (Register(spare), other)
    words = ("rn", *(word for word in total.qualifiers[:-1]), _kind(total))
    yield replace(total, mnemonic="fma", qualifiers=words, operands=(target, x, y, other))


class _Reach:
    """Which definition of a register reaches an instruction, where that is beyond doubt."""

    def __init__(self, entry: Entry) -> None:
        self._instructions = entry.instructions
        self._definitions: dict[str, list[int]] = {}
        for index, instruction in enumerate(entry.instructions):
            for name in _results(instruction):
                self._definitions.setdefault(name, []).append(index)
        ends = {index + 1 for index, each in enumerate(entry.instructions) if each.mnemonic in _ENDS}
        self._starts = sorted({*entry.labels.values(), *ends})

    def product(self, index: int, place: int) -> Fusible | None:
        """The product that operand `place` of a sum certainly is."""
        total = self._instructions[index]
        operand = total.operands[place]
        if not isinstance(operand, Register) or (_kind(total) == "f32x2" and total.mnemonic == "sub"):
            return None
        at = self._definition(operand.name, index)
        if at is None or not self._fits(at, index):
            return None
        return Fusible(at, place)

    def _fits(self, at: int, index: int) -> bool:
        product, total = self._instructions[at], self._instructions[index]
        if not _plain(product, ("mul",), ("ftz",)) or _kind(product) != _kind(total):
            return False
        if ("ftz" in product.qualifiers) != ("ftz" in total.qualifiers):
            return False
        if product.guard is not None and (product.guard != total.guard or not self._together(at, index)):
            return False
        return all(self._unchanged(operand, at, index) for operand in product.operands[1:])

    def _definition(self, name: str, index: int) -> int | None:
        """Where a register that an instruction reads was written."""
        known = self._definitions.get(name, [])
        before = [at for at in known if at < index]
        if not before:
            return None
        if self._together(before[-1], index) or len(known) == 1:
            return before[-1]
        return None

    def _unchanged(self, operand: Operand, at: int, index: int) -> bool:
        """Whether an operand of a product still is at the sum what it was."""
        if not isinstance(operand, Register):
            return True
        known = self._definitions.get(operand.name, [])
        if self._together(at, index):
            return not any(at <= each < index for each in known)
        return len(known) == 1

    def _together(self, first: int, last: int) -> bool:
        """Whether nothing branches out or in between."""
        return bisect_right(self._starts, first) == bisect_right(self._starts, last)


def _results(instruction: Instruction) -> Iterator[str]:
    """Registers that an instruction may write: those of its first operand, read or written."""
    first = instruction.operands[0] if instruction.operands else None
    elements = first.elements if isinstance(first, Vector) else (first,)
    if isinstance(first, Pair):
        elements = (first.first, first.second)
    for element in elements:
        if isinstance(element, Register):
            yield element.name
