"""How a step touches memory, and who does it."""

from dataclasses import dataclass
from enum import IntEnum

from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.program import Access, Kind, Scope, Step


@dataclass(frozen=True)
class AccessKind:
    """How a step touches memory: an atomic is a strong write.

    Attributes:
        writes: it changes memory.
        strong: it does not race with strong accesses of the same place and size whose scope it shares.
        scope: of a strong access.
        atomic: an atomic or reduction.
        by_warp: every access is one of all lanes of the warp, as a row of `ldmatrix` is.
        non_coherent: it may read what was there before the launch (`ld.global.nc`).
        element_bytes: of a strong access; those of a vector are strong one by one.
    """

    writes: bool
    strong: bool = False
    scope: Scope = Scope.CTA
    atomic: bool = False
    by_warp: bool = False
    non_coherent: bool = False
    element_bytes: int = 1

    @classmethod
    def of(cls, step: Step, access: Access) -> "AccessKind":
        """The kind of a LOAD, STORE or ATOMIC."""
        return cls(
            step.kind is not Kind.LOAD,
            access.strong,
            access.scope,
            step.kind is Kind.ATOMIC,
            non_coherent=access.non_coherent,
            element_bytes=access.size,
        )

    @property
    def flags(self) -> int:
        """As in `compiled_order`."""
        flags = core.WRITES * self.writes | core.ATOMIC * self.atomic | core.NON_COHERENT * self.non_coherent
        if self.strong:
            flags |= core.STRONG | self.scope << core.SCOPE_SHIFT
            flags |= (self.element_bytes.bit_length() - 1) << core.SIZE_SHIFT
        return flags


class Engine(IntEnum):
    """Who performs an access that its thread only issues; each counts its own ticks, and none has program order.

    CP_ASYNC, BULK_READ and BULK_WRITE belong to a thread and count its groups: reads and writes of `cp.async`, sources
    of bulk copies, destinations of bulk copies. WGMMA belongs to a warpgroup and counts its groups. BARRIER is an
    mbarrier and counts its phases.
    """

    CP_ASYNC = 0
    BULK_READ = 1
    BULK_WRITE = 2
    WGMMA = 3
    BARRIER = 4

    @property
    def flags(self) -> int:
        """As in `compiled_order`."""
        return (self + 1) << core.ENGINE_SHIFT | (core.SINGLE if self >= Engine.WGMMA else 0)

    @property
    def proxy_flags(self) -> int:
        """Those of what it does through the async proxy."""
        return self.flags | core.ASYNC_PROXY
