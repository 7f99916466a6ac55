"""Bank conflicts that the kernels' authors counted in hardware, and what the model makes of the same kernels.

A block stages rows of 64 bytes by stores of 16 bytes a lane, 1 KiB a wave, and each of its waves reads the fragments of
its rectangle. Example, TP4 o_proj, tile 128 × 64, four waves of 64 × 32, stride 80 for both, B read by single bytes:

    reads of a stage     4 waves · (8 fragments of A · 4 + 4 of B · 16) = 384
    writes of a stage    (8 + 4) KiB · 8 = 96
    in all               2,048 blocks · 32 stages · 480 = 31,457,280        counted: 31.5 M

No figure was fitted. What the reports leave open: the strides before the second pair's change, taken as the 80 of the
sibling kernels, and that B of the first pair was read by bytes, as its pack [K][64] asks for.

Source: HuangPuStar/MetaInfer int8-w8a8-gemm-prefill/SKILL.md @f3ac90ad sections 4.4 and 6 (PMC counts).
"""

from dataclasses import dataclass

from tileproof.simulators.gfx928.lds_phases import stride_use

#: Rows and columns of the instruction, K steps of a stage of 64.
_UNIT, _STEPS = 16, 2
#: Rows of 64 bytes that a wave stages at a time.
_ROWS_STAGED = 16


@dataclass(frozen=True, kw_only=True)
class ConflictCount:
    """One count, and the kernel that made it; stages of 64 bytes of K."""

    kernel: str
    #: Millions, as printed.
    counted: str
    stride_a: int
    stride_b: int
    #: Whether fragments of B were read byte by byte.
    b_by_bytes: bool
    rows: int
    columns: int
    #: Waves of a block down and across.
    waves: tuple[int, int]
    blocks: int
    stages: int

    @property
    def modelled(self) -> int:
        """Conflicts by the model, all blocks and stages."""
        a, b = stride_use(self.stride_a, 64), stride_use(self.stride_b, 64)
        of_a = self.rows // self.waves[0] // _UNIT * _STEPS * a.read.conflicts
        of_b = self.columns // self.waves[1] // _UNIT * _STEPS * (b.byte_read if self.b_by_bytes else b.read).conflicts
        reads = self.waves[0] * self.waves[1] * (of_a + of_b)
        writes = (self.rows * a.write.conflicts + self.columns * b.write.conflicts) // _ROWS_STAGED
        return self.blocks * self.stages * (reads + writes)

    @property
    def agrees(self) -> bool:
        """Whether the model gives every digit that was printed."""
        digits = len(self.counted.partition(".")[2])
        return f"{self.modelled / 1e6:.{digits}f}" == self.counted


def _o_proj(stride_a: int, counted: str) -> ConflictCount:
    return ConflictCount(
        kernel="TP4 M4096 o_proj",
        counted=counted,
        stride_a=stride_a,
        stride_b=80,
        b_by_bytes=True,
        rows=128,
        columns=64,
        waves=(2, 2),
        blocks=2048,
        stages=32,
    )


def _gate_up(stride_a: int, stride_b: int, counted: str) -> ConflictCount:
    return ConflictCount(
        kernel="GLM TP8 M4096 shared_gate_up",
        counted=counted,
        stride_a=stride_a,
        stride_b=stride_b,
        b_by_bytes=False,
        rows=64,
        columns=64,
        waves=(2, 2),
        blocks=512,
        stages=96,
    )


COUNTS = (_o_proj(64, "77.6"), _o_proj(80, "31.5"), _gate_up(80, 80, "9.44"), _gate_up(88, 72, "3.15"))
