"""What the device models, asked of the code itself: the tables in docs/ptx.md.

Arithmetic is probed: every type, on top of the qualifiers that a form must have, is offered to `resolve`, and so is
every further qualifier; what is accepted is listed. Other instructions have decoders of their own and are listed by
mnemonic.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from tileproof.simulators.ptx.alu.assumption import Evidence
from tileproof.simulators.ptx.alu.operation import NotModelled, Operation, arithmetic_mnemonics, resolve
from tileproof.simulators.ptx.alu.scalar import SCALARS
from tileproof.simulators.ptx.decoding.decode import DECODERS

# What a form must have before any type is accepted: nothing, a rounding, half of a product, a comparison, a direction.
_REQUIRED: tuple[tuple[str, ...], ...] = (
    *((), ("rn",), ("rna",), ("rni",), ("rzi",), ("lo",), ("eq",), ("finite",)),
    *(("rn", "satfinite"), ("l", "wrap"), ("r", "clamp")),
)
_FURTHER = (
    *("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz", "sat", "satfinite", "relu", "NaN"),
    *("lo", "hi", "wide", "l", "r", "wrap", "clamp", "shiftamt", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"),
    *("eq", "ne", "lt", "le", "gt", "ge", "ls", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"),
    *("and", "or", "xor", "finite", "infinite", "number", "notanumber", "normal", "subnormal"),
)
_TWO_TYPES = frozenset({"cvt", "set", "slct", "dp4a", "dp2a"})
_STRENGTH = (Evidence.INFERRED, Evidence.MEASURED, Evidence.DOCUMENTED)


@dataclass(frozen=True)
class Form:
    """One accepted opcode: its qualifiers, its type or types, the operation."""

    qualifiers: tuple[str, ...]
    types: tuple[str, ...]
    operation: Operation


def arithmetic_table() -> str:
    """One row for each arithmetic mnemonic: types, qualifiers, weakest evidence of any form."""
    lines = ["| instruction | types | qualifiers | evidence |", "|---|---|---|---|"]
    for mnemonic in arithmetic_mnemonics():
        forms = list(_forms(mnemonic))
        accepted = {flag for form in forms for flag in form.qualifiers}
        flags = " ".join(flag for flag in _FURTHER if flag in accepted)
        weakest = min((form.operation.evidence for form in forms), key=_STRENGTH.index)
        lines.append(f"| `{mnemonic}` | {_types(forms)} | {flags} | {weakest.value} |")
    return "\n".join(lines) + "\n"


def assumption_list() -> str:
    """The rules that the PTX ISA leaves open, as implemented, with the instructions that rest on them."""
    owners: dict[str, dict[str, None]] = {}
    for mnemonic in arithmetic_mnemonics():
        for form in _forms(mnemonic):
            for assumption in form.operation.assumptions:
                text = f"{assumption.text} ({assumption.evidence.value})"
                owners.setdefault(text, {})[f"`{mnemonic}`"] = None
    return "".join(f"* {text}: {', '.join(names)}\n" for text, names in owners.items())


def other_instructions() -> str:
    """Mnemonics with decoders of their own: memory, control, collectives."""
    return ", ".join(f"`{mnemonic}`" for mnemonic in sorted(DECODERS)) + "\n"


def _types(forms: list[Form]) -> str:
    """Single types as a list; pairs as "results from sources", results with equal sources together."""
    distinct = dict.fromkeys(form.types for form in forms)
    single = [types[0] for types in distinct if len(types) == 1]
    sources: dict[str, list[str]] = {}
    for types in distinct:
        if len(types) == 2:
            sources.setdefault(types[0], []).append(types[1])
    results: dict[tuple[str, ...], list[str]] = {}
    for result, taken in sources.items():
        results.setdefault(tuple(taken), []).append(result)
    pairs = [f"{' '.join(results[taken])} from {' '.join(taken)}" for taken in results]
    return "; ".join([*([" ".join(single)] if single else []), *pairs])


def _forms(mnemonic: str) -> Iterator[Form]:
    repeat = 2 if mnemonic in _TWO_TYPES else 1
    for types in product(SCALARS, repeat=repeat):
        plain = list(_accepted(mnemonic, _REQUIRED, types))
        yield from plain
        if plain:
            first = plain[0].qualifiers
            yield from _accepted(mnemonic, [(*first, flag) for flag in _FURTHER if flag not in first], types)


def _accepted(mnemonic: str, choices: Iterable[tuple[str, ...]], types: tuple[str, ...]) -> Iterator[Form]:
    for qualifiers in choices:
        try:
            operation = resolve(mnemonic, (*qualifiers, *types))
        except NotModelled:
            continue
        if operation is not None:
            yield Form(qualifiers, types, operation)
