"""Matrix steps in the terms of the bytecode."""

from dataclasses import dataclass

from tileproof.simulators.ptx.fast import layout
from tileproof.simulators.ptx.fast.matrix_layout import DOUBLE, UNIT
from tileproof.simulators.ptx.fast.matrix_record import Words, product_record, transfer_record, transpose_record
from tileproof.simulators.ptx.layout import SHARED_WINDOW
from tileproof.simulators.ptx.matrix_form import Product, RegisterMatrix, SharedMatrix
from tileproof.simulators.ptx.program import Kind, StateSpace, Step

_WORD = 0xFFFF_FFFF
_EVERY_BIT = 0xFFFF_FFFF_FFFF_FFFF


@dataclass(frozen=True)
class MatrixRow:
    """A matrix step for the functions of `matrix`.

    Attributes:
        operation: of the module `matrix`.
        sources: slots.
        masks: for each source the bits that count.
        results: slots.
        constants: those of `matrix`. The array whose address they hold lives as long as the process.
    """

    operation: int
    sources: tuple[int, ...] = ()
    masks: tuple[int, ...] = ()
    results: tuple[int, ...] = ()
    constants: tuple[int, ...] = ()


def lower_matrix(step: Step, arch: str) -> MatrixRow | None:
    """The row of a matrix step; None for one that only the reference engine executes."""
    match step.kind:
        case Kind.MATRIX_LOAD | Kind.MATRIX_STORE:
            return _transfer(step)
        case Kind.MATRIX_TRANSPOSE:
            sources, masks = step.sources[:1], (_WORD,)
            return MatrixRow(layout.MATRIX_TRANSPOSE, sources, masks, step.destinations, _constants(transpose_record()))
        case Kind.MMA | Kind.WGMMA:
            assert step.product is not None
            return _product(step, step.product, arch)
    return None


def _transfer(step: Step) -> MatrixRow:
    assert step.transfer is not None
    assert step.access is not None
    loads = step.kind is Kind.MATRIX_LOAD
    sources = step.sources[:-1]  # the last one is the member mask of the whole warp
    return MatrixRow(
        layout.MATRIX_LOAD if loads else layout.MATRIX_STORE,
        sources,
        (_EVERY_BIT, *(_WORD,) * (len(sources) - 1)),
        step.destinations,
        _constants(
            transfer_record(step.transfer),
            SHARED_WINDOW if step.access.space is StateSpace.GENERIC else 0,
            step.access.offset,
        ),
    )


def _product(step: Step, product: Product, arch: str) -> MatrixRow | None:
    record = product_record(product, arch)
    if record is None:
        return None
    ignored = (product.instruction.a.ignored_bits, product.instruction.b.ignored_bits, 0)
    masks = [
        mask
        for matrix_, bits in zip((product.a, product.b, product.c), ignored, strict=True)
        for mask in _masks(matrix_, bits)
    ]
    sources = step.sources[:-1]
    masks += [1] * (len(sources) - len(masks))  # scale-d
    operation = layout.DOUBLE_PRODUCT if record[UNIT] == DOUBLE else layout.PRODUCT
    if step.kind is Kind.WGMMA:
        operation = layout.WARPGROUP_PRODUCT
    return MatrixRow(operation, sources, tuple(masks), product.d.slots, _constants(record))


def _masks(matrix_: RegisterMatrix | SharedMatrix, ignored_bits: int) -> tuple[int, ...]:
    if isinstance(matrix_, SharedMatrix):
        return (_EVERY_BIT,)
    every = (1 << matrix_.fragment.register_bits) - 1
    return (every >> ignored_bits << ignored_bits,) * len(matrix_.slots)


def _constants(record: Words, *others: int) -> tuple[int, ...]:
    return (record.ctypes.data, record.size, *others)
