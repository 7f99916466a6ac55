"""A ring of slots that the warps of a block fill by cp.async, each its share, and read whole.

A tile goes into slot tile % slots, the next one that goes there a generation later. Of a slot it is known how many
warps have ordered their share of which generation last (modulo 3), and how many shares are on their way; a warp knows
to which slots its own are. Shares land in any order. A crosswise operand goes through registers: its shares land at
once. A group is a tile's share, or empty behind the last tile.

    for each stage   wait for its group, barrier, fetch a later tile, multiply       with a slot more than stages
                     wait for its group, barrier, multiply, barrier, fetch           with a lean ring

Example: two stages and three slots. While tile 0 is multiplied, tile 1 is on its way and tile 2 is fetched into slot 2.
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
    Shared,
    Source,
    array,
)


class Fault(IntEnum):
    """What is wrong with a faulty one."""

    NONE = 0
    WAITS_FOR_TOO_FEW = 1
    EMPTY_NOT_COMMITTED = 2
    NO_BARRIER = 3
    NO_SECOND_BARRIER = 4
    SLOT_SHORT = 5
    NO_DRAIN = 6
    NO_LAST_BARRIER = 7
    WRITTEN_EARLY = 8


WORDS: Mapping[Fault, str] = MappingProxyType(
    {
        Fault.WAITS_FOR_TOO_FEW: "the wait leaves one group more on its way",
        Fault.EMPTY_NOT_COMMITTED: "no group is committed where nothing is fetched",
        Fault.NO_BARRIER: "no barrier behind the wait",
        Fault.NO_SECOND_BARRIER: "no barrier before a lean ring is filled again",
        Fault.SLOT_SHORT: "a lean ring under a fetch that comes before the products",
        Fault.NO_DRAIN: "nothing waits for the other warps before outputs are staged over the ring",
        Fault.NO_LAST_BARRIER: "no barrier behind the last tile's products, before outputs are staged over the ring",
        Fault.WRITTEN_EARLY: "staged outputs are written without a barrier",
    }
)

MOST_STAGES = 8
MOST_SLOTS = MOST_STAGES + 1
GENERATIONS = 3

# Constants; IS_LEAN: fetched behind a second barrier; CROSSWISE: through registers; DRAINS: waits and meets at the end.
STAGES, SLOTS, TILES, WARPS, IS_LEAN, CROSSWISE, DRAINS, FAULT = range(8)
# Shared numbers: warps at the barrier, its phase, warps that have staged, shares on their way by slot, and warps by
# slot and generation.
MET, PHASE, STAGED, FLYING = range(4)
LATEST = FLYING + MOST_SLOTS
# Numbers of a warp: the tile that it reads next, counted from -stages; the barrier's phase as it knows it; whether its
# share is on its way, by slot.
AT, STEP, OWN_PHASE, ON_THE_WAY = range(4)
# Where a warp is.
WAITS_GROUP, MEETS, FETCHES, MULTIPLIES, COMES, MEETS_AGAIN, REFILLS, DRAINING, DRAINED, STAGES_SUMS = range(10)
COMES_LAST, MEETS_LAST, WRITES, DONE = range(10, 14)
# Rules.
READ_WRONG, LANDS_WRONG, WRITTEN_WRONG = range(FIRST_RULE, FIRST_RULE + 3)


def _comes_to_barrier(k: Row, shared: Shared) -> None:
    shared[MET] += 1
    if shared[MET] == k[WARPS]:
        shared[MET] = 0
        shared[PHASE] ^= 1


def _only_fetches(k: Row, shared: Shared, own: Row, which: int) -> int:
    """The first rounds wait for nothing."""
    if own[STEP] >= k[STAGES]:
        return WAITS
    own[AT] = REFILLS if k[IS_LEAN] else FETCHES
    return GOES


def _waits_group(k: Row, shared: Shared, own: Row, which: int) -> int:
    if own[STEP] < k[STAGES]:
        return WAITS
    left = k[STAGES] if k[FAULT] == Fault.WAITS_FOR_TOO_FEW else k[STAGES] - 1
    groups = min(own[STEP], k[TILES]) if k[FAULT] == Fault.EMPTY_NOT_COMMITTED else own[STEP]
    # Older ones have landed: their slots have been ordered anew, after this warp had read them.
    waited_for = range(max(0, groups - k[SLOTS]), min(groups - left, k[TILES]))
    if any(own[ON_THE_WAY + tile % k[SLOTS]] for tile in waited_for):
        return WAITS
    if k[FAULT] == Fault.NO_BARRIER:
        own[AT] = MULTIPLIES if k[IS_LEAN] else FETCHES
    else:
        _comes_to_barrier(k, shared)
        own[AT] = MEETS
    return GOES


def _meets(k: Row, shared: Shared, own: Row, which: int) -> int:
    if shared[PHASE] == own[OWN_PHASE]:
        return WAITS
    own[OWN_PHASE] ^= 1
    if own[AT] == MEETS:
        own[AT] = MULTIPLIES if k[IS_LEAN] else FETCHES
    else:
        own[AT] = {MEETS_AGAIN: REFILLS, DRAINED: STAGES_SUMS, MEETS_LAST: WRITES}[own[AT]]
    return GOES


def _fetches(k: Row, shared: Shared, own: Row, which: int) -> int:
    """Order this warp's share of a later tile, if there is one, and commit the group."""
    tile = own[STEP]
    if own[AT] == FETCHES:
        own[AT] = MULTIPLIES if own[STEP] >= k[STAGES] else REFILLS
    if own[AT] == REFILLS:
        _goes_on(k, own)
    is_there = tile < k[TILES]
    if is_there:
        slot, generation = tile % k[SLOTS], tile // k[SLOTS]
        shared.add(LATEST + GENERATIONS * slot + generation % GENERATIONS, -1)
        shared.add(LATEST + GENERATIONS * slot + (generation + 1) % GENERATIONS, 1)
        if not k[CROSSWISE]:
            own[ON_THE_WAY + slot] += 1
            shared.add(FLYING + slot, 1)
        if shared[STAGED]:
            return LANDS_WRONG
    return GOES


