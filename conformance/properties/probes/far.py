"""P14: no offset is cut to 32 bits: the last block of a launch far beyond 2^32 elements looks where its elements are.

No such tensor is allocated. A buffer claims to be large enough, one block runs, the last, and what it touches lies in
no allocation: the findings of the CPU device say at which addresses. Each must lie in the last part of a tensor: an
offset that was cut points somewhere else.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.case import Case
from tileproof.conformance.contract import EditedSource
from tileproof.conformance.layout import Layout, lay_out
from tileproof.conformance.registry import contract_of
from tileproof.kernels.device import Extent3
from tileproof.kernels.tensor import Tensor
from tileproof.simulators.ptx.buffer import Buffer
from tileproof.simulators.ptx.device import DEFAULT_MEMORY_LIMIT_BYTES, Device
from tileproof.simulators.ptx.findings import Report
from tileproof.simulators.ptx.launch import Prepared
from tileproof.simulators.ptx.machine.memory import GlobalMemory
from tileproof.simulators.ptx.machine.schedule import Friendly, Schedule

REAL_BYTES = 1 << 24
"""Up to so many bytes a tensor is there; larger ones only claim to be."""

LAST_PART = 64
"""The last one of so many equal parts of a tensor is its end."""

_ADDRESS = re.compile(r"in no allocation [(]0x([0-9a-f]+)[)]")


FIRST_ADDRESS = 0x7100_0000_0000
APART = 1 << 40
"""Where buffers claim to be: far from all that is allocated, and from each other."""


class _Claimed(Buffer):
    """A buffer that claims to hold whatever a launcher asks for, at an address where nothing is."""

    address = 0
    nbytes = APART

    def __init__(self, place: int, few: Buffer) -> None:
        super().__init__(few._allocation, few.shape, few.dtype)
        self.address = FIRST_ADDRESS + place * APART

    def lies_in(self, memory: GlobalMemory) -> bool:
        """It does, as far as it goes."""
        return True


class _LastCluster(Friendly):
    """Only the last cluster of a launch runs."""

    def waves(self, clusters: int, most: int) -> Iterator[NDArray[np.int64]]:
        """One wave of one cluster."""
        yield np.array([clusters - 1], np.int64)


class LastBlocks(Device):
    """A device that runs the last cluster of every launch and keeps the reports.

    Args:
        grid: instead of each launch's own; None for that.
        memory_limit_bytes: of all allocations.
    """

    def __init__(self, grid: Extent3 | None, memory_limit_bytes: int = DEFAULT_MEMORY_LIMIT_BYTES) -> None:
        super().__init__(schedule="friendly", order=False, memory_limit_bytes=memory_limit_bytes)
        self.reports: list[Report] = []
        self._grid = grid

    def schedule(self) -> Schedule:
        """See `Device.schedule`."""
        return _LastCluster()

    def run(self, prepared: Prepared, recorder: object = None) -> Report:
        """See `Device.run`."""
        if self._grid is not None:
            prepared = replace(prepared, shape=replace(prepared.shape, grid=self._grid))
        self.reports.append(super().run(prepared))
        return self.reports[-1]


def cut_offsets(case: Case, source: EditedSource | None = None, grid: Extent3 | None = None) -> tuple[str, ...]:
    """What the last blocks of a case of enormous extents look at and must not.

    Args:
        case: extents for which a tensor has more than 2^32 elements.
        source: an edited kernel.
        grid: instead of the launcher's, for a kernel whose blocks step through the tensor: as many as take one step.
    """
    contract, device = contract_of(case), LastBlocks(grid)
    layouts = [lay_out(spec, exact_bounds=True) for spec in contract.tensors(case.shape)]
    tensors = {layout.spec.name: _place(device, layout, place) for place, layout in enumerate(layouts)}
    contract.kernel(device, case.kernel, source)(case, tensors)
    far = {name: tensor for name, tensor in tensors.items() if isinstance(tensor.buffer, _Claimed)}
    return tuple(_wrong(far, list(_addresses(device.reports))))


def _wrong(far: dict[str, Tensor], addresses: Sequence[int]) -> Iterator[str]:
    ends = {name: range(_end(one) - _span(one) // LAST_PART, _end(one)) for name, one in far.items()}
    for address in addresses:
        if not any(address in end for end in ends.values()):
            yield f"{address:#x} is looked at, in the last part of no tensor"
    if not addresses:
        yield "no tensor is far away"


def _place(device: Device, layout: Layout, place: int) -> Tensor:
    """The tensor, in memory where it is small."""
    if layout.total_bytes <= REAL_BYTES:
        return layout.tensor(device.upload(np.zeros(layout.total_bytes, np.uint8)))
    return layout.tensor(_Claimed(place, device.upload(np.zeros(256, np.uint8))))


def _span(tensor: Tensor) -> int:
    return prod(tensor.shape) * tensor.dtype.itemsize


def _end(tensor: Tensor) -> int:
    return tensor.address + tensor.span_bytes


def _addresses(reports: Sequence[Report]) -> Iterator[int]:
    for report in reports:
        for finding in report.findings:
            yield from (int(found, 16) for found in _ADDRESS.findall(finding.message))
