"""Addresses of variables and parameters, and the windows of the generic address space."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tileproof.simulators.ptx.text.syntax import Parameter, Variable

# Shared addresses of a kernel start behind the block's 1 KiB of system use (CUDA C++ Programming Guide, "Technical
# Specifications per Compute Capability": 1 KB of shared memory is reserved per thread block from 8.0 on). Inferred for
# the start address itself; an address below it is out of bounds.
SHARED_BASE = 0x400
LOCAL_BASE = 0x10
CONST_BASE = 0x10
PARAM_BASE = 0

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
