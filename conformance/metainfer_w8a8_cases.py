"""Which cases the INT8 products run: every kernel with its stages and tails, at extents that one core simulates.

Tiles, stages and ways of splitting K are as shipped; only the extents are small. `S` planes of workspace are given to
kernels that split K over the grid; S = 0 is a call without. The type token is the order of the weight.
"""

from collections.abc import Callable, Iterator
from itertools import cycle, product
from math import lcm

from tileproof.conformance.case import Case, Dimension, Shape, View
from tileproof.conformance.contract import Tier
from tileproof.conformance.int8_layout_tokens import LAYOUT_TOKENS
from tileproof.conformance.metainfer_w8a8_families import CONVERSION_DEPTH, FAMILIES
from tileproof.conformance.space import Extent, Space
from tileproof.kernels.int8_arms import ARMS, WGMMA, WGMMA_DEPTH_STEP, WGMMA_ROWS, TileArm, WgmmaArm
from tileproof.oracle.layouts import PACKS

CONTRACT = "metainfer_w8a8_gemm"
KERNEL = "int8_gemm"
DIMENSIONS = ("M", "N", "K", "S")
TOKENS = tuple(LAYOUT_TOKENS)

FUSED, PARTIAL, IN_BLOCK, SCALAR = "decode-fused", "decode-partial", "decode-in-block", "scalar"
LAST_M = (1, 2, 4, 8, 15, 16, 17, 31, 32)

SPACE = Space(
    {
        "M": Extent(260, (16, 32, 64, 128, 256)),
        "N": Extent(256, (8, 64, 128, 256)),
        "K": Extent(400, (16, 64, 128, 192, 256, 320)),
        "S": Extent(only=(*(0,) * 6, 1, 2, 3, 5)),
    },
    offsets={"x": 16, "w": 16, "o": 8, "p": 4},
    any_bits=("x", "weight"),
    work=1 << 20,
    volume=("M", "N", "K"),
    dear={SCALAR: 1 << 16},
)
"""A tile and one more row or column of each, and K round the rings."""

Routes = Callable[[Shape], tuple[str, ...]]

PRODUCTION = (
    ("64x128x64-b1", "nk8", (65, 256, 192), "uniform"),
    ("64x128x64-b1", "s64n128k8", (64, 128, 128), "one-hot"),
    ("64x128x64-b1", "t128k64", (63, 128, 128), "extremes"),
    ("64x128x64-b2", "nk8", (65, 128, 192), "one-hot"),
    ("128x64x64-b1", "nk8", (129, 64, 192), "extremes"),
    ("128x64x64-b2", "p64", (129, 128, 192), "one-hot"),
    ("128x64x64-b2", "p64k16", (127, 64, 128), "uniform"),
    ("64x64x64-b1", "kn8", (65, 64, 128), "one-hot"),
    ("64x64x64-b2", "kn8", (63, 128, 256), "uniform"),
    ("128x128x64-b1", "s64k8", (129, 128, 128), "one-hot"),
    ("128x128x64-b2", "f16k32", (100, 128, 192), "extremes"),
    ("256x64x64-b1", "nk8", (257, 64, 128), "one-hot"),
    ("256x64x64-b2", "f32k256", (200, 64, 256), "uniform"),
    ("64x128x128-b1", "kn8", (65, 128, 256), "one-hot"),
    ("128x64x128-b1", "kn8", (129, 64, 256), "uniform"),
    ("64x64x128-b1", "kn8", (65, 128, 384), "extremes"),
    ("wgmma-128x128-s3", "nk8", (129, 128, 208), "one-hot"),
    ("wgmma-128x128-s4", "nk8", (65, 128, 656), "uniform"),
    ("wgmma-128x256-s4", "nk8", (17, 256, 320), "extremes"),
    ("wgmma-128x128-s4", "nk8", (1153, 256, 16), "one-hot"),
)
"""Each tile with the orders of the weights that reach it in production, and some that none does."""


