"""Which cases `ninfer_quantize` runs: the kernel's boundaries in K, each kind of view, each family on each route.

Smoke is chosen so that one core's simulator ends in seconds: each family, element type, route, boundary width and
residue at least once. Full takes the products that smoke samples.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import cycle, product
from typing import Any

import ml_dtypes
import numpy as np

from tileproof.conformance.case import Case, Shape, View
from tileproof.conformance.families import FAMILIES, SPECIAL_ROW_KINDS, ZERO_ROW_KINDS, tiny_amaxima
from tileproof.conformance.shapes import MODEL_WIDTHS, boundary_widths, padding_to, residue_widths, rows_shape
from tileproof.conformance.space import Extent, Space
from tileproof.kernels.fp8_quantize_rows import KEPT_BYTES, LOAD_BYTES, NAME, STORE_BYTES, THREADS

CONTRACT = "ninfer_quantize"
DTYPES: Mapping[str, np.dtype[Any]] = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
}
"""Element types of x by their name in the shape token."""

VECTOR = STORE_BYTES
"""Elements a thread and step of the vector route: one code is one byte."""

_ROOMY = (2, 801)
"""Rows and columns with room for every aimed value of a family in the even rows and again in the odd ones."""

_SHORT_COLUMNS = 41
"""K where it is the number of rows that counts: five whole vectors and a tail."""

_PEAKS = (33, 2083)
"""Rows and columns for the peaks: 65 columns from one to the next, so that they fall into every warp, every residue
of a vector and every turn of each loop."""

_ANYWHERE = tuple(family for family in FAMILIES if family != "peaks")
"""Families that suit every shape."""

SPACE = Space(
    {"T": Extent(24, (2, 17)), "K": Extent(2 * THREADS * VECTOR + 2 * VECTOR, (VECTOR, 64, THREADS * VECTOR))},
    offsets={"x": 16, "c": 16, "s": 3},
    pads={"x": 17, "c": 17},
    any_bits=("x",),
)
"""Rows are independent of each other; two steps of a block are as many as change anything."""

RouteOf = Callable[[Shape], str]


def smoke_cases(route_of: RouteOf) -> tuple[Case, ...]:
    """About a hundred cases; see the module docstring."""
    families = cycle(_ANYWHERE)
    shapes: list[tuple[Shape, str]] = [
        *((_aligned(*_home(family, dtype), dtype), family) for dtype, family in product(DTYPES, _ANYWHERE)),
        *(
            (rows_shape(*_home(family, dtype), dtype), family)
            for family, dtype in zip(_ANYWHERE, cycle(DTYPES), strict=False)
        ),
        *((_aligned(2, columns, dtype), next(families)) for dtype, columns in product(DTYPES, _boundaries())),
        *((shape, next(families)) for shape in _alternating_residues()),
        *((_aligned(2, columns, "bf16"), family) for columns, family in zip(MODEL_WIDTHS, _ANYWHERE, strict=False)),
        (rows_shape(2, MODEL_WIDTHS[0], "f32"), "random-bits"),
        (rows_shape(1, MODEL_WIDTHS[1], "f16"), "on-grid"),
        *(
            (rows_shape(rows, 129, dtype), next(families))
            for rows, dtype in zip((0, 1, 17), cycle(DTYPES), strict=False)
        ),
        *((shape, next(families)) for shape in _smoke_views()),
        (rows_shape(1, 1, "bf16"), "on-grid"),
        (rows_shape(3, 0, "f32"), "on-grid"),
        *((_aligned(*_PEAKS, dtype), "peaks") for dtype in DTYPES),
        *((_breaking(*_PEAKS, dtype), "peaks") for dtype in DTYPES),
    ]
    return _cases(shapes, (0,), route_of)


def full_cases(route_of: RouteOf) -> tuple[Case, ...]:
    """Smoke, then each family on both routes with three seeds, each boundary with one to three rows, all views."""
    families = cycle(_ANYWHERE)
    homes = [
        (shape, family)
        for dtype, family in product(DTYPES, _ANYWHERE)
        for shape in (_aligned(*_home(family, dtype), dtype), rows_shape(*_home(family, dtype), dtype))
    ]
    widths = (*_boundaries(), *residue_widths(VECTOR, 64), *residue_widths(VECTOR, THREADS * VECTOR * 2))
    bounds = [
        (shape, next(families))
        for dtype, columns, rows in product(DTYPES, widths, (1, 2, 3))
        for shape in (_aligned(rows, columns, dtype), _breaking(rows, columns, dtype))
    ]
    models = [
        (_aligned(rows, columns, dtype), family)
        for dtype, columns, rows in product(DTYPES, MODEL_WIDTHS, (1, 3))
        for family in ("ties", "on-grid", "random-bits")
    ]
    views = [(shape, next(families)) for dtype in DTYPES for shape in _all_views(dtype)]
    rows = [(rows_shape(rows, 129, dtype), next(families)) for dtype, rows in product(DTYPES, (0, 1, 2, 3, 17))]
    peaks = [(shape, "peaks") for dtype in DTYPES for shape in _peaks(dtype)]
    cases = (
        *smoke_cases(route_of),
        *_cases(homes, (0, 1, 2), route_of),
        *_cases([*bounds, *models, *views, *rows, *peaks], (0,), route_of),
    )
    return tuple(dict.fromkeys(cases))


def _cases(shapes: Iterable[tuple[Shape, str]], seeds: Iterable[int], route_of: RouteOf) -> tuple[Case, ...]:
    found = (Case(CONTRACT, NAME, route_of(shape), shape, family, seed) for seed in seeds for shape, family in shapes)
    return tuple(dict.fromkeys(found))


def _peaks(dtype: str) -> Iterator[Shape]:
    """Rows that are longer than what the vector route keeps in shared memory, peaks behind it too; and single elements
    in every warp of the scalar route."""
    kept = KEPT_BYTES // DTYPES[dtype].itemsize
    for columns in (kept + VECTOR, kept + THREADS * VECTOR + VECTOR + 3):
        yield _aligned(3, columns, dtype)
    yield rows_shape(THREADS // 8, THREADS - 7, dtype)


def _home(family: str, dtype: str) -> tuple[int, int]:
    """The smallest rows and columns in which a family reaches all that it promises."""
    rows = {
        "specials": SPECIAL_ROW_KINDS,
        "zero-rows": ZERO_ROW_KINDS,
        "tiny-rows": tiny_amaxima(DTYPES[dtype]).size,
    }
    return (rows[family], _SHORT_COLUMNS) if family in rows else _ROOMY


def _per_load(dtype: str) -> int:
    """Elements of x in one aligned load."""
    return LOAD_BYTES // DTYPES[dtype].itemsize


def _boundaries() -> tuple[int, ...]:
    return boundary_widths(VECTOR, THREADS)


def _aligned(rows: int, columns: int, dtype: str) -> Shape:
    """Rows padded so that each begins where the vector route needs it, in x and in the codes."""
    x = View("x", pad=padding_to(columns, _per_load(dtype)))
    return rows_shape(rows, columns, dtype, x, View("c", pad=padding_to(columns, STORE_BYTES)))


def _breaking(rows: int, columns: int, dtype: str) -> Shape:
    """Rows padded by one element past the vector route's alignment."""
    x = View("x", pad=padding_to(columns, _per_load(dtype)) + 1)
    return rows_shape(rows, columns, dtype, x, View("c", pad=padding_to(columns, STORE_BYTES) + 3))


