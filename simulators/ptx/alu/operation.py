"""Arithmetic instructions as records: opcode in, pure functions over raw bits out.

`resolve("add", ("sat", "s32"))` gives an `Operation` whose `compute` maps source values to destination values and
whose `undefined` says which result bits depend on source bits that nothing defined. Values and masks are uint64 arrays
of raw, zero-extended bits, of one or more dimensions, that broadcast together:

    >>> add = resolve("add", ("s32",))
    >>> add.compute([np.array([0xFFFFFFFF], np.uint64), np.array([2], np.uint64)])
    (array([1], dtype=uint64),)

What the caller keeps to: as many operands as `sources`, each cut to its type's width before, each result widened to its
register after (`scalar.widen`), and a second destination dropped where the instruction names only one (`setp`).
Qualifiers are a set, because compilers do not agree on their order; types keep their order, because `cvt` needs it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tileproof.oracle.evidence import Evidence
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.alu.assumption import Assumption
from tileproof.simulators.ptx.alu.requirement import ALWAYS, Requirement
from tileproof.simulators.ptx.alu.scalar import SCALARS, Bits, Scalar

Compute = Callable[[Sequence[Bits]], tuple[Bits, ...]]
Undefined = Callable[[Sequence[Bits], Sequence[Bits]], tuple[Bits, ...]]
Allowed = Callable[[Sequence[Bits], bool], tuple[Bits, Bits]]


class NotModelled(Refusal):
    """A known instruction in a form that the simulator does not execute."""


@dataclass(frozen=True)
class Operation:
    """One arithmetic instruction, ready to execute.

    Args:
        name: the opcode with its qualifiers in one canonical order, e.g. "fma.rn.ftz.f32".
        destinations: PTX types of the results.
        sources: PTX types of the operands, an immediate that selects the function (lop3) included.
        compute: source values to destination values.
        undefined: source values and masks of their undefined bits, to masks of the undefined result bits. Never
            says "defined" of a bit that an undefined one can change; no undefined source bit gives no undefined result.
        assumptions: rules inside that the PTX ISA does not settle.
        requires: the targets that have it.
        allowed: of an approximate function, source values to the smallest and the largest result that are right, in
            the order of float values, lane by lane; `compute` gives one between. With the flag, results that are known
            to be exact at single operands count; without it the ends grow and fall as the function does.
        inverted: positions of predicate operands that `compute` reads inverted; no part of the name.
        optional: how many of the last results an instruction may leave out.
        immediates: positions of operands that must be constants.
    """

    name: str
    destinations: tuple[str, ...]
    sources: tuple[str, ...]
    compute: Compute
    undefined: Undefined
    assumptions: tuple[Assumption, ...] = ()
    requires: Requirement = ALWAYS
    allowed: Allowed | None = None
    inverted: tuple[int, ...] = ()
    optional: int = 0
    immediates: tuple[int, ...] = ()

    @property
    def evidence(self) -> Evidence:
        """The weakest evidence that the operation rests on."""
        levels = [assumption.evidence for assumption in self.assumptions]
        return next((level for level in (Evidence.INFERRED, Evidence.MEASURED) if level in levels), Evidence.DOCUMENTED)


# Canonical order of qualifiers that are not types: comparison, combination, selection, rounding, range.
_FLAG_ORDER = (
    *("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"),
    *("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"),
    *("and", "or", "xor", "wide", "l", "r", "shiftamt"),
    *("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "approx", "full"),
    *("ftz", "NaN", "xorsign", "abs", "relu", "sat", "satfinite", "cc"),
)


@dataclass(frozen=True)
class Opcode:
    """An opcode taken apart: what the families of operations read.

    Args:
        mnemonic: the first word.
        qualifiers: all others, as written.
        types: the qualifiers that are types, in their order.
        flags: the qualifiers that are not.
    """

    mnemonic: str
    qualifiers: tuple[str, ...]
    types: tuple[Scalar, ...]
    flags: frozenset[str]

    @classmethod
    def parse(cls, mnemonic: str, qualifiers: tuple[str, ...]) -> "Opcode":
        """Split qualifiers into types and flags."""
        types = tuple(SCALARS[qualifier] for qualifier in qualifiers if qualifier in SCALARS)
        return cls(mnemonic, qualifiers, types, frozenset(qualifiers) - SCALARS.keys())

    def __str__(self) -> str:
        return ".".join((self.mnemonic, *self.qualifiers))

    @property
    def name(self) -> str:
        """The opcode with its flags in canonical order."""
        order = {flag: position for position, flag in enumerate(_FLAG_ORDER)}
        flags = sorted(self.flags, key=lambda flag: (order.get(flag, len(order)), flag))
        return ".".join((self.mnemonic, *flags, *(scalar.name for scalar in self.types)))

    def refuse(self, reason: str, *, hint: str = "") -> NotModelled:
        """The error to raise for this opcode."""
        return NotModelled(f"{self} is not modelled: {reason}", hint=hint)

    def permit(self, *flags: str) -> None:
        """Refuse every flag that is not named.

        Raises:
            NotModelled: names the others.
        """
        if unknown := sorted(self.flags - set(flags)):
            raise self.refuse("qualifier " + ", ".join(f".{flag}" for flag in unknown))

    def choose(self, *alternatives: str, default: str = "") -> str:
        """The one flag of several that exclude each other.

        Raises:
            NotModelled: two of them are there, or none and there is no default.
        """
        present = [flag for flag in alternatives if flag in self.flags]
        if len(present) > 1 or not (present or default):
            raise self.refuse("it needs one of " + ", ".join(f".{flag}" for flag in alternatives))
        return present[0] if present else default

    def scalar(self, permitted: Collection[str]) -> Scalar:
        """The only type of the opcode.

        Raises:
            NotModelled: there are several, none, or another than the permitted.
        """
        if len(self.types) != 1 or self.types[0].name not in permitted:
            raise self.refuse("it takes one type of " + ", ".join(f".{name}" for name in permitted))
        return self.types[0]

    def operation(
        self,
        destinations: tuple[str, ...],
        sources: tuple[str, ...],
        function: Callable[..., Bits],
        undefined: Undefined,
        assumptions: tuple[Assumption, ...] = (),
        requires: Requirement = ALWAYS,
    ) -> Operation:
        """An operation with one result, from a function of its operands."""

        def compute(values: Sequence[Bits]) -> tuple[Bits, ...]:
            return (function(*values),)

        return Operation(self.name, destinations, sources, compute, undefined, assumptions, requires)


Family = Callable[[Opcode], Operation]

_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        (f"v{name}" for name in ("add", "sub", "absdiff", "min", "max", "shl", "shr", "mad", "set")),
        "of the video instructions only those on bytes and halfwords (vadd4, vadd2, ...) are modelled",
    ),
}


@cache
def _families() -> tuple[Mapping[str, Family], Mapping[str, Family]]:
    # Imported at first use: the families build Operation records, so they import this module.
    from tileproof.simulators.ptx.alu import (
        approximate,
        bitfield,
        bitmask,
        carry,
        compare,
        conversion,
        dot,
        floating,
        integer,
        logic,
        move,
        shift,
        video,
    )

    shared = {**compare.FAMILIES, **conversion.FAMILIES, **move.FAMILIES}
    plain = {**shared, **integer.FAMILIES, **logic.FAMILIES, **shift.FAMILIES, **bitfield.FAMILIES, **dot.FAMILIES}
    plain |= {**carry.FAMILIES, **bitmask.FAMILIES, **video.FAMILIES}
    return plain, {**shared, **floating.FAMILIES, **approximate.FAMILIES}


@cache
def resolve(mnemonic: str, qualifiers: tuple[str, ...]) -> Operation | None:
    """The operation of an opcode.

    Args:
        mnemonic: e.g. "cvt".
        qualifiers: as written, without dots, e.g. ("rn", "bf16x2", "f32").

    Returns:
        None if the mnemonic is not arithmetic (memory, control, collectives).

    Raises:
        NotModelled: the mnemonic is arithmetic, the form is not covered.
    """
    opcode = Opcode.parse(mnemonic, qualifiers)
    if mnemonic in _REFUSED:
        raise opcode.refuse(_REFUSED[mnemonic])
    plain, floats = _families()
    if mnemonic not in plain and mnemonic not in floats:
        return None
    family = (floats if opcode.types and opcode.types[-1].is_float else plain).get(mnemonic)
    if family is None:
        raise opcode.refuse("the instruction does not take this type")
    return family(opcode)


def arithmetic_mnemonics() -> tuple[str, ...]:
    """Every mnemonic that `resolve` knows and does not refuse whole, in alphabetical order."""
    plain, floats = _families()
    return tuple(sorted({*plain, *floats} - _REFUSED.keys()))
