"""Which cases mm_fp8 runs: edges of tiles in M, N and K, stages beside the depth of the ring, batches, views.

Tiles are as shipped, 64 x 64 with three stages and 128 x 128 with two, 64 codes of K a stage; only the extents are
small, so that one core's simulator ends in seconds. Smoke has each family, layout, variant and epilogue at least once;
full takes residues and products.
"""

from collections.abc import Callable, Iterator
from itertools import cycle, product

from tileproof.conformance.astrai_mm_families import FAMILIES
from tileproof.conformance.astrai_mm_setting import DIMENSIONS, FORMATS, LAYOUTS, OUTPUTS, TYPES
from tileproof.conformance.case import Case, Dimension, Shape, View
from tileproof.conformance.contract import Tier
from tileproof.conformance.space import Extent, Space

CONTRACT = "astrai_mm_fp8"
KERNEL = "mm_fp8"

LARGE, LARGE_LEAN, SMALL, SMALL_LEAN = "128x128-s2", "128x128-s2-lean", "64x64-s3", "64x64-s3-lean"

ASTRAI_SHAPES = (
    (16, 8, 32),
    (17, 9, 33),
    (31, 15, 64),
    (32, 48, 96),
    (19, 13, 37),
    (100, 130, 96),
    (64, 64, 160),
    (128, 128, 128),
    (256, 128, 256),
    (128, 256, 64),
    (300, 200, 320),
)
"""M, N, K of AstrAI's own tests."""
ASTRAI_LARGE_SHAPES = ((2048, 256, 512), (1024, 1024, 512))
ASTRAI_LARGEST_SHAPE = (512, 4096, 4096)
"""Of the soak tier: half a minute each on one core, the largest a minute and more."""

EDGES = (1, 7, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 79, 95, 96, 97, 111, 127, 128, 129)
"""Both sides of the multiples of 16, and odd residues between them."""

SPACE = Space(
    {
        "Ba": Extent(3, (1,)),
        "Bb": Extent(3, (1,)),
        "M": Extent(160, (16, 32, 64, 128)),
        "N": Extent(160, (8, 16, 64, 128)),
        "K": Extent(400, (16, 32, 64, 128, 192, 256)),
    },
    offsets={"a": 16, "b": 16, "o": 8, "bias": 3},
    pads={"a": 17, "b": 17, "o": 9},
    any_bits=("a", "b"),
    work=1 << 18,
    nothing=("Ba", "Bb"),
)
"""A tile and a part each way, and K round the rings of two and three stages."""

Routes = Callable[[Shape], tuple[str, ...]]
Extents = tuple[int, int, int]


def cases(routes: Routes, tier: Tier) -> tuple[Case, ...]:
    """The cases of a tier, in a fixed order."""
    further = (_smoke, _full, _soak)[: 1 + list(Tier).index(tier)]
    return tuple(dict.fromkeys(case for part in further for case in part(routes)))


def _shape(token: str, extents: Extents, batches: tuple[int, int], *views: View) -> Shape:
    sizes = zip(DIMENSIONS, (*batches, *extents), strict=True)
    return Shape(tuple(Dimension(name, size) for name, size in sizes), token, views)


def _case(
    routes: Routes,
    token: str,
    extents: Extents,
    family: str,
    *views: View,
    batches: tuple[int, int] = (0, 0),
    route: str = SMALL_LEAN,
) -> Case:
    """A case on a variant, or on the only route that its shape has."""
    shape = _shape(token, extents, batches, *views)
    known = routes(shape)
    return Case(CONTRACT, KERNEL, route if route in known else known[0], shape, family)


def _smoke(routes: Routes) -> Iterator[Case]:
    for family in ("on-grid", "large-among-tiny", "ties", "specials"):
        yield _case(routes, "nte4m3", (9, 10, 64), family)
    for family in ("cancelled-bias", "bias-alone", "specials"):
        yield _case(routes, "nte4m3b16", (9, 10, 70), family)
    for token, family in (("nte4m3b8o8", "normal"), ("nte4m3o8", "ties"), ("nte5m2b8", "specials")):
        yield _case(routes, token, (17, 9, 33), family)
    yield _case(routes, "nte5m2", (17, 9, 66), "subnormals")
    for token in ("nne4m3", "tne4m3", "tte4m3"):
        yield _case(routes, token, (65, 33, 70), "one-hot")
    yield _case(routes, "tne4m3", (20, 18, 320), "cancellation")
    yield _case(routes, "nte4m3", (16, 16, 320), "cancellation")
    yield _case(routes, "nte4m3", (65, 70, 192), "one-hot", route=SMALL)
    yield _case(routes, "nte4m3", (130, 20, 192), "one-hot", route=LARGE)
    yield _case(routes, "nte4m3", (20, 130, 192), "one-hot", route=LARGE_LEAN)
    yield _case(routes, "nte4m3", (1, 1, 1), "on-grid")
    for family in ("near-ties", "tiny", "nothing"):
        yield _case(routes, "nte4m3", (17, 9, 33), family)
        yield _case(routes, "nte4m3o8", (17, 9, 33), family)
    yield _case(routes, "nte4m3", (577, 65, 16), "one-hot")
    for batches in ((3, 3), (3, 1), (0, 2)):
        yield _case(routes, "nte4m3", (16, 8, 32), "normal", batches=batches)
    yield _case(routes, "nte4m3", (5, 24, 48), "normal", View("a", offset=1), View("o", pad=8))
    yield _case(routes, "nte4m3", (5, 9, 48), "normal", View("a", pad=1), View("b", pad=16), View("o", pad=3))
    yield _case(routes, "nte4m3", (0, 8, 32), "normal")
    yield _case(routes, "nte4m3", (4, 8, 0), "normal")
    yield _case(routes, "nte4m3", (4, 8, 32), "normal", batches=(3, 2))


