"""Argument checks and launches that every kernel shares.

A kernel declares its tensors once, as `TensorRule` records with named dimensions. `check_tensors` holds actual tensors
to them and returns the extents; each refusal names the argument, its value and the limit. Example:

    TOKENS, COLUMNS = Dimension("T"), Dimension("K", minimum=1)
    rules = (TensorRule("x", (BF16,), (TOKENS, COLUMNS), Layout.ROWS), TensorRule("scales", (F32,), (TOKENS,), ...))
    extents = check_tensors(device, rules, (x, scales))     # {"T": 3, "K": 129}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from typing import Any

import numpy as np

from tileproof.kernels.compile import compile_source
from tileproof.kernels.device import Argument, Compiles, Device, DeviceFinding, Extent3, KnowsItsBuffers, Report
from tileproof.kernels.tensor import Tensor, contiguous_strides
from tileproof.kernels.watch import tell
from tileproof.oracle.refusal import Refusal

# CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability".
MAX_GRID: Extent3 = (2**31 - 1, 65535, 65535)
MAX_BLOCK_THREADS = 1024

MAX_STRIDE = 2**63 - 1
"""Kernels take strides as 64-bit integers with a sign."""

NOTHING_TO_LAUNCH = "empty"
"""The route of a call that has no work, so that nothing is launched."""


class Layout(Enum):
    """How a tensor may lie in memory; the value completes "must be ..."."""

    CONTIGUOUS = "contiguous"
    ROWS = "rows of contiguous elements, each row at or past the end of the one before"


class Role(Enum):
    """What a kernel does with a tensor."""

    INPUT = "input"
    OUTPUT = "output"
    IN_PLACE = "input and output"


@dataclass(frozen=True)
class Dimension:
    """A named extent, shared by all tensors that use it.

    Args:
        name: as the kernel's documentation calls it, for example "K".
        minimum: smallest legal extent.
        maximum: largest legal extent; None where only memory limits it.
    """

    name: str
    minimum: int = 0
    maximum: int | None = None


@dataclass(frozen=True)
class TensorRule:
    """What a kernel asks of one tensor.

    Args:
        name: the argument's name.
        dtypes: legal element types.
        dimensions: extents by name, outermost first.
        layout: how it may lie in memory.
        role: whether it is read, written or both.
        alignment_bytes: of the first element's address; 0 asks for the element type's own alignment.
    """

    name: str
    dtypes: tuple[np.dtype[Any], ...]
    dimensions: tuple[Dimension, ...]
    layout: Layout
    role: Role
    alignment_bytes: int = 0


@dataclass(frozen=True)
class Launch:
    """What a launcher did.

    Args:
        kernel: the kernel's name, which is the stem of its source file.
        entry: the PTX entry that ran, or would have run.
        route: the code path that was chosen; "empty" where there was nothing to do.
        grid: blocks in x, y, z.
        block: threads of a block in x, y, z.
        report: the device's report; None where nothing was launched.
    """

    kernel: str
    entry: str
    route: str
    grid: Extent3
    block: Extent3
    report: Report | None


@dataclass(frozen=True)
class JoinedReport:
    """What a device says about several launches of one operator, in their order."""

    reports: tuple[Report, ...]

    @property
    def findings(self) -> Sequence[DeviceFinding]:
        """Of all launches."""
        return [finding for report in self.reports for finding in report.findings]

    @property
    def notes(self) -> Sequence[object]:
        """Of all launches."""
        return [note for report in self.reports for note in report.notes]


class Kernel:
    """A source, compiled for a device and loaded on it.

    Args:
        device: where it will run.
        name: stem of the source file; names the module in line information and in every `Launch`.
        source: CUDA C++ text.
        defines: macros of the variant, as `compile_source` takes them.
    """

    def __init__(self, device: Device, *, name: str, source: str, defines: tuple[str, ...] = ()) -> None:
        self.device = device
        self.name = name
        compiled = device.compile if isinstance(device, Compiles) else compile_source
        self.module = compiled(source, name=f"{name}.cu", arch=device.arch, defines=defines)
        self.functions = device.load(self.module)

    def launch(
        self,
        *,
        entry: str,
        route: str,
        grid: Extent3,
        block: Extent3,
        args: Sequence[Argument],
        shared_bytes: int = 0,
        cluster: Extent3 = (1, 1, 1),
    ) -> Launch:
        """Launch one entry, or nothing at all if the grid has no block.

        Raises:
            Refusal: a limit of the grid or the block is passed.
            DeviceError: the device failed.
        """
        if 0 in grid:
            return Launch(self.name, entry, NOTHING_TO_LAUNCH, grid, block, None)
        _check_extents(entry, grid, block)
        function = self.functions[entry]
        tell(self.module, entry)
        report = function.launch(grid=grid, block=block, args=args, shared_bytes=shared_bytes, cluster=cluster)
        return Launch(self.name, entry, route, grid, block, report)


def check_tensors(device: Device, rules: Sequence[TensorRule], tensors: Sequence[Tensor]) -> Mapping[str, int]:
    """Hold tensors to their rules, and outputs to overlap nothing.

    Args:
        device: where all of them must live.
        rules: one a tensor.
        tensors: in the order of the rules.

    Returns:
        The extent of each dimension by name.

    Raises:
        Refusal: naming argument, value and limit, for the first rule that is broken.
    """
    extents: dict[str, int] = {}
    owners: dict[str, str] = {}
    for rule, tensor in zip(rules, tensors, strict=True):
        _check_type(rule, tensor)
        _check_extents_of(rule, tensor, extents, owners)
        _check_layout(rule, tensor)
        _check_place(device, rule, tensor)
    for (rule, tensor), (other_rule, other) in combinations(list(zip(rules, tensors, strict=True)), 2):
        if Role.INPUT is not rule.role or Role.INPUT is not other_rule.role:
            _check_apart(rule, tensor, other_rule, other)
    return extents


def is_aligned(tensor: Tensor, alignment_bytes: int) -> bool:
    """Whether the first element and every row stride are multiples of `alignment_bytes`, a single row's too."""
    row_strides = tensor.strides[:-1]
    return all(
        position % alignment_bytes == 0
        for position in (tensor.address, *(stride * tensor.dtype.itemsize for stride in row_strides))
    )


