"""P18: a captured launch, replayed on other contents, gives what the oracle makes of those contents.

Contents change in range from replay to replay, so that a scale kept from the capture shows; outputs are poisoned in
between, so that a replay that does nothing shows.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Allowed, Arrays, EditedSource
from tileproof.conformance.layout import Layout, lay_out
from tileproof.conformance.registry import contract_of
from tileproof.conformance.run_case import case_inputs
from tileproof.simulators.ptx.buffer import Buffer
from tileproof.simulators.ptx.device import Device

REPLAYS = 3
FIXED = ("ring", "arrivals", "scale")
"""State that a host counts along with, or that must stay what it is: not changed between replays."""


def wrong_replays(case: Case, source: EditedSource | None = None, replays: int = REPLAYS) -> tuple[str, ...]:
    """The replays whose outputs are not right for what the buffers held then."""
    contract, device = contract_of(case), Device(schedule="friendly")
    layouts = [lay_out(spec, exact_bounds=True) for spec in contract.tensors(case.shape)]
    buffers = {one.spec.name: device.upload(one.poison(0)) for one in layouts}
    run = contract.kernel(device, case.kernel, source)
    with device.capture() as graph:
        run(case, {one.spec.name: one.tensor(buffers[one.spec.name]) for one in layouts})
    found: list[str] = []
    for replay in range(replays):
        values = contents(case_inputs(case), replay)
        for one in layouts:
            _fill(device, buffers[one.spec.name], one, values)
        findings = [finding.message for report in graph.replay() for finding in report.findings]
        right = contract.expected(case, values, device.arch)
        names = [] if findings else [name for name, one in right.items() if not _is(one, layouts, buffers, name)]
        found += [f"replay {replay}: {message}" for message in (*findings, *(f"{name} is wrong" for name in names))]
    return tuple(found)


def contents(values: Arrays, replay: int) -> Arrays:
    """The inputs of a replay: the case's, turned round by some elements, and of another range where they have one."""
    return {name: array if name in FIXED else _changed(array, replay) for name, array in values.items()}


def _changed(array: NDArray[Any], replay: int) -> NDArray[Any]:
    rolled = np.roll(array, 7 * replay)
    if rolled.dtype.kind in "iu":
        return rolled
    with np.errstate(all="ignore"):
        return np.asarray(rolled.astype(np.float32) * np.float32(2.0 ** (3 * replay))).astype(array.dtype)


def _fill(device: Device, buffer: Buffer, layout: Layout, values: Arrays) -> None:
    image = layout.image(values[layout.spec.name], 0) if layout.spec.role.is_read else layout.poison(1)
    allocation = device.memory.find(buffer.address)
    assert allocation is not None
    allocation.fill(0, image.tobytes())


def _is(right: Any, layouts: list[Layout], buffers: dict[str, Buffer], name: str) -> bool:
    """Whether an output is the right one, or lies within what is right."""
    layout = next(one for one in layouts if one.spec.name == name)
    seen = layout.values(buffers[name].download())
    if isinstance(right, Allowed):
        return all(_within(right, seen))
    return bool(seen.tobytes() == np.ascontiguousarray(right).tobytes())


def _within(right: Allowed, seen: NDArray[Any]) -> Iterator[bool]:
    lower, upper, value = (np.asarray(one, np.float32) for one in (right.lower, right.upper, seen))
    yield bool(((lower <= value) & (value <= upper) | np.isnan(lower) & np.isnan(value)).all())
