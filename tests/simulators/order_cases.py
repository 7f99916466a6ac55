"""The kernels of all pairs, ready to be launched again and again: what a fault in the order core is tried on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
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


@dataclass(eq=False)
class Case:
    """One of the two kernels of a pair, on the reference engine.

    Attributes:
        name: of the pair.
        pair: itself.
        right: which of the two kernels.
        codes: what the kernel executes, once it was traced.
    """

    name: str
    pair: Pair
    right: bool
    codes: set[CodeType] = field(default_factory=set)

    @cached_property
    def _kept(self) -> tuple[Device, Function]:
        return self._load()

    def _load(self) -> tuple[Device, Function]:
        schedule, seed = ("friendly", 0) if self.pair.seed is None else ("adversarial", self.pair.seed)
        device = Device(schedule=schedule, seed=seed, engine="reference")
        body = variant(self.pair.body, self.right).replace(";", ";\n")
        return device, device.load_ptx(self.pair.frame(body))["k"]

    def findings(self) -> list[Finding]:
        """All of the right kernel, those that the pair speaks of of the wrong one."""
        device, kernel = self._kept if self.pair.seed is None else self._load()  # a device draws on
        args = (device.upload(np.arange(2048, dtype=np.uint32)), device.upload(np.zeros(2048, np.uint32)))
        grid, block, cluster = (self.pair.blocks, 1, 1), (self.pair.threads, 1, 1), (self.pair.cluster, 1, 1)
        found: list[Finding] = []
        for _ in range(self.pair.launches):
            found += kernel.launch(grid=grid, block=block, args=args, cluster=cluster).findings
        return [f for f in found if self.right or (f.kind is self.pair.kind and self.pair.said in f.message)]

    def holds(self) -> bool:
        """Whether the right kernel is silent, the wrong one found."""
        return bool(self.findings()) is not self.right

    def trace(self) -> None:
        """Learn what the kernel executes."""

        def entered(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                self.codes.add(frame.f_code)

        before = sys.getprofile()
        sys.setprofile(entered)
        try:
            self.findings()
        finally:
            sys.setprofile(before)


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
