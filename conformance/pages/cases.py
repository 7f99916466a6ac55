"""Which cases a page has: every combination of its sizes, its families in turn, its views."""

from collections.abc import Iterator, Sequence
from itertools import cycle, product

from tileproof.conformance.case import Case, Dimension, Shape, View, parse_shape
from tileproof.conformance.contract import Tier
from tileproof.conformance.pages.user_code import PageError, call_named
from tileproof.conformance.pages.vocabulary import Page
from tileproof.oracle.refusal import Refusal


def shapes(page: Page) -> tuple[Shape, ...]:
    """The combinations of sizes that the kernel takes, the first size slowest, contiguous and aligned.

    Raises:
        PageError: it takes none.
    """
    every = [dict(zip(page.sizes, sizes, strict=True)) for sizes in product(*page.sizes.values())]
    taken = [sizes for sizes in every if page.only is None or call_named(page.only, sizes)]
    if not taken:
        raise PageError(f"page {page.name}: `only` leaves no combination of the sizes", hint="widen sizes, or only")
    return tuple(Shape(tuple(Dimension(*pair) for pair in sizes.items()), page.dtype) for sizes in taken)


def cases_of(page: Page, kernel: str, routes: Sequence[str], families: Sequence[str], tier: Tier) -> tuple[Case, ...]:
    """The cases of a tier, each once.

    Smoke has each combination of sizes once, with the families in turn, each family at least once, and each view
    once, of the last combination. Full has all with all families and seeds.

    Args:
        page: the page.
        kernel: name of the kernel in ids.
        routes: one for each of `shapes(page)`.
        families: names.
        tier: which.
    """
    plain = list(zip(shapes(page), routes, strict=True))
    last, route = plain[-1]
    seen = [(Shape(last.dimensions, last.dtype, views), route) for views in views_of(page)]
    if tier is Tier.SMOKE:
        short = max(0, len(families) - len(plain))
        turns = zip([*plain, *[plain[-1]] * short, *seen], cycle(families), strict=False)
        drawn = [(shape, route, family, 0) for (shape, route), family in turns]
    else:
        drawn = [(*one, family, seed) for seed in range(page.seeds) for one in (*plain, *seen) for family in families]
    made = (Case(page.name, kernel, route, shape, family, seed) for shape, route, family, seed in drawn)
    return tuple(dict.fromkeys(made))


def views_of(page: Page) -> Iterator[tuple[View, ...]]:
    """The ways in which a page says that tensors lie, but for the plain one. Raises: PageError for an odd text."""
    for text in page.views:
        if not text:
            continue
        try:
            yield parse_shape(f"A1.f32.{text}").views
        except Refusal as refusal:
            raise PageError(f"view {text!r}: {refusal.message}", hint="such as xpad3, xoff1 or xpad3.yoff1") from None
