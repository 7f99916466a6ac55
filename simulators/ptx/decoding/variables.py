"""Where a kernel's variables lie: shared, local and constant addresses, and the module's global variables."""

from dataclasses import dataclass

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.layout import (
    CONST_BASE,
    LOCAL_BASE,
    Placement,
    SharedVariables,
    place,
    place_parameters,
)
from tileproof.simulators.ptx.limits import CONSTANT_BYTES, LOCAL_BYTES, PARAMETER_BYTES
from tileproof.simulators.ptx.text.syntax import Entry, Module, Variable


@dataclass(frozen=True)
class Variables:
    """The memory layout of one kernel.

    Attributes:
        addresses: local and constant variables by name, each an address in its own space.
        parameters: the parameter area.
        globals: module `.global` variables by name; the device places them.
        shared: shared variables, which a launch places.
        local_bytes: local memory of one lane.
        constant_image: `.const` variables, laid out.
    """

    addresses: dict[str, int]
    parameters: Placement
    globals: dict[str, Variable]
    shared: SharedVariables
    local_bytes: int
    constant_image: bytes

    @classmethod
    def of(cls, module: Module, entry: Entry) -> "Variables":
        """Lay out what the module and the entry declare.

        Raises:
            Refusal: more parameters, constants or local memory than a GPU has.
        """
        everything = [*module.variables.values(), *entry.variables.values()]
        spaces = {name: [v for v in everything if v.space == name] for name in ("shared", "local", "const", "global")}
        local = place(spaces["local"], LOCAL_BASE)
        const = place(spaces["const"], CONST_BASE)
        parameters = place_parameters(entry.parameters)
        for what, size, most in (
            ("parameters", parameters.size_bytes, PARAMETER_BYTES),
            ("constants", const.size_bytes, CONSTANT_BYTES),
            ("local memory for a thread", local.size_bytes, LOCAL_BYTES),
        ):
            if size > most:
                raise Refusal(f"kernel {entry.name} declares {size} bytes of {what}: the limit is {most}")
        return cls(
            addresses={**local.offsets, **const.offsets},
            parameters=parameters,
            globals={v.name: v for v in spaces["global"]},
            shared=SharedVariables(
                tuple(v for v in spaces["shared"] if v.count), tuple(v for v in spaces["shared"] if not v.count)
            ),
            local_bytes=local.size_bytes,
            constant_image=_image(spaces["const"], const),
        )


def _image(variables: list[Variable], placement: Placement) -> bytes:
    """Initial bytes; what has no initialiser is zero (PTX ISA, "Initializers")."""
    image = bytearray(placement.size_bytes)
    for variable in variables:
        start = placement.offsets[variable.name] - CONST_BASE
        image[start : start + variable.size_bytes] = variable.initial or bytes(variable.size_bytes)
    return bytes(image)
