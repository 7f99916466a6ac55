"""The CPU device: buffers, modules, launches.

dev = Device(arch="sm_90a")
x = dev.upload(np.arange(4, dtype=np.float32))
y = dev.allocate((4,), np.float32)
report = dev.load_ptx(text)["copy"].launch(grid=(1, 1, 1), block=(32, 1, 1), args=(x, y, np.int32(4)))
assert not report.findings
y.download()
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.arguments import Argument
from tileproof.simulators.ptx.buffer import Buffer
from tileproof.simulators.ptx.decoding.decode import decode_entry
from tileproof.simulators.ptx.findings import Index3, Report
from tileproof.simulators.ptx.launch import LaunchShape, launch
from tileproof.simulators.ptx.limits import Limits
from tileproof.simulators.ptx.machine.engine import EngineName
from tileproof.simulators.ptx.machine.matrix import check_units
from tileproof.simulators.ptx.machine.memory import GlobalMemory
from tileproof.simulators.ptx.machine.schedule import Adversarial, Friendly, Schedule, ScheduleName
from tileproof.simulators.ptx.program import Program
from tileproof.simulators.ptx.text.parse import parse_module
from tileproof.simulators.ptx.text.syntax import Module, Variable

__all__ = ["Buffer", "Device", "Function"]

DEFAULT_MEMORY_LIMIT_BYTES = 8 << 30
DEFAULT_STEP_BUDGET = 1 << 23  # a few minutes


@lru_cache(maxsize=32)
def _decoded(text: str) -> tuple[Module, Mapping[str, Program]]:
    """A module and its kernels; both are immutable, so devices share them."""
    module = parse_module(text)
    return module, {name: decode_entry(module, entry) for name, entry in module.entries.items()}


class HasPtx(Protocol):
    """A compiled module that carries PTX text."""

    @property
    def ptx(self) -> str:
        """The module's PTX."""
        ...


class Function:
    """A kernel that can be launched."""

    def __init__(self, device: "Device", program: Program, global_addresses: Mapping[int, int]) -> None:
        self._device = device
        self._program = program
        self._global_addresses = global_addresses

    def launch(
        self,
        *,
        grid: Index3,
        block: Index3,
        args: Sequence[Argument],
        shared_bytes: int = 0,
        cluster: Index3 = (1, 1, 1),
    ) -> Report:
        """Run the kernel to its end.

        Args:
            grid: blocks along x, y, z.
            block: threads along x, y, z.
            args: buffers, or numpy scalars of exactly the declared width.
            shared_bytes: dynamic shared memory.
            cluster: blocks of a cluster; only (1, 1, 1) is modelled.

        Raises:
            Refusal: something is illegal or outside the modelled range; nothing wrong is computed silently.
        """
        if cluster != (1, 1, 1):
            raise Refusal(f"cluster {cluster} is not modelled", hint="clusters belong to a later version")
        return launch(
            self._program,
            LaunchShape(grid, block, shared_bytes),
            args,
            global_memory=self._device.memory,
            global_addresses=self._global_addresses,
            schedule=self._device.schedule(),
            limits=self._device.limits,
            step_budget=self._device.step_budget,
            engine=self._device.engine,
        )


class Device:
    """A CPU that runs compiled PTX and checks every access.

    Args:
        arch: architecture whose limits hold, such as "sm_90a".
        schedule: "friendly" or "adversarial".
        seed: of the adversarial schedule; the same seed gives the same run.
        memory_limit_bytes: of all allocations together.
        step_budget: steps of one wave of resident blocks before the launch is given up.
        engine: "fast", in machine code where it can, or "reference"; they give the same.

    Raises:
        Refusal: unknown architecture, schedule or engine.
    """

    name = "sim"
    exact_bounds = True  # a byte past an allocation's end is an out-of-bounds finding: no red zones are needed

    def __init__(
        self,
        arch: str = "sm_90a",
        schedule: str = "friendly",
        seed: int = 0,
        *,
        memory_limit_bytes: int = DEFAULT_MEMORY_LIMIT_BYTES,
        step_budget: int = DEFAULT_STEP_BUDGET,
        engine: str = "fast",
    ) -> None:
        self.arch = arch
        self.limits = Limits.of(arch)
        self.step_budget = step_budget
        self.engine = EngineName.parse(engine)
        self.memory = GlobalMemory(memory_limit_bytes)
        self._schedule_name = ScheduleName.parse(schedule)
        self._seed = seed
        self._launches = 0

    def schedule(self) -> Schedule:
        """The schedule of the next launch: every launch of a run has its own draw."""
        self._launches += 1
        if self._schedule_name is ScheduleName.FRIENDLY:
            return Friendly()
        return Adversarial(np.random.SeedSequence((self._seed, self._launches)))

    def upload(self, array: NDArray[Any]) -> Buffer:
        """A buffer that holds a copy of `array`."""
        allocation = self.memory.allocate(array.nbytes, defined=True)
        allocation.fill(0, array.tobytes())
        return Buffer(allocation, array.shape, array.dtype)

    def allocate(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Buffer:
        """A buffer whose bytes nothing has written yet."""
        extent = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        count = 1
        for length in extent:
            if length < 0:
                raise Refusal(f"shape {extent}: a length is negative")
            count *= length
        return Buffer(self.memory.allocate(count * kind.itemsize, defined=False), extent, kind)

    def free(self, buffer: Buffer) -> None:
        """Give a buffer back; later accesses by kernels are `use-after-free` findings."""
        buffer.release(self.memory)

    def load(self, module: HasPtx) -> Mapping[str, Function]:
        """The kernels of a compiled module, from its PTX."""
        return self.load_ptx(module.ptx)

    def load_ptx(self, text: str) -> Mapping[str, Function]:
        """The kernels of a PTX text by entry name.

        Raises:
            Refusal: the text is not PTX, is for another architecture, or uses something that is not modelled.
        """
        module, programs = _decoded(text)
        self.limits.check_target(module.target[0])
        variables = self._place_globals(module)
        functions: dict[str, Function] = {}
        for name, program in programs.items():
            check_units(program, self.arch)
            addresses = {slot: variables[v.name] + offset for slot, (v, offset) in program.globals_used.items()}
            functions[name] = Function(self, program, addresses)
        return functions

    def _place_globals(self, module: Module) -> dict[str, int]:
        return {v.name: self._place_global(v) for v in module.variables.values() if v.space == "global"}

    def _place_global(self, variable: Variable) -> int:
        # Module variables without an initialiser are zero (PTX ISA, "Initializers").
        allocation = self.memory.allocate(variable.size_bytes, defined=True)
        if variable.initial is not None:
            allocation.fill(0, variable.initial)
        return allocation.base
