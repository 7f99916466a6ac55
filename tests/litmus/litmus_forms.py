"""Litmus tests of barriers, atomics, proxies and dependencies, each with the forms that differ by what orders them."""

from litmus_program import (
    Barrier,
    BulkLoad,
    BulkStore,
    Exchange,
    Fence,
    Litmus,
    Op,
    Order,
    ProxyFence,
    Read,
    SmallCopy,
    Thread,
    Write,
)

_R, _ACQUIRE, _RELEASE = Order.RELAXED, Order.ACQUIRE, Order.RELEASE
_SET, _SEE = Write("y", 1, _R), Read("y", 0, _R)
_WRITE, _READ = Write("x", 1), Read("x", 1)
_GPU, _CTA = Fence("gpu"), Fence("cta")
_MP = {"r0": 1, "r1": 0}
_BAR, _WARP_BAR = Barrier(), Barrier(warp=True)


def _in_block(name: str, first: tuple[Op, ...], second: tuple[Op, ...], *, warp: int = 1) -> Litmus:
    """A thread writes x, another one of its block reads it."""
    return Litmus(name, (Thread(first), Thread(second, warp=warp)), {"r0": 0})


def _gathered(name: str, middle: tuple[Op, ...], *, first: tuple[Op, ...] = (_WRITE, _BAR)) -> Litmus:
    """A thread writes x, another one of its block sets the flag, a third one in another block reads both."""
    threads = (Thread(first), Thread((*middle, _SET), warp=1), Thread((_SEE, _GPU, _READ), block=1))
    return Litmus(name, threads, _MP)


def _spread(name: str, seen: tuple[Op, ...], reads: tuple[Op, ...]) -> Litmus:
    """A thread writes x and releases a flag; one of another block sees the flag, and a third one of that reads x."""
    threads = (
        Thread((_WRITE, _GPU, _SET)),
        Thread((_SEE, *seen), block=1),
        Thread(reads, block=1, warp=1),
    )
    return Litmus(name, threads, _MP)


def _alone(name: str, ops: tuple[Op, ...], outcome: int = 0) -> Litmus:
    """One thread that writes x and reads it in another way."""
    return Litmus(name, (Thread(ops),), {"r0": outcome})


def _message(name: str, first: tuple[Op, ...], second: tuple[Op, ...]) -> Litmus:
    """Message passing between blocks, each side as given."""
    return Litmus(name, (Thread(first), Thread(second, block=1)), _MP)


BARRIERS = (
    _in_block("bar.sync between write and read", (_WRITE, _BAR), (_BAR, Read("x", 0))),
    _in_block("no barrier between write and read", (_WRITE,), (Read("x", 0),)),
    _in_block("bar.warp.sync between write and read", (_WRITE, _WARP_BAR), (_WARP_BAR, Read("x", 0)), warp=0),
    _in_block("no barrier between lanes", (_WRITE,), (Read("x", 0),), warp=0),
    _gathered("bar.sync, then a fence and the flag", (_BAR, _GPU)),
    _gathered("a fence and the flag without bar.sync", (_GPU,), first=(_WRITE,)),
    _gathered("bar.sync, then the flag without a fence", (_BAR,)),
    _gathered("a fence before bar.sync, then the flag", (_BAR,), first=(_WRITE, _GPU, _BAR)),
    _gathered("bar.sync, then a fence of the block's scope and the flag", (_BAR, _CTA)),
    Litmus(
        "two writers of one block, one of which releases",
        (Thread((_WRITE, _GPU, _SET)), Thread((Write("x", 2),), warp=1), Thread((_SEE, _GPU, _READ), block=1)),
        _MP,
    ),
    _spread("the flag, a fence, then bar.sync", (_GPU, _BAR), (_BAR, _READ)),
    _spread("the flag, then bar.sync without a fence", (_BAR,), (_BAR, _READ)),
    _spread("the flag, then bar.sync and the reader's fence", (_BAR,), (_BAR, _GPU, _READ)),
    _spread("the flag and a fence, no bar.sync", (_GPU,), (_READ,)),
)

_RMW = Exchange("y", 2, 1, _R)


