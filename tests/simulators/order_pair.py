"""A rule of order as a pair of kernels: the right one is silent, the wrong one is found.

`|right|wrong|` in a body is where the two differ.
"""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from async_kernels import module

from tileproof.simulators.ptx import launch as launcher
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind


def plain(body: str) -> str:
    """The kernel of `async_kernels`."""
    return module(body, "")


@dataclass(frozen=True)
class Pair:
    """A body with its two variants, and what the wrong one's finding says.

    Attributes:
        body: with the edge, or without.
        said: in the message of the wrong one's finding, under the friendly schedule.
        kind: of that finding.
        blocks: of the grid.
        cluster: blocks of a cluster.
        threads: of a block.
        frame: makes a kernel `k(in, out)` of a body.
        launches: of the kernel, one after the other.
        seed: of an adversarial schedule that shows what a friendly one cannot.
        wave: lanes of a wave, at most: blocks that do not fit come after the others have ended.
    """

    body: str
    said: str = ""
    kind: FindingKind = FindingKind.RACE
    blocks: int = 1
    cluster: int = 1
    threads: int = 64
    frame: Callable[[str], str] = plain
    launches: int = 1
    seed: int | None = None
    wave: int = launcher.WAVE_LANES

    def in_waves(self) -> AbstractContextManager[object]:
        """Within, waves have as many lanes as the pair says."""
        return patch.object(launcher, "WAVE_LANES", self.wave)


def variant(body: str, right: bool) -> str:
    """One of the two bodies."""
    return re.sub(r"\|([^|]*)\|([^|]*)\|", lambda found: found[1 if right else 2], body)


def launch(pair: Pair, right: bool, schedule: str, seed: int, engine: str = "fast") -> list[Finding]:
    """Findings of one of the two kernels."""
    device = Device(schedule=schedule, seed=seed, engine=engine)
    args = (device.upload(np.arange(2048, dtype=np.uint32)), device.upload(np.zeros(2048, np.uint32)))
    body = variant(pair.body, right).replace(";", ";\n")  # two lines race once, whatever else stands in them
    kernel = device.load_ptx(pair.frame(body))["k"]
    grid, block, cluster = (pair.blocks, 1, 1), (pair.threads, 1, 1), (pair.cluster, 1, 1)
    findings: list[Finding] = []
    with pair.in_waves():
        for _ in range(pair.launches):
            findings += kernel.launch(grid=grid, block=block, args=args, cluster=cluster).findings
    return findings
