"""Who holds what of a matrix operand: the element of each lane, register and slot of a matrix instruction.

A fragment map cuts the row and column of an element into digits (`digit`) and writes them, mixed, into a lane number, a
register number and a slot within the register, slowest digit first. Example, A of mma.m16n8k16 with 16-bit elements,
16 rows × 16 columns on 32 lanes of four registers of two elements:

    lane = [row%8][column/2%4]    register = [column/8][row/8]    slot = [column%2]

Row 11, column 13: lane 3 · 4 + 6 % 4 = 14, register 1 · 2 + 1 = 3, slot 1. Read backwards, lane 14 has row 14 / 4 = 3,
+ 8 for an odd register: the "groupID" and "threadID_in_group" of the PTX ISA.

`locate` and `place` are the definition, one element at a time; `gather` and `scatter` move whole matrices by a
cached index array and are held to `place` by the tests. A register is one word, its first slot in the lowest bits, as
little-endian memory and the hardware hold it.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tileproof.oracle.addresses.digit import Axis, Digit, Index, Offsets, axis_digits
from tileproof.oracle.addresses.digit import K as ROW
from tileproof.oracle.addresses.digit import N as COLUMN
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.refusal import Refusal

__all__ = ["COLUMN", "ROW", "FragmentMap", "Operand", "Place"]

Codes = npt.NDArray[Any]
Words = npt.NDArray[np.unsignedinteger]


class Operand(StrEnum):
    """Which matrix of an instruction a map describes, and so what its rows and columns are."""

    #: M × K.
    A = "A"
    #: N × K: held transposed, as `matrix_unit.multiply_add` takes it. The PTX ISA writes it K × N.
    B = "B"
    #: M × N: the accumulators before and after.
    C = "C"
    #: A matrix that an instruction moves, row by row of 16 bytes in memory.
    MATRIX = "matrix"


class Place(NamedTuple):
    """Where one element is held."""

    lane: int
    register: int
    slot: int


@dataclass(frozen=True, kw_only=True)
class FragmentMap:
    """The places of a rows × columns operand in the registers of a warp, warpgroup or wavefront.

    Raises:
        Refusal: the digits leave out a part of a row or column or take one twice, or do not fill lanes and slots.
    """

    #: Family and shape, such as "mma.m16n8k16".
    instruction: str
    operand: Operand
    rows: int
    columns: int
    #: Width of a slot.
    element_bits: int
    #: Digits of `ROW` and `COLUMN`, slowest first, that make each number.
    lane: tuple[Digit, ...]
    register: tuple[Digit, ...]
    slot: tuple[Digit, ...]
    lanes: int = 32
    register_bits: int = 32
    #: Bits of a code narrower than its slot, and how far it is shifted up there; the other bits are not read.
    code_bits: int = 0
    code_shift: int = 0
    #: Document and section or figure.
    source: str
    evidence: Evidence = Evidence.DOCUMENTED

    def __post_init__(self) -> None:
        for axis in (ROW.axis, COLUMN.axis):
            axis_digits(self._digits, axis)
        counts = [math.prod(map(self._size, digits)) for digits in (self.lane, self.register, self.slot)]
        if counts != [self.lanes, self.registers, self.slots]:
            raise Refusal(
                f"{self}: digits give {counts[0]} lanes of {counts[1]} registers of {counts[2]} elements; "
                f"{self.lanes}, {self.registers} and {self.slots} hold the matrix"
            )
        if not 0 <= self.code_shift <= self.element_bits - self.code_width:
            raise Refusal(f"{self}: a code of {self.code_width} bits shifted by {self.code_shift} leaves its slot")

    @property
    def slots(self) -> int:
        """Elements of a register."""
        return self.register_bits // self.element_bits

    @property
    def registers(self) -> int:
        """Registers of a lane."""
        return self.rows * self.columns // (self.lanes * self.slots)

    @property
    def code_width(self) -> int:
        """Bits of an element that carry its code."""
        return self.code_bits or self.element_bits

    @property
    def code_dtype(self) -> np.dtype[Any]:
        """The unsigned type of one right-aligned code."""
        return np.dtype(f"u{max(self.element_bits // 8, 1)}")

    @property
    def word_dtype(self) -> np.dtype[Any]:
        """The type of one register."""
        return np.dtype(f"u{self.register_bits // 8}")

    def locate(self, lane: int, register: int, slot: int) -> tuple[int, int]:
        """Row and column of the element in a place.

        Raises:
            Refusal: a lane, register or slot that the operand does not have.
        """
        index = {ROW.axis: 0, COLUMN.axis: 0}
        parts = (("lane", lane, self.lane), ("register", register, self.register), ("slot", slot, self.slot))
        for (name, value, digits), limit in zip(parts, (self.lanes, self.registers, self.slots), strict=True):
            if not 0 <= value < limit:
                raise Refusal(f"{self}: {name} {value} is outside 0..{limit - 1}")
            for digit in reversed(digits):
                value, part = divmod(value, self._size(digit))
                index[digit.axis] += part * digit.divisor
        return index[ROW.axis], index[COLUMN.axis]

    def place(self, row: int, column: int) -> Place:
        """Who holds an element; the inverse of `locate`.

        Raises:
            Refusal: an element outside the matrix.
        """
        if not (0 <= row < self.rows and 0 <= column < self.columns):
            raise Refusal(f"{self}: row {row}, column {column} is outside {self.rows} × {self.columns}")
        return Place(*(self._number(digits, row, column) for digits in (self.lane, self.register, self.slot)))

    def gather(self, matrix: Codes) -> Words:
        """The registers that hold a matrix.

        Args:
            matrix: [..., rows, columns] of any type as wide as a code (`code_dtype`), or narrower codes in bytes.

        Returns:
            Words [..., lanes, registers] of `word_dtype`.

        Raises:
            Refusal: another shape, width or byte order, or a code beyond its bits.
        """
        array = np.asarray(matrix)
        _require_native(f"{self}: a matrix", array.dtype)
        if array.shape[-2:] != (self.rows, self.columns) or array.itemsize != self.code_dtype.itemsize:
            raise Refusal(
                f"{self}: a matrix of shape {list(array.shape)} and {array.itemsize} bytes an element",
                hint=f"pass [..., {self.rows}, {self.columns}] of {self.code_dtype.itemsize} bytes an element",
            )
        codes = np.ascontiguousarray(array).view(self.code_dtype)
        chosen = np.take(codes.reshape(*array.shape[:-2], -1), self._elements, axis=-1)
        return self._join(chosen.reshape(*array.shape[:-2], self.lanes, self.registers, self.slots))

    def scatter(self, words: Words, dtype: npt.DTypeLike | None = None) -> Codes:
        """The matrix that registers hold; undoes `gather`.

        Args:
            words: [..., lanes, registers] of an unsigned type as wide as a register.
            dtype: a type to see the codes as; None for `code_dtype`.

        Returns:
            [..., rows, columns].

        Raises:
            Refusal: another shape or type of words, or a type of another width or byte order.
        """
        array = np.asarray(words)
        if array.shape[-2:] != (self.lanes, self.registers) or array.dtype != self.word_dtype:
            raise Refusal(
                f"{self}: words of shape {list(array.shape)} and type {array.dtype}",
                hint=f"pass [..., {self.lanes}, {self.registers}] of {self.word_dtype}",
            )
        seen = self.code_dtype if dtype is None else np.dtype(dtype)
        _require_native(f"{self}: elements to be seen", seen)
        if seen.itemsize != self.code_dtype.itemsize:
            raise Refusal(f"{self}: elements of {self.code_dtype.itemsize} bytes cannot be seen as {seen}")
        codes = np.take(self._split(array).reshape(*array.shape[:-2], -1), self._places, axis=-1)
        return codes.reshape(*array.shape[:-2], self.rows, self.columns).view(seen)

    def place_number(self, element: Index) -> Index:
        """The inverse map on flat numbers: (lane · registers + register) · slots + slot of row · columns + column.

        Args:
            element: one number, or an array; in range.
        """
        row, column = element // self.columns, element % self.columns
        lane, register, slot = (self._number(digits, row, column) for digits in (self.lane, self.register, self.slot))
        return (lane * self.registers + register) * self.slots + slot

    @property
    def is_bit_linear(self) -> bool:
        """Whether the map is linear in the bits of row and column."""
        extents = (self.rows, self.columns)
        return all(size & (size - 1) == 0 for size in extents) and all(d.is_bit_field for d in self._digits)

    @property
    def formula(self) -> str:
        """The digits of each number, for readers: "lane [row%8][column/2%4], ..."."""
        parts = (("lane", self.lane), ("register", self.register), ("slot", self.slot))
        return ", ".join(f"{name} {''.join(map(_text, digits)) or 0}" for name, digits in parts)

    def __str__(self) -> str:
        return f"{self.instruction} {self.operand} of {self.element_bits} bits"

    @property
    def _digits(self) -> tuple[Digit, ...]:
        return self.lane + self.register + self.slot

    @cached_property
    def _places(self) -> Offsets:
        """For each element in row-major order its place number."""
        return self.place_number(np.arange(self.rows * self.columns, dtype=np.int64))

    @cached_property
    def _elements(self) -> Offsets:
        """For each place number its element in row-major order."""
        return np.argsort(self._places)

    def _size(self, digit: Digit) -> int:
        return digit.size(self.rows if digit.axis is ROW.axis else self.columns)

    def _number(self, digits: tuple[Digit, ...], row: Index, column: Index) -> Index:
        number = row * 0
        for digit in digits:
            number = number * self._size(digit) + digit.of(row if digit.axis is ROW.axis else column)
        return number

    def _join(self, codes: Codes) -> Words:
        """Words [...] of codes [..., slots], the first in the lowest bits."""
        if self.code_width < 8 * codes.itemsize:
            if np.any(codes >> self.code_width):
                raise Refusal(f"{self}: code {codes.max()} needs more than {self.code_width} bits")
            codes = codes << self.code_shift
        if self.element_bits >= 8:
            little = np.ascontiguousarray(codes, codes.dtype.newbyteorder("<"))
            return little.view(self.word_dtype.newbyteorder("<"))[..., 0].astype(self.word_dtype, copy=False)
        shifts = self.element_bits * np.arange(self.slots, dtype=self.word_dtype)
        return np.asarray(np.bitwise_or.reduce(codes.astype(self.word_dtype) << shifts, axis=-1))

    def _split(self, words: Words) -> Codes:
        """Codes [..., slots] of words [...]."""
        codes: Codes
        if self.element_bits >= 8:
            little = np.ascontiguousarray(words, self.word_dtype.newbyteorder("<"))[..., np.newaxis]
            codes = little.view(self.code_dtype.newbyteorder("<")).astype(self.code_dtype, copy=False)
        else:
            shifts = self.element_bits * np.arange(self.slots, dtype=self.word_dtype)
            codes = (words[..., np.newaxis] >> shifts).astype(self.code_dtype)
        if self.code_width < 8 * self.code_dtype.itemsize:
            codes = codes >> self.code_shift & ((1 << self.code_width) - 1)
        return codes


def _require_native(what: str, dtype: np.dtype[Any]) -> None:
    if not dtype.isnative:
        raise Refusal(
            f"{what} of type {dtype.str}: another byte order than the machine's",
            hint="convert it: matrix.astype(matrix.dtype.newbyteorder('='))",
        )


def _text(digit: Digit) -> str:
    name = "row" if digit.axis is Axis.K else "column"
    return f"[{name}{str(digit).removeprefix(digit.axis.value)}]"
