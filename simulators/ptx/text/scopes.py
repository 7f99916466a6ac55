"""Names and the ``{ }`` scopes that they are valid in.

The module is the outermost scope, a routine with its parameters and body the next. Names declared in them stay as
written; a name declared in the n-th nested scope of a routine gets ``@n`` behind it, which no PTX name can contain.
Registers, variables, functions and labels share one namespace, as ptxas has it.
"""

from __future__ import annotations

from typing import TypeAlias

from tileproof.simulators.ptx.text.syntax import Label, PtxSyntaxError, Register, Symbol
from tileproof.simulators.ptx.text.tokens import quote

Named: TypeAlias = Register | Symbol | Label


def _dimensions(name: str) -> tuple[str, ...]:
    return (name, *(f"{name}.{axis}" for axis in "xyzw"))


SPECIAL_REGISTERS = frozenset(
    [
        *(
            name
            for vector in (
                "tid",
                "ntid",
                "ctaid",
                "nctaid",
                "clusterid",
                "nclusterid",
                "cluster_ctaid",
                "cluster_nctaid",
            )
            for name in _dimensions(f"%{vector}")
        ),
        *("%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%cluster_ctarank", "%cluster_nctarank"),
        *(f"%lanemask_{relation}" for relation in ("eq", "le", "lt", "ge", "gt")),
        *("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"),
        *(f"%pm{counter}{suffix}" for counter in range(8) for suffix in ("", "_64")),
        *(f"%envreg{number}" for number in range(32)),
        *("%is_explicit_cluster", "%total_smem_size", "%aggr_smem_size", "%dynamic_smem_size", "%current_graph_exec"),
        *(f"%reserved_smem_offset_{part}" for part in ("begin", "end", "cap", "0", "1")),
    ]
)
"""PTX ISA 9.0, section 10."""


class Scope:
    """The names of one ``{ }``; ``parent`` is the enclosing scope, ``suffix`` what its unique names end with."""

    def __init__(self, parent: Scope | None = None, suffix: str = "") -> None:
        self.parent = parent
        self.suffix = suffix
        self.names: dict[str, Named] = {}

    def find(self, name: str) -> Named | None:
        """What the name means here, or None."""
        scope: Scope | None = self
        while scope is not None:
            if found := scope.names.get(name):
                return found
            scope = scope.parent
        return None

    def unique(self, name: str) -> str:
        """The name under which a declaration in this scope is known in the records."""
        return name + self.suffix

    def declare(self, name: str, kind: type[Register] | type[Symbol] | type[Label], line: int) -> str:
        """Adds a name and returns its unique form.

        Raises:
            PtxSyntaxError: the scope has that name already.
        """
        if name in self.names:
            raise redeclared(name, line)
        unique = self.unique(name)
        self.names[name] = kind(unique)
        return unique


def redeclared(name: str, line: int) -> PtxSyntaxError:
    """The error for a name that its scope has already."""
    return PtxSyntaxError(f"{quote(name)} is declared twice in its scope", line=line)


def undeclared(name: str, line: int) -> PtxSyntaxError:
    """The error for a name that no scope in sight has."""
    if name.startswith("%"):
        hint = "declare it with .reg before its use, in this scope or an enclosing one"
    else:
        hint = "declare the variable, parameter or function before its use"
    return PtxSyntaxError(f"{quote(name)} is not declared", line=line, hint=hint)
