"""The kernels of an INT8 product, as records: what each is called, what it takes, how it is compiled and launched.

64x128x64-b2       a tile of 64 x 128 outputs, stages of 64 k, two buffers in shared memory
decode-fused       K split over the grid, added by the last block of a tile to arrive
decode-partial     K split over the grid, added by a second kernel
decode-in-block    K split over groups of threads of a block
scalar             one thread an output
wgmma-128x256-s4   sm_90a and weights packed n-major: tensor copies and wgmma, four stages in shared memory
"""

from dataclasses import dataclass
from enum import StrEnum

from tileproof.kernels.fp8_a8_selector import ceil_div

WARP = 32

DECODE_COLUMNS = 64
"""Of a tile of decode; and its stage of K. A test compares these with the source."""
DECODE_DEPTH = 64
DECODE_MAX_ROWS = 32
IN_BLOCK_PARTS = 2
SCALAR_THREADS, COMBINE_THREADS = 128, 128
WGMMA_ROWS, WGMMA_DEPTH, WGMMA_ATOM = 128, 128, 1024
WGMMA_DEPTH_STEP = 16
"""Of K: tensor maps have strides of whole 16 bytes; what a stage has beyond K arrives as zeros."""
WGMMA_ARCH, WGMMA_PACK = "sm_90a", "n-major"


