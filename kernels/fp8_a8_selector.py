"""Which kernel computes an FP8 product: what each can take at all, and which of two that can is cheaper.

The TMA kernel puts one block of 256 tokens on a multiprocessor, the cp.async kernel two of 64. Each fills the device in
waves, and a wave costs the tokens that a multiprocessor works on; measured, a token of the TMA kernel costs 0.936 of
the other's on the published calibration's device. It is taken if its cost is lower by the calibration's margin. A last
wave in which no cp.async block shares its multiprocessor may cost less than a full one, where a calibration says so.

Example, N = 14,336 on 170 multiprocessors: T = 1,024 is 448 TMA blocks, 3 waves, 3 · 256 · 0.936 = 718.8, and 1,792
cp.async blocks, 6 waves, 6 · 128 = 768; 718.8 < 0.98 · 768, so TMA. Everything that neither takes goes to the fallback.

What a kernel can take is code (`obstacle`); when it pays is data (`fp8_a8_calibration`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tileproof.kernels.compile import architecture_number
from tileproof.kernels.fp8_a8_calibration import Calibration
from tileproof.kernels.launcher import MAX_GRID
from tileproof.kernels.occupancy import MULTIPROCESSORS


class Route(StrEnum):
    """The code paths of the product; the value is the route's name in a launch and in a case id."""

    TMA = "tma"
    CP_ASYNC = "cp-async"
    FALLBACK = "fallback"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The tile of a kernel; a test compares these constants with the source."""

    block_tokens: int
    block_rows: int
    block_k: int
    stages: int
    threads: int
    shared_bytes: int
    #: Blocks that share a multiprocessor.
    blocks_per_sm: int


TMA = Schedule(block_tokens=256, block_rows=128, block_k=64, stages=4, threads=288, shared_bytes=98816, blocks_per_sm=1)
CP_ASYNC = Schedule(
    block_tokens=64, block_rows=128, block_k=128, stages=2, threads=256, shared_bytes=49152, blocks_per_sm=2
)

VECTOR_BYTES = 16
"""What the tiled routes copy at once: operands, outputs and all their rows must be aligned to it."""

SCALE_PAIR_BYTES = 4
"""The tiled routes load the scales of two neighbouring rows at once."""

FIRST_WITH_TMA = 90
"""The first architecture with tensor copies (PTX ISA 9.0, "cp.async.bulk.tensor")."""

MAX_COORDINATE = 2**31 - 1
"""Coordinates of a tensor copy are 32-bit integers with a sign."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a choice depends on.

    Args:
        arch: of the device, for example "sm_90a".
        tokens: T.
        rows: N, all rows of the weight.
        depth: K.
        begins: the weight rows at which outputs begin.
        misaligned: names of operands and outputs that are not aligned to VECTOR_BYTES, rows included.
        scales_aligned: whether the weight scales are aligned to SCALE_PAIR_BYTES.
    """

    arch: str
    tokens: int
    rows: int
    depth: int
    begins: tuple[int, ...] = (0,)
    misaligned: tuple[str, ...] = ()
    scales_aligned: bool = True


def obstacle(route: Route, problem: Problem) -> str | None:
    """Why a kernel cannot take a problem, in words; None if it can."""
    return next(_OBSTACLES[route](problem), None)


def select(
    problem: Problem, sm_count: int, calibration: Calibration, routes: Collection[Route] = tuple(Route)
) -> Route:
    """The route of a problem.

    Args:
        problem: the call.
        sm_count: multiprocessors of the device; 0 or less means unknown, which declines the TMA route.
        calibration: what is known about the costs.
        routes: those that there are; the fallback is always understood.
    """
    able = [route for route in (Route.TMA, Route.CP_ASYNC) if route in routes and obstacle(route, problem) is None]
    if Route.TMA in able and not is_worth(problem, sm_count, calibration):
        able.remove(Route.TMA)
    return able[0] if able else Route.FALLBACK


def is_worth(problem: Problem, sm_count: int, calibration: Calibration) -> bool:
    """Whether the calibration finds the TMA route cheaper than the cp.async route."""
    ceiling = calibration.ceiling(problem.rows, problem.depth)
    if problem.tokens < calibration.min_tokens or (ceiling is not None and problem.tokens > ceiling):
        return False
    if sm_count <= 0:
        return False
    tma = work(TMA, problem, sm_count) * calibration.work_ratio
    return tma < work(CP_ASYNC, problem, sm_count, calibration.lone_block) * (1.0 - calibration.margin)


def work(schedule: Schedule, problem: Problem, sm_count: int, lone_block: float = 1.0) -> float:
    """Tokens that one multiprocessor works on.

    Args:
        schedule: of the kernel.
        problem: the call.
        sm_count: multiprocessors of the device.
        lone_block: what a last wave costs that gives no multiprocessor a second block, relative to a full one.
    """
    blocks = problem.rows // schedule.block_rows * ceil_div(problem.tokens, schedule.block_tokens)
    waves, rest = divmod(blocks, schedule.blocks_per_sm * sm_count)
    lone = 0 < rest <= sm_count < schedule.blocks_per_sm * sm_count
    last = lone_block if lone else float(rest > 0)
    return (waves + last) * schedule.blocks_per_sm * schedule.block_tokens


def ceil_div(dividend: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return -(-dividend // divisor)


def _tiled(schedule: Schedule, problem: Problem) -> Iterator[str]:
    rows, block_k = schedule.block_rows, schedule.block_k
    if problem.rows % rows:
        yield f"N = {problem.rows} is no multiple of {rows}"
    if problem.depth % block_k:
        yield f"K = {problem.depth} is no multiple of {block_k}"
    for begin in problem.begins:
        if begin % rows:
            yield f"an output begins at weight row {begin}, which is no multiple of {rows}"
    if problem.misaligned:
        yield f"{problem.misaligned[0]} is not aligned to {VECTOR_BYTES} bytes, address and row stride"
    if not problem.scales_aligned:
        yield f"weight_scales is not aligned to {SCALE_PAIR_BYTES} bytes"
    tiles, limit = ceil_div(problem.tokens, schedule.block_tokens), MAX_GRID[1]
    if tiles > limit:
        yield f"T = {problem.tokens} is {tiles} tiles of {schedule.block_tokens} tokens; the most is {limit}"


def _tma(problem: Problem) -> Iterator[str]:
    number = architecture_number(problem.arch)
    if number < FIRST_WITH_TMA:
        yield f"{problem.arch} has no tensor copies"
    if number not in MULTIPROCESSORS:
        yield f"the shared memory of {problem.arch} is not known"
    elif TMA.shared_bytes > MULTIPROCESSORS[number].shared_bytes_per_block:
        limit = MULTIPROCESSORS[number].shared_bytes_per_block
        yield f"a block takes {TMA.shared_bytes} bytes of shared memory; {problem.arch} gives it {limit}"
    for name, extent in (("N", problem.rows), ("K", problem.depth)):
        if extent > MAX_COORDINATE:
            yield f"{name} = {extent} is beyond the coordinates of a tensor copy; the most is {MAX_COORDINATE}"
    yield from _tiled(TMA, problem)


_OBSTACLES: Mapping[Route, Callable[[Problem], Iterator[str]]] = {
    Route.TMA: _tma,
    Route.CP_ASYNC: lambda problem: _tiled(CP_ASYNC, problem),
    Route.FALLBACK: lambda problem: iter(()),
}
