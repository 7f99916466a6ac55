"""Every matrix instruction by its definition, one element of D at a time in Python integers: to be read, and to be
compared with. About ten thousand elements a second; `matrix_unit.multiply_add` is the same for volume."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tileproof.oracle.units.block_scaled_sum import group_scaled_sum, scaled_sum
from tileproof.oracle.units.fma_chain import fma_chain
from tileproof.oracle.units.fused_sum import fused_sum, late_sum
from tileproof.oracle.units.instruction import Instruction
from tileproof.oracle.units.integer_sum import integer_sum
from tileproof.oracle.units.matrix_operands import Codes, MatrixOperands
from tileproof.oracle.units.mfma import exact_sum, floored_sum, flushed_pairs
from tileproof.oracle.units.operand import OperandType
from tileproof.oracle.units.term import Term, decode_operand
from tileproof.oracle.units.unit import (
    ExactSum,
    FlooredSum,
    FlushedPairs,
    FmaChain,
    FusedSum,
    GroupScaledSum,
    IntegerSum,
    LateSum,
    ScaledSum,
    Unit,
)
from tileproof.oracle.units.unpacked import unpacked_term


def define_tiles(unit: Unit, instruction: Instruction, operands: MatrixOperands) -> npt.NDArray[np.object_]:
    """Codes of D as Python integers, [output tiles, M, N]."""
    rows, columns = operands.a.shape[1], operands.b.shape[1]
    d = np.empty((len(operands.index), rows, columns), np.object_)
    for tile, (i, j, n) in enumerate(operands.index.tolist()):
        for row in range(rows):
            for column in range(columns):
                c = int(operands.c[n, row, column])
                factors = _factors(instruction, operands, (i, row), (j, column))
                a, b = operands.a[i, row], operands.b[j, column]
                d[tile, row, column] = _element(unit, instruction, a, b, factors, c)
    return d


def _element(unit: Unit, instruction: Instruction, a: Codes, b: Codes, factors: Sequence[Term], c: int) -> int:
    if isinstance(unit, IntegerSum):
        return integer_sum(unit, a.tolist(), b.tolist(), c)
    decode = unpacked_term if isinstance(unit, LateSum) else decode_operand
    a_terms = [decode(instruction.a, code) for code in a.tolist()]
    b_terms = [decode(instruction.b, code) for code in b.tolist()]
    products = [x * y for x, y in zip(a_terms, b_terms, strict=True)]
    match unit:
        case FusedSum():
            return fused_sum(unit, products, c)
        case LateSum():
            return late_sum(unit, products, c)
        case ScaledSum():
            return scaled_sum(unit, products, factors, c)
        case GroupScaledSum():
            return group_scaled_sum(unit, products, factors, c)
        case FmaChain():
            return fma_chain(unit, products, c)
        case ExactSum():
            return exact_sum(unit, products, c)
        case FlushedPairs():
            return flushed_pairs(unit, a_terms, b_terms, c)
        case FlooredSum():
            return floored_sum(unit, products, c)


def _factors(
    instruction: Instruction, operands: MatrixOperands, a: tuple[int, int], b: tuple[int, int]
) -> Sequence[Term]:
    """The products of the scale factors of one row of A and one row of B, a block each."""
    if instruction.scale_type is None or operands.scale_a is None or operands.scale_b is None:
        return ()
    pair = (_terms(instruction.scale_type, operands.scale_a[a]), _terms(instruction.scale_type, operands.scale_b[b]))
    return [x * y for x, y in zip(*pair, strict=True)]


def _terms(operand: OperandType, codes: Codes) -> list[Term]:
    return [decode_operand(operand, code) for code in codes.tolist()]
