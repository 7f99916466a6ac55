"""A CUDA graph of recorded launches: captured once, replayed often, and asked which kernels it holds."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import cupy
from cuda.bindings import driver

from tileproof.kernels.device import DeviceError


class LaunchGraph:
    """Launches captured on a stream of its own.

    Args:
        launches: what queues the work on CuPy's current stream, in order; `RecordedLaunch.run`, for example.

    Raises:
        DeviceError: the driver cannot capture them.
    """

    def __init__(self, launches: Sequence[Callable[[], None]]) -> None:
        self._stream = cupy.cuda.Stream(non_blocking=True)
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        handle = self._handle = driver.CUstream(self._stream.ptr)
        with self._stream:
            _checked("capture", driver.cuStreamBeginCapture(handle, mode))
            for launch in launches:
                launch()
            self._graph = _checked("capture", driver.cuStreamEndCapture(handle))[0]
        self._instance = _checked("instantiation", driver.cuGraphInstantiate(self._graph, 0))[0]

    @property
    def kernels(self) -> Counter[str]:
        """How often a replay runs each kernel, by name; other nodes count under their type."""
        count = _checked("nodes", driver.cuGraphGetNodes(self._graph))[1]
        return Counter(_name(node) for node in _checked("nodes", driver.cuGraphGetNodes(self._graph, count))[0])

    def replay(self) -> None:
        """Run everything once, and wait."""
        _checked("replay", driver.cuGraphLaunch(self._instance, self._handle))
        self._stream.synchronize()


def _name(node: Any) -> str:
    (kind,) = _checked("node", driver.cuGraphNodeGetType(node))
    if kind != driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
        return str(kind.name)
    (parameters,) = _checked("node", driver.cuGraphKernelNodeGetParams(node))
    (name,) = _checked("node", driver.cuFuncGetName(parameters.func))
    return str(name.decode())


def _checked(doing: str, result: tuple[Any, ...]) -> tuple[Any, ...]:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DeviceError(status.name, f"{doing} of a graph failed")
    return tuple(values)
