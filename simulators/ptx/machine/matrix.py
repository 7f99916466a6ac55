"""`mma` and `wgmma`: the products of all warps or warpgroups of a group of lanes in one call of the oracle.

An undefined bit in row m of A leaves row m of D undefined, one in row n of B (column n of the product) column n; an
undefined accumulator leaves itself undefined. Results of `wgmma` are in their registers when the instruction is issued.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.maps.fragment_map import Words
from tileproof.oracle.matrix_unit import describe, multiply_add
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.operand import ACCUMULATOR_DTYPES, OperandType
from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.machine import bracket_matrix
from tileproof.simulators.ptx.machine.matrix_transfer import load_matrix, store_matrix, transpose_matrix
from tileproof.simulators.ptx.machine.memory import Bits, Mask
from tileproof.simulators.ptx.machine.order.kinds import Engine
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.shared_operand import read_shared, uniform
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.matrix_form import Product, ProductOrder, RegisterMatrix, SharedMatrix
from tileproof.simulators.ptx.program import NONE, Kind, Program, Step

#: The release of ptxas whose expansion of 8-bit `mma` is modelled: the one that belongs to the NVRTC of our kernels.
ASSEMBLER = "13.0"

Codes = npt.NDArray[Any]


def check_units(program: Program, arch: str) -> None:
    """Refuse a kernel with a matrix instruction that the architecture lacks or whose arithmetic is not known.

    Raises:
        NotModelled: there is one.
    """
    for step in program.steps:
        if step.kind in (Kind.WGMMA, Kind.WGMMA_ORDER) and not arch.endswith("a"):
            raise NotModelled(f"{step.opcode} at {step.where}: {arch} has no wgmma", hint="sm_90a has it")
        if step.product is not None:
            try:
                describe(step.product.instruction.name, arch=arch, assembler=ASSEMBLER)
            except Refusal as error:
                raise NotModelled(f"{step.opcode} at {step.where}: {error.message}", hint=error.hint) from error


def multiply(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`mma` and `wgmma.mma_async` of whole warps or warpgroups."""
    product = step.product
    assert product is not None
    instruction = product.instruction
    opened = bracket_matrix.products_open(wave, step, selection)
    if step.kind is Kind.WGMMA:
        wave.products.issue(step, pc, wave.ids(selection))
    a, a_undefined = _operand(wave, step, pc, selection, product.a, instruction.a, negates=product.negates_a)
    b, b_undefined = _operand(wave, step, pc, selection, product.b, instruction.b, negates=product.negates_b)
    c, c_undefined = _accumulators(wave, step, selection, product)
    values = multiply_add(instruction.name, a, b, c, arch=wave.arch, assembler=ASSEMBLER)
    fragment = product.d.fragment
    words = _flat(fragment.gather(values))
    undefined = _results_undefined(a_undefined, b_undefined, c_undefined, c.shape)
    masks = None if undefined is None else _flat(fragment.gather(_all_ones(undefined, fragment.code_dtype)))
    for index, slot in enumerate(product.d.slots):
        wave.registers.write(slot, selection, words[:, index], None if masks is None else masks[:, index])
    if opened is not None:
        bracket_matrix.open_products(wave, step, opened)


def _operand(
    wave: Wave,
    step: Step,
    pc: int,
    selection: Selection,
    matrix: RegisterMatrix | SharedMatrix,
    operand: OperandType,
    *,
    negates: bool,
) -> tuple[Codes, Mask | None]:
    """Codes of A or B [products, rows, K] in the operand's type, and which elements have undefined bits."""
    codes, masks = (
        read_shared(wave, step, pc, selection, matrix)
        if isinstance(matrix, SharedMatrix)
        else _registers(wave, selection, matrix)
    )
    if negates:
        codes = codes ^ codes.dtype.type(1 << (8 * codes.itemsize - 1))
    undefined = None if masks is None else masks >> masks.dtype.type(operand.ignored_bits) != 0
    return codes.view(operand.code_dtype), undefined


def _accumulators(wave: Wave, step: Step, selection: Selection, product: Product) -> tuple[Codes, Mask | None]:
    """C, zero and defined where `scale-d` is false."""
    codes, masks = _registers(wave, selection, product.c)
    undefined = None if masks is None else masks != 0
    if product.adds_c != NONE:
        added = (uniform(wave, step, selection, product.adds_c, "scale-d") != 0) != product.adds_c_negated
        codes[~added] = 0
        if undefined is not None:
            undefined[~added] = False
    return codes.view(ACCUMULATOR_DTYPES[product.instruction.accumulator]), undefined


def _registers(wave: Wave, selection: Selection, matrix: RegisterMatrix) -> tuple[Codes, Codes | None]:
    """Codes [products, rows, columns] and their undefined bits, None if there are none."""
    values = [wave.registers.read(slot, selection, n) for slot, n in zip(matrix.slots, matrix.narrow, strict=True)]
    bits = (matrix.fragment.register_bits,) * len(matrix.slots)
    undefined = wave.registers.undefined(matrix.slots, selection, bits)
    return _matrix(matrix, values), None if undefined is None else _matrix(matrix, undefined)


def _matrix(matrix: RegisterMatrix, registers: list[Bits]) -> Codes:
    fragment = matrix.fragment
    words = np.stack(registers, axis=-1).astype(fragment.word_dtype)
    return fragment.scatter(words.reshape(-1, fragment.lanes, fragment.registers))


def _flat(words: Words) -> Bits:
    """Registers [lanes, registers] of [products, lanes of each, registers]."""
    return words.reshape(-1, words.shape[-1]).astype(np.uint64)


def _results_undefined(a: Mask | None, b: Mask | None, c: Mask | None, shape: tuple[int, ...]) -> Mask | None:
    if a is None and b is None and c is None:
        return None
    undefined: Mask = np.zeros(shape, np.bool_)
    if a is not None:
        undefined |= np.asarray(a.any(axis=-1))[:, :, np.newaxis]
    if b is not None:
        undefined |= np.asarray(b.any(axis=-1))[:, np.newaxis, :]
    if c is not None:
        undefined |= c
    return undefined


def _all_ones(undefined: Mask, dtype: np.dtype[Any]) -> Codes:
    ones: Codes = np.where(undefined, dtype.type(np.iinfo(dtype).max), dtype.type(0))
    return ones


def _order(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`wgmma.fence`, `commit_group` and `wait_group`. One warp's wait is taken for its whole warpgroup's reads."""
    form, lanes = step.product_order, wave.ids(selection)
    assert form is not None
    match form.action:
        case ProductOrder.FENCE:
            wave.products.fence(lanes)
        case ProductOrder.COMMIT:
            wave.products.commit(lanes)
        case ProductOrder.WAIT:
            wave.order.learn(Engine.WGMMA, lanes, wave.products.wait(lanes, form.pending))


MATRIX_HANDLERS: Mapping[Kind, Callable[[Wave, Step, int, Selection], None]] = {
    Kind.MATRIX_LOAD: load_matrix,
    Kind.MATRIX_STORE: store_matrix,
    Kind.MATRIX_TRANSPOSE: transpose_matrix,
    Kind.MMA: multiply,
    Kind.WGMMA: multiply,
    Kind.WGMMA_ORDER: _order,
}
