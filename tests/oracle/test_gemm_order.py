"""Route-exact products: plans, the definition beside an independent one, probes, and wrong orders that must be seen."""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.oracle.formats import E4M3FN, FLOAT32
from tileproof.oracle.gemm import gemm
from tileproof.oracle.matrix_unit import define
from tileproof.oracle.products.accumulation_order import (
    AccumulationOrder,
    Combination,
    KOrder,
    Partition,
    RaggedK,
    SplitK,
)
from tileproof.oracle.products.exact_product import exact_product
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.fused_sum import fused_sum, late_sum
from tileproof.oracle.units.operand import OPERAND_TYPES
from tileproof.oracle.units.rounded_sum import add
from tileproof.oracle.units.term import decode_operand
from tileproof.oracle.units.unit import FusedSum, LateSum
from tileproof.oracle.units.unit_table import find_unit
from tileproof.oracle.units.unpacked import unpacked_term

Matrix = NDArray[Any]

WGMMA = AccumulationOrder(
    instruction="wgmma.m64n8k32.f32.e4m3.e4m3", arch="sm_90a", assembler="13.0", ragged_k=RaggedK.ZERO_FILL
)
MMA = replace(WGMMA, instruction="mma.m16n8k32.f32.e4m3.e4m3")
EARLY_MMA = replace(MMA, assembler="12.6")
ADA = replace(MMA, arch="sm_89")
BF16 = replace(WGMMA, instruction="mma.m16n8k16.f32.bf16.bf16")
S8 = replace(WGMMA, instruction="mma.m16n8k32.s32.s8.s8")
HALF = replace(WGMMA, instruction="wgmma.m64n8k32.f16.e4m3.e4m3")
PROMOTED = replace(WGMMA, promotion=64)
SPLIT = replace(WGMMA, split_k=SplitK(parts=4, tile=32))

ORDERS = {
    "wgmma": WGMMA,
    "mma": MMA,
    "early mma": EARLY_MMA,
    "ada": ADA,
    "descending": replace(WGMMA, k_order=KOrder.DESCENDING),
    "promoted": PROMOTED,
    "promoted mma": replace(MMA, promotion=96),
    "split": SPLIT,
    "split, descending sum": replace(SPLIT, split_k=SplitK(parts=4, tile=32, combination=Combination.DESCENDING)),
    "split, pairwise sum": replace(SPLIT, split_k=SplitK(parts=5, tile=32, combination=Combination.PAIRWISE)),
    "split, interleaved": replace(SPLIT, split_k=SplitK(parts=3, tile=64, partition=Partition.INTERLEAVED)),
    "split and promoted": replace(PROMOTED, split_k=SplitK(parts=2, tile=96), k_order=KOrder.DESCENDING),
    "float16 accumulators": HALF,
    "promoted float16": replace(HALF, promotion=64),
}


def bits(values: Matrix) -> Matrix:
    return values.view(f"u{values.dtype.itemsize}")


def wide_codes(rows: int, depth: int, seed: int) -> NDArray[np.uint8]:
    """Finite e4m3 codes of every exponent and sign."""
    codes = np.random.default_rng(seed).integers(0, 256, (rows, depth), np.uint8)
    return np.where(codes & 0x7F == 0x7F, codes ^ 0x40, codes).astype(np.uint8)


