"""P14 of sums over rows: a kernel that goes from row to row reads where its elements are, past 2^31 and 2^32 of them.

The tensor is there, nine gigabytes that nothing touches: memory of the CPU device costs nothing until it is used. The
last block runs alone, 17 rows of 2^28 columns deep, on values that were put where its columns are. Everything around
them is zero, so that an offset which was cut shows in the sums.
"""

import numpy as np

from tileproof.conformance.astrai_linear_families import BF16
from tileproof.conformance.case import Case
from tileproof.conformance.contract import EditedSource
from tileproof.conformance.properties.probes.far import LastBlocks
from tileproof.kernels.fp8_bias_gradient import LANES, SOURCE, BiasGradient
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.bias_gradient import bias_gradient
from tileproof.simulators.ptx.buffer import Buffer

LIMIT_BYTES = 1 << 36


def cut_sums(case: Case, source: EditedSource | None = None) -> tuple[str, ...]:
    """What is wrong with the last columns' sums of a gradient of enormous extents.

    Args:
        case: of the linear layer with gradients; M times N are the elements, more than 2^32.
        source: an edited kernel.
    """
    rows, columns = case.shape.size("M"), case.shape.size("N")
    first = (columns - 1) // LANES * LANES
    values = case.random().standard_normal((rows, columns - first)).astype(BF16)
    device = LastBlocks(None, memory_limit_bytes=LIMIT_BYTES)
    g, out = (_sparse(device, shape) for shape in ((rows, columns), (columns,)))
    for row, line in enumerate(values):
        g._allocation.fill((row * columns + first) * BF16.itemsize, line.tobytes())
    BiasGradient(device, source=SOURCE if source is None else source.text)(Tensor.whole(g), Tensor.whole(out))
    seen = out._allocation.data[first * BF16.itemsize : out.nbytes].view(np.uint16)
    wrong = np.flatnonzero(seen != bias_gradient(values).view(np.uint16))
    return (
        *(str(finding.message) for report in device.reports for finding in report.findings),
        *(f"the sum of column {first + place} is not that of its {rows} elements" for place in wrong),
    )


def _sparse(device: LastBlocks, shape: tuple[int, ...]) -> Buffer:
    """Zeros that the host provides at first touch."""
    count = int(np.prod(shape, dtype=np.int64))
    return Buffer(device.memory.allocate(count * BF16.itemsize, defined=True), shape, BF16)
