"""A ring in each block of a cluster, of whose tiles every block's producer brings one part, to all blocks at once.

A slot of a block holds, part by part, the number of a tile, counted from 1, and whether the part is on its way. A
producer may order its part of a tile when the consumers of all blocks have released the slot: each arrives at the empty
barriers of all blocks. It announces the bytes of all parts at its own block's full barrier; a peer's part may land
before. A block must not leave while a peer may still touch its shared memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.model import FIRST_RULE, GOES, WAITS, Action, Field, Model, Role, Row, array


class Fault(IntEnum):
    """What is wrong with a faulty one."""

    NONE = 0
    RELEASES_OWN_BLOCK = 1
    COUNTS_OWN_BLOCK = 2
    RELEASED_EARLY = 3
    ANNOUNCES_OWN_PART = 4
    NOT_INITIALISED = 5
    LEAVES_EARLY = 6
    EMPTY_PARITY = 7


WORDS: Mapping[Fault, str] = MappingProxyType(
    {
        Fault.RELEASES_OWN_BLOCK: "consumers release a slot to the producer of their own block alone",
        Fault.COUNTS_OWN_BLOCK: "a slot counts as empty when as many consumers as one block has have released it",
        Fault.RELEASED_EARLY: "a consumer releases a slot before it has read it",
        Fault.ANNOUNCES_OWN_PART: "a producer announces its own part's bytes alone",
        Fault.NOT_INITIALISED: "blocks do not wait for each other's barriers to be initialised",
        Fault.LEAVES_EARLY: "blocks do not wait for each other before they leave",
        Fault.EMPTY_PARITY: "producers wait for the other parity",
    }
)

MOST_BLOCKS, MOST_STAGES = 3, 4
_SLOTS = MOST_BLOCKS * MOST_STAGES
_PARTS = MOST_BLOCKS * _SLOTS

# Constants.
BLOCKS, STAGES, TILES, CONSUMERS, FAULT = range(5)
# Shared numbers: blocks that are initialised, as bits; processes at the cluster's barrier; processes that have left, by
# block; then by block and slot, and last by block, slot and part. FULL_BYTES counts parts from NO_PARTS on.
READY, MET, GONE = range(3)
FULL_PARITY, FULL_MISSING, FULL_BYTES = (GONE + MOST_BLOCKS + index * _SLOTS for index in range(3))
EMPTY_PARITY, EMPTY_MISSING = (GONE + MOST_BLOCKS + index * _SLOTS for index in range(3, 5))
HELD = GONE + MOST_BLOCKS + 5 * _SLOTS
FLYING = HELD + _PARTS
NO_PARTS = MOST_BLOCKS
# Numbers of a process; PEER is the block to which a consumer releases next.
AT, BLOCK, TILE, PEER = range(4)
# Where a producer is, and a consumer.
INITIALISES, SYNCS, WAITS_EMPTY, ANNOUNCES, COPIES, FINISHES, MEETS, LEFT = range(8)
COMES_IN, WAITS_FULL, READS, RELEASES, ENDS, MEETS_ALL, GONE_AWAY = range(7)
# Rules.
READ_WRONG, UNINITIALISED, OVERFLOW, TOUCHES_GONE = range(FIRST_RULE, FIRST_RULE + 4)


def _slot(block: int, slot: int) -> int:
    return block * MOST_STAGES + slot


def _part(block: int, slot: int, part: int) -> int:
    return _slot(block, slot) * MOST_BLOCKS + part


def _is_gone(k: Row, shared: Row, block: int) -> bool:
    return shared[GONE + block] == 1 + k[CONSUMERS]


def _initialises(k: Row, shared: Row, own: Row, which: int) -> int:
    shared[READY] |= 1 << own[BLOCK]
    own[AT] = SYNCS
    return GOES


def _is_ready(k: Row, shared: Row, own: Row) -> bool:
    wanted = 1 << own[BLOCK] if k[FAULT] == Fault.NOT_INITIALISED else (1 << k[BLOCKS]) - 1
    return shared[READY] & wanted == wanted


def _syncs(k: Row, shared: Row, own: Row, which: int) -> int:
    if not _is_ready(k, shared, own):
        return WAITS
    own[AT] += 1
    return GOES


def _waits_empty(k: Row, shared: Row, own: Row, which: int) -> int:
    slot, turn = own[TILE] % k[STAGES], own[TILE] // k[STAGES] % 2
    wanted = turn if k[FAULT] == Fault.EMPTY_PARITY else turn ^ 1
    if shared[EMPTY_PARITY + _slot(own[BLOCK], slot)] == wanted:
        return WAITS
    own[AT] = ANNOUNCES
    return GOES


def _looks_full(shared: Row, at: int) -> None:
    if shared[FULL_MISSING + at] == 0 and shared[FULL_BYTES + at] == NO_PARTS:
        shared[FULL_PARITY + at] ^= 1
        shared[FULL_MISSING + at] = 1


def _announces(k: Row, shared: Row, own: Row, which: int) -> int:
    at = _slot(own[BLOCK], own[TILE] % k[STAGES])
    own[AT] = COPIES
    if shared[FULL_MISSING + at] == 0:
        return OVERFLOW
    shared[FULL_MISSING + at] = 0
    shared[FULL_BYTES + at] += 1 if k[FAULT] == Fault.ANNOUNCES_OWN_PART else k[BLOCKS]
    _looks_full(shared, at)
    return GOES


def _copies(k: Row, shared: Row, own: Row, which: int) -> int:
    """Order this block's part of a tile, for all blocks."""
    slot, code = own[TILE] % k[STAGES], GOES
    for block in range(k[BLOCKS]):
        if not shared[READY] >> block & 1:
            code = UNINITIALISED
        shared[HELD + _part(block, slot, own[BLOCK])] = own[TILE] + 1
        shared[FLYING + _part(block, slot, own[BLOCK])] = 1
    own[TILE] += 1
    own[AT] = WAITS_EMPTY
    if own[TILE] == k[TILES]:
        own[AT], own[TILE] = FINISHES, 0
    return code


