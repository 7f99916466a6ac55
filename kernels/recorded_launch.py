"""Launches of a GPU, kept instead of run: what a launcher decided, for a graph, or to be timed without its checks.

device = RecordingDevice()
gemm = Fp8A8Gemm(device, LINEAR)
with device.recorded() as launches:
    gemm(operands, outputs)               # nothing runs
launches[0].run()                         # on CuPy's current stream, not waited for
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from tileproof.kernels.compile import CompiledModule
from tileproof.kernels.cupy_device import CupyDevice, CupyFunction, GpuReport
from tileproof.kernels.device import Argument, Extent3


@dataclass(frozen=True)
class RecordedLaunch:
    """One launch. Its buffers must live as long as it is run."""

    function: CupyFunction
    grid: Extent3
    block: Extent3
    values: tuple[np.generic, ...]
    shared_bytes: int

    def run(self) -> None:
        """Launch on CuPy's current stream."""
        self.function.function(self.grid, self.block, self.values, shared_mem=self.shared_bytes)


class RecordedFunction(CupyFunction):
    """A kernel whose launches its device keeps while it records."""

    def launch(
        self,
        *,
        grid: Extent3,
        block: Extent3,
        args: Sequence[Argument],
        shared_bytes: int = 0,
        cluster: Extent3 = (1, 1, 1),
    ) -> GpuReport:
        """Keep the launch, or run it; see `CupyFunction.launch` for what is refused."""
        device = self.device
        kept = device.kept if isinstance(device, RecordingDevice) else None
        if kept is None:
            return super().launch(grid=grid, block=block, args=args, shared_bytes=shared_bytes, cluster=cluster)
        kept.append(RecordedLaunch(self, grid, block, self.prepared(args, shared_bytes, cluster), shared_bytes))
        return GpuReport()


class RecordingDevice(CupyDevice):
    """A GPU that can keep launches.

    Args:
        index: CUDA's number of the GPU.
    """

    kept: list[RecordedLaunch] | None = None

    def load(self, module: CompiledModule) -> Mapping[str, CupyFunction]:
        """See `CupyDevice.load`."""
        loaded = super().load(module)
        return {name: RecordedFunction(name, found.function, self) for name, found in loaded.items()}

    @contextmanager
    def recorded(self) -> Iterator[list[RecordedLaunch]]:
        """Keep all launches meanwhile, in their order."""
        self.kept = []
        try:
            yield self.kept
        finally:
            self.kept = None