def _goes_on(k: Row, own: Row) -> None:
    own[STEP] += 1
    own[AT] = WAITS_GROUP
    if own[STEP] == k[STAGES] + k[TILES]:
        own[AT] = DRAINING if k[DRAINS] and k[FAULT] != Fault.NO_DRAIN else STAGES_SUMS


def _lands(k: Row, shared: Shared, own: Row, which: int) -> int:
    own[ON_THE_WAY + which] -= 1
    shared.add(FLYING + which, -1)
    return LANDS_WRONG if shared[STAGED] else GOES


def _multiplies(k: Row, shared: Shared, own: Row, which: int) -> int:
    tile = own[STEP] - k[STAGES]
    slot, generation = tile % k[SLOTS], tile // k[SLOTS] + 1
    whole = shared[LATEST + GENERATIONS * slot + generation % GENERATIONS] == k[WARPS]
    is_right = whole and not shared[FLYING + slot] and not shared[STAGED]
    is_last = tile == k[TILES] - 1 and k[FAULT] == Fault.NO_LAST_BARRIER
    if k[IS_LEAN]:
        own[AT] = REFILLS if is_last or k[FAULT] == Fault.NO_SECOND_BARRIER else COMES
    else:
        _goes_on(k, own)
    return GOES if is_right else READ_WRONG


def _comes(k: Row, shared: Shared, own: Row, which: int) -> int:
    if own[AT] == DRAINING and any(own[ON_THE_WAY + slot] for slot in range(k[SLOTS])):
        return WAITS
    _comes_to_barrier(k, shared)
    own[AT] += 1
    return GOES


def _stages(k: Row, shared: Shared, own: Row, which: int) -> int:
    shared[STAGED] += 1
    own[AT] = WRITES if k[FAULT] == Fault.WRITTEN_EARLY else COMES_LAST
    return GOES


def _writes(k: Row, shared: Shared, own: Row, which: int) -> int:
    own[AT], own[STEP], own[OWN_PHASE] = DONE, 0, 0
    return GOES if shared[STAGED] == k[WARPS] else WRITTEN_WRONG


KERNEL = "mm_fp8.cu"

