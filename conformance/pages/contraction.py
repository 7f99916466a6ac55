"""Pairs of a multiplication and an addition that an assembler may fuse: a kernel that has such a pair is run both ways.

PTX lets `mul.f32` and `add.f32` without a rounding mode become one `fma`, so that a kernel with such a pair has two
legal results, and a GPU gives the one that its assembler chose. The CPU device runs them unfused, and here all of them
fused as well, on copies: outputs that differ are a finding, with the line of a pair. Compilers fuse themselves, or say
`.rn`; it is PTX written by hand that leaves this open.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from tileproof.conformance.finding import FindingKind
from tileproof.kernels.compile import CompiledModule
from tileproof.kernels.device import Device, DeviceFinding, Function, Where
from tileproof.kernels.tensor import Tensor
from tileproof.simulators.ptx.decoding.contraction import Contraction
from tileproof.simulators.ptx.device import Device as CpuDevice
from tileproof.simulators.ptx.device import Function as CpuFunction

FUSED = (Contraction.FIRST, Contraction.LAST)
"""Of two products that are added, the first or the last is fused."""

Functions = Mapping[str, Function]


@dataclass(frozen=True)
class ContractionFinding:
    """Outputs depend on what an assembler fuses; as a device's finding is."""

    kind: FindingKind
    message: str
    where: Where
    threads: Sequence[object] = ()
    count: int = 1


@dataclass(frozen=True)
class ContractionReport:
    """What running both ways showed."""

    findings: tuple[DeviceFinding, ...]
    notes: tuple[object, ...] = ()


def fused_ways(device: Device, module: CompiledModule, functions: Functions) -> tuple[Functions, ...]:
    """The module's kernels with their pairs fused, each way; none where there is no pair, or on a GPU."""
    if not isinstance(device, CpuDevice) or not _pairs(functions):
        return ()
    ways = []
    for way in FUSED:
        with _contraction(device, way):
            ways.append(device.load(module))
    return tuple(ways)


def run_fused(
    device: Device,
    tensors: Mapping[str, Tensor],
    ways: Sequence[Functions],
    run: Callable[[Functions, Mapping[str, Tensor]], object],
) -> list[dict[str, bytes]]:
    """What each way leaves in copies of the tensors' memory, by tensor."""
    left = []
    for functions in ways:
        copies = {name: replace(one, buffer=device.upload(one.buffer.download())) for name, one in tensors.items()}
        try:
            run(functions, copies)
            left.append({name: copy.buffer.download().tobytes() for name, copy in copies.items()})
        finally:
            for copy in copies.values():
                device.free(copy.buffer)
    return left


def compared(
    tensors: Mapping[str, Tensor], left: Sequence[Mapping[str, bytes]], functions: Functions
) -> ContractionReport:
    """A finding for each tensor whose memory differs from what a fused run left."""
    place = _pairs(functions)
    findings = []
    for name, tensor in tensors.items():
        ours = np.frombuffer(tensor.buffer.download().tobytes(), np.uint8)
        counts = [int((ours != np.frombuffer(way[name], np.uint8)).sum()) for way in left]
        if any(counts):
            message = (
                f"{name}: {max(counts)} bytes differ where the assembler fuses a multiplication and an addition, "
                "as PTX lets it: write .rn, or fma"
            )
            findings.append(ContractionFinding(FindingKind.MISMATCH, message, place[0], count=len(place)))
    return ContractionReport(tuple(findings))


def _pairs(functions: Functions) -> list[Where]:
    return [pair for one in functions.values() if isinstance(one, CpuFunction) for pair in one.contractible]


@contextmanager
def _contraction(device: CpuDevice, way: Contraction) -> Iterator[None]:
    usual = device.contraction
    device.contraction = way
    try:
        yield
    finally:
        device.contraction = usual
