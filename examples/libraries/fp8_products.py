"""What the pages of FP8 products share: A [M, K] times B [N, K] transposed, both in e4m3.

A library says neither in which order it adds nor where its accumulators are promoted. Two questions have an answer
all the same. Of small whole numbers the sums are exact in every order, also in Hopper's accumulators with 13 fraction
bits, so that every index, tail and scale is judged to the bit. Of other numbers the result must lie within what the
matrix unit can lose in any order, promoted after each instruction or never (`oracle.products.error_bound` proves it).
"""

import ml_dtypes
import numpy as np

from tileproof.conformance.pages import Input, Output, between
from tileproof.oracle.formats import E4M3FN
from tileproof.oracle.products.error_bound import UndeclaredOrder, error_bound

INSTRUCTION = "wgmma.m64n8k32.f32.e4m3.e4m3"
INSTRUCTION_K = 32

SIZES = {"M": (16, 17, 129), "N": (16, 144), "K": (64,)}
"""Whole numbers of -8 to 8: 64 products add up to at most 2^12, and each partial sum is exact."""

DEEP = {"M": (17,), "N": (144,), "K": (64, 1024, 4096)}


def operands(M, N, K):
    return [Input("a", "e4m3", (M, K)), Input("b", "e4m3", (N, K))]


def scales_of_tensors(random, M, N):
    """Powers of two, so that applying them loses nothing in any order."""
    return {name: np.exp2(random.integers(-3, 4, (1,))).astype(np.float32) for name in ("scale_a", "scale_b")}


def scales_of_rows(random, M, N):
    drawn = random.integers
    return {
        "scale_a": np.exp2(drawn(-3, 4, (M, 1))).astype(np.float32),
        "scale_b": np.exp2(drawn(-3, 4, (1, N))).astype(np.float32),
    }


def exact(a, b, scale):
    """The exact product of small whole numbers by a power of two, as float64."""
    return (E4M3FN.decode(a) @ E4M3FN.decode(b).T) * np.asarray(scale, np.float64)


def bounds(a, b, K):
    """The least and the greatest float32 that the product may be."""
    chains = max(1, K // INSTRUCTION_K)
    order = UndeclaredOrder(instruction=INSTRUCTION, arch="sm_90a", assembler="12.8", chains=chains)
    return error_bound(order, a, b).interval()


def within(a, b, K, scale, dtype=np.float32):
    """Every value within the bound, scaled by a power of two and rounded once."""
    low, high = bounds(a, b, K)
    return between((low * scale).astype(dtype), (high * scale).astype(dtype))


BF16 = ml_dtypes.bfloat16


def output(type, M, N):
    return Output("c", type, (M, N))
