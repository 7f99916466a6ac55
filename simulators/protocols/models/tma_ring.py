"""A ring of stages that tensor copies fill: one producer, consumers, a full and an empty barrier for each slot.

A slot holds the number of a tile for each of the two boxes of a stage, counted from 1, or that a copy is on its way. A
barrier is its phase's parity, arrivals that are missing and boxes that are missing: announced, not landed. Copies land
in any order: each slot has an engine of its own, which knows what it has landed of a stage. A consumer is a warp: lane
0, which waits and arrives, and the others, which read when they have met it.
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
    RELEASED_EARLY = 1
    NOT_FENCED = 2
    NO_SYNCWARP = 3
    FULL_PARITY = 4
    EMPTY_PARITY = 5
    TOO_FEW_BYTES = 6
    TOO_MANY_BYTES = 7
    ONE_RELEASES = 8
    TOO_MANY_RELEASE = 9
    NOT_INITIALISED = 10
    STAGED_EARLY = 11
    WRITTEN_EARLY = 12
    TRIES_ONCE = 13


WORDS: Mapping[Fault, str] = MappingProxyType(
    {
        Fault.RELEASED_EARLY: "a consumer releases a slot before it has read it",
        Fault.NOT_FENCED: "nothing orders a consumer's reads before the copies that fill the slot again",
        Fault.NO_SYNCWARP: "lane 0 releases a slot without having met the other lanes",
        Fault.FULL_PARITY: "consumers wait for the other parity",
        Fault.EMPTY_PARITY: "the producer waits for the other parity",
        Fault.TOO_FEW_BYTES: "a stage announces one box of two",
        Fault.TOO_MANY_BYTES: "a stage announces more than its boxes bring",
        Fault.ONE_RELEASES: "a slot counts as empty when one consumer has released it",
        Fault.TOO_MANY_RELEASE: "a slot counts as empty when one more than all consumers have released it",
        Fault.NOT_INITIALISED: "consumers do not wait for the barriers to be initialised",
        Fault.STAGED_EARLY: "outputs are staged over the ring without a barrier among the consumers",
        Fault.WRITTEN_EARLY: "staged outputs are written without a barrier among the consumers",
        Fault.TRIES_ONCE: "a consumer goes on when a try_wait came back without the phase",
    }
)

MOST_STAGES = 8
MOST_TILES = 30
BOXES = 2
# What a box of a slot holds, besides the number of a tile.
EMPTY, STAGED = 0, MOST_TILES + 1

# Constants; LAG is how many tiles later a consumer releases a slot, and until when its reads may last; OVERLAYS whether
# outputs are staged over the ring.
STAGES, TILES, CONSUMERS, LAG, OVERLAYS, FAULT = range(6)
# Shared numbers; of arrays, one for each slot, or for each box of a slot.
READY, MET, STAGED_BY = 0, 1, 2
FULL_PARITY, FULL_MISSING, FULL_BOXES = 3, 3 + MOST_STAGES, 3 + 2 * MOST_STAGES
EMPTY_PARITY, EMPTY_MISSING = 3 + 3 * MOST_STAGES, 3 + 4 * MOST_STAGES
HELD, FLYING = 3 + 5 * MOST_STAGES, 3 + 5 * MOST_STAGES + BOXES * MOST_STAGES
ROOM = FLYING + BOXES * MOST_STAGES
# FULL_BOXES counts from here, because boxes may land before they are announced.
NO_BOXES = 2
# Numbers of a process. LATE is a tile whose reads may last on, counted from 1.
AT, TILE, LATE = 0, 1, 2
# Where the producer is.
INITIALISES, WAITS_EMPTY, ANNOUNCES, COPIES, COPIES_MORE, PRODUCED = range(6)
# Where a consumer is.
SYNCS, WAITS_FULL, READS, RELEASES, COMES, MEETS, STAGES_SUMS, COMES_AGAIN, MEETS_AGAIN, WRITES, DONE = range(11)
# Where an engine is, and the number of its slot.
SLOT = 1
LANDED_NOTHING, LANDED_FIRST = range(2)
# Rules.
READ_WRONG, LANDS_WRONG, UNINITIALISED, OVERFLOW, WRITTEN_WRONG = range(FIRST_RULE, FIRST_RULE + 5)


def _ends_phase(shared: Row, parity: int, missing: int, count: int) -> None:
    shared[parity] ^= 1
    shared[missing] = count


def _initialises(k: Row, shared: Row, own: Row, which: int) -> int:
    shared[READY] = 1
    own[AT] = WAITS_EMPTY if k[TILES] else PRODUCED
    return GOES


def _waits_empty(k: Row, shared: Row, own: Row, which: int) -> int:
    slot, turn = own[TILE] % k[STAGES], own[TILE] // k[STAGES] % 2
    wanted = turn if k[FAULT] == Fault.EMPTY_PARITY else turn ^ 1
    # Of a barrier that has ended no phase, the one before its first counts as ended: its parity is 1.
    if shared[EMPTY_PARITY + slot] == wanted:
        return WAITS
    own[AT] = ANNOUNCES
    return GOES


def _announces(k: Row, shared: Row, own: Row, which: int) -> int:
    slot = own[TILE] % k[STAGES]
    boxes = {int(Fault.TOO_FEW_BYTES): 1, int(Fault.TOO_MANY_BYTES): BOXES + 1}.get(k[FAULT], BOXES)
    own[AT] = COPIES
    if shared[FULL_MISSING + slot] == 0:
        return OVERFLOW
    shared[FULL_BOXES + slot] += boxes
    shared[FULL_MISSING + slot] -= 1
    _looks_full(shared, slot)
    return GOES


def _looks_full(shared: Row, slot: int) -> None:
    if shared[FULL_MISSING + slot] == 0 and shared[FULL_BOXES + slot] == NO_BOXES:
        _ends_phase(shared, FULL_PARITY + slot, FULL_MISSING + slot, 1)


def _copies(k: Row, shared: Row, own: Row, which: int) -> int:
    """Order the first box of a stage, then the second."""
    slot = own[TILE] % k[STAGES]
    box = BOXES * slot + own[AT] - COPIES
    shared[FLYING + box] = 1
    shared[HELD + box] = own[TILE] + 1
    own[AT] += 1
    if own[AT] > COPIES_MORE:
        own[TILE] += 1
        own[AT] = WAITS_EMPTY
        if own[TILE] == k[TILES]:
            own[AT], own[TILE] = PRODUCED, 0
    return GOES


def _lands(k: Row, shared: Row, own: Row, which: int) -> int:
    slot, box = divmod(which, BOXES)
    if slot != own[SLOT] or not shared[FLYING + which]:
        return WAITS
    own[AT] = LANDED_FIRST + box if own[AT] == LANDED_NOTHING else LANDED_NOTHING
    shared[FLYING + which] = 0
    if shared[HELD + which] == STAGED:
        return LANDS_WRONG
    if shared[FULL_BOXES + slot] == 0:
        return OVERFLOW
    shared[FULL_BOXES + slot] -= 1
    _looks_full(shared, slot)
    return GOES


def _syncs(k: Row, shared: Row, own: Row, which: int) -> int:
    if not shared[READY] and k[FAULT] != Fault.NOT_INITIALISED:
        return WAITS
    own[AT] = WAITS_FULL if k[TILES] else COMES
    return GOES


def _waits_full(k: Row, shared: Row, own: Row, which: int) -> int:
    if not shared[READY]:
        return UNINITIALISED
    slot, turn = own[TILE] % k[STAGES], own[TILE] // k[STAGES] % 2
    wanted = turn ^ 1 if k[FAULT] == Fault.FULL_PARITY else turn
    if shared[FULL_PARITY + slot] == wanted and k[FAULT] != Fault.TRIES_ONCE:
        return WAITS
    own[AT] = RELEASES if k[FAULT] == Fault.RELEASED_EARLY else READS
    return GOES


def _holds(k: Row, shared: Row, tile: int) -> bool:
    """Whether both boxes of the slot of a tile hold it."""
    first = BOXES * (tile % k[STAGES])
    boxes = range(first, first + BOXES)
    return all(shared[HELD + box] == tile + 1 and not shared[FLYING + box] for box in boxes)


def _reads(k: Row, shared: Row, own: Row, which: int) -> int:
    """Read a tile, or begin to where the reads may last."""
    is_late = k[LAG] > 0 or k[FAULT] == Fault.NOT_FENCED or k[FAULT] == Fault.NO_SYNCWARP
    if is_late and own[LATE]:
        return WAITS  # a new read begins when the one before has ended
    is_right = _holds(k, shared, own[TILE])
    if is_late:
        own[LATE] = own[TILE] + 1
    own[AT] = RELEASES
    if k[FAULT] == Fault.RELEASED_EARLY:
        _advances(k, own)
    return GOES if is_right else READ_WRONG


def _reads_on(k: Row, shared: Row, own: Row, which: int) -> int:
    """The end of reads that may last."""
    if own[LATE] == 0:
        return WAITS
    is_right = _holds(k, shared, own[LATE] - 1)
    own[LATE] = 0
    return GOES if is_right else READ_WRONG


def _advances(k: Row, own: Row) -> None:
    own[TILE] += 1
    own[AT] = WAITS_FULL
    if own[TILE] == k[TILES]:
        own[AT], own[TILE] = COMES, 0
        if k[FAULT] == Fault.STAGED_EARLY:
            own[AT] = STAGES_SUMS


def _releases(k: Row, shared: Row, own: Row, which: int) -> int:
    tile = own[TILE] - k[LAG]
    if k[LAG] and own[LATE] and own[LATE] - 1 <= tile:
        return WAITS  # what it releases has been read to the end
    if k[FAULT] == Fault.RELEASED_EARLY:
        own[AT] = READS
    else:
        _advances(k, own)
    if tile < 0:
        return GOES
    slot = tile % k[STAGES]
    if shared[EMPTY_MISSING + slot] == 0:
        return OVERFLOW
    shared[EMPTY_MISSING + slot] -= 1
    if shared[EMPTY_MISSING + slot] == 0:
        _ends_phase(shared, EMPTY_PARITY + slot, EMPTY_MISSING + slot, _releasing(k))
    return GOES


def _releasing(k: Row) -> int:
    """Arrivals that end a phase of an empty barrier."""
    if k[FAULT] == Fault.ONE_RELEASES:
        return 1
    return k[CONSUMERS] + 1 if k[FAULT] == Fault.TOO_MANY_RELEASE else k[CONSUMERS]


def _comes(k: Row, shared: Row, own: Row, which: int) -> int:
    if own[LATE]:
        return WAITS  # a barrier waits for all lanes, and a warp for its last products
    shared[MET] += 1
    own[AT] += 1
    if not k[OVERLAYS]:
        own[AT] = DONE
    return GOES


def _meets(k: Row, shared: Row, own: Row, which: int) -> int:
    if shared[MET] < (1 if own[AT] == MEETS else 2) * k[CONSUMERS]:
        return WAITS
    own[AT] += 1
    return GOES


def _stages(k: Row, shared: Row, own: Row, which: int) -> int:
    if own[LATE]:
        return WAITS
    shared[STAGED_BY] += 1
    for box in range(BOXES * k[STAGES]):
        shared[HELD + box] = STAGED
    own[AT] = COMES_AGAIN
    if k[FAULT] == Fault.STAGED_EARLY:
        shared[MET] += 1  # the first barrier, which nobody waits at
    if k[FAULT] == Fault.WRITTEN_EARLY:
        own[AT] = WRITES
    return GOES


def _writes(k: Row, shared: Row, own: Row, which: int) -> int:
    own[AT] = DONE
    return GOES if shared[STAGED_BY] == k[CONSUMERS] else WRITTEN_WRONG


KERNEL = "fp8_a8_gemm_tma.cu"

_BOXES = tuple(f"box {box % BOXES} of slot {box // BOXES}" for box in range(BOXES * MOST_STAGES))

_PRODUCER = (
    Action(
        "initialises the barriers",
        _initialises,
        (INITIALISES,),
        source=Source(KERNEL, "        fence_mbarrier_init();"),
    ),
    Action(
        "finds the slot empty",
        _waits_empty,
        (WAITS_EMPTY,),
        source=Source(KERNEL, "shared.empty[turn.slot]), turn.parity"),
    ),
    Action("announces a stage", _announces, (ANNOUNCES,), source=Source(KERNEL, "    mbarrier_arrive_expect_tx(full,")),
    Action("orders its first box", _copies, (COPIES,), source=Source(KERNEL, "shared_address(&stage.activations)")),
    Action("orders its second box", _copies, (COPIES_MORE,), source=Source(KERNEL, "&stage.weights.bytes[row]")),
)

_ENGINE = (
    Action("{} lands", _lands, (LANDED_NOTHING,), _BOXES),
    Action("{} lands last", _lands, tuple(LANDED_FIRST + box for box in range(BOXES)), _BOXES),
)

_CONSUMER = (
    Action("comes in", _syncs, (SYNCS,)),
    Action(
        "finds the slot full", _waits_full, (WAITS_FULL,), source=Source(KERNEL, "shared.full[turn.slot]), turn.parity")
    ),
    Action("reads the slot", _reads, (READS,), source=Source(KERNEL, "multiply_stage(sum, activations + offset")),
    Action("reads on", _reads_on, beside=True),
    Action("releases the slot", _releases, (RELEASES,), source=Source(KERNEL, "mbarrier_arrive(empty)")),
    Action("comes to the barrier", _comes, (COMES, COMES_AGAIN)),
    Action("has met the others", _meets, (MEETS, MEETS_AGAIN)),
    Action("stages its sums", _stages, (STAGES_SUMS,), source=Source(KERNEL, "    stage_sums<Output>(shared.staged")),
    Action("writes outputs", _writes, (WRITES,), source=Source(KERNEL, "    write_tile<Output")),
)


@dataclass(frozen=True)
class TmaRing:
    """One block: a producer and its consumers.

    Args:
        stages: slots of the ring.
        tiles: stages of K that go through it.
        consumers: warps that read every tile.
        lag: tiles by which a consumer releases a slot later than it reads it, its products still running until then.
        overlays: outputs are staged over the ring.
        fault: what is wrong.
    """

    stages: int
    tiles: int
    consumers: int
    lag: int = 0
    overlays: bool = True
    fault: Fault = Fault.NONE

    def model(self) -> Model:
        """The model. Raises: Refusal for parameters without meaning."""
        self._check()
        releasing = {Fault.ONE_RELEASES: 1, Fault.TOO_MANY_RELEASE: self.consumers + 1}.get(self.fault, self.consumers)
        boxes = BOXES * self.stages
        fields = (
            Field("ready", 1),
            Field("met", 2 * self.consumers),
            Field("staged", self.consumers),
            *array("full parity", 1, self.stages, MOST_STAGES),
            *array("full missing", 1, self.stages, MOST_STAGES),
            *array("full boxes", NO_BOXES + BOXES + 1, self.stages, MOST_STAGES),
            *array("empty parity", 1, self.stages, MOST_STAGES),
            *array("empty missing", releasing, self.stages, MOST_STAGES),
            *array("box", STAGED, boxes, BOXES * MOST_STAGES),
            *array("on its way", 1, boxes, BOXES * MOST_STAGES),
        )
        start = [0] * len(fields)
        for slot in range(self.stages):
            start[FULL_MISSING + slot], start[FULL_BOXES + slot], start[EMPTY_MISSING + slot] = 1, NO_BOXES, releasing
        producer = (
            "initialises",
            "waits for an empty slot",
            "announces",
            "orders a box",
            "orders another",
            "has produced",
        )
        consumer = (
            "comes in",
            "waits for a full slot",
            "reads",
            "releases",
            "comes to the barrier",
            "waits for the others",
        )
        more = ("stages", "comes to the second barrier", "waits for the others again", "writes", "is done")
        return Model(
            self.name,
            (self.stages, self.tiles, self.consumers, self.lag, int(self.overlays), self.fault),
            fields,
            tuple(start),
            (
                Role("producer", producer, PRODUCED, (Field("tile", self.tiles),), ((INITIALISES, 0),), _PRODUCER),
                Role(
                    "consumer",
                    (*consumer, *more),
                    DONE,
                    (Field("tile", self.tiles), Field("late", self.tiles)),
                    ((SYNCS, 0, 0),) * self.consumers,
                    _CONSUMER,
                ),
                Role(
                    "engine",
                    ("has landed nothing", *(f"has landed box {box}" for box in range(BOXES))),
                    LANDED_NOTHING,
                    (Field("slot", self.stages - 1),),
                    tuple((LANDED_NOTHING, slot) for slot in range(self.stages)),
                    _ENGINE,
                ),
            ),
            (
                "a consumer reads a slot that does not hold its tile",
                "a copy lands on outputs that are staged there",
                "a consumer waits at a barrier that is not initialised",
                "a barrier gets more arrivals or bytes than its phase has",
                "a consumer writes outputs that others have not staged",
            ),
        )

    def with_fault(self, fault: Fault) -> "TmaRing":
        """The same with a fault."""
        return replace(self, fault=fault)

    @property
    def name(self) -> str:
        """With the parameters."""
        name = f"TMA ring: {self.stages} stages, {self.tiles} tiles, {self.consumers} consumers"
        name += f", released {self.lag} later" if self.lag else ""
        name += "" if self.overlays else ", nothing over the ring"
        return f"{name}; {WORDS[self.fault]}" if self.fault else name

    def _check(self) -> None:
        for what, value, least, most in (
            ("stages", self.stages, 1, MOST_STAGES),
            ("tiles", self.tiles, 0, MOST_TILES),
            ("consumers", self.consumers, 1, 8),
            ("tiles of lag", self.lag, 0, 1),
        ):
            if not least <= value <= most:
                raise Refusal(f"TMA ring: {value} {what}; it must lie in {least}..{most}")
        if self.fault in (Fault.STAGED_EARLY, Fault.WRITTEN_EARLY) and not self.overlays:
            raise Refusal(f"TMA ring: fault {self.fault.name} where nothing is staged over the ring")