def _lands(k: Row, shared: Row, own: Row, which: int) -> int:
    """Part of this producer on its way to some block and slot."""
    block, slot = divmod(which, MOST_STAGES)
    if block >= k[BLOCKS] or slot >= k[STAGES] or not shared[FLYING + _part(block, slot, own[BLOCK])]:
        return WAITS
    shared[FLYING + _part(block, slot, own[BLOCK])] = 0
    if _is_gone(k, shared, block):
        return TOUCHES_GONE
    if shared[FULL_BYTES + which] == 0:
        return OVERFLOW
    shared[FULL_BYTES + which] -= 1
    _looks_full(shared, which)
    return GOES


def _waits_full(k: Row, shared: Row, own: Row, which: int) -> int:
    slot, turn = own[TILE] % k[STAGES], own[TILE] // k[STAGES] % 2
    if shared[FULL_PARITY + _slot(own[BLOCK], slot)] == turn:
        return WAITS
    own[AT] = RELEASES if k[FAULT] == Fault.RELEASED_EARLY else READS
    return GOES


def _reads(k: Row, shared: Row, own: Row, which: int) -> int:
    slot, is_right = own[TILE] % k[STAGES], True
    for part in range(k[BLOCKS]):
        at = _part(own[BLOCK], slot, part)
        is_right = is_right and shared[HELD + at] == own[TILE] + 1 and not shared[FLYING + at]
    if k[FAULT] == Fault.RELEASED_EARLY:
        _goes_on(k, own)
    else:
        own[AT] = RELEASES
    return GOES if is_right else READ_WRONG


def _releases(k: Row, shared: Row, own: Row, which: int) -> int:
    """Arrive at the empty barrier of one block after the other."""
    block = own[BLOCK] if k[FAULT] == Fault.RELEASES_OWN_BLOCK else own[PEER]
    at = _slot(block, own[TILE] % k[STAGES])
    own[PEER] += 1
    if own[PEER] == k[BLOCKS] or k[FAULT] == Fault.RELEASES_OWN_BLOCK:
        own[PEER] = 0
        if k[FAULT] == Fault.RELEASED_EARLY:
            own[AT] = READS
        else:
            _goes_on(k, own)
    if _is_gone(k, shared, block):
        return TOUCHES_GONE
    shared[EMPTY_MISSING + at] -= 1
    if shared[EMPTY_MISSING + at] == 0:
        shared[EMPTY_PARITY + at] ^= 1
        shared[EMPTY_MISSING + at] = _releasing(k)
    return GOES


def _releasing(k: Row) -> int:
    one = k[FAULT] == Fault.RELEASES_OWN_BLOCK or k[FAULT] == Fault.COUNTS_OWN_BLOCK
    return k[CONSUMERS] if one else k[CONSUMERS] * k[BLOCKS]


def _goes_on(k: Row, own: Row) -> None:
    own[TILE] += 1
    own[AT] = WAITS_FULL
    if own[TILE] == k[TILES]:
        own[AT], own[TILE] = ENDS, 0


def _finishes(k: Row, shared: Row, own: Row, which: int) -> int:
    shared[MET] += 1
    own[AT] += 1
    return GOES


def _leaves(k: Row, shared: Row, own: Row, which: int) -> int:
    if shared[MET] < k[BLOCKS] * (1 + k[CONSUMERS]) and k[FAULT] != Fault.LEAVES_EARLY:
        return WAITS
    shared[GONE + own[BLOCK]] += 1
    own[AT] += 1
    return GOES


_PLACES = tuple(f"slot {at % MOST_STAGES} of block {at // MOST_STAGES}" for at in range(_SLOTS))

_PRODUCER_PLACES = (
    "initialises",
    "waits for the cluster",
    "waits for an empty slot",
    "announces",
    "orders its part",
    "comes to the end",
    "waits for the cluster's end",
    "has left",
)
_CONSUMER_PLACES = (
    "waits for the cluster",
    "waits for a full slot",
    "reads",
    "releases",
    "comes to the end",
    "waits for the cluster's end",
    "has left",
)

