"""Which cases packing runs: tiles of every order, residues of K, N and of both addresses modulo 16.

A type token such as `p64k16` is an order, and `unp64k16` the way back. Smoke has every order, way and route; full takes
every residue.
"""

from collections.abc import Callable, Iterator
from itertools import product

from tileproof.conformance.case import Case, Dimension, Shape, View
from tileproof.conformance.contract import Tier
from tileproof.conformance.int8_layout_tokens import LAYOUT_TOKENS
from tileproof.conformance.space import Extent, Space
from tileproof.oracle.layouts import PACKS

CONTRACT = "metainfer_pack"
KERNEL = "int8_pack"
DIMENSIONS = ("K", "N")
BACK = "un"
"""Before the token of an order: the way back."""

TOKENS = (*LAYOUT_TOKENS, *(BACK + token for token in LAYOUT_TOKENS))
EDGE = 16

SPACE = Space(
    {"K": Extent(272, (16, 32, 64, 128, 256)), "N": Extent(272, (16, 32, 64, 128, 256))},
    offsets={"r": EDGE, "p": EDGE},
    any_bits=("raw", "packed"),
)
"""Two patches of each order, whole and ragged."""

Routes = Callable[[Shape], tuple[str, ...]]


def cases(routes: Routes, tier: Tier) -> tuple[Case, ...]:
    """The cases of a tier, in a fixed order."""
    smoke = list(_smoke(routes))
    return tuple(dict.fromkeys(smoke if tier is Tier.SMOKE else (*smoke, *_full(routes))))


def tile_of(token: str) -> tuple[int, int]:
    """K and N of the smallest shape whose patches are whole."""
    record = PACKS[LAYOUT_TOKENS[token.removeprefix(BACK)]]
    return max(record.k_multiple, EDGE), max(record.n_multiple, EDGE)


def _all(routes: Routes, token: str, k: int, n: int, family: str, *views: View) -> Iterator[Case]:
    """A case on each route of its shape."""
    plain = tuple(view for view in views if view.offset)
    shape = Shape((Dimension("K", k), Dimension("N", n)), token, plain)
    yield from (Case(CONTRACT, KERNEL, route, shape, family) for route in routes(shape))


def _smoke(routes: Routes) -> Iterator[Case]:
    for token in TOKENS:
        k, n = tile_of(token)
        yield from _all(routes, token, 2 * k, 2 * n, "random")
    for way in ("", BACK):
        yield from _all(routes, f"{way}nk8", 37, 21, "random")
        yield from _all(routes, f"{way}kn8", 5, 3, "random")
        yield from _all(routes, f"{way}p64", 37, 64, "plane-0")
        yield from _all(routes, f"{way}t128k64", 64, 128, "plane-1")
        yield from _all(routes, f"{way}nk8", 48, 32, "extremes", View("r", offset=3))
        yield from _all(routes, f"{way}p64", 16, 64, "extremes", View("p", offset=8))
    yield from _all(routes, "nk8", 0, 16, "random")
    for token, k, n in (("p64", 16, 65), ("s64n128k8", 64, 192), ("f32k256", 128, 32)):
        yield from _all(routes, token, k, n, "random")


def _full(routes: Routes) -> Iterator[Case]:
    for token in TOKENS:
        k, n = tile_of(token)
        for down, across in ((1, 3), (3, 1), (2, 2)):
            yield from _all(routes, token, down * k, across * n, "plane-1")
        for offset in range(1, EDGE):
            yield from _all(routes, token, k, n, "random", View("r", offset=offset))
            yield from _all(routes, token, k, n, "random", View("p", offset=offset))
    for way in ("", BACK):
        for token, (k, n) in product(("kn8", "nk8"), product(range(EDGE), repeat=2)):
            yield from _all(routes, way + token, EDGE + k, EDGE + n, "random")
        for k in range(1, 34):
            yield from _all(routes, f"{way}p64", k, 128, "random")
