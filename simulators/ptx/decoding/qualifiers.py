"""What the qualifiers of loads, stores and atomics say, in whatever order they are written."""

from dataclasses import dataclass

from tileproof.simulators.ptx.decoding.instruction_text import not_modelled
from tileproof.simulators.ptx.program import Scope, StateSpace
from tileproof.simulators.ptx.text.syntax import TYPE_BYTES, Instruction

SPACES = {
    "global": StateSpace.GLOBAL,
    "shared": StateSpace.SHARED,
    "shared::cta": StateSpace.SHARED,
    "shared::cluster": StateSpace.CLUSTER,
    "local": StateSpace.LOCAL,
    "const": StateSpace.CONST,
    "param": StateSpace.PARAM,
    "param::entry": StateSpace.PARAM,
    "param::func": StateSpace.PARAM,
}
_COUNTS = {"v2": 2, "v4": 4, "v8": 8}
_ACQUIRING = frozenset({"acquire", "acq_rel"})
_RELEASING = frozenset({"release", "acq_rel"})
_STRONG = frozenset({"volatile", "relaxed"}) | _ACQUIRING | _RELEASING
SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.SYS}
# Cache operators and eviction hints never change a value (PTX ISA, "Cache Operators").
_HINTS = frozenset({"weak", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc"})
# Operations of atom and red, and the types that they take here (PTX ISA, "atom").
ATOMIC_TYPES = {
    "add": ("u32", "s32", "u64", "f32"),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64")),
    **dict.fromkeys(("and", "or", "xor", "exch", "cas"), ("b32", "b64")),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
}


@dataclass(frozen=True)
class MemoryForm:
    """Space, element type and number of elements, and how the access orders others (see `Access`)."""

    space: StateSpace
    type: str
    count: int
    strong: bool
    acquires: bool
    releases: bool
    scope: Scope
    non_coherent: bool


def memory_form(instruction: Instruction) -> MemoryForm:
    """Read the qualifiers of `ld`, `st`, `atom` or `red`.

    Raises:
        NotModelled: a qualifier that is not known.
    """
    space, type_, count, semantics, scopes = StateSpace.GENERIC, "", 1, set[str](), list[Scope]()
    for qualifier in instruction.qualifiers:
        if qualifier in SPACES:
            space = SPACES[qualifier]
        elif qualifier in TYPE_BYTES and qualifier != "b128":
            type_ = qualifier
        elif qualifier in _COUNTS:
            count = _COUNTS[qualifier]
        elif qualifier in _STRONG:
            semantics.add(qualifier)
        elif qualifier in SCOPES:
            scopes.append(SCOPES[qualifier])
        elif qualifier not in _HINTS and not (_is_hint(qualifier) or _is_atomic(instruction, qualifier)):
            raise not_modelled(instruction, f"the qualifier .{qualifier} is not modelled")
    if not type_:
        raise not_modelled(instruction, "it has no type")
    atomic = instruction.mnemonic in ("atom", "red")
    strong = atomic or bool(semantics)
    return MemoryForm(
        space,
        type_,
        count,
        strong,
        bool(semantics & _ACQUIRING),
        bool(semantics & _RELEASING),
        _scope(strong, semantics, scopes),
        "nc" in instruction.qualifiers,
    )


def _scope(strong: bool, semantics: set[str], scopes: list[Scope]) -> Scope:
    """The scope of a strong access: `.volatile` is `.relaxed.sys`, and atomics are `.gpu` where they say nothing."""
    if scopes:
        return max(scopes)
    return (Scope.SYS if "volatile" in semantics else Scope.GPU) if strong else Scope.CTA


def _is_hint(qualifier: str) -> bool:
    return qualifier.startswith(("L1::evict", "L1::no_allocate", "L2::evict", "L2::64B", "L2::128B", "L2::256B"))


def _is_atomic(instruction: Instruction, qualifier: str) -> bool:
    return instruction.mnemonic in ("atom", "red") and qualifier in ATOMIC_TYPES
