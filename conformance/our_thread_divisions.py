"""How our kernels without tiles of products divide their outputs: the quantisers, the packs, the scalar product.

The constants are those of the launchers, which tests hold to the CUDA sources; another test changes what one lane makes
in each source and looks for it here.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.division import TILE_LIMIT
from tileproof.conformance.thread_division import TAIL, Makers, ThreadDivision, strided
from tileproof.kernels import fp8_quantize_tensor as tensor
from tileproof.kernels import int8_pack as pack
from tileproof.kernels.int8_layouts import weight_layout

ROW_THREADS, ROW_VECTOR = 256, 8
"""kThreads and kVector of fp8_quantize_rows.cu."""
SCALAR_THREADS = 128
"""kScalarThreads of int8_gemm_scalar.cu: a block makes so many columns of one row."""
OWN_ROWS, CHUNK = 4, 8
"""kOwnRows and kChunkRows of fp8_quantize_tensor.cu."""

Number = NDArray[np.int64]


def row_codes(route: str, columns: int) -> ThreadDivision | None:
    """Of the codes of fp8_quantize_rows; None for a route that launches nothing, and for rows that are too long."""
    if route not in ("vector", "scalar") or not 0 < columns <= TILE_LIMIT:
        return None
    vector = ROW_VECTOR if route == "vector" else 1
    taken = f"{vector} neighbours a thread" if vector > 1 else "one element a thread"
    return ThreadDivision(
        tile=(1, columns),
        threads=ROW_THREADS,
        elements=_of_line(columns, vector),
        makers=partial(strided, columns, vector, ROW_THREADS),
        words=f"a row a block of {ROW_THREADS} threads, {taken}",
    )


def flat_codes(route: str, elements: int) -> ThreadDivision | None:
    """Of row-wise codes of fp8_quantize_tensor where nothing is transposed; None as above."""
    if route not in ("vector", "scalar") or not 0 < elements <= TILE_LIMIT:
        return None
    vector = tensor.VECTOR_ELEMENTS if route == "vector" else 1
    taken = f"{vector} neighbours a thread" if vector > 1 else "one element a thread"
    return ThreadDivision(
        tile=(1, elements),
        threads=tensor.THREADS,
        elements=_of_line(elements, vector),
        makers=partial(strided, elements, vector, tensor.THREADS),
        words=f"all elements in a line, a step is a block of {tensor.THREADS} threads, {taken}",
        is_flat=True,
    )


def tile_codes(*, transposed: bool) -> ThreadDivision:
    """Of the codes of fp8_quantize_tensor where something is transposed: row-wise ones, or the transposed."""
    rows, columns = tensor.TILE_ROWS, tensor.TILE_COLUMNS
    if transposed:
        return ThreadDivision(
            tile=(columns, rows),
            threads=tensor.THREADS,
            elements=_numbers(CHUNK),
            makers=_transposed,
            words=f"tiles of {columns} x {rows}, {CHUNK} neighbours a thread, by the thread that stores them",
        )
    return ThreadDivision(
        tile=(rows, columns),
        threads=tensor.THREADS,
        elements=_numbers(2 * OWN_ROWS),
        makers=_row_wise,
        words=f"tiles of {rows} x {columns}, {OWN_ROWS} rows a warp, two columns a lane",
    )


def int8_scalar() -> ThreadDivision:
    """Of int8_gemm_scalar."""
    return ThreadDivision(
        tile=(1, SCALAR_THREADS),
        threads=SCALAR_THREADS,
        elements=_numbers(1),
        makers=partial(strided, SCALAR_THREADS, 1, SCALAR_THREADS),
        words=f"{SCALAR_THREADS} columns of a row a block, one output a thread",
    )


def int8_pack(route: str, order: str, extents: tuple[int, int], *, packs: bool) -> ThreadDivision | None:
    """Of int8_pack, both ways; None for a route that launches nothing, and for weights that are too large.

    Args:
        route: as case ids have it.
        order: the packed order's name.
        extents: K and N.
        packs: whether the packed buffer is the output, else the weight.
    """
    if route not in set(pack.Route) or not 0 < extents[0] * extents[1] <= TILE_LIMIT:
        return None
    in_vectors = route == pack.Route.VECTOR
    words = "one byte a thread, in the order of W; a step is a block"
    if in_vectors:
        words = f"patches of {pack.EDGE} k by {pack.EDGE} n, one a thread, element {pack.EDGE} k + n; a step is a block"
    return ThreadDivision(
        tile=(1, extents[0] * extents[1]) if packs else extents,
        threads=pack.PATCH_THREADS if in_vectors else pack.SCALAR_THREADS,
        elements=_numbers(pack.EDGE**2 if in_vectors else 1),
        makers=partial(_packed, route, order, extents, packs),
        words=words,
    )


def _of_line(total: int, vector: int) -> list[str]:
    """What threads have of a line of so many elements in one step: vectors, single ones behind them, or both."""
    whole = vector > 1 and total >= vector
    return [*_numbers(vector if whole else 0), *[TAIL] * (not whole or total % vector > 0)]


def _numbers(count: int) -> list[str]:
    return list(map(str, range(count)))


def _row_wise() -> Makers:
    row, column = np.indices((tensor.TILE_ROWS, tensor.TILE_COLUMNS))
    return _in_one_step(row // OWN_ROWS * 32 + column // 2, row % OWN_ROWS * 2 + column % 2)


def _transposed() -> Makers:
    column, row = np.indices((tensor.TILE_COLUMNS, tensor.TILE_ROWS))
    return _in_one_step(column * (tensor.TILE_ROWS // CHUNK) + row // CHUNK, row % CHUNK)


def _in_one_step(thread: Any, element: Any) -> Makers:
    return Makers(thread, element, np.zeros_like(thread))


def _packed(route: str, order: str, extents: tuple[int, int], packs: bool) -> Makers:
    k, n = np.indices(extents)
    made = _patches(k, n, _apart(order, extents)) if route == pack.Route.VECTOR else _bytes(k, n)
    if not packs:
        return made
    offsets = np.asarray(weight_layout(order).record.offset(k, n, *extents)).ravel()
    return Makers(*(_moved(one, offsets) for one in (made.thread, made.element, made.step)))


def _patches(k: Number, n: Number, apart: bool) -> Makers:
    """Patches are numbered along n; where halves of their columns lie apart, two of them share 32 columns."""
    edge, half = pack.EDGE, pack.EDGE // 2
    at, column = n // edge, n % edge
    if apart:
        at, column = n // (2 * edge) * 2 + n % edge // half, n % half + n // edge % 2 * half
    number = k // edge * (k.shape[1] // edge) + at
    return Makers(number % pack.PATCH_THREADS, k % edge * edge + column, number // pack.PATCH_THREADS)


def _bytes(k: Number, n: Number) -> Makers:
    number = k * k.shape[1] + n
    return Makers(number % pack.SCALAR_THREADS, np.zeros_like(number), number // pack.SCALAR_THREADS)


def _apart(order: str, extents: tuple[int, int]) -> bool:
    """Whether 16 neighbouring bytes hold 8 k of n and of n + 16: kPartner of int8_layout.cuh."""
    record = weight_layout(order).record
    first, second = (record.locate(at, *extents)[1] for at in (0, pack.EDGE // 2))
    return bool(second - first == pack.EDGE)


def _moved(numbers: Number, offsets: Number) -> Number:
    """Numbers of elements of W, put where the packed order has these."""
    found = np.full(numbers.size, -1, np.int64)
    found[offsets] = numbers.ravel()
    return found[np.newaxis]