def defined_dot(order: AccumulationOrder, a: list[int], b: list[int]) -> int:
    """An independent definition of one element, float32 code: Python integers, its own walk over K."""
    unit = find_unit(order.parsed, order.arch, order.assembler).unit
    k = order.parsed.shape.k
    a, b = ([*codes, *[0] * (-len(codes) % k)] for codes in (a, b))

    def chain(first_ks: list[int]) -> int:
        code = 0
        for first in first_ks:
            pairs = list(zip(a[first : first + k], b[first : first + k], strict=True))
            match unit:
                case FusedSum():
                    code = fused_sum(unit, [e4m3(x) * e4m3(y) for x, y in pairs], code)
                case LateSum():
                    code = late_sum(unit, [f16(x) * f16(y) for x, y in pairs], code)
        return code

    tile, parts = (order.split_k.tile, order.split_k.parts) if order.split_k else (max(len(a), 1), 1)
    tiles = -(-len(a) // tile)
    dealt: list[list[int]] = [[] for _ in range(parts)]
    for first in range(0, len(a), k):
        number = first // tile
        interleaved = order.split_k is not None and order.split_k.partition is Partition.INTERLEAVED
        dealt[number % parts if interleaved else number // -(-tiles // parts)].append(first)
    sums = []
    for mine in dealt:
        walk = mine[::-1] if order.k_order is KOrder.DESCENDING else mine
        length = order.promotion // k if order.promotion else max(len(walk), 1)
        chains = [chain(walk[at : at + length]) for at in range(0, max(len(walk), 1), length)]
        sums.append(reduce(plus, chains))
    combination = order.split_k.combination if order.split_k else Combination.ASCENDING
    if combination is Combination.DESCENDING:
        sums.reverse()
    if combination is Combination.PAIRWISE:
        while len(sums) > 1:
            sums = [reduce(plus, sums[at : at + 2]) for at in range(0, len(sums), 2)]
    return reduce(plus, sums)


def e4m3(code: int) -> Any:
    return decode_operand(OPERAND_TYPES["e4m3"], code)


def f16(code: int) -> Any:
    return unpacked_term(OPERAND_TYPES["e4m3"], code)


def plus(x: int, y: int) -> int:
    return add(FLOAT32, x, y)


@pytest.mark.parametrize("depth", [0, 1, 32, 65, 200])
@pytest.mark.parametrize("name", [name for name in ORDERS if "float16" not in name])
def test_a_product_is_the_independent_definition_element_by_element(name: str, depth: int) -> None:
    order = ORDERS[name]
    a, b = wide_codes(3, depth, 1), wide_codes(2, depth, 2)
    result = bits(gemm(order, a, b))
    for row, column in np.ndindex(3, 2):
        assert result[row, column] == defined_dot(order, a[row].tolist(), b[column].tolist()), (row, column)


@pytest.mark.parametrize("name", ORDERS)
def test_compiled_instructions_and_their_definitions_give_the_same_product(name: str) -> None:
    a, b = wide_codes(2, 150, 3) & 0xBF, wide_codes(2, 150, 4) & 0xBF
    compiled, defined = gemm(ORDERS[name], a, b), gemm(ORDERS[name], a, b, multiply=define)
    assert compiled.dtype == defined.dtype
    assert np.array_equal(bits(compiled), bits(defined))


def test_the_plan_of_the_documentation() -> None:
    order = replace(WGMMA, promotion=64, split_k=SplitK(parts=2, tile=32))
    assert order.plan(160) == (((0, 32), (64,)), ((96, 128),))


def test_a_descending_plan_counts_its_promotions_from_the_end() -> None:
    assert replace(PROMOTED, k_order=KOrder.DESCENDING).plan(160) == (((128, 96), (64, 32), (0,)),)


def test_an_interleaved_split_deals_tiles_round_and_leaves_empty_parts_empty() -> None:
    split = SplitK(parts=3, tile=64, partition=Partition.INTERLEAVED)
    assert replace(WGMMA, split_k=split).plan(224) == (((0, 32, 192),), ((64, 96),), ((128, 160),))
    assert replace(WGMMA, split_k=split).plan(64) == (((0, 32),), ((),), ((),))


@pytest.mark.parametrize("depth", [0, 1, 31, 32, 33, 64, 160, 511, 512])
@pytest.mark.parametrize("name", ORDERS)
def test_every_instruction_is_in_a_plan_once(name: str, depth: int) -> None:
    firsts = [k for part in ORDERS[name].plan(depth) for chain in part for k in chain]
    assert sorted(firsts) == list(range(0, depth, 32))


@pytest.mark.parametrize("name", ORDERS)
def test_one_hot_rows_recover_each_element(name: str) -> None:
    """P8: a one at k in row k of A gives column k of B, whatever the order."""
    depth = 70
    a = np.where(np.eye(depth, dtype=np.bool_), 0x38, 0).astype(np.uint8)
    b = wide_codes(3, depth, 5)
    assert np.array_equal(gemm(ORDERS[name], a, b), E4M3FN.decode(b).T)


@pytest.mark.parametrize("name", [name for name in ORDERS if "float16" not in name])
def test_power_of_two_scales_give_exact_integers_in_every_order(name: str) -> None:
    """P7: sums below 2^13 of integers keep every bit, and a power of two moves none."""
    rng = np.random.default_rng(11)
    x, y = rng.integers(-3, 3, (4, 96), endpoint=True), rng.integers(-3, 3, (5, 96), endpoint=True)
    i, j = np.arange(4)[:, np.newaxis], np.arange(5)[:, np.newaxis]
    a, b = (E4M3FN.encode(np.ldexp(v.astype(np.float64), -s)) for v, s in ((x, i), (y, j)))
    result = gemm(ORDERS[name], a, b)
    assert np.array_equal(np.ldexp(result.astype(np.float64), i + j.T), (x @ y.T).astype(np.float64))


def large_then_small(depth: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """P23: 448·448 and then 448·2^-9 = 0.875 everywhere."""
    a, b = np.full((1, depth), 0x01, np.uint8), np.full((1, depth), 0x7E, np.uint8)
    a[0, 0] = 0x7E
    return a, b


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 13 bits beside exponent 16: each 0.875 is cut to a multiple of 8, which is 0.
        ("wgmma", 200704.0),
        # Promoted at 64: the other three chains are 64 · 0.875 = 56 each, added in float32.
        ("promoted", 200704.0 + 3 * 56),
        # Four parts of 64, alike.
        ("split", 200704.0 + 3 * 56),
        # From the end: 224 · 0.875 is 196, cut to a multiple of 8 beside exponent 16: 192; its neighbours vanish.
        # The sum 200896 is a multiple of 16, which is what 13 bits below 2^17 keep.
        ("descending", 200896.0),
        # 25 bits: nothing is lost. 255 · 0.875 = 223.125 and 24 bits below 2^17 keep multiples of 2^-6.
        ("mma", 200927.125),
        ("early mma", 200927.125),
        ("ada", 200704.0),
    ],
)
def test_one_large_product_among_small_ones_shows_the_accumulator(name: str, expected: float) -> None:
    a, b = large_then_small(256)
    order = SPLIT if name == "split" else ORDERS[name]
    assert gemm(order, a, b).item() == expected
    assert exact_product("e4m3", "e4m3", a, b).values().item() == 200927.125


@pytest.mark.parametrize("name", ORDERS)
def test_no_products_give_positive_zero(name: str) -> None:
    result = gemm(ORDERS[name], np.zeros((2, 0), np.uint8), np.zeros((3, 0), np.uint8))
    assert result.shape == (2, 3)
    assert not bits(result).any()


@pytest.mark.parametrize("depth", [1, 31, 33, 63, 95])
@pytest.mark.parametrize("name", ORDERS)
def test_a_ragged_k_is_the_same_as_zeros_up_to_the_next_instruction_and_beyond(name: str, depth: int) -> None:
    order = replace(ORDERS[name], split_k=None, promotion=None)
    a, b = wide_codes(3, depth, 6) & 0xBF, wide_codes(3, depth, 7) & 0xBF
    result = bits(gemm(order, a, b))
    for more in (-depth % 32, -depth % 32 + 32, -depth % 32 + 96):
        filled = [np.pad(codes, ((0, 0), (0, more))) for codes in (a, b)]
        assert np.array_equal(bits(gemm(order, *filled)), result)


def test_a_nan_reaches_its_row_or_column_only() -> None:
    a, b = wide_codes(3, 64, 8), wide_codes(4, 64, 9)
    a[1, 40], b[2, 3] = 0xFF, 0x7F
    for order in (WGMMA, MMA, PROMOTED, SPLIT):
        result = bits(gemm(order, a, b))
        hit = np.zeros((3, 4), np.bool_)
        hit[1], hit[:, 2] = True, True
        assert np.array_equal(result == 0x7FFFFFFF, hit)


def test_infinities_of_both_signs_in_two_parts_meet_as_the_canonical_nan() -> None:
    order = replace(SPLIT, instruction="wgmma.m64n8k32.f32.e5m2.e5m2", split_k=SplitK(parts=2, tile=32))
    a, b = np.full((2, 64), 0x3C, np.uint8), np.full((1, 64), 0x3C, np.uint8)
    a[:, 5], a[1, 40] = 0x7C, 0xFC
    assert bits(gemm(order, a, b))[:, 0].tolist() == [0x7F800000, 0x7FFFFFFF]


def test_leading_dimensions_broadcast() -> None:
    a, b = wide_codes(6, 64, 1).reshape(2, 1, 3, 64), wide_codes(20, 64, 2).reshape(4, 5, 64)
    result = gemm(PROMOTED, a, b)
    assert result.shape == (2, 4, 3, 5)
    assert np.array_equal(bits(result[1, 2]), bits(gemm(PROMOTED, a[1, 0], b[2])))
    assert gemm(WGMMA, a[..., :0], b[..., :0]).shape == (2, 4, 3, 5)


@pytest.mark.parametrize("order", [S8, replace(S8, split_k=SplitK(parts=3, tile=64)), replace(S8, promotion=32)])
def test_integer_sums_are_exact_in_every_order(order: AccumulationOrder) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-128, 127, (3, 200), np.int8, endpoint=True) for _ in range(2))
    result = gemm(order, a, b)
    assert result.dtype == np.int32
    assert np.array_equal(result, exact_product("s8", "s8", a, b).units)