_PRODUCER = (
    Action("initialises its block's barriers", _initialises, (INITIALISES,)),
    Action("meets the cluster", _syncs, (SYNCS,)),
    Action("finds the slot empty", _waits_empty, (WAITS_EMPTY,)),
    Action("announces a tile", _announces, (ANNOUNCES,)),
    Action("orders its part for all blocks", _copies, (COPIES,)),
    Action("its part lands in {}", _lands, (), _PLACES, beside=True),
    Action("comes to the cluster's barrier", _finishes, (FINISHES,)),
    Action("leaves", _leaves, (MEETS,)),
)

_CONSUMER = (
    Action("meets the cluster", _syncs, (COMES_IN,)),
    Action("finds the slot full", _waits_full, (WAITS_FULL,)),
    Action("reads the slot", _reads, (READS,)),
    Action("releases the slot to a block", _releases, (RELEASES,)),
    Action("comes to the cluster's barrier", _finishes, (ENDS,)),
    Action("leaves", _leaves, (MEETS_ALL,)),
)


@dataclass(frozen=True)
class MulticastRing:
    """One cluster.

    Args:
        blocks: of the cluster, each with a producer.
        stages: slots of each block's ring.
        tiles: that go through it.
        consumers: warps of each block.
        fault: what is wrong.
    """

    blocks: int
    stages: int
    tiles: int
    consumers: int
    fault: Fault = Fault.NONE

    def model(self) -> Model:
        """The model. Raises: Refusal for parameters without meaning."""
        self._check()
        one_block = self.fault in (Fault.RELEASES_OWN_BLOCK, Fault.COUNTS_OWN_BLOCK)
        releasing = self.consumers * (1 if one_block else self.blocks)
        inside = [
            block < self.blocks and slot < self.stages for block in range(MOST_BLOCKS) for slot in range(MOST_STAGES)
        ]
        parts = [is_in and part < self.blocks for is_in in inside for part in range(MOST_BLOCKS)]
        processes = self.blocks * (1 + self.consumers)
        fields = (
            Field("ready", (1 << self.blocks) - 1),
            Field("met", processes),
            *array("gone", 1 + self.consumers, self.blocks, MOST_BLOCKS),
            *_by("full parity", 1, inside),
            *_by("full missing", 1, inside),
            *_by("full parts", NO_PARTS + self.blocks, inside),
            *_by("empty parity", 1, inside),
            *_by("empty missing", releasing, inside),
            *_by("part", self.tiles, parts),
            *_by("on its way", 1, parts),
        )
        start = [0] * len(fields)
        for at, is_in in enumerate(inside):
            if is_in:
                start[FULL_MISSING + at], start[FULL_BYTES + at], start[EMPTY_MISSING + at] = 1, NO_PARTS, releasing
        block, tile = Field("block", self.blocks - 1), Field("tile", self.tiles)
        return Model(
            self.name,
            (self.blocks, self.stages, self.tiles, self.consumers, self.fault),
            fields,
            tuple(start),
            (
                Role("producer", _PRODUCER_PLACES, LEFT, (block, tile), self._starts(1, INITIALISES, 1), _PRODUCER),
                Role(
                    "consumer",
                    _CONSUMER_PLACES,
                    GONE_AWAY,
                    (block, tile, Field("peer", self.blocks)),
                    self._starts(self.consumers, COMES_IN, 2),
                    _CONSUMER,
                ),
            ),
            (
                "a consumer reads a slot that does not hold its tile",
                "a copy reaches a block whose barriers are not initialised",
                "a barrier gets more bytes than its phase has",
                "something reaches the shared memory of a block that has left",
            ),
        )

    def _starts(self, count: int, place: int, more: int) -> tuple[tuple[int, ...], ...]:
        return tuple((place, block, *[0] * more) for block in range(self.blocks) for _ in range(count))

    def with_fault(self, fault: Fault) -> "MulticastRing":
        """The same with a fault."""
        return replace(self, fault=fault)

    @property
    def name(self) -> str:
        """With the parameters."""
        extents = f"{self.blocks} blocks, {self.stages} stages, {self.tiles} tiles, {self.consumers} consumers"
        name = f"multicast ring: {extents}"
        return f"{name}; {WORDS[self.fault]}" if self.fault else name

    def _check(self) -> None:
        for what, value, least, most in (
            ("blocks", self.blocks, 1, MOST_BLOCKS),
            ("stages", self.stages, 1, MOST_STAGES),
            ("tiles", self.tiles, 1, 30),
            ("consumers", self.consumers, 1, 4),
        ):
            if not least <= value <= most:
                raise Refusal(f"multicast ring: {value} {what}; it must lie in {least}..{most}")


def _by(name: str, most: int, inside: list[bool]) -> tuple[Field, ...]:
    return tuple(Field(f"{name}[{at}]", most if is_in else 0) for at, is_in in enumerate(inside))
