"""What the qualifiers of loads, stores and atomics say, in whatever order they are written."""

from dataclasses import dataclass

from tileproof.simulators.ptx.alu.scalar import SCALARS
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
_SYSTEM = frozenset({"volatile", "mmio"})
_STRONG = _SYSTEM | {"relaxed"} | _ACQUIRING | _RELEASING
_PRIVATE = (StateSpace.LOCAL, StateSpace.PARAM, StateSpace.CONST)
SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.SYS}
# Cache operators and eviction hints never change a value (PTX ISA, "Cache Operators").
_HINTS = frozenset({"weak", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc"})
_HINT_WORDS = ("L1::evict", "L1::no_allocate", "L2::evict", "L2::64B", "L2::128B", "L2::256B")
# Operations of atom and red, and the types that they take here (PTX ISA, "atom").
ATOMIC_TYPES = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64")),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
    "exch": ("b32", "b64", "b128"),
    "cas": ("b16", "b32", "b64", "b128"),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
}
_OF_HALVES = ("add", "min", "max")
# By element type, operations on vectors and their lengths (PTX ISA, "atom": .vec_16_bit, .vec_32_bit).
VECTOR_ATOMICS = {
    "f32": (("add", 2), ("add", 4)),
    **{type_: tuple((name, n) for name in _OF_HALVES for n in (2, 4, 8)) for type_ in ("f16", "bf16")},
    **{type_: tuple((name, n) for name in _OF_HALVES for n in (2, 4)) for type_ in ("f16x2", "bf16x2")},
}
CACHE_HINT = "L2::cache_hint"


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

    @property
    def element_bytes(self) -> int:
        """Bytes of one element in memory."""
        return TYPE_BYTES[self.type] if self.type in TYPE_BYTES else SCALARS[self.type].bits // 8


def memory_form(instruction: Instruction) -> MemoryForm:
    """Read the qualifiers of `ld`, `st`, `atom` or `red`.

    Raises:
        NotModelled: a qualifier that is not known.
    """
    space, type_, count, semantics, scopes = StateSpace.GENERIC, "", 1, set[str](), list[Scope]()
    for qualifier in instruction.qualifiers:
        if qualifier in SPACES:
            space = SPACES[qualifier]
        elif qualifier in TYPE_BYTES or _is_atomic_type(instruction, qualifier):
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
    if semantics and space in _PRIVATE:
        raise not_modelled(instruction, f".{min(semantics)} of .{space.value} memory, which no other thread sees")
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
    return (Scope.SYS if semantics & _SYSTEM else Scope.GPU) if strong else Scope.CTA


def _is_hint(qualifier: str) -> bool:
    return qualifier == CACHE_HINT or qualifier.startswith(_HINT_WORDS)


def _is_atomic(instruction: Instruction, qualifier: str) -> bool:
    return instruction.mnemonic in ("atom", "red") and (qualifier in ATOMIC_TYPES or qualifier == "noftz")


def _is_atomic_type(instruction: Instruction, qualifier: str) -> bool:
    return instruction.mnemonic in ("atom", "red") and qualifier in ("bf16", "bf16x2")
