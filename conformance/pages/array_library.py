"""Tensors of ours as arrays of numpy, PyTorch, JAX or CuPy, and back, without copying where the library allows it.

No library's exchange protocol carries all of bfloat16, FP8 and strides, so the bits go over as unsigned integers and
are given their type on the other side. On the host that is numpy's memory, on a GPU CuPy's, by DLPack.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.contract import TensorSpec
from tileproof.conformance.pages.host_device import HostBuffer
from tileproof.conformance.pages.user_code import PageError
from tileproof.conformance.pages.vocabulary import Arrays
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

_TORCH = {
    "E4M3FN": "float8_e4m3fn",
    "E5M2": "float8_e5m2",
    "E4M3FNUZ": "float8_e4m3fnuz",
    "E5M2FNUZ": "float8_e5m2fnuz",
    "E8M0FNU": "float8_e8m0fnu",
    "BFLOAT16": "bfloat16",
    "FLOAT16": "float16",
    "FLOAT32": "float32",
    **{f"INT{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
"""Format to PyTorch's name of the type."""

_JAX = {**_TORCH, "E8M0FNU": "float8_e8m0fnu"}


def given(tensor: Tensor, spec: TensorSpec, arrays: Arrays) -> Any:
    """A tensor as an array of that library, over the same memory but for JAX, whose arrays nobody may write.

    Raises:
        Refusal: the library is missing, or has no such type.
    """
    raw = _host_view(tensor) if isinstance(tensor.buffer, HostBuffer) else _gpu_view(tensor)
    if arrays is Arrays.TORCH:
        torch = library("torch")
        signed = raw.view(f"i{spec.dtype.itemsize}")  # of unsigned integers torch knows one byte well
        base = torch.from_numpy(signed) if isinstance(raw, np.ndarray) else torch.from_dlpack(signed)
        return base.view(_type(torch, _TORCH, spec))
    if arrays is Arrays.JAX:
        jax = library("jax")
        base = jax.numpy.asarray(raw) if isinstance(raw, np.ndarray) else jax.dlpack.from_dlpack(raw)
        return jax.lax.bitcast_convert_type(base, _type(jax.numpy, _JAX, spec))
    return raw.view(spec.dtype) if isinstance(raw, np.ndarray) or spec.dtype.kind in "iuf" else raw


def bits_of(value: Any, spec: TensorSpec) -> NDArray[Any]:
    """The stored bits of an array that a callable returned, on the host, as unsigned integers of the element's width.

    Raises:
        Refusal: no array, or of another shape or element type than the output's.
    """
    kind, raw = _read(value)
    if tuple(raw.shape) != spec.shape:
        raise Refusal(f"{spec.name} has shape {tuple(raw.shape)}; it must be {spec.shape}")
    width = f"u{spec.dtype.itemsize}"
    if kind not in (_TORCH[spec.format], spec.dtype.name, width) or raw.dtype.itemsize != spec.dtype.itemsize:
        raise Refusal(f"{spec.name} has element type {kind}; it must be {_TORCH[spec.format]}")
    return np.ascontiguousarray(raw).view(width)


def library(name: str) -> Any:
    """A library by name. Raises: PageError where it cannot be imported: that says nothing of the kernel."""
    try:
        return import_module(name)
    except Exception as error:  # an installation may fail in its own ways
        raise PageError(f"{name} cannot be imported: {error}", hint=f"install {name}, or take other arrays") from None


def _type(module: Any, names: Mapping[str, str], spec: TensorSpec) -> Any:
    name = names[spec.format]
    if not hasattr(module, name):
        raise Refusal(f"{module.__name__} has no type {name}, which {spec.name} needs", hint="install a newer one")
    return getattr(module, name)


def _host_view(tensor: Tensor) -> NDArray[Any]:
    """Elements as unsigned integers, strided, over the buffer's memory."""
    buffer = tensor.buffer
    assert isinstance(buffer, HostBuffer)
    width = tensor.dtype.itemsize
    strides = tuple(stride * width for stride in tensor.strides)
    start = tensor.offset_bytes if tensor.size else 0
    return np.ndarray(tensor.shape, f"u{width}", buffer.memory.data, start, strides)


def _gpu_view(tensor: Tensor) -> Any:
    cupy = library("cupy")
    width = tensor.dtype.itemsize
    strides = tuple(stride * width for stride in tensor.strides)
    memory = getattr(tensor.buffer, "memory", None)
    if memory is None:
        raise Refusal(f"a buffer of {type(tensor.buffer).__name__} holds no array", hint="use the target host or gpu")
    return cupy.ndarray(tensor.shape, f"u{width}", memptr=memory + tensor.offset_bytes, strides=strides)


def _read(value: Any) -> tuple[str, NDArray[Any]]:
    """The element type's name and the array on the host, of a type that numpy has."""
    root = type(value).__module__.partition(".")[0]
    reader = _READERS.get(root)
    if reader is not None:
        return reader(value)
    if hasattr(value, "__cuda_array_interface__"):
        array = library("cupy").asarray(value).get()
        return array.dtype.name, array
    if hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__"):
        array = np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
        return array.dtype.name, array
    raise Refusal(f"a {type(value).__name__} was returned, which is no array")


def _read_numpy(value: Any) -> tuple[str, NDArray[Any]]:
    array = np.asarray(value)
    return array.dtype.name, array


def _read_torch(value: Any) -> tuple[str, NDArray[Any]]:
    torch = library("torch")
    name = str(value.dtype).removeprefix("torch.")
    width = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}[value.element_size()]
    return name, value.detach().cpu().contiguous().view(getattr(torch, width)).numpy()


def _read_jax(value: Any) -> tuple[str, NDArray[Any]]:
    array = np.asarray(value)
    return str(value.dtype), array


def _read_cupy(value: Any) -> tuple[str, NDArray[Any]]:
    return value.dtype.name, value.get()


_READERS: Mapping[str, Callable[[Any], tuple[str, NDArray[Any]]]] = {
    "numpy": _read_numpy,
    "torch": _read_torch,
    "jax": _read_jax,
    "jaxlib": _read_jax,
    "cupy": _read_cupy,
}
