"""One tile kernel as a record: tile, waves, stages in LDS, strides, the pack of its weight.

A block computes rows × columns of the output with waves_m × waves_n waves, each of which has a rectangle of it, and
goes through K in stages that stand in LDS once (`buffers` = 1) or twice (2: the next stage is loaded while the unit
works). Example, TP8 down: tile <64, 128, 64>, 2 × 4 waves of 32 × 32, two buffers, strides 88 and 72: 29,696 bytes.

B stands in LDS in one of three ways:

    COLUMN_MAJOR   [N][K]: row n, a stride apart; fragments by reads of 8 bytes
    ROW_MAJOR      [K][N]: row k; fragments byte by byte
    PLANE          [K/8][N][8]: fragments by reads of 8 bytes, neighbours in neighbouring lanes
"""

from dataclasses import dataclass
from enum import Enum

from tileproof.oracle.addresses.lds_tile import CAPACITY_BYTES, LdsTile
from tileproof.oracle.layouts import find_layout
from tileproof.oracle.maps.dumma_fragments import LANES
from tileproof.oracle.refusal import Refusal

#: Rows and columns of C of one instruction, and its K.
UNIT_ROWS, UNIT_COLUMNS, UNIT_K = 16, 16, 32
#: Bytes that a thread stages at a time.
CHUNK = 16


class BStage(Enum):
    """How B stands in LDS."""

    COLUMN_MAJOR = "[N][K]"
    ROW_MAJOR = "[K][N]"
    PLANE = "[K/8][N][8]"


@dataclass(frozen=True, kw_only=True)
class TileKernel:
    """One kernel.

    Raises:
        Refusal: a tile that its waves, the instruction or LDS do not fit, or an unknown pack.
    """

    name: str
    rows: int
    columns: int
    stage: int
    waves_m: int
    waves_n: int
    buffers: int
    stride_a: int
    b: BStage
    #: Bytes from row to row of B; nothing for a plane.
    stride_b: int
    #: Layout of the weight in global memory, a name of `oracle.layouts.PACKS`.
    pack: str
    #: Whether the barrier behind the last stage, which orders nothing, is left in.
    last_barrier: bool = False

    def __post_init__(self) -> None:
        steps = (self.rows, self.columns, self.stage)
        units = (UNIT_ROWS * self.waves_m, UNIT_COLUMNS * self.waves_n, UNIT_K)
        if min(self.waves_m, self.waves_n) < 1:
            raise Refusal(f"{self.name}: {self.waves_m} x {self.waves_n} waves", hint="at least one each way")
        if min(steps) < 1 or any(size % unit for size, unit in zip(steps, units, strict=True)):
            raise Refusal(f"{self.name}: tile {steps} is no multiple of {units}", hint="16 x 16 x 32 a wave and step")
        if self.buffers not in (1, 2):
            raise Refusal(f"{self.name}: {self.buffers} buffers", hint="1 or 2 stages stand in LDS")
        find_layout(self.pack)
        if self.lds_bytes > CAPACITY_BYTES:
            raise Refusal(f"{self.name}: {self.lds_bytes} bytes of LDS", hint=f"a block has {CAPACITY_BYTES}")

    @property
    def waves(self) -> int:
        """Waves of a block."""
        return self.waves_m * self.waves_n

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return LANES * self.waves

    @property
    def a_tile(self) -> LdsTile:
        """One stage of A in LDS."""
        return LdsTile(self.rows, self.stage, self.stride_a)

    @property
    def b_tile(self) -> LdsTile:
        """One stage of B in LDS."""
        if self.b is BStage.COLUMN_MAJOR:
            return LdsTile(self.columns, self.stage, self.stride_b)
        if self.b is BStage.ROW_MAJOR:
            return LdsTile(self.stage, self.columns, self.stride_b)
        return LdsTile(self.stage // 8, 8 * self.columns, 8 * self.columns)

    @property
    def stage_bytes(self) -> int:
        """LDS of one stage of both operands; B follows A."""
        return self.a_tile.size_bytes + self.b_tile.size_bytes

    @property
    def lds_bytes(self) -> int:
        """LDS of a block."""
        return self.buffers * self.stage_bytes

    @property
    def products(self) -> int:
        """`v_mmac` of a wave in a stage."""
        tiles = self.rows // self.waves_m // UNIT_ROWS * (self.columns // self.waves_n // UNIT_COLUMNS)
        return tiles * (self.stage // UNIT_K)

    def __str__(self) -> str:
        return f"{self.name} <{self.rows},{self.columns},{self.stage}> x {self.buffers}"
