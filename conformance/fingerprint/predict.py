"""What an accumulator makes of exact products: the model that every answer of a box is held to.

Numbers are 64-bit integers in units of 2^-18 (`operands`), many outputs at once. Worked example, 13 fraction bits cut
toward zero: the terms 2^16, -2^16 and 2^2 + 2^3 of one group. The largest exponent is 16, so terms are multiples of
2^3: the last one, 12, becomes 8, and the sum is 8.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.fingerprint.accumulator import Accumulator, FusedSum, Join, Mode, Rounding
from tileproof.conformance.fingerprint.operands import UNIT_BITS, Integers, Products
from tileproof.conformance.fingerprint.plan import Chain, Plan, Sums

_NOTHING = -(1 << 20)
"""The exponent of a zero: below that of every other term."""

_MOST_BITS = 62


@dataclass(frozen=True)
class Added:
    """What is added besides, in units of 2^-18, broadcast to the outputs; None for nothing."""

    c: Integers | None = None
    bias: Integers | None = None


def predict(model: Accumulator, plan: Plan, products: Products, added: Added = Added()) -> NDArray[np.float64]:
    """The outputs.

    Args:
        model: the accumulator; of its order only `plan` is used.
        plan: the order for this K, or for those of its elements whose products are not all zero.
        products: [.., K].
        added: C and bias of each output, [..].
    """
    joins = [(join, given) for join, given in ((model.c, added.c), (model.bias, added.bias)) if given is not None]
    starts = [given for join, given in joins if join is Join.START]
    leads = [given for join, given in joins if join is Join.FIRST_PROMOTION]
    total = _plan(model, plan, products, starts)
    if leads:
        total = _with_lead(model, plan, products, leads)
    for join, given in joins:
        if join is Join.LAST:
            total = rounded(total + given, model.sums)
    if model.output is not None:
        total = rounded(total, model.output)
    for join, given in joins:
        if join is Join.AFTER_ROUNDING:
            total = rounded(total + given, model.output or model.sums)
    return np.asarray(total * 2.0**-UNIT_BITS, np.float64)


def rounded(values: Integers, to: Rounding) -> Integers:
    """Values with significands of so many fraction bits."""
    return cut_below(values, _exponent(values) - to.fraction_bits, to.mode)


def cut_below(values: Integers, place: Integers, mode: Mode) -> Integers:
    """Values as multiples of 2^place units, or as they are where place is not above 0."""
    shift = np.clip(place, 0, _MOST_BITS)
    if mode is Mode.DOWN:
        return np.asarray(values >> shift << shift)
    if mode is Mode.UP:
        return np.asarray(-(-values >> shift << shift))
    magnitude = np.abs(values)
    kept = magnitude >> shift
    rest, half = magnitude - (kept << shift), np.where(shift > 0, 1 << np.maximum(shift - 1, 0), 1)
    match mode:
        case Mode.NEAREST_EVEN:
            kept = kept + ((rest > half) | ((rest == half) & (kept & 1 == 1)))
        case Mode.NEAREST_AWAY:
            kept = kept + (rest >= half)
        case Mode.TOWARD_ZERO:
            pass
    return np.asarray(np.sign(values) * (kept << shift))


def _plan(model: Accumulator, plan: Plan, products: Products, starts: Sequence[Integers] = ()) -> Integers:
    if isinstance(plan, Chain):
        return _chain(model.fused, plan, products, starts)
    parts = [_plan(model, part, products, starts if i == 0 else ()) for i, part in enumerate(plan.parts)]
    return _sum(model, plan, parts)


def _sum(model: Accumulator, plan: Sums, parts: list[Integers]) -> Integers:
    while plan.pairwise and len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [pair[0] if len(pair) == 1 else rounded(pair[0] + pair[1], model.sums) for pair in pairs]
    total = parts[0]
    for part in parts[1:]:
        total = rounded(total + part, model.sums)
    return total


def _with_lead(model: Accumulator, plan: Plan, products: Products, leads: Sequence[Integers]) -> Integers:
    """The outermost sum starts from what is given, so that every part of it comes after."""
    plans = plan.parts if isinstance(plan, Sums) else (plan,)
    total = leads[0]
    for lead in leads[1:]:
        total = rounded(total + lead, model.sums)
    for part in plans:
        total = rounded(total + _plan(model, part, products), model.sums)
    return total


def _chain(fused: FusedSum, chain: Chain, products: Products, starts: Sequence[Integers]) -> Integers:
    total: Integers = np.zeros(products.units.shape[:-1], np.int64)
    for start in starts:
        total = total + start
    for group in chain.groups:
        chosen = np.asarray(group, np.intp)
        total = _group(fused, products.units[..., chosen], products.exponents[..., chosen], total)
    return total


def _group(fused: FusedSum, terms: Integers, exponents: Integers, total: Integers) -> Integers:
    if fused.fraction_bits is None:
        return rounded(terms.sum(axis=-1) + total, fused.result)
    own = _exponent(terms) - UNIT_BITS if fused.normalised else exponents
    largest = np.where(terms == 0, _NOTHING, own).max(axis=-1, initial=_NOTHING)
    largest = np.maximum(largest, np.where(total == 0, _NOTHING, _exponent(total) - UNIT_BITS))
    place = largest - fused.fraction_bits + UNIT_BITS
    parts = cut_below(terms, place[..., np.newaxis], fused.cut).sum(axis=-1) + cut_below(total, place, fused.cut)
    return rounded(parts, fused.result)


def _exponent(values: Integers) -> Integers:
    """floor(log2 |value|) in units; of zero, that of 1. Exact below 2^53, where float64 holds every integer."""
    return np.asarray(np.frexp(np.abs(values).astype(np.float64))[1] - 1, np.int64)
