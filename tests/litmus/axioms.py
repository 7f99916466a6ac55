"""The memory model of the PTX ISA by brute force: every execution of a litmus test that its axioms allow.

Written from the chapter "Memory Consistency Model" of the PTX ISA (9.4) and knows nothing of the CPU device. An
execution says which write each read reads, in which order the writes of a place come, and in which order `fence.sc`
execute. Relations are lists of bit masks: bit j of row i says that i precedes j.

Left out, because the tests do not use them: accesses of different sizes, mixed addresses, other proxies than the
generic and the async one. The ISA speaks of proxies and fences in prose; `_preserved` is that prose with what
published work on it says of where the fence must stand: in the block of the asynchronous access.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product

from litmus_events import Event, Events
from litmus_program import Litmus

Rows = list[int]


@dataclass(frozen=True)
class Verdict:
    """What the model says of a test.

    Attributes:
        outcomes: all that it allows.
        racy: some allowed execution has a data race.
    """

    outcomes: frozenset[tuple[int, ...]]
    racy: bool


def verdict(test: Litmus) -> Verdict:
    """All outcomes that the model allows."""
    outcomes: set[tuple[int, ...]] = set()
    racy = False
    for execution in _executions(test):
        if execution.is_consistent():
            outcomes.update(execution.outcomes())
            racy |= execution.has_race()
    return Verdict(frozenset(outcomes), racy)


def _executions(test: Litmus) -> Iterator["Execution"]:
    events = Events.of(test)
    everything = list(enumerate(events.all))
    writes = {p: [i for i, e in everything if e.writes and e.place == p] for p in test.places}
    reads = [i for i, e in everything if e.reads]
    fences = [i for i, e in everything if e.sequential]
    sources = [writes[str(events.all[read].place)] for read in reads]
    orders = [[(w[0], *rest) for rest in permutations(w[1:])] for w in writes.values()]
    for chosen in product(*sources):
        for order in permutations(fences):
            for coherence in product(*orders):
                yield Execution(test, events, dict(zip(reads, chosen, strict=True)), order, coherence)


class Execution:
    """One execution, legal or not.

    Args:
        test: of which.
        events: its events.
        source: for each read the write that it reads.
        fences: `fence.sc` in the order in which they execute.
        coherence: writes of each place in an order; of two that nothing else relates it says nothing.
    """

    def __init__(
        self,
        test: Litmus,
        events: Events,
        source: dict[int, int],
        fences: Sequence[int],
        coherence: Sequence[Sequence[int]],
    ) -> None:
        self._test, self._events, self._all = test, events, events.all
        self._source, self._fences, self._orders = source, fences, coherence
        self._count = len(self._all)

    def is_consistent(self) -> bool:
        """Whether all axioms hold."""
        return (
            self._has_values()
            and self._fences_agree()
            and self._keeps_causality()
            and self._keeps_coherence()
            and self._is_atomic()
        )

    def outcomes(self) -> Iterator[tuple[int, ...]]:
        """Registers, and every choice of a last write of each place."""
        registers = tuple(self._values[self._events.loads[r]] for r in range(self._test.registers))
        last = [
            sorted({self._values[w] for w in order if not any(_has(self._co, w, other) for other in order)})
            for order in self._orders
        ]
        for places in product(*last):
            yield (*registers, *places)

    def has_race(self) -> bool:
        """Whether two conflicting accesses are neither morally strong nor ordered by causality."""
        memory = [i for i, e in enumerate(self._all) if e.place is not None and e.thread >= 0]
        for i in memory:
            for j in memory:
                one, other = self._all[i], self._all[j]
                conflict = one.place == other.place and (one.writes or other.writes) and i < j
                ordered = _has(self._causality, i, j) or _has(self._causality, j, i)
                if conflict and not ordered and not self._strong(i, j):
                    return True
        return False

    # Program order and what is morally strong.

    @cached_property
    def _program(self) -> Rows:
        rows = [0] * self._count
        for before, after in self._events.program_order:
            rows[before] |= 1 << after
        return closed(rows)

    def _strong(self, i: int, j: int) -> bool:
        """Morally strong: in program order, or both strong with scopes that include each other; of one proxy."""
        one, other = self._all[i], self._all[j]
        if one.proxied != other.proxied:
            return False
        if _has(self._program, i, j) or _has(self._program, j, i):
            return True
        return one.strong and other.strong and _includes(one, other) and _includes(other, one)

    # No values out of thin air.

    def _has_values(self) -> bool:
        values: dict[int, int] = {}
        for _ in range(self._count + 1):
            for i, event in enumerate(self._all):
                if event.reads and self._source[i] in values:
                    values[i] = values[self._source[i]]
                if event.writes:
                    known = event.source is None or self._events.loads[event.source] in values
                    if known:
                        values[i] = event.value if event.source is None else values[self._events.loads[event.source]]
        self._values = values
        return all(i in values for i, e in enumerate(self._all) if e.place is not None)

    # Causality.

    @cached_property
    def _observed(self) -> Rows:
        """Observation order: morally strong reads-from, through atomics."""
        rows = [0] * self._count
        for read, write in self._source.items():
            if self._all[write].thread >= 0 and self._strong(write, read):
                rows[write] |= 1 << read
        for read, write in self._events.updates:
            rows[read] |= 1 << write
        rows = closed(rows)
        for read, _ in self._events.updates:
            rows[read] = 0
        return rows

    def _releases(self) -> Iterator[tuple[int, int]]:
        """Release patterns: first operation, write."""
        for i, event in enumerate(self._all):
            if not event.releases:
                continue
            if event.writes:
                yield i, i
            for j in _bits(self._program[i]):
                later = self._all[j]
                if later.writes and later.strong and (event.fence or later.place == event.place):
                    yield i, j

    def _acquires(self) -> Iterator[tuple[int, int]]:
        """Acquire patterns: read, last operation."""
        for j, event in enumerate(self._all):
            if not event.acquires:
                continue
            if event.reads:
                yield j, j
            for i, earlier in enumerate(self._all):
                fits = earlier.reads and earlier.strong and (event.fence or earlier.place == event.place)
                if fits and _has(self._program, i, j):
                    yield i, j

    @cached_property
    def _base(self) -> Rows:
        """Base causality order."""
        rows = list(self._program)
        for first, write in self._releases():
            for read, last in self._acquires():
                if _has(self._observed, write, read) and self._strong(first, last):
                    rows[first] |= 1 << last
        for place, one in enumerate(self._fences):
            for other in self._fences[place + 1 :]:
                if self._strong(one, other):
                    rows[one] |= 1 << other
        for before, after in self._events.barriers:
            rows[before] |= 1 << after
        for i, event in enumerate(self._all):
            if event.thread < 0:
                rows[i] |= sum(1 << j for j, e in enumerate(self._all) if e.thread >= 0)
        return closed(rows)

    def _preserved(self, i: int, j: int) -> bool:
        """Proxy-preserved base causality of two accesses of one place."""
        one, other = self._all[i], self._all[j]
        if not _has(self._base, i, j):
            return False
        if not one.proxied and not other.proxied:
            return True
        if one.thread < 0:  # written before the kernel
            return True
        start = i
        if one.proxied:
            end = next(k for k, e in enumerate(self._all) if e.ends == i)
            if _has(self._base, end, j) and not other.proxied:
                return True
            if one.block == other.block and other.proxied:
                return True
            start = end
        if not other.proxied:
            return False
        return any(
            e.proxy_fence and e.block == other.block and _has(self._base, start, k) and _has(self._base, k, j)
            for k, e in enumerate(self._all)
        )

    @cached_property
    def _causality(self) -> Rows:
        memory = [i for i, e in enumerate(self._all) if e.place is not None]
        rows = [0] * self._count
        for i in memory:
            for j in memory:
                if i != j and self._all[i].place == self._all[j].place and self._preserved(i, j):
                    rows[i] |= 1 << j
        result = list(rows)
        for i in memory:
            for k in _bits(self._observed[i]):
                result[i] |= rows[k]
        return result

    def _fences_agree(self) -> bool:
        """Base causality has no cycle, and the order of `fence.sc` does not contradict it."""
        if any(_has(self._base, i, i) for i in range(self._count)):
            return False
        for place, one in enumerate(self._fences):
            for other in self._fences[place + 1 :]:
                if self._strong(one, other) and _has(self._base, other, one):
                    return False
        return True

    # Coherence, causality, sequential consistency of each place, atomicity.

    @cached_property
    def _co(self) -> Rows:
        """Coherence order: of morally strong writes, and of writes in causality order."""
        rows = [0] * self._count
        for order in self._orders:
            for place, one in enumerate(order):
                for other in order[place + 1 :]:
                    if self._strong(one, other):
                        rows[one] |= 1 << other
            for one in order:
                for other in order:
                    if one != other and _has(self._causality, one, other):
                        rows[one] |= 1 << other
        return closed(rows)

    @cached_property
    def _from_reads(self) -> list[tuple[int, int]]:
        return [(read, after) for read, write in self._source.items() for after in _bits(self._co[write])]

    def _keeps_causality(self) -> bool:
        if any(_has(self._co, i, i) for i in range(self._count)):
            return False
        if any(_has(self._causality, read, write) for read, write in self._source.items()):
            return False
        return not any(_has(self._causality, write, read) for read, write in self._from_reads)

    def _keeps_coherence(self) -> bool:
        """Of accesses of a place: program order and morally strong communication have no cycle."""
        rows = [0] * self._count
        for i, event in enumerate(self._all):
            for j in _bits(self._program[i]):
                if event.place is not None and event.place == self._all[j].place:
                    rows[i] |= 1 << j
        pairs = [(write, read) for read, write in self._source.items()]
        pairs += self._from_reads
        pairs += [(i, j) for i in range(self._count) for j in _bits(self._co[i])]
        for i, j in pairs:
            if self._strong(i, j):
                rows[i] |= 1 << j
        rows = closed(rows)
        return not any(_has(rows, i, i) for i in range(self._count))

    def _is_atomic(self) -> bool:
        """No morally strong write comes between what an atomic reads and what it writes."""
        for read, write in self._events.updates:
            for other in _bits(self._co[self._source[read]]):
                if other != write and _has(self._co, other, write) and self._strong(other, write):
                    return False
        return True


def closed(rows: Rows) -> Rows:
    """The transitive closure."""
    rows = list(rows)
    for k in range(len(rows)):
        through = rows[k]
        for i in range(len(rows)):
            if rows[i] >> k & 1:
                rows[i] |= through
    return rows


def _has(rows: Rows, i: int, j: int) -> bool:
    return bool(rows[i] >> j & 1)


def _bits(row: int) -> Iterator[int]:
    while row:
        low = row & -row
        yield low.bit_length() - 1
        row ^= low


def _includes(one: Event, other: Event) -> bool:
    """Whether the scope of one includes the thread of the other; every block is a cluster of its own."""
    return one.scope in ("gpu", "sys") or one.block == other.block
