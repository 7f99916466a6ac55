"""D = A·Bᵀ + C in a matrix unit's own arithmetic, one instruction, bit for bit.

    >>> one = np.full((1, 32), 0x38, np.uint8)            # e4m3 1.0
    >>> tiny = one.copy(); tiny[0, 1:] = 0x01             # and 31 times 2^-9
    >>> c = np.zeros((1, 1), np.float32)
    >>> multiply_add("wgmma.m64n8k32.f32.e4m3.e4m3", tiny, one, c)
    array([[1.0605469]], dtype=float32)

Reading order: `instruction` (names), `unit` (what there is), `nvidia_units` and `amd_units` (who has what, and how that
is known), `term` and `fused_sum` (the arithmetic of NVIDIA's units). `multiply_add` runs compiled twins of those
definitions; `define` runs the definitions themselves and gives the same bits.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.block_scaled_sum_array import group_scaled_sums
from tileproof.oracle.units.fma_chain_array import fma_chains
from tileproof.oracle.units.fused_sum_array import Coded, Side, fused_sums
from tileproof.oracle.units.instruction import Instruction, parse_instruction
from tileproof.oracle.units.integer_sum import integer_sums
from tileproof.oracle.units.matrix_definition import define_tiles
from tileproof.oracle.units.matrix_operands import Codes, MatrixOperands, check_operands, values_of
from tileproof.oracle.units.mfma_array import mfma_sums
from tileproof.oracle.units.operand import OperandType
from tileproof.oracle.units.term_array import TermTable, table_index, term_table, unpacked_term_table
from tileproof.oracle.units.unit import (
    ExactSum,
    FlooredSum,
    FlushedPairs,
    FmaChain,
    FusedSum,
    GroupScaledSum,
    IntegerSum,
    KnownUnit,
    LateSum,
    ScaledSum,
    Unit,
)
from tileproof.oracle.units.unit_table import find_unit


def multiply_add(
    instruction: str,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    *,
    arch: str = "sm_90",
    assembler: str = "12.8",
    scale_a: npt.ArrayLike | None = None,
    scale_b: npt.ArrayLike | None = None,
) -> npt.NDArray[Any]:
    """D = A·Bᵀ + C as one matrix instruction computes it.

    Args:
        instruction: for example "mma.m16n8k32.f32.e4m3.e4m3"; see `instruction` for the form.
        a: raw codes [..., M, K]; uint8 (8-bit and narrower types, right-aligned), uint16 (f16, bf16), uint32 (tf32,
            f32), uint64 (f64), int8 (s8). K is the instruction's, M is free.
        b: raw codes [..., N, K].
        c: [..., M, N], of the accumulator's type: float32, float16, float64 or int32. Leading dimensions broadcast.
        arch: architecture, with or without its suffix letter: "sm_70" to "sm_120", "gfx908", "gfx90a", "gfx942".
        assembler: CUDA release of ptxas; it matters for 8-bit `mma` on sm_90 and sm_100, which the assembler expands.
        scale_a: raw scale factors [..., M, K / block] of a block-scaled instruction.
        scale_b: raw scale factors [..., N, K / block].

    Returns:
        [..., M, N] of c's type. NaN is 0x7FFFFFFF or 0x7FFF.

    Raises:
        Refusal: the instruction, the architecture, the assembler or an operand is outside what is modelled.
    """
    parsed, known = _resolve(instruction, arch, assembler)
    operands = check_operands(parsed, a, b, c, scale_a, scale_b)
    return values_of(parsed, run_unit(known.unit, parsed, operands), operands.shape)


def define(
    instruction: str,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    *,
    arch: str = "sm_90",
    assembler: str = "12.8",
    scale_a: npt.ArrayLike | None = None,
    scale_b: npt.ArrayLike | None = None,
) -> npt.NDArray[Any]:
    """`multiply_add` by the definitions in Python integers, with no compiled code: what the twins answer to."""
    parsed, known = _resolve(instruction, arch, assembler)
    operands = check_operands(parsed, a, b, c, scale_a, scale_b)
    return values_of(parsed, define_tiles(known.unit, parsed, operands), operands.shape)


def describe(instruction: str, *, arch: str = "sm_90", assembler: str = "12.8") -> KnownUnit:
    """The unit that executes an instruction, with the evidence for it.

    Raises:
        Refusal: it is outside what is modelled.
    """
    return _resolve(instruction, arch, assembler)[1]


def _resolve(name: str, arch: str, assembler: str) -> tuple[Instruction, KnownUnit]:
    """The parsed instruction and its unit."""
    for what, text in (("instruction", name), ("arch", arch), ("assembler", assembler)):
        if not isinstance(text, str):  # before the cache, which cannot hold a list
            raise Refusal(f"{what} {text!r} of type {type(text).__name__} is no text", hint="give a str")
    return _known(name, arch, assembler)


@lru_cache(maxsize=1024)
def _known(name: str, arch: str, assembler: str) -> tuple[Instruction, KnownUnit]:
    instruction = parse_instruction(name)
    return instruction, find_unit(instruction, arch, assembler)


def run_unit(unit: Unit, instruction: Instruction, operands: MatrixOperands) -> Codes:
    """Codes of D, [output tiles, M, N], by the fastest way there is."""
    match unit:
        case IntegerSum():
            a, b, c = operands.index.T
            return integer_sums(unit, operands.a[a], operands.b[b], operands.c[c])
        case FusedSum():
            return fused_sums(unit, *_sides(instruction, operands), operands.c.astype(np.int64), operands.index)
        case ScaledSum():
            return fused_sums(unit.unit, *_sides(instruction, operands), operands.c.astype(np.int64), operands.index)
        case LateSum():
            sides = _sides(instruction, operands, unpacked_term_table)
            return fused_sums(unit, *sides, operands.c.astype(np.int64), operands.index)
        case GroupScaledSum():
            sides = _sides(instruction, operands)
            return group_scaled_sums(unit, *sides, operands.c.astype(np.int64), operands.index)
        case FmaChain():
            return fma_chains(unit, operands.a, operands.b, operands.c, operands.index)
        case ExactSum() | FlushedPairs() | FlooredSum():
            a, b = _sides(instruction, operands)
            return mfma_sums(unit, a.codes, b.codes, operands.c, operands.index)


def _sides(
    instruction: Instruction, operands: MatrixOperands, table: Callable[[OperandType], TermTable] = term_table
) -> tuple[Side, Side]:
    """A and B with the terms of their codes."""
    return (
        Side(_coded(instruction.a, operands.a, table), _factors(instruction, operands.scale_a)),
        Side(_coded(instruction.b, operands.b, table), _factors(instruction, operands.scale_b)),
    )


def _factors(instruction: Instruction, codes: Codes | None) -> Coded | None:
    if instruction.scale_type is None or codes is None:
        return None
    return _coded(instruction.scale_type, codes, term_table)


def _coded(operand: OperandType, codes: Codes, table: Callable[[OperandType], TermTable]) -> Coded:
    return Coded(table_index(operand, codes), table(operand))
