"""A litmus test on the CPU device: how often each outcome came, and what was reported."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from litmus_kernel import PLACE_BYTES, Kernel, kernel
from litmus_program import Litmus

from tileproof.simulators.ptx.device import Device

GROUPS = 25
LANES = 4


@dataclass(frozen=True)
class Shown:
    """What some launches showed.

    Attributes:
        outcomes: how often each came.
        kinds: of findings, and in how many launches.
        launches: how many there were.
    """

    outcomes: Counter[tuple[int, ...]]
    kinds: Counter[str]
    launches: int


@lru_cache(maxsize=64)
def _kernel(test: "_Key") -> Kernel:
    return kernel(test.litmus, test.lanes)


@dataclass(frozen=True)
class _Key:
    """Outcomes of tests are mappings, which have no hash: a name says which test it is."""

    name: str
    lanes: int
    litmus: Litmus

    def __hash__(self) -> int:
        return hash((self.name, self.lanes))


def run(
    test: Litmus, seeds: range, *, lanes: int = LANES, groups: int = GROUPS, order: bool = True, engine: str = "fast"
) -> Shown:
    """Launch a test with many instances on each seed of the adversarial schedule."""
    built = _kernel(_Key(test.name, lanes, test))
    outcomes: Counter[tuple[int, ...]] = Counter()
    kinds: Counter[str] = Counter()
    instances = built.lanes * groups
    for seed in seeds:
        device = Device("sm_90", "adversarial", seed, order=order, engine=engine)
        places = device.upload(np.zeros((len(test.places), instances, PLACE_BYTES // 4), np.uint32))
        results = device.upload(np.zeros((max(1, test.registers), instances), np.uint32))
        report = device.load_ptx(built.text)["k"].launch(
            grid=(built.blocks * groups, 1, 1),
            block=(built.threads, 1, 1),
            args=(places, results, np.uint32(instances)),
        )
        kinds.update({finding.kind.value for finding in report.findings})
        registers = results.download()[: test.registers]
        shown = np.concatenate((registers, places.download()[:, :, 0])).T
        outcomes.update(map(tuple, shown.tolist()))
    return Shown(outcomes, kinds, len(seeds))
