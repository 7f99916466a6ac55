"""Products of libraries as boxes: torch, Triton and JAX, on a GPU; torch's on a CPU too, where it has them."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.fingerprint.box import Box

Array = NDArray[Any]

MULTIPLE = 16
"""torch._scaled_mm takes M, N and K in whole sixteens."""


def _box(name: str, operand: str, multiply: Callable[..., Array], **more: Any) -> Box:
    sizes: dict[str, Any] = {"rows": MULTIPLE, "columns": MULTIPLE, "depth": MULTIPLE, "one_shape": True}
    return Box(name=name, operand=operand, multiply=multiply, **(sizes | more))


def _device() -> Any:
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _sent(codes: Array, dtype: Any) -> Any:
    """Codes as a torch tensor of their type."""
    import torch

    signed = np.ascontiguousarray(codes).view({1: np.uint8, 2: np.int16}[codes.itemsize])
    return torch.from_numpy(signed).to(_device()).view(dtype)


def _read(tensor: Any) -> Array:
    """A torch tensor as numpy's, with bfloat16 as ml_dtypes has it."""
    import torch

    if tensor.dtype is torch.bfloat16:
        return np.asarray(tensor.cpu().view(torch.int16).numpy()).view(ml_dtypes.bfloat16)
    return np.asarray(tensor.cpu().numpy())


def scaled_mm(*, fast: bool, rows: bool, out: str) -> Box:
    """torch._scaled_mm of e4m3, with one scale a tensor or one a row."""
    import torch

    dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[out]

    def multiply(a: Array, b: Array, bias: Array | None = None) -> Array:
        x, y = (_sent(codes, torch.float8_e4m3fn) for codes in (a, b))
        shapes = ((len(a), 1), (1, len(b))) if rows else ((), ())
        scales = [torch.ones(shape, dtype=torch.float32, device=x.device) for shape in shapes]
        more = {} if bias is None else {"bias": torch.from_numpy(np.array(bias)).to(x.device, torch.bfloat16)}
        return _read(
            torch._scaled_mm(
                x, y.t(), scale_a=scales[0], scale_b=scales[1], out_dtype=dtype, use_fast_accum=fast, **more
            )
        )

    how = f"{'fast' if fast else 'slow'} accumulation, {'row' if rows else 'tensor'}-wise scales, {out} output"
    return _box(f"torch._scaled_mm, {how}", "e4m3", multiply, takes_bias=out == "bf16")


def matmul(operand: str, out: str) -> Box:
    """torch.mm of 16-bit types; with a float32 output as torch 2.8 and later give it."""
    import torch

    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[operand]

    def multiply(a: Array, b: Array) -> Array:
        x, y = (_sent(codes, dtype) for codes in (a, b))
        return _read(torch.mm(x, y.t(), out_dtype=torch.float32) if out == "f32" else torch.mm(x, y.t()))

    return _box(f"torch.mm of {operand}, {out} output", operand, multiply)


def addmm() -> Box:
    """torch.addmm of bf16: where the added matrix joins."""
    import torch

    def multiply(a: Array, b: Array, c: Array | None = None) -> Array:
        x, y = (_sent(codes, torch.bfloat16) for codes in (a, b))
        added = np.zeros((len(a), len(b)), np.float32) if c is None else np.array(c)
        return _read(torch.addmm(torch.from_numpy(added).to(x.device, torch.bfloat16), x, y.t()))

    return _box("torch.addmm of bf16", "bf16", multiply, takes_c=True, c_bits=7)


def triton_dot(imprecise: int | None) -> Box:
    """tl.dot of e4m3 in blocks of 64 × 64 × 64; Triton or we choose how long a chain in the unit may be."""
    import torch
    from fingerprint_triton import dot_kernel

    def multiply(a: Array, b: Array) -> Array:
        x, y = (_sent(codes, torch.float8_e4m3fn) for codes in (a, b))
        out = torch.empty((len(a), len(b)), dtype=torch.float32, device=x.device)
        grid = (len(a) // 64, len(b) // 64)
        dot_kernel[grid](x, y, out, len(b), a.shape[1], IMPRECISE=imprecise, BLOCK=64, DEPTH=64)
        return _read(out)

    how = "as Triton chooses" if imprecise is None else f"max_num_imprecise_acc = {imprecise}"
    return _box(f"Triton tl.dot of e4m3, {how}", "e4m3", multiply, rows=64, columns=64, depth=64)


def jax_dot() -> Box:
    """jax.lax.dot_general of e4m3 with a float32 result."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax

    along_k = (((1,), (1,)), ((), ()))
    product = jax.jit(lambda x, y: jax.lax.dot_general(x, y, along_k, preferred_element_type=np.float32))

    def multiply(a: Array, b: Array) -> Array:
        return np.asarray(product(*(np.ascontiguousarray(codes).view(ml_dtypes.float8_e4m3fn) for codes in (a, b))))

    return _box("jax.lax.dot_general of e4m3", "e4m3", multiply)


def int_mm(a: Array, b: Array) -> Array:
    """torch._int_mm."""
    import torch

    x, y = (torch.from_numpy(np.ascontiguousarray(codes)).to(_device()) for codes in (a, b))
    return _read(torch._int_mm(x, y.t()))


LIBRARIES: Mapping[str, Callable[[], Box]] = {
    "torch fast, tensor-wise, bf16": partial(scaled_mm, fast=True, rows=False, out="bf16"),
    "torch slow, tensor-wise, bf16": partial(scaled_mm, fast=False, rows=False, out="bf16"),
    "torch fast, tensor-wise, f32": partial(scaled_mm, fast=True, rows=False, out="f32"),
    "torch slow, tensor-wise, f32": partial(scaled_mm, fast=False, rows=False, out="f32"),
    "torch fast, row-wise, bf16": partial(scaled_mm, fast=True, rows=True, out="bf16"),
    "torch slow, row-wise, bf16": partial(scaled_mm, fast=False, rows=True, out="bf16"),
    "torch bf16": partial(matmul, "bf16", "bf16"),
    "torch bf16, f32 output": partial(matmul, "bf16", "f32"),
    "torch f16, f32 output": partial(matmul, "f16", "f32"),
    "torch bf16, addmm": addmm,
    "triton": partial(triton_dot, None),
    "triton, 32": partial(triton_dot, 32),
    "jax": jax_dot,
}
