"""JAX: casts to FP8, and its product of two e4m3 operands.

tileproof try examples/libraries/jax_page.py --target gpu
"""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the GPU is not JAX's alone

import fp8_products as products
import jax
import jax.numpy as jnp
import numpy as np

from tileproof.conformance.pages import Input, Output, Page, Python
from tileproof.oracle.formats import E4M3FN, E5M2


def to_e4m3(x):
    return jax.jit(lambda x: x.astype(jnp.float8_e4m3fn))(x)


def to_e5m2(x):
    return jax.jit(lambda x: x.astype(jnp.float8_e5m2))(x)


@jax.jit
def multiply(a, b):
    return jax.lax.dot_general(a, b, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)


def tensors_of_e4m3(N):
    return [Input("x", "f32", (N,)), Output("y", "e4m3", (N,))]


def tensors_of_e5m2(N):
    return [Input("x", "f32", (N,)), Output("y", "e5m2", (N,))]


def tensors_of_product(M, N, K):
    return [*products.operands(M, N, K), products.output("f32", M, N)]


def exact(a, b):
    return products.exact(a, b, 1.0).astype(np.float32)


def within(a, b, K):
    return products.within(a, b, K, np.float32(1))


def _multiply(a, b):
    return multiply(a, b)


_FAMILIES = ("wide", "normal", "specials", "bits")
E4M3 = Page(
    "jax_to_e4m3",
    Python(to_e4m3, arrays="jax"),
    {"N": (1, 65536)},
    tensors=tensors_of_e4m3,
    expected=lambda x: E4M3FN.encode(x, overflow="nan"),
    families=_FAMILIES,
    nan="any",
)
E5M2_PAGE = Page(
    "jax_to_e5m2",
    Python(to_e5m2, arrays="jax"),
    {"N": (1, 65536)},
    tensors=tensors_of_e5m2,
    expected=lambda x: E5M2.encode(x, overflow="inf"),
    families=_FAMILIES,
    nan="any",
)
EXACT = Page(
    "jax_product_exact",
    Python(_multiply, arrays="jax"),
    products.SIZES,
    tensors=tensors_of_product,
    expected=exact,
    families=("integers",),
)
BOUNDED = Page(
    "jax_product",
    Python(_multiply, arrays="jax"),
    products.DEEP,
    tensors=tensors_of_product,
    expected=within,
    compare="bound",
    families=("normal", "wide"),
)
