"""The CPU device's weak behaviour as a small machine, explored completely: which outcomes it can produce.

Written from the design of late stores and stale loads, not from the device's code: blocks hold weak stores back, weak
loads may see overwritten values, releases publish what a thread knows of its block's stores, acquires end stale views.
A state holds memory, what blocks hold, what they may still see, what threads know, registers and places in the text.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from litmus_program import (
    Barrier,
    BulkLoad,
    BulkStore,
    Exchange,
    Fence,
    Litmus,
    Order,
    ProxyFence,
    Read,
    SmallCopy,
    Write,
)

Place = tuple[int, str]  # a block, and a place as it sees it
Memory = frozenset[tuple[str, int]]
Held = frozenset[tuple[Place, tuple[int, int]]]
Older = frozenset[tuple[Place, tuple[int, ...]]]
Registers = frozenset[tuple[int, int]]
NOTHING: frozenset[int] = frozenset()
Key = TypeVar("Key")
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class State:
    """One state; mappings are frozen sets of pairs.

    Attributes:
        at: for each thread its next operation.
        waits: threads that have come to a barrier.
        memory: place to value.
        held: (block, place) to (value, number of the store).
        stale: (block, place) to older values that the block may still see.
        unfenced: the same for its async proxy.
        known: for each thread the stores of its block that it knows.
        registers: register to value.
        stores: how many there were.
    """

    at: tuple[int, ...]
    waits: frozenset[int]
    memory: Memory
    held: Held
    stale: Older
    unfenced: Older
    known: tuple[frozenset[int], ...]
    registers: Registers
    stores: int


def reachable(test: Litmus) -> frozenset[tuple[int, ...]]:
    """All outcomes that the machine can produce."""
    explorer = _Explorer(test)
    count = len(test.threads)
    first = State(
        (0,) * count, frozenset(), frozenset((p, 0) for p in test.places), frozenset(), frozenset(), frozenset(),
        (frozenset(),) * count, frozenset(), 0,
    )  # fmt: skip
    seen, front = {first}, [first]
    outcomes: set[tuple[int, ...]] = set()
    while front:
        state = front.pop()
        following = set(explorer.steps(state))
        if not following:
            registers, memory = dict(state.registers), dict(state.memory)
            values = [registers[r] for r in range(test.registers)]
            outcomes.add((*values, *(memory[p] for p in test.places)))
        fresh = following - seen
        seen |= fresh
        front += fresh
    return frozenset(outcomes)


class _Explorer:
    def __init__(self, test: Litmus) -> None:
        self._test = test
        self._blocks = sorted({thread.block for thread in test.threads})

    def steps(self, state: State) -> Iterator[State]:
        """Everything that may happen next."""
        for (block, place), _ in state.held:
            yield self._expose(state, block, place)
        for number, thread in enumerate(self._test.threads):
            if state.at[number] < len(thread.ops) and number not in state.waits:
                yield from self._execute(state, number, thread.block, thread.ops[state.at[number]])

    def _execute(self, state: State, number: int, block: int, op: object) -> Iterator[State]:
        if isinstance(op, Barrier):
            yield self._barrier(state, number, op)
            return
        at = (*state.at[:number], state.at[number] + 1, *state.at[number + 1 :])
        state = replace(state, at=at)
        match op:
            case Write(order=Order.WEAK):
                value = op.value if op.register is None else dict(state.registers)[op.register]
                store = state.stores
                known = (*state.known[:number], state.known[number] | {store}, *state.known[number + 1 :])
                held = dict(state.held).get((block, op.place))
                if held is not None and any(held[1] in k for n, k in enumerate(state.known) if n != number):
                    state = self._expose(state, block, op.place)
                state = replace(state, stores=store + 1, known=known)
                dropped = _without(state.held, (block, op.place))
                yield replace(state, held=dropped | {((block, op.place), (value, store))})
                yield self._write(replace(state, held=dropped), block, op.place, value)
            case Write():
                value = op.value if op.register is None else dict(state.registers)[op.register]
                if op.order is Order.RELEASE:
                    state = self._release(state, number, block, op.scope)
                yield self._write(self._settle(state, block, op.place), block, op.place, value)
            case Read(order=Order.WEAK):
                for value in self._weak_values(state, block, op.place):
                    yield _load(state, op.register, value)
            case Read():
                state = self._look(state, block, op.place)
                state = _load(state, op.register, dict(state.memory)[op.place])
                yield self._acquire(state, block, op.scope) if op.order is Order.ACQUIRE else state
            case Exchange():
                if op.order in (Order.RELEASE, Order.ACQ_REL):
                    state = self._release(state, number, block, op.scope)
                state = self._look(state, block, op.place)
                state = _load(state, op.register, dict(state.memory)[op.place])
                state = self._write(state, block, op.place, op.value)
                yield self._acquire(state, block, op.scope) if op.order in (Order.ACQUIRE, Order.ACQ_REL) else state
            case Fence(sequential=True):
                for where, _ in list(state.held):
                    if where[0] == block:
                        state = self._expose(state, *where)
                yield self._acquire(state, block, "gpu")
            case Fence():
                yield self._acquire(self._release(state, number, block, op.scope), block, op.scope)
            case ProxyFence():
                state = self._release(state, number, block, "gpu")
                yield replace(state, unfenced=frozenset(e for e in state.unfenced if e[0][0] != block))
            case SmallCopy():
                state = self._settle(state, block, op.place)
                yield _load(state, op.register, dict(state.memory)[op.place])
            case BulkLoad():
                for value in (dict(state.memory)[op.place], *dict(state.unfenced).get((block, op.place), ())):
                    yield _load(state, op.register, value)
            case BulkStore():
                state = self._settle(state, block, op.place)
                memory = _without(state.memory, op.place) | {(op.place, op.value)}
                # What comes to memory by copies is not seen late.
                stale = frozenset(e for e in state.stale if e[0][1] != op.place)
                unfenced = frozenset(e for e in state.unfenced if e[0][1] != op.place)
                yield replace(state, memory=memory, stale=stale, unfenced=unfenced)
            case _:
                raise TypeError(op)

    def _weak_values(self, state: State, block: int, place: str) -> set[int]:
        held = dict(state.held).get((block, place))
        if held is not None:
            return {held[0]}
        return {dict(state.memory)[place], *dict(state.stale).get((block, place), ())}

    def _write(self, state: State, block: int, place: str, value: int) -> State:
        """A write reaches memory: the others may still see what was there."""
        old, stale, unfenced = dict(state.memory)[place], dict(state.stale), dict(state.unfenced)
        for other in self._blocks:
            older = () if other == block else (*stale.get((other, place), ()), old)
            stale[other, place] = tuple(sorted(set(older)))
            older = () if other == block else (*unfenced.get((other, place), ()), old)
            unfenced[other, place] = tuple(sorted(set(older)))
        memory = _without(state.memory, place) | {(place, value)}
        return replace(state, memory=memory, stale=frozenset(stale.items()), unfenced=frozenset(unfenced.items()))

    def _expose(self, state: State, block: int, place: str) -> State:
        value, _ = dict(state.held)[block, place]
        state = replace(state, held=_without(state.held, (block, place)))
        return self._write(state, block, place, value)

    def _settle(self, state: State, block: int, place: str) -> State:
        return self._expose(state, block, place) if (block, place) in dict(state.held) else state

    def _look(self, state: State, block: int, place: str) -> State:
        state = self._settle(state, block, place)
        return replace(state, stale=_without(state.stale, (block, place)))

    def _release(self, state: State, number: int, block: int, scope: str) -> State:
        if scope == "cta":
            return state
        for (owner, place), (_, store) in list(state.held):
            if owner == block and store in state.known[number]:
                state = self._expose(state, owner, place)
        return state

    def _acquire(self, state: State, block: int, scope: str) -> State:
        if scope == "cta":
            return state
        return replace(state, stale=frozenset(e for e in state.stale if e[0][0] != block))

    def _barrier(self, state: State, number: int, op: Barrier) -> State:
        """A thread comes; the last one lets all go on, who then know what each of them knew."""
        here = self._test.threads[number]
        group = [
            n
            for n, t in enumerate(self._test.threads)
            if t.block == here.block and (not op.warp or t.warp == here.warp)
        ]
        waits = state.waits | {number}
        if not waits.issuperset(group):
            return replace(state, waits=waits)
        union = NOTHING.union(*(state.known[n] for n in group))
        known = tuple(union if n in group else k for n, k in enumerate(state.known))
        at = tuple(a + 1 if n in group else a for n, a in enumerate(state.at))
        return replace(state, waits=waits - set(group), known=known, at=at)


def _without(table: frozenset[tuple[Key, Entry]], key: Key) -> frozenset[tuple[Key, Entry]]:
    return frozenset(entry for entry in table if entry[0] != key)


def _load(state: State, register: int, value: int) -> State:
    return replace(state, registers=state.registers | {(register, value)})
