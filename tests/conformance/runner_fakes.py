"""Stand-ins for the tests of the runner. Spawned workers import this module by name; see conftest.py."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tileproof.conformance.case import Case
from tileproof.conformance.compare import compare_bits, raw_bits
from tileproof.conformance.contract import REFUSED, Role
from tileproof.conformance.events import Event
from tileproof.conformance.finding import Finding
from tileproof.conformance.registry import contract_of, find_case
from tileproof.conformance.run_case import CaseResult
from tileproof.conformance.session import Run
from tileproof.conformance.target import Coordinates, Schedule, Target, open_device
from tileproof.conformance.worker import Job
from tileproof.kernels.device import Device, DeviceError
from tileproof.oracle.refusal import Refusal

SMALL = "ninfer_quantize/fp8_quantize_rows/scalar/T2.K9.bf16/ties/0"
OTHER = "ninfer_quantize/fp8_quantize_rows/scalar/T3.K17.bf16/ties/0"
SIM = Coordinates(Target.SIM, schedule=Schedule.FRIENDLY)
GPU = Coordinates(Target.GPU)

Behaviour = Callable[[Job], CaseResult]


class FakeRunner:
    """A runner that answers by a function, or has no device."""

    def __init__(self, behaviour: Behaviour, *, missing: str = "") -> None:
        self.behaviour = behaviour
        self.missing = missing
        self.jobs: list[Job] = []

    def open(self, coordinates: Coordinates) -> None:
        if self.missing:
            raise Refusal(self.missing, hint="get one")

    def run(self, job: Job) -> CaseResult:
        self.jobs.append(job)
        return self.behaviour(job)

    def close(self) -> None:
        pass


def right(job: Job) -> CaseResult:
    """What a right kernel gives, and a right launcher refuses."""
    if job.case.route == REFUSED:
        return CaseResult(job.case, (), REFUSED, 0.25)
    outputs = _right(job)
    return CaseResult(job.case, (), job.case.route, 0.25, output_digest="d1", outputs=outputs)


def wrong(job: Job) -> CaseResult:
    """The first code is one too large, and the suite noticed."""
    changed, finding = _changed(job)
    return CaseResult(job.case, (finding,), job.case.route, 0.25, output_digest="d2", outputs=changed)


def unnoticed(job: Job) -> CaseResult:
    """The first code is one too large, and within what the contract allows."""
    changed, _ = _changed(job)
    return CaseResult(job.case, (), job.case.route, 0.25, output_digest="d2", outputs=changed)


def wrong_on(name: str) -> Behaviour:
    """Wrong for one case, right for all others."""
    return lambda job: wrong(job) if str(job.case) == name else right(job)


def refusing(job: Job) -> NoReturn:
    raise Refusal("PTX line 7: frobnicate.f32 is not modelled", hint="report it")


def broken(job: Job) -> NoReturn:
    raise ZeroDivisionError("of our own making")


def interrupted(job: Job) -> NoReturn:
    raise KeyboardInterrupt


def told_by(run: Run) -> list[Event]:
    """All that a run tells, to its end or to the end that Ctrl-C gives it."""
    told: list[Event] = []
    try:
        for event in run.events():
            told.append(event)
    except KeyboardInterrupt:
        told += run.interrupted()
    run.close()
    return told


def small_case() -> Case:
    return find_case(SMALL)


def _right(job: Job) -> dict[str, Any]:
    return dict(contract_of(job.case).expected(job.case, job.inputs, job.coordinates.arch))


def _changed(job: Job) -> tuple[dict[str, Any], Finding]:
    contract = contract_of(job.case)
    outputs = _right(job)
    codes = outputs["codes"].copy()
    codes.flat[0] += 1
    specs = {spec.name: spec for spec in contract.tensors(job.case.shape) if spec.role is Role.OUTPUT}
    classes = contract.classes(job.inputs, outputs)["codes"]
    finding = compare_bits(specs["codes"], raw_bits(outputs["codes"]), raw_bits(codes), classes=classes)
    assert finding is not None
    return {**outputs, "codes": codes}, finding


class _BadDevice:
    """As much of a device as a launcher needs before it uploads."""

    name = "bad"
    arch = "sm_90a"

    def load(self, module: object) -> dict[str, Any]:
        return dict.fromkeys(getattr(module, "entries", ()))

    def owns(self, buffer: object) -> bool:
        return True

    def free(self, buffer: object) -> None:
        pass


class _Exits(_BadDevice):
    def upload(self, array: np.ndarray[Any, Any]) -> NoReturn:
        os._exit(7)


class _Hangs(_BadDevice):
    def upload(self, array: np.ndarray[Any, Any]) -> NoReturn:
        while True:
            time.sleep(1)


class _Faults(_BadDevice):
    def upload(self, array: np.ndarray[Any, Any]) -> NoReturn:
        raise DeviceError("CUDA_ERROR_ILLEGAL_ADDRESS", "launch of k failed: an illegal memory access was encountered")


class _Buggy(_BadDevice):
    def upload(self, array: np.ndarray[Any, Any]) -> NoReturn:
        raise ZeroDivisionError("of our own making")


def simulated(coordinates: Coordinates) -> Device:
    """The simulator, at whatever target it is asked for."""
    return open_device(SIM)


def exits(coordinates: Coordinates) -> Any:
    return _Exits()


def hangs(coordinates: Coordinates) -> Any:
    return _Hangs()


def faults(coordinates: Coordinates) -> Any:
    return _Faults()


def buggy(coordinates: Coordinates) -> Any:
    return _Buggy()


def absent(coordinates: Coordinates) -> Any:
    raise Refusal("no GPU in this machine", hint="use the target sim")


def unstartable(coordinates: Coordinates) -> NoReturn:
    os._exit(9)


def exits_once(flag: Path, coordinates: Coordinates) -> Any:
    """The device of the first job kills its process; `open` counts as no job."""
    return _ExitsOnce(flag)


class _ExitsOnce:
    """The simulator, but for the first upload ever."""

    name = "bad"
    arch = "sm_90a"

    def __init__(self, flag: Path) -> None:
        self._device = open_device(SIM)
        self._flag = flag

    def upload(self, array: np.ndarray[Any, Any]) -> Any:
        if not self._flag.exists():
            self._flag.touch()
            os._exit(7)
        return self._device.upload(array)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


def lost_after_first(flag: Path, coordinates: Coordinates) -> Any:
    """Opens and kills its process at the first job; a later process finds no device."""
    if flag.exists():
        return absent(coordinates)
    return _LeavesFlag(flag)


class _LeavesFlag(_BadDevice):
    def __init__(self, flag: Path) -> None:
        self._flag = flag

    def upload(self, array: np.ndarray[Any, Any]) -> NoReturn:
        self._flag.touch()
        os._exit(7)


def die_at_once(*arguments: object) -> NoReturn:
    """A process that never gets to a task."""
    os._exit(3)


class _Reporting:
    """The simulator, with a sanitizer that reports every upload; the fake tool says where."""

    def __init__(self) -> None:
        self._device = open_device(SIM)

    def upload(self, array: np.ndarray[Any, Any]) -> Any:
        with open(os.environ["FAKE_SANITIZER_LOG"], "a") as log:
            log.write(
                f"========= Invalid __global__ read of size 2 bytes\n=========     at {id(array):#x}\n=========\n"
            )
        return self._device.upload(array)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


def reporting(coordinates: Coordinates) -> Any:
    return _Reporting()


TROUBLES = ("exits", "hangs", "corrupts", "is killed", "exhausts memory", "runs")


def troubled(folder: Path, coordinates: Coordinates) -> Any:
    """A device on which one job after another gets into another of the TROUBLES; `open` counts as no job."""
    return _Troubled(folder)


class _Troubled:
    name = "bad"
    arch = "sm_90a"

    def __init__(self, folder: Path) -> None:
        self._device = open_device(SIM)
        self._folder = folder
        self._trouble = ""

    def upload(self, array: np.ndarray[Any, Any]) -> Any:
        if not self._trouble:
            count = len(list(self._folder.glob("job*")))
            (self._folder / f"job{count}").touch()
            self._trouble = TROUBLES[count]
        match self._trouble:
            case "exits":
                os._exit(7)
            case "hangs":
                while True:
                    time.sleep(1)
            case "corrupts":
                raise DeviceError("CUDA_ERROR_ILLEGAL_ADDRESS", "launch of k failed: an illegal memory access")
            case "is killed":
                os.kill(os.getpid(), 9)
            case "exhausts memory":
                raise MemoryError("cudaErrorMemoryAllocation")
        return self._device.upload(array)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)
