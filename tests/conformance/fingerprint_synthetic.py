"""Accumulators that no machine has, to be fingerprinted: what each is stands beside how it is reckoned.

They are reckoned by other code than the fingerprint's model: by the oracle's matrix units with other parameters, or
plainly, in float64, which holds every sum of theirs exactly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.fingerprint.accumulator import Accumulator, FusedSum, Join, Mode, Order, Rounding
from tileproof.conformance.fingerprint.box import Box
from tileproof.oracle.formats import FLOAT32
from tileproof.oracle.gemm import gemm
from tileproof.oracle.matrix_unit import run_unit
from tileproof.oracle.products.accumulation_order import AccumulationOrder, Combination, KOrder, Partition, SplitK
from tileproof.oracle.units import unit as units
from tileproof.oracle.units.instruction import parse_instruction
from tileproof.oracle.units.matrix_operands import check_operands, values_of

Array = NDArray[Any]
Round = Callable[[Array], Array]

Chains = Callable[[int], Sequence[Sequence[Sequence[int]]]]
"""K to chains of groups."""

E4M3 = ml_dtypes.float8_e4m3fn
K = 128
"""Of the fingerprints; splits are written for it."""

INSTRUCTION = "mma.m16n8k32.f32.e4m3.e4m3"


@dataclass(frozen=True)
class Known:
    """A box and what its fingerprint must name."""

    box: Box
    accumulator: Accumulator


def order(group: int, **more: Any) -> Order:
    """Neighbouring groups, unless said otherwise."""
    return Order(**{"group": group, "period": group, "run": group} | more)


def unit_box(name: str, group: int, bits: int, kept: int, **more: Any) -> Known:
    """The oracle's fused sum with parameters of ours, chained as `oracle.gemm` chains."""
    conversion = units.Conversion(name, FLOAT32, kept_bits=kept, nearest=False)
    unit = units.FusedSum(group=group, fraction_bits=bits, least_exponent=-133, conversion=conversion)
    chosen = AccumulationOrder(instruction=INSTRUCTION, arch="sm_90", assembler="13.0", **more)

    def multiply_add(instruction: str, a: Array, b: Array, c: Array, **_: object) -> Array:
        parsed = parse_instruction(instruction)
        operands = check_operands(parsed, a, b, c, None, None)
        return values_of(parsed, run_unit(unit, parsed, operands), operands.shape)

    named = {"k_order": chosen.k_order, "split_k": chosen.split_k, "step": chosen.parsed.shape.k}
    promotions = (chosen.promotion,) if chosen.promotion else ()
    return Known(
        Box(name=name, operand="e4m3", multiply=lambda a, b: gemm(chosen, a, b, multiply=multiply_add)),
        Accumulator(
            order=order(group, promotions=promotions, **named),
            fused=FusedSum(bits, result=Rounding(kept, Mode.TOWARD_ZERO)),
        ),
    )


def cut(values: Array) -> Array:
    """Toward zero."""
    return np.trunc(values)


def to_bits(values: Array, bits: int, how: Round) -> Array:
    """Values with so many fraction bits."""
    step = np.exp2(np.floor(np.log2(np.where(values == 0, 1.0, np.abs(values)))) - bits)
    return np.asarray(how(values / step) * step)


def fused(terms: Array, total: Array, bits: int | None, how: Round, *, normalised: bool = False) -> Array:
    """Terms [.., L, 2] (value, exponent) and the total, aligned, cut, added: float64, exact below 2^53."""
    values, exponents = terms[..., 0], terms[..., 1]
    if bits is None:
        return np.asarray(values.sum(axis=-1) + total)
    own = np.floor(np.log2(np.where(values == 0, 1.0, np.abs(values))))
    largest = np.where(values == 0, -999.0, own if normalised else exponents).max(axis=-1)
    total_exponent = np.where(total == 0, -999.0, np.floor(np.log2(np.where(total == 0, 1.0, np.abs(total)))))
    step = np.exp2(np.maximum(np.maximum(largest, total_exponent), -60) - bits)
    return np.asarray((how(values / step[..., None]).sum(axis=-1) + how(total / step)) * step)


