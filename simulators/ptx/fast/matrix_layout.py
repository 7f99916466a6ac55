"""The numbers of one matrix form as compiled code reads them: places in one int64 array.

A form is a header, the records of its operands, and the maps and tables that these point to, all in one array; what is
called a place below is an index into it. Slots are no part of it: they stand in the bytecode.
"""

#: Units that compute a product.
FUSED, INTEGER, DOUBLE = 0, 1, 2

# The header of a product.
UNIT, LANES, ROWS, COLUMNS, DEPTH, GROUP = 0, 1, 2, 3, 4, 5
#: Six parameters of `unit_kernels.fused_column`; of integers, the first says whether sums are clamped.
PARAMETERS = 6
#: Places of the records of A, B and C; whether there is a predicate `scale-d`, and whether it is read inverted.
A, B, C, HAS_SCALE, SCALE_NEGATED = 12, 13, 14, 15, 16
HEADER_WORDS = 17

# The record of an operand. Registers: how many, elements of each, and the place of the map that gives, for register,
# lane and element, where the element stands in the matrix.
IN_MEMORY, REGISTERS, ELEMENTS, MAP = 0, 1, 2, 3
#: Bits from one element to the next, where a code starts in its element, its mask, bits that a negation flips.
ELEMENT_BITS, SHIFT, CODE_MASK, FLIP = 4, 5, 6, 7
#: The place of the terms of all codes (significands, then exponents), or 0 for codes that are taken apart.
TABLE, MANTISSA_BITS, EXPONENT_BITS = 8, 9, 10
#: In memory: rows; whether rows are contiguous (MN-major); strides of a row and of k in the matrix.
TILE_ROWS, MN_MAJOR, ROW_STRIDE, K_STRIDE = 11, 12, 13, 14
OPERAND_WORDS = 15

# The form of ldmatrix, stmatrix and movmatrix: rows and registers, and the place of the map that gives, for register,
# lane and byte, the byte in the rows.
TRANSFER_ROWS, TRANSFER_REGISTERS, TRANSFER_MAP = 0, 1, 2
TRANSFER_WORDS = 3
