"""A packed weight: at which offset of the buffer each run of neighbouring elements begins."""

import numpy as np

from tileproof.conformance.drawings.picture import BOX_LIMIT, Box, Picture, Row
from tileproof.oracle.addresses.digit import Axis
from tileproof.oracle.layouts import find_layout
from tileproof.oracle.refusal import Refusal

LINE_BITS = 8 * 128
USUAL_K, USUAL_N = 16, 8
"""Of a picture, where the layout has no tile of its own."""
MAX_ELEMENTS = 1 << 20


def draw_pack(name: str, k: int | None, n: int | None) -> Picture:
    """The matrix as a grid, along a row the axis that neighbours in memory share.

    Args:
        name: of the layout.
        k: extent K; None for the layout's tile.
        n: extent N, likewise.

    Raises:
        Refusal: no such layout, or a shape that it does not take.
    """
    layout = find_layout(name)
    k_size = k if k is not None else layout.k_multiple if layout.k_multiple > 1 else USUAL_K
    n_size = n if n is not None else layout.n_multiple if layout.n_multiple > 1 else USUAL_N
    along_k = layout.digits[-1].axis is Axis.K
    down, across = (n_size, k_size) if along_k else (k_size, n_size)
    if down > BOX_LIMIT or down * across > MAX_ELEMENTS:
        raise Refusal(f"{name} of K = {k_size}, N = {n_size} is too large to draw", hint="draw a smaller part: -k, -n")
    numbers = np.arange(across)
    rows = []
    for row in range(down):
        this = np.full(across, row)
        k_index, n_index = (numbers, this) if along_k else (this, numbers)
        offsets = np.asarray(layout.offset(k_index, n_index, k_size, n_size)).tolist()
        rows.append(Row(f"{'n' if along_k else 'k'} {row}", _runs(offsets, layout.element_bits)))
    step = min((box.span for row in rows for box in row.boxes), default=1)
    axis = "k" if along_k else "n"
    return Picture(
        title=f"{name} of K = {k_size}, N = {n_size}: {layout}",
        under=(f"{layout.evidence.value}: {layout.source}",),
        columns=tuple(f"{axis} {at}" if at % step == 0 else "" for at in range(across)),
        rows=tuple(rows),
        notes=(
            "a box is a run of neighbours in memory, with the offset of its first element;",
            f"a colour is a line of 128 bytes; elements have {layout.element_bits} bits",
        ),
    )


def _runs(offsets: list[int], element_bits: int) -> tuple[Box, ...]:
    boxes: list[Box] = []
    first = 0
    for at in range(1, len(offsets) + 1):
        if at == len(offsets) or offsets[at] != offsets[at - 1] + 1:
            line = offsets[first] * element_bits // LINE_BITS
            boxes.append(Box(str(offsets[first]), line, at - first))
            first = at
    return tuple(boxes)
