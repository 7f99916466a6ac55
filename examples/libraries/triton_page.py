"""Three Triton kernels: a cast to e4m3, a row quantiser, and a product in e4m3.

The quantiser is written twice: with `/`, which Triton makes an approximate division, and with `div_rn`.

    tileproof try examples/libraries/triton_page.py --target gpu
"""

import fp8_products as products
import numpy as np
import torch
import triton
import triton.language as tl

from tileproof.conformance.pages import Input, Output, Page, Python
from tileproof.oracle.formats import E4M3FN


@triton.jit
def _cast(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n).to(tl.float8e4nv), mask=at < n)


@triton.jit
def _quantize(x, codes, scales, columns, EXACT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    largest = tl.max(tl.abs(values), axis=0)
    if EXACT:
        scale = tl.div_rn(largest, 448.0)
        inverse = tl.where(scale > 0, tl.div_rn(1.0, scale), 0.0)
    else:
        scale = largest / 448.0
        inverse = tl.where(scale > 0, 1.0 / scale, 0.0)
    tl.store(scales + row, scale)
    tl.store(codes + row * columns + at, (values * inverse).to(tl.float8e4nv), mask=at < columns)


@triton.jit
def _product(a, b, c, M, N, K, TILE: tl.constexpr, DEPTH: tl.constexpr):
    m = tl.program_id(0) * TILE + tl.arange(0, TILE)
    n = tl.program_id(1) * TILE + tl.arange(0, TILE)
    k = tl.arange(0, DEPTH)
    total = tl.zeros((TILE, TILE), tl.float32)
    for step in range(0, K, DEPTH):
        left = tl.load(
            a + m[:, None] * K + step + k[None, :], mask=(m[:, None] < M) & (step + k[None, :] < K), other=0.0
        )
        right = tl.load(
            b + n[None, :] * K + step + k[:, None], mask=(n[None, :] < N) & (step + k[:, None] < K), other=0.0
        )
        total = tl.dot(left, right, total)
    tl.store(c + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


def cast(x, y, N):
    _cast[(triton.cdiv(N, 1024),)](x, y, N, BLOCK=1024)


def quantize(x, codes, scales, T, K):
    _quantize[(T,)](x, codes.view(torch.float8_e4m3fn), scales, K, EXACT=False, BLOCK=triton.next_power_of_2(K))


def quantize_exactly(x, codes, scales, T, K):
    _quantize[(T,)](x, codes.view(torch.float8_e4m3fn), scales, K, EXACT=True, BLOCK=triton.next_power_of_2(K))


def multiply(a, b, c, M, N, K):
    _product[(triton.cdiv(M, 64), triton.cdiv(N, 64))](a, b, c, M, N, K, TILE=64, DEPTH=64)


def tensors_of_cast(N):
    return [Input("x", "f32", (N,)), Output("y", "e4m3", (N,))]


def saturated(x):
    return E4M3FN.encode(x)


def tensors_of_product(M, N, K):
    return [*products.operands(M, N, K), products.output("f32", M, N)]


def exact(a, b):
    return products.exact(a, b, 1.0).astype(np.float32)


def within(a, b, K):
    return products.within(a, b, K, np.float32(1))


CAST = Page(
    "triton_cast",
    Python(cast, arrays="torch"),
    {"N": (1, 1023, 65536)},
    tensors=tensors_of_cast,
    expected=saturated,
    families=("wide", "normal", "specials", "bits"),
    nan="any",
    rules=[("overflow", "saturates, as cvt.rn.satfinite does")],
)

_ROWS = {"T": (1, 3), "K": (1, 127, 128, 129, 801)}
QUANTIZE = Page("triton_quantize", Python(quantize, arrays="torch"), _ROWS, like="ninfer_quantize", dtype="f32")
QUANTIZE_EXACTLY = Page(
    "triton_quantize_exactly", Python(quantize_exactly, arrays="torch"), _ROWS, like="ninfer_quantize", dtype="f32"
)

EXACT = Page(
    "triton_product_exact",
    Python(multiply, arrays="torch"),
    {"M": (1, 64, 65), "N": (63, 64), "K": (32, 48, 64)},
    tensors=tensors_of_product,
    expected=exact,
    families=("integers",),
)
BOUNDED = Page(
    "triton_product",
    Python(multiply, arrays="torch"),
    products.DEEP,
    tensors=tensors_of_product,
    expected=within,
    compare="bound",
    families=("normal", "wide"),
)
