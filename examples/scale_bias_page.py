"""What an instance of the template `scale_bias` must do: two roundings to float32, one to bfloat16.

tileproof try examples/scale_bias.cu
"""

import ml_dtypes
import numpy as np

from tileproof.conformance.pages import Cuda, Input, Launch, Output, Page, around, cdiv

KERNEL = Cuda("scale_bias.cu", entry="fused::scale_bias<__nv_bfloat16, 4>", include=["include"], define=["RECTIFY"])

# A thread takes 4 elements and a block 1024 of them.
SIZES = {"Rows": (1, 3), "Columns": around(1024)}

SCALE = 0.3


def tensors(Rows, Columns):
    return [
        Input("x", "bf16", (Rows, Columns)),
        Input("bias", "f32", (Columns,)),
        Output("y", "bf16", (Rows, Columns)),
    ]


def launch(x, bias, y, Rows, Columns):
    return Launch(
        grid=cdiv(Rows * Columns, 1024),
        block=256,
        args=(x, bias, y, SCALE, Rows, Columns),
    )


def expected(x, bias):
    value = x.astype(np.float32) * np.float32(SCALE) + bias
    value = np.where(value < 0, np.float32(0), value)
    return value.astype(ml_dtypes.bfloat16)


PAGE = Page(
    "scale_bias",
    KERNEL,
    SIZES,
    tensors=tensors,
    launch=launch,
    expected=expected,
    families=("normal", "integers", "wide", "specials"),
    views=("xoff1", "yoff1"),
    rules=[("rounding", "product and sum to float32 each, then once to bfloat16, all to nearest even")],
)