def products(a: Array, b: Array) -> Array:
    """Exact products with the sum of their factors' exponents, [M, N, K, 2]."""
    x, y = (codes.view(E4M3).astype(np.float64) for codes in (a, b))
    exponents = [np.maximum(np.floor(np.log2(np.where(v == 0, 1.0, np.abs(v)))), -6) for v in (x, y)]
    return np.stack(
        [
            x[:, None] * y[None],
            np.broadcast_to(exponents[0][:, None] + exponents[1][None], (len(a), len(b), a.shape[1])),
        ],
        axis=-1,
    )


@dataclass(frozen=True)
class Plain:
    """A plain accumulator: groups of K in order, sums of groups promoted to a float32 sum."""

    bits: int | None
    how: Round
    kept: int
    convert: Round
    normalised: bool = False
    promoted: int = 23
    promote: Round = np.rint
    output: type = np.float32

    def run(self, chains: Chains, a: Array, b: Array, **more: Array) -> Array:
        """Chains of groups, each from zero; their results added in order. C starts the first, the bias comes last."""
        terms = products(a, b)
        whole = None
        for i, chain in enumerate(chains(a.shape[1])):
            start = more["c"].astype(np.float64) if i == 0 and "c" in more else np.zeros(terms.shape[:2])
            total = start
            for group in chain:
                exact = fused(terms[:, :, list(group)], total, self.bits, self.how, normalised=self.normalised)
                total = to_bits(exact, self.kept, self.convert)
            whole = total if whole is None else to_bits(whole + total, self.promoted, self.promote)
        assert whole is not None
        if "bias" in more:
            whole = to_bits(whole + more["bias"], 23, np.rint)
        return whole.astype(np.float32).astype(self.output)


def plain_box(
    name: str,
    plain: Plain,
    chains: Chains,
    wanted: Accumulator,
    **more: Any,
) -> Known:
    """A plain accumulator as a box."""
    return Known(Box(name=name, operand="e4m3", multiply=partial(plain.run, chains), **more), wanted)


def one_chain(group: int) -> Callable[[int], list[list[range]]]:
    """Neighbouring groups, one chain."""
    return lambda k: [[range(i, i + group) for i in range(0, k, group)]]


def promoted(group: int, every: int) -> Callable[[int], list[list[range]]]:
    """Neighbouring groups, a chain every so many elements."""
    return lambda k: [[range(i, i + group) for i in range(base, base + every, group)] for base in range(0, k, every)]


def even_odd(k: int) -> list[list[range]]:
    """Of every 32 elements the even ones, then the odd ones."""
    return [[range(base + odd, base + 32, 2) for base in range(0, k, 32) for odd in (0, 1)]]


def float32_chain(a: Array, b: Array, *, descending: bool = False, ways: int = 1) -> Array:
    """Multiply-adds in float32; with more ways, as many interleaved sums that are added in order at the end."""
    x, y = (codes.view(E4M3).astype(np.float32) for codes in (a, b))
    sums = np.zeros((ways, len(a), len(b)), np.float32)
    for k in range(a.shape[1])[:: -1 if descending else 1]:
        sums[k % ways] += x[:, None, k] * y[None, :, k]
    total = sums[0]
    for one in sums[1:]:
        total = total + one
    return np.asarray(total)


def float64_sum(a: Array, b: Array) -> Array:
    """Exact, then rounded once."""
    x, y = (codes.view(E4M3).astype(np.float64) for codes in (a, b))
    return np.asarray((x @ y.T).astype(np.float32))


_RZ, _RN = Rounding(23, Mode.TOWARD_ZERO), Rounding(23, Mode.NEAREST_EVEN)
_CHAIN = FusedSum(None, result=_RN)
_WGMMA = FusedSum(13, result=Rounding(13, Mode.TOWARD_ZERO))
_WIDE = Plain(25, cut, 23, cut)


