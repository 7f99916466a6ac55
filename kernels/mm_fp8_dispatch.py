"""Which variant of mm_fp8 computes a product: AstrAI's rule at the stage at which batches came in.

    small    64 x 64, three stages, lean rings      up to 64 rows, or below 14/3 tiles of 128 x 128 a multiprocessor
    large    128 x 128, two stages, full rings      everything else

The quotient is rounded down, as in the source: 14/3 of 132 multiprocessors are 616 tiles. Tiles count over the batch.
Blocks walk through groups of eight rows of tiles if A or B lies in memory with its rows together, else row by row.

Every variant takes every problem and gives the same bits, so a caller may name any of them.
"""

from dataclasses import dataclass
from enum import StrEnum

from tileproof.kernels.fp8_a8_selector import ceil_div

STAGE_K = 64
"""Codes of K in a stage of a ring."""


class Route(StrEnum):
    """The variants; the value is the name in a launch and in a case id."""

    LARGE = "128x128-s2"
    LARGE_LEAN = "128x128-s2-lean"
    SMALL = "64x64-s3"
    SMALL_LEAN = "64x64-s3-lean"


@dataclass(frozen=True)
class Schedule:
    """Tile and rings of a variant; a test compares these constants with the source.

    Args:
        tile: name of the tile in the source.
        extent: rows and columns of a tile.
        stages: that are on their way or being multiplied.
        lean: whether the rings of congruous operands have no slot more than that.
        threads: of a block.
    """

    tile: str
    extent: int
    stages: int
    lean: bool
    threads: int

    def slots(self, *, crosswise: bool) -> int:
        """Slots of an operand's ring; a crosswise operand's is never lean."""
        return self.stages if self.lean and not crosswise else self.stages + 1

    def shared_bytes(self, layout: "Layout") -> int:
        """Shared memory of a block."""
        slots = self.slots(crosswise=layout.a_crosswise) + self.slots(crosswise=layout.b_crosswise)
        return slots * self.extent * STAGE_K


SCHEDULES = {
    Route.LARGE: Schedule("Tile128", 128, stages=2, lean=False, threads=256),
    Route.LARGE_LEAN: Schedule("Tile128", 128, stages=2, lean=True, threads=256),
    Route.SMALL: Schedule("Tile64", 64, stages=3, lean=False, threads=128),
    Route.SMALL_LEAN: Schedule("Tile64", 64, stages=3, lean=True, threads=128),
}


@dataclass(frozen=True)
class Layout:
    """How the operands lie in memory: an operand is congruous if K is its contiguous index, and crosswise if not."""

    a_crosswise: bool
    b_crosswise: bool

    @property
    def name(self) -> str:
        """Two letters, A's and B's: N for [M][K] and [K][N], T for [K][M] and [N][K]."""
        return ("T" if self.a_crosswise else "N") + ("N" if self.b_crosswise else "T")


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Where the choice changes.

    Args:
        small_rows: most rows that are always given small tiles.
        tiles: numerator of the large tiles a multiprocessor from which they are taken.
        multiprocessors: its denominator.
        raster_group: rows of tiles that are walked through together.
        source: where the figures are from.
    """

    small_rows: int
    tiles: int
    multiprocessors: int
    raster_group: int
    source: str


SEED_TOP = Thresholds(
    small_rows=64,
    tiles=14,
    multiprocessors=3,
    raster_group=8,
    source="0z5a/AstrAI csrc/kernels/fp8/gemm.cuh (batch in grid.z, staged B off)",
)


def select(rows: int, columns: int, batch: int, sm_count: int, thresholds: Thresholds = SEED_TOP) -> Route:
    """The variant for a product.

    Args:
        rows: M.
        columns: N.
        batch: matrices.
        sm_count: multiprocessors of the device; 0 or less means unknown, which takes the tiles that waste least.
        thresholds: where the choice changes.
    """
    extent = SCHEDULES[Route.LARGE].extent
    tiles = batch * ceil_div(rows, extent) * ceil_div(columns, extent)
    enough = sm_count * thresholds.tiles // thresholds.multiprocessors
    if rows <= thresholds.small_rows or sm_count <= 0 or tiles < enough:
        return Route.SMALL_LEAN
    return Route.LARGE


def raster_group(layout: Layout, thresholds: Thresholds = SEED_TOP) -> int:
    """Rows of tiles that are walked through together; 1 is row by row."""
    return thresholds.raster_group if layout.a_crosswise or not layout.b_crosswise else 1
