"""Wave operations: what a kernel for gfx928 is written in.

All waves of a block execute the same list. An array of addresses or of active lanes has a row a wave and a column a
lane, [waves, 64]. A register is a name and holds a few bytes of every lane. Loads are asynchronous, as on the machine:
the register of a `GlobalLoad` may be read after `Wait(Counter.VM)`, that of a `DsRead` after `Wait(Counter.LGKM)`; a
`DsWrite` has arrived in LDS after `Wait(Counter.LGKM)`, and other waves may read it after the `Barrier` behind that.

    (GlobalLoad("a0", "x", ...), Wait(Counter.VM), DsWrite("a0", ...), Wait(Counter.LGKM), Barrier(),
     DsRead("fa", ...), DsRead("fb", ...), Wait(Counter.LGKM), Mmac("acc", "fa", "fb"))
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

Addresses = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Arrays = npt.NDArray[Any]


class Counter(Enum):
    """What `s_waitcnt` counts."""

    VM = "vmcnt"
    LGKM = "lgkmcnt"


@dataclass(frozen=True, eq=False)
class GlobalLoad:
    """Bytes of a buffer to a register; an idle lane gets zeros."""

    register: str
    buffer: str
    addresses: Addresses
    nbytes: int
    active: Mask

    def __str__(self) -> str:
        return f"global_load {self.nbytes} bytes of {self.buffer} to {self.register}"


@dataclass(frozen=True, eq=False)
class GlobalStore:
    """A register to a buffer."""

    register: str
    buffer: str
    addresses: Addresses
    nbytes: int
    active: Mask

    def __str__(self) -> str:
        return f"global_store {self.nbytes} bytes of {self.register} to {self.buffer}"


@dataclass(frozen=True, eq=False)
class DsWrite:
    """Bytes `first` .. `first + nbytes` of a register to LDS."""

    register: str
    first: int
    addresses: Addresses
    nbytes: int
    active: Mask

    def __str__(self) -> str:
        return f"ds_write {self.nbytes} bytes of {self.register}"


@dataclass(frozen=True, eq=False)
class DsRead:
    """LDS to bytes `first` .. `first + nbytes` of a register that has `size` bytes."""

    register: str
    size: int
    first: int
    addresses: Addresses
    nbytes: int

    def __str__(self) -> str:
        return f"ds_read {self.nbytes} bytes to {self.register}"


@dataclass(frozen=True)
class Wait:
    """Until everything that the counter counts has happened: `s_waitcnt vmcnt(0)` or `lgkmcnt(0)`."""

    counter: Counter

    def __str__(self) -> str:
        return f"s_waitcnt {self.counter.value}(0)"


@dataclass(frozen=True)
class Barrier:
    """`s_barrier`; it waits for waves, not for what they have in flight."""

    #: Waves that come; None for all.
    waves: frozenset[int] | None = None

    def __str__(self) -> str:
        return "s_barrier"


@dataclass(frozen=True)
class Zero:
    """A register of `size` bytes filled with zeros."""

    register: str
    size: int

    def __str__(self) -> str:
        return f"zero {self.register}"


@dataclass(frozen=True)
class Mmac:
    """accumulator += a · bᵀ: `v_mmac_i32_16x16x32_i8`."""

    accumulator: str
    a: str
    b: str

    def __str__(self) -> str:
        return f"v_mmac {self.accumulator} += {self.a} {self.b}"


@dataclass(frozen=True)
class ShflXor:
    """A register as the lane that differs in `mask` holds it."""

    register: str
    source: str
    mask: int

    def __str__(self) -> str:
        return f"shfl_xor {self.register} = {self.source} ^ {self.mask}"


@dataclass(frozen=True, eq=False)
class Alu:
    """Arithmetic that stays in a lane.

    `apply` takes the bytes of the sources, uint8 [waves, 64, size], and returns those of the result.
    """

    register: str
    sources: tuple[str, ...]
    apply: Callable[..., Arrays]
    name: str

    def __str__(self) -> str:
        return f"{self.name} {self.register} = {', '.join(self.sources)}"


Operation = GlobalLoad | GlobalStore | DsWrite | DsRead | Wait | Barrier | Zero | Mmac | ShflXor | Alu
