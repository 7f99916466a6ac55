"""The tile kernels that were accepted, and the generic arms behind them.

Tiles, waves, buffers, strides and packs are as their authors report them (`kernel_reports`). What they leave open is
chosen here and marked: the strides of the generic arms, which no source gives, and that B of the M = 3072 kernel and of
TP4 o_proj, whose weights are stored along N, stands in LDS as it comes from memory.
"""

from dataclasses import replace

from tileproof.simulators.gfx928.tiles.tile_kernel import BStage, TileKernel

_N_MAJOR = "n-major"


def _kernel(
    name: str,
    tile: tuple[int, int, int],
    waves: tuple[int, int],
    buffers: int,
    strides: tuple[int, int],
    pack: str = _N_MAJOR,
    b: BStage = BStage.COLUMN_MAJOR,
    last_barrier: bool = False,
) -> TileKernel:
    return TileKernel(
        name=name,
        rows=tile[0],
        columns=tile[1],
        stage=tile[2],
        waves_m=waves[0],
        waves_n=waves[1],
        buffers=buffers,
        stride_a=strides[0],
        b=b,
        stride_b=strides[1],
        pack=pack,
        last_barrier=last_barrier,
    )


#: By the names of `kernel_reports`; a kernel of two waves more in one direction has its rectangles smaller there.
ACCEPTED_TILES = (
    _kernel("TP4 M3072 wqkv_a", (64, 64, 64), (2, 2), 2, (64, 64), "contiguous", BStage.ROW_MAJOR),
    _kernel("TP4 M4096 qkv", (64, 128, 64), (2, 2), 1, (68, 80)),
    _kernel("TP4 M4096 o_proj", (128, 64, 64), (2, 2), 2, (80, 80), "panel-64", BStage.ROW_MAJOR),
    _kernel("TP4 M4096 gate_up", (64, 128, 64), (2, 4), 2, (80, 80), last_barrier=True),
    _kernel("TP4 M4096 down", (128, 64, 64), (4, 2), 2, (80, 72)),
    _kernel("TP8 M4096 qkv", (64, 128, 64), (2, 2), 1, (68, 80)),
    _kernel("TP8 M4096 o_proj", (128, 64, 64), (2, 2), 1, (80, 80), last_barrier=True),
    _kernel("TP8 M4096 gate_up", (64, 128, 64), (2, 4), 2, (80, 80), last_barrier=True),
    _kernel("TP8 M4096 down", (64, 128, 64), (2, 4), 2, (88, 72), last_barrier=True),
    _kernel("GLM TP8 M4096 fused_qkv_a", (128, 64, 64), (2, 2), 2, (72, 72), "panel-64-k16"),
    _kernel("GLM TP8 M4096 kv_b", (64, 128, 64), (2, 4), 1, (88, 0), "stage-64-n128-k8", BStage.PLANE),
    _kernel("GLM TP8 M4096 q_b", (128, 128, 64), (2, 2), 1, (80, 0), "stage-64-k8", BStage.PLANE),
    _kernel("GLM TP8 M4096 o_proj", (256, 64, 64), (2, 2), 1, (88, 72)),
    _kernel("GLM TP8 M4096 shared_down", (64, 128, 64), (2, 4), 1, (88, 72), "tile-128x64"),
    _kernel("GLM TP8 M4096 shared_gate_up", (64, 64, 64), (2, 2), 2, (88, 72), last_barrier=True),
)

#: Generic arms: single buffer, weight as stored. Their strides are ours: a row and 16 bytes.
GENERIC_TILES = (
    _kernel("generic", (64, 128, 128), (2, 2), 1, (144, 144), "contiguous", BStage.ROW_MAJOR),
    _kernel("generic", (128, 64, 128), (2, 2), 1, (144, 80), "contiguous", BStage.ROW_MAJOR),
    _kernel("generic", (64, 64, 128), (2, 2), 1, (144, 80), "contiguous", BStage.ROW_MAJOR),
)


def other_buffering(kernel: TileKernel) -> TileKernel:
    """The same tile with two stages in LDS where it has one, and with one where it has two."""
    return replace(kernel, name=f"{kernel.name}, other buffering", buffers=3 - kernel.buffers)
