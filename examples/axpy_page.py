"""What the bare PTX `axpy.ptx` must do.

tileproof try examples/axpy.ptx
"""

import numpy as np

from tileproof.conformance.pages import InOut, Input, Launch, Page, Ptx, around, cdiv

KERNEL = Ptx("axpy.ptx")

SIZES = {"N": around(256)}


def tensors(N):
    return [Input("x", "f32", (N,)), InOut("y", "f32", (N,))]


def launch(x, y, N):
    return Launch(grid=cdiv(N, 256), block=256, args=(x, y, 0.1, N))


def expected(x, y):
    return np.float32(0.1) * x + y


PAGE = Page("axpy", KERNEL, SIZES, tensors=tensors, launch=launch, expected=expected)
