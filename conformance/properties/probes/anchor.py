"""P22: a row gives the same bits in batches of every size, on every route, at every place in the batch.

The case is the largest batch. Parts of its rows, as batches of their own, must give the same rows of every output.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.case import Case, Dimension, Shape
from tileproof.conformance.contract import FILE_FAMILY, REFUSED, Arrays, Contract, EditedSource
from tileproof.conformance.registry import contract_of
from tileproof.conformance.run_case import CaseResult, case_inputs, run_case
from tileproof.kernels.device import Device
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH
from tileproof.simulators.ptx.device import Device as SimulatedDevice

ROWS = ("T", "M")
"""What contracts call the extent of a batch."""

PARTS = ((0, 1), (2, 1), (0, 2), (1, 17), (0, 33))
"""First row and number of rows of each smaller batch, as far as the case has so many."""


RunCase = Callable[[Case, Arrays], CaseResult]


def anchor(
    case: Case, source: EditedSource | None = None, make_device: Callable[[], Device] = SimulatedDevice
) -> tuple[str, ...]:
    """What differs between the rows of a case and the same rows in smaller batches.

    Args:
        case: the largest batch.
        source: an edited kernel.
        make_device: opens the device for each run.
    """

    def run(one: Case, inputs: Arrays) -> CaseResult:
        return run_case(one, make_device(), kernel_source=source, inputs=inputs)

    values = case_inputs(case)
    whole = run(case, values).outputs
    return tuple(wrong for part in PARTS for wrong in _differing(case, part, values, whole, run))


def _differing(case: Case, part: tuple[int, int], values: Arrays, whole: Arrays, run: RunCase) -> Iterator[str]:
    contract, (first, rows) = contract_of(case), part
    if first + rows > next(one.size for one in case.shape.dimensions if one.name in ROWS):
        return
    sizes = (Dimension(one.name, rows) if one.name in ROWS else one for one in case.shape.dimensions)
    shape = replace(case.shape, dimensions=tuple(sizes))
    axes = _row_axes(contract, case.shape, shape)
    given = {name: _rows(array, axes.get(name), first, rows) for name, array in values.items()}
    for route in contract.expected_routes(shape):
        if route in (REFUSED, NOTHING_TO_LAUNCH):
            continue
        result = run(replace(case, shape=shape, route=route, family=FILE_FAMILY), given)
        for name in _wrong(result, whole, axes, first, rows):
            yield f"{name}: rows {first} to {first + rows - 1} differ in a batch of {rows} by {route}"


def _wrong(result: CaseResult, whole: Arrays, axes: Mapping[str, int], first: int, rows: int) -> Iterator[str]:
    for name, array in result.outputs.items():
        expected = _rows(whole[name], axes.get(name), first, rows)
        if name in axes and array.tobytes() != expected.tobytes():
            yield name


def _row_axes(contract: Contract, whole: Shape, part: Shape) -> Mapping[str, int]:
    """Which axis of each tensor counts the rows: the one whose extent the batch changes."""
    pairs = zip(contract.tensors(whole), contract.tensors(part), strict=True)
    found = {}
    for before, after in pairs:
        changed = [axis for axis, (a, b) in enumerate(zip(before.shape, after.shape, strict=True)) if a != b]
        if changed:
            found[before.name] = changed[0]
    return found


def _rows(array: NDArray[Any], axis: int | None, first: int, rows: int) -> NDArray[Any]:
    if axis is None:
        return array
    return np.ascontiguousarray(array.take(np.arange(first, first + rows), axis=axis))
