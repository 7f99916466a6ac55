"""Whole warps and blocks that access bytes, words and vectors, between barriers of all blocks or of a few threads.

Held to the definition: each byte keeps its last write and all reads since, each thread the set of accesses it knows.
"""

import random
from collections.abc import Iterable

import numpy as np
import pytest
from test_order_random import STEPS, program

from tileproof.simulators.ptx.findings import Findings
from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.machine.memory import Backing, GlobalMemory
from tileproof.simulators.ptx.machine.order.checks import Checks
from tileproof.simulators.ptx.machine.order.kinds import AccessKind
from tileproof.simulators.ptx.machine.order.launch_order import LaunchOrder
from tileproof.simulators.ptx.machine.order.order import Order
from tileproof.simulators.ptx.machine.reporter import Reporter
from tileproof.simulators.ptx.program import StateSpace

THREADS, WARP, WINDOW_BYTES = 96, 32, 1024
SPACES = {StateSpace.SHARED: 2, StateSpace.GLOBAL: 1}
Byte = tuple[StateSpace, int]


class Trace:
    """The core and the definition side by side; knowledge is a set of accesses as the bits of a number."""

    def __init__(self, seed: int, blocks: int) -> None:
        self.draw, self.blocks = random.Random(seed), blocks
        geometry = Geometry((blocks, 1, 1), (THREADS, 1, 1), np.arange(blocks), 0, WINDOW_BYTES, 0, (1, 1, 1))
        self.program = program(asynchronous=False)
        launch = LaunchOrder(GlobalMemory(1 << 20))
        self.order = Order(self.program, Reporter(geometry, Findings()), launch, WINDOW_BYTES)
        self.memory = {space: Backing(3 * WINDOW_BYTES, defined=True) for space in SPACES}
        self.memory[StateSpace.SHARED] = Backing(blocks * WINDOW_BYTES, defined=True)
        self.known = [0] * (blocks * THREADS)
        self.count = 0
        self.written: dict[Byte, int] = {}
        self.read: dict[Byte, list[int]] = {}
        self.given_up: set[Byte] = set()

    def members(self) -> list[int]:
        """All lanes, or those of a block or a warp, or any."""
        chosen, everybody = self.draw.random(), range(self.blocks * THREADS)
        if chosen < 0.3:
            return list(everybody)
        if chosen < 0.8:
            size = THREADS if chosen < 0.5 else WARP
            first = self.draw.randrange(0, len(everybody), size)
            return list(range(first, first + size))
        return sorted(self.draw.sample(everybody, self.draw.randrange(1, 40)))

    def meet(self, lanes: Iterable[int]) -> None:
        lanes, union = list(lanes), 0
        for lane in lanes:
            union |= self.known[lane]
        for lane in lanes:
            self.known[lane] = union

    def barrier(self) -> None:
        """Of all blocks together, of one, of two warps, or of threads of a warp."""
        chosen = self.draw.random()
        first = self.draw.randrange(0, self.blocks * THREADS, THREADS if chosen < 0.85 else WARP)
        if chosen < 0.45:
            self.order.block_barrier(np.arange(self.blocks * THREADS))
            for start in range(0, self.blocks * THREADS, THREADS):
                self.meet(range(start, start + THREADS))
        elif chosen < 0.85:
            lanes = range(first, first + (THREADS if chosen < 0.7 else 2 * WARP))
            self.order.block_barrier(np.array(lanes))
            self.meet(lanes)
        else:
            some = sorted(self.draw.sample(range(first, first + WARP), self.draw.randrange(2, WARP + 1)))
            self.order.warp_barrier(np.array(some))
            self.meet(some)

    def places(self, lanes: list[int], nbytes: int, space: StateSpace) -> list[int]:
        """Neighbouring, strided, falling, shared or random places of lanes."""
        shared = space is StateSpace.SHARED
        slots = (1 if shared else 3) * WINDOW_BYTES // nbytes
        first, form = self.draw.randrange(slots), self.draw.choice("nnnsfhr")
        found = []
        for lane in lanes:
            local = lane % THREADS if shared else lane
            by_form = {"n": local, "s": 3 * local, "f": -local, "h": local // 8, "r": self.draw.randrange(slots)}
            place = (first + by_form[form]) % slots * nbytes
            found.append(place + (lane // THREADS * WINDOW_BYTES if shared else 0))
        return found

    def races(self, lane: int, touched: list[Byte], writes: bool) -> bool:
        unknown = [self.written[byte] for byte in touched if byte in self.written]
        unknown += [access for byte in touched if writes for access in self.read.get(byte, ())]
        return any(not self.known[lane] >> access & 1 for access in unknown)

    def access(self, seen: list[set[int]]) -> bool:
        """One instruction; whether it races. Mostly a barrier instead if it would."""
        nbytes, writes = self.draw.choice([1, 2, 4, 4, 8, 16]), self.draw.random() < 0.5
        (space,) = self.draw.choices(list(SPACES), list(SPACES.values()))
        lanes = self.members()
        at = dict(zip(lanes, self.places(lanes, nbytes, space), strict=True))
        if writes:  # one lane a place
            at = {lane: place for place, lane in {place: lane for lane, place in at.items()}.items()}
            at = dict(sorted(at.items()))
        bytes_of = {lane: [(space, place + k) for k in range(nbytes)] for lane, place in at.items()}
        if any(byte in self.given_up for touched in bytes_of.values() for byte in touched):
            return False
        expected = {lane for lane, touched in bytes_of.items() if self.races(lane, touched, writes)}
        if expected and self.draw.random() < 0.9:
            self.barrier()
            return False
        pc = self.draw.randrange(STEPS)
        seen.clear()
        self.order.access(
            AccessKind(writes), self.program.steps[pc], pc, np.array(list(at)), space, self.memory[space],
            np.array(list(at.values())), nbytes,
        )  # fmt: skip
        assert set().union(*seen) == expected
        for lane, touched in bytes_of.items():
            self.known[lane] |= 1 << self.count
            for byte in touched:
                if writes:
                    self.written[byte], self.read[byte] = self.count, []
                else:
                    self.read.setdefault(byte, []).append(self.count)
                if expected:
                    self.given_up.add(byte)
            self.count += 1
        return bool(expected)


@pytest.mark.parametrize("part", range(3))
def test_warps_race_exactly_where_the_definition_says(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    report = Checks._report

    def watched(
        self: Checks, step: object, lanes: np.ndarray, space: object, flags: int, count: int, *rest: int
    ) -> None:
        seen.append(set(lanes[np.unique(self._found[:count, 0])].tolist()))
        report(self, step, lanes, space, flags, count, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Checks, "_report", watched)
    races = 0
    for seed in range(part, 60, 3):
        trace = Trace(seed, 1 + part)
        for _ in range(60):
            if trace.draw.random() < 0.2:
                trace.barrier()
            else:
                races += trace.access(seen)
    assert races > 5, "and there are races among the traces"
