"""What the device models, asked of the code itself: the tables in docs/ptx.md.

Arithmetic is probed (`alu.forms`). Other instructions have decoders of their own and are listed by mnemonic.
"""

from collections.abc import Sequence

from tileproof.oracle.evidence import Evidence
from tileproof.simulators.ptx.alu.forms import QUALIFIERS, Form, accepted_forms
from tileproof.simulators.ptx.alu.operation import arithmetic_mnemonics
from tileproof.simulators.ptx.alu.requirement import ALWAYS
from tileproof.simulators.ptx.decoding.decode import DECODERS
from tileproof.simulators.ptx.decoding.instruction_set import NEEDS
from tileproof.simulators.ptx.decoding.qualifiers import ATOMIC_TYPES, VECTOR_ATOMICS
from tileproof.simulators.ptx.decoding.refused import REASONS

_STRENGTH = (Evidence.INFERRED, Evidence.MEASURED, Evidence.DOCUMENTED)


def arithmetic_table() -> str:
    """One row for each arithmetic mnemonic: types, qualifiers, weakest evidence of any form."""
    lines = ["| instruction | types | qualifiers | evidence |", "|---|---|---|---|"]
    for mnemonic in arithmetic_mnemonics():
        forms = accepted_forms(mnemonic)
        accepted = {flag for form in forms for flag in form.qualifiers}
        flags = " ".join(flag for flag in QUALIFIERS if flag in accepted)
        weakest = min((form.operation.evidence for form in forms), key=_STRENGTH.index)
        lines.append(f"| `{mnemonic}` | {_types(forms)} | {flags} | {weakest.value} |")
    return "\n".join(lines) + "\n"


def assumption_list() -> str:
    """The rules that the PTX ISA leaves open, as implemented, with the instructions that rest on them."""
    owners: dict[str, dict[str, None]] = {}
    for mnemonic in arithmetic_mnemonics():
        for form in accepted_forms(mnemonic):
            for assumption in form.operation.assumptions:
                source = f", {assumption.recording}" if assumption.recording else ""
                text = f"{assumption.text} ({assumption.evidence.value}{source})"
                owners.setdefault(text, {})[f"`{mnemonic}`"] = None
    return "".join(f"* {text}: {', '.join(names)}\n" for text, names in owners.items())


def later_list() -> str:
    """Forms that only some targets have."""
    lines: dict[str, dict[str, None]] = {}
    for mnemonic in arithmetic_mnemonics():
        for form in accepted_forms(mnemonic):
            if form.operation.requires != ALWAYS:
                text = f"{mnemonic} {' from '.join(form.types)}"
                lines.setdefault(str(form.operation.requires), {})[f"`{text}`"] = None
    return "".join(f"* {requirement}: {', '.join(names)}\n" for requirement, names in lines.items())


def target_table() -> str:
    """One row for each form that not every modelled target has: instruction, target, section of the PTX ISA."""
    lines = ["| instruction | target | PTX ISA |", "|---|---|---|"]
    for mnemonic, needs in NEEDS.items():
        for need in needs:
            words = " and ".join(f"`.{word}`".replace("|", "`/`.") for word in need.words)
            form = f"`{mnemonic}`" + (f" with {words}" if words else "")
            lines.append(f"| {form} | {need.target} | {need.section} |")
    return "\n".join(lines) + "\n"


def other_instructions() -> str:
    """Mnemonics with decoders of their own: memory, control, collectives."""
    return ", ".join(f"`{mnemonic}`" for mnemonic in sorted(DECODERS.keys() - REASONS.keys())) + "\n"


def atomic_table() -> str:
    """One row for each operation of `atom` and `red`: types of single values and of vectors."""
    lines = ["| operation | types | vectors in global memory (sm_90) |", "|---|---|---|"]
    for name, types in ATOMIC_TYPES.items():
        vectors = [
            f"{type_} of {', '.join(str(count) for each, count in pairs if each == name)}"
            for type_, pairs in VECTOR_ATOMICS.items()
            if any(each == name for each, _ in pairs)
        ]
        lines.append(f"| `{name}` | {' '.join(types)} | {'; '.join(vectors)} |")
    return "\n".join(lines) + "\n"


def refused_list() -> str:
    """Instructions that are refused by name, with the reason."""
    reasons: dict[str, list[str]] = {}
    for mnemonic, (reason, _) in REASONS.items():
        reasons.setdefault(reason, []).append(f"`{mnemonic}`")
    return "".join(f"* {', '.join(names)}: {reason}\n" for reason, names in reasons.items())


def _types(forms: Sequence[Form]) -> str:
    """Single types as a list; pairs as "results from sources", results with equal sources together."""
    distinct = dict.fromkeys(form.types for form in forms)
    single = [types[0] for types in distinct if len(types) == 1]
    sources: dict[str, list[str]] = {}
    for types in distinct:
        if len(types) > 1:
            sources.setdefault(types[0], []).append(",".join(types[1:]))
    results: dict[tuple[str, ...], list[str]] = {}
    for result, taken in sources.items():
        results.setdefault(tuple(taken), []).append(result)
    pairs = [f"{' '.join(results[taken])} from {' '.join(taken)}" for taken in results]
    return "; ".join([*([" ".join(single)] if single else []), *pairs])