@dataclass(frozen=True)
class TileArm:
    """All of K in a block.

    Args:
        rows: of the output tile.
        columns: likewise; N is a multiple.
        depth: of a stage; K is a multiple.
        slots: stages in shared memory, one or two.
    """

    rows: int
    columns: int
    depth: int
    slots: int

    @property
    def name(self) -> str:
        """As routes and case ids have it."""
        return f"{self.rows}x{self.columns}x{self.depth}-b{self.slots}"

    @property
    def warp_tile(self) -> tuple[int, int]:
        """Rows and columns that a warp makes: 64 x 32 of tall tiles, else as wide as two warps make the tile."""
        return (64, 32) if self.rows >= 128 else (32, self.columns // 2)

    @property
    def threads(self) -> int:
        """Of a block."""
        rows, columns = self.warp_tile
        return self.rows // rows * (self.columns // columns) * WARP

    @property
    def shared_bytes(self) -> int:
        """Of a block."""
        return self.slots * (self.rows + self.columns) * self.depth

    @property
    def defines(self) -> tuple[str, ...]:
        """Macros of the variant."""
        rows, columns = self.warp_tile
        tile = f"Tile<{self.rows},{self.columns},{self.depth},{rows},{columns}>"
        return (f"INT8_TILE={tile}", f"INT8_SLOTS={self.slots}")

    def obstacle(self, m: int, n: int, k: int) -> str | None:
        """Why it cannot compute a product, in words; None where it can."""
        return _multiples(n, self.columns, k, self.depth)


class Combine(StrEnum):
    """How the parts of a split K come together; the value is the struct of the source."""

    PARTIAL = "Partial"
    FUSED = "Fused"
    IN_BLOCK = "InBlock"


@dataclass(frozen=True)
class DecodeArm:
    """K split, for few rows."""

    combine: Combine

    @property
    def name(self) -> str:
        """As routes and case ids have it."""
        names = {Combine.PARTIAL: "partial", Combine.FUSED: "fused", Combine.IN_BLOCK: "in-block"}
        return f"decode-{names[self.combine]}"

    @property
    def groups(self) -> int:
        """Groups of threads of a block that have a part of K each."""
        return IN_BLOCK_PARTS if self.combine is Combine.IN_BLOCK else 1

    @property
    def takes_planes(self) -> bool:
        """Whether it needs a workspace."""
        return self.combine is not Combine.IN_BLOCK

    @property
    def threads(self) -> int:
        """Of a block."""
        return 4 * WARP * self.groups

    def defines(self, m: int) -> tuple[str, ...]:
        """Macros of the variant for M rows."""
        rows = 16 if m <= 16 else DECODE_MAX_ROWS
        return (f"INT8_ROWS={rows}", f"INT8_COMBINE={self.combine}", f"INT8_GROUPS={self.groups}")

    def obstacle(self, m: int, n: int, k: int) -> str | None:
        """Why it cannot compute a product, in words; None where it can."""
        if m > DECODE_MAX_ROWS:
            return f"M = {m}; the most is {DECODE_MAX_ROWS}"
        if self.combine is Combine.IN_BLOCK and k < DECODE_DEPTH * IN_BLOCK_PARTS:
            return f"K = {k}; the least is {DECODE_DEPTH * IN_BLOCK_PARTS}, a stage for each of {IN_BLOCK_PARTS} groups"
        return _multiples(n, DECODE_COLUMNS, k, DECODE_DEPTH)


@dataclass(frozen=True)
class ScalarArm:
    """One thread an output: takes everything."""

    name: str = "scalar"

    def obstacle(self, m: int, n: int, k: int) -> str | None:
        """None."""
        return None


@dataclass(frozen=True)
class WgmmaArm:
    """A ring of stages that tensor copies fill and warpgroups multiply; the weight is packed n-major.

    Args:
        columns: of the output tile, which has 128 rows; N is a multiple.
        stages: in shared memory.
    """

    columns: int
    stages: int

    @property
    def name(self) -> str:
        """As routes and case ids have it."""
        return f"wgmma-{WGMMA_ROWS}x{self.columns}-s{self.stages}"

    @property
    def threads(self) -> int:
        """Of a block: two warpgroups, and the producer's warp."""
        return 9 * WARP

    @property
    def shared_bytes(self) -> int:
        """Of a block: the stages, and a full and an empty barrier of each, in whole atoms of the swizzle."""
        stages = self.stages * (WGMMA_ROWS + self.columns) * WGMMA_DEPTH
        return ceil_div(stages + 2 * 8 * self.stages, WGMMA_ATOM) * WGMMA_ATOM

    @property
    def defines(self) -> tuple[str, ...]:
        """Macros of the variant."""
        return (f"INT8_COLUMNS={self.columns}", f"INT8_STAGES={self.stages}")

    def obstacle(self, m: int, n: int, k: int) -> str | None:
        """Why it cannot compute a product, in words; None where it can."""
        return _multiples(n, self.columns, k, WGMMA_DEPTH_STEP)


Arm = TileArm | DecodeArm | ScalarArm | WgmmaArm

TUNED_TILES = tuple(
    TileArm(rows, columns, 64, slots)
    for rows, columns in ((64, 128), (128, 64), (64, 64), (128, 128), (256, 64))
    for slots in (1, 2)
)
GENERIC_TILES = (TileArm(64, 128, 128, 1), TileArm(128, 64, 128, 1), TileArm(64, 64, 128, 1))
DECODE = tuple(DecodeArm(combine) for combine in Combine)
SCALAR = ScalarArm()

_ALL: tuple[Arm, ...] = (*TUNED_TILES, *GENERIC_TILES, *DECODE, SCALAR)
ARMS = {arm.name: arm for arm in _ALL}
"""By name: the kernels of every architecture and every order of the weight."""

WGMMA = (WgmmaArm(128, 3), WgmmaArm(128, 4), WgmmaArm(256, 4))
WGMMA_ARMS: dict[str, Arm] = {arm.name: arm for arm in WGMMA}
"""By name: the kernels of WGMMA_ARCH and WGMMA_PACK. The router takes none of them; a caller may."""

WGMMA_SM_COUNT = 132
"""Multiprocessors of the H200 on which the choice among them was measured; and waves from which wide tiles were faster:
at 15.5 they took 0.931 of the other's time, at 3.9 1.036 (measured on H200, int8_speed.json)."""
WGMMA_WIDE_WAVES = 8


def wgmma_arm(m: int, n: int) -> WgmmaArm:
    """Which of the kernels with wgmma is faster on an H200, for N a multiple of 128 and K of some hundreds or more.

    Wide tiles where they come in many waves; a deep ring where a multiprocessor gets one block at most; else three
    stages, which leave room for two blocks.
    """
    shallow, deep, wide = WGMMA
    if n % wide.columns == 0 and ceil_div(m, WGMMA_ROWS) * (n // wide.columns) >= WGMMA_WIDE_WAVES * WGMMA_SM_COUNT:
        return wide
    return deep if ceil_div(m, WGMMA_ROWS) * ceil_div(n, deep.columns) <= WGMMA_SM_COUNT else shallow


def split_of(k: int, parts: int) -> tuple[int, ...]:
    """Where the parts of K begin, and where the last ends, in k: boundaries at whole stages, not always alike."""
    stages = ceil_div(k, DECODE_DEPTH)
    return tuple(part * stages // parts * DECODE_DEPTH for part in range(parts + 1))


def _multiples(n: int, columns: int, k: int, depth: int) -> str | None:
    if n % columns:
        return f"N = {n} is no multiple of {columns}"
    if k % depth or not k:
        return f"K = {k} is no multiple of {depth}"
    return None
