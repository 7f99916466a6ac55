"""Register fragments of the warpgroup-wide `wgmma.mma_async`: four warps, each with 16 rows of an `mma`.

Warp w = lane / 32 of the warpgroup holds rows 16w .. 16w + 15, with t = lane % 4 and g = lane / 4 % 8 as in
`mma_fragments`. K is 32 bytes.

    A, 64 × K    as A of mma.m16n8k{K}, + 16w rows
    D, 64 × N    32-bit register r: row 16w + g + 8 · (r / 2 % 2), column 8 · (r / 4) + 2t + r % 2
                 16-bit register r, slot i: row 16w + g + 8 · (r % 2), column 8 · (r / 2) + 2t + i

B, and A where it is not in registers, lie in shared memory (`wgmma_tile`).

Source: PTX ISA 9.2 section 9.7.15.5.1.1, figures 148 and 149 (m64nNk16) and those of m64nNk8, k32 and k256. Measured on
an H200 for all but k256.
"""

from functools import cache

from tileproof.oracle.evidence import Evidence
from tileproof.oracle.maps.fragment_map import COLUMN, ROW, FragmentMap, Operand
from tileproof.oracle.maps.mma_fragments import RECORDING
from tileproof.oracle.refusal import Refusal

#: Rows of A and D.
M = 64
#: Bits of a row of A or B.
K_BITS = 256
#: Threads of a warpgroup.
LANES = 128

_STATED = "PTX ISA 9.2 section 9.7.15.5.1.1, Matrix Fragments for wgmma.mma_async.m64nNk"


def wgmma_k(bits: int) -> int:
    """K of an instruction whose elements have `bits` bits.

    Raises:
        Refusal: elements that `wgmma` does not take.
    """
    if bits not in (1, 8, 16, 32):
        raise Refusal(f"wgmma takes no elements of {bits} bits", hint="elements have 1, 8, 16 or 32 bits")
    return K_BITS // bits


@cache
def wgmma_a(bits: int) -> FragmentMap:
    """A of wgmma in registers, 64 × K, the same for every N.

    Raises:
        Refusal: elements that `wgmma` does not take.
    """
    k, slots = wgmma_k(bits), 32 // bits
    return FragmentMap(
        instruction=f"wgmma.m{M}nNk{k}",
        operand=Operand.A,
        rows=M,
        columns=k,
        element_bits=bits,
        lane=(ROW // 16, ROW % 8, COLUMN // slots % 4),
        register=(COLUMN // (4 * slots), ROW // 8 % 2),
        slot=(COLUMN % slots,) if slots > 1 else (),
        lanes=LANES,
        source=_source(k),
        evidence=_evidence(k),
    )


@cache
def wgmma_d(n: int, k: int, bits: int) -> FragmentMap:
    """The accumulators of wgmma.m64n{n}k{k}, 64 × N, of 16 or 32 bits.

    Raises:
        Refusal: N no multiple of 8 from 8 to 256, another K, or other accumulators.
    """
    require_n(n)
    if k not in (8, 16, 32, 256) or bits not in (16, 32) or (bits == 16 and k not in (16, 32)):
        raise Refusal(
            f"wgmma.m{M}n{n}k{k} has no accumulators of {bits} bits",
            hint="K is 8, 16, 32 or 256; accumulators have 32 bits, or 16 where K is 16 or 32",
        )
    return FragmentMap(
        instruction=f"wgmma.m{M}n{n}k{k}",
        operand=Operand.C,
        rows=M,
        columns=n,
        element_bits=bits,
        lane=(ROW // 16, ROW % 8, COLUMN // 2 % 4),
        register=(COLUMN // 8, ROW // 8 % 2) if bits == 16 else (COLUMN // 8, ROW // 8 % 2, COLUMN % 2),
        slot=(COLUMN % 2,) if bits == 16 else (),
        lanes=LANES,
        source=_source(k),
        evidence=_evidence(k),
    )


def require_n(n: int) -> None:
    """Refuses an N that no `wgmma` has."""
    if n % 8 or not 8 <= n <= 256:
        raise Refusal(f"wgmma has no N = {n}", hint="N is a multiple of 8 from 8 to 256")


def _evidence(k: int) -> Evidence:
    return Evidence.DOCUMENTED if k == 256 else Evidence.MEASURED


def _source(k: int) -> str:
    recording = f"; {RECORDING}" if _evidence(k) is Evidence.MEASURED else ""
    return f"{_STATED}{k}{recording}"
