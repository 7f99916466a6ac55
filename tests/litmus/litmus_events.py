"""A litmus test as events and the relations that its text fixes."""

from dataclasses import dataclass, field

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

_ACQUIRES, _RELEASES = (Order.ACQUIRE, Order.ACQ_REL), (Order.RELEASE, Order.ACQ_REL)


@dataclass(frozen=True)
class Event:
    """One operation of one thread; thread -1 wrote what was there first.

    Attributes:
        thread: who performs it.
        block: of that thread.
        place: that it accesses; None for fences and barriers.
        reads: it is a read, into `register`.
        writes: it is a write of `value`, or of what `source` holds.
        strong: it is morally strong with others whose scopes include each other's thread.
        scope: of a strong operation.
        acquires: it may end an acquire pattern.
        releases: it may begin a release pattern.
        fence: it is a fence of threads.
        sequential: it is `fence.sc`.
        proxied: it goes through the async proxy.
        proxy_fence: it is a proxy fence.
        ends: number of the asynchronous event whose completion this is, which is a proxy fence for its bytes.
    """

    thread: int
    block: int
    place: str | None = None
    reads: bool = False
    writes: bool = False
    value: int = 0
    register: int | None = None
    source: int | None = None
    strong: bool = False
    scope: str = "cta"
    acquires: bool = False
    releases: bool = False
    fence: bool = False
    sequential: bool = False
    proxied: bool = False
    proxy_fence: bool = False
    ends: int | None = None


@dataclass
class Events:
    """All events of a test.

    Attributes:
        all: the events.
        program_order: pairs of neighbours in a thread.
        barriers: pairs of what comes before a barrier and what comes behind it, in different threads.
        updates: pairs of an atomic's read and its write.
        loads: number of the event that fills each register.
    """

    all: list[Event] = field(default_factory=list)
    program_order: list[tuple[int, int]] = field(default_factory=list)
    barriers: list[tuple[int, int]] = field(default_factory=list)
    updates: list[tuple[int, int]] = field(default_factory=list)
    loads: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, test: Litmus) -> "Events":
        """The events of a test; the first writes of its places come first."""
        events = cls([Event(-1, -1, place, writes=True) for place in test.places])
        met: dict[tuple[object, ...], list[tuple[int, int]]] = {}
        for number, thread in enumerate(test.threads):
            last: int | None = None
            rounds = 0
            for op in thread.ops:
                first = len(events.all)
                events.all += _events_of(op, number, thread.block, first)
                if isinstance(op, Barrier):
                    key = (op.warp, thread.block, thread.warp if op.warp else None, rounds)
                    met.setdefault(key, []).append((first, first + 1))
                    rounds += 1
                if isinstance(op, Exchange):
                    events.updates.append((first, first + 1))
                for index in range(first, len(events.all)):
                    if last is not None:
                        events.program_order.append((last, index))
                    last = index
                    register = events.all[index].register
                    if register is not None:
                        events.loads[register] = index
        for pairs in met.values():
            events.barriers += [(come, go) for come, _ in pairs for _, go in pairs if go != come + 1]
        return events


def _events_of(op: object, thread: int, block: int, first: int) -> list[Event]:
    """The events of one operation, the first of which has this number."""
    match op:
        case Write():
            return [
                Event(
                    thread, block, op.place, writes=True, value=op.value, source=op.register,
                    strong=op.order is not Order.WEAK, scope=_scope(op), releases=op.order in _RELEASES,
                )
            ]  # fmt: skip
        case Read():
            return [
                Event(
                    thread, block, op.place, reads=True, register=op.register,
                    strong=op.order is not Order.WEAK, scope=_scope(op), acquires=op.order in _ACQUIRES,
                )
            ]  # fmt: skip
        case Exchange():
            return [
                Event(
                    thread, block, op.place, reads=True, register=op.register, strong=True, scope=op.scope,
                    acquires=op.order in _ACQUIRES,
                ),
                Event(
                    thread, block, op.place, writes=True, value=op.value, strong=True, scope=op.scope,
                    releases=op.order in _RELEASES,
                ),
            ]  # fmt: skip
        case Fence():
            return [
                Event(
                    thread, block, strong=True, scope=op.scope, acquires=True, releases=True, fence=True,
                    sequential=op.sequential,
                )
            ]  # fmt: skip
        case Barrier():
            return [Event(thread, block), Event(thread, block)]
        case ProxyFence():
            return [Event(thread, block, proxy_fence=True)]
        case SmallCopy():  # through the generic proxy
            return [Event(thread, block, op.place, reads=True, register=op.register)]
        case BulkLoad():
            copy = Event(thread, block, op.place, reads=True, register=op.register, proxied=True)
            return [copy, Event(thread, block, ends=first)]
        case BulkStore():
            copy = Event(thread, block, op.place, writes=True, value=op.value, proxied=True)
            return [copy, Event(thread, block, ends=first)]
    raise TypeError(op)


def _scope(op: Write | Read) -> str:
    return "sys" if op.order is Order.VOLATILE else op.scope