def cases(routes: Routes, tier: Tier) -> tuple[Case, ...]:
    """The cases of a tier, in a fixed order."""
    smoke = list(_smoke(routes))
    return tuple(dict.fromkeys(smoke if tier is Tier.SMOKE else (*smoke, *_full(routes))))


def _case(
    routes: Routes,
    route: str,
    token: str,
    extents: tuple[int, int, int],
    family: str,
    *views: View,
    splits: int = 0,
) -> Case:
    """A case on a route, or on the only one that its shape has."""
    sizes = zip(DIMENSIONS, (*extents, splits), strict=True)
    shape = Shape(tuple(Dimension(name, size) for name, size in sizes), token, views)
    known = routes(shape)
    return Case(CONTRACT, KERNEL, route if route in known else known[0], shape, family)


def _smoke(routes: Routes) -> Iterator[Case]:
    for arm, token, extents, family in PRODUCTION:
        yield _case(routes, arm, token, extents, family)
    for family in ("scales", "ties", "association"):
        yield _case(routes, "64x64x64-b2", "nk8", (20, 64, 64), family)
        yield _case(routes, SCALAR, "nk8", (3, 11, 70), family)
    yield _case(routes, "64x64x64-b2", "nk8", (20, 64, 64), "odd-scales")
    yield _case(routes, SCALAR, "nk8", (13, 13, 70), "odd-scales")
    yield _case(routes, SCALAR, "nk8", (3, 11, 70), "small-rows")
    yield _case(routes, SCALAR, "nk8", (2, 7, CONVERSION_DEPTH), "cut-sums")
    yield _case(routes, "64x64x64-b2", "nk8", (20, 64, 64), "small-rows")
    yield _case(routes, "64x64x64-b2", "nk8", (16, 64, _depth()), "conversion")
    yield _case(routes, SCALAR, "nk8", (2, 64, CONVERSION_DEPTH + 1), "conversion")
    yield _case(routes, FUSED, "kn8", (16, 128, 256), "uniform", splits=3)
    yield _case(routes, FUSED, "f16k32", (17, 64, 192), "one-hot", splits=2)
    yield _case(routes, FUSED, "nk8", (1, 64, 128), "extremes", splits=1)
    yield _case(routes, FUSED, "nk8", (16, 128, 256), "worn-counters", splits=3)
    yield _case(routes, FUSED, "nk8", (16, 64, _depth()), "conversion", splits=5)
    yield _case(routes, FUSED, "nk8", (9, 64, 192), "scales", splits=3)
    yield _case(routes, PARTIAL, "nk8", (16, 128, 320), "one-hot", splits=4)
    yield _case(routes, PARTIAL, "kn8", (31, 64, 128), "ties", splits=2)
    yield _case(routes, PARTIAL, "s64k8", (32, 64, 192), "association", splits=3)
    yield _case(routes, IN_BLOCK, "f16k32", (16, 128, 256), "uniform")
    yield _case(routes, IN_BLOCK, "nk8", (16, 64, 192), "one-hot")
    yield _case(routes, IN_BLOCK, "f32k256", (31, 64, 256), "ties")
    for token in TOKENS:
        yield _case(routes, SCALAR, token, (3, 128, 256), "one-hot")
    for route, splits in ((SCALAR, 0), (FUSED, 2), (PARTIAL, 2), (IN_BLOCK, 0), ("64x64x64-b2", 0)):
        yield _case(routes, route, "nk8", (16, 64, 128), "near-ties", splits=splits)
    yield _case(routes, SCALAR, "kn8", (2, 5, 7), "extremes")
    yield _case(routes, SCALAR, "nk8", (5, 9, 33), "uniform", View("x", offset=1), View("w", offset=3))
    yield _case(routes, SCALAR, "p64", (1, 64, 1), "extremes")
    for extents, token in (((0, 64, 64), "nk8"), ((4, 0, 64), "nk8"), ((4, 64, 0), "nk8"), ((4, 65, 64), "p64")):
        yield _case(routes, SCALAR, token, extents, "uniform")
    for extents, splits in (((33, 64, 128), 2), ((16, 64, 128), 3), ((16, 96, 128), 2)):
        yield _case(routes, FUSED, "nk8", extents, "uniform", splits=splits)


