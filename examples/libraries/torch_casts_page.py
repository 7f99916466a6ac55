"""PyTorch's casts: every rounding, overflow and NaN of each, to the bit. On a GPU or the host.

tileproof try examples/libraries/torch_casts_page.py --target gpu
"""

import ml_dtypes
import numpy as np
import torch

from tileproof.conformance.pages import Input, Output, Page, Python
from tileproof.oracle.formats import E4M3FN, E5M2

_TARGETS = {
    "e4m3": (torch.float8_e4m3fn, lambda x: E4M3FN.encode(x, overflow="nan")),
    "e5m2": (torch.float8_e5m2, lambda x: E5M2.encode(x, overflow="inf")),
    "bf16": (torch.bfloat16, lambda x: x.astype(ml_dtypes.bfloat16)),
    "f16": (torch.float16, lambda x: x.astype(np.float16)),
}


def _page(source, target):
    dtype, encode = _TARGETS[target]

    def cast(x):
        return x.to(dtype)

    def tensors(N):
        return [Input("x", source, (N,)), Output("y", target, (N,))]

    def expected(x):
        return encode(x)

    return Page(
        f"torch_{source}_to_{target}",
        Python(cast, arrays="torch"),
        {"N": (1, 65536)},
        tensors=tensors,
        expected=expected,
        families=("wide", "normal", "integers", "specials", "bits"),
        nan="any",
        rules=[("overflow", "e4m3 becomes NaN, e5m2 infinity"), ("rounding", "to nearest, ties to even, once")],
    )


F32_E4M3 = _page("f32", "e4m3")
F32_E5M2 = _page("f32", "e5m2")
F32_BF16 = _page("f32", "bf16")
F32_F16 = _page("f32", "f16")
BF16_E4M3 = _page("bf16", "e4m3")
BF16_E5M2 = _page("bf16", "e5m2")
