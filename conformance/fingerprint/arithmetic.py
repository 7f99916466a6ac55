"""The arithmetic of groups, running totals and promoted sums: every hypothesis is held to the same probes.

The sweeps say about how many bits there are. Around that, each way of cutting, rounding and counting exponents is a
hypothesis; each of a few hundred probes with terms near the last kept bits rules out those that predict another
result. What is left at the end gave every result, bit for bit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.fingerprint.accumulator import (
    FLOAT32,
    Accumulator,
    FusedSum,
    Mode,
    Order,
    Rounding,
)
from tileproof.conformance.fingerprint.asking import Asker
from tileproof.conformance.fingerprint.bench import Bench
from tileproof.conformance.fingerprint.evidence import Proof, Unexplained
from tileproof.conformance.fingerprint.operands import LARGEST_EXPONENT, LONG_EXPONENT, UNIT_BITS, Products, Values
from tileproof.conformance.fingerprint.plan import Sums
from tileproof.conformance.fingerprint.predict import predict
from tileproof.conformance.fingerprint.scale import Scale
from tileproof.conformance.fingerprint.sweeps import Survival

PROBES = 512
SIFT = 8
"""Every eighth probe is tried first; few hypotheses pass it."""
SEED = 10

EVERY_BIT = 40
"""Fraction bits of a significand that holds every sum of a probe."""

_SUMS = tuple(dict.fromkeys([FLOAT32, Rounding(10, Mode.NEAREST_EVEN), Rounding(EVERY_BIT, Mode.TOWARD_ZERO)]))
_OTHER_SUMS = tuple(Rounding(bits, mode) for bits in (23, 13, 10, 22, 24) for mode in Mode)
"""Ways to add promoted sums: the usual ones, and what is tried if none of them fits."""


@dataclass(frozen=True)
class Findings:
    """The models that are left, and the probes that left them.

    Args:
        models: all that gave every result; the first is the simplest.
        tried: how many were held to the probes.
        proofs: for each rejected way of doing it a probe that rejects it.
    """

    models: tuple[Accumulator, ...]
    tried: int
    proofs: tuple[Proof, ...]


def arithmetic(
    asker: Asker, bench: Bench, scale: Scale, survival: Survival, order: Order, outputs: Sequence[Rounding | None]
) -> Findings:
    """Finds the arithmetic of a known order.

    Raises:
        Unexplained: no hypothesis gives every result.
    """
    values = _battery(bench, scale, survival, asker.operands.significands)
    a, b = asker.operands.split(values)
    products = asker.operands.products(a, b)
    seen = asker.each(bench.spread(values, asker.k))
    few = Products(products.units[::SIFT], products.exponents[::SIFT])
    tried, closest, nearest = 0, -1, None
    for sums in (*_SUMS, *_OTHER_SUMS) if isinstance(bench.plan, Sums) else (FLOAT32,):
        left: list[Accumulator] = []
        for model in _hypotheses(order, survival, sums, outputs, len(bench.inside)):
            tried += 1
            right = int((predict(model, bench.small_plan, few) == seen[::SIFT]).sum())
            if right > closest:
                closest, nearest = right, model
            if right == len(few.units) and np.array_equal(predict(model, bench.small_plan, products), seen):
                left.append(model)
        if left:
            proofs = tuple(_rejections(left[0], bench, values, seen, asker))
            return Findings(tuple(left), tried, proofs)
    assert nearest is not None, "there is a hypothesis"
    predicted = predict(nearest, bench.small_plan, products)
    row = int(np.argmax(predicted != seen))
    raise Unexplained(
        describe_terms(bench, values[row]),
        f"{seen[row]:.17g}",
        f"none of {tried} ways to cut, round and count exponents gives this and the results of {len(values) - 1} such "
        f"probes; the nearest gives {predicted[row]:.17g}, and {int((predicted == seen).sum())} of the results",
    )


def describe_terms(bench: Bench, values: Values) -> str:
    """The products of a probe in words."""
    return ", ".join(f"{value:.17g} at k = {k}" for k, value in zip(bench.places, values, strict=True) if value)


def _hypotheses(
    order: Order, survival: Survival, sums: Rounding, outputs: Sequence[Rounding | None], inside: int
) -> Iterator[Accumulator]:
    """Simplest first: nothing lost, then what the sweeps say."""
    kept = survival.kept
    bits = [23] if kept is None else [kept, *range(max(1, kept - 2), kept)]
    bits += range(1 + max(bits), 9 + max(bits)) if kept is None or kept == survival.aligned else [kept + 1]
    bits = list(dict.fromkeys([*bits, 23, EVERY_BIT]))
    fractions: list[int | None] = [survival.aligned]
    if inside == 1 and kept is not None:
        fractions += range(max(1, kept - 1), kept + 5)
    for output, fraction in product(outputs, fractions):
        for cut, normalised in product(Mode, (False, True)) if fraction is not None else ((Mode.TOWARD_ZERO, False),):
            for count, mode in product(bits, Mode):
                fused = FusedSum(fraction, cut, normalised, Rounding(count, mode))
                yield Accumulator(order=order, fused=fused, sums=sums, output=output)


def _battery(bench: Bench, scale: Scale, survival: Survival, long: Values) -> Values:
    """Terms of few bits whose distances lie around the last kept bits, many of the large ones cancelled."""
    random = np.random.default_rng(SEED)
    shape = PROBES, len(bench.places)
    near = [0, 0, 1, 2, 3]
    for bits in (survival.aligned, survival.kept, 23):
        near += [] if bits is None else range(max(bits - 2, 0), bits + 4)
    distance = random.choice(near, shape)
    exponents = np.clip(scale.top - 1 - random.integers(0, 3, (PROBES, 1)) - distance, 2 - UNIT_BITS, None)
    few = random.choice([1.0, 1.0, 1.0, 1.25, 1.5, 1.75], shape)
    can = (exponents >= LONG_EXPONENT) & (exponents < 2 * LARGEST_EXPONENT - 2)
    significands = np.where((random.random(shape) < 0.3) & can, random.choice(long, shape), few)
    significands[exponents < LONG_EXPONENT] = 1.0
    signs = np.where(random.random((PROBES, 1)) < 0.4, 1.0, random.choice([-1.0, 1.0], shape))
    values = significands * np.exp2(exponents) * signs
    values[random.random(shape) < 0.35] = 0
    values = _cancelled(values, random)
    inside = len(bench.before) + np.arange(len(bench.inside))
    if len(inside) > 2:
        _cancel_inside(values[::4], inside, survival.aligned or 23, scale, random)
        _carry(values[1::4], bench, survival.aligned or 23, scale, random)
    return values


def _cancelled(values: Values, random: np.random.Generator) -> Values:
    """In most probes the last places hold the negatives of the largest terms before them; in some, a middle one."""
    for row in values:
        places = np.flatnonzero(row)
        if random.random() < 0.4 and len(places) > 2:
            row[random.choice(places[1:])] = -row[places[np.argmax(np.abs(row[places]))]]
        for last in places[: -1 - random.integers(0, 3) : -1]:
            before = row[:last]
            if before.any():
                row[last] = -before[np.argmax(np.abs(before))]
    return values


def _cancel_inside(
    values: Values, inside: NDArray[np.intp], bits: int, scale: Scale, random: np.random.Generator
) -> None:
    """The largest term and its negative meet in one group, beside small ones only: nothing but the cut shows."""
    for row in values:
        large = random.choice([1.0, 1.125, 1.5, 1.75]) * 2.0 ** (scale.top - 1 - random.integers(0, 3))
        row[np.abs(row) > large * 2.0 ** (4 - bits)] = 0
        plus, minus = random.choice(inside, 2, replace=False)
        row[plus], row[minus] = large, -large


def _carry(values: Values, bench: Bench, bits: int, scale: Scale, random: np.random.Generator) -> None:
    """The sum of a group is larger than its terms, so that bits which the alignment kept do not fit its significand.

    What is left of an odd number of last places shows once the large terms are cancelled after the group.
    """
    if bench.last is None:
        return
    inside = len(bench.before) + np.arange(len(bench.inside))
    later = bench.places.index(bench.last)
    for row in values:
        row[:] = 0
        count = int(random.integers(2, len(inside)))
        exponent = scale.top - 3 - int(random.integers(0, 2))
        large, small = 2.0**exponent, 2.0 ** max(exponent + 2 - bits - int(random.integers(0, 3)), 2 - UNIT_BITS)
        chosen = random.permutation(inside)
        row[chosen[:count]] = large
        row[chosen[count]] = random.choice([1.0, 1.25, 1.5, 1.75]) * random.choice([-1, 1]) * small
        row[later] = -count * large
        row *= random.choice([-1.0, 1.0])


def _rejections(model: Accumulator, bench: Bench, values: Values, seen: Values, asker: Asker) -> Iterator[Proof]:
    """For each neighbour of the model the first probe that it gets wrong."""
    a, b = asker.operands.split(values)
    products = asker.operands.products(a, b)
    for field, text, other in _neighbours(model):
        predicted = predict(other, bench.small_plan, products)
        wrong: NDArray[np.intp] = np.flatnonzero(predicted != seen)
        if len(wrong):
            row = wrong[np.argmin(np.count_nonzero(values[wrong], axis=1))]
            yield Proof(
                field,
                describe_terms(bench, values[row]),
                f"{seen[row]:.17g}",
                f"{text} (would give {predicted[row]:.17g})",
            )


def _neighbours(model: Accumulator) -> Iterator[tuple[str, str, Accumulator]]:
    fused = model.fused
    if fused.fraction_bits is not None:
        for mode in Mode:
            if mode is not fused.cut:
                yield "cut", f"terms cut {mode}", replace(model, fused=replace(fused, cut=mode))
        other = replace(fused, normalised=not fused.normalised)
        yield "exponents", f"products {'not ' if fused.normalised else ''}normalised", replace(model, fused=other)
        for bits in (fused.fraction_bits - 1, fused.fraction_bits + 1):
            yield "fraction bits", f"{bits} fraction bits", replace(model, fused=replace(fused, fraction_bits=bits))
    for mode in Mode:
        if mode is not fused.result.mode:
            result = replace(fused.result, mode=mode)
            yield "running total", f"running total {mode}", replace(model, fused=replace(fused, result=result))
            yield "promoted sums", f"promoted sums {mode}", replace(model, sums=replace(model.sums, mode=mode))
    for bits in (fused.result.fraction_bits - 1, fused.result.fraction_bits + 1):
        result = replace(fused.result, fraction_bits=bits)
        yield "running total", f"running total of {bits} bits", replace(model, fused=replace(fused, result=result))
