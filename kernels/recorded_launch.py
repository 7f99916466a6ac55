"""Launches of a GPU, kept instead of run: what a launcher decided, for a graph, or to be timed without its checks.

device = RecordingDevice()
gemm = Fp8A8Gemm(device, LINEAR)
gemm(operands, outputs)                   # nothing runs
(launch,) = device.take()
launch.run()                              # on CuPy's current stream, not waited for
"""

from collections.abc import Mapping, Sequence
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
    """A kernel whose launches its device keeps."""

    def launch(
        self,
        *,
        grid: Extent3,
        block: Extent3,
        args: Sequence[Argument],
        shared_bytes: int = 0,
        cluster: Extent3 = (1, 1, 1),
    ) -> GpuReport:
        """Keep the launch; see `CupyFunction.launch` for what is refused."""
        values = self.prepared(args, shared_bytes, cluster)
        device = self.device
        assert isinstance(device, RecordingDevice)
        device.launches.append(RecordedLaunch(self, grid, block, values, shared_bytes))
        return GpuReport()


class RecordingDevice(CupyDevice):
    """A GPU that keeps launches.

    Args:
        index: CUDA's number of the GPU.
    """

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.launches: list[RecordedLaunch] = []

    def load(self, module: CompiledModule) -> Mapping[str, CupyFunction]:
        """See `CupyDevice.load`."""
        loaded = super().load(module)
        return {name: RecordedFunction(name, found.function, self) for name, found in loaded.items()}

    def take(self) -> tuple[RecordedLaunch, ...]:
        """The launches since the last call, which are then forgotten."""
        taken, self.launches = tuple(self.launches), []
        return taken