_IN_NO_TURN = ("bias-alone", "cancelled-bias", "near-ties", "tiny", "nothing")


def _full(routes: Routes) -> Iterator[Case]:
    families = cycle(family for family in FAMILIES if family not in _IN_NO_TURN)
    for layout in LAYOUTS:
        token = f"{layout}e4m3"
        for edge, (m, n, k) in product(EDGES, ((0, 24, 40), (24, 0, 40), (17, 9, 0))):
            yield _case(routes, token, (m or edge, n or edge, k or edge), next(families))
        for route, stages in product((SMALL, SMALL_LEAN, LARGE, LARGE_LEAN), (1, 2, 3, 4, 5)):
            yield _case(routes, token, (33, 40, 64 * stages), next(families), route=route)
        for route, (m, n) in product((LARGE, LARGE_LEAN), ((1, 129), (127, 128), (129, 1), (130, 131))):
            yield _case(routes, token, (m, n, 70), next(families), route=route)
        for extents in ASTRAI_SHAPES:
            yield _case(routes, token, extents, "normal")
        for batches in ((1, 1), (4, 4), (4, 1), (1, 4), (4, 0), (0, 4)):
            yield _case(routes, token, (19, 13, 37), "normal", batches=batches)
            yield _case(routes, token, (16, 8, 32), "one-hot", View("a", pad=5), batches=batches)
        for offset in range(1, 17):
            views = (View("a", offset=offset), View("b", pad=offset), View("o", offset=offset % 8))
            yield _case(routes, token, (33, 32, 64), "one-hot", *(view for view in views if view.pad or view.offset))
    for token in TYPES:
        yield _case(routes, token, (33, 70, 66), next(families))
        if "b" in token:
            for family in ("bias-alone", "cancelled-bias"):
                yield _case(routes, token, (9, 21, 66), family)
    for k in range(1, 66):
        yield _case(routes, "nte4m3b16", (5, 9, k), "bias-alone")
    yield from every_ring(routes)
    yield from every_variant(routes)
    yield from roundings(routes)
    yield from every_end(routes)
    yield from every_epilogue(routes)


def _soak(routes: Routes) -> Iterator[Case]:
    for layout, extents in product(LAYOUTS, ASTRAI_LARGE_SHAPES):
        yield _case(routes, f"{layout}e4m3", extents, "normal")
    yield _case(routes, "nte4m3", ASTRAI_LARGEST_SHAPE, "normal", route=LARGE)


def every_ring(routes: Routes) -> Iterator[Case]:
    """Five stages of K for each type and layout: every compiled variant goes round its ring."""
    for token in TYPES:
        yield _case(routes, token, (17, 24, 320), "normal")


def every_variant(routes: Routes) -> Iterator[Case]:
    """Five stages of K on every tile and ring for each layout, format and output: each compiled variant is launched."""
    families = cycle(("normal", "one-hot", "cancellation", "specials", "ties"))
    for layout, name, output, route in product(LAYOUTS, FORMATS, OUTPUTS, (SMALL, LARGE, LARGE_LEAN)):
        yield _case(routes, f"{layout}{name}{output}", (17, 24, 320), next(families), route=route)


def roundings(routes: Routes) -> Iterator[Case]:
    """One whole tile of each compiled variant: products cut instead of rounded, and flushed."""
    variants = product(LAYOUTS, FORMATS, OUTPUTS, (SMALL, SMALL_LEAN, LARGE, LARGE_LEAN))
    for (layout, name, output, route), family in product(variants, ("near-ties", "tiny")):
        extent = _extent(route)
        yield _case(routes, f"{layout}{name}{output}", (extent, extent, 32), family, route=route)


def every_end(routes: Routes) -> Iterator[Case]:
    """Every end of a vector of 16 bytes on each layout, tile and ring: of a row along K, of a line along M or N, and of
    a row of the output, in a tile that is almost whole."""
    for layout, route, end in product(LAYOUTS, (SMALL, SMALL_LEAN, LARGE, LARGE_LEAN), range(1, 17)):
        extent = _extent(route) - 16 + end
        yield _case(routes, f"{layout}e4m3", (extent, extent, end), "normal", route=route)
    # Of an operand that is read across, lines come four at a time: each of them is the last one of memory.
    for layout, end, further in product(("nn", "tn", "tt"), range(1, 17), range(1, 4)):
        yield _case(routes, f"{layout}e4m3", (48 + end, 48 + end, end + further), "normal")


def every_epilogue(routes: Routes) -> Iterator[Case]:
    """Each compiled variant on several tiles with a bias of either type, the last tiles partial; and on a whole tile
    whose sums are zeros."""
    for layout, name, output, route in product(LAYOUTS, FORMATS, OUTPUTS, (SMALL, SMALL_LEAN, LARGE, LARGE_LEAN)):
        extent = _extent(route)
        for bias in ("b16", "b8"):
            yield _case(routes, f"{layout}{name}{bias}{output}", (extent + 1, extent + 5, 33), "normal", route=route)
        yield _case(routes, f"{layout}{name}{output}", (extent, extent, 32), "nothing", route=route)
        # More rows of tiles than are walked through together, the last group short.
        columns = 9 if extent == 128 else extent + 1
        yield _case(routes, f"{layout}{name}{output}", (9 * extent + 1, columns, 16), "one-hot", route=route)


def _extent(route: str) -> int:
    return 64 if route.startswith("64") else 128
