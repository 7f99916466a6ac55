"""The last of a launch's blocks publishes what all collected: atomicMax, fence, ticket, fence, and the ring's scale.

A collected maximum is the number of blocks it holds, so that a lost one is seen, and a scale is the number of the
launch that reads it. Reductions and stores may be performed late, in any order, until a fence or the kernel's end. The
last block's loads of maxima may be performed early, from its ticket's release on, unless a fence drops what they saw.
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
    NO_SYNCWARP = 3
    WRONG_EXTENT = 4
    NOT_REARMED = 5
    NOT_CLEANED = 6
    READS_LATE = 7
    TWO_STREAMS = 8
    PRODUCT_BEHIND_ONE_PAIR = 9
    ONE_GRAPH = 10


WORDS: Mapping[Fault, str] = MappingProxyType(
    {
        Fault.NO_RELEASE: "no fence between the maximum and the ticket",
        Fault.NO_ACQUIRE: "no fence between the ticket and the loads of the last block",
        Fault.NO_SYNCWARP: "lanes load maxima without having met the one that took the ticket",
        Fault.WRONG_EXTENT: "the ticket is compared with the blocks of one dimension",
        Fault.NOT_REARMED: "the counter is not set back",
        Fault.NOT_CLEANED: "the maxima are not set back",
        Fault.READS_LATE: "blocks read the scale behind their ticket",
        Fault.TWO_STREAMS: "two launches fold into one ring at the same time",
        Fault.PRODUCT_BEHIND_ONE_PAIR: "a product reads the scale in the place where its own step has published",
        Fault.ONE_GRAPH: "one captured step is replayed for every step, so that it always reads the same pair",
    }
)

ROOM = 4
"""Slots at most."""

# Constants.
BLOCKS, EXTENT, SLOTS, LAUNCHES, PAIRS, HOST_CLEARS, FAULT = range(7)
# Shared numbers: the launch that runs, blocks that have left it, tickets, publications, scales, maxima.
LAUNCH, LEFT, COUNTER, PUBLISHED, SCALE, MAXIMA = 0, 1, 2, 3, 4, 6
# Numbers of a block.
AT, OWN_LAUNCH, SLOT, TICKET, PENDING, SUM, TAKEN, EARLY = range(8)
# What memory may not have performed yet of what a block did, as bits of PENDING; ZERO is the first slot's.
RAISE, SCALE_STORE, COUNTER_STORE, ZERO = 1, 2, 4, 8
# Where a block is.
BEGINS, COLLECTS, RELEASES, TICKETS, ACQUIRES, LOOKS, TAKES, STORES, REARMS, READS, LEAVES, DONE = range(12)
# Where the stream is.
RUNS, MULTIPLIES, ENDED = range(3)
# Rules.
CASTS_WRONG, MAXIMUM_LOST, NOT_ONE, COUNTER_LEFT, MAXIMA_LEFT, PRODUCT_WRONG = range(FIRST_RULE, FIRST_RULE + 6)


def _begins(k: Row, shared: Row, own: Row, which: int) -> int:
    if shared[LAUNCH] != own[OWN_LAUNCH] and k[FAULT] != Fault.TWO_STREAMS:
        return WAITS
    own[AT] = COLLECTS
    if k[FAULT] == Fault.READS_LATE or k[FAULT] == Fault.TWO_STREAMS:
        return GOES
    pair = 0 if k[FAULT] == Fault.ONE_GRAPH else own[OWN_LAUNCH] % k[PAIRS]
    return GOES if shared[SCALE + pair] == own[OWN_LAUNCH] else CASTS_WRONG


def _collects(k: Row, shared: Row, own: Row, which: int) -> int:
    own[PENDING] |= RAISE
    own[AT] = TICKETS if k[FAULT] == Fault.NO_RELEASE else RELEASES
    return GOES


def _releases(k: Row, shared: Row, own: Row, which: int) -> int:
    if own[PENDING] != 0:
        return WAITS
    own[AT] = TICKETS
    return GOES


def _loads_early(k: Row, shared: Row, own: Row, which: int) -> int:
    if which >= k[SLOTS] or own[EARLY + which] != 0:
        return WAITS
    own[EARLY + which] = 1 + shared[MAXIMA + which]
    return GOES


def _takes_ticket(k: Row, shared: Row, own: Row, which: int) -> int:
    own[TICKET] = shared[COUNTER]
    shared[COUNTER] += 1
    own[AT] = LOOKS if k[FAULT] == Fault.NO_ACQUIRE else ACQUIRES
    return GOES


def _acquires(k: Row, shared: Row, own: Row, which: int) -> int:
    # Lane 0 takes slot 0 and the fence is its own: the others have acquired nothing before they meet it.
    kept = 1 if k[FAULT] == Fault.NO_SYNCWARP else k[SLOTS]
    for slot in range(kept):
        own[EARLY + slot] = 0
    own[AT] = LOOKS
    return GOES


def _is_last(k: Row, shared: Row, own: Row, which: int) -> int:
    if own[TICKET] != k[EXTENT] - 1:
        return WAITS
    own[AT] = TAKES
    own[TICKET] = 0
    return GOES


def _is_not_last(k: Row, shared: Row, own: Row, which: int) -> int:
    if own[TICKET] == k[EXTENT] - 1:
        return WAITS
    _forgets(k, own)
    own[AT] = READS if k[FAULT] == Fault.READS_LATE else LEAVES
    return GOES


def _forgets(k: Row, own: Row) -> None:
    own[TICKET] = own[SUM] = own[TAKEN] = 0
    for slot in range(k[SLOTS]):
        own[EARLY + slot] = 0


def _takes_slot(k: Row, shared: Row, own: Row, which: int) -> int:
    slot = own[TAKEN]
    own[SUM] += own[EARLY + slot] - 1 if own[EARLY + slot] > 0 else shared[MAXIMA + slot]
    if k[FAULT] != Fault.NOT_CLEANED and k[HOST_CLEARS] == 0:
        own[PENDING] |= ZERO << slot
    own[TAKEN] += 1
    if own[TAKEN] == k[SLOTS]:
        own[AT] = STORES
    return GOES


def _stores_scale(k: Row, shared: Row, own: Row, which: int) -> int:
    is_lost = own[SUM] != k[BLOCKS]
    shared[PUBLISHED] += 1
    own[PENDING] |= SCALE_STORE
    _forgets(k, own)
    own[AT] = REARMS
    if k[FAULT] == Fault.NOT_REARMED:
        own[AT] = LEAVES
    return MAXIMUM_LOST if is_lost else GOES


def _rearms(k: Row, shared: Row, own: Row, which: int) -> int:
    own[PENDING] |= COUNTER_STORE
    own[AT] = READS if k[FAULT] == Fault.READS_LATE else LEAVES
    return GOES


def _reads_late(k: Row, shared: Row, own: Row, which: int) -> int:
    own[AT] = LEAVES
    found = shared[SCALE + own[OWN_LAUNCH] % k[PAIRS]]
    return GOES if found == own[OWN_LAUNCH] else CASTS_WRONG


def _leaves(k: Row, shared: Row, own: Row, which: int) -> int:
    if own[PENDING] != 0:
        return WAITS
    shared[LEFT] += 1
    own[OWN_LAUNCH] += 1
    own[AT] = BEGINS
    if own[OWN_LAUNCH] == k[LAUNCHES] or k[FAULT] == Fault.TWO_STREAMS:
        own[AT] = DONE
        own[OWN_LAUNCH] = 0
    return GOES


def _performs(k: Row, shared: Row, own: Row, which: int) -> int:
    bit = 1 << which
    own[PENDING] ^= bit
    if bit == RAISE:
        shared[MAXIMA + own[SLOT]] += 1
    elif bit == SCALE_STORE:
        pair = 1 if k[FAULT] == Fault.ONE_GRAPH else (own[OWN_LAUNCH] + 1) % k[PAIRS]
        shared[SCALE + pair] = own[OWN_LAUNCH] + 1
    elif bit == COUNTER_STORE:
        shared[COUNTER] = 0
    else:
        shared[MAXIMA + which - 3] = 0
    return GOES


def _launch_ends(k: Row, shared: Row, own: Row, which: int) -> int:
    streams = 2 if k[FAULT] == Fault.TWO_STREAMS else 1
    if shared[LEFT] != k[BLOCKS] * streams:
        return WAITS
    if shared[PUBLISHED] != streams:
        return NOT_ONE
    shared[LEFT] = shared[PUBLISHED] = 0
    own[AT] = MULTIPLIES
    if shared[COUNTER] != 0:
        return COUNTER_LEFT
    for slot in range(k[SLOTS]):
        if k[HOST_CLEARS]:
            shared[MAXIMA + slot] = 0
        if shared[MAXIMA + slot] != 0:
            return MAXIMA_LEFT
    return GOES


def _multiplies(k: Row, shared: Row, own: Row, which: int) -> int:
    launch = shared[LAUNCH]
    own[AT] = RUNS
    shared[LAUNCH] += 1
    if shared[LAUNCH] == k[LAUNCHES] or k[FAULT] == Fault.TWO_STREAMS:
        own[AT] = ENDED
        shared[LAUNCH] = 0
    # A ring with one pair is right where the product was given a copy that the host took before the launch.
    if k[PAIRS] == 2 and k[FAULT] != Fault.ONE_GRAPH and k[FAULT] != Fault.TWO_STREAMS:
        return GOES if shared[SCALE + launch % 2] == launch else PRODUCT_WRONG
    if k[FAULT] == Fault.PRODUCT_BEHIND_ONE_PAIR and shared[SCALE] != launch:
        return PRODUCT_WRONG
    return GOES


RING = "fp8_scale_ring.cuh"
QUANTISER = "fp8_quantize_tensor.cu"

_STORES = ("the maximum", "the scale", "the counter's 0", *(f"the 0 of slot {slot}" for slot in range(ROOM)))
_SLOTS = tuple(f"slot {slot}" for slot in range(ROOM))

_BLOCK = (
    Action("memory performs {}", _performs, (), _STORES, PENDING, beside=True),
    Action("begins and reads the scale", _begins, (BEGINS,)),
    Action("raises its slot", _collects, (COLLECTS,), source=Source(RING, "    atomicMax(fold.maxima + block")),
    Action("fences before its ticket", _releases, (RELEASES,), source=Source(RING, "    __threadfence();\n    const")),
    Action("loads {} early", _loads_early, (TICKETS,), _SLOTS),
    Action("takes a ticket", _takes_ticket, (TICKETS,), source=Source(RING, "atomicAdd(fold.counter, 1u)")),
    Action("fences behind it", _acquires, (ACQUIRES,)),
    Action("is the last", _is_last, (LOOKS,)),
    Action("is not the last", _is_not_last, (LOOKS,)),
    Action("takes a slot's maximum", _takes_slot, (TAKES,), source=Source(RING, "__uint_as_float(fold.maxima[slot])")),
    Action("publishes the scale", _stores_scale, (STORES,), source=Source(RING, "    *fold.scale = scale;")),
    Action("sets the counter back", _rearms, (REARMS,), source=Source(RING, "atomicExch(fold.counter, 0u)")),
    Action("reads the scale", _reads_late, (READS,)),
    Action("leaves", _leaves, (LEAVES,)),
)

_STREAM = (
    Action("sees the launch's end", _launch_ends, (RUNS,)),
    Action("multiplies, then launches the next", _multiplies, (MULTIPLIES,)),
)


@dataclass(frozen=True)
class Election:
    """Launches of a quantiser that fold into one ring, back to back, as the replays of a graph are.

    Args:
        blocks: of a launch.
        across: blocks of its first dimension.
        slots: over which maxima are spread.
        launches: one after the other; each begins when the one before has ended.
        pairs: of scales; a launch reads one and publishes the other, or the same one where there is one.
        host_clears: the host clears the maxima before each launch, and the last block does not.
        fault: what is wrong.
    """

    blocks: int
    across: int = 1
    slots: int = 1
    launches: int = 2
    pairs: int = 2
    host_clears: bool = False
    fault: Fault = Fault.NONE

    def model(self) -> Model:
        """The model. Raises: Refusal for parameters without meaning."""
        self._check()
        streams = 2 if self.fault is Fault.TWO_STREAMS else 1
        extent = self.across if self.fault is Fault.WRONG_EXTENT else self.blocks
        tickets = self.blocks * (self.launches if self.fault is Fault.NOT_REARMED else streams)
        most = self.blocks * (self.launches if self.fault is Fault.NOT_CLEANED else streams)
        shared = (
            Field("launch", self.launches),
            Field("left", self.blocks * streams),
            Field("counter", tickets),
            Field("published", self.blocks),
            *array("scale", self.launches, self.pairs, 2),
            *array("maximum", most, self.slots, ROOM),
        )
        own = (
            Field("launch", self.launches),
            Field("slot", self.slots - 1),
            Field("ticket", tickets),
            Field("pending", (ZERO << self.slots) - 1),
            Field("sum", most * self.slots),
            Field("taken", self.slots),
            *array("early", most + 1, self.slots, ROOM),
        )
        starts = tuple(
            (BEGINS, stream, block % self.slots, 0, 0, 0, 0, *[0] * ROOM)
            for stream in range(streams)
            for block in range(self.blocks)
        )
        constants = (self.blocks, extent, self.slots, self.launches, self.pairs, int(self.host_clears), self.fault)
        block_places = ("before", "collects", "releases", "before its ticket", "behind its ticket", "has its ticket")
        ways = ("takes maxima", "publishes", "sets back", "reads the scale", "leaves", "has left")
        return Model(
            self.name,
            constants,
            shared,
            (0,) * len(shared),
            (
                Role("block", (*block_places, *ways), DONE, own, starts, _BLOCK),
                Role(
                    "stream",
                    ("waits for the launch", "before the product", "has ended"),
                    ENDED,
                    (),
                    ((RUNS,),),
                    _STREAM,
                ),
            ),
            (
                "a block casts with the scale of another launch",
                "the last block publishes without the maximum of some block, or with one of another launch",
                "a launch ends without having published exactly once",
                "a launch ends and leaves the counter at another number than 0",
                "a launch ends and leaves maxima behind",
                "a product multiplies with another scale than its codes were cast with",
            ),
        )

    def with_fault(self, fault: Fault) -> "Election":
        """The same with a fault."""
        return replace(self, fault=fault)

    @property
    def name(self) -> str:
        """With the parameters."""
        name = (
            f"election: {self.blocks} blocks, {self.across} across, {self.slots} slots, {self.launches} launches, "
            f"{self.pairs} pairs" + (", cleared by the host" if self.host_clears else "")
        )
        return f"{name}; {WORDS[self.fault]}" if self.fault else name

    def _check(self) -> None:
        for what, value, most in (
            ("blocks", self.blocks, 16),
            ("across", self.across, self.blocks),
            ("slots", self.slots, ROOM),
            ("launches", self.launches, 8),
            ("pairs", self.pairs, 2),
        ):
            if not 1 <= value <= most:
                raise Refusal(f"election: {value} {what}; it must lie in 1..{most}")
        if self.fault is Fault.PRODUCT_BEHIND_ONE_PAIR and self.pairs != 1:
            raise Refusal(f"election: {self.pairs} pairs with the fault of one", hint="pairs=1")
        if self.fault is Fault.ONE_GRAPH and self.pairs != 2:
            raise Refusal(f"election: {self.pairs} pairs with a fault of two", hint="pairs=2")
