"""Launch arguments: numpy scalars and buffers into the kernel's parameter area."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.buffer import Buffer
from tileproof.simulators.ptx.layout import PARAM_BASE
from tileproof.simulators.ptx.machine.memory import GlobalMemory, Window
from tileproof.simulators.ptx.program import Program
from tileproof.simulators.ptx.text.syntax import Parameter


class Addressed(Protocol):
    """Anything with a device address: a buffer."""

    @property
    def address(self) -> int:
        """First byte."""
        ...


Argument = Addressed | np.generic


def parameter_area(program: Program, args: Sequence[Argument], memory: GlobalMemory) -> Window:
    """The arguments' bytes, each at its parameter's offset; padding between parameters stays undefined.

    Raises:
        Refusal: number, width or type of an argument is not what the kernel declares, or a buffer lies elsewhere.
    """
    if len(args) != len(program.parameters):
        wanted = ", ".join(f"{p.name} of {_declared(p)}" for p in program.parameters)
        raise Refusal(
            f"{_counted(len(args), 'argument')}: the kernel {program.name} takes {len(program.parameters)}",
            hint=f"in order: {wanted}" if wanted else "",
        )
    window = Window("parameter", PARAM_BASE, program.parameter_bytes, 1, defined=False)
    for index, (argument, parameter) in enumerate(zip(args, program.parameters, strict=True)):
        raw = _raw(argument, parameter, f"argument {index} ({parameter.name})", memory)
        window.fill(program.parameter_offsets[index], raw)
    return window


def _raw(argument: Argument, parameter: Parameter, place: str, memory: GlobalMemory) -> bytes:
    if isinstance(argument, np.generic):
        _check_type(argument, parameter, place)
        raw = argument.tobytes()
    else:
        raw = np.uint64(_address(argument, parameter, place, memory)).tobytes()
    if len(raw) != parameter.size_bytes:
        raise Refusal(f"{place} has {_counted(len(raw), 'byte')}: the kernel declares {_declared(parameter)}")
    return raw


def _declared(parameter: Parameter) -> str:
    array = f"[{parameter.count}]" if parameter.count != 1 else ""
    return f"{_counted(parameter.size_bytes, 'byte')} (.{parameter.type}{array})"


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def _check_type(argument: np.generic, parameter: Parameter, place: str) -> None:
    """A float for an integer, or the reverse, is a slip whatever its width; untyped parameters take both."""
    number, float_wanted = isinstance(argument, np.number), parameter.type.startswith("f")
    if number and parameter.type[0] in "fus" and isinstance(argument, np.floating) != float_wanted:
        raise Refusal(
            f"{place} is a {type(argument).__name__}: the kernel declares {_declared(parameter)}",
            hint="give a number of the declared type, or a buffer where it is an address",
        )


def _address(argument: Addressed, parameter: Parameter, place: str, memory: GlobalMemory) -> int:
    if isinstance(argument, bool | int | float | complex | str | bytes):
        raise Refusal(
            f"{place} is a Python {type(argument).__name__}, whose width is not known",
            hint=f"give a numpy scalar of {parameter.size_bytes} bytes, e.g. np.int32(7)",
        )
    if isinstance(argument, np.ndarray):
        raise Refusal(
            f"{place} is a numpy array, which lies in host memory",
            hint="upload it; a structure by value is a numpy scalar of a structured dtype, or np.void(bytes)",
        )
    address = getattr(argument, "address", None)
    if not isinstance(address, int):
        raise Refusal(f"{place} is a {type(argument).__name__}", hint="give a buffer of this device or a numpy scalar")
    if isinstance(argument, Buffer):
        argument.check_owner(memory)
    return address
