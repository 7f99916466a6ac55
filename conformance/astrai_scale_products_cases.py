"""Which cases `astrai_scale_products` runs, and what their shapes say.

`P3.C2` makes three scalars, of which scalar 1 is a copy: bit i of C says it of scalar i. Smoke has every number of
scalars with every choice of copies, every family and an offset of every tensor; full has every family with each of
these, by two seeds.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import cycle, product

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.case import Case, Dimension, Shape, View
from tileproof.conformance.contract import REFUSED, Tier
from tileproof.conformance.space import Extent, Space
from tileproof.kernels.fp8_scale_products import MOST, NAME
from tileproof.oracle.refusal import Refusal

CONTRACT = "astrai_scale_products"
DIMENSIONS = ("P", "C")
LETTERS = "abcd"
"""Of the scalars in the short names of their tensors; one more than a launch takes."""

Random = np.random.Generator
Pair = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True)
class Setting:
    """How many scalars there are to make, and which of them are copies."""

    scalars: int
    copies: int

    @property
    def legal(self) -> bool:
        """Whether a launch takes so many."""
        return 0 < self.scalars <= MOST

    def is_copy(self, number: int) -> bool:
        """Whether a scalar is a copy."""
        return bool(self.copies >> number & 1)


def setting(shape: Shape) -> Setting:
    """What a shape says. Raises: Refusal for more scalars than have names, or a copy of a scalar that is not there."""
    scalars, copies = (shape.size(name) for name in DIMENSIONS)
    if scalars > len(LETTERS):
        raise Refusal(f"shape {shape} makes {scalars} scalars", hint=f"a case has at most {len(LETTERS)}")
    if copies >> scalars:
        raise Refusal(f"shape {shape}: C{copies} copies a scalar past the last", hint=f"at most C{2**scalars - 1}")
    return Setting(scalars, copies)


def _takes(shape: Shape) -> bool:
    return not shape.size("C") >> shape.size("P")


SPACE = Space(
    {"P": Extent(MOST, least=1), "C": Extent(2**MOST - 1)},
    offsets={f"{tensor}{letter}": 3 for tensor in "fso" for letter in LETTERS[:MOST]},
    any_bits=tuple(f"{name}_{letter}" for name in ("first", "second") for letter in LETTERS[:MOST]),
    takes=_takes,
)


def _ordinary(random: Random, count: int) -> Pair:
    """Scales as rings publish them."""
    first, second = random.uniform(1, 2, (2, count)) * 2.0 ** random.integers(-20, 4, (2, count))
    return first.astype(np.float32), second.astype(np.float32)


def _powers(random: Random, count: int) -> Pair:
    """Distinct powers of two: a product says which scales it has met."""
    first = 2.0 ** np.arange(count)
    return first.astype(np.float32), (256 * first**4).astype(np.float32)


def _ties(random: Random, count: int) -> Pair:
    """Products of 25 bits that end in 1, in the middle of two neighbours."""
    odd = 2 * random.integers(2**11, 2**12, (2, 64 * count + 256)) + 1
    size = odd[0] * odd[1]
    first, second = odd[:, (size >= 2**24) & (size < 2**25)]
    signs = random.choice([-1.0, 1.0], count)
    return (signs * first[:count] * 2.0**-12).astype(np.float32), second[:count].astype(np.float32)


def _sized(least: int, most: int, random: Random, count: int) -> Pair:
    """Products of size 2^e for `least` <= e < `most`, of factors that are neither large nor small."""
    exponent = random.integers(least, most, count)
    half = exponent // 2
    first, second = random.uniform(0.75, 1.5, (2, count))
    return (first * 2.0**half).astype(np.float32), (second * 2.0 ** (exponent - half)).astype(np.float32)


def _subnormal_factors(random: Random, count: int) -> Pair:
    """One factor subnormal, the product not; the other way round for every other scalar."""
    small = random.integers(1, 1 << 23, count).astype(np.uint32).view(np.float32)
    large = (random.uniform(1, 2, count) * 2.0**100).astype(np.float32)
    turned = np.arange(count) % 2 == 1
    return np.where(turned, large, small), np.where(turned, small, large)


def _specials(random: Random, count: int) -> Pair:
    """Zeros and infinities of both signs, NaN of several payloads, and 1."""
    bits = [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFF800001, 0x7FFFFFFF, 0x3F800000]
    palette = np.array(bits, np.uint32).view(np.float32)
    return palette[random.integers(0, len(bits), count)], palette[random.integers(0, len(bits), count)]


def _random_bits(random: Random, count: int) -> Pair:
    """Every pattern alike."""
    first, second = random.integers(0, 1 << 32, (2, count), np.uint32)
    return first.view(np.float32), second.view(np.float32)


FAMILIES: Mapping[str, Callable[[Random, int], Pair]] = {
    "ordinary": _ordinary,
    "powers": _powers,
    "ties": _ties,
    "subnormal-products": partial(_sized, -150, -126),
    "subnormal-factors": _subnormal_factors,
    "overflow": partial(_sized, 126, 130),
    "specials": _specials,
    "random-bits": _random_bits,
}
"""Of firsts and seconds, a generator and the number of scalars to both."""


def route_of(shape: Shape) -> str:
    """The launch has one route; it takes one to three scalars."""
    return NAME if setting(shape).legal else REFUSED


def cases(tier: Tier) -> tuple[Case, ...]:
    """The cases of a tier, in a fixed order."""
    found = list(_smoke())
    if tier is not Tier.SMOKE:
        found += (_case(shape, family, seed) for shape, family, seed in product(_shapes(), FAMILIES, range(2)))
    return tuple(dict.fromkeys(found))


def _smoke() -> Iterator[Case]:
    families = cycle(FAMILIES)
    yield from (_case(shape, next(families)) for shape in _shapes())
    yield from (_case(shape_of(MOST, copies), family) for copies, family in product((0, 5), FAMILIES))
    for number, tensor in enumerate(f"{tensor}{letter}" for tensor in "fso" for letter in LETTERS[:MOST]):
        yield _case(shape_of(MOST, 0, View(tensor, offset=1 + number % 3)), next(families))
    for scalars in (0, len(LETTERS)):
        yield _case(shape_of(scalars, 0), "ordinary")


def _shapes() -> Iterator[Shape]:
    """Every number of scalars, with every choice of copies."""
    return (shape_of(scalars, copies) for scalars in range(1, MOST + 1) for copies in range(2**scalars))


def shape_of(scalars: int, copies: int, *views: View) -> Shape:
    """A shape of this contract."""
    return Shape((Dimension("P", scalars), Dimension("C", copies)), "", views)


def _case(shape: Shape, family: str, seed: int = 0) -> Case:
    return Case(CONTRACT, NAME, route_of(shape), shape, family, seed)
