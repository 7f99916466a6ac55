"""Which cases ninfer's FP8 operators run: the edges of the tiles in T, N and K, on every route that can take them.

Tiles are as shipped, 64 tokens x 128 weight rows x 128 codes of K in two stages, or 256 x 128 x 64 in four; only N, K
and T are small, so that one core's simulator ends in seconds. Smoke has each family, route and edge at least once; full
takes the products.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, product
from math import prod

from tileproof.conformance.case import Case, Dimension, Shape, View
from tileproof.conformance.contract import Tier
from tileproof.conformance.gemm_families import FAMILIES
from tileproof.conformance.space import Extent, Space
from tileproof.kernels.fp8_a8_call_site import CallSite

KERNEL = "fp8_a8_gemm"
DIMENSIONS = ("T", "N", "K")
TILE_ROWS = 128

TMA, CP_ASYNC, FALLBACK = "tma", "cp-async", "fallback"

SHORT = {"out": "o", "query": "q", "key": "k", "gate": "g", "value": "v", "qkv": "qkv", "z": "z"}
"""Names of outputs in views."""

SMALL = 3 * TILE_ROWS * TILE_ROWS
"""Products of a shape that the fallback takes beside the tiled routes."""

TILE_TOKENS = 64
LARGE = 448 * 1024
"""Elements of the weight, times tiles of tokens, from which on a case takes the simulator three seconds and more: of
the soak tier. The depths and families that it takes from the two widest operators are in the full tier of the others.
"""

OF_ROUNDING = ("near-ties", "tiny")
"""Families that every route of every operator sees once, and that come in no turn."""

_IN_TURN = tuple(family for family in FAMILIES if family not in (*OF_ROUNDING, "tiny-gates"))


def space(site: CallSite) -> Space:
    """One tile of rows as the weight deals them out, tokens to beyond two tiles, K round the rings of both routes."""
    parts = PARTS[site.name]
    small = tuple(parts.total * count for count in (1, 3, 8, 9))
    extents = {
        "T": Extent(270, (16, 64, 128, 256)),
        "N": Extent(only=(0, *small, *(parts.rows,) * 8, *((2 * parts.rows,) * 2 if parts.total < 8 else ()))),
        "K": Extent(640, (33, 64, 128, 192, 256, 320, 384, 512, 576)),
    }
    outputs = [SHORT[name] for name in site.outputs]
    offsets = {"x": 8, "w": 16, "ws": 2, "c": 16, "s": 3, **dict.fromkeys(outputs, 8)}
    pads = {"x": 9, "w": 17, "c": 33, **dict.fromkeys(outputs, 9)}
    any_bits = ("x", "weight", "weight_scales", *(site.outputs if site.adds else ()))
    return Space(extents, offsets, pads, any_bits=any_bits, work=1 << 21, dear={FALLBACK: SMALL})


Routes = Callable[[Shape], tuple[str, ...]]


@dataclass(frozen=True)
class Parts:
    """How the weight's rows are dealt out to outputs, in proportion; `rows` of them are the least that fills tiles."""

    shares: tuple[int, ...]
    rows: int

    @property
    def total(self) -> int:
        """What N must be a multiple of."""
        return sum(self.shares)


PARTS: Mapping[str, Parts] = {
    "linear": Parts((1,), TILE_ROWS),
    "linear_add": Parts((1,), TILE_ROWS),
    "linear_swiglu": Parts((1, 1), TILE_ROWS),
    "attn_input_proj": Parts((6, 1, 6, 1), 14 * TILE_ROWS),
    "gdn_input_proj": Parts((5, 3), 8 * TILE_ROWS),
}
"""ninfer's proportions: 6144 : 1024 : 6144 : 1024 of 14,336 rows, 10,240 : 6,144 of 16,384; gate and up half each."""


def contract_name(site: CallSite) -> str:
    """The contract of a call site."""
    return f"ninfer_{site.name}"


