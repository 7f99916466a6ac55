"""Widths that come from a row kernel's own boundaries, and views at every residue of its alignment.

A kernel that takes `vector` elements a thread and step, with `block` threads a row, changes its behaviour at one
vector and at one step of the whole block; below a vector everything is tail, and each residue of K mod vector is
another tail length. Sizes in between add nothing but time.
"""

from tileproof.conformance.case import Dimension, Shape, View

MODEL_WIDTHS = (5120, 6144, 17408)
"""K of the models that ninfer serves (src/ops/linear/fp8/fp8_a8.cu @9180d956)."""


def boundary_widths(vector: int, block: int) -> tuple[int, ...]:
    """K at, just below and just above one vector and one step of the block; and the smallest K."""
    step = vector * block
    return tuple(sorted({1, vector - 1, vector, vector + 1, step - 1, step, step + 1}))


def residue_widths(vector: int, near: int) -> tuple[int, ...]:
    """One K for each residue mod `vector`, from `near` rounded down to a multiple of it."""
    start = near // vector * vector
    return tuple(range(start, start + vector))


def rows_shape(rows: int, columns: int, dtype: str, *views: View) -> Shape:
    """The shape of a row operator: T rows of K elements; views that are plain are left out."""
    plain = [view for view in views if view.pad or view.offset]
    return Shape((Dimension("T", rows), Dimension("K", columns)), dtype, tuple(plain))


def padding_to(columns: int, multiple: int) -> int:
    """Elements that must follow a row so that the next begins at a multiple of `multiple` elements."""
    return -columns % multiple
