"""How much host memory the next wave of a launch takes, before it takes it."""

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.program import Program

_REGISTER_BYTES = 16  # a value and the mask of its undefined bits
_MEMORY_COPIES = 2  # each byte, and which of its bits something wrote


def wave_bytes(program: Program, geometry: Geometry) -> int:
    """Bytes of registers, shared and local memory of a wave; what the order core notes of accesses comes on top."""
    lane = len(program.slot_bits) * _REGISTER_BYTES + program.local_bytes * _MEMORY_COPIES
    return geometry.lanes * lane + geometry.resident.size * geometry.total_shared_bytes * _MEMORY_COPIES


def check_footprint(program: Program, geometry: Geometry, used_bytes: int, limit_bytes: int) -> None:
    """Whether a wave fits the device's memory limit beside its allocations.

    Raises:
        Refusal: it does not; the message says what needs how much.
    """
    needed = wave_bytes(program, geometry)
    if used_bytes + needed <= limit_bytes:
        return
    raise Refusal(
        f"kernel {program.name}: {geometry.resident.size} resident blocks of {geometry.threads} threads need {needed} "
        f"bytes: {len(program.slot_bits)} registers and {program.local_bytes} bytes of local memory a thread, "
        f"{geometry.total_shared_bytes} bytes of shared memory a block; of the device's {limit_bytes} bytes "
        f"{used_bytes} are in use",
        hint="launch fewer threads, free buffers, or raise Device(memory_limit_bytes=...)",
    )
