"""The CPU device: buffers, modules, launches.

dev = Device(arch="sm_90a")
x = dev.upload(np.arange(4, dtype=np.float32))
y = dev.allocate((4,), np.float32)
report = dev.load_ptx(text)["copy"].launch(grid=(1, 1, 1), block=(32, 1, 1), args=(x, y, np.int32(4)))
assert not report.findings
y.download()
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol, Unpack

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tileproof.oracle.addresses.tensor_map import TensorMapArguments, TensorMapRequest
from tileproof.oracle.arguments import whole
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx import tensor_map
from tileproof.simulators.ptx.arguments import Addressed, Argument
from tileproof.simulators.ptx.buffer import Buffer
from tileproof.simulators.ptx.decoding.contraction import Contraction
from tileproof.simulators.ptx.decoding.decode import decode_entry
from tileproof.simulators.ptx.findings import Index3, Report, Where
from tileproof.simulators.ptx.graph import Graph
from tileproof.simulators.ptx.launch import Prepared, launch, prepare
from tileproof.simulators.ptx.launch_shape import LaunchShape
from tileproof.simulators.ptx.layout import RANK_SHIFT, SHARED_BASE
from tileproof.simulators.ptx.limits import Limits
from tileproof.simulators.ptx.machine.budget import Budget
from tileproof.simulators.ptx.machine.engine import EngineName
from tileproof.simulators.ptx.machine.matrix import check_units
from tileproof.simulators.ptx.machine.memory import GlobalMemory
from tileproof.simulators.ptx.machine.schedule import Adversarial, Friendly, Schedule, ScheduleName
from tileproof.simulators.ptx.machine.script import Script, Scripted
from tileproof.simulators.ptx.program import Kind, Program
from tileproof.simulators.ptx.text.parse import parse_module
from tileproof.simulators.ptx.text.syntax import Module, Variable
from tileproof.simulators.ptx.trace.recorder import MOST_LANE_EVENTS, Recorder
from tileproof.simulators.ptx.trace.slicing import RULES, Rule
from tileproof.simulators.ptx.trace.trace import Element, Trace, explain, locate

__all__ = ["Buffer", "Device", "Element", "Function", "Trace"]

DEFAULT_MEMORY_LIMIT_BYTES = 8 << 30
DEFAULT_STEP_BUDGET = 1 << 23  # a few minutes
# Where shared memory may begin: behind 1 KiB of system use, at multiples of every alignment from 16 bytes to 1 KiB.
SHARED_BASES = (0x400, 0x410, 0x420, 0x440, 0x480, 0x500, 0x600, 0x800)


@lru_cache(maxsize=32)
def parsed(text: str) -> Module:
    """A module as its text says it. Raises: PtxSyntaxError, as the parser."""
    return parse_module(text)


@lru_cache(maxsize=32)
def decoded(text: str, contraction: Contraction) -> tuple[Module, Mapping[str, Program]]:
    """A module and its kernels; both are immutable, so devices share them."""
    module = parsed(text)
    return module, {name: decode_entry(module, entry, contraction) for name, entry in module.entries.items()}


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

    @property
    def contractible(self) -> tuple[Where, ...]:
        """Additions that the assembler may fuse with a multiplication: where there are any, results may differ."""
        return self._program.contractible

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
            cluster: blocks of a cluster along x, y, z; (1, 1, 1) leaves it to the kernel.

        Raises:
            Refusal: something is illegal or outside the modelled range; nothing wrong is computed silently.
        """
        return self._device.submit(self._prepared(LaunchShape(grid, block, shared_bytes, cluster), args))

    def trace(
        self,
        element: Element,
        *,
        grid: Index3,
        block: Index3,
        args: Sequence[Argument],
        shared_bytes: int = 0,
        cluster: Index3 = (1, 1, 1),
        limit: int = MOST_LANE_EVENTS,
        rules: Mapping[Kind, Rule] = RULES,
    ) -> Trace:
        """Run the kernel like `launch`, with the reference engine, and follow one element of an argument back.

        Args:
            element: which one, of the bytes as the launch leaves them.
            grid: see `launch`.
            block: see `launch`.
            args: see `launch`.
            shared_bytes: see `launch`.
            cluster: see `launch`.
            limit: register writes and accesses, summed over threads, that are kept at most.
            rules: how each kind of step is followed.

        Raises:
            Refusal: as `launch`; no such element; or the launch does more than a trace can keep.
        """
        locate(element, args)
        device, recorder = self._device, Recorder(limit)
        report = device.run(self._prepared(LaunchShape(grid, block, shared_bytes, cluster), args), recorder)
        return explain(self._program, recorder, device.memory, args, element, report, rules)

    def _prepared(self, shape: LaunchShape, args: Sequence[Argument]) -> Prepared:
        device = self._device
        return prepare(
            self._program,
            shape,
            args,
            global_memory=device.memory,
            global_addresses=self._global_addresses,
            limits=device.limits,
            shared_base=device.shared_base,
            large_clusters=device.large_clusters,
        )


