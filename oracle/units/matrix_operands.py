"""The operands of one call of a matrix instruction: checked, and taken apart into tiles.

Leading dimensions of A, B, C and the scale factors are batches and broadcast as numpy's do. An element of D depends on
one row of A, one row of B and one element of C, so M and N are free; K is the instruction's.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.instruction import Instruction
from tileproof.oracle.units.operand import ACCUMULATOR_DTYPES, OperandType

Codes = npt.NDArray[Any]

_CODE_DTYPES = {"f64": np.uint64, "f32": np.uint32, "f16": np.uint16, "s32": np.int32}


@dataclass(frozen=True)
class MatrixOperands:
    """Raw codes, each with one leading tile dimension, and how tiles combine."""

    #: [tiles of A, M, K]
    a: Codes
    #: [tiles of B, N, K]
    b: Codes
    #: Codes of C (values of s32), [tiles of C, M, N].
    c: Codes
    #: [tiles of A, M, scales in K]; None without block scaling.
    scale_a: Codes | None
    #: [tiles of B, N, scales in K]; None without block scaling.
    scale_b: Codes | None
    #: For each output tile, its tiles of A, B and C, [output tiles, 3].
    index: npt.NDArray[np.uint64]
    #: The shape of D, batches included.
    shape: tuple[int, ...]


def check_operands(
    instruction: Instruction,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    scale_a: npt.ArrayLike | None,
    scale_b: npt.ArrayLike | None,
) -> MatrixOperands:
    """Operands as `matrix_unit.multiply_add` takes them.

    Raises:
        Refusal: a type, a shape or a code is not the instruction's.
    """
    a_codes = _codes("a", a, instruction.a, instruction.shape.k)
    b_codes = _codes("b", b, instruction.b, instruction.shape.k)
    values = _accumulators(instruction, c, (a_codes.shape[-2], b_codes.shape[-2]))
    batch = broadcast_batch(a=a_codes, b=b_codes, c=values)
    return MatrixOperands(
        a=_tiles(a_codes),
        b=_tiles(b_codes),
        c=_tiles(values),
        scale_a=_scales("scale_a", scale_a, instruction, a_codes),
        scale_b=_scales("scale_b", scale_b, instruction, b_codes),
        index=np.stack([_tile_numbers(array, batch) for array in (a_codes, b_codes, values)], axis=-1),
        shape=(*batch, *values.shape[-2:]),
    )


def values_of(instruction: Instruction, codes: Codes, shape: tuple[int, ...]) -> Codes:
    """D in the accumulator's numpy type, of codes of its bits."""
    code_dtype = _CODE_DTYPES[instruction.accumulator]
    return codes.astype(code_dtype).view(ACCUMULATOR_DTYPES[instruction.accumulator]).reshape(shape)


def _codes(name: str, given: npt.ArrayLike, operand: OperandType, length: int) -> Codes:
    array = _typed_codes(name, given, operand, length, "K")
    if operand.record and operand.record.bits < 8 and array.size and array.max() >= 1 << operand.record.bits:
        raise Refusal(
            f"{name} has the code {array.max()}; codes of {operand.name} are below {1 << operand.record.bits}",
            hint="codes are right-aligned, one an element",
        )
    return array


def _typed_codes(name: str, given: npt.ArrayLike, operand: OperandType, length: int, counts: str) -> Codes:
    """The array, if it has the type and `length` of what its last dimension counts."""
    array = np.asarray(given)
    if array.dtype != operand.code_dtype:
        raise Refusal(
            f"{name} has type {array.dtype}; raw codes of {operand.name} are {operand.code_dtype}",
            hint=f"view floats as {operand.code_dtype}; narrow types take one right-aligned code an element",
        )
    if array.ndim < 2 or array.shape[-1] != length:
        raise Refusal(
            f"{name} has shape {array.shape}; its last dimension must be {counts} = {length}",
            hint="A is [..., M, K], B is [..., N, K], scale factors likewise; a longer K is a chain of instructions",
        )
    return array


def _accumulators(instruction: Instruction, given: npt.ArrayLike, expected: tuple[int, int]) -> Codes:
    """C's bits; C may not be converted silently, so its type must fit."""
    array = np.asarray(given)
    dtype = ACCUMULATOR_DTYPES[instruction.accumulator]
    if array.dtype != dtype:
        raise Refusal(f"c has type {array.dtype}; the accumulator {instruction.accumulator} is {dtype}", hint="cast c")
    if array.shape[-2:] != expected:
        raise Refusal(
            f"c has shape {array.shape}; its last dimensions must be M, N = {expected}",
            hint="c is [..., M, N]; pass zeros for D = A·Bᵀ",
        )
    return np.ascontiguousarray(array).view(_CODE_DTYPES[instruction.accumulator])


def _scales(name: str, given: npt.ArrayLike | None, instruction: Instruction, operand: Codes) -> Codes | None:
    if instruction.scale_type is None:
        if given is not None:
            raise Refusal(f"{name} is given, but the instruction has no block scaling", hint="leave it out")
        return None
    if given is None:
        raise Refusal(f"{name} is missing; the instruction scales blocks of {instruction.block}", hint=f"pass {name}")
    codes = _typed_codes(name, given, instruction.scale_type, instruction.scales, "scale factors")
    if codes.shape[:-1] != operand.shape[:-1]:
        raise Refusal(
            f"{name} has shape {codes.shape}; its operand needs {(*operand.shape[:-1], instruction.scales)}",
            hint="one factor for each row and block of K",
        )
    return _tiles(codes)


def broadcast_batch(**matrices: Codes) -> tuple[int, ...]:
    """The common leading dimensions of matrices [..., rows, columns].

    Raises:
        Refusal: they do not broadcast.
    """
    *names, last = matrices
    batches = [matrix.shape[:-2] for matrix in matrices.values()]
    shapes = ", ".join(map(str, batches))
    try:
        return np.broadcast_shapes(*batches)
    except ValueError:
        raise Refusal(
            f"the leading dimensions of {', '.join(names)} and {last} are {shapes} and do not broadcast",
            hint="make them equal, or 1 where one tile serves many",
        ) from None


def _tiles(array: Codes) -> Codes:
    return array.reshape(prod(array.shape[:-2]), *array.shape[-2:])


def _tile_numbers(array: Codes, batch: tuple[int, ...]) -> npt.NDArray[np.uint64]:
    """For each output tile, which tile of `array` it takes."""
    own = array.shape[:-2]
    return np.broadcast_to(np.arange(prod(own), dtype=np.uint64).reshape(own), batch).reshape(-1)
