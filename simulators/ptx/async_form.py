"""The decoded forms of instructions on mbarriers and of asynchronous copies: what their steps carry beside slots."""

from dataclasses import dataclass
from enum import Enum

from tileproof.simulators.ptx.alu.operation import Operation
from tileproof.simulators.ptx.program import NONE, Scope, StateSpace
from tileproof.simulators.ptx.tensor_map_edit import MapField


@dataclass(frozen=True)
class Place:
    """An address operand.

    Attributes:
        slot: of its base.
        offset: bytes added to it.
        space: where it points.
    """

    slot: int
    offset: int
    space: StateSpace


class MbarrierAction(Enum):
    """What a step does to an mbarrier object."""

    INIT = "init"
    INVALIDATE = "inval"
    ARRIVE = "arrive"
    EXPECT = "expect_tx"
    COMPLETE = "complete_tx"
    WAIT = "wait"
    PENDING_COUNT = "pending_count"
    COPIES_ARRIVE = "cp.async.mbarrier.arrive"


@dataclass(frozen=True)
class MbarrierForm:
    """An instruction on an mbarrier object.

    Attributes:
        action: what it does.
        object: where the object lies; None for PENDING_COUNT, which reads a state.
        count: slot of the count of INIT and ARRIVE, or NONE for 1.
        bytes: slot of the transaction count of EXPECT, COMPLETE and `arrive.expect_tx`, or NONE.
        phase: slot of the state or parity of WAIT, or of the state of PENDING_COUNT.
        parity: `phase` holds a parity.
        may_fail: `try_wait`, which may be false although the phase is complete.
        drops: `arrive_drop`.
        no_complete: `.noComplete`.
        no_increment: `.noinc`.
        orders: `.release` of ARRIVE and `.acquire` of WAIT; false for `.relaxed`.
        scope: of that.
    """

    action: MbarrierAction
    object: Place | None
    count: int = NONE
    bytes: int = NONE
    phase: int = NONE
    parity: bool = False
    may_fail: bool = False
    drops: bool = False
    no_complete: bool = False
    no_increment: bool = False
    orders: bool = True
    scope: Scope = Scope.CTA


@dataclass(frozen=True)
class CopyForm:
    """`cp.async` of 4, 8 or 16 bytes.

    Attributes:
        target: in shared memory.
        source: in global memory.
        nbytes: written.
        source_bytes: slot of the bytes that are read, the rest is zero; NONE for all.
        ignore: slot of a predicate under which nothing is read and zeros are written; NONE without one.
        ignore_negated: the predicate is read inverted.
    """

    target: Place
    source: Place
    nbytes: int
    source_bytes: int = NONE
    ignore: int = NONE
    ignore_negated: bool = False


class GroupAction(Enum):
    """What a step does to the groups of a thread's copies."""

    COMMIT = "commit_group"
    WAIT = "wait_group"
    WAIT_ALL = "wait_all"


@dataclass(frozen=True)
class GroupForm:
    """Commit and wait of copies.

    Attributes:
        action: what it does.
        bulk: of bulk copies.
        most_pending: groups that may stay in flight.
        reads_only: `.read`: only the sources must have been read.
    """

    action: GroupAction
    bulk: bool
    most_pending: int = 0
    reads_only: bool = False


@dataclass(frozen=True)
class BulkForm:
    """`cp.async.bulk` and `cp.reduce.async.bulk`.

    Attributes:
        target: where to.
        source: where from.
        nbytes: slot of the number of bytes.
        barrier: the mbarrier that is told; None for a copy that joins its thread's bulk group.
        blocks: slot of the mask of the cluster's blocks that all get the bytes; NONE for one.
        operation: what a reduction combines with; None for a copy.
        element_bytes: of a reduction.
        byte_mask: slot of the mask of the bytes of each 16 that are written; NONE for all.
    """

    target: Place
    source: Place
    nbytes: int
    barrier: Place | None = None
    blocks: int = NONE
    operation: Operation | None = None
    element_bytes: int = 1
    byte_mask: int = NONE


@dataclass(frozen=True)
class StoreForm:
    """`st.async` and `red.async`.

    Attributes:
        target: in the shared memory of a block of the cluster.
        barrier: the mbarrier of the same block that is told.
        values: slots.
        element_bytes: of each.
        operation: what `red.async` combines with; None for `st.async`.
    """

    target: Place
    barrier: Place
    values: tuple[int, ...]
    element_bytes: int
    operation: Operation | None = None


@dataclass(frozen=True)
class TensorForm:
    """`cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor`.

    Attributes:
        rank: dimensions of the tensor.
        map: where the tensor map lies.
        coordinates: slots of the first element's coordinates, innermost first.
        shared: the box in shared memory.
        barrier: the mbarrier that a load tells; None for a store or reduction, which joins its thread's bulk group.
        blocks: slot of the mask of the cluster's blocks that all get the box; NONE for one.
        reduction: the operation's name; None for a copy.
    """

    rank: int
    map: Place
    coordinates: tuple[int, ...]
    shared: Place
    barrier: Place | None = None
    blocks: int = NONE
    reduction: str | None = None


@dataclass(frozen=True)
class MapEditForm:
    """`tensormap.replace`.

    Attributes:
        map: where the tensor map lies.
        field: what is set.
        entry: of a field that each dimension has, else 0.
        value: slot of the new number.
    """

    map: Place
    field: MapField
    entry: int
    value: int


@dataclass(frozen=True)
class MapCopyForm:
    """`tensormap.cp_fenceproxy`.

    Attributes:
        target: in global memory.
        source: in shared memory.
    """

    target: Place
    source: Place


AsyncForm = MbarrierForm | CopyForm | GroupForm | BulkForm | StoreForm | TensorForm | MapEditForm | MapCopyForm
