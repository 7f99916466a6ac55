"""Litmus tests as data: a few threads, each with a few accesses, fences, barriers or copies, and an outcome to ask for.

All places hold 0 at first. Registers are numbered through the test; `r0` and so on are their names in outcomes, where
the name of a place stands for what it holds at the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

SCOPES = ("cta", "cluster", "gpu", "sys")


class Order(Enum):
    """How strong an access is (PTX ISA, "Memory Consistency Model")."""

    WEAK = "weak"
    VOLATILE = "volatile"
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"


@dataclass(frozen=True)
class Write:
    """A store of a number, or of what a register holds."""

    place: str
    value: int
    order: Order = Order.WEAK
    scope: str = "gpu"
    register: int | None = None


@dataclass(frozen=True)
class Read:
    """A load."""

    place: str
    register: int
    order: Order = Order.WEAK
    scope: str = "gpu"


@dataclass(frozen=True)
class Exchange:
    """An atomic exchange."""

    place: str
    value: int
    register: int
    order: Order = Order.RELAXED
    scope: str = "gpu"


@dataclass(frozen=True)
class Fence:
    """`fence.acq_rel` or `fence.sc`."""

    scope: str = "gpu"
    sequential: bool = False


@dataclass(frozen=True)
class Barrier:
    """`bar.sync 0` of the block, or `bar.warp.sync` of the warp."""

    warp: bool = False


@dataclass(frozen=True)
class ProxyFence:
    """`fence.proxy.async.global`."""


@dataclass(frozen=True)
class SmallCopy:
    """`cp.async` to shared memory, the wait for it, and a load of what came."""

    place: str
    register: int


@dataclass(frozen=True)
class BulkLoad:
    """A bulk copy to shared memory, the wait for its mbarrier, and a load of what came."""

    place: str
    register: int


@dataclass(frozen=True)
class BulkStore:
    """A bulk copy of a number from shared memory, and the wait until it is written."""

    place: str
    value: int


Op = Write | Read | Exchange | Fence | Barrier | ProxyFence | SmallCopy | BulkLoad | BulkStore


@dataclass(frozen=True)
class Thread:
    """One thread: in which block, in which warp of it, and what it does."""

    ops: tuple[Op, ...]
    block: int = 0
    warp: int = 0


@dataclass(frozen=True)
class Litmus:
    """A litmus test.

    Attributes:
        name: of its shape and strength.
        threads: what runs.
        outcome: the weak outcome that it asks for.
    """

    name: str
    threads: tuple[Thread, ...]
    outcome: Mapping[str, int]

    @property
    def places(self) -> tuple[str, ...]:
        """All places, in alphabetical order."""
        return tuple(sorted({op.place for t in self.threads for op in t.ops if hasattr(op, "place")}))

    @property
    def registers(self) -> int:
        """How many registers there are."""
        loads = (Read, Exchange, SmallCopy, BulkLoad)
        return sum(isinstance(op, loads) for thread in self.threads for op in thread.ops)

    @property
    def names(self) -> tuple[str, ...]:
        """What an outcome says: registers, then places."""
        return (*(f"r{index}" for index in range(self.registers)), *self.places)

    def asks_for(self, outcome: tuple[int, ...]) -> bool:
        """Whether this is the outcome that the test asks for."""
        return all(outcome[self.names.index(name)] == value for name, value in self.outcome.items())
