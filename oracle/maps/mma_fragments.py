"""Fragments of the warp-wide `mma.sync`: one rule for every element width.

Lane l is thread t = l % 4 of group g = l / 4. A register holds e = 32 / bits elements that are neighbours in k.

    A, M × K    register r, slot i: row g + 8 · (r % 2), column t · e + i + 4e · (r / 2)
                M = 8:              row g,               column t · e + i + 4e · r
    B, N × K    register r, slot i: row g,               column t · e + i + 4e · r
    C, M × N    32-bit register r:  row g + 8 · (r / 2), column 2t + r % 2
                16-bit register r, slot i: row g + 8r,   column 2t + i

So the four lanes of a group read 16 neighbouring bytes of one row, which is what makes a row of `ldmatrix` a group.
Elements of 64 bits have registers of 64 bits.

Source: PTX ISA 9.2 section 9.7.14.5, "Matrix Fragments for mma.mXnYkZ" (9.7.14.5.2 to 9.7.14.5.13). The fragments of
f16 m8n8k4, of `mma.sp` and of `wmma` follow other rules and are not modelled. Measured on an H200 where a shape says
so; a product shows the order of k only up to a renaming common to A and B.
"""

from dataclasses import dataclass
from functools import cache

from tileproof.oracle.evidence import Evidence
from tileproof.oracle.maps.fragment_map import COLUMN, ROW, FragmentMap, Operand
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class MmaShape:
    """A shape of `mma` with N = 8, for elements of one width."""

    m: int
    k: int
    bits: int
    #: The subsection of PTX ISA 9.2 section 9.7.14.5.
    section: int
    evidence: Evidence

    @property
    def source(self) -> str:
        """Where its fragments are stated, and recorded."""
        stated = f"PTX ISA 9.2 section 9.7.14.5.{self.section}, Matrix Fragments for mma.m{self.m}n{N}k{self.k}"
        return f"{stated}; {RECORDING}" if self.evidence is Evidence.MEASURED else stated


#: The recording that measured maps reproduce.
RECORDING = "tests/golden/h200_fragments.npz, H200"

#: The columns of C, and rows of B.
N = 8

#: Every shape whose fragments are modelled.
SHAPES = (
    MmaShape(8, 128, 1, 5, Evidence.DOCUMENTED),
    MmaShape(16, 128, 1, 12, Evidence.DOCUMENTED),
    MmaShape(16, 256, 1, 13, Evidence.MEASURED),
    MmaShape(8, 32, 4, 4, Evidence.MEASURED),
    MmaShape(16, 32, 4, 10, Evidence.MEASURED),
    MmaShape(16, 64, 4, 11, Evidence.MEASURED),
    MmaShape(8, 16, 8, 3, Evidence.MEASURED),
    MmaShape(16, 16, 8, 9, Evidence.MEASURED),
    MmaShape(16, 32, 8, 10, Evidence.MEASURED),
    MmaShape(16, 8, 16, 7, Evidence.MEASURED),
    MmaShape(16, 16, 16, 8, Evidence.MEASURED),
    MmaShape(16, 4, 32, 6, Evidence.MEASURED),
    MmaShape(16, 8, 32, 7, Evidence.MEASURED),
    MmaShape(8, 4, 64, 2, Evidence.DOCUMENTED),
    MmaShape(16, 4, 64, 6, Evidence.DOCUMENTED),
    MmaShape(16, 8, 64, 7, Evidence.DOCUMENTED),
    MmaShape(16, 16, 64, 8, Evidence.DOCUMENTED),
)


@cache
def mma_a(m: int, k: int, bits: int) -> FragmentMap:
    """A of mma.m{m}n8k{k} with elements of `bits` bits, M × K.

    Raises:
        Refusal: a shape that `mma` does not have with such elements.
    """
    shape, slots, register_bits = _shape(m, k, bits), *_register(bits)
    return FragmentMap(
        instruction=f"mma.m{m}n{N}k{k}",
        operand=Operand.A,
        rows=m,
        columns=k,
        element_bits=bits,
        lane=(ROW % 8, COLUMN // slots % 4),
        register=(COLUMN // (4 * slots), ROW // 8),
        slot=(COLUMN % slots,) if slots > 1 else (),
        register_bits=register_bits,
        source=shape.source,
        evidence=shape.evidence,
    )


@cache
def mma_b(m: int, k: int, bits: int) -> FragmentMap:
    """B of mma.m{m}n8k{k} with elements of `bits` bits, N × K.

    Raises:
        Refusal: a shape that `mma` does not have with such elements.
    """
    shape, slots, register_bits = _shape(m, k, bits), *_register(bits)
    return FragmentMap(
        instruction=f"mma.m{m}n{N}k{k}",
        operand=Operand.B,
        rows=N,
        columns=k,
        element_bits=bits,
        lane=(ROW, COLUMN // slots % 4),
        register=(COLUMN // (4 * slots),),
        slot=(COLUMN % slots,) if slots > 1 else (),
        register_bits=register_bits,
        source=shape.source,
        evidence=shape.evidence,
    )


@cache
def mma_c(m: int, k: int, bits: int, operand_bits: int) -> FragmentMap:
    """C and D of mma.m{m}n8k{k} with accumulators of 16, 32 or 64 bits, M × N.

    Raises:
        Refusal: a shape that `mma` does not have with operands of `operand_bits`, or another accumulator.
    """
    shape = _shape(m, k, operand_bits)
    legal = {8: (16, 32), 16: (16, 32), 64: (64,)}.get(operand_bits, (32,))
    if bits not in legal:
        raise Refusal(
            f"mma with operands of {operand_bits} bits has no accumulators of {bits} bits",
            hint=f"accumulators have {' or '.join(map(str, legal))} bits",
        )
    return FragmentMap(
        instruction=f"mma.m{m}n{N}k{k}",
        operand=Operand.C,
        rows=m,
        columns=N,
        element_bits=bits,
        lane=(ROW % 8, COLUMN // 2),
        register=(ROW // 8,) if bits == 16 else (ROW // 8, COLUMN % 2),
        slot=(COLUMN % 2,) if bits == 16 else (),
        register_bits=max(bits, 32),
        source=shape.source,
        evidence=shape.evidence,
    )


def _register(bits: int) -> tuple[int, int]:
    """Elements of a register and its bits."""
    register_bits = max(bits, 32)
    return register_bits // bits, register_bits


def _shape(m: int, k: int, bits: int) -> MmaShape:
    for shape in SHAPES:
        if (shape.m, shape.k, shape.bits) == (m, k, bits):
            return shape
    listed = ", ".join(f"m{shape.m}n{N}k{shape.k}" for shape in SHAPES if shape.bits == bits) or "none"
    raise Refusal(
        f"mma.m{m}n{N}k{k} with elements of {bits} bits is outside the model",
        hint=f"shapes for {bits} bits: {listed}; f16 m8n8k4 and sparse mma have other fragments",
    )
