"""PyTorch's own cast to e4m3, on the host: to nearest even, and NaN beyond 464. It needs PyTorch.

tileproof try examples/torch_cast_page.py
"""

from tileproof.conformance.pages import Input, Output, Page, Python
from tileproof.oracle.formats import E4M3FN


def cast(x):
    import torch

    return x.to(torch.float8_e4m3fn)


def tensors(N):
    return [Input("x", "f32", (N,)), Output("codes", "e4m3", (N,))]


def expected(x):
    return E4M3FN.encode(x, overflow="nan")


PAGE = Page(
    "torch_cast",
    Python(cast, arrays="torch"),
    {"N": (1, 4096)},
    tensors=tensors,
    expected=expected,
    families=("normal", "integers", "wide", "bits"),
    nan="any",
)
