"""How a step touches memory, and who does it."""

from dataclasses import dataclass
from enum import IntEnum

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
    """

    writes: bool
    strong: bool = False
    scope: Scope = Scope.CTA
    atomic: bool = False
    by_warp: bool = False
    non_coherent: bool = False

    @classmethod
    def of(cls, step: Step, access: Access) -> "AccessKind":
        """The kind of a LOAD, STORE or ATOMIC."""
        writes = step.kind is not Kind.LOAD
        return cls(writes, access.strong, access.scope, step.kind is Kind.ATOMIC, non_coherent=access.non_coherent)


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
