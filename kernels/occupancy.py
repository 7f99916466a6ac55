"""How many blocks of a kernel an SM holds, and what stops one more.

The model is the published one of CUDA's own calculator (documented: cuda_occupancy.h of CUDA 13.0): registers are given
to warps in units, each SM quarter has a quarter of them, shared memory is given to blocks in units with 1 KiB of system
use added, and barriers are shared out like blocks. On sm_90 it is held to the driver's own answers (measured on H200,
recording docs/evidence/h200-2026-11-30/occupancy.json).

Example: 166 registers, 288 threads and 98,816 bytes of shared memory on sm_90: 9 warps take 5,376 registers each, so
one block takes 48,384 of 65,536 and there is no room for another.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from tileproof.kernels.resources import Resources
from tileproof.oracle.refusal import Refusal

WARP = 32
REGISTERS_PER_SM = 65536
REGISTERS_PER_BLOCK = 65536
REGISTER_UNIT = 256  # registers of a warp are given in such units
SM_QUARTERS = 4
SHARED_UNIT_BYTES = 128
SYSTEM_SHARED_BYTES = 1024  # of every block, from sm_80 on
THREADS_PER_BLOCK = 1024
PLAIN_SHARED_BYTES = 48 * 1024  # more needs the launcher's opt-in


class Limit(StrEnum):
    """What stops one more block."""

    WARPS = "warps"
    BLOCKS = "blocks"
    REGISTERS = "registers"
    SHARED = "shared memory"
    BARRIERS = "barriers"


@dataclass(frozen=True)
class Multiprocessor:
    """What one SM holds (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").

    Attributes:
        warps: resident warps at most.
        blocks: resident blocks at most.
        shared_bytes: shared memory.
        shared_bytes_per_block: of it, what one block may ask for.
        barriers: that the blocks share; None where they limit nothing (before sm_90).
    """

    warps: int
    blocks: int
    shared_bytes: int
    shared_bytes_per_block: int
    barriers: int | None


def _sm(warps: int, blocks: int, shared_kib: int, barriers: int | None) -> Multiprocessor:
    return Multiprocessor(warps, blocks, shared_kib * 1024, (shared_kib - 1) * 1024, barriers)


MULTIPROCESSORS = {
    80: _sm(64, 32, 164, None),
    86: _sm(48, 16, 100, None),
    87: _sm(48, 16, 164, None),
    89: _sm(48, 24, 100, None),
    90: _sm(64, 32, 228, 64),
    100: _sm(64, 32, 228, 64),
    103: _sm(64, 32, 228, 64),
    110: _sm(48, 24, 228, 24),
    120: _sm(48, 24, 100, 24),
    121: _sm(48, 24, 100, 24),
}


@dataclass(frozen=True)
class Occupancy:
    """Blocks of one kernel on one SM.

    Attributes:
        blocks: how many are resident together; 0 where not even one fits.
        warps: of those blocks.
        warps_at_most: that the SM could hold.
        limits: what stops one more block, every cause that does.
    """

    blocks: int
    warps: int
    warps_at_most: int
    limits: tuple[Limit, ...]


def multiprocessor(arch: str) -> Multiprocessor:
    """The SM of an architecture such as "sm_90a".

    Raises:
        Refusal: the table does not have it.
    """
    match = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if match is None or int(match[1]) not in MULTIPROCESSORS:
        known = ", ".join(f"sm_{number}" for number in MULTIPROCESSORS)
        raise Refusal(f"the resources of {arch!r} are not known", hint=f"one of {known}")
    return MULTIPROCESSORS[int(match[1])]


def occupancy(arch: str, used: Resources, *, threads: int, dynamic_shared_bytes: int = 0) -> Occupancy:
    """How many blocks of a kernel one SM holds.

    Args:
        arch: such as "sm_90a".
        used: what the compiler says that the kernel takes.
        threads: of a block.
        dynamic_shared_bytes: of a block, asked for at the launch.

    Raises:
        Refusal: an unknown architecture, or a number of threads that no block has.
    """
    sm = multiprocessor(arch)
    if not 1 <= threads <= THREADS_PER_BLOCK:
        raise Refusal(f"a block of {threads} threads: the limit is {THREADS_PER_BLOCK}")
    if dynamic_shared_bytes < 0:
        raise Refusal(f"{dynamic_shared_bytes} bytes of dynamic shared memory: the number is negative")
    warps = -(-threads // WARP)
    most = {
        Limit.WARPS: sm.warps // warps,
        Limit.BLOCKS: sm.blocks,
        Limit.REGISTERS: _blocks_by_registers(used.registers, warps),
        Limit.SHARED: _blocks_by_shared(sm, used.shared_bytes + dynamic_shared_bytes),
    }
    if used.barriers and sm.barriers is not None:
        most[Limit.BARRIERS] = sm.barriers // used.barriers
    blocks = min(most.values())
    limits = tuple(limit for limit, count in most.items() if count == blocks)
    return Occupancy(blocks, blocks * warps, sm.warps, limits)


def _blocks_by_registers(registers: int, warps: int) -> int:
    of_warp = _up(registers * WARP, REGISTER_UNIT)
    # The check of a launch counts warps in fours, one for each quarter of the SM.
    if of_warp * _up(warps, SM_QUARTERS) > REGISTERS_PER_BLOCK:
        return 0
    if not of_warp:
        return REGISTERS_PER_SM
    return REGISTERS_PER_SM // SM_QUARTERS // of_warp * SM_QUARTERS // warps


def _blocks_by_shared(sm: Multiprocessor, asked_bytes: int) -> int:
    if asked_bytes > sm.shared_bytes_per_block:
        return 0
    return sm.shared_bytes // _up(asked_bytes + SYSTEM_SHARED_BYTES, SHARED_UNIT_BYTES)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