def test_integer_sums_wrap_at_32_bits() -> None:
    """P21: -128 · -128 = 2^14, and 2^17 of them are 2^31."""
    lowest = np.full((1, 1 << 17), -128, np.int8)
    assert gemm(S8, lowest[:, 32:], lowest[:, 32:]).item() == 2**31 - 32 * 2**14
    assert gemm(S8, lowest, lowest).item() == -(2**31)


def test_float16_accumulators_are_float32_once_they_leave_the_unit() -> None:
    a, b = wide_codes(2, 96, 1) & 0xBF, wide_codes(2, 96, 2) & 0xBF
    assert gemm(HALF, a, b).dtype == np.float16
    first, rest = gemm(HALF, a[:, :64], b[:, :64]), gemm(HALF, a[:, 64:], b[:, 64:])
    promoted = gemm(replace(HALF, promotion=64), a, b)
    assert np.array_equal(promoted, first.astype(np.float32) + rest.astype(np.float32))


def test_other_operand_types_chain_alike() -> None:
    values = np.random.default_rng(4).standard_normal((2, 40)).astype(np.float32)
    codes = (values.view(np.uint32) >> 16).astype(np.uint16)
    whole = gemm(BF16, codes, codes)
    steps = np.zeros((2, 2), np.float32)
    for first in range(0, 48, 16):
        tile = np.pad(codes, ((0, 0), (0, 8)))[:, first : first + 16]
        steps = define(BF16.instruction, tile, tile, steps, arch="sm_90")
    assert np.array_equal(bits(whole), bits(steps))


