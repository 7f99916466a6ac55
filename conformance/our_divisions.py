"""How our own kernels divide their outputs, by route. The constants are those of the CUDA sources; a test changes one
register of one lane in each source and looks for it here."""

from collections.abc import Mapping
from math import prod

from tileproof.conformance.division import Division
from tileproof.kernels.fp8_a8_selector import Route as A8Route
from tileproof.kernels.int8_arms import (
    ARMS,
    DECODE_COLUMNS,
    DECODE_MAX_ROWS,
    WGMMA_ARMS,
    WGMMA_ROWS,
    Combine,
    DecodeArm,
    TileArm,
    WgmmaArm,
)
from tileproof.kernels.mm_fp8_dispatch import SCHEDULES, select
from tileproof.oracle.maps.mma_fragments import mma_c
from tileproof.oracle.maps.wgmma_fragments import wgmma_d

MMA = mma_c(16, 32, 32, 8)
"""m16n8k32 on operands of 8 bits, accumulators of 32."""
WGMMA_COLUMNS = 128
"""Of one wgmma of int8_gemm_wgmma; a wider tile is several."""

_A8 = {
    A8Route.TMA: Division((256, 128), (64, 64), MMA, first_warp=1),
    A8Route.CP_ASYNC: Division((64, 128), (32, 32), MMA),
    A8Route.FALLBACK: Division((64, 8), (16, 8), MMA),
}
_A8_PAIRED = {
    A8Route.TMA: Division((256, 64), (64, 64), MMA, 1, 2, "the gates' warps, the up values' are one further"),
    A8Route.CP_ASYNC: Division((64, 64), (32, 32), MMA, 0, 4, "the gates' warps, the up values' are two further"),
    A8Route.FALLBACK: Division((64, 8), (16, 8), MMA),
}
FEWEST_AND_MOST = (1, 1024)
"""Multiprocessors of a device: the choice goes one way between them."""
_MM_PARTS = {128: (64, 32), 64: (32, 32)}
_MM = {route: Division((of.extent, of.extent), _MM_PARTS[of.extent], MMA) for route, of in SCHEDULES.items()}

_HALVES = "the first group's warps, the second's are four further"
_SPLIT = "of every block that has a part of K"


def fp8_a8(route: str, *, paired: bool) -> Division | None:
    """Of the FP8 product of ninfer's operators; None for a route that launches nothing."""
    known: Mapping[str, Division] = {str(one): found for one, found in (_A8_PAIRED if paired else _A8).items()}
    return known.get(route)


def mm_fp8(route: str) -> Division | None:
    """Of mm_fp8; None for a route that launches nothing."""
    return {str(one): found for one, found in _MM.items()}.get(route)


def chosen_mm_fp8(leading: tuple[int, ...], columns: int) -> Division | None:
    """Of a product for which mm_fp8's launcher chooses the variant; None where devices may choose differently.

    Args:
        leading: the output's extents but the last; all of them are rows of one matrix.
        columns: the last.
    """
    if prod(leading[:-1]) != 1:
        return None  # several leading rows of one matrix: a tile may go across them
    routes = {select(leading[-1], columns, 1, multiprocessors) for multiprocessors in (0, *FEWEST_AND_MOST)}
    return _MM[routes.pop()] if len(routes) == 1 else None


def int8_gemm(route: str, rows: int) -> Division | None:
    """Of the INT8 products; None for the scalar kernel, which has no tiles, and where nothing is launched.

    Args:
        route: as case ids have it.
        rows: M, by which decode kernels choose their tile.
    """
    match ARMS.get(route) or WGMMA_ARMS.get(route):
        case TileArm() as arm:
            return Division((arm.rows, arm.columns), arm.warp_tile, MMA)
        case DecodeArm() as arm:
            height = 16 if rows <= 16 else DECODE_MAX_ROWS
            words = _HALVES if arm.combine is Combine.IN_BLOCK else _SPLIT
            return Division((height, DECODE_COLUMNS), (height, 16), MMA, words=words)
        case WgmmaArm() as arm:
            return Division((WGMMA_ROWS, arm.columns), (64, arm.columns), wgmma_d(WGMMA_COLUMNS, 32, 32))
        case _:
            return None