_WARP = (
    Action(
        "its share of slot {} lands",
        _lands,
        choices=tuple(map(str, range(MOST_SLOTS))),
        each=ON_THE_WAY,
        beside=True,
    ),
    Action("only fetches yet", _only_fetches, (WAITS_GROUP,)),
    Action(
        "waits for its group", _waits_group, (WAITS_GROUP,), source=Source(KERNEL, "cp_async_wait_group<kStages - 1>()")
    ),
    Action("has met the others", _meets, (MEETS, MEETS_AGAIN, DRAINED, MEETS_LAST)),
    Action("fetches", _fetches, (FETCHES, REFILLS), source=Source(KERNEL, "copy_tile<Operands::kACrosswise")),
    Action("multiplies", _multiplies, (MULTIPLIES,), source=Source(KERNEL, "            multiply_stage(sum, rings.a")),
    Action("comes to the barrier", _comes, (COMES, DRAINING, COMES_LAST)),
    Action("stages its sums", _stages, (STAGES_SUMS,), source=Source(KERNEL, "    stage_sums<Block, Output")),
    Action("writes outputs", _writes, (WRITES,), source=Source(KERNEL, "    write_tile<Block")),
)


@dataclass(frozen=True)
class CpAsyncRing:
    """One block whose warps fill a ring for one operand.

    Args:
        stages: tiles that are fetched ahead.
        tiles: stages of K.
        warps: of the block.
        lean: as many slots as stages, filled behind a second barrier; else one more, filled before the products.
        crosswise: shares go through registers and land at once.
        drains: waits for all groups and meets the others before outputs are staged over the ring.
        fault: what is wrong.
    """

    stages: int
    tiles: int
    warps: int
    lean: bool = False
    crosswise: bool = False
    drains: bool = True
    fault: Fault = Fault.NONE

    def model(self) -> Model:
        """The model. Raises: Refusal for parameters without meaning."""
        self._check()
        slots = self.stages if self.lean or self.fault is Fault.SLOT_SHORT else self.stages + 1
        fields = (
            Field("met", self.warps),
            Field("phase", 1),
            Field("staged", self.warps),
            *array("on their way to slot", self.warps, slots, MOST_SLOTS),
            *array("latest", self.warps, GENERATIONS * slots, GENERATIONS * MOST_SLOTS),
        )
        start = [0] * len(fields)
        for slot in range(slots):
            start[LATEST + GENERATIONS * slot] = self.warps
        steps = self.stages + self.tiles
        own = (
            Field("step", steps),
            Field("phase", 1),
            *array("on its way to slot", 0 if self.crosswise else 1, slots, MOST_SLOTS),
        )
        places = ("waits for its group", "is at the barrier", "fetches", "multiplies", "comes to the second barrier")
        more = ("is at the second barrier", "fetches behind it", "drains", "is at the barrier behind it", "stages")
        last = ("comes to the last barrier", "is at the last barrier", "writes", "is done")
        start_of_warp = (WAITS_GROUP, *(0 for _ in own))
        constants = (self.stages, slots, self.tiles, self.warps, self.lean, self.crosswise, self.drains, self.fault)
        return Model(
            self.name,
            tuple(map(int, constants)),
            fields,
            tuple(start),
            (Role("warp", (*places, *more, *last), DONE, own, (start_of_warp,) * self.warps, _WARP),),
            (
                "a warp multiplies a slot that does not hold its tile whole",
                "a share lands on outputs that are staged there",
                "a warp writes outputs that others have not staged",
            ),
        )

    def with_fault(self, fault: Fault) -> "CpAsyncRing":
        """The same with a fault."""
        return replace(self, fault=fault)

    @property
    def name(self) -> str:
        """With the parameters."""
        kind = "lean" if self.lean else "full"
        way = "crosswise" if self.crosswise else "congruous"
        name = f"cp.async ring: {self.stages} stages, {self.tiles} tiles, {self.warps} warps, {kind}, {way}"
        name += "" if self.drains else ", not drained"
        return f"{name}; {WORDS[self.fault]}" if self.fault else name

    def _check(self) -> None:
        for what, value, least, most in (
            ("stages", self.stages, 1, MOST_STAGES),
            ("tiles", self.tiles, 1, 30),
            ("warps", self.warps, 1, 8),
        ):
            if not least <= value <= most:
                raise Refusal(f"cp.async ring: {value} {what}; it must lie in {least}..{most}")
        if self.lean and self.crosswise:
            raise Refusal("cp.async ring: a lean ring for a crosswise operand", hint="that is the fault SLOT_SHORT")
        needs = {
            Fault.NO_SECOND_BARRIER: self.lean,
            Fault.SLOT_SHORT: not self.lean,
            Fault.NO_DRAIN: self.drains and not self.lean,
            Fault.NO_LAST_BARRIER: self.lean and not self.drains,
        }
        if not needs.get(self.fault, True):
            raise Refusal(
                f"cp.async ring: fault {self.fault.name} has no meaning for {replace(self, fault=Fault.NONE).name}"
            )