def _check_type(rule: TensorRule, tensor: Tensor) -> None:
    if tensor.dtype not in rule.dtypes:
        legal = " or ".join(dtype.name for dtype in rule.dtypes)
        order = "" if tensor.dtype.isnative else " of the other byte order"
        raise Refusal(f"{rule.name} has element type {tensor.dtype.name}{order}; it must be {legal}")
    rank = len(rule.dimensions)
    if len(tensor.shape) != rank:
        names = ", ".join(dimension.name for dimension in rule.dimensions)
        raise Refusal(
            f"{rule.name} has {len(tensor.shape)} dimensions {tensor.shape}; it must have {rank}: [{names}]",
            hint="flatten leading dimensions first",
        )
    if len(tensor.strides) != rank:
        raise Refusal(f"{rule.name} has {len(tensor.strides)} strides {tensor.strides} for {rank} dimensions")


def _check_extents_of(rule: TensorRule, tensor: Tensor, extents: dict[str, int], owners: dict[str, str]) -> None:
    for dimension, extent in zip(rule.dimensions, tensor.shape, strict=True):
        name = dimension.name
        if extent < dimension.minimum:
            raise Refusal(f"{rule.name} has {name} = {extent}; the least is {dimension.minimum}")
        if dimension.maximum is not None and extent > dimension.maximum:
            raise Refusal(
                f"{rule.name} has {name} = {extent}; the most is {dimension.maximum}",
                hint=f"split {name} over several calls",
            )
        owner = owners.setdefault(name, rule.name)
        if extent != extents.setdefault(name, extent):
            raise Refusal(f"{rule.name} has {name} = {extent}, but {owner} has {name} = {extents[name]}")


def _check_layout(rule: TensorRule, tensor: Tensor) -> None:
    packed = contiguous_strides(tensor.shape)
    innermost = len(tensor.strides) - 1
    span = 1  # elements from the first to the end of the last, over the dimensions seen so far
    for dimension in range(innermost, -1, -1):
        extent, stride = tensor.shape[dimension], tensor.strides[dimension]
        which = f"{rule.name} has stride {stride} in dimension {dimension}"
        if stride < 0:
            raise Refusal(f"{which}; the least is 0", hint="reverse the data on the host, or copy it")
        if stride > MAX_STRIDE:
            raise Refusal(f"{which}; the most is {MAX_STRIDE}")
        # NOTE: a dimension of one element takes no step, nor does a tensor without any, so its stride may be anything.
        if extent <= 1 or tensor.size == 0:
            continue
        if stride != packed[dimension] and (rule.layout is Layout.CONTIGUOUS or dimension == innermost):
            raise Refusal(
                f"{which}; it must be {packed[dimension]}, because {rule.name} must be {rule.layout.value}",
                hint="copy it to a contiguous tensor",
            )
        if stride < span:
            raise Refusal(f"{which}; the least is {span}: rows would overlap")
        span += (extent - 1) * stride


def _check_place(device: Device, rule: TensorRule, tensor: Tensor) -> None:
    if isinstance(device, KnowsItsBuffers) and not device.owns(tensor.buffer):
        raise Refusal(f"{rule.name} lies on another device than {device.name}", hint=f"upload it to {device.name}")
    end = tensor.offset_bytes + tensor.span_bytes
    if tensor.offset_bytes < 0 or end > tensor.buffer.nbytes:
        raise Refusal(
            f"{rule.name} covers bytes {tensor.offset_bytes} to {end} of a buffer of {tensor.buffer.nbytes} bytes",
            hint="check shape, strides and offset of the view",
        )
    alignment = rule.alignment_bytes or tensor.dtype.itemsize
    if tensor.address % alignment:
        raise Refusal(
            f"{rule.name} begins at byte {tensor.address % alignment} past a multiple of {alignment};"
            f" {tensor.dtype.name} must be aligned to {alignment} bytes",
            hint="choose another offset of the view, or copy it",
        )


def _check_apart(rule: TensorRule, tensor: Tensor, other_rule: TensorRule, other: Tensor) -> None:
    """Compare byte ranges; views that interleave without sharing a byte count as overlapping too."""
    first = max(tensor.address, other.address)
    end = min(tensor.address + tensor.span_bytes, other.address + other.span_bytes)
    if first < end:
        raise Refusal(
            f"{other_rule.name} ({other_rule.role.value}) overlaps {rule.name} ({rule.role.value})"
            f" in {end - first} bytes from address {first:#x}",
            hint="give every output memory of its own",
        )


def _check_extents(entry: str, grid: Extent3, block: Extent3) -> None:
    for axis, extent, limit in zip("xyz", grid, MAX_GRID, strict=True):
        if extent > limit:
            raise Refusal(f"{entry}: grid.{axis} is {extent}; the most is {limit}", hint="split the call")
    threads = block[0] * block[1] * block[2]
    if not 0 < threads <= MAX_BLOCK_THREADS:
        raise Refusal(f"{entry}: a block of {threads} threads; a block has 1 to {MAX_BLOCK_THREADS}")
