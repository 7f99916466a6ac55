"""Split K once more, written from its description in another style, to count states independently.

Every block is a coroutine's worth of flags in a plain dictionary; the search is recursive. Nothing is shared with the
checker or its models.
"""

import sys
from typing import Any

PROGRAM = ("store", "meet", "fence", "arrive", "fence again", "look", "add", "leave", "gone")


def count_states(parts: int, launches: int) -> int:
    """States of a right combine with a counter that is never set back, no two of which are taken for one."""
    sys.setrecursionlimit(100_000)
    known: set[Any] = set()
    block = {"line": "store", "launch": 0, "others": False, "last": False, "owed": (), "early": None}
    memory = {"launch": 0, "left": 0, "arrivals": 0, "sums": 0, "halves": 0, "over": False}
    _visit(memory, [dict(block) for _ in range(parts)], launches, known)
    return len(known)


def _visit(memory: dict[str, Any], blocks: list[dict[str, Any]], launches: int, known: set[Any]) -> None:
    state = (tuple(memory.values()), *(tuple(block.values()) for block in blocks))
    if state in known:
        return
    known.add(state)
    parts = len(blocks)
    for number, block in enumerate(blocks):
        for change, local in _moves(memory, block, parts, launches):
            others = [*blocks[:number], {**block, **local}, *blocks[number + 1 :]]
            _visit({**memory, **change}, others, launches, known)
    if memory["left"] == parts and not memory["over"]:
        over = memory["launch"] + 1 == launches
        assert memory["sums"] == 1
        change = {"launch": 0 if over else memory["launch"] + 1, "left": 0, "sums": 0, "halves": 0, "over": over}
        _visit({**memory, **change}, blocks, launches, known)


def _moves(memory: dict[str, Any], block: dict[str, Any], parts: int, launches: int) -> list[tuple[Any, Any]]:
    """Pairs of what changes in memory and in the block."""
    moves: list[tuple[Any, Any]] = []
    owed, line = block["owed"], block["line"]
    following = {"line": PROGRAM[PROGRAM.index(line) + 1]} if line != "gone" else {}
    for half in owed:
        moves.append(({"halves": memory["halves"] + 1}, {"owed": tuple(one for one in owed if one != half)}))
    if line not in ("store", "gone") and not block["others"]:
        moves.append(({}, {"others": True, "owed": tuple(sorted((*owed, "other")))}))
    if line == "store" and memory["launch"] == block["launch"]:
        moves.append(({}, {**following, "owed": tuple(sorted((*owed, "mine")))}))
    elif (line == "meet" and block["others"]) or (line == "fence" and not owed):
        moves.append(({}, following))
    elif line == "arrive":
        if block["early"] is None:
            moves.append(({}, {"early": memory["halves"] == 2 * parts}))
        last = memory["arrivals"] % parts == parts - 1
        moves.append(({"arrivals": memory["arrivals"] + 1}, {**following, "last": last}))
    elif line == "fence again":
        moves.append(({}, {**following, "early": None}))
    elif line == "look":
        moves.append(({}, {"line": "add" if block["last"] else "leave", "last": False, "early": None}))
    elif line == "add":
        assert memory["halves"] == 2 * parts
        moves.append(({"sums": memory["sums"] + 1}, following))
    elif line == "leave" and not owed and block["others"]:
        over = block["launch"] + 1 == launches
        after = {"line": "gone" if over else "store", "launch": 0 if over else block["launch"] + 1, "others": False}
        moves.append(({"left": memory["left"] + 1}, after))
    return moves
