"""What a search may draw for a page: what the page itself says that its kernel takes, and no more.

A tuple of sizes means those sizes; sizes made by `around` mean all between the least and the largest, since they were
named for the edges of a tile and not for themselves. `only` holds, and views are those that are written down.
"""

from collections.abc import Sequence

from tileproof.conformance.case import Shape
from tileproof.conformance.pages.cases import views_of
from tileproof.conformance.pages.user_code import call_named
from tileproof.conformance.pages.vocabulary import Around, Page
from tileproof.conformance.space import Extent, Space

BITS = "bits"
"""The family whose inputs may be any bits."""

WORK = 1 << 18


def space_of(page: Page, any_bits: tuple[str, ...]) -> Space:
    """The space of a page, whose inputs `any_bits` may hold every bit pattern."""
    extents = {name: _extent(sizes) for name, sizes in page.sizes.items()}
    return Space(
        extents, views=tuple(views_of(page)), any_bits=any_bits, work=WORK, takes=lambda shape: _takes(page, shape)
    )


def _extent(sizes: Sequence[int]) -> Extent:
    if not isinstance(sizes, Around):
        return Extent(only=tuple(sizes))
    return Extent(max(sizes), (sizes.tile,), least=sizes[0], step=sizes[0])


def _takes(page: Page, shape: Shape) -> bool:
    sizes = {dimension.name: dimension.size for dimension in shape.dimensions}
    return page.only is None or bool(call_named(page.only, sizes))
