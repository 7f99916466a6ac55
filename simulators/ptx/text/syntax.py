"""The records that a parsed PTX module consists of: text structure only, no meaning of instructions.

Names are resolved here once and for all. The instruction ``add.s32 x, x, %r1;`` inside the third nested ``{ }``
of a function that declares its own ``x`` becomes::

    Instruction("add", ("s32",), (Register("x@3"), Register("x@3"), Register("%r1")), ...)

so whoever reads these records needs to know nothing about scopes. Source: PTX ISA 9.0, sections 4 (syntax),
5 (state spaces, types, variables), 6.4 (operands), 8.1 (format of instructions), 11 (directives).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tileproof.oracle.refusal import Refusal

TYPE_BYTES: Mapping[str, int] = {
    **{f"{letter}{bits}": bits // 8 for letter in "bus" for bits in (8, 16, 32, 64)},
    "b128": 16,
    "f16": 2,
    "f16x2": 4,
    "f32": 4,
    "f64": 8,
}
"""Bytes of one element of a fundamental type in memory; ``pred`` has no size and lives in registers only."""


class PtxSyntaxError(Refusal):
    """The text is not PTX that this front end can read.

    Args:
        reason: what was found and what was expected, one line, without the line number.
        line: line of the PTX text, from 1.
        hint: the remedy; empty where there is none.
    """

    def __init__(self, reason: str, *, line: int, hint: str = "") -> None:
        super().__init__(f"PTX line {line}: {reason}", hint=hint)
        self.reason = reason
        self.line = line

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_error, (self.reason, self.line, self.hint))


def _rebuild_error(reason: str, line: int, hint: str) -> PtxSyntaxError:
    return PtxSyntaxError(reason, line=line, hint=hint)


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the CUDA source, from ``.loc``; ``inlined_at`` is the call site when the line was inlined."""

    file: str
    line: int
    inlined_at: Location | None = None


@dataclass(frozen=True, slots=True)
class Register:
    """A declared register; its type is ``Routine.registers[name]``."""

    name: str


@dataclass(frozen=True, slots=True)
class Special:
    """A predefined register with its component, such as ``%tid.x``, ``%laneid``, ``%clock64``."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant.

    Args:
        bits: the Python value of an integer, -2**63 to 2**64 - 1; the raw bits of a float.
        float_type: how a float was written (``0f`` is f32; ``0d`` and decimal are f64); None for an integer.
    """

    bits: int
    float_type: Literal["f32", "f64"] | None = None


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, parameter or function, plus ``offset`` bytes.

    Look the name up in the routine's variables and parameters first, then in the module's variables and functions.
    """

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target (``Routine.labels[name]``) or a list of them (``Routine.branch_targets[name]``)."""

    name: str


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: a result that is thrown away."""


@dataclass(frozen=True, slots=True)
class Negated:
    """``!p``: a predicate read inverted."""

    register: Register


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, ...}``; elements are registers, special registers, immediates or sinks."""

    elements: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``p|q``: two results of one instruction."""

    first: Register | Sink
    second: Register | Sink


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]`` in bytes; a tensor operand ``[map, {c0, c1}]`` also has its coordinates."""

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: Vector | None = None


@dataclass(frozen=True, slots=True)
class Arguments:
    """A parenthesised list of ``call``: its results or its arguments."""

    elements: tuple[Scalar, ...]


Scalar: TypeAlias = Register | Special | Immediate | Symbol | Sink
Operand: TypeAlias = Scalar | Label | Negated | Vector | Pair | Address | Arguments


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p``."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Args:
        mnemonic: the text before the first dot: ``cp`` of ``cp.async.bulk.tensor.2d``.
        qualifiers: the texts between the dots after it, in the order written: ``("async", "bulk", "tensor", "2d")``.
        operands: in the order written.
        guard: the predicate that decides whether it executes.
        line: line of the PTX text, from 1.
        location: line of the CUDA source; None without ``.loc``.
    """

    mnemonic: str
    qualifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int
    location: Location | None


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in memory.

    Args:
        name: unique within its routine or module.
        space: ``global``, ``const``, ``shared``, ``local``, or ``param`` for the argument area of a call.
        type: type of one element.
        align: bytes; the element's (for a vector variable the whole vector's) size where nothing is written.
        count: elements in all dimensions; 0 for ``extern`` arrays of open size, whose size the launch gives.
        line: PTX line of the declaration.
        initial: all ``size_bytes`` bytes where an initialiser is written.
        linkage: ``visible``, ``extern``, ``weak``, ``common``, or empty.
    """

    name: str
    space: str
    type: str
    align: int
    count: int
    line: int
    initial: bytes | None = None
    linkage: str = ""

    @property
    def size_bytes(self) -> int:
        """Bytes from the first element to the end of the last."""
        return TYPE_BYTES[self.type] * self.count


@dataclass(frozen=True, slots=True)
class Parameter:
    """A formal parameter of an entry or function, or a result of a function.

    Args:
        name: unique within the routine.
        type: type of one element; ``pred`` only with space ``reg``.
        align: bytes.
        count: elements; 1 for a scalar.
        line: PTX line of the declaration.
        space: ``param``, or ``reg`` for a function's register parameter (its name is then in ``Routine.registers``).
        pointer_space: of ``.ptr``: ``global``, ``shared``, ``const``, ``local``, empty for generic; None without it.
        pointer_align: bytes that the pointed-to memory is aligned to; None where nothing is written.
    """

    name: str
    type: str
    align: int
    count: int
    line: int
    space: str = "param"
    pointer_space: str | None = None
    pointer_align: int | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes that the argument takes in the parameter area."""
        return TYPE_BYTES[self.type] * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Routine:
    """What entries and functions share.

    Args:
        name: as written.
        line: PTX line of the declaration.
        linkage: ``visible``, ``extern``, ``weak``, or empty.
        parameters: in the order written.
        registers: unique name to type, ``pred`` included.
        variables: declared inside the body, of any nested scope, by unique name.
        instructions: of all nested scopes, in the order written.
        labels: unique name to the index of the instruction that follows; ``len(instructions)`` at the very end.
        branch_targets: unique name of a ``.branchtargets`` list to the labels it holds.
        directives: name without dot to its numbers: ``maxntid``, ``reqntid``, ``reqnctapercluster`` (always three),
            ``minnctapersm``, ``maxnctapersm``, ``maxnreg``, ``maxclusterrank`` (one), ``explicitcluster``,
            ``blocksareclusters``, ``noreturn`` (none).
        pragmas: the strings of ``.pragma``.
    """

    name: str
    line: int
    linkage: str = ""
    parameters: tuple[Parameter, ...] = ()
    registers: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict)
    instructions: tuple[Instruction, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    branch_targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    directives: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pragmas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Routine):
    """A kernel: ``.entry`` with a body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function(Routine):
    """A device function: ``.func``. ``defined`` is false where only a declaration was seen, such as ``vprintf``."""

    returns: tuple[Parameter, ...] = ()
    defined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A whole PTX text.

    Args:
        version: of the PTX language: (9, 0).
        target: ``("sm_90a",)`` and further target words such as ``debug``.
        address_size: 32 or 64 bits.
        entries: kernels by name.
        functions: device functions by name, declared-only ones included.
        variables: of module scope, by name.
        files: ``.file`` number to name.
    """

    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    entries: Mapping[str, Entry]
    functions: Mapping[str, Function]
    variables: Mapping[str, Variable]
    files: Mapping[int, str]
