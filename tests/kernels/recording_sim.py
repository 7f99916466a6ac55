"""The CPU device in place of a GPU that keeps launches, for benchmarks whose contenders must be right."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tileproof.simulators.ptx.device import Device, Function, HasPtx


class Recorded:
    """A function of the CPU device whose launches are kept."""

    def __init__(self, function: Function, kept: list[Any]) -> None:
        self.function, self.kept = function, kept

    def launch(self, **launch: Any) -> Any:
        self.kept.append(Recorded(self.function, []))
        self.kept[-1].given = launch
        return type("Report", (), {"findings": (), "notes": ()})()

    given: Mapping[str, Any]

    def run(self) -> list[Any]:
        return list(self.function.launch(**self.given).findings)


class RecordingSim(Device):
    """What RecordingDevice is for a GPU."""

    sm_count = 132

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Any] = []

    def load(self, module: HasPtx) -> Any:
        return {name: Recorded(function, self.kept) for name, function in super().load(module).items()}

    @contextmanager
    def recorded(self) -> Iterator[list[Any]]:
        self.kept.clear()
        yield self.kept
