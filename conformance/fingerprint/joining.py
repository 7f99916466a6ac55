"""Where C and a bias join the sum: each place is a hypothesis, held to probes in which it decides the bits."""

from collections.abc import Iterator

import numpy as np

from tileproof.conformance.fingerprint.accumulator import Accumulator, Join
from tileproof.conformance.fingerprint.arithmetic import SEED, describe_terms
from tileproof.conformance.fingerprint.asking import Asker
from tileproof.conformance.fingerprint.bench import Bench
from tileproof.conformance.fingerprint.evidence import Proof, Unexplained
from tileproof.conformance.fingerprint.operands import UNIT_BITS, Integers, Values
from tileproof.conformance.fingerprint.plan import Sums
from tileproof.conformance.fingerprint.predict import Added, predict
from tileproof.conformance.fingerprint.scale import Scale

PROBES = 256


def find_join(
    asker: Asker, bench: Bench, scale: Scale, model: Accumulator, what: str
) -> tuple[Join, tuple[Proof, ...]]:
    """Where C ("c") or the bias ("bias") joins.

    Raises:
        Unexplained: nowhere that the model has.
    """
    values, given = _battery(bench, scale, asker.box.bias_bits if what == "bias" else asker.box.c_bits)
    seen = asker.each(bench.spread(values, asker.k), **{what: given})
    units = (given * 2.0**UNIT_BITS).astype(np.int64)
    a, b = asker.operands.split(values)
    products = asker.operands.products(a, b)
    predicted = {
        join: predict(model.joined(what, join), bench.small_plan, products, _added(what, units))
        for join in _places(bench)
    }
    left = [join for join, result in predicted.items() if np.array_equal(result, seen)]
    if not left:
        join = max(predicted, key=lambda one: int((predicted[one] == seen).sum()))
        row = int(np.argmax(predicted[join] != seen))
        raise Unexplained(
            f"{_name(what)} = {given[row]:.17g}, {describe_terms(bench, values[row])}",
            f"{seen[row]:.17g}",
            f"{_name(what)} joins at none of {len(predicted)} places; the nearest gives {predicted[join][row]:.17g}",
        )
    return left[0], tuple(_rejections(bench, values, given, seen, predicted, what))


def _name(what: str) -> str:
    return "C" if what == "c" else "bias"


def _added(what: str, units: Integers) -> Added:
    return Added(c=units) if what == "c" else Added(bias=units)


def _places(bench: Bench) -> list[Join]:
    """Without promotions the promoted sum is the finished one."""
    return [join for join in Join if join is not Join.FIRST_PROMOTION or isinstance(bench.plan, Sums)]


def _battery(bench: Bench, scale: Scale, bits: int) -> tuple[Values, Values]:
    """Few terms and a value of many bits: as large as they are, far smaller, or cancelled by the first of them."""
    random = np.random.default_rng(SEED)
    shape = PROBES, len(bench.places)
    values = np.exp2(scale.top - 1 - random.choice([0, 1, 6, 12, 14, 23, 24, 25, 26], shape).astype(np.float64))
    values = np.maximum(values, 2.0**-UNIT_BITS) * random.choice([-1.0, 1.0], shape)
    values[random.random(shape) < 0.6] = 0
    exponent = random.integers(-4, scale.top, PROBES)
    fraction = random.integers(0, 1 << bits, PROBES) / float(1 << bits)
    given = (1 + fraction) * np.exp2(exponent.astype(np.float64))
    given = np.trunc(given * 2.0**UNIT_BITS) * 2.0**-UNIT_BITS
    cancelled = random.random(PROBES) < 0.4
    given[cancelled] = np.exp2(np.full(int(cancelled.sum()), scale.top - 1.0))
    values[cancelled, random.integers(0, shape[1], PROBES)[cancelled]] = -given[cancelled]
    return values, given


def _rejections(
    bench: Bench, values: Values, given: Values, seen: Values, predicted: dict[Join, Values], what: str
) -> Iterator[Proof]:
    for join, result in predicted.items():
        wrong = np.flatnonzero(result != seen)
        if len(wrong):
            row = wrong[np.argmin(np.count_nonzero(values[wrong], axis=1))]
            probe = f"{_name(what)} = {given[row]:.17g}, {describe_terms(bench, values[row])}"
            yield Proof(_name(what), probe, f"{seen[row]:.17g}", f"{join} (would give {result[row]:.17g})")
