"""Addresses of variables and parameters, and the windows of the generic address space."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tileproof.simulators.ptx.text.syntax import Parameter, Variable

# Shared addresses of a kernel start behind the block's 1 KiB of system use (CUDA C++ Programming Guide, "Technical
# Specifications per Compute Capability": 1 KB of shared memory is reserved per thread block from 8.0 on; the start, and
# the rules of this file for shared memory: measured on H200, tests/h200/clusters.py). An address below it is out of
# bounds.
SHARED_BASE = 0x400
# What the dynamic part is aligned to at least, and what a block's shared memory is given in.
DYNAMIC_ALIGNMENT = 16
SHARED_UNIT_BYTES = 128
LOCAL_BASE = 0x10
CONST_BASE = 0x10
PARAM_BASE = 0

# Shared addresses carry the block's rank in its cluster from this bit on: the block of rank 1 has its first variable at
# 0x0100_0400 (measured on H200, likewise). So an own address (`shared::cta`) is valid in the cluster's window too, as
# the PTX ISA demands ("State Spaces", shared).
RANK_SHIFT = 24
RANK_MASK = 0xFF << RANK_SHIFT

# Windows of the generic address space. On a GPU their place is not documented; these lie far from every allocation.
WINDOW_BYTES = 1 << 32
SHARED_WINDOW = 0x0200_0000_0000
LOCAL_WINDOW = 0x0300_0000_0000
CONST_WINDOW = 0x0400_0000_0000
PARAM_WINDOW = 0x0500_0000_0000


@dataclass(frozen=True)
class Placement:
    """Variables of one space by name, with the end of the last one."""

    offsets: Mapping[str, int]
    size_bytes: int


@dataclass(frozen=True)
class SharedPlacement:
    """A kernel's shared memory in a launch.

    Attributes:
        base: address of the first byte.
        addresses: of every variable, by name.
        static_bytes: from the base to the end of the last variable with a size.
        total_bytes: static and dynamic together, with the padding between them.
        given_bytes: what the block gets: up to the end of the dynamic part, even where that is empty.
    """

    base: int
    addresses: Mapping[str, int]
    static_bytes: int
    total_bytes: int
    given_bytes: int


@dataclass(frozen=True)
class SharedVariables:
    """The shared variables of a kernel: those with a size, and the open arrays that all name the dynamic part."""

    static: tuple[Variable, ...]
    dynamic: tuple[Variable, ...]

    @property
    def dynamic_alignment(self) -> int:
        """Bytes that the dynamic part is aligned to: as declared, and at least 16."""
        return max((DYNAMIC_ALIGNMENT, *(variable.align for variable in self.dynamic)))

    def place(self, dynamic_bytes: int = 0, base: int = SHARED_BASE) -> SharedPlacement:
        """Static variables from `base` on, each at its alignment, and the dynamic part behind them at its own."""
        static = place(self.static, base)
        end = base + static.size_bytes
        start = align_up(end, self.dynamic_alignment)
        addresses = {**static.offsets, **{variable.name: start for variable in self.dynamic}}
        given = start + dynamic_bytes - base if self.dynamic or dynamic_bytes else static.size_bytes
        total = given if dynamic_bytes else static.size_bytes
        return SharedPlacement(base, addresses, static.size_bytes, total, given)


def place(variables: Iterable[Variable], base: int) -> Placement:
    """Lay variables out one after the other from `base`, each at its alignment."""
    offsets: dict[str, int] = {}
    end = base
    for variable in variables:
        end = align_up(end, variable.align)
        offsets[variable.name] = end
        end += variable.size_bytes
    return Placement(offsets, end - base)


def place_parameters(parameters: Iterable[Parameter]) -> Placement:
    """Kernel parameters: one after the other from 0, each at its alignment (PTX ISA, "Kernel Function Parameters")."""
    offsets: dict[str, int] = {}
    end = PARAM_BASE
    for parameter in parameters:
        end = align_up(end, parameter.align)
        offsets[parameter.name] = end
        end += parameter.size_bytes
    return Placement(offsets, end)


def align_up(value: int, alignment: int) -> int:
    """The least multiple of `alignment` that is not below `value`."""
    return -(-value // alignment) * alignment
