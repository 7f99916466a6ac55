"""Operands of matrix instructions, compiled: from registers and shared memory to terms, and sums to registers."""

from typing import Any

import numpy as np

from tileproof.oracle.units.unit_kernels import split_ieee
from tileproof.simulators.ptx.fast.matrix_layout import (
    CODE_MASK,
    ELEMENT_BITS,
    ELEMENTS,
    EXPONENT_BITS,
    FLIP,
    K_STRIDE,
    MANTISSA_BITS,
    MAP,
    MN_MAJOR,
    REGISTERS,
    ROW_STRIDE,
    SHIFT,
    TABLE,
    TILE_ROWS,
)
from tileproof.simulators.ptx.fast.parts import inlined

_LINE_BYTES, _CHUNK_BYTES = 128, 16
#: Codes of a table.
_CODES = np.uint64(256)


@inlined
def register_terms(record: Any, at: Any, slots: Any, values: Any, first: Any, lanes: Any, terms: Any) -> None:
    """The terms of an operand in registers of `lanes` lanes from `first` on."""
    elements, bits = record[at + ELEMENTS], record[at + ELEMENT_BITS]
    place = np.uint64(record[at + MAP])
    for register in range(record[at + REGISTERS]):
        row = values[slots[register, 0]]
        for lane in range(np.uint64(first), np.uint64(first + lanes)):
            word = np.int64(row[lane])
            for element in range(elements):
                put_term(record, at, word >> (element * bits), np.uint64(record[place]), terms)
                place += np.uint64(1)


@inlined
def put_term(record: Any, at: Any, code: Any, place: Any, terms: Any) -> None:
    """The term of one element, of which `code` has the lowest bits."""
    significand, exponent = terms
    code = ((code >> record[at + SHIFT]) & record[at + CODE_MASK]) ^ record[at + FLIP]
    if record[at + TABLE]:
        found = np.uint64(record[at + TABLE] + code)
        significand[place], exponent[place] = record[found], record[found + _CODES]
    else:
        significand[place], exponent[place] = split_ieee(code, record[at + MANTISSA_BITS], record[at + EXPONENT_BITS])


@inlined
def chunks(record: Any, at: Any, depth: Any) -> Any:
    """How many chunks of 16 bytes an operand in shared memory has."""
    return record[at + TILE_ROWS] * depth * record[at + ELEMENT_BITS] // (8 * _CHUNK_BYTES)


@inlined
def chunk_address(record: Any, at: Any, descriptor: Any, chunk: Any) -> Any:
    """The shared address of a chunk, see `wgmma_tile`; the descriptor is a legal one."""
    start, leading, stride = _field(descriptor, 0), _field(descriptor, 16), _field(descriptor, 32)
    base, mode = (descriptor >> 49) & 7, (descriptor >> 62) & 3
    width = 1 << (3 - (mode - 1)) if mode else 1
    if record[at + MN_MAJOR]:
        across = record[at + TILE_ROWS] // 8
        k, c = chunk // across, chunk % across
        linear = start + _CHUNK_BYTES * width * (k % 8)
        if mode:
            linear += stride * (k // 8) + _CHUNK_BYTES * (c % width) + leading * (c // width)
        else:
            linear += leading * (k // 8) + stride * c
    else:
        row, c = chunk // 2, chunk % 2
        linear = start + _CHUNK_BYTES * width * (row % 8) + stride * (row // 8)
        linear += _CHUNK_BYTES * c if mode else leading * c
    pattern = linear - _LINE_BYTES * base
    return linear ^ (((pattern >> 7) & (width - 1)) << 4)


@inlined
def _field(descriptor: Any, first: Any) -> Any:
    return ((descriptor >> first) & 0x3FFF) << 4


@inlined
def chunk_terms(record: Any, at: Any, halves: Any, chunk: Any, terms: Any) -> None:
    """The terms of a chunk, given as two words of 8 bytes."""
    bits, rows = record[at + ELEMENT_BITS], record[at + TILE_ROWS]
    elements = 64 // bits
    if record[at + MN_MAJOR]:
        row, k = chunk % (rows // 8) * 8, chunk // (rows // 8)
        step = record[at + ROW_STRIDE]
    else:
        row, k = chunk // 2, chunk % 2 * 2 * elements
        step = record[at + K_STRIDE]
    place = np.uint64(row * record[at + ROW_STRIDE] + k * record[at + K_STRIDE])
    for word in halves:
        for element in range(elements):
            put_term(record, at, word >> (element * bits), place, terms)
            place += np.uint64(step)


@inlined
def register_codes(record: Any, at: Any, slots: Any, values: Any, first: Any, lanes: Any, codes: Any) -> None:
    """The codes of accumulators."""
    elements, bits, mask = record[at + ELEMENTS], record[at + ELEMENT_BITS], record[at + CODE_MASK]
    for register in range(record[at + REGISTERS]):
        slot = slots[register, 0]
        place = record[at + MAP] + register * lanes * elements
        for lane in range(first, first + lanes):
            word = np.int64(values[slot, lane])
            for element in range(elements):
                codes[record[place]] = (word >> (element * bits)) & mask
                place += 1


@inlined
def write_codes(record: Any, at: Any, slots: Any, values: Any, first: Any, lanes: Any, codes: Any) -> None:
    """Accumulators of these codes into registers."""
    elements, bits, mask = record[at + ELEMENTS], record[at + ELEMENT_BITS], record[at + CODE_MASK]
    for register in range(record[at + REGISTERS]):
        slot = slots[register, 0]
        place = record[at + MAP] + register * lanes * elements
        for lane in range(first, first + lanes):
            word = np.int64(0)
            for element in range(elements):
                word |= (codes[record[place]] & mask) << (element * bits)
                place += 1
            if slot >= 0:
                values[slot, lane] = np.uint64(word)
