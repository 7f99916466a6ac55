"""What a trial reaches: routes, and lines of PTX that at least one thread ran.

Counting lines makes the CPU device two to four times slower, so only one trial in several is run again for it.
A line is named by its entry and the text that it stands in: an edited kernel is new ground.
"""

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from tileproof.conformance.fuzz.trial import Trial
from tileproof.conformance.target import Coordinates, Target
from tileproof.conformance.worker import Job, execute
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device, Function, HasPtx, decoded
from tileproof.simulators.ptx.findings import Report
from tileproof.simulators.ptx.launch import Prepared


class CountingDevice(Device):
    """A CPU device that remembers which lines ran.

    Attributes:
        lines: of the PTX text, by entry and the text's hash.

    Args:
        coordinates: where it stands in a run.
    """

    def __init__(self, coordinates: Coordinates) -> None:
        super().__init__(coordinates.arch, coordinates.schedule.value, coordinates.seed, profile=True)
        self.lines: dict[str, set[int]] = defaultdict(set)
        self._names: dict[int, str] = {}

    def load(self, module: HasPtx) -> Mapping[str, Function]:
        """See `Device.load`."""
        _, programs = decoded(module.ptx, self.contraction)
        text = hashlib.sha256(module.ptx.encode()).hexdigest()[:8]
        self._names |= {id(program): f"{name}@{text}" for name, program in programs.items()}
        return super().load(module)

    def run(self, prepared: Prepared, recorder: Any = None) -> Report:
        """See `Device.run`."""
        report = super().run(prepared, recorder)
        self.lines[self._names[id(prepared.program)]] |= report.counters.lines.keys()
        return report


def reached(trial: Trial, fault: str | None) -> frozenset[str]:
    """The lines that a trial runs on the CPU device, each as `entry@text:line`; none where it cannot run."""
    devices: list[CountingDevice] = []

    def make(coordinates: Coordinates) -> CountingDevice:
        devices.append(CountingDevice(coordinates))
        return devices[-1]

    place = Coordinates(Target.SIM, trial.place.arch, trial.place.schedule, trial.place.seed)
    try:
        execute(Job(trial.case, place, trial.inputs(), fault), make)
    except (Refusal, MemoryError):
        return frozenset()
    return frozenset(f"{name}:{line}" for device in devices for name, lines in device.lines.items() for line in lines)