def known_boxes() -> list[Known]:
    """What the fingerprint must name."""
    pairwise = SplitK(parts=4, tile=K // 4, combination=Combination.PAIRWISE)
    by_element = SplitK(parts=4, tile=1, partition=Partition.INTERLEAVED)
    interleaved = SplitK(parts=2, tile=64, partition=Partition.INTERLEAVED)
    return [
        unit_box("4 products, 23 bits", 4, 23, 23),
        unit_box("8 products, 24 bits", 8, 24, 23),
        unit_box("8 products, 20 bits, 16 kept", 8, 20, 16),
        unit_box("16 products, 25 bits", 16, 25, 23),
        plain_box("16 products, 25 bits, to nearest", Plain(25, cut, 23, np.rint), one_chain(16),
                  Accumulator(order=order(16), fused=FusedSum(25, result=_RN))),
        unit_box("32 products, 13 bits", 32, 13, 13),
        unit_box("32 products, 14 bits", 32, 14, 13),
        unit_box("32 products, 13 bits, promoted every 64", 32, 13, 13, promotion=64),
        unit_box("32 products, 25 bits, promoted every 128", 32, 25, 23, promotion=128),
        unit_box("16 products, 13 bits, descending", 16, 13, 13, k_order=KOrder.DESCENDING),
        unit_box("split of K in 2", 16, 25, 23, split_k=SplitK(parts=2, tile=K // 2)),
        unit_box("split of K in 4, pairwise", 16, 25, 23, split_k=pairwise),
        unit_box("split of K in 2, interleaved", 32, 13, 13, split_k=interleaved),
        unit_box("promoted every 32, split in 2", 16, 24, 23, promotion=32, split_k=SplitK(parts=2, tile=K // 2)),
        plain_box("floor, 16 products, 13 bits", Plain(13, np.floor, 23, cut), one_chain(16),
                  Accumulator(order=order(16), fused=FusedSum(13, Mode.DOWN, result=_RZ))),
        plain_box("terms to nearest, 16 products, 20 bits", Plain(20, np.rint, 23, cut), one_chain(16),
                  Accumulator(order=order(16), fused=FusedSum(20, Mode.NEAREST_EVEN, result=_RZ))),
        plain_box("normalised products", Plain(25, cut, 23, cut, normalised=True), one_chain(8),
                  Accumulator(order=order(8), fused=FusedSum(25, normalised=True, result=_RZ))),
        plain_box("64 products, 30 bits", Plain(30, cut, 23, np.rint), one_chain(64),
                  Accumulator(order=order(64), fused=FusedSum(30, result=_RN))),
        plain_box("even and odd elements", _WIDE, even_odd,
                  Accumulator(order=order(16, period=32, run=1), fused=FusedSum(25, result=_RZ))),
        plain_box("promoted to a sum that is cut", Plain(13, cut, 13, cut, promote=cut), promoted(32, 64),
                  Accumulator(order=order(32, promotions=(64,)), fused=_WGMMA, sums=_RZ)),
        plain_box("exact groups of 4, rounded once", Plain(None, cut, 23, np.rint), one_chain(4),
                  Accumulator(order=order(4), fused=_CHAIN)),
        plain_box("bf16 output, C and bias", Plain(25, cut, 23, cut, output=ml_dtypes.bfloat16), one_chain(16),
                  Accumulator(order=order(16), fused=FusedSum(25, result=_RZ), output=Rounding(7, Mode.NEAREST_EVEN),
                              c=Join.START, bias=Join.LAST), takes_c=True, takes_bias=True),
        Known(Box(name="float32 chain", operand="e4m3", multiply=float32_chain),
              Accumulator(order=order(1), fused=_CHAIN)),
        Known(Box(name="float32 chain, descending", operand="e4m3", multiply=partial(float32_chain, descending=True)),
              Accumulator(order=order(1, k_order=KOrder.DESCENDING), fused=_CHAIN)),
        Known(Box(name="float32, four interleaved sums", operand="e4m3", multiply=partial(float32_chain, ways=4)),
              Accumulator(order=order(1, split_k=by_element), fused=_CHAIN)),
    ]  # fmt: skip


def random_rounding() -> Callable[[Array, Array], Array]:
    """Stochastic: the last bit of the output is drawn."""
    random = np.random.default_rng(1)
    return lambda a, b: float64_sum(a, b) * (1 + 2.0**-23 * random.integers(0, 2, (len(a), len(b)))).astype(np.float32)


def sorted_by_size(a: Array, b: Array) -> Array:
    """The largest terms first: the order depends on the data."""
    terms = products(a, b)[..., 0]
    terms = np.take_along_axis(terms, np.argsort(-np.abs(terms), axis=-1, kind="stable"), axis=-1)
    total = np.zeros(terms.shape[:2], np.float32)
    for k in range(terms.shape[-1]):
        total = total + terms[..., k].astype(np.float32)
    return np.asarray(total)


def compensated(a: Array, b: Array) -> Array:
    """Kahan's sum in float32."""
    terms = products(a, b)[..., 0].astype(np.float32)
    total = np.zeros(terms.shape[:2], np.float32)
    lost = np.zeros_like(total)
    for k in range(terms.shape[-1]):
        term = terms[..., k] - lost
        new = total + term
        lost, total = (new - total) - term, new
    return np.asarray(total)


def uneven(k: int) -> list[list[range]]:
    """Groups of 24 and of 8."""
    return [[one for base in range(0, k, 32) for one in (range(base, base + 24), range(base + 24, base + 32))]]


def shuffled(k: int) -> list[list[list[int]]]:
    """Groups of a fixed, arbitrary permutation."""
    places = np.random.default_rng(3).permutation(k).tolist()
    return [[places[i : i + 16] for i in range(0, k, 16)]]


def sticky(a: Array, b: Array) -> Array:
    """What is cut leaves a mark in the last kept bit."""

    def jam(values: Array) -> Array:
        kept = np.trunc(values)
        return np.where((kept != values) & (kept % 2 == 0), kept + np.sign(values), kept)

    return Plain(13, jam, 23, cut).run(one_chain(16), a, b)


def rounded_products(a: Array, b: Array) -> Array:
    """Each product becomes bf16 before it is added."""
    terms = products(a, b)[..., 0].astype(ml_dtypes.bfloat16).astype(np.float32)
    terms = (terms.view(np.uint32) & np.uint32(0xFFF80000)).view(np.float32)  # three fraction bits
    total = np.zeros(terms.shape[:2], np.float32)
    for k in range(terms.shape[-1]):
        total = total + terms[..., k]
    return np.asarray(total)


def saturating(a: Array, b: Array) -> Array:
    """The running total is clamped to ±240."""
    x, y = (codes.view(E4M3).astype(np.float32) for codes in (a, b))
    total = np.zeros((len(a), len(b)), np.float32)
    for k in range(a.shape[1]):
        total = np.clip(total + x[:, None, k] * y[None, :, k], -240, 240)
    return np.asarray(total)


def cdna3(a: Array, b: Array) -> Array:
    """AMD's MI300: products are cut and added, then the total joins, rounded down on the way (oracle.units.mfma)."""
    chosen = AccumulationOrder(instruction="mfma.m32n32k8.f32.bf16.bf16.1k".replace("bf16.bf16.1k", "f16.f16"),
                               arch="gfx942", assembler="13.0")  # fmt: skip
    return gemm(chosen, a, b)


def unknown_boxes() -> list[Box]:
    """What the model has no words for."""

    def e4m3(name: str, multiply: Callable[..., Array]) -> Box:
        return Box(name=name, operand="e4m3", multiply=multiply)

    return [
        e4m3("random rounding", random_rounding()),
        e4m3("sorted by size", sorted_by_size),
        e4m3("compensated", compensated),
        e4m3("groups of 24 and 8", partial(_WIDE.run, uneven)),
        e4m3("shuffled elements", partial(_WIDE.run, shuffled)),
        e4m3("sticky bits", sticky),
        e4m3("rounded products", rounded_products),
        e4m3("saturating", saturating),
        Box(name="MI300", operand="f16", multiply=cdna3),
    ]
