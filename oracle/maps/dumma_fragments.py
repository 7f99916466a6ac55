"""Fragments of DUMMA m16n16k32, the INT8 matrix instruction `v_mmac_i32_16x16x32_i8` of a wave of 64 lanes.

Lane l has r = l % 16 and q = l / 16.

    A, M × K    byte i of 8: row r, column 8q + i: eight neighbouring bytes of a row-major matrix
    B, N × K    byte i of 8: row r, column 8q + i
    C, M × N    register i:  row r, column q + 4i

C is therefore spread over lanes by single columns: an epilogue that stores neighbouring columns first exchanges among
the four q of a row.

Source: HuangPuStar/MetaInfer metainfer/tasks/dcu_kernel_auto_opt/skills/int8-w8a8-gemm-foundations/SKILL.md @f3ac90ad
section 3; gfx928. No manual states it and no recording of ours shows it.
"""

from tileproof.oracle.maps.fragment_map import COLUMN, ROW, FragmentMap, Operand

#: Lanes of a wave.
LANES = 64

_INSTRUCTION = "dumma.m16n16k32"
_SOURCE = "HuangPuStar/MetaInfer int8-w8a8-gemm-foundations/SKILL.md @f3ac90ad section 3"


def _multiplicand(operand: Operand) -> FragmentMap:
    return FragmentMap(
        instruction=_INSTRUCTION,
        operand=operand,
        rows=16,
        columns=32,
        element_bits=8,
        lane=(COLUMN // 8, ROW),
        register=(COLUMN // 4 % 2,),
        slot=(COLUMN % 4,),
        lanes=LANES,
        source=_SOURCE,
    )


#: A, M × K.
DUMMA_A = _multiplicand(Operand.A)

#: B, N × K: memory [N][K] read as 8 bytes a lane, or [K][N] as 8 bytes of a stride.
DUMMA_B = _multiplicand(Operand.B)

#: C and D, M × N, int32.
DUMMA_C = FragmentMap(
    instruction=_INSTRUCTION,
    operand=Operand.C,
    rows=16,
    columns=16,
    element_bits=32,
    lane=(COLUMN % 4, ROW),
    register=(COLUMN // 4,),
    slot=(),
    lanes=LANES,
    source=_SOURCE,
)
