"""The last of a tile's blocks to arrive adds the planes of all: stores, barrier, fence, arrival, fence, sums.

Each block stores the sums of its part of K in a plane of its own, one half by thread 0 and one by its other threads.
Planes are modelled by how many of their halves are this launch's. Stores may be performed late until a fence or the
kernel's end; loads of the last block may be performed early unless a fence drops what they saw.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.model import (
    FIRST_RULE,
    GOES,
    WAITS,
    Action,
    Field,
    Model,
    Role,
    Row,
    Source,
    array,
)


class Fault(IntEnum):
    """What is wrong with a faulty one."""

    NONE = 0
    NO_RELEASE = 1
    NO_ACQUIRE = 2
    NO_BARRIER = 3
    BEGINS_AT_ZERO = 4
    NARROW_COUNTER = 5
    FIRST_ARRIVAL = 6
    ONE_PLANE = 7
    NOT_RESET = 8
    TWO_STREAMS = 9


WORDS: Mapping[Fault, str] = MappingProxyType(
    {
        Fault.NO_RELEASE: "no fence between the stores and the arrival",
        Fault.NO_ACQUIRE: "no fence between the arrival and the loads of the last block",
        Fault.NO_BARRIER: "thread 0 arrives without having met the other threads",
        Fault.BEGINS_AT_ZERO: "a counter that is never set back is compared as if it began at 0",
        Fault.NARROW_COUNTER: "the counter wraps at a number that is no multiple of the parts",
        Fault.FIRST_ARRIVAL: "the first block to arrive adds the planes",
        Fault.ONE_PLANE: "all parts store in the first plane",
        Fault.NOT_RESET: "the last block does not set the counter back",
        Fault.TWO_STREAMS: "two launches use one workspace at the same time",
    }
)

MOST_PARTS = 16

# Constants; WRAP is 0 for a counter that does not wrap within the model.
PARTS, LAUNCHES, RESETS, WRAP, FAULT = range(5)
# Shared numbers: the launch that runs, blocks that have left it, arrivals, sums of planes, halves that were stored (of
# two launches at a time, if they are).
LAUNCH, LEFT, COUNTER, COMBINED, HALVES = range(5)
# Numbers of a block; EARLY says whether planes were loaded early, and all of them right (1) or not (2).
AT, OWN_LAUNCH, OTHERS, IS_LAST, PENDING, EARLY = range(6)
# What memory may not have performed yet of what a block did, as bits of PENDING.
HALF, OTHER_HALF, COUNTER_STORE = 1, 2, 4
# Where a block's thread 0 is.
STORES, MEETS, RELEASES, ARRIVES, ACQUIRES, LOOKS, ADDS, RESETTING, LEAVES, DONE = range(10)
# Where the stream is.
RUNS, ENDED = range(2)
# Rules.
PLANE_WRONG, NOT_ONE = range(FIRST_RULE, FIRST_RULE + 2)


def _stores(k: Row, shared: Row, own: Row, which: int) -> int:
    if shared[LAUNCH] != own[OWN_LAUNCH] and k[FAULT] != Fault.TWO_STREAMS:
        return WAITS
    own[PENDING] |= HALF
    own[AT] = MEETS
    return GOES


def _others_store(k: Row, shared: Row, own: Row, which: int) -> int:
    if own[OTHERS]:
        return WAITS
    own[OTHERS] = 1
    own[PENDING] |= OTHER_HALF
    return GOES


def _meets(k: Row, shared: Row, own: Row, which: int) -> int:
    if not own[OTHERS] and k[FAULT] != Fault.NO_BARRIER:
        return WAITS
    own[AT] = ARRIVES if k[FAULT] == Fault.NO_RELEASE else RELEASES
    return GOES


def _releases(k: Row, shared: Row, own: Row, which: int) -> int:
    if own[PENDING] != 0:
        return WAITS
    own[AT] = ARRIVES
    return GOES


def _stream(k: Row, own: Row) -> int:
    return own[OWN_LAUNCH] if k[FAULT] == Fault.TWO_STREAMS else 0


def _is_right(k: Row, shared: Row, own: Row) -> bool:
    """Whether both halves of all planes are this launch's."""
    return shared[HALVES + _stream(k, own)] == 2 * k[PARTS]


def _loads_early(k: Row, shared: Row, own: Row, which: int) -> int:
    if own[EARLY]:
        return WAITS
    own[EARLY] = 1 if _is_right(k, shared, own) else 2
    return GOES