# Wrong orders that the probes must tell from the right one. Each is what a kernel or an oracle really gets wrong.


def dropped_last_tile(order: AccumulationOrder) -> Callable[[Matrix, Matrix], Matrix]:
    return lambda a, b: gemm(order, a[:, :-32], b[:, :-32])


def float32_accumulation(a: Matrix, b: Matrix) -> Matrix:
    """Products of decoded values, added one by one in float32: what a naive reference kernel does."""
    x, y = E4M3FN.decode(a).astype(np.float32), E4M3FN.decode(b).astype(np.float32)
    total = np.zeros((len(a), len(b)), np.float32)
    for k in range(a.shape[1]):
        total += x[:, k : k + 1] * y[:, k]
    return total


def exact_rounded_once(a: Matrix, b: Matrix) -> Matrix:
    return exact_product("e4m3", "e4m3", a, b).rounded()


def declared(order: AccumulationOrder) -> Callable[[Matrix, Matrix], Matrix]:
    return lambda a, b: gemm(order, a, b)


FOUR = SplitK(parts=4, tile=32)
# 13-bit parts that lie within 2^10 of each other add exactly in float32, in any order; 24-bit parts do not.
SPLIT_MMA = replace(MMA, split_k=FOUR)
WRONG: dict[str, tuple[AccumulationOrder, Callable[[Matrix, Matrix], Matrix]]] = {
    "k order reversed": (WGMMA, declared(replace(WGMMA, k_order=KOrder.DESCENDING))),
    "k order of the emulated form reversed": (MMA, declared(replace(MMA, k_order=KOrder.DESCENDING))),
    "promotion missed": (PROMOTED, declared(WGMMA)),
    "promotion at twice the interval": (PROMOTED, declared(replace(WGMMA, promotion=128))),
    "last k tile dropped": (WGMMA, dropped_last_tile(WGMMA)),
    "last k tile of a split dropped": (SPLIT, dropped_last_tile(SPLIT)),
    "split-K sum reversed": (
        SPLIT_MMA,
        declared(replace(MMA, split_k=replace(FOUR, combination=Combination.DESCENDING))),
    ),
    "split-K sum pairwise": (
        SPLIT_MMA,
        declared(replace(MMA, split_k=replace(FOUR, combination=Combination.PAIRWISE))),
    ),
    "split-K dealt round": (SPLIT, declared(replace(SPLIT, split_k=replace(FOUR, partition=Partition.INTERLEAVED)))),
    "split-K ignored": (SPLIT, declared(WGMMA)),
    "one part too many": (SPLIT, declared(replace(SPLIT, split_k=replace(FOUR, parts=5)))),
    "float32 accumulation for the 13-bit unit": (WGMMA, float32_accumulation),
    "float32 accumulation for the emulated form": (MMA, float32_accumulation),
    "the exact sum rounded once": (WGMMA, exact_rounded_once),
    "the exact sum rounded once, emulated form": (MMA, exact_rounded_once),
    "wgmma taken for mma": (MMA, declared(WGMMA)),
    "another assembler's expansion": (MMA, declared(EARLY_MMA)),
    "Ada's groups of 16": (WGMMA, declared(ADA)),
    "Blackwell's 25 bits": (WGMMA, declared(replace(MMA, arch="sm_120"))),
    "operands swapped": (WGMMA, lambda a, b: gemm(WGMMA, b, a)),
    "float16 accumulators": (WGMMA, lambda a, b: gemm(HALF, a, b).astype(np.float32)),
}


