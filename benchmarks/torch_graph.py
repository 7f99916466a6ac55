"""Runs of a GPU contender as one CUDA graph, so that nobody's time is that of queueing from Python."""

from collections.abc import Callable
from typing import Any

RUNS = 10
"""Of a contender in one graph."""


def captured(torch: Any, run: Callable[[], object], runs: int = RUNS) -> Callable[[], None]:
    """A call that queues `runs` runs at once on CuPy's current stream, which must not be the null stream.

    Args:
        torch: the module.
        run: queues one run on the current stream of torch and of CuPy alike. What it allocates is kept by the graph.
        runs: in the graph.
    """
    import cupy

    with torch.cuda.stream(torch.cuda.Stream()):
        _on_torch_stream(torch, cupy, run)  # the first run allocates workspaces, which no graph may hold
        torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(runs):
            _on_torch_stream(torch, cupy, run)
    return lambda: _replay(torch, cupy, graph)


def _on_torch_stream(torch: Any, cupy: Any, run: Callable[[], object]) -> None:
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        run()


def _replay(torch: Any, cupy: Any, graph: Any) -> None:
    handle = cupy.cuda.get_current_stream().ptr
    if not handle:
        # NOTE: torch takes a handle of 0 for a stream of its own, and events on the null stream would time nothing.
        raise ValueError("a graph was to be replayed on the null stream; make another one CuPy's current stream")
    with torch.cuda.stream(torch.cuda.ExternalStream(handle)):
        graph.replay()
