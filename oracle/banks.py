"""Bank conflicts of one warp access to shared memory (NVIDIA, measured) or LDS (waves of 64, as its users document).

The memory has 32 banks of 4 bytes; the word at byte address a lies in bank (a / 4) % 32. A phase serves 128 bytes: 32
lanes of up to 4 bytes each, 16 lanes of 8, or 8 lanes of 16, in lane order. Within a phase every bank serves one word a
pass; lanes that want the same word share it. So a phase takes as many passes as its busiest bank has different words,
and every pass beyond the first is a conflict. Example, 32 lanes reading 4 bytes at 8 · lane: banks 0, 2, .., 30 have
two words each, 2 passes, 1 conflict. At stride 64 bytes: banks 0 and 16 have 16 words each, 16 passes.

Two rules that no manual states, seen on an H200 for 8- and 16-byte accesses:

* A load runs its phases in pairs at once, 32 lanes of 8 bytes or 16 lanes of 16, when throughout the warp each lane
  has the address of its neighbour (lane ^ 1), or throughout the warp that of lane ^ 2; idle lanes agree with anyone.
* A load takes at least as many passes as it has phases, idle ones included; an idle phase costs a store nothing.

Sources: CUDA C++ Programming Guide, shared memory of compute capability 5.x and later (banks, sharing of a word);
phases, pairs and idle lanes measured on an H200 (tests/golden, h200_shared_banks: 690 patterns a width, loads and
stores; every one as counted here).
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.arguments import require_member, whole
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.refusal import Refusal

WIDTHS = (1, 2, 4, 8, 16)

Lanes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Access(Enum):
    """Whether a warp reads or writes."""

    LOAD = "load"
    STORE = "store"


@dataclass(frozen=True, kw_only=True)
class BankedMemory:
    """A banked memory and the warp that uses it."""

    name: str
    #: Lanes of a warp or wave.
    lanes: int
    banks: int
    bank_bytes: int
    #: Whether loads pair phases and pay for idle ones, as measured on an H200.
    pairs_phases: bool
    source: str
    #: How the phases are known.
    evidence: Evidence

    def phase_lanes(self, width_bytes: int) -> int:
        """Lanes that one phase serves, in lane order.

        Raises:
            Refusal: a width that no load has.
        """
        if whole("width_bytes", width_bytes) not in WIDTHS:
            raise Refusal(f"an access of {width_bytes} bytes a lane", hint="widths are 1, 2, 4, 8 and 16 bytes")
        return min(self.lanes, self.banks * self.bank_bytes // max(width_bytes, self.bank_bytes))


SHARED = BankedMemory(
    name="shared memory, warp of 32",
    lanes=32,
    banks=32,
    bank_bytes=4,
    pairs_phases=True,
    source="measured on H200, recording h200_shared_banks",
    evidence=Evidence.MEASURED,
)
LDS = BankedMemory(
    name="LDS, wave of 64",
    lanes=64,
    banks=32,
    bank_bytes=4,
    pairs_phases=False,
    source="HuangPuStar/MetaInfer variant/int8w8a8-gemm/hy3/TP8/M4096/shared_down_proj.hip @08ddbe41, load_frag8 "
    "(banks, phases of reads); int8-w8a8-gemm-prefill/SKILL.md @f3ac90ad sections 4.4, 6 (counts that it reproduces)",
    evidence=Evidence.DOCUMENTED,
)


@dataclass(frozen=True)
class BankUse:
    """What one access of a warp costs."""

    #: Passes that it would take without any conflict.
    phases: int
    #: Passes over the banks, all phases together.
    passes: int
    #: The most passes of a single phase: "n-way".
    ways: int

    @property
    def conflicts(self) -> int:
        """Passes beyond one a phase."""
        return self.passes - self.phases


def bank_use(
    addresses: npt.ArrayLike,
    width_bytes: int,
    *,
    memory: BankedMemory = SHARED,
    access: Access = Access.LOAD,
    active: npt.ArrayLike | None = None,
) -> BankUse:
    """Counts the passes of one access.

    Args:
        addresses: byte address of each lane, [lanes]; what an idle lane holds is not looked at.
        width_bytes: bytes a lane moves: 1, 2, 4, 8 or 16.
        memory: `SHARED` or `LDS`.
        access: loads and stores differ in wide accesses of `SHARED`.
        active: bool [lanes]; None for all.

    Raises:
        Refusal: another number of lanes, addresses that are no integers, one that is negative, no multiple of the width
            or above 2^63 - 1, or another access than there is.
    """
    require_member(Access, "access", access)
    lanes = memory.phase_lanes(width_bytes)
    given = np.asarray(addresses)
    mask = np.ones(memory.lanes, np.bool_) if active is None else np.asarray(active, dtype=np.bool_)
    if given.shape != (memory.lanes,) or mask.shape != (memory.lanes,):
        raise Refusal(f"{memory.name} has {memory.lanes} lanes; addresses {given.shape}, active {mask.shape}")
    array = _require_addresses(given, mask)
    bad = np.flatnonzero(mask & ((array < 0) | (array % width_bytes != 0)))
    if bad.size:
        raise Refusal(
            f"lane {bad[0]}: address {array[bad[0]]} is no multiple of its {width_bytes} bytes",
            hint=f"take addresses that are multiples of {width_bytes}, or a narrower access",
        )
    if not mask.any():
        return BankUse(0, 0, 0)
    quirks = memory.pairs_phases and access is Access.LOAD and lanes < memory.lanes
    if quirks and _pairs(array, mask):
        lanes *= 2
    counts = [
        _passes(array[first : first + lanes][mask[first : first + lanes]], width_bytes, memory)
        for first in range(0, memory.lanes, lanes)
    ]
    phases = len(counts) if quirks else sum(count > 0 for count in counts)
    return BankUse(phases, max(phases, sum(counts)), max(counts))


def _require_addresses(given: npt.NDArray[Any], active: Mask) -> Lanes:
    if given.dtype.kind not in "iu":
        raise Refusal(f"addresses of type {given.dtype} are no integers", hint="pass byte addresses as int64")
    high = np.flatnonzero(active & (given > np.iinfo(np.int64).max))
    if high.size:
        raise Refusal(f"lane {high[0]}: address {given[high[0]]} is above 2^63 - 1", hint="pass int64 addresses")
    return given.astype(np.int64)


def _pairs(addresses: Lanes, active: Mask) -> bool:
    """Whether all lanes agree with lane ^ 1, or all with lane ^ 2, idle lanes with anyone."""
    lane = np.arange(addresses.size)
    return any(bool(np.all((addresses == addresses[lane ^ step]) | ~active | ~active[lane ^ step])) for step in (1, 2))


def _passes(addresses: Lanes, width_bytes: int, memory: BankedMemory) -> int:
    """Passes of one phase: different words in the busiest bank."""
    words_each = max(1, width_bytes // memory.bank_bytes)
    words = {int(address) // memory.bank_bytes + i for address in addresses for i in range(words_each)}
    in_bank = [0] * memory.banks
    for word in words:
        in_bank[word % memory.banks] += 1
    return max(in_bank)