class Device:
    """A CPU that runs compiled PTX and checks every access.

    Args:
        arch: architecture whose limits hold, such as "sm_90a".
        schedule: "friendly" or "adversarial".
        seed: of the adversarial schedule; the same seed gives the same run.
        memory_limit_bytes: of all allocations, and of the registers, shared and local memory of a launch, together.
        step_budget: steps of one wave of resident blocks before the launch is given up.
        time_budget_s: seconds before a launch is given up; None for as long as its steps take. Seconds are not the same
            on every machine: verdicts that others repeat should depend on steps.
        shared_base: address of a block's first byte of shared memory. Hardware begins at 0x400; a kernel that its own
            declared alignments make right is right at every multiple of 16 (`SHARED_BASES`).
        large_clusters: allow clusters of more than 8 blocks, which are not portable.
        lowest_leader: `elect.sync` elects the lowest lane under the adversarial schedule too, which PTX does not
            promise and some kernels rely on, those of CUTLASS for sm_90 among them.
        contraction: "none", or fuse every multiplication and addition without a rounding mode, as an assembler may:
            "first" or "last" of two products that are added (see `decoding.contraction`).
        engine: "fast", in machine code where it can, or "reference"; they give the same.
        order: check that conflicting accesses are ordered; without it a launch is faster and has no race findings.
        profile: also count instructions by opcode and passes of shared memory, and note bank conflicts; slower.

    Raises:
        Refusal: unknown architecture, schedule or engine, a seed that is no whole number or negative, or a base that
            shared memory cannot have.
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
        time_budget_s: float | None = None,
        engine: str = "fast",
        order: bool = True,
        profile: bool = False,
        shared_base: int = SHARED_BASE,
        large_clusters: bool = False,
        lowest_leader: bool = False,
        contraction: str = "none",
    ) -> None:
        self.arch = arch
        self.limits = Limits.of(arch)
        self.step_budget = step_budget
        self.time_budget_s = time_budget_s
        self.engine = EngineName.parse(engine)
        self.order = order
        self.profile = profile
        self.shared_base = _checked_base(shared_base)
        self.large_clusters = large_clusters
        self.lowest_leader = lowest_leader
        self.contraction = Contraction.parse(contraction)
        self.memory = GlobalMemory(memory_limit_bytes)
        self._schedule_name = ScheduleName.parse(schedule)
        self._seed = _checked_seed(seed)
        self._launches = 0
        self._capturing: Graph | None = None
        self._script: Script | None = None
        self.scripted: Scripted | None = None

    def schedule(self) -> Schedule:
        """The schedule of the next launch: every launch of a run has its own draw."""
        self._launches += 1
        if self._schedule_name is ScheduleName.FRIENDLY:
            return Friendly()
        return Adversarial(np.random.SeedSequence((self._seed, self._launches)), self.lowest_leader)

    def follow(self, script: Script | None) -> None:
        """Let launches of one kernel follow a script from now on, on the reference engine; None ends that.

        How far the last of them followed it says `scripted`.
        """
        self._script = script

    def submit(self, prepared: Prepared) -> Report:
        """Run a launch, or remember it for the graph that is being captured."""
        if self._capturing is not None:
            self._capturing.add(prepared)
            return Report()
        return self.run(prepared)

    def run(self, prepared: Prepared, recorder: Recorder | None = None) -> Report:
        """Run a launch now; with a recorder, on the reference engine.

        Raises:
            Refusal: a graph is being captured, of which this would not be a part.
        """
        if self._capturing is not None:
            raise Refusal("a graph is being captured: nothing can run", hint="replay after the capture")
        schedule = self.schedule()
        script = self._script
        if script is not None and prepared.program.name.startswith(script.kernel):
            self.scripted = schedule = Scripted(script, prepared.program)
        else:
            script = None
        return launch(
            prepared,
            global_memory=self.memory,
            schedule=schedule,
            limits=self.limits,
            budget=Budget(self.step_budget, self.time_budget_s),
            engine=self.engine if recorder is None and script is None else EngineName.REFERENCE,
            order=self.order,
            grid_id=self._launches,
            recorder=recorder,
            profiled=self.profile,
        )

    @contextmanager
    def capture(self) -> Iterator[Graph]:
        """Collect launches into a graph instead of running them, as capturing a stream does on a GPU.

        Raises:
            Refusal: a graph is being captured already.
        """
        if self._capturing is not None:
            raise Refusal("a graph is being captured already", hint="end the first capture before the next one")
        self._capturing = Graph(self.run)
        try:
            yield self._capturing
        finally:
            self._capturing = None

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

    def owns(self, buffer: Any) -> bool:
        """Whether `buffer` was allocated by this device."""
        return isinstance(buffer, Buffer) and buffer.lies_in(self.memory)

    def tensor_map(self, buffer: Addressed, **arguments: Unpack[TensorMapArguments]) -> np.void:
        """A tensor map, which a kernel takes by value; see `tensor_map.check` for what is refused.

        Args:
            buffer: where the tensor begins: a buffer of this device, or a view into one.
            arguments: see TensorMapArguments; `shape` and `box` must be given.

        Raises:
            Refusal: the driver's encoder refuses such a map, or the buffer belongs to another device.
        """
        if isinstance(buffer, np.ndarray):
            raise Refusal("a tensor map of a numpy array, which lies in host memory", hint="upload it")
        if isinstance(buffer, Buffer):
            buffer.check_owner(self.memory)
        request = TensorMapRequest.of(buffer.address, arguments)
        tensor_map.check(request, self.limits.number)
        return tensor_map.encode(request, self.memory.number)

    def load(self, module: HasPtx) -> Mapping[str, Function]:
        """The kernels of a compiled module, from its PTX."""
        return self.load_ptx(module.ptx)

    def load_ptx(self, text: str) -> Mapping[str, Function]:
        """The kernels of a PTX text by entry name.

        Raises:
            Refusal: the text is not PTX, is for another architecture, or uses something that is not modelled.
        """
        return self.load_programs(*decoded(text, self.contraction))

    def load_programs(self, module: Module, programs: Mapping[str, Program]) -> Mapping[str, Function]:
        """The kernels of a parsed module from their decoded forms, which need not be those of its text.

        Raises:
            Refusal: the module is for another architecture, or a kernel uses something that is not modelled.
        """
        self.limits.check_target(module.target[0])
        variables = self._place_globals(programs.values())
        functions: dict[str, Function] = {}
        for name, program in programs.items():
            check_units(program, self.arch)
            addresses = {slot: variables[v.name] + offset for slot, (v, offset) in program.globals_used.items()}
            functions[name] = Function(self, program, addresses)
        return functions

    def _place_globals(self, programs: Iterable[Program]) -> dict[str, int]:
        used = {v.name: v for program in programs for v, _ in program.globals_used.values()}
        return {name: self._place_global(variable) for name, variable in used.items()}

    def _place_global(self, variable: Variable) -> int:
        # Module variables without an initialiser are zero (PTX ISA, "Initializers").
        allocation = self.memory.allocate(variable.size_bytes, defined=True)
        if variable.initial is not None:
            allocation.fill(0, variable.initial)
        return allocation.base


def _checked_seed(seed: int) -> int:
    if whole("seed", seed) < 0:
        raise Refusal(f"seed = {seed} is negative")
    return seed


def _checked_base(base: int) -> int:
    whole("shared_base", base)
    if base < SHARED_BASE or base % 16 or base >= 1 << (RANK_SHIFT - 1):
        raise Refusal(f"shared memory at 0x{base:x}", hint=f"a multiple of 16 from 0x{SHARED_BASE:x} on")
    return base