def _depth() -> int:
    """The least K of whole stages that the family `conversion` needs."""
    return -(-CONVERSION_DEPTH // 64) * 64


_IN_NO_TURN = ("conversion", "worn-counters", "odd-scales", "near-ties", "small-rows", "cut-sums")


def _full(routes: Routes) -> Iterator[Case]:
    families = cycle(family for family in FAMILIES if family not in _IN_NO_TURN)
    for arm in (arm for arm in ARMS.values() if isinstance(arm, TileArm)):
        for m, stages in product((1, arm.rows - 1, arm.rows, arm.rows + 1), (1, 2, 3)):
            yield _case(routes, arm.name, "nk8", (m, arm.columns, stages * arm.depth), next(families))
        for token in TOKENS:
            yield _case(routes, arm.name, token, (17, max(arm.columns, 128), 256), next(families))
    for wgmma in WGMMA:
        for m, k in product((1, 63, 64, 65, 127, 128, 129), (16, 112, 144, 640)):
            yield _case(routes, wgmma.name, "nk8", (m, wgmma.columns, k), next(families))
        # Ten stages: every slot of a ring of four is filled again.
        yield _case(routes, wgmma.name, "nk8", (1, wgmma.columns, 9 * 128 + 16), "uniform")
    for route, (m, splits) in product((FUSED, PARTIAL), product(LAST_M, (1, 2, 3, 5))):
        yield _case(routes, route, "nk8", (m, 64, 320), next(families), splits=splits)
    for m, stages in product(LAST_M, (2, 3, 4, 5)):
        yield _case(routes, IN_BLOCK, "nk8", (m, 64, 64 * stages), next(families))
    for token in TOKENS:
        for route, splits in ((FUSED, 3), (PARTIAL, 2), (IN_BLOCK, 0)):
            yield _case(routes, route, token, (16, 128, 256), next(families), splits=splits)
    for m, n, k in product((1, 2, 3), (1, 2, 127, 128, 129), (1, 2, 3, 31, 65)):
        yield _case(routes, SCALAR, "nk8" if (n + k) % 2 else "kn8", (m, n, k), next(families))
    yield from _every_variant(routes)


def _every_variant(routes: Routes) -> Iterator[Case]:
    """What each compiled variant must see itself: codes at every place, ties, odd scales, every remainder of a loop.

    A variant is compiled for an order of the weight; what it does beyond addresses is not known to be what the next one
    does.
    """
    for token in TOKENS:
        record = PACKS[LAYOUT_TOKENS[token]]
        k, n = record.k_multiple, record.n_multiple
        yield _case(routes, SCALAR, token, (2, n if n > 1 else 9, k if k > 1 else 21), "uniform")
        yield _case(routes, SCALAR, token, (1, 3 * n, 2 * k), "extremes")
        for route, splits in ((FUSED, 4), (PARTIAL, 2), (IN_BLOCK, 0)):
            yield _case(routes, route, token, (16, 128, 512), "uniform", splits=splits)
            yield _case(routes, route, token, (15, 128, 256), "ties", splits=splits)
            yield _case(routes, route, token, (31, 128, 512), "uniform", splits=splits)
            yield _case(routes, route, token, (30, 128, 256), "odd-scales", splits=splits)
    for token, k in product(("kn8", "nk8", "p64"), range(1, 10)):
        yield _case(routes, SCALAR, token, (2, 64, k), "uniform")
    # The planes of a split are added four at a time, then those that are left.
    for splits, (route, family) in product(
        (4, 6, 7, 8, 9), ((FUSED, "uniform"), (PARTIAL, "uniform"), (PARTIAL, "ties"))
    ):
        yield _case(routes, route, "nk8", (17 if splits % 2 else 3, 64, 64 * splits), family, splits=splits)
    for family in ("odd-scales", "ties", "association"):
        for arm in (*(one.name for one in ARMS.values() if isinstance(one, TileArm)), *(one.name for one in WGMMA)):
            columns = ARMS[arm].columns if arm in ARMS else 256  # type: ignore[union-attr]
            yield _case(routes, arm, "nk8", (13, columns, 128), family)
        for route, splits in ((FUSED, 2), (PARTIAL, 2), (IN_BLOCK, 0)):
            yield _case(routes, route, "nk8", (13, 64, 128), family, splits=splits)
    yield from _roundings(routes)


def _roundings(routes: Routes) -> Iterator[Case]:
    """Both products of the epilogue cut instead of rounded, and the sum's conversion, in each compiled variant."""
    tiles = [arm for arm in ARMS.values() if isinstance(arm, TileArm)]
    for token in TOKENS:
        for arm in tiles:
            yield _case(routes, arm.name, token, (arm.rows, max(arm.columns, 128), 256), "near-ties")
        for m in (16, 32):
            for route, splits in ((FUSED, 2), (PARTIAL, 2), (IN_BLOCK, 0)):
                yield _case(routes, route, token, (m, 128, 256), "near-ties", splits=splits)
        yield _case(routes, SCALAR, token, (8, 128, 256), "near-ties")
    for arm in tiles:
        depth = -(-CONVERSION_DEPTH // arm.depth) * arm.depth
        yield _case(routes, arm.name, "nk8", (arm.rows, arm.columns, depth), "conversion")
    for wgmma in WGMMA:
        yield _case(routes, wgmma.name, "nk8", (128, wgmma.columns, 128), "near-ties")
        yield _case(routes, wgmma.name, "nk8", (128, wgmma.columns, 1072), "conversion")
    for token in TOKENS:
        yield _case(routes, SCALAR, token, (3, 128, 256), "ties")
        yield _case(routes, SCALAR, token, (13, 128, 256), "odd-scales")
    # The planes are added by blocks of 256 columns: more than one, and a last one that is not full.
    for n, splits in ((320, 2), (576, 5)):
        yield _case(routes, PARTIAL, "nk8", (3, n, 64 * splits), "uniform", splits=splits)
    yield from _whole_tiles(routes)


def _whole_tiles(routes: Routes) -> Iterator[Case]:
    """Tiles of production with every row and column in them: sums that float32 rounds, products below the least normal
    number. All outputs of a thread are computed one after the other, and each can be wrong alone."""
    tiles = {one.name: one for one in (*ARMS.values(), *WGMMA) if isinstance(one, TileArm | WgmmaArm)}
    for route, token, _, _ in PRODUCTION:
        arm, record = tiles[route], PACKS[LAYOUT_TOKENS[token]]
        rows, depth = (arm.rows, arm.depth) if isinstance(arm, TileArm) else (WGMMA_ROWS, WGMMA_DEPTH_STEP)
        whole, columns = lcm(depth, record.k_multiple), max(arm.columns, record.n_multiple)
        for family, least in (("cut-sums", CONVERSION_DEPTH), ("small-rows", 64)):
            yield _case(routes, route, token, (rows, columns, -(-least // whole) * whole), family)
    for token, (route, splits), m in product(TOKENS, ((FUSED, 2), (PARTIAL, 2), (IN_BLOCK, 0)), (16, 32)):
        yield _case(routes, route, token, (m, 128, 256), "small-rows", splits=splits)
    # Counters beyond 2^32, which three does not divide: who takes their lower half alone elects another block.
    for token, m in product(TOKENS, (15, 31)):
        yield _case(routes, FUSED, token, (m, 128, 256), "worn-counters", splits=3)
