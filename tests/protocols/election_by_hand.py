"""The election once more, written from its description in another style, to count states independently.

A block is a frozen mapping of names; a state is visited depth first. Nothing is shared with the checker or its models.
"""

from collections.abc import Iterator
from typing import Any

Block = tuple[tuple[str, Any], ...]
Memory = tuple[tuple[str, Any], ...]


def count_states(blocks: int, slots: int, launches: int) -> int:
    """States of a right election with two pairs of scales, no two of which are taken for one."""
    block = {
        "at": "before",
        "launch": 0,
        "slot": 0,
        "todo": frozenset(),
        "ticket": None,
        "seen": {},
        "sum": 0,
        "next": 0,
    }
    everybody = tuple(_frozen({**block, "slot": number % slots}) for number in range(blocks))
    memory = {
        "launch": 0,
        "left": 0,
        "counter": 0,
        "published": 0,
        "stream": "runs",
        "scales": (0, 0),
        "maxima": (0,) * slots,
    }
    first = (_frozen(memory), everybody)
    known, stack = {first}, [first]
    while stack:
        frozen_memory, frozen_blocks = stack.pop()
        for after in _all_next(dict(frozen_memory), frozen_blocks, launches):
            if after not in known:
                known.add(after)
                stack.append(after)
    return len(known)


def _frozen(mapping: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(
        sorted(
            (key, tuple(sorted(value.items())) if isinstance(value, dict) else value) for key, value in mapping.items()
        )
    )


def _all_next(memory: dict[str, Any], blocks: tuple[Block, ...], launches: int) -> Iterator[Any]:
    for number, frozen in enumerate(blocks):
        for new_memory, new_block in _block_next(
            memory, {**dict(frozen), "seen": dict(dict(frozen)["seen"])}, len(blocks), launches
        ):
            yield _frozen(new_memory), (*blocks[:number], _frozen(new_block), *blocks[number + 1 :])
    for new_memory in _stream_next(memory, len(blocks), launches):
        yield _frozen(new_memory), blocks


def _block_next(memory: dict[str, Any], block: dict[str, Any], blocks: int, launches: int) -> Iterator[Any]:
    """What a block may do: what memory still owes it, or the next line of its program."""
    for owed in block["todo"]:
        yield _performed(memory, block, owed), {**block, "todo": block["todo"] - {owed}}
    match block["at"]:
        case "before" if memory["launch"] == block["launch"]:
            yield memory, {**block, "at": "collects"}
        case "collects":
            yield memory, {**block, "at": "releases", "todo": block["todo"] | {("max", block["slot"])}}
        case "releases" if not block["todo"]:
            yield memory, {**block, "at": "tickets"}
        case "tickets":
            for slot, value in enumerate(memory["maxima"]):
                if slot not in block["seen"]:
                    yield memory, {**block, "seen": {**block["seen"], slot: value}}
            yield {**memory, "counter": memory["counter"] + 1}, {**block, "at": "acquires", "ticket": memory["counter"]}
        case "acquires":
            yield memory, {**block, "at": "looks", "seen": {}}
        case "looks":
            last = block["ticket"] == blocks - 1
            yield memory, {**block, "at": "takes" if last else "leaves", "ticket": None}
        case "takes":
            slot = block["next"]
            zero = block["todo"] | {("zero", slot)}
            done = slot + 1 == len(memory["maxima"])
            total = block["sum"] + memory["maxima"][slot]
            yield (
                memory,
                {**block, "todo": zero, "sum": total, "next": slot + 1, "at": "publishes" if done else "takes"},
            )
        case "publishes":
            assert block["sum"] == blocks
            more = block["todo"] | {("scale", block["launch"] + 1)}
            after = {**block, "todo": more, "sum": 0, "next": 0, "at": "rearms"}
            yield {**memory, "published": memory["published"] + 1}, after
        case "rearms":
            yield memory, {**block, "todo": block["todo"] | {("rearm", 0)}, "at": "leaves"}
        case "leaves" if not block["todo"]:
            last = block["launch"] + 1 == launches
            after = {**block, "at": "over" if last else "before", "launch": 0 if last else block["launch"] + 1}
            yield {**memory, "left": memory["left"] + 1}, after


def _performed(memory: dict[str, Any], block: dict[str, Any], owed: tuple[str, int]) -> dict[str, Any]:
    what, value = owed
    if what == "rearm":
        return {**memory, "counter": 0}
    name, place = ("scales", value % 2) if what == "scale" else ("maxima", value)
    values = list(memory[name])
    values[place] = {"scale": value, "max": values[place] + 1, "zero": 0}[what]
    return {**memory, name: tuple(values)}


def _stream_next(memory: dict[str, Any], blocks: int, launches: int) -> Iterator[dict[str, Any]]:
    if memory["stream"] == "runs" and memory["left"] == blocks:
        yield {**memory, "stream": "product", "left": 0, "published": 0}
    if memory["stream"] == "product":
        last = memory["launch"] + 1 == launches
        yield {**memory, "stream": "over" if last else "runs", "launch": 0 if last else memory["launch"] + 1}