def widths(site: CallSite, rows: int) -> tuple[int, ...]:
    """Columns of the outputs that a weight of so many rows makes."""
    parts = PARTS[site.name]
    if site.paired:
        return (rows // 2,)
    return tuple(rows * share // parts.total for share in parts.shares)


def cases(site: CallSite, routes: Routes, tier: Tier) -> tuple[Case, ...]:
    """The cases of a tier, in a fixed order."""
    found = [case for group in (_usual, _tma, _ragged, _odd) for case in group(site, routes)]
    if tier is Tier.SMOKE:
        found = [case for case in found if not _is_dear(case)]
    else:
        found += (case for case in _further(site, routes) if tier is Tier.SOAK or not _long(case.shape))
    return tuple(dict.fromkeys(found))


def _case(site: CallSite, routes: Routes, shape: Shape, family: str, route: str | None = None) -> Case:
    """A case on a route; on the first that is no tensor copy unless one is named."""
    known = routes(shape)
    chosen = route or next(one for one in known if one != TMA)
    return Case(contract_name(site), KERNEL, chosen, shape, family)


def _usual(site: CallSite, routes: Routes) -> Iterator[Case]:
    """The cp.async route: every family that matters, edges of the token tile, K below, at and above the ring."""
    rows, total = PARTS[site.name].rows, PARTS[site.name].total
    first = site.name == "linear"
    families = cycle(_IN_TURN)
    shapes = [(_shape(9, rows, 128), family) for family in _home_families(site)]
    for tokens in (1, 63, 64, 65, 129) if first else (65,) if total < 8 else ():
        shapes.append((_shape(tokens, rows, 128), next(families)))
    for depth in (256, 384, 640) if first else (384,) if total < 8 else ():
        shapes.append((_shape(3, rows, depth), next(families)))
    if first:
        shapes.append((_shape(66, 2 * rows, 256), "one-hot"))
        shapes += [(shape, next(families)) for shape in _views(rows)]
    return (_case(site, routes, shape, family) for shape, family in shapes)


def _tma(site: CallSite, routes: Routes) -> Iterator[Case]:
    """The TMA route: one stage of K, the ring's depth, one more; partial token tiles, and one token in the second."""
    rows, total = PARTS[site.name].rows, PARTS[site.name].total
    shapes = [(_shape(9, rows, 320 if total < 8 else 64), _home_families(site)[0])]
    if total < 8:
        shapes.append((_shape(3, rows, 256), "specials"))
    if 1 < total <= 8 or site.adds:  # every slot of the ring is filled again, in every compiled variant
        shapes.append((_shape(3, rows, 576), _home_families(site)[-1]))
    if site.name == "linear":
        shapes += [
            (_shape(257, rows, 64), "on-grid"),
            (_shape(65, 2 * rows, 320), "one-hot"),
            (_shape(9, rows, 576), "cancellation"),
            (_shape(3, rows, 128, View("w", pad=16), View("c", pad=32), View("o", pad=8)), "normal"),
        ]
    return (_case(site, routes, shape, family, TMA) for shape, family in shapes)


def _ragged(site: CallSite, routes: Routes) -> Iterator[Case]:
    """The fallback: ragged in every extent, and beside the tiled routes on a shape that they take."""
    total = PARTS[site.name].total
    families = _home_families(site) if site.name == "linear" else ("normal",)
    for family in families:
        yield _case(site, routes, _shape(5, 9 * total if total == 1 else total, 33), family)
    yield _case(site, routes, _shape(17, 3 * total, 33), "normal")
    yield _case(site, routes, _shape(1, total, 1), "on-grid")
    if site.paired:
        yield _case(site, routes, _shape(17, 9 * total, 33), "tiny-gates")
    if total == 1:
        yield _case(site, routes, _shape(3, TILE_ROWS, 128), "cancellation", FALLBACK)


def _odd(site: CallSite, routes: Routes) -> Iterator[Case]:
    """No tokens, no K, and rows that no split deals out."""
    rows, total = PARTS[site.name].rows, PARTS[site.name].total
    if site.name == "linear":
        yield _case(site, routes, _shape(0, rows, 128), "normal")
        yield _case(site, routes, _shape(3, rows, 0), "normal")
    if total > 1:
        yield _case(site, routes, _shape(2, total + 1, 32), "normal")


def _home_families(site: CallSite) -> tuple[str, ...]:
    """What an operator adds to the product decides what it must see; the plain product sees everything."""
    if site.name == "linear":
        return tuple(family for family in _IN_TURN if family != "cancelled-residual")
    if site.adds:
        return ("cancelled-residual", "ties", "specials", "normal")
    if site.paired:
        return ("normal", "wide-outputs", "specials", "ties", "powers")
    return ("one-hot", "powers")


def _views(rows: int) -> Iterator[Shape]:
    """Paddings and offsets that keep the tiled routes, then ones that leave the fallback alone."""
    yield _shape(3, rows, 128, View("x", pad=3), View("w", pad=16), View("c", pad=32), View("o", pad=8))
    yield _shape(2, rows, 128, View("w", offset=16), View("ws", offset=2), View("o", offset=8))
    yield _shape(2, rows, 128, View("w", pad=1))
    yield _shape(2, rows, 128, View("ws", offset=1))
    yield _shape(2, rows, 128, View("c", offset=1))
    yield _shape(2, rows, 128, View("o", pad=1))


def _is_dear(case: Case) -> bool:
    """Whether a case is left to the full tier: it takes a second and more, and cheaper ones stand beside it."""
    edges = case.contract == "ninfer_linear" and case.route == CP_ASYNC and case.shape.size("T") in (63, 129)
    return edges or _long(case.shape)


def _long(shape: Shape) -> bool:
    """Whether it is left to the soak tier."""
    return -(-shape.size("T") // TILE_TOKENS) * shape.size("N") * shape.size("K") >= LARGE


def _further(site: CallSite, routes: Routes) -> Iterator[Case]:
    rows, total = PARTS[site.name].rows, PARTS[site.name].total
    families = cycle(_IN_TURN)
    edges = (127, 128, 129, 191, 192, 193, 255, 256, 257)
    shapes = [
        (_shape(tokens, rows, 128), next(families))
        for tokens in ((*range(1, 66), *edges) if total < 8 else (1, 15, 16, 17, 63, 64, 65, 257))
    ]
    for tokens, depth in product((1, 64, 65), (64, 128, 192, 256, 320, 384, 512, 576, 640, 1152)):
        shapes.append((_shape(tokens, rows * (2 if total < 8 else 1), depth), next(families)))
    shapes += [(_shape(tokens, rows, 256), family) for family, tokens in product(_IN_TURN, (33, 65))]
    for tokens, columns, depth in product((1, 16, 17, 65), (1, 8, 9), (1, 31, 32, 33)):
        shapes.append((_shape(tokens, columns * total, depth), next(families)))
    if site.name == "linear":
        shapes += [(shape, family) for shape in _views(rows) for family in ("normal", "one-hot")]
    # Last, so that no other case changes its family.
    shapes += [(_shape(tokens, size, depth), family) for family in OF_ROUNDING for tokens, size, depth in (
        (16, rows, 128), (80, rows, 128), (17, 9 * total, 33), (16, 16 * total, 40)
    )]  # fmt: skip
    # Every end of a row among the codes that a thread of the fallback reads one by one.
    shapes += [(_shape(17, 9 * total, depth), "normal") for depth in range(1, 34)]
    if site.paired:
        shapes += [(_shape(tokens, rows, 128), "tiny-gates") for tokens in (16, 80)]
    for shape, family in shapes:
        for route in _worth(shape, routes(shape)):
            yield _case(site, routes, shape, family, route)


def _worth(shape: Shape, known: tuple[str, ...]) -> Iterator[str]:
    """The routes of a shape; beside others the fallback, which reads code by code, only if the shape is small."""
    small = prod(shape.size(name) for name in DIMENSIONS) <= SMALL
    return (route for route in known if route != FALLBACK or small or len(known) == 1)


def _shape(tokens: int, rows: int, depth: int, *views: View) -> Shape:
    extents = zip(DIMENSIONS, (tokens, rows, depth), strict=True)
    return Shape(tuple(Dimension(name, size) for name, size in extents), "", views)