def _arrives(k: Row, shared: Row, own: Row, which: int) -> int:
    arrived = shared[COUNTER]
    if k[RESETS] or k[FAULT] == Fault.BEGINS_AT_ZERO:
        own[IS_LAST] = int(arrived == k[PARTS] - 1)
    else:
        last = 0 if k[FAULT] == Fault.FIRST_ARRIVAL else k[PARTS] - 1
        own[IS_LAST] = int(arrived % k[PARTS] == last)
    shared[COUNTER] = (arrived + 1) % k[WRAP] if k[WRAP] else arrived + 1
    own[AT] = LOOKS if k[FAULT] == Fault.NO_ACQUIRE else ACQUIRES
    return GOES


def _acquires(k: Row, shared: Row, own: Row, which: int) -> int:
    own[EARLY] = 0
    own[AT] = LOOKS
    return GOES


def _is_last(k: Row, shared: Row, own: Row, which: int) -> int:
    if not own[IS_LAST]:
        return WAITS
    own[IS_LAST] = 0
    own[AT] = ADDS
    return GOES


def _is_not_last(k: Row, shared: Row, own: Row, which: int) -> int:
    if own[IS_LAST]:
        return WAITS
    own[EARLY] = 0
    own[AT] = LEAVES
    return GOES


def _adds(k: Row, shared: Row, own: Row, which: int) -> int:
    is_right = own[EARLY] == 1 if own[EARLY] else _is_right(k, shared, own)
    own[EARLY] = 0
    shared[COMBINED] += 1
    own[AT] = RESETTING if k[RESETS] and k[FAULT] != Fault.NOT_RESET else LEAVES
    return GOES if is_right else PLANE_WRONG


def _resets(k: Row, shared: Row, own: Row, which: int) -> int:
    own[PENDING] |= COUNTER_STORE
    own[AT] = LEAVES
    return GOES


def _leaves(k: Row, shared: Row, own: Row, which: int) -> int:
    if own[PENDING] != 0 or not own[OTHERS]:
        return WAITS
    shared[LEFT] += 1
    own[OTHERS] = 0
    own[OWN_LAUNCH] += 1
    own[AT] = STORES
    if own[OWN_LAUNCH] == k[LAUNCHES] or k[FAULT] == Fault.TWO_STREAMS:
        own[OWN_LAUNCH], own[AT] = 0, DONE
    return GOES


def _performs(k: Row, shared: Row, own: Row, which: int) -> int:
    own[PENDING] ^= 1 << which
    halves = HALVES + _stream(k, own)
    if 1 << which == COUNTER_STORE:
        shared[COUNTER] = 0
    elif k[FAULT] != Fault.ONE_PLANE or shared[halves] < 2:
        shared[halves] += 1
    return GOES


def _launch_ends(k: Row, shared: Row, own: Row, which: int) -> int:
    streams = 2 if k[FAULT] == Fault.TWO_STREAMS else 1
    if shared[LEFT] != k[PARTS] * streams:
        return WAITS
    is_once = shared[COMBINED] == streams
    shared[LEFT] = shared[COMBINED] = shared[HALVES] = shared[HALVES + 1] = 0
    shared[LAUNCH] += 1
    if shared[LAUNCH] == k[LAUNCHES] or k[FAULT] == Fault.TWO_STREAMS:
        shared[LAUNCH], own[AT] = 0, ENDED
    return GOES if is_once else NOT_ONE


SPLIT = "int8_split.cuh"
DECODE = "int8_gemm_decode.cu"

_RUNNING = (MEETS, RELEASES, ARRIVES, ACQUIRES, LOOKS, ADDS, RESETTING, LEAVES)

_BLOCK = (
    Action(
        "memory performs {}",
        _performs,
        (),
        ("thread 0's half", "the other half", "the counter's 0"),
        PENDING,
        beside=True,
    ),
    Action("stores its half", _stores, (STORES,), source=Source(DECODE, "*reinterpret_cast<int2*>(plane")),
    Action(
        "others store theirs",
        _others_store,
        _RUNNING,
        beside=True,
        source=Source(DECODE, "*reinterpret_cast<int2*>(plane"),
    ),
    Action("meets the others", _meets, (MEETS,)),
    Action("fences before its arrival", _releases, (RELEASES,)),
    Action("loads planes early", _loads_early, (ARRIVES,)),
    Action("arrives", _arrives, (ARRIVES,), source=Source(SPLIT, "atomicAdd(arrivals, 1ull)")),
    Action("fences behind it", _acquires, (ACQUIRES,)),
    Action("is the last", _is_last, (LOOKS,)),
    Action("is not the last", _is_not_last, (LOOKS,)),
    Action("adds the planes", _adds, (ADDS,), source=Source(SPLIT, "problem.planes + part * plane + at")),
    Action("sets the counter back", _resets, (RESETTING,)),
    Action("leaves", _leaves, (LEAVES,)),
)

