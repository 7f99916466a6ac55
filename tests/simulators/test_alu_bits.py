"""Logic, shifts, bit fields and byte permutes of the PTX simulator against definitions bit by bit."""

import random
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from alu_opcode import run

from tileproof.simulators.ptx.alu.scalar import pack, unpack, widen


def words(width: int, count: int, seed: int = 0) -> list[int]:
    generator = random.Random(1000 * width + seed)
    top = 1 << width
    edges = [0, 1, top - 1, top // 2, top // 2 - 1, 0x123456789ABCDEF0 % top, 0xF0F0F0F0F0F0F0F0 % top]
    return edges + [generator.getrandbits(width) for _ in range(count)]


def bits_of(word: int, width: int) -> list[int]:
    return [word >> position & 1 for position in range(width)]


def word_of(bits: Sequence[int]) -> int:
    return sum(bit << position for position, bit in enumerate(bits))


@pytest.mark.parametrize("kind", ["pred", "b16", "b32", "b64"])
def test_boolean_operations_work_bit_by_bit(kind: str) -> None:
    width = 1 if kind == "pred" else int(kind[1:])
    a, b = ([0, 0, 1, 1], [0, 1, 0, 1]) if width == 1 else (words(width, 40), words(width, 40, seed=1))
    rules: dict[str, Callable[[int, int], int]] = {"and": min, "or": max, "xor": lambda x, y: int(x != y)}
    for name, rule in rules.items():
        expected = [
            word_of([rule(p, q) for p, q in zip(bits_of(x, width), bits_of(y, width), strict=True)])
            for x, y in zip(a, b, strict=True)
        ]
        assert run(f"{name}.{kind}", a, b) == expected, name
    assert run(f"not.{kind}", a) == [word_of([1 - p for p in bits_of(x, width)]) for x in a]
    if width > 1:
        assert run(f"cnot.{kind}", a) == [int(x == 0) for x in a]


@pytest.mark.parametrize("table", range(256))
def test_lop3_reads_bit_4a_2b_c_of_its_table(table: int) -> None:
    a, b, c = (words(32, 6, seed) for seed in (1, 2, 3))
    observed = run("lop3.b32", a, b, c, [table] * len(a))
    for x, y, z, result in zip(a, b, c, observed, strict=True):
        triples = zip(bits_of(x, 32), bits_of(y, 32), bits_of(z, 32), strict=True)
        assert result == word_of([table >> (4 * p + 2 * q + r) & 1 for p, q, r in triples])


AMOUNTS = (0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 2**31, 2**32 - 1)


def shifted(word: int, amount: int, width: int, opcode: str) -> int:
    signed = opcode == "shr.s"
    value = word - (1 << width) if signed and word >> (width - 1) else word
    moved = value << amount if opcode == "shl.b" else value >> amount
    return moved % (1 << width)


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("opcode", ["shl.b", "shr.b", "shr.u", "shr.s"])
def test_shift_amounts_clamp_at_the_width(opcode: str, width: int) -> None:
    both = list(product(words(width, 5), AMOUNTS))
    a, amounts = [x for x, _ in both], [n for _, n in both]
    observed = run(f"{opcode}{width}", a, amounts)
    assert observed == [shifted(x, min(n, width), width, opcode) for x, n in both]
    assert observed != [shifted(x, n % width, width, opcode) for x, n in both], "an amount modulo the width must differ"


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
@pytest.mark.parametrize("direction", ["l", "r"])
def test_funnel_shifts_move_the_joined_words(direction: str, mode: str) -> None:
    pairs = list(product(zip(words(32, 6), words(32, 6, seed=9), strict=True), AMOUNTS))
    a, b, amounts = [p[0] for p, _ in pairs], [p[1] for p, _ in pairs], [n for _, n in pairs]
    observed = run(f"shf.{direction}.{mode}.b32", a, b, amounts)
    for x, y, amount, result in zip(a, b, amounts, observed, strict=True):
        n = min(amount, 32) if mode == "clamp" else amount % 32
        joined = bits_of(x, 32) + bits_of(y, 32)
        window = joined[32 - n : 64 - n] if direction == "l" else joined[n : n + 32]
        assert result == word_of(window), (hex(x), hex(y), amount)


def test_generic_prmt_copies_bytes_and_replicates_signs() -> None:
    a, b, control = (words(32, 300, seed) for seed in (4, 5, 6))
    observed = run("prmt.b32", a, b, control)
    for x, y, selectors, result in zip(a, b, control, observed, strict=True):
        source = x.to_bytes(4, "little") + y.to_bytes(4, "little")
        expected = []
        for position in range(4):
            nibble = selectors >> 4 * position & 0xF
            byte = source[nibble & 7]
            expected.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
        assert result == int.from_bytes(bytes(expected), "little"), (hex(x), hex(y), hex(selectors))


# PTX ISA, prmt: selector of d.b3, d.b2, d.b1, d.b0 for c = 0, 1, 2, 3.
PRMT_TABLE = {
    "f4e": ["3210", "4321", "5432", "6543"],
    "b4e": ["5670", "6701", "7012", "0123"],
    "rc8": ["0000", "1111", "2222", "3333"],
    "ecl": ["3210", "3211", "3222", "3333"],
    "ecr": ["0000", "1110", "2210", "3210"],
    "rc16": ["1010", "3232", "1010", "3232"],
}


@pytest.mark.parametrize("mode", PRMT_TABLE)
def test_prmt_modes_follow_the_table_of_the_isa(mode: str) -> None:
    controls = [0, 1, 2, 3, 4, 0xFFFFFFFE]
    observed = run(f"prmt.b32.{mode}", [0x33221100] * 6, [0xF7665544] * 6, controls)
    source = bytes.fromhex("00112233445566F7")
    rows = [PRMT_TABLE[mode][control % 4] for control in controls]
    assert observed == [int.from_bytes(bytes(source[int(digit)] for digit in row), "big") for row in rows]


@pytest.mark.parametrize("width", [32, 64])
def test_counting_operations_count(width: int) -> None:
    a = [*words(width, 40), *(1 << n for n in range(width)), *((1 << n) - 1 for n in range(width))]
    assert run(f"popc.b{width}", a) == [sum(bits_of(x, width)) for x in a]
    assert run(f"clz.b{width}", a) == [width - x.bit_length() for x in a]
    assert run(f"brev.b{width}", a) == [word_of(bits_of(x, width)[::-1]) for x in a]


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("sign", ["u", "s"])
def test_bfind_finds_the_highest_bit_that_is_not_sign(sign: str, width: int) -> None:
    a = [*words(width, 40), *(1 << n for n in range(width)), *((1 << width) - (1 << n) for n in range(width))]

    def found(x: int) -> int | None:
        bits = bits_of(x, width)
        wanted = 1 - bits[-1] if sign == "s" else 1
        return max((position for position, bit in enumerate(bits) if bit == wanted), default=None)

    places = [found(x) for x in a]
    assert run(f"bfind.{sign}{width}", a) == [2**32 - 1 if p is None else p for p in places]
    assert run(f"bfind.shiftamt.{sign}{width}", a) == [2**32 - 1 if p is None else width - 1 - p for p in places]


FIELD = (0, 1, 5, 8, 31, 32, 33, 63, 64, 65, 128, 255, 256 + 3, 2**32 - 1)


def counted(operand: int, width: int) -> int:
    """Beyond 255, outside PTX, 64-bit fields take the whole operand (measured on H200)."""
    return operand & 0xFF if width == 32 else operand


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("sign", ["u", "s"])
def test_bfe_extracts_and_extends_as_the_isa_spells_out(sign: str, width: int) -> None:
    cases = list(product(words(width, 3), FIELD, FIELD))
    observed = run(f"bfe.{sign}{width}", *([case[i] for case in cases] for i in range(3)))
    for (x, start, length), result in zip(cases, observed, strict=True):
        pos, n, bits = counted(start, width), counted(length, width), bits_of(x, width)
        sign_bit = bits[min(pos + n - 1, width - 1)] if sign == "s" and n else 0
        expected = [bits[pos + i] if i < n and pos + i < width else sign_bit for i in range(width)]
        assert result == word_of(expected), (hex(x), start, length)


@pytest.mark.parametrize("width", [32, 64])
def test_bfi_replaces_the_field_only(width: int) -> None:
    cases = [
        (x, y, p, n) for (x, y), p, n in product(zip(words(width, 3), words(width, 3, 7), strict=True), FIELD, FIELD)
    ]
    observed = run(f"bfi.b{width}", *([case[i] for case in cases] for i in range(4)))
    for (x, y, start, length), result in zip(cases, observed, strict=True):
        expected, source = bits_of(y, width), bits_of(x, width)
        first = counted(start, width)
        for i in range(min(counted(length, width), width - first)):
            expected[first + i] = source[i]
        assert result == word_of(expected), (hex(x), hex(y), start, length)


@pytest.mark.parametrize(("count", "bits"), [(2, 8), (4, 8), (2, 16), (4, 16), (2, 32)])
def test_vectors_pack_with_the_first_element_lowest(count: int, bits: int) -> None:
    elements = [np.array(words(bits, 4, seed), np.uint64) for seed in range(count)]
    packed = pack(elements, bits)
    expected = [sum(int(e[i]) << bits * n for n, e in enumerate(elements)) for i in range(len(packed))]
    assert [int(value) for value in packed] == expected
    for element, back in zip(elements, unpack(packed, count, bits), strict=True):
        assert np.array_equal(element, back)


def test_a_narrow_result_is_extended_by_its_own_sign() -> None:
    value = np.array([0x80, 0x7F], np.uint64)
    assert [hex(v) for v in widen(value, "s8", 32)] == ["0xffffff80", "0x7f"]
    assert [hex(v) for v in widen(value, "u8", 32)] == ["0x80", "0x7f"]
    assert [hex(v) for v in widen(value, "b8", 64)] == ["0x80", "0x7f"]
