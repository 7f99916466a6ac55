"""cuLaunchKernelEx through ctypes: launches with a cluster, which CuPy does not offer."""

import ctypes
from functools import cache
from typing import Any

import cupy

_CLUSTER_DIMENSION = 4
_NON_PORTABLE_CLUSTERS = 14
_MOST_DYNAMIC_SHARED_BYTES = 8


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


Extent = tuple[int, int, int]


@cache
def load(ptx: str) -> Any:
    """The kernel `k` of a PTX text; RuntimeError where the driver's compiler refuses it."""
    module = cupy.cuda.function.Module()
    module.load(ptx.encode())
    return module.get_function("k")


def launch(
    function: Any,
    grid: Extent,
    block: Extent,
    out: int,
    *,
    shared_bytes: int = 0,
    cluster: Extent | None = None,
    large_clusters: bool = False,
) -> int:
    """Launch with one pointer argument and wait; the driver's error code of the launch."""
    driver = ctypes.CDLL("libcuda.so.1")
    handle = ctypes.c_void_p(function.ptr)
    driver.cuFuncSetAttribute(handle, _NON_PORTABLE_CLUSTERS, int(large_clusters))
    driver.cuFuncSetAttribute(handle, _MOST_DYNAMIC_SHARED_BYTES, min(shared_bytes, 227 * 1024))
    attribute = _Attribute(id=_CLUSTER_DIMENSION)
    for index, extent in enumerate(cluster or ()):
        attribute.value[index] = extent
    config = _Config(
        (ctypes.c_uint * 3)(*grid),
        (ctypes.c_uint * 3)(*block),
        shared_bytes,
        None,
        ctypes.pointer(attribute),
        int(cluster is not None),
    )
    argument = ctypes.c_uint64(out)
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(argument), ctypes.c_void_p))
    code: int = driver.cuLaunchKernelEx(ctypes.byref(config), handle, arguments, None)
    cupy.cuda.runtime.deviceSynchronize()
    return code
