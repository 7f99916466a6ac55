"""The accepted INT8 kernels as their authors report them: tiles, LDS, registers, resident blocks. None of it is ours.

A figure that no source gives is None. Example, q_b of the GLM family: tile 128 × 128, 256 threads, 18,432 bytes of LDS,
141 registers, one block in a compute unit.

Sources, all HuangPuStar/MetaInfer, metainfer/tasks/dcu_kernel_auto_opt/skills: int8-w8a8-gemm-prefill/SKILL.md
@f3ac90ad sections 1, 3.3, 4.4, 6 and references/wqkv-a-m3072-prefetch-isa.md @812e007f; int8-w8a8-gemm-decode/SKILL.md
@08ddbe41 section 1.1 and references/wqkv-a-m16-split10-570gbps.md @f3ac90ad.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tile:
    """What a block of a prefill kernel computes and how it stages it."""

    rows: int
    columns: int
    #: K of one stage.
    stage: int
    #: Stages in LDS at a time: 1 or 2.
    buffers: int
    #: Bytes from row to row; None where B is not strided.
    stride_a: int
    stride_b: int | None


@dataclass(frozen=True, kw_only=True)
class KernelReport:
    """One accepted kernel."""

    #: Family and shape, as in the ledger.
    shape: str
    #: M, N, K.
    extent: tuple[int, int, int]
    threads: int
    lds_bytes: int
    tile: Tile | None = None
    #: Vector registers of a thread.
    registers: int | None = None
    #: Blocks that are resident in a compute unit.
    blocks: int | None = None
    #: Whether the report says that registers stop one more block.
    register_bound: bool = False
    #: `s_barrier` that a block executes.
    barriers: int | None = None
    note: str = ""


def _tile(rows: int, columns: int, buffers: int, stride_a: int, stride_b: int | None) -> Tile:
    return Tile(rows=rows, columns=columns, stage=64, buffers=buffers, stride_a=stride_a, stride_b=stride_b)


M3072 = KernelReport(
    shape="TP4 M3072 wqkv_a",
    extent=(3072, 1536, 4096),
    threads=256,
    lds_bytes=16_384,
    tile=_tile(64, 64, 2, 64, 64),
    registers=63,
)

_TP4 = (
    KernelReport(
        shape="TP4 M4096 qkv",
        extent=(4096, 2560, 4096),
        threads=256,
        lds_bytes=14_592,
        tile=_tile(64, 128, 1, 68, 80),
        registers=80,
        blocks=3,
    ),
    KernelReport(
        shape="TP4 M4096 o_proj",
        extent=(4096, 4096, 2048),
        threads=256,
        lds_bytes=30_720,
        tile=_tile(128, 64, 2, 80, 80),
        blocks=2,
    ),
    KernelReport(
        shape="TP4 M4096 gate_up",
        extent=(4096, 768, 4096),
        threads=512,
        lds_bytes=30_720,
        tile=_tile(64, 128, 2, 80, 80),
        blocks=2,
        barriers=65,
        note="strides follow from the bytes",
    ),
    KernelReport(
        shape="TP4 M4096 down",
        extent=(4096, 4096, 384),
        threads=512,
        lds_bytes=29_696,
        tile=_tile(128, 64, 2, 80, 72),
        registers=57,
        blocks=2,
        register_bound=True,
    ),
)

_TP8 = (
    KernelReport(
        shape="TP8 M4096 qkv",
        extent=(4096, 1280, 4096),
        threads=256,
        lds_bytes=14_592,
        tile=_tile(64, 128, 1, 68, 80),
        registers=96,
        blocks=2,
        register_bound=True,
        barriers=127,
        note="96 by the hardware's count, 89 by the code object's",
    ),
    KernelReport(
        shape="TP8 M4096 o_proj",
        extent=(4096, 4096, 1024),
        threads=256,
        lds_bytes=15_360,
        tile=_tile(128, 64, 1, 80, 80),
        registers=61,
        blocks=3,
        barriers=32,
        note="3 blocks in one place, 3 to 4 in another",
    ),
    KernelReport(
        shape="TP8 M4096 gate_up",
        extent=(4096, 384, 4096),
        threads=512,
        lds_bytes=30_720,
        tile=_tile(64, 128, 2, 80, 80),
        registers=53,
        blocks=2,
        barriers=65,
        note="strides follow from the bytes",
    ),
    KernelReport(
        shape="TP8 M4096 down",
        extent=(4096, 4096, 192),
        threads=512,
        lds_bytes=29_696,
        tile=_tile(64, 128, 2, 88, 72),
        registers=57,
        blocks=2,
        barriers=4,
        note="55 to 57 registers",
    ),
)

_GLM = (
    KernelReport(
        shape="GLM TP8 M4096 fused_qkv_a",
        extent=(4096, 2624, 6144),
        threads=256,
        lds_bytes=27_648,
        tile=_tile(128, 64, 2, 72, 72),
        registers=93,
        blocks=2,
    ),
    KernelReport(
        shape="GLM TP8 M4096 kv_b",
        extent=(4096, 3584, 512),
        threads=512,
        lds_bytes=13_824,
        tile=_tile(64, 128, 1, 88, None),
        registers=61,
        blocks=2,
    ),
    KernelReport(
        shape="GLM TP8 M4096 q_b",
        extent=(4096, 2048, 2048),
        threads=256,
        lds_bytes=18_432,
        tile=_tile(128, 128, 1, 80, None),
        registers=141,
        blocks=1,
    ),
    KernelReport(
        shape="GLM TP8 M4096 o_proj",
        extent=(4096, 6144, 2048),
        threads=256,
        lds_bytes=27_136,
        tile=_tile(256, 64, 1, 88, 72),
        registers=151,
        blocks=2,
    ),
    KernelReport(
        shape="GLM TP8 M4096 shared_down",
        extent=(4096, 6144, 256),
        threads=512,
        lds_bytes=14_848,
        tile=_tile(64, 128, 1, 88, 72),
        blocks=2,
    ),
    KernelReport(
        shape="GLM TP8 M4096 shared_down, iteration 9",
        extent=(4096, 6144, 256),
        threads=512,
        lds_bytes=14_848,
        tile=_tile(64, 128, 1, 88, 72),
        registers=42,
        blocks=3,
    ),
    KernelReport(
        shape="GLM TP8 M4096 shared_gate_up",
        extent=(4096, 512, 6144),
        threads=256,
        lds_bytes=20_480,
        tile=_tile(64, 64, 2, 88, 72),
        registers=54,
        blocks=3,
        barriers=97,
    ),
)

#: Decode kernels; the reports say how large the grid is for 120 compute units, not how many blocks are resident.
_DECODE = (
    KernelReport(shape="TP4 M16 qkv", extent=(16, 2560, 4096), threads=256, lds_bytes=10_240),
    KernelReport(shape="TP4 M16 o_proj", extent=(16, 4096, 2048), threads=128, lds_bytes=2_048, registers=44),
    KernelReport(shape="TP4 M16 gate_up", extent=(16, 768, 4096), threads=128, lds_bytes=25_856, registers=123),
    KernelReport(shape="TP4 M16 down", extent=(16, 4096, 384), threads=128, lds_bytes=14_464, registers=43),
    KernelReport(shape="TP4 M16 wqkv_a", extent=(16, 1536, 4096), threads=256, lds_bytes=10_240, registers=40),
)

#: Every accepted kernel whose resources are reported.
ACCEPTED = (M3072, *_TP4, *_TP8, *_GLM, *_DECODE)
