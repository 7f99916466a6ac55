"""The last word: products of random matrices, every bit predicted. What the model does not know shows here."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tileproof.conformance.fingerprint.accumulator import Accumulator
from tileproof.conformance.fingerprint.asking import Asker
from tileproof.conformance.fingerprint.evidence import Unexplained
from tileproof.conformance.fingerprint.operands import UNIT_BITS, Values
from tileproof.conformance.fingerprint.plan import plan_of
from tileproof.conformance.fingerprint.predict import Added, predict
from tileproof.conformance.fingerprint.scale import TOPS, Scale

ROWS = 32
SEED = 20


@dataclass(frozen=True)
class Matrices:
    """One product to predict; c and bias where the box takes them."""

    what: str
    a: Values
    b: Values
    c: Values | None = None
    bias: Values | None = None


@dataclass(frozen=True)
class Answer:
    """A product and what the box made of it."""

    given: Matrices
    seen: Values


def ask_all(asker: Asker, scale: Scale, *, c: bool, bias: bool) -> tuple[Answer, ...]:
    """Products of random matrices, each asked for twice.

    Raises:
        Unexplained: the same question had two answers.
    """
    found = []
    for one in _families(asker, scale, c=c, bias=bias):
        seen, again = (asker.all(one.a, one.b, one.c, one.bias) for _ in range(2))
        _require_same(one, seen, again, "asked again, the box gives another")
        found.append(Answer(one, seen))
    return tuple(found)


def close(asker: Asker, answers: Iterable[Answer], model: Accumulator, rows: int = ROWS) -> int:
    """Holds the model to so many rows of each answer and returns how many outputs agreed.

    Raises:
        Unexplained: an output differs.
    """
    agreed, plan = 0, plan_of(model.order, asker.k)
    for answer in answers:
        one, seen = answer.given, answer.seen[:rows]
        products = asker.operands.products(one.a[:rows, np.newaxis], one.b[np.newaxis])
        c = None if one.c is None else _units(one.c[:rows])
        added = Added(c, None if one.bias is None else _units(one.bias))
        _require_same(one, seen, predict(model, plan, products, added), "the model gives another")
        agreed += seen.size
    return agreed


def _families(asker: Asker, scale: Scale, *, c: bool, bias: bool) -> Iterator[Matrices]:
    random = np.random.default_rng([SEED, asker.k])
    pool = asker.operands.pool
    limit = 448.0 if scale.top == TOPS[0] else 2.0 ** ((scale.top - 2 - np.log2(asker.k)) / 2)

    def draw(most: float, zeros: float = 0.0) -> Values:
        some = random.choice(pool[pool <= most], (ROWS, asker.k)) * random.choice([-1.0, 1.0], (ROWS, asker.k))
        return np.where(random.random(some.shape) < zeros, 0.0, some)

    def wide(zeros: float = 0.0) -> Values:
        exponents = random.integers(-8, int(np.log2(limit)) + 1, (ROWS, asker.k))
        some = random.choice([1.0, 1.25, 1.5, 1.75], exponents.shape) * np.exp2(exponents)
        some = np.trunc(some * 2.0**9) / 2.0**9 * random.choice([-1.0, 1.0], exponents.shape)
        return np.where(random.random(some.shape) < zeros, 0.0, some)

    yield Matrices("codes of every kind", draw(limit), draw(limit))
    yield Matrices("every exponent alike", wide(), wide())
    yield Matrices("nine of ten zero", wide(0.7), wide(0.7))
    halves = wide(), wide()
    middle = asker.k // 2
    halves[0][:, middle:], halves[1][:, middle:] = -halves[0][:, :middle], halves[1][:, :middle]
    yield Matrices("halves of K that cancel", *halves)
    if c or bias:
        matrix = _whole(random, asker.box.c_bits, (ROWS, ROWS)) if c else None
        row = _whole(random, asker.box.bias_bits, (ROWS,)) if bias else None
        yield Matrices("with C or a bias", wide(), wide(), matrix, row)


def _whole(random: np.random.Generator, bits: int, shape: tuple[int, ...]) -> Values:
    """Values of so many bits, of about 2^10."""
    return np.asarray(random.integers(-(1 << bits), 1 << bits, shape) * 2.0 ** (10 - bits))


def _units(values: Values) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.asarray(values * 2.0**UNIT_BITS, np.int64)


def _require_same(one: Matrices, seen: Values, other: Values, why: str) -> None:
    wrong = np.argwhere(seen != other)
    if len(wrong):
        i, j = (int(index) for index in wrong[0])
        raise Unexplained(
            f"random matrices with seed {SEED}, K = {one.a.shape[1]}, {one.what}, row {i} of A and row {j} of B",
            f"{seen[i, j]:.17g}",
            f"{why}: {other[i, j]:.17g}; {len(wrong)} of {seen.size} outputs differ",
        )