def probes() -> tuple[Matrix, Matrix]:
    return wide_codes(24, 320, 21) & 0xDF, wide_codes(24, 320, 22) & 0xDF


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_order_is_told_from_the_right_one(name: str) -> None:
    order, wrong = WRONG[name]
    a, b = probes()
    differing = np.count_nonzero(bits(gemm(order, a, b)) != bits(wrong(a, b)))
    assert differing > 0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: replace(WGMMA, instruction="wgmma.m64n8k64.f32.e4m3.e4m3"), "no modelled wgmma.m64n8k64"),
        (lambda: replace(WGMMA, assembler="11.0"), "assembler '11.0' was not examined"),
        (lambda: replace(WGMMA, promotion=48), "promotion is 48; it must be a positive multiple .* k = 32"),
        (lambda: replace(WGMMA, promotion=0), "promotion is 0"),
        (lambda: replace(WGMMA, split_k=SplitK(parts=2, tile=16)), "tile is 16"),
        (lambda: replace(WGMMA, split_k=SplitK(parts=0, tile=32)), "0 parts; the least is 1"),
        (lambda: replace(WGMMA, instruction="mma.m8n8k4.f64.f64.f64"), "accumulates in float64"),
        (lambda: replace(WGMMA, ragged_k=RaggedK.REFUSED).plan(33), "K = 33 is not a whole number"),
        (lambda: gemm(WGMMA, np.zeros((1, 32), np.int8), np.zeros((1, 32), np.uint8)), "a has type int8"),
        (lambda: gemm(WGMMA, np.zeros((1, 0), np.uint8), np.zeros((1, 0), np.int8)), "b has type int8"),
        (lambda: gemm(WGMMA, np.zeros((1, 32), np.uint8), np.zeros((1, 64), np.uint8)), "must be one K"),
        (lambda: gemm(WGMMA, np.zeros(32, np.uint8), np.zeros((1, 32), np.uint8)), r"a has shape \(32,\)"),
    ],
)
def test_what_is_not_legal_is_refused_by_name(build: Callable[[], object], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        build()
