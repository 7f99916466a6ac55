"""One launch: arguments into the parameter area, the grid into waves of resident blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.engine import Engine
from tileproof.simulators.ptx.findings import Counters, Findings, Index3, Report
from tileproof.simulators.ptx.geometry import Geometry
from tileproof.simulators.ptx.layout import CONST_BASE, PARAM_BASE, align_up
from tileproof.simulators.ptx.limits import Limits
from tileproof.simulators.ptx.memory import GlobalMemory, Window
from tileproof.simulators.ptx.order import WARP
from tileproof.simulators.ptx.program import Program
from tileproof.simulators.ptx.schedule import WAVE_LANES, Schedule
from tileproof.simulators.ptx.syntax import Parameter
from tileproof.simulators.ptx.wave import LaunchMemory, Wave

# Bytes of read records (shared bytes times warps) that one wave may hold; it lowers the resident blocks.
_ORDER_RECORDS = 1 << 22
_GRID_LIMIT = (2**31 - 1, 65535, 65535)
_BLOCK_LIMIT = (1024, 1024, 64)
_THREAD_LIMIT = 1024


class Addressed(Protocol):
    """Anything with a device address: a buffer."""

    @property
    def address(self) -> int:
        """First byte."""
        ...


Argument = Addressed | np.generic


@dataclass(frozen=True)
class LaunchShape:
    """Grid, block and dynamic shared memory of one launch."""

    grid: Index3
    block: Index3
    shared_bytes: int


def launch(
    program: Program,
    shape: LaunchShape,
    args: Sequence[Argument],
    *,
    global_memory: GlobalMemory,
    global_addresses: Mapping[int, int],
    schedule: Schedule,
    limits: Limits,
    step_budget: int,
) -> Report:
    """Run a kernel to its end.

    Raises:
        Refusal: grid, block, shared memory or arguments are illegal, or the kernel is outside the modelled range.
    """
    _check_shape(program, shape, limits)
    memory = LaunchMemory(global_memory, _parameters(program, args), _constants(program))
    findings, counters = Findings(), Counters()
    dynamic = align_up(program.shared_bytes, program.dynamic_alignment) if shape.shared_bytes else program.shared_bytes
    total_shared = dynamic + shape.shared_bytes
    left = np.arange(shape.grid[0] * shape.grid[1] * shape.grid[2])
    threads = shape.block[0] * shape.block[1] * shape.block[2]
    warps = -(-threads // WARP)
    most = max(1, min(WAVE_LANES // (warps * WARP), _ORDER_RECORDS // max(1, total_shared * warps)))
    while left.size:
        resident = schedule.wave(left, most)
        left = left[resident.size :] if (left[: resident.size] == resident).all() else np.setdiff1d(left, resident)
        geometry = Geometry(shape.grid, shape.block, resident, shape.shared_bytes, total_shared)
        wave = Wave(program, geometry, memory, global_addresses, findings, counters)
        step_budget = Engine(wave, schedule, step_budget).run()
    return findings.report(counters)


def _check_shape(program: Program, shape: LaunchShape, limits: Limits) -> None:
    for name, extent, limit in (("grid", shape.grid, _GRID_LIMIT), ("block", shape.block, _BLOCK_LIMIT)):
        if len(extent) != 3 or any(not 1 <= n <= most for n, most in zip(extent, limit, strict=True)):
            raise Refusal(f"{name} {extent}: each of x, y, z must lie in 1 to {limit}")
    threads = shape.block[0] * shape.block[1] * shape.block[2]
    if threads > _THREAD_LIMIT:
        raise Refusal(f"block {shape.block} has {threads} threads, the limit is {_THREAD_LIMIT}")
    limit3 = program.thread_limit
    if limit3 is not None:
        most = limit3[0] * limit3[1] * limit3[2]
        if threads > most or (program.thread_exact and shape.block != limit3):
            rule = ".reqntid" if program.thread_exact else ".maxntid"
            raise Refusal(f"block {shape.block}: the kernel {program.name} was compiled with {rule} {limit3}")
    if shape.shared_bytes < 0 or program.shared_bytes + shape.shared_bytes > limits.shared_bytes_per_block:
        raise Refusal(
            f"{program.shared_bytes} bytes of static and {shape.shared_bytes} of dynamic shared memory: "
            f"{limits.arch} has {limits.shared_bytes_per_block} a block"
        )


def _constants(program: Program) -> Window:
    window = Window("constant", CONST_BASE, len(program.constant_image), 1, defined=True)
    window.data[: len(program.constant_image)] = np.frombuffer(program.constant_image, np.uint8)
    return window


def _parameters(program: Program, args: Sequence[Argument]) -> Window:
    if len(args) != len(program.parameters):
        raise Refusal(f"{len(args)} arguments: the kernel {program.name} takes {len(program.parameters)}")
    window = Window("parameter", PARAM_BASE, program.parameter_bytes, 1, defined=False)
    assert window.undefined is not None
    for index, (argument, parameter) in enumerate(zip(args, program.parameters, strict=True)):
        raw = _raw(argument, parameter, index)
        start = program.parameter_offsets[index]
        window.data[start : start + len(raw)] = np.frombuffer(raw, np.uint8)
        window.undefined[start : start + len(raw)] = 0
    if not window.undefined[: program.parameter_bytes].any():
        window.undefined = None
    return window


def _raw(argument: Argument, parameter: Parameter, index: int) -> bytes:
    place = f"argument {index} ({parameter.name})"
    if isinstance(argument, bool | int | float | complex | str | bytes) and not isinstance(argument, np.generic):
        raise Refusal(
            f"{place} is a Python {type(argument).__name__}, whose width is not known",
            hint=f"give a numpy scalar of {parameter.size_bytes} bytes, e.g. np.int32(7)",
        )
    raw = argument.tobytes() if isinstance(argument, np.generic) else _address_of(argument, place)
    if len(raw) != parameter.size_bytes:
        raise Refusal(f"{place} has {len(raw)} bytes: the kernel declares {parameter.size_bytes} (.{parameter.type})")
    return raw


def _address_of(argument: Addressed, place: str) -> bytes:
    address = getattr(argument, "address", None)
    if not isinstance(address, int):
        raise Refusal(f"{place} is a {type(argument).__name__}", hint="give a buffer of this device or a numpy scalar")
    return np.uint64(address).tobytes()
