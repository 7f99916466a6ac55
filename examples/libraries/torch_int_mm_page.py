"""`torch._int_mm`: int8 by int8 to int32, exact in every order.

tileproof try examples/libraries/torch_int_mm_page.py --target gpu
"""

import numpy as np
import torch

from tileproof.conformance.pages import Input, Output, Page, Python


def multiply(a, b):
    return torch._int_mm(a, b.t())


def tensors(M, N, K):
    return [Input("a", "s8", (M, K)), Input("b", "s8", (N, K)), Output("c", "s32", (M, N))]


def expected(a, b):
    return a.astype(np.int32) @ b.astype(np.int32).T


PAGE = Page(
    "int_mm",
    Python(multiply, arrays="torch"),
    {"M": (17, 32, 129), "N": (16, 136), "K": (16, 64, 1024)},
    tensors=tensors,
    expected=expected,
    families=("bits", "specials"),
)
