"""Operands for one arithmetic instruction: boundary values crossed, raw random bits, and operands that nearly cancel.

Values are uint64 arrays of raw bits, as `simulators.ptx.alu` takes them. A type of 8 bits is drawn with 16, because its
register has as many and the instruction must ignore the upper ones.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tileproof.kernels.opcode_probe import Probe
from tileproof.simulators.ptx.alu.forms import Form
from tileproof.simulators.ptx.alu.ieee import BINARIES, Binary
from tileproof.simulators.ptx.alu.scalar import SCALARS, Scalar

Bits = NDArray[np.uint64]

#: Random elements with every bit drawn, and further ones with related operands.
RAW, RELATED = 100_000, 30_000
#: Most elements of crossed boundary values.
CROSSED = 40_000
_TABLE = 3  # position of the immediate operand of lop3
_ONE_BIT = ("pred", "carry")
_EXHAUSTIVE = np.arange(1 << 16, dtype=np.uint64)
_PATTERN = 0x5555555555555555


def read_types(form: Form) -> tuple[Scalar, ...]:
    """How the operands in registers of a form are read: packed floats where PTX declares untyped bits."""
    packed = SCALARS[form.types[-1]]
    names = [n for k, n in enumerate(form.operation.sources) if form.mnemonic != "lop3" or k != _TABLE]
    declared = (SCALARS[name] for name in names)
    return tuple(packed if packed.lanes > 1 and scalar.name == packed.operand else scalar for scalar in declared)


def probe_of(form: Form, entry: str, table: int | None = None) -> Probe:
    """The kernel that issues a form; of lop3, with one table, which must be an immediate.

    `setp` gives both of its results where the assembler lets it, which for f16 and bf16 it does not.
    """
    operation = form.operation
    single = form.mnemonic == "setp" and form.types[0] in ("f16", "bf16")
    destinations = operation.destinations[:1] if single else operation.destinations
    sources = operation.sources if table is None else (*operation.sources[:_TABLE], *operation.sources[_TABLE + 1 :])
    return Probe(entry, form.opcode, destinations, sources, table)


def operands(form: Form, seed: int) -> tuple[Bits, ...]:
    """All elements for one form, one array an operand; every value of a lone operand of up to 16 bits."""
    types = read_types(form)
    if len(types) == 1 and types[0].bits <= 16:
        return (_EXHAUSTIVE & np.uint64(1) if types[0].name in _ONE_BIT else _EXHAUSTIVE,)
    rng = np.random.default_rng(seed)
    parts = [crossed(types), [_raw(scalar, RAW, rng) for scalar in types], _related(types, rng)]
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def crossed(types: Sequence[Scalar]) -> list[Bits]:
    """Boundary values of each operand with those of all others, the most telling ones if that would be too many."""
    wide = sum(scalar.name not in _ONE_BIT for scalar in types)
    each = int(CROSSED ** (1 / max(wide, 1)))
    grids = np.meshgrid(*(boundary(scalar)[:each] for scalar in types), indexing="ij")
    return [grid.ravel() for grid in grids]


def boundary(scalar: Scalar) -> Bits:
    """Values at which something changes, the most telling first."""
    if scalar.name in _ONE_BIT:
        return np.array([0, 1], np.uint64)
    if scalar.lanes > 1:
        lane = boundary(scalar.lane)
        return np.concatenate((lane | lane[::-1] << np.uint64(scalar.bits // 2), lane << np.uint64(scalar.bits // 2)))
    values = _float_codes(BINARIES[scalar.name]) if scalar.is_float else _integers(scalar.bits)
    return np.array(list(dict.fromkeys(value & scalar.mask for value in values)), np.uint64)


def _integers(bits: int) -> list[int]:
    top = 1 << (bits - 1)
    telling = [0, 1, -1, top, top - 1, top + 1, -2, 2, 3, bits, bits - 1, bits + 1, 31, 32, 33, 8, 24, 255, 256, -3]
    powers = [1 << position for position in range(bits)]
    return [*telling, _PATTERN, _PATTERN << 1, *powers, *(p - 1 for p in powers), *(-p for p in powers), *range(66)]


def _float_codes(binary: Binary) -> list[int]:
    """Zeros, NaN with payloads, ends of ranges, small integers and halves, and the ends and ties of other formats."""
    one, tiny, infinity, unit = binary.one, binary.smallest_normal, binary.infinity, 1 << binary.fraction_bits
    quiet = infinity | unit >> 1
    positive = [0, one, quiet, infinity, 1, tiny, tiny - 1, one - 1, infinity | 1, infinity - 1, one + 1, one + unit]
    positive += [
        2 * tiny - 1,
        tiny + 1,
        quiet | 3,
        one - 2,
        (infinity << 1 | 1) & (binary.sign - 1) | unit - 1,
        one - unit,
    ]
    largest_reciprocal = infinity - 2 * unit  # 1 / x of this and the next codes is about the smallest normal number
    positive += [
        largest_reciprocal,
        largest_reciprocal + 1,
        tiny >> 1,
        infinity | 2,
        one + unit // 2,
        one + unit + unit // 4,
    ]
    bias = one >> binary.fraction_bits
    exponents = [e for e in (*range(-26, 18), *_FAR) if 0 < e + bias < infinity >> binary.fraction_bits]
    for exponent in exponents:
        code = (exponent + bias) << binary.fraction_bits
        positive += [code, code + 1, code - 1, code | unit >> 1, code | unit >> 2, code | unit - 1]
        positive += [
            (code | unit - 1) & ~((1 << cut) - 1) for cut in (42, 29, 16, 13, 12, 11, 20) if cut < binary.fraction_bits
        ]
        positive += [code | 7 * (unit >> 3), code | 15 * (unit >> 4), code | 13 * (unit >> 4)]  # 448, 464, fp8 ties
    return [sign | code for code in positive for sign in (0, binary.sign)]


# Exponents at which integers of 31, 32, 63, 64 bits, float32 and bfloat16 begin, end, or become subnormal.
_FAR = (30, 31, 32, 62, 63, 64, 126, 127, 128, -126, -127, -133, -134, -149, -150)


def _raw(scalar: Scalar, count: int, rng: np.random.Generator) -> Bits:
    bits = rng.integers(0, 1 << 64, count, np.uint64, endpoint=False)
    return bits & np.uint64(1 if scalar.name in _ONE_BIT else (1 << max(scalar.bits, 16)) - 1)


def _related(types: Sequence[Scalar], rng: np.random.Generator) -> list[Bits]:
    """Floats of near exponents and of products that the addend cancels; integers of random length."""
    drawn = [_short(scalar, rng) if not scalar.is_float else _near(scalar, rng) for scalar in types]
    for first, second in pairwise(range(len(types))):
        if types[first].name == types[second].name and types[first].name not in _ONE_BIT:
            same = rng.random(RELATED) < 0.25
            step = rng.integers(0, 3, RELATED).astype(np.uint64)
            sign = np.uint64(0 if rng.random() < 0.1 else 1 << (types[first].bits - 1))
            nearly = (drawn[first] + step) ^ sign
            drawn[second] = np.where(same, nearly, drawn[second]) & np.uint64(types[second].mask)
    if len(types) == 3 and all(scalar.name in ("f32", "f64") for scalar in types):
        drawn[2] = _cancelling(types[0], drawn, rng)
    return drawn


def _short(scalar: Scalar, rng: np.random.Generator) -> Bits:
    """Integers of random length and sign, and boundary values."""
    length = rng.integers(0, scalar.bits, RELATED).astype(np.uint64)
    values = _raw(scalar, RELATED, rng) & np.uint64(scalar.mask)
    shortened = values >> length
    negated = np.where(rng.random(RELATED) < 0.5, shortened, (np.uint64(0) - shortened) & np.uint64(scalar.mask))
    return np.where(rng.random(RELATED) < 0.2, rng.choice(boundary(scalar), RELATED), negated)


def _near(scalar: Scalar, rng: np.random.Generator) -> Bits:
    """Floats of exponents around 0, around the smallest normal number, or of integers; and boundary values."""
    if scalar.lanes > 1:
        half = np.uint64(scalar.bits // 2)
        return _near(scalar.lane, rng) | _near(scalar.lane, rng) << half
    binary = BINARIES[scalar.name]
    bias, top = binary.one >> binary.fraction_bits, binary.infinity >> binary.fraction_bits
    centre = rng.choice([bias, bias, bias // 2, 1, bias + 12, 3 * bias // 2], RELATED)
    exponent = np.clip(centre + rng.integers(-13, 14, RELATED), 0, top - 1).astype(np.uint64)
    fraction = rng.integers(0, 1 << binary.fraction_bits, RELATED, np.uint64)
    sign = rng.integers(0, 2, RELATED).astype(np.uint64) << np.uint64(binary.bits - 1)
    codes = sign | exponent << np.uint64(binary.fraction_bits) | fraction
    return np.where(rng.random(RELATED) < 0.1, rng.choice(boundary(scalar), RELATED), codes)


def _cancelling(scalar: Scalar, drawn: Sequence[Bits], rng: np.random.Generator) -> Bits:
    """For half of the elements, minus the rounded product of the first two operands, a few units off."""
    code, real = (np.uint32, np.float32) if scalar.bits == 32 else (np.uint64, np.float64)
    with np.errstate(all="ignore"):
        product = drawn[0].astype(code).view(real) * drawn[1].astype(code).view(real)
    codes = (-product).view(code).astype(np.uint64) + rng.integers(0, 3, RELATED).astype(np.uint64)
    return np.where(rng.random(RELATED) < 0.5, codes & np.uint64(scalar.mask), drawn[2])