def _chain(name: str, update: Exchange, last: Order = _ACQUIRE) -> Litmus:
    """A release handed on by an atomic of a third block."""
    threads = (
        Thread((_WRITE, Write("y", 1, _RELEASE))),
        Thread((update,), block=1),
        Thread((Read("y", 1, last), Read("x", 2)), block=2),
    )
    return Litmus(name, threads, {"r0": 1, "r1": 2, "r2": 0})


def _exchange(order: Order, scope: str = "gpu") -> Exchange:
    return Exchange("y", 2, 0, order, scope)


ATOMICS = (
    _chain("release, relaxed atomic, acquire", _exchange(_R)),
    _chain("release, relaxed atomic of the block's scope, acquire", _exchange(_R, "cta")),
    _chain("release, acquiring and releasing atomic, acquire", _exchange(Order.ACQ_REL)),
    _chain("release, relaxed atomic, relaxed read", _exchange(_R), _R),
    Litmus(
        "two exchanges of one place",
        (Thread((Exchange("x", 1, 0),)), Thread((Exchange("x", 2, 1),), block=1)),
        {"r0": 0, "r1": 0},
    ),
    Litmus(
        "two exchanges of the block's scope in two blocks",
        (Thread((Exchange("x", 1, 0, _R, "cta"),)), Thread((Exchange("x", 2, 1, _R, "cta"),), block=1)),
        {"r0": 0, "r1": 0},
    ),
    _message(
        "a release by an exchange, an acquire by one",
        (_WRITE, Exchange("y", 1, 2, _RELEASE)),
        (Exchange("y", 2, 0, _ACQUIRE), _READ),
    ),
    _message("relaxed exchanges", (_WRITE, Exchange("y", 1, 2, _R)), (Exchange("y", 2, 0, _R), _READ)),
    _message(
        "release, then a relaxed store to the same place",
        (_WRITE, Write("y", 2, _RELEASE), _SET),
        (Read("y", 0, _ACQUIRE), _READ),
    ),
    _message(
        "a relaxed read, then an acquire of the same place",
        (_WRITE, Write("y", 1, _RELEASE)),
        (_SEE, Read("y", 2, _ACQUIRE), _READ),
    ),
    Litmus(
        "load buffering with data dependencies",
        (
            Thread((Read("x", 0, _R), Write("y", 0, _R, register=0))),
            Thread((Read("y", 1, _R), Write("x", 0, _R, register=1)), block=1),
        ),
        {"r0": 1, "r1": 1},
    ),
)

_LOAD = BulkLoad("x", 1)
_PROXY = ProxyFence()
PROXIES = (
    _alone("write, cp.async", (_WRITE, SmallCopy("x", 0))),
    _alone("write, bulk load", (_WRITE, BulkLoad("x", 0))),
    _alone("write, proxy fence, bulk load", (_WRITE, _PROXY, BulkLoad("x", 0))),
    _alone("proxy fence, write, bulk load", (_PROXY, _WRITE, BulkLoad("x", 0))),
    _alone("bulk store, read", (BulkStore("x", 1), Read("x", 0))),
    _alone("write, bulk store over it, read", (_WRITE, BulkStore("x", 2), Read("x", 0)), 1),
    _alone("write, proxy fence, bulk store over it, read", (_WRITE, _PROXY, BulkStore("x", 2), Read("x", 0)), 1),
    _message("release, acquire, cp.async", (_WRITE, _GPU, _SET), (_SEE, _GPU, SmallCopy("x", 1))),
    _message("release, acquire, bulk load", (_WRITE, _GPU, _SET), (_SEE, _GPU, _LOAD)),
    _message("release, acquire, proxy fence, bulk load", (_WRITE, _GPU, _SET), (_SEE, _GPU, _PROXY, _LOAD)),
    _message("proxy fence, release, acquire, bulk load", (_WRITE, _PROXY, _GPU, _SET), (_SEE, _GPU, _LOAD)),
    _message("relaxed flag, proxy fence, bulk load", (_WRITE, _SET), (_SEE, _PROXY, _LOAD)),
    _message("bulk store, release, acquire, read", (BulkStore("x", 1), _GPU, _SET), (_SEE, _GPU, _READ)),
    _message("bulk store, relaxed flag, read", (BulkStore("x", 1), _SET), (_SEE, _READ)),
)
FORMS = {"barriers": BARRIERS, "atomics": ATOMICS, "proxies": PROXIES}
