"""The decoded form of one kernel: what both engines execute.

Every operand is a *slot*, an index into the register file. Registers come first; constants (immediates and addresses,
filled before the launch) and special registers (filled per lane at the start of a block) follow. So
`add.s32 %r1, %r2, 5` is `Step(ARITHMETIC, destinations=(slot of %r1,), sources=(slot of %r2, slot of 5))`, and an
engine never asks what kind an operand is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.simulators.ptx.alu.operation import Operation
from tileproof.simulators.ptx.findings import Where
from tileproof.simulators.ptx.layout import SharedVariables
from tileproof.simulators.ptx.matrix_form import Product, ProductOrderForm
from tileproof.simulators.ptx.text.syntax import Parameter, Variable

if TYPE_CHECKING:
    from tileproof.simulators.ptx.async_form import AsyncForm

SINK = -1
NO_GUARD = -1
NONE = -1


class Kind(Enum):
    """What an engine does for a step."""

    __hash__ = object.__hash__  # members are single objects, and often keys

    ARITHMETIC = "arithmetic"
    PACK = "pack"
    UNPACK = "unpack"
    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"
    SHUFFLE = "shuffle"
    VOTE = "vote"
    MATCH = "match"
    REDUCE = "reduce"
    ELECT = "elect"
    ACTIVE_MASK = "active mask"
    MATRIX_LOAD = "matrix load"
    MATRIX_STORE = "matrix store"
    MATRIX_TRANSPOSE = "matrix transpose"
    MMA = "mma"
    WGMMA = "wgmma"
    WGMMA_ORDER = "wgmma order"
    BARRIER = "barrier"
    BARRIER_ARRIVE = "barrier arrive"
    CLUSTER_ARRIVE = "cluster arrive"
    CLUSTER_WAIT = "cluster wait"
    CLUSTER_ADDRESS = "cluster address"
    REGISTER_COUNT = "register count"
    CLOCK = "clock"
    WARP_BARRIER = "warp barrier"
    BRANCH = "branch"
    EXIT = "exit"
    TRAP = "trap"
    PRINT = "print"
    DISCARD = "discard"
    FRESH = "fresh"
    FENCE = "fence"
    MBARRIER = "mbarrier"
    COPY = "copy"
    COPY_GROUP = "copy group"
    BULK = "bulk"
    TENSOR = "tensor"
    MAP_EDIT = "tensor map edit"
    MAP_COPY = "tensor map copy"
    ASYNC_STORE = "async store"
    NOTHING = "nothing"


#: Collectives of whole warps, which name no members: of the instructions `.sync.aligned`.
MATRIX_KINDS = frozenset(
    {
        Kind.MATRIX_LOAD,
        Kind.MATRIX_STORE,
        Kind.MATRIX_TRANSPOSE,
        Kind.MMA,
        Kind.WGMMA,
        Kind.WGMMA_ORDER,
        Kind.MAP_COPY,
    }
)


#: What copies in flight and mbarriers come from.
ASYNCHRONOUS_KINDS = frozenset({Kind.MBARRIER, Kind.COPY, Kind.COPY_GROUP, Kind.BULK, Kind.ASYNC_STORE})


class StateSpace(Enum):
    """Where a memory instruction goes. GENERIC is decided by each address (PTX ISA, "Generic Addressing").

    SHARED is the block's own shared memory, CLUSTER that of all blocks of the cluster, of which it is a part.
    """

    __hash__ = object.__hash__  # members are single objects, and often keys

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    CLUSTER = "shared::cluster"
    LOCAL = "local"
    CONST = "const"
    PARAM = "param"


class Scope(IntEnum):
    """Whose threads a strong access or a fence concerns (PTX ISA, "Scope"): each contains the ones before it."""

    CTA = 0
    CLUSTER = 1
    GPU = 2
    SYS = 3


class FenceKind(Enum):
    """What a fence orders: memory among threads, or generic accesses towards another proxy, or mbarrier inits."""

    THREADS = "threads"
    ASYNC_PROXY = "async proxy"
    TENSOR_MAP_PROXY = "tensor map proxy"
    MBARRIER_INIT = "mbarrier init"


class CollectiveMode(Enum):
    """How a shuffle finds the source lane, or what a vote, match, reduction or reducing barrier returns."""

    UP = "up"
    DOWN = "down"
    BUTTERFLY = "bfly"
    INDEX = "idx"
    ALL = "all"
    ANY = "any"
    UNIFORM = "uni"
    BALLOT = "ballot"
    COUNT = "count"
    ADD = "add"
    MIN = "min"
    MAX = "max"
    AND = "and"
    OR = "or"
    XOR = "xor"


@dataclass(frozen=True)
class Access:
    """The form of a load, store or atomic.

    Attributes:
        space: where the address points.
        size: bytes of one element.
        offset: byte offset added to the address register.
        strong: `.volatile`, `.relaxed`, `.acquire`, `.release` and atomics (PTX ISA, "Memory Consistency Model").
        acquires: `.acquire` or `.acq_rel`.
        releases: `.release` or `.acq_rel`.
        scope: of a strong access; `.volatile` is of system scope.
        non_coherent: `ld.global.nc`.
    """

    space: StateSpace
    size: int
    offset: int
    strong: bool
    acquires: bool
    releases: bool
    scope: Scope = Scope.CTA
    non_coherent: bool = False


@dataclass(frozen=True)
class FenceForm:
    """The form of a fence.

    Attributes:
        kind: what it orders.
        acquires: it may end an acquire pattern: `.acquire`, `.acq_rel`, `.sc`, `membar`.
        releases: it may begin a release pattern: `.release`, `.acq_rel`, `.sc`, `membar`.
        scope: of THREADS and TENSOR_MAP_PROXY.
        sequential: `.sc`, `membar`.
        spaces: of ASYNC_PROXY, the spaces whose accesses it orders: GLOBAL, SHARED or both.
        peers: an ASYNC_PROXY fence of SHARED also orders shared memory of the cluster's other blocks.
        offset: added to the address of the tensor map of a TENSOR_MAP_PROXY fence.
    """

    kind: FenceKind
    acquires: bool = True
    releases: bool = True
    scope: Scope = Scope.SYS
    sequential: bool = False
    spaces: frozenset[StateSpace] = frozenset()
    peers: bool = False
    offset: int = 0


@dataclass(frozen=True)
class BarrierForm:
    """The operands of a block barrier.

    Attributes:
        number: slot of the barrier's number.
        count: slot of the number of threads, or NONE.
        aligned: all threads of a warp must execute the same instruction.
    """

    number: int
    count: int
    aligned: bool


@dataclass(frozen=True)
class ClusterBarrierForm:
    """What qualifies `barrier.cluster`.

    Attributes:
        relaxed: the arrival orders no memory.
        aligned: all threads of a warp must execute the same instruction.
    """

    relaxed: bool
    aligned: bool


class AddressQuestion(Enum):
    """What `mapa`, `getctarank` and `isspacep` do with an address."""

    MAP = "mapa"
    RANK = "getctarank"
    INSIDE = "isspacep"


@dataclass(frozen=True)
class AddressForm:
    """The form of an instruction that asks about an address.

    Attributes:
        question: what it asks.
        space: the window that INSIDE tests; else CLUSTER or, for a generic address, GENERIC.
        bits: width of the address.
    """

    question: AddressQuestion
    space: StateSpace
    bits: int


@dataclass(frozen=True)
class ClusterRule:
    """What a kernel says about its clusters.

    Attributes:
        required: `.reqnctapercluster`, or None.
        explicit: `.explicitcluster`: a launch must give the cluster's extents.
        most: `.maxclusterrank`, or None.
    """

    required: tuple[int, int, int] | None = None
    explicit: bool = False
    most: int | None = None


@dataclass(frozen=True)
class RegisterChange:
    """What `setmaxnreg` asks for.

    Attributes:
        count: registers of each thread.
        more: `.inc`.
    """

    count: int
    more: bool


class TimeRegister(Enum):
    """Special registers that count time, by their PTX names."""

    CLOCK = "%clock"
    CLOCK_HIGH = "%clock_hi"
    CLOCK_64 = "%clock64"
    NANOSECONDS = "%globaltimer"
    NANOSECONDS_LOW = "%globaltimer_lo"
    NANOSECONDS_HIGH = "%globaltimer_hi"


@dataclass(frozen=True)
class Step:
    """One decoded instruction.

    Attributes:
        kind: which handler executes it.
        opcode: as written, for messages.
        where: PTX and CUDA line.
        destinations: slots, SINK for a thrown-away result.
        sources: slots.
        guard: predicate slot or NO_GUARD.
        guard_negated: execute where the predicate is false.
        target: step index of a branch; of FRESH, where its copy ends.
        operation: for ARITHMETIC, and the combining step of ATOMIC.
        shared_operation: of ATOMIC, the combining step on shared memory where it is another one.
        access: for LOAD, STORE, ATOMIC, MATRIX_LOAD, MATRIX_STORE, WGMMA: of the last three, one row of 16 bytes.
        mode: for SHUFFLE, VOTE, MATCH, REDUCE and a reducing BARRIER.
        negated: the predicate source of VOTE or BARRIER is read inverted.
        signed: REDUCE compares signed numbers.
        barrier: for BARRIER and BARRIER_ARRIVE.
        cluster: for CLUSTER_ARRIVE and CLUSTER_WAIT.
        address: for CLUSTER_ADDRESS.
        change: for REGISTER_COUNT.
        time: for CLOCK.
        fence: for FENCE.
        element_bits: for PACK and UNPACK.
        ranges: for FRESH, addresses and bytes in local memory.
        narrow: for each source, the operand type's bits where the register is wider, else 0.
        sign_from: for each destination, the bits to sign-extend from where a signed result goes to a wider register.
        transfer: for MATRIX_LOAD and MATRIX_STORE, who holds what.
        product: for MMA and WGMMA.
        product_order: for WGMMA_ORDER.
        asynchronous: for MBARRIER, COPY, COPY_GROUP, BULK, TENSOR, MAP_EDIT, MAP_COPY and ASYNC_STORE.
    """

    kind: Kind
    opcode: str
    where: Where
    destinations: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    guard: int = NO_GUARD
    guard_negated: bool = False
    target: int = -1
    operation: Operation | None = None
    shared_operation: Operation | None = None
    access: Access | None = None
    mode: CollectiveMode | None = None
    negated: bool = False
    signed: bool = False
    barrier: BarrierForm | None = None
    cluster: ClusterBarrierForm | None = None
    address: AddressForm | None = None
    change: RegisterChange | None = None
    time: TimeRegister | None = None
    fence: FenceForm | None = None
    element_bits: int = 0
    ranges: tuple[tuple[int, int], ...] = ()
    narrow: tuple[int, ...] = ()
    sign_from: tuple[int, ...] = ()
    transfer: FragmentMap | None = None
    product: Product | None = None
    product_order: ProductOrderForm | None = None
    asynchronous: "AsyncForm | None" = None

    @cached_property
    def access_bytes(self) -> int:
        """Bytes that one lane of a LOAD, STORE or ATOMIC touches, or one row of a matrix."""
        assert self.access is not None
        results = len(self.destinations)
        count = {Kind.LOAD: results, Kind.ATOMIC: results, Kind.STORE: len(self.sources) - 1}.get(self.kind, 1)
        return self.access.size * count


@dataclass(frozen=True, eq=False)
class Program:
    """One kernel, decoded; two are the same if they are one object.

    Attributes:
        name: entry name.
        steps: in PTX order.
        slot_bits: register width of every slot, in bits; 1 for predicates.
        constants: slot to raw bits.
        specials: slot to the name of a special register.
        parameters: in order, with their byte offsets in the parameter area.
        parameter_offsets: byte offset of each parameter.
        parameter_bytes: size of the parameter area.
        shared: the kernel's shared variables, which a launch places.
        shared_symbols: slots that hold the address of a shared variable, by name and byte offset.
        local_bytes: local memory of one lane.
        constant_image: module `.const` variables, laid out.
        globals_used: module `.global` variables by constant slot: the device fills in their addresses.
        thread_limit: `.maxntid` or `.reqntid`, or None; `thread_exact` says which.
        thread_exact: the block must have exactly `thread_limit`.
        cluster: what the kernel says about its clusters.
        register_limit: `.maxnreg`, or None.
        registers: slot to the name of a register.
        contractible: where an addition stands that an assembler may fuse with a multiplication.
    """

    name: str
    steps: tuple[Step, ...]
    slot_bits: tuple[int, ...]
    constants: Mapping[int, int]
    specials: Mapping[int, str]
    parameters: tuple[Parameter, ...]
    parameter_offsets: tuple[int, ...]
    parameter_bytes: int
    shared: SharedVariables
    shared_symbols: Mapping[int, tuple[str, int]]
    local_bytes: int
    constant_image: bytes
    globals_used: Mapping[int, tuple[Variable, int]]
    thread_limit: tuple[int, int, int] | None
    thread_exact: bool
    cluster: ClusterRule = ClusterRule()
    register_limit: int | None = None
    registers: Mapping[int, str] = field(default_factory=dict)
    contractible: tuple[Where, ...] = ()

    @property
    def shared_bytes(self) -> int:
        """Static shared memory."""
        return self.shared.place().static_bytes

    @cached_property
    def has_warpgroups(self) -> bool:
        """Whether warps meet in groups of four."""
        return any(step.kind is Kind.WGMMA for step in self.steps)

    @cached_property
    def has_asynchronous(self) -> bool:
        """Whether anything happens on its own: copies, mbarriers."""
        return any(step.kind in ASYNCHRONOUS_KINDS for step in self.steps)

    @cached_property
    def has_register_counts(self) -> bool:
        """Whether warps give registers away."""
        return any(step.kind is Kind.REGISTER_COUNT for step in self.steps)

    @cached_property
    def shared_granule(self) -> int:
        """Bytes of the smallest access that may go to shared memory: aligned accesses cover such granules whole."""
        spaces = (StateSpace.SHARED, StateSpace.CLUSTER, StateSpace.GENERIC)
        return min((step.access_bytes for step in self.steps if step.access and step.access.space in spaces), default=4)
