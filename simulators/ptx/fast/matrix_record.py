"""Matrix forms as arrays for compiled code: headers, maps and tables, made once for each form in a process."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.oracle.maps.ldmatrix import ROW_BYTES, movmatrix
from tileproof.oracle.maps.wgmma_tile import Major
from tileproof.oracle.matrix_unit import describe
from tileproof.oracle.units.fused_sum_array import fused_unit, kernel_parameters, summing_order
from tileproof.oracle.units.instruction import Instruction
from tileproof.oracle.units.operand import OperandType
from tileproof.oracle.units.term_array import TermTable, term_table, unpacked_term_table
from tileproof.oracle.units.unit import FmaChain, FusedSum, IntegerSum, LateSum, Unit
from tileproof.oracle.units.unit_kernels import VECTOR_ROWS
from tileproof.simulators.ptx.fast.matrix_layout import (
    DOUBLE,
    FUSED,
    HEADER_WORDS,
    INTEGER,
    OPERAND_WORDS,
    TRANSFER_WORDS,
)
from tileproof.simulators.ptx.machine.matrix import ASSEMBLER
from tileproof.simulators.ptx.matrix_form import Product, RegisterMatrix, SharedMatrix
from tileproof.simulators.ptx.program import NONE

Words = npt.NDArray[np.int64]
Source = FragmentMap | SharedMatrix
#: Codes of at most this many bits have a table of their terms.
_TABLE_BITS = 8


@dataclass(frozen=True)
class _Form:
    """What decides the array of a product: everything but slots."""

    instruction: Instruction
    arch: str
    a: Source
    b: Source
    c: FragmentMap
    negates_a: bool
    negates_b: bool
    has_scale: bool
    scale_negated: bool

    @property
    def unit(self) -> Unit:
        """Who computes it."""
        return describe(self.instruction.name, arch=self.arch, assembler=ASSEMBLER).unit


class _Array:
    """An int64 array that grows behind its header."""

    def __init__(self, header_words: int) -> None:
        self._header_words = header_words
        self._parts: list[Words] = []
        self._size = header_words

    def add(self, words: npt.NDArray[Any]) -> int:
        """The place where the words now stand."""
        self._parts.append(words.reshape(-1).astype(np.int64))
        self._size += words.size
        return self._size - words.size

    def finish(self, header: list[int]) -> Words:
        """The whole array."""
        assert len(header) == self._header_words
        return np.concatenate([np.array(header, np.int64), *self._parts])


def product_record(product: Product, arch: str) -> Words | None:
    """The array of a product; None where compiled code has no such unit."""
    return _product_record(
        _Form(
            product.instruction,
            arch,
            _source(product.a),
            _source(product.b),
            product.c.fragment,
            product.negates_a,
            product.negates_b,
            product.adds_c != NONE,
            product.adds_c_negated,
        )
    )


@cache
def transfer_record(transfer: FragmentMap) -> Words:
    """The array of `ldmatrix` or `stmatrix`."""
    element_bytes = transfer.element_bits // 8
    elements = np.arange(transfer.rows * transfer.columns)
    places = transfer.place_number(elements)  # (lane · registers + register) · slots + slot
    sources = np.empty(elements.size, np.int64)
    sources[places] = elements * element_bytes
    per_lane = sources.reshape(transfer.lanes, transfer.registers, transfer.slots)
    rows = per_lane.transpose(1, 0, 2)[..., np.newaxis] + np.arange(element_bytes)
    return _transfer(transfer.rows, transfer.registers, rows)


@cache
def transpose_record() -> Words:
    """The array of `movmatrix`: the bytes of a warp's 32 registers take the place of rows."""
    words = np.arange(128, dtype=np.uint8).view("<u4").astype(np.uint32)
    return _transfer(8, 1, movmatrix(words).astype("<u4").view(np.uint8))


def _transfer(rows: int, registers: int, source_bytes: npt.NDArray[Any]) -> Words:
    assert source_bytes.size == rows * ROW_BYTES
    array = _Array(TRANSFER_WORDS)
    return array.finish([rows, registers, array.add(source_bytes)])


def _source(matrix: RegisterMatrix | SharedMatrix) -> Source:
    return matrix.fragment if isinstance(matrix, RegisterMatrix) else replace(matrix, descriptor=NONE)


