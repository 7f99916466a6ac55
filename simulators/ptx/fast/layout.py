"""The layout of everything that compiled code sees: the columns of its tables and the numbers of its operations.

numba takes module constants as they are, so these are plain integers.
"""

# Columns of the bytecode table, one line a step.
OP = 0
GUARD = 1  # predicate slot, -1 for none
NEGATED = 2  # 1: executes where the guard is 0
SOURCE, SOURCES = 3, 4  # first operand and number of operands
RESULT, RESULTS = 5, 6
TARGET = 7  # of a branch
K0 = 8  # the operation's own constants
CONSTANTS = 12
COLUMNS = K0 + CONSTANTS

# Columns of the operand table.
SLOT = 0
MASK = 1  # of the bits that count
SIGN = 2  # of a result: its sign bit where a signed value goes to a wider register, else 0
ROW = 2  # of a register that `wgmma` reads: its row in the table of standings
WIDE = 3  # of a result with SIGN: the register's bits
OPERAND_COLUMNS = 4

# How much of a register something wrote.
DEFINED, PARTLY, NEVER = 0, 1, 2

# Memories, the lines of the space table, and its columns.
GLOBAL, SHARED, LOCAL, CONST, PARAM, GENERIC = 0, 1, 2, 3, 4, 5
SPACES = 8
DATA = 0  # address of the bytes
WRITTEN = 1  # address of the definedness of the bytes, 0: all defined
BASE = 2  # lowest legal address
BYTES = 3  # of one owner's piece
STARTS = 4  # address of each lane's int64 offset to its owner's piece, 0: one owner
LIFE = 5  # address of a byte for each 8-byte word: 1 where a live mbarrier stands; 0 if the program has none
SPACE_COLUMNS = 6

# The line of the groups of cp.async, and its columns: whether compiled code may issue copies; addresses of arrays of
# `Groups`. And the line of those in flight: address of the table of `SmallFlights`, and its rows; address of its state;
# address of the state from which landings are drawn, 0 where copies land at issue.
COPIES, FLIGHTS = 6, 7
COPIES_READY, OPEN_GROUP, USED, USED_AT, COMPLETE = 0, 1, 2, 3, 4
FLIGHT_TABLE, FLIGHT_ROOM, FLIGHT_STATE, LANDINGS = 0, 1, 2, 3

# The line of the registers of `wgmma`, and its columns: whether compiled code may issue it; addresses of the tables of
# `ProductRegisters`, and the number of rows of the first one.
PRODUCTS = 5
PRODUCTS_READY, STANDINGS, STANDING_ROWS, WARPS = 0, 1, 2, 3

# The allocation table, ascending by base, has the columns of the space table; BYTES is 0 for a freed one.

# Counters that compiled code adds to.
GLOBAL_READ, GLOBAL_WRITTEN, SHARED_READ, SHARED_WRITTEN, CHANGES, STEPS = 0, 1, 2, 3, 4, 5
COUNTERS = 6

# What a call and its caller tell each other.
PC, STOP, MOST, MADE, LANES, LIVE, TOGETHER, OPEN = 0, 1, 2, 3, 4, 5, 6, 7
# Whether accesses are checked against earlier ones; whether the one at PC was. Of one that must be: how many lanes, 0
# for none; its space; its allocation; how many runs of lanes stand in `chosen`, 0 for all of the turn's.
ORDERED, PASSED, ASKED, ASKED_SPACE, ASKED_ALLOCATION, ASKED_RUNS = 8, 9, 10, 11, 12, 13
# Addresses of the function that checks order, and of its table; 0: the caller is asked.
GATE, GATE_TABLE = 40, 41
# Where lanes note which of their groups of cp.async they know complete: address of the first lane's number; how many
# 32-bit words behind it the next lane's is; in how many tables, one behind the other, they do. 0: nobody asks.
KNOWN, KNOWN_STEP, KNOWN_TABLES = 42, 43, 44
# Addresses of what it works on, and extents. The program: bytecode, constants, operands, functions of the operations.
CODE, CONSTANT_TABLE, OPERAND_TABLE, FUNCTIONS = 14, 15, 16, 17
# Registers: values [slots, lanes of the wave], masks, what is known of them, masks of one that nothing has written,
# which may hold an interval.
REGISTERS, SLOTS, WIDTH, MASKS, FLAGS, NEVER_ROW, BRACKETS = 18, 19, 20, 21, 22, 23, 24
# Runs of the turn's lanes, room for runs; memories, allocations and how many; counters; room for ROOM numbers a lane; a
# hash table's keys, places and stamps.
RUNS, RUN_COUNT, CHOSEN, SPACE_TABLE, ALLOCATION_TABLE, ALLOCATIONS, COUNTER_TABLE = 25, 26, 27, 28, 29, 30, 31
SCRATCH, KEYS, PLACES, STAMPS = 32, 33, 34, 35
ROOM = 7
# Of the present step, for its operation's function: its line, the lanes' runs and their number, how many lanes.
LINE, HERE, HERE_COUNT, ACTIVE = 36, 37, 38, 39
# Lanes of a block where all blocks are whole, so that they may do the same, else 0; address of a number that is not 0
# while the order notes what all blocks do in shared memory for the first one only.
BLOCK_LANES, FOLDED = 45, 46
FRAME = 47

