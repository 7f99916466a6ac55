"""Rows of registers: copied, sign-extended, packed from elements and taken apart."""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast.layout import K0, MASK, RESULT, RESULTS, SLOT, SOURCE, SOURCES
from tileproof.simulators.ptx.fast.parts import part
from tileproof.simulators.ptx.fast.pointers import longs_at

_ONE = np.uint64(1)


@part
def copy_row(source: Any, target: Any, n: Any) -> None:
    """A row of `n` numbers, between addresses."""
    a, b = longs_at(source, n), longs_at(target, n)
    for i in range(n):
        b[i] = a[i]


@part
def extend_row(target: Any, n: Any, sign: Any, wide: Any) -> None:
    """Extend the sign bit `sign` of `n` numbers at an address to the bits of `wide`."""
    out = longs_at(target, n)
    for i in range(n):
        out[i] = ((out[i] ^ sign) - sign) & wide


@part
def pack(row: Any, operands: Any, registers: Any, lanes: Any, runs: Any, scratch: Any) -> None:
    """Elements of constant 0 bits, the first lowest, to one register."""
    width, slot = np.uint64(row[K0]), operands[row[RESULT], SLOT]
    if slot < 0:
        return
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        out = longs_at(scratch + first * 8, n)
        for index in range(row[SOURCES]):
            source = operands[row[SOURCE] + index, SLOT]
            mask, shift = np.uint64(operands[row[SOURCE] + index, MASK]), np.uint64(index) * width
            element = longs_at(registers + (source * lanes + first) * 8, n)
            if index == 0:
                for i in range(n):
                    out[i] = element[i] & mask
            else:
                for i in range(n):
                    out[i] |= (element[i] & mask) << shift
        copy_row(scratch + first * 8, registers + (slot * lanes + first) * 8, n)


@part
def unpack(row: Any, operands: Any, registers: Any, lanes: Any, runs: Any, scratch: Any) -> None:
    """One register to elements of constant 0 bits, the first from the lowest."""
    width = np.uint64(row[K0])
    field = (_ONE << width) - _ONE
    source = operands[row[SOURCE], SLOT]
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        copy_row(registers + (source * lanes + first) * 8, scratch + first * 8, n)
        value = longs_at(scratch + first * 8, n)
        for index in range(row[RESULTS]):
            slot, shift = operands[row[RESULT] + index, SLOT], np.uint64(index) * width
            if slot >= 0:
                out = longs_at(registers + (slot * lanes + first) * 8, n)
                for i in range(n):
                    out[i] = (value[i] >> shift) & field
