"""What a fault in the order core is tried on: the kernels of all pairs, and other claims, ready to be run again."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property, wraps
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import numpy as np
from order_pair import Pair, variant

from tileproof.simulators.ptx.device import Device, Function
from tileproof.simulators.ptx.findings import Finding
from tileproof.simulators.ptx.machine.order.clocks import Clocks
from tileproof.simulators.ptx.machine.order.order import Order


class Traced(ABC):
    """What a fault may be missed by.

    Attributes:
        name: of it.
        keeps_clocks: it tells something of clocks that were made scarce.
        codes: what it executes, once it was traced.
    """

    def __init__(self, name: str, *, keeps_clocks: bool) -> None:
        self.name = name
        self.keeps_clocks = keeps_clocks
        self.codes: set[CodeType] = set()

    @abstractmethod
    def holds(self) -> bool:
        """Whether all is as it should be."""

    def trace(self) -> None:
        """Learn what is executed."""

        def entered(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                self.codes.add(frame.f_code)

        before = sys.getprofile()
        sys.setprofile(entered)
        try:
            self.holds()
        finally:
            sys.setprofile(before)


class Case(Traced):
    """One of the two kernels of a pair, on the reference engine.

    Args:
        name: of the pair.
        pair: itself.
        right: which of the two kernels.
        order: it is checked; if not, nothing may be found.
    """

    def __init__(self, name: str, pair: Pair, right: bool, order: bool = True) -> None:
        super().__init__(name, keeps_clocks=order)
        self.pair = pair
        self.right = right
        self.order = order

    @cached_property
    def _kept(self) -> tuple[Device, Function]:
        return self._load()

    def _load(self) -> tuple[Device, Function]:
        schedule, seed = ("friendly", 0) if self.pair.seed is None else ("adversarial", self.pair.seed)
        device = Device(schedule=schedule, seed=seed, engine="reference", order=self.order)
        body = variant(self.pair.body, self.right).replace(";", ";\n")
        return device, device.load_ptx(self.pair.frame(body))["k"]

    def findings(self) -> list[Finding]:
        """All of the right kernel, those that the pair speaks of of the wrong one."""
        device, kernel = self._kept if self.pair.seed is None else self._load()  # a device draws on
        args = (device.upload(np.arange(2048, dtype=np.uint32)), device.upload(np.zeros(2048, np.uint32)))
        grid, block, cluster = (self.pair.blocks, 1, 1), (self.pair.threads, 1, 1), (self.pair.cluster, 1, 1)
        found: list[Finding] = []
        with self.pair.in_waves():
            for _ in range(self.pair.launches):
                found += kernel.launch(grid=grid, block=block, args=args, cluster=cluster).findings
        return [f for f in found if self.right or (f.kind is self.pair.kind and self.pair.said in f.message)]

    def holds(self) -> bool:
        """Whether the right kernel is silent, the wrong one found."""
        return bool(self.findings()) is not self.right


class Claim(Traced):
    """A test of the order core that is no pair of kernels.

    Args:
        name: of the test, and what it is called with.
        check: it, raising what it raises.
    """

    def __init__(self, name: str, check: Callable[[], None]) -> None:
        super().__init__(name, keeps_clocks=False)
        self._check = check

    def holds(self) -> bool:
        """Whether the test passes."""
        try:
            self._check()
        except AssertionError:
            return False
        return True


_COLLECT = Clocks._collect


def _collect(self: Clocks, rows: int, maps: int) -> None:
    _COLLECT(self, rows, maps)
    self.rows[self._free_rows] = 0
    self.spans[self._free_maps] = 0


def _forgetful(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def wrapped(self: Order, *arguments: Any, **named: Any) -> Any:
        if self.enabled:
            self.knowledge.clocks._collect(1, 1)
        return method(self, *arguments, **named)

    return wrapped


@contextmanager
def scarce() -> Iterator[None]:
    """Within, every operation of the order begins with all clocks forgotten that nobody holds."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(Clocks, "_collect", _collect))
        for name, method in list(vars(Order).items()):
            if not name.startswith("_"):
                stack.enter_context(patch.object(Order, name, _forgetful(method)))
        yield