@cache
def _product_record(form: _Form) -> Words | None:
    unit, instruction = form.unit, form.instruction
    m, n, k = instruction.shape.m, instruction.shape.n, instruction.shape.k
    operands, numbers = (instruction.a, instruction.b), (form.negates_a, form.negates_b)
    match unit:
        case FusedSum() | LateSum():
            kind, group = FUSED, fused_unit(unit).group
            terms = unpacked_term_table if isinstance(unit, LateSum) else term_table
            tables: list[TermTable | None] = [terms(operand) for operand in operands]
            assert tables[0] is not None
            assert tables[1] is not None
            parameters = list(kernel_parameters(unit, tables[0], tables[1]))
            order = np.argsort(summing_order(unit, k))
        case IntegerSum():
            kind, group, tables = INTEGER, k, [_integers(operand) for operand in operands]
            parameters, order = [int(unit.saturates), 0, 0, 0, 0, 0], np.arange(k)
        case FmaChain() if instruction.accumulator == "f64":
            kind, group, tables = DOUBLE, k, [None, None]
            parameters, order = [0, 0, 0, 0, 0, 0], np.arange(k)
        case _:
            return None
    array = _Array(HEADER_WORDS)
    padded = -(-m // int(VECTOR_ROWS)) * int(VECTOR_ROWS)
    records = [
        array.add(_operand(array, source, operand, table, rows, strides, order, flips))
        for source, operand, table, rows, strides, flips in zip(
            (form.a, form.b), operands, tables, (m, n), ((1, padded), (k, 1)), numbers, strict=True
        )
    ]
    records.append(array.add(_operand(array, form.c, None, None, m, (n, 1), np.arange(n), False)))
    flags = [int(form.has_scale), int(form.scale_negated)]
    return array.finish([kind, form.c.lanes, m, n, k, group, *map(int, parameters), *records, *flags])


def _operand(
    array: _Array,
    source: Source,
    operand: OperandType | None,
    table: TermTable | None,
    rows: int,
    strides: tuple[int, int],
    order: npt.NDArray[Any],
    flips: bool,
) -> Words:
    """The record of an operand; `order` gives for each k (or column of C) where it stands."""
    bits = source.element_bits
    shift, width = (source.code_shift, source.code_width) if isinstance(source, FragmentMap) else (0, bits)
    flip = 1 << (bits - 1) if flips else 0
    words = [0] * OPERAND_WORDS
    if isinstance(source, FragmentMap):
        element = np.arange(source.rows * source.columns)
        matrix = element // source.columns * strides[0] + order[element % source.columns] * strides[1]
        targets = np.empty(element.size, np.int64)
        targets[source.place_number(element)] = matrix
        per_lane = targets.reshape(source.lanes, source.registers, source.slots)
        words[:4] = [0, source.registers, source.slots, array.add(per_lane.transpose(1, 0, 2))]
    else:
        words[:2] = [1, 1]  # the descriptor
        words[11:13] = [rows, int(source.major is Major.MN)]
    if operand is not None and operand.ignored_bits:
        shift, width = operand.ignored_bits, bits - operand.ignored_bits
        flip >>= operand.ignored_bits
    words[4:8] = [bits, shift, (1 << min(width, 63)) - 1, flip]
    if table is not None and len(table.significand) <= 1 << _TABLE_BITS:
        words[8] = array.add(np.concatenate([_all_codes(table.significand), _all_codes(table.exponent)]))
    elif operand is not None and operand.record is not None:
        words[9:11] = [operand.record.mantissa_bits, operand.record.exponent_bits]
    words[13:15] = strides
    return np.array(words, np.int64)


def _all_codes(values: Words) -> Words:
    """The table for codes of 8 bits: higher bits of narrower ones do not matter."""
    return np.tile(values, (1 << _TABLE_BITS) // values.size)


def _integers(operand: OperandType) -> TermTable:
    """Integers are their own significands."""
    codes = np.arange(1 << _TABLE_BITS, dtype=np.uint8)
    return TermTable(codes.view(operand.code_dtype).astype(np.int64), np.zeros(codes.size, np.int64), 0)
