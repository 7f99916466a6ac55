"""A foreign kernel: where it comes from, how it is compiled, launched and judged."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
import packages
from numpy.typing import NDArray

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Report

Array = NDArray[Any]


@dataclass(frozen=True)
class Outcome:
    """One launch.

    Attributes:
        report: of the device.
        got: the outputs' bits, one after the other.
        expected: the bits that they should have.
        undecided: outputs that a GPU may round otherwise: an approximate function decides them.
    """

    report: Report
    got: Array
    expected: Array
    undecided: int = 0

    @property
    def wrong(self) -> int:
        """Outputs with other bits than expected."""
        return int((self.got != self.expected).sum())


@dataclass(frozen=True, eq=False)
class Case:
    """One kernel.

    Attributes:
        name: of the case.
        package: that the kernel comes from.
        file: in the package.
        kernel: its name there.
        arch: that the device is.
        judged: how its outputs are computed here.
        build: compiles it.
        run: launches what was built, whose PTX may have been changed.
        breaks: text of the PTX, and what to put in its place so that the kernel is wrong.
        lowest_leader: it is right only where `elect.sync` elects the lowest lane.
    """

    name: str
    package: str
    file: str
    kernel: str
    arch: str
    judged: str
    build: Callable[[], Any]
    run: Callable[[Device, str, Any], Outcome]
    breaks: tuple[str, str]
    lowest_leader: bool = False

    @cached_property
    def built(self) -> Any:
        """Compiled once a process: PTX in `ptx`, and what the launch needs."""
        return self.build()

    @property
    def version(self) -> str:
        """Of the package."""
        return packages.VERSIONS[self.package]

    def launch(self, ptx: str | None = None, **options: Any) -> Outcome:
        """Run it on a device with these options, as compiled or with another text."""
        settings: dict[str, Any] = {"lowest_leader": self.lowest_leader} | options
        return self.run(Device(arch=self.arch, **settings), self.built.ptx if ptx is None else ptx, self.built)


def codes(rows: int, columns: int, seed: int) -> Array:
    """Finite e4m3 codes, every one of them."""
    drawn = np.random.default_rng(seed).integers(0, 256, (rows, columns), np.uint8)
    return np.where(drawn & 0x7F == 0x7F, drawn ^ 0x40, drawn).astype(np.uint8)


def numbers(*shape: int, seed: int) -> Array:
    """float32 of both signs around 1."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def bf16(values: Array) -> Array:
    """The bits of float32 values rounded to bfloat16."""
    return values.astype(ml_dtypes.bfloat16).view(np.uint16)


def undecided(*buffers: Any) -> int:
    """Elements of buffers of which an approximate function leaves more than one value."""
    return sum(int((low != high).sum()) for low, high in (buffer.bracket() for buffer in buffers))
