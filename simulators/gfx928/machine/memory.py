"""Where bytes are: registers of lanes, buffers in global memory. Each byte knows whether anything was written to it."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.machine.operations import Bytes, Counter, Mask
from tileproof.simulators.gfx928.wave import LANES


@dataclass(eq=False)
class Register:
    """Bytes of every lane, [waves, 64, size]."""

    data: Bytes
    defined: Mask
    #: The counter that the load into it still counts, and the line of that load.
    pending: tuple[Counter, int] | None = None
    #: Bytes, from and to, of the LDS reads into it that are pending.
    parts: list[tuple[int, int]] = field(default_factory=list)

    def is_awaited(self, first: int, end: int) -> bool:
        """Whether something is on its way to bytes of this range; a load from global memory fills all of them."""
        if self.pending is None:
            return False
        return self.pending[0] is Counter.VM or any(max(first, begin) < min(end, last) for begin, last in self.parts)


@dataclass(eq=False)
class Registers:
    """The registers of a block by name."""

    waves: int
    _named: dict[str, Register] = field(default_factory=dict)

    def find(self, name: str) -> Register:
        """A register.

        Raises:
            Refusal: none of that name has been written.
        """
        if name not in self._named:
            raise Refusal(f"register {name} is read and was never written", hint="zero it first")
        return self._named[name]

    def put(self, name: str, data: Bytes, defined: Mask) -> Register:
        """Overwrites a register."""
        register = Register(data, defined)
        self._named[name] = register
        return register

    def part(self, name: str, size: int) -> Register:
        """A register of a size, to be filled in parts; as it is where it has that size."""
        known = self._named.get(name)
        if known is not None and known.data.shape[-1] == size:
            return known
        shape = (self.waves, LANES, size)
        return self.put(name, np.zeros(shape, np.uint8), np.zeros(shape, np.bool_))

    def known(self, name: str) -> Register | None:
        """A register, or None before its first write."""
        return self._named.get(name)

    def settle(self, counter: Counter) -> None:
        """What the counter counted has arrived."""
        for register in self._named.values():
            if register.pending is not None and register.pending[0] is counter:
                register.pending = None
                register.parts.clear()


@dataclass(eq=False)
class Buffer:
    """Global memory of one argument."""

    data: Bytes
    #: How often each byte was stored to.
    stores: npt.NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        self.stores = np.zeros(self.data.size, np.int32)
