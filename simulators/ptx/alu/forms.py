"""Every arithmetic form that `resolve` accepts, found by asking it.

From forms that carry what an opcode must have (a rounding, half of a product, a comparison), one qualifier at a time is
added or exchanged until nothing new is accepted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product

from tileproof.simulators.ptx.alu import video
from tileproof.simulators.ptx.alu.operation import NotModelled, Operation, resolve
from tileproof.simulators.ptx.alu.scalar import SCALARS

# What a form must have before any type is accepted: nothing, a rounding, half of a product, a comparison, a direction.
_REQUIRED: tuple[tuple[str, ...], ...] = (
    *((), ("rn",), ("rz",), ("rna",), ("rni",), ("rzi",), ("lo",), ("eq",), ("finite",), ("clamp",), ("hi", "sat")),
    *(("rn", "satfinite"), ("l", "wrap"), ("r", "clamp"), ("approx",), ("approx", "ftz"), ("full",)),
    *(("xorsign", "abs"), ("pack", "sat")),
)
# In the order in which PTX writes them.
QUALIFIERS = (
    *("eq", "ne", "lt", "le", "gt", "ge", "ls", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"),
    *("and", "or", "xor", "finite", "infinite", "number", "notanumber", "normal", "subnormal"),
    *("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "pack"),
    *("approx", "full", "ftz", "sat", "relu", "satfinite", "NaN", "xorsign", "abs", "add"),
    *("lo", "hi", "wide", "cc", "l", "r", "wrap", "clamp", "shiftamt"),
    *("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"),
)
_TWO_TYPES = frozenset({"cvt", "set", "slct", "dp4a", "dp2a"})
_MIXED = tuple(("f32", narrow) for narrow in ("f16", "bf16"))
# Further types of some mnemonics, which trying all of them would find too late.
_FURTHER: Mapping[str, tuple[tuple[str, ...], ...]] = {
    **dict.fromkeys(("add", "sub", "fma"), _MIXED),
    "cvt": (
        *((result, "s32") for result in ("u16", "s16")),
        *((result, "s32", "b32") for result in ("u2", "s2", "u4", "s4", "u8", "s8")),
    ),
}


_NARROW = ("e4m3x2", "e5m2x2", "e2m1x2", "e2m3x2", "e3m2x2")


@dataclass(frozen=True)
class Form:
    """One accepted opcode: its qualifiers in the order of `QUALIFIERS`, its type or types, the operation."""

    mnemonic: str
    qualifiers: tuple[str, ...]
    types: tuple[str, ...]
    operation: Operation

    @property
    def opcode(self) -> str:
        """As PTX writes it; the order of qualifiers is the assembler's."""
        flags = self.qualifiers
        if self.mnemonic == "prmt":
            return ".".join((self.mnemonic, *self.types, *flags))
        if self.mnemonic in video.MNEMONICS:
            return ".".join((self.mnemonic, *self.types, *flags))
        if self.mnemonic in ("mad", "mad24"):
            flags = tuple(sorted(flags, key=lambda flag: flag == "sat"))
        if self.types[0] in _NARROW and "satfinite" in flags:
            flags = tuple(sorted(flags, key=("rn", "satfinite", "relu").index))
        return ".".join((self.mnemonic, *flags, *self.types))


@cache
def accepted_forms(mnemonic: str) -> tuple[Form, ...]:
    """All forms of a mnemonic, each once."""
    return tuple(dict.fromkeys(form for types in _candidates(mnemonic) for form in _of_types(mnemonic, types)))


def _candidates(mnemonic: str) -> Iterator[tuple[str, ...]]:
    if mnemonic in video.MNEMONICS:
        yield from product(("u32", "s32"), repeat=2 if mnemonic.startswith("vset") else 3)
        return
    yield from product(SCALARS, repeat=2 if mnemonic in _TWO_TYPES else 1)
    yield from _FURTHER.get(mnemonic, ())


def _of_types(mnemonic: str, types: tuple[str, ...]) -> Iterator[Form]:
    seen: set[frozenset[str]] = set()
    waiting = [frozenset(flags) for flags in _REQUIRED]
    useful: frozenset[str] | None = None
    while waiting:
        flags = waiting.pop(0)
        if flags in seen:
            continue
        seen.add(flags)
        form = _accepted(mnemonic, flags, types)
        if form is None:
            continue
        yield form
        if useful is None:
            useful = _useful(mnemonic, flags, types)
        waiting += [flags | {more} for more in QUALIFIERS if more in useful]
        waiting += [flags - {less} | {more} for less in sorted(flags) for more in QUALIFIERS if more in useful]


def _useful(mnemonic: str, flags: frozenset[str], types: tuple[str, ...]) -> frozenset[str]:
    """The qualifiers that are accepted beside or in place of those of one accepted form."""
    around = (frozenset(), *(frozenset({flag}) for flag in flags))
    tried = ((more, flags - without | {more}) for more in QUALIFIERS for without in around)
    return frozenset(more for more, candidate in tried if _accepted(mnemonic, candidate, types))


def _accepted(mnemonic: str, flags: frozenset[str], types: tuple[str, ...]) -> Form | None:
    ordered = tuple(flag for flag in QUALIFIERS if flag in flags)
    try:
        operation = resolve(mnemonic, (*ordered, *types))
    except NotModelled:
        return None
    return Form(mnemonic, ordered, types, operation) if operation is not None else None
