"""What becomes of one hostile text: decoded and, where it is accepted, launched with little to spend."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
from corpus import Source

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.machine.budget import BudgetExceeded
from tileproof.simulators.ptx.program import Program

STEPS = 3000
SECONDS = 2.0  # that a launch is given
MOST_SECONDS = 5.0  # that a text may take in all
MEMORY_BYTES = 64 << 20
MOST_CHARS = 1 << 16  # of a message, which may name a name of half of that


@dataclass(frozen=True)
class Verdict:
    """How one text ended.

    Attributes:
        end: one of ENDS; all else is a defect of ours.
        detail: the message of a refusal or a defect.
        seconds: of processor time.
        launches: how many kernels ran.
    """

    end: str
    detail: str
    seconds: float
    launches: int = 0

    @property
    def allowed(self) -> bool:
        """Whether a hostile text may end so."""
        return self.end in ENDS and self.seconds < MOST_SECONDS


ENDS = ("refused", "launch refused", "out of budget", "findings", "ran")


class TooSlow(BaseException):
    """A text took longer than it may; no handler of ordinary errors sees this."""


@contextmanager
def clocked(seconds: float) -> Iterator[None]:
    """Whoever is inside longer is interrupted; compiled code when it returns."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def judge(source: Source, engine: str = "fast", *, schedule: str = "friendly", limit_s: float | None = None) -> Verdict:
    """Decode and launch a text; whatever it raises is told."""
    started = time.process_time()
    launches: list[str] = []
    try:
        with clocked(MOST_SECONDS if limit_s is None else limit_s):
            end, detail = _run(source, engine, schedule, launches)
    except TooSlow:
        end, detail = "too slow", ""
    except Exception as error:
        end, detail = type(error).__name__, str(error)
    return Verdict(end, detail, time.process_time() - started, len(launches))


def _run(source: Source, engine: str, schedule: str, launches: list[str]) -> tuple[str, str]:
    device = Device(
        engine=engine, schedule=schedule, step_budget=STEPS, time_budget_s=SECONDS, memory_limit_bytes=MEMORY_BYTES
    )
    try:
        functions = device.load_ptx(source.text)
    except Refusal as refusal:
        return "refused", _checked(refusal)
    buffers = [device.upload(np.arange(2048, dtype=np.uint32)) for _ in range(2)]
    ends = [("ran", "")]
    for name, function in functions.items():
        launches.append(name)
        try:
            report = function.launch(
                grid=(source.blocks, 1, 1),
                block=(source.threads, 1, 1),
                cluster=(source.cluster, 1, 1),
                args=arguments(device, function._program, buffers),
                shared_bytes=1024,
            )
        except BudgetExceeded as refusal:
            ends.append(("out of budget", _checked(refusal)))
        except Refusal as refusal:
            ends.append(("launch refused", _checked(refusal)))
        else:
            ends.append(("findings" if report.findings else "ran", ""))
    return min(ends, key=lambda end: ENDS.index(end[0]))


def _checked(refusal: Refusal) -> str:
    message = str(refusal)
    assert 0 < len(message.strip()) < MOST_CHARS, f"a refusal of {len(message)} characters"
    return message


def arguments(device: Device, program: Program, buffers: Sequence[Any]) -> list[Any]:
    """Something for each parameter: buffers for addresses, a tensor map for 128 bytes, small numbers for the rest."""
    made: list[Any] = []
    for index, parameter in enumerate(program.parameters):
        size = parameter.size_bytes
        if size == 8 and parameter.type[0] != "f":
            made.append(buffers[index % 2])
        elif size == 128:
            made.append(device.tensor_map(buffers[1], dtype="uint8", shape=(64, 8), strides_bytes=(64,), box=(64, 8)))
        elif size in (4, 8) and parameter.type[0] == "f":
            made.append({4: np.float32, 8: np.float64}[size](1.5))
        elif size in (1, 2, 4):
            made.append({1: np.uint8, 2: np.uint16, 4: np.uint32}[size](7))
        elif size > 1 << 16:
            raise Refusal(f"a parameter of {size} bytes")
        else:
            made.append(np.void(bytes(size)))
    return made