_STREAM = (Action("sees the launch's end", _launch_ends, (RUNS,)),)


@dataclass(frozen=True)
class SplitK:
    """Launches of one tile whose K is split, back to back.

    Args:
        parts: blocks of the tile.
        launches: one after the other; each begins when the one before has ended.
        resets: the last block sets the counter back; else arrivals are counted over all launches.
        wrap: the number at which the counter becomes 0; 0 for one that is larger than all arrivals.
        start: what the counter begins with.
        fault: what is wrong.
    """

    parts: int
    launches: int = 2
    resets: bool = False
    wrap: int = 0
    start: int = 0
    fault: Fault = Fault.NONE

    def model(self) -> Model:
        """The model. Raises: Refusal for parameters without meaning."""
        self._check()
        streams = 2 if self.fault is Fault.TWO_STREAMS else 1
        most = self.start + self.parts * self.launches
        shared = (
            Field("launch", self.launches),
            Field("left", self.parts * streams),
            Field("arrivals", self.wrap - 1 if self.wrap else most),
            Field("combined", self.parts * streams),
            *array("halves stored", 2 * self.parts, streams, 2),
        )
        own = (
            Field("launch", self.launches),
            Field("others", 1),
            Field("is last", 1),
            Field("pending", 2 * COUNTER_STORE - 1),
            Field("early", 2),
        )
        starts = tuple((STORES, stream, 0, 0, 0, 0) for stream in range(streams) for _ in range(self.parts))
        places = ("stores", "meets", "before the arrival", "arrives", "behind the arrival", "has arrived")
        more = ("adds planes", "sets back", "leaves", "has left")
        return Model(
            self.name,
            (self.parts, self.launches, int(self.resets), self.wrap, self.fault),
            shared,
            (0, 0, self.start, 0, 0, 0),
            (
                Role("block", (*places, *more), DONE, own, starts, _BLOCK),
                Role("stream", ("waits for the launch", "has ended"), ENDED, (), ((RUNS,),), _STREAM),
            ),
            (
                "the last block adds a plane that its part has not stored, or not in this launch",
                "a launch ends without having added the planes exactly once",
            ),
        )

    def with_fault(self, fault: Fault) -> "SplitK":
        """The same with a fault."""
        return replace(self, fault=fault)

    @property
    def name(self) -> str:
        """With the parameters."""
        counter = "set back" if self.resets else f"from {self.start}" + (f" modulo {self.wrap}" if self.wrap else "")
        name = f"split K: {self.parts} parts, {self.launches} launches, counter {counter}"
        return f"{name}; {WORDS[self.fault]}" if self.fault else name

    def _check(self) -> None:
        for what, value, least, most in (
            ("parts", self.parts, 1, MOST_PARTS),
            ("launches", self.launches, 1, 8),
            ("as the counter's start", self.start, 0, 1 << 16),
            ("as the counter's wrap", self.wrap, 0, 1 << 16),
        ):
            if not least <= value <= most:
                raise Refusal(f"split K: {value} {what}; it must lie in {least}..{most}")
        is_narrow = self.wrap > 0 and self.wrap % self.parts > 0
        if is_narrow != (self.fault is Fault.NARROW_COUNTER):
            raise Refusal(
                f"split K: a counter that wraps at {self.wrap} with {self.parts} parts and fault {self.fault.name}",
                hint="a wrap that is no multiple of the parts is the fault NARROW_COUNTER",
            )
        if self.fault is Fault.NOT_RESET and not self.resets:
            raise Refusal("split K: fault NOT_RESET of a counter that is never set back", hint="resets=True")
        if self.fault in (Fault.BEGINS_AT_ZERO, Fault.FIRST_ARRIVAL) and self.resets:
            raise Refusal(f"split K: fault {self.fault.name} of a counter that is set back", hint="resets=False")