def _alternating_residues() -> Iterator[Shape]:
    for dtype in DTYPES:
        for columns in residue_widths(VECTOR, 64):
            yield _aligned(1, columns, dtype) if columns % 2 else rows_shape(1, columns, dtype)


def _smoke_views() -> tuple[Shape, ...]:
    """Base offsets that keep and break each alignment, and a stride that breaks it for one tensor alone."""
    return (
        rows_shape(2, 48, "bf16", View("x", offset=1)),
        rows_shape(2, 48, "f16", View("x", offset=7)),
        rows_shape(2, 51, "bf16", View("x", pad=5, offset=8), View("c", pad=5, offset=8)),
        rows_shape(2, 51, "f32", View("x", pad=1, offset=4), View("c", pad=5, offset=16)),
        rows_shape(2, 48, "f32", View("x", offset=1), View("c", offset=1)),
        rows_shape(2, 48, "f32", View("c", offset=4)),
        rows_shape(2, 48, "f16", View("c", offset=15)),
        rows_shape(3, 48, "bf16", View("x", pad=1)),
        rows_shape(3, 48, "f32", View("c", pad=4)),
        rows_shape(3, 48, "f16", View("x", pad=8), View("c", pad=24), View("s", offset=1)),
        rows_shape(1, 51, "bf16", View("x", pad=200), View("c", pad=100)),
    )


def _all_views(dtype: str) -> Iterator[Shape]:
    """Each base offset mod 16 bytes of x and of the codes, together with each row padding up to one vector."""
    per_load = _per_load(dtype)
    for offset in range(1, per_load + 1):
        yield rows_shape(2, 48, dtype, View("x", offset=offset))
        yield rows_shape(3, 43, dtype, View("x", pad=offset))
    for offset in range(1, 17):
        yield rows_shape(2, 48, dtype, View("c", offset=offset))
        yield rows_shape(3, 43, dtype, View("x", pad=padding_to(43, per_load)), View("c", pad=offset))
    for offset in range(1, 4):
        yield rows_shape(3, 48, dtype, View("s", offset=offset))
