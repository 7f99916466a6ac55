"""Run coordinates: where and how a case runs. They are not part of its id; crash files and events keep them."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from tileproof.kernels.device import Device
from tileproof.oracle.refusal import Refusal


class Target(StrEnum):
    """Where a case runs: the PTX simulator on the CPU, the GPU through CuPy, or, a Python callable, the host."""

    SIM = "sim"
    GPU = "gpu"
    HOST = "host"


class Schedule(StrEnum):
    """What the simulator does where several outcomes are legal: program order, or the one that hurts."""

    FRIENDLY = "friendly"
    ADVERSARIAL = "adversarial"


@dataclass(frozen=True)
class Coordinates:
    """Target, architecture, and the simulator's schedule with its seed (without meaning on the GPU)."""

    target: Target
    arch: str = "sm_90a"
    schedule: Schedule = Schedule.ADVERSARIAL
    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise Refusal(f"seed {self.seed} of the schedule: it must be 0 or more")

    def __str__(self) -> str:
        if self.target is not Target.SIM:
            return str(self.target)
        return f"{self.target} ({self.arch}, schedule {self.schedule}, seed {self.seed})"


DeviceFactory = Callable[[Coordinates], Device]


def open_device(coordinates: Coordinates) -> Device:
    """The device at these coordinates.

    A simulator is fresh each time, so that neither its addresses nor its schedule's draws depend on what ran before:
    a case that replays alone takes the very steps it took in its run. The GPU is this process's only one.

    Raises:
        Refusal: the GPU, its driver or CuPy is missing; the message names which.
    """
    if coordinates.target is Target.GPU:
        return _gpu()
    if coordinates.target is Target.HOST:
        from tileproof.conformance.pages.host_device import HostDevice

        return HostDevice(coordinates.arch)
    from tileproof.simulators.ptx.device import Device as SimulatedDevice

    return SimulatedDevice(arch=coordinates.arch, schedule=coordinates.schedule.value, seed=coordinates.seed)


@cache
def _gpu() -> Device:
    from tileproof.kernels.cupy_device import CupyDevice  # here: only where a GPU was asked for

    return CupyDevice()


def parse_targets(text: str) -> tuple[Target, ...]:
    """The targets of `sim`, `gpu` or `sim,gpu`, in that order and each once.

    Raises:
        Refusal: an unknown or empty name.
    """
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in set(Target):
            raise Refusal(
                f"unknown target {name!r}", hint="targets are sim, gpu and sim,gpu; host for Python callables"
            )
    return tuple(target for target in Target if target in names)
