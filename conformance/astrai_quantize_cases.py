"""Which cases `astrai_quantize` runs: types and layouts, the boundaries of vectors and tiles, stages, windows, grids.

Smoke has each type with each layout, family, stage, window and number of blocks at least once, on small tensors. Full
has every residue of rows and of columns mod the tile for each type, format and layout.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import count, cycle, islice, product

from tileproof.conformance.astrai_families import FAMILIES
from tileproof.conformance.astrai_setting import CONTRACT, DIMENSIONS, DTYPES, FORMATS, TYPES, WIDE, WIDE_MARGINS, token
from tileproof.conformance.case import Case, Dimension, Shape, View
from tileproof.conformance.contract import Tier
from tileproof.conformance.space import Extent, Space
from tileproof.kernels.fp8_quantize_tensor import NAME, THREADS, TILE_COLUMNS, TILE_ROWS, VECTOR_ELEMENTS

WINDOWS = (1, 2, 3, 16, 33)
MOST_BLOCKS = 12
NO_RING, SEED, SELF_CLEANING, FOLD_SLOTS, DOUBLE_BUFFERED = range(5)

STEP = THREADS * VECTOR_ELEMENTS
"""Elements of one step of a block, flat."""

_IN_TURN = tuple(family for family in FAMILIES if family != WIDE)
"""Families that every type sees, in turn."""

_SHORT = ((9, 7), (8, 6), (5, 13), (16, 10))
"""Rows and columns of both tile routes, and of every residue mod a vector or nearly so."""

SPACE = Space(
    {
        "R": Extent(2 * TILE_ROWS + 8, (8, TILE_ROWS, 2 * TILE_ROWS)),
        "C": Extent(2 * STEP + 16, (8, TILE_COLUMNS, 2 * TILE_COLUMNS, STEP)),
        "B": Extent(MOST_BLOCKS, (1, 4)),
        "S": Extent(only=tuple(range(NO_RING, DOUBLE_BUFFERED + 1))),
        "W": Extent(max(WINDOWS), (1, 16)),
    },
    offsets={"x": 16, "r": 16, "t": 16, "ring": 2},
    pads={"x": 2, "r": 2, "t": 2},
    any_bits=("x",),
    work=1 << 14,
    volume=("R", "C"),
)
"""Two tiles and a part each way, or a few rows of two steps of a block."""

RouteOf = Callable[[Shape], str]


def cases(route_of: RouteOf, tier: Tier) -> tuple[Case, ...]:
    """The cases of a tier, in a fixed order."""
    families = cycle(_IN_TURN)
    shapes = (*_smoke(), *(_full() if tier is not Tier.SMOKE else ()))
    found = (Case(CONTRACT, NAME, route_of(shape), shape, next(families), 0) for shape in shapes)
    rich = _families() if tier is not Tier.SMOKE else _some_families()
    more = (Case(CONTRACT, NAME, route_of(shape), shape, family, seed) for shape, family, seed in rich)
    last = (*every_grid(route_of), *every_fold(route_of)) if tier is not Tier.SMOKE else _some_folds(route_of)
    return tuple(dict.fromkeys((*found, *more, *_some_folds(route_of), *last)))


def every_grid(route_of: RouteOf) -> Iterator[Case]:
    """Each type, layout and route on several blocks that take several steps, with one place and with many places where
    blocks collect their maxima: only so does every compiled entry show what orders its blocks and its steps."""
    for types, stage in product(TYPES, (SELF_CLEANING, DOUBLE_BUFFERED)):
        for family, views in (("falling", ()), ("peak-last", (View("x", offset=1),))):
            shape = shape_of(2 * TILE_ROWS, 3 * TILE_COLUMNS, 4, stage, 2, types, *views)
            yield Case(CONTRACT, NAME, route_of(shape), shape, family, 0)


def every_fold(route_of: RouteOf) -> Iterator[Case]:
    """Each type on both routes without a ring and without a maximum, and with windows whose loop over the slots, four
    turns at a time, leaves three turns or none; maxima below the least normal number."""
    for types, views in product(TYPES, ((), (View("x", offset=1),))):
        plain = shape_of(16, 64, 2, NO_RING, 0, types, *views)
        yield Case(CONTRACT, NAME, route_of(plain), plain, "all-codes", 0)
        for family, window in (("tiny", 128), (WIDE, 96)):
            shape = shape_of(16, 64, 2, DOUBLE_BUFFERED, window, types, *views)
            yield Case(CONTRACT, NAME, route_of(shape), shape, family, 0)
    for seed in range(1, len(WIDE_MARGINS)):
        yield Case(CONTRACT, NAME, route_of(shape), shape, WIDE, seed)


def _some_folds(route_of: RouteOf) -> tuple[Case, ...]:
    """The first of them."""
    return tuple(islice(every_fold(route_of), 3))


def shape_of(rows: int, columns: int, blocks: int, stage: int, window: int, types: str, *views: View) -> Shape:
    """A shape of this contract."""
    sizes = (rows, columns, blocks, stage, window)
    dimensions = tuple(Dimension(name, size) for name, size in zip(DIMENSIONS, sizes, strict=True))
    return Shape(dimensions, types, views)


def _smoke() -> Iterator[Shape]:
    stages = cycle((DOUBLE_BUFFERED, SELF_CLEANING, DOUBLE_BUFFERED, NO_RING, FOLD_SLOTS))
    windows = cycle(WINDOWS)
    for number, types in enumerate(TYPES):
        rows, columns = _SHORT[number % len(_SHORT)]
        yield shape_of(rows, columns, 1, next(stages), next(windows), types)
    yield from _grids()
    yield from _views()
    yield from _edges()


def _grids() -> Iterator[Shape]:
    """One to twelve blocks in one and in two dimensions, each with work of its own; and grids that step."""
    yield shape_of(1, 2 * STEP + 1, MOST_BLOCKS, DOUBLE_BUFFERED, 16, "bf16re4m3")
    yield shape_of(12, STEP, MOST_BLOCKS, DOUBLE_BUFFERED, 2, "bf16re5m2")
    yield shape_of(3, STEP, 2, SEED, 3, "bf16re4m3")
    yield shape_of(2 * TILE_ROWS, 3 * TILE_COLUMNS, MOST_BLOCKS, DOUBLE_BUFFERED, 33, "bf16te5m2")
    yield shape_of(3 * TILE_ROWS - 1, 4 * TILE_COLUMNS - 1, MOST_BLOCKS, DOUBLE_BUFFERED, 16, "f16re4m3te5m2")
    yield shape_of(2 * TILE_ROWS, 2 * TILE_COLUMNS, 4, SEED, 16, "bf16re4m3te5m2")
    yield shape_of(2 * TILE_ROWS + 8, 2 * TILE_COLUMNS, 3, SELF_CLEANING, 2, "f32te4m3")
    yield shape_of(TILE_ROWS + 1, 2 * TILE_COLUMNS + 2, 1, DOUBLE_BUFFERED, 1, "bf16re5m2te5m2")


def _views() -> Iterator[Shape]:
    """Offsets that keep and break each alignment; a row stride, which is refused."""
    for types, short, offset in (
        ("bf16re4m3", "x", 8),
        ("bf16re4m3", "x", 1),
        ("f32re5m2", "r", 8),
        ("f32re5m2", "r", 16),
        ("f32re4m3te4m3", "x", 2),
        ("f32re4m3te4m3", "x", 1),
        ("f16re4m3te4m3", "r", 1),
        ("f16te5m2", "t", 4),
        ("f16te5m2", "t", 8),
        ("bf16re4m3", "ring", 1),
    ):
        yield shape_of(8, 10, 2, DOUBLE_BUFFERED, 2, types, View(short, offset=offset))
    for types, short in (("bf16re4m3", "x"), ("bf16re4m3", "r"), ("bf16te4m3", "t")):
        yield shape_of(8, 10, 2, DOUBLE_BUFFERED, 2, types, View(short, pad=2))


def _edges() -> Iterator[Shape]:
    """Empty tensors, single elements, and what is refused."""
    for rows, columns in ((0, 7), (7, 0), (1, 1)):
        for types in ("bf16re4m3", "f32re4m3te5m2"):
            yield shape_of(rows, columns, MOST_BLOCKS, DOUBLE_BUFFERED, 3, types)
    yield shape_of(0, 8, 1, SELF_CLEANING, 2, "bf16te4m3")
    yield shape_of(0, 8, 1, NO_RING, 1, "bf16re4m3")
    yield shape_of(8, 8, 1, SEED, 2, "f16re4m3")
    yield shape_of(8, 8, 1, DOUBLE_BUFFERED, 0, "bf16re4m3")
    yield shape_of(8, 8, 0, DOUBLE_BUFFERED, 1, "bf16re4m3")


def _some_families() -> Iterator[tuple[Shape, str, int]]:
    """Each family on a tensor that has room for its targets, layouts in turn."""
    layouts = cycle(("bf16re4m3", "bf16re4m3te5m2", "f16re5m2", "f32te4m3", "f32re5m2"))
    for family in _IN_TURN:
        yield shape_of(25, 41, 4, DOUBLE_BUFFERED, 3, next(layouts)), family, 0


def _families() -> Iterator[tuple[Shape, str, int]]:
    """Each family with each type, in each layout and stage, with three seeds."""
    yield from _some_families()
    stages, windows = cycle(range(NO_RING, DOUBLE_BUFFERED + 1)), cycle(WINDOWS)
    for family, types, seed in product(_IN_TURN, TYPES, range(3)):
        stage = next(stages)
        known = stage if stage != SEED or types.startswith("bf16") else DOUBLE_BUFFERED
        yield shape_of(25, 42, 4, known, next(windows), types), family, seed


def _full() -> Iterator[Shape]:
    """Residues of rows and columns mod the tile, boundaries of the flat step, offsets mod 16."""
    numbers = count()
    for types in _layouts():
        for rows, columns in _residues():
            number = next(numbers)
            yield shape_of(rows, columns, 1 + number % MOST_BLOCKS, DOUBLE_BUFFERED, WINDOWS[number % 5], types)
    for types, total in product(("bf16re4m3", "f16re5m2", "f32re4m3"), _around(STEP)):
        yield shape_of(1, total, MOST_BLOCKS, DOUBLE_BUFFERED, 16, types)
    for types, offset in product(("bf16re4m3te5m2", "f32re5m2te4m3", "f16re4m3"), range(1, 17)):
        for short in "xrt" if "t" in types else "xr":
            yield shape_of(16, 18, 4, DOUBLE_BUFFERED, 2, types, View(short, offset=offset))


def _layouts() -> Iterator[str]:
    """Three types, two formats, three layouts."""
    for x, name in product(DTYPES, FORMATS):
        yield token(x, name, None)
        yield token(x, None, name)
        yield token(x, name, name)


def _residues() -> Iterator[tuple[int, int]]:
    """Every residue of R mod 32 beside even and odd C, and every one of C mod 64 beside whole and ragged R."""
    for rows in range(1, TILE_ROWS + 2):
        yield rows, 6 + rows % 2 * 61
    for columns in range(1, TILE_COLUMNS + 2):
        yield (8, 33)[columns // 2 % 2], columns


def _around(step: int) -> Iterable[int]:
    return (step - 8, step - 1, step, step + 1, step + 8, 2 * step - 1, 12 * step, 12 * step + 1, 13 * step + 3)