# Operations. 0 is none: the step is the reference engine's.
COLD = 0
NOTHING, BRANCH, LOAD, STORE, PACK, UNPACK, SHUFFLE, VOTE, BARRIER, COPY, COPY_GROUP = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11

# Integers and bits. All work on 64-bit values; the constants say what the type makes of them.
MOVE, EXTEND, ADD, SUBTRACT, MULTIPLY, MULTIPLY_SIGNED, MULTIPLY_ADD, MULTIPLY_ADD_SIGNED = (
    20,
    21,
    22,
    23,
    24,
    25,
    26,
    27,
)
MULTIPLY_HIGH, AND, OR, XOR, NOT, SHIFT_LEFT, SHIFT_RIGHT, SHIFT_RIGHT_SIGNED = 28, 29, 30, 31, 32, 33, 34, 35
MINIMUM, MAXIMUM, SELECT, NEGATE, ABSOLUTE, LOGIC3, DIVIDE, REMAINDER = 36, 37, 38, 39, 40, 41, 42, 43
COUNT_ONES, COUNT_ZEROS, FIND, REVERSE, EXTRACT, EXTRACT_SIGNED, INSERT = 44, 45, 46, 47, 48, 49, 50
FUNNEL_LEFT, FUNNEL_RIGHT, PERMUTE, DOT4, CLAMP = 51, 52, 53, 54, 55
INTEGER_FIRST, INTEGER_LAST = 20, 79
# Comparisons: of integers, f32 and f64.
COMPARE, COMPARE_SINGLE, COMPARE_DOUBLE = 80, 81, 82
COMPARE_FIRST, COMPARE_LAST = 80, 89
# Floating point on f32 and f64.
ADD_SINGLE, SUBTRACT_SINGLE, MULTIPLY_SINGLE, FUSED_SINGLE, DIVIDE_SINGLE, ROOT_SINGLE = 90, 91, 92, 93, 94, 95
LESSER_SINGLE, GREATER_SINGLE, NEGATE_SINGLE, ABSOLUTE_SINGLE = 96, 97, 98, 99
ADD_DOUBLE, SUBTRACT_DOUBLE, MULTIPLY_DOUBLE, FUSED_DOUBLE, DIVIDE_DOUBLE, ROOT_DOUBLE = 100, 101, 102, 103, 104, 105
NEGATE_DOUBLE, ABSOLUTE_DOUBLE = 106, 107
FLOAT_FIRST, FLOAT_LAST = 90, 119
# Conversions.
SINGLE_TO_HALF, SINGLE_TO_BFLOAT, HALF_TO_SINGLE, BFLOAT_TO_SINGLE = 120, 121, 122, 123
PAIR_TO_HALVES, PAIR_TO_BFLOATS, PAIR_TO_BYTES, HALVES_TO_BYTES, BYTES_TO_HALVES = 124, 125, 126, 127, 128
INTEGER_TO_SINGLE, INTEGER_TO_DOUBLE, SINGLE_TO_INTEGER, DOUBLE_TO_INTEGER = 129, 130, 131, 132
SINGLE_TO_DOUBLE, DOUBLE_TO_SINGLE, SINGLE_TO_INTEGRAL = 133, 134, 135
CONVERT_FIRST, CONVERT_LAST = 120, 149
# Packed 16-bit floats.
HALF_FIRST, HALF_LAST = 150, 169
# Matrices.
MATRIX_FIRST, MATRIX_LAST = 200, 239
OPERATIONS = 240
MATRIX_LOAD, MATRIX_STORE, MATRIX_TRANSPOSE, PRODUCT, DOUBLE_PRODUCT, WARPGROUP_PRODUCT = 200, 201, 202, 203, 204, 205
