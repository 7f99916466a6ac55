"""What `column_sums.cu` must do: two launches, with working memory between them.

The order of a sum of floats is the kernel's own affair, and a result in another order is another result. Whole numbers
make each order give the same sum, exactly: so every index, tail and barrier is judged to the bit, and no tolerance is
needed. `bounded` takes other numbers, and asks that a sum lies within what float32 can lose in any order.

    tileproof try examples/column_sums_page.py
"""

import numpy as np

from tileproof.conformance.pages import Cuda, Input, Launch, Output, Page, Scratch, around, cdiv, within

KERNEL = Cuda("column_sums.cu", entry=("sum_strips", "add_strips"))

SIZES = {"Rows": around(32), "Columns": (1, 31, 33)}


def tensors(Rows, Columns):
    return [
        Input("x", "f32", (Rows, Columns)),
        Scratch("partial", "f32", (cdiv(Rows, 32), Columns)),
        Output("y", "f32", (Columns,)),
    ]


def launch(x, partial, y, Rows, Columns):
    strips = cdiv(Rows, 32)
    return [
        Launch(
            entry="sum_strips",
            grid=(cdiv(Columns, 32), strips),
            block=(32, 8),
            args=(x, partial, Rows, Columns),
        ),
        Launch(entry="add_strips", grid=cdiv(Columns, 128), block=128, args=(partial, y, strips, Columns)),
    ]


def exact(x):
    return x.sum(axis=0)


def bounded(x, Rows):
    # Adding n numbers in any order loses at most (n - 1) u sum|x| / (1 - (n - 1) u), with u = 2^-24, and nothing by
    # underflow (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 4.2). float64 adds an
    # error of its own, which is smaller by 2^-29: twice the bound holds both.
    u = 2.0**-24
    sums, sizes = x.astype(np.float64).sum(axis=0), np.abs(x.astype(np.float64)).sum(axis=0)
    return within(sums, 2 * (Rows - 1) * u * sizes / (1 - (Rows - 1) * u), "f32")


PAGE = Page(
    "column_sums",
    KERNEL,
    SIZES,
    tensors=tensors,
    launch=launch,
    expected=exact,
    families=("integers",),
)

BOUNDED = Page(
    "column_sums_bounded",
    KERNEL,
    {"Rows": (65,), "Columns": (33,)},
    tensors=tensors,
    launch=launch,
    expected=bounded,
    compare="bound",
    families=("normal",),
)
