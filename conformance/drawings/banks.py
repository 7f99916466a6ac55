"""Bank conflicts of one access of a warp: which lanes want which words, a line of 128 bytes a row.

tileproof show banks 'lane * 32' --width 4        # 8-way
tileproof show banks 'swizzle128(lane % 8 * 128)' --width 16
"""

from collections import Counter
from itertools import groupby

from tileproof.conformance.drawings.address import addresses_of
from tileproof.conformance.drawings.picture import Box, Picture, Row
from tileproof.oracle.banks import LDS, SHARED, Access, bank_use

WORD, BANKS = 4, 32


def draw_banks(expression: str, width: int, *, store: bool, lds: bool) -> Picture:
    """Where the words of an access lie.

    Args:
        expression: the byte address of each lane; see `address`.
        width: bytes a lane moves.
        store: a store instead of a load.
        lds: LDS and waves of 64 instead of shared memory and warps of 32.

    Raises:
        Refusal: what is no expression, a width or address that no access has.
    """
    memory = LDS if lds else SHARED
    addresses = addresses_of(expression, memory.lanes)
    access = Access.STORE if store else Access.LOAD
    use = bank_use(addresses, width, memory=memory, access=access)
    lanes_of: dict[int, list[int]] = {}
    for lane, address in enumerate(addresses):
        for word in range(address // WORD, (address + width - 1) // WORD + 1):
            lanes_of.setdefault(word, []).append(lane)
    phase = memory.phase_lanes(width)
    lines = sorted({word // BANKS for word in lanes_of})
    ways = tuple(Box(str(_ways(bank, lanes_of, phase))) for bank in range(BANKS))
    return Picture(
        title=f"{access.value} of {width} bytes a lane at {expression}, {memory.name}",
        under=(f"{use.passes} passes, {use.phases} without conflicts: {use.conflicts} conflicts, {use.ways}-way",),
        columns=tuple(str(bank) if bank % 4 == 0 else "" for bank in range(BANKS)),
        rows=(*(Row(f"{line * 128:#06x}", _line(line, lanes_of, phase)) for line in lines), Row("ways", ways)),
        notes=(
            "columns are banks, rows lines of 128 bytes; a box has the lanes that want its words;",
            f"ways: the most words of a bank that one phase of {phase} lanes wants; a colour is a phase",
        ),
    )


def _line(line: int, lanes_of: dict[int, list[int]], phase: int) -> tuple[Box, ...]:
    boxes = []
    wanted = [tuple(lanes_of.get(line * BANKS + bank, ())) for bank in range(BANKS)]
    for lanes, run in groupby(wanted):
        span = len(list(run))
        if lanes:
            boxes.append(Box(_named(lanes), lanes[0] // phase, span))
        else:
            boxes += [Box("")] * span
    return tuple(boxes)


def _ways(bank: int, lanes_of: dict[int, list[int]], phase: int) -> int:
    """The most different words of a bank that lanes of one phase want."""
    phases = Counter(
        number
        for word, lanes in lanes_of.items()
        if word % BANKS == bank
        for number in {lane // phase for lane in lanes}
    )
    return max(phases.values(), default=0)


def _named(lanes: tuple[int, ...]) -> str:
    if len(lanes) == 1:
        return str(lanes[0])
    step = lanes[1] - lanes[0]
    if step == 1 and lanes == tuple(range(lanes[0], lanes[-1] + 1)):
        return f"{lanes[0]}-{lanes[-1]}"
    return f"{lanes[0]}+{len(lanes) - 1}"
