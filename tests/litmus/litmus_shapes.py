"""The shapes: who writes and reads what, in which order, and the outcome that no interleaving gives.

A shape is text: threads apart by `|`, operations by `;`. `W x 1` and `R x` access data, `w y 1` and `r y` a flag; `.`
stands where a variant may have a fence. A variant says how strong data and flags are, what stands for the dots, and
with which scope. Threads are of blocks of their own, or of warps of one block.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from litmus_program import Fence, Litmus, Op, Order, Read, Thread, Write

#: Name: threads, and the outcome.
SHAPES: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "MP": ("W x 1 ; . ; w y 1 | r y ; . ; R x", {"r0": 1, "r1": 0}),
    "SB": ("w x 1 ; . ; r y | w y 1 ; . ; r x", {"r0": 0, "r1": 0}),
    "LB": ("r x ; . ; w y 1 | r y ; . ; w x 1", {"r0": 1, "r1": 1}),
    "S": ("W x 2 ; . ; w y 1 | r y ; . ; W x 1", {"r0": 1, "x": 2}),
    "R": ("W x 1 ; . ; w y 1 | w y 2 ; . ; R x", {"y": 2, "r0": 0}),
    "2+2W": ("W x 1 ; . ; w y 2 | W y 1 ; . ; w x 2", {"x": 1, "y": 1}),
    "CoRR": ("W x 1 | R x ; . ; R x", {"r0": 1, "r1": 0}),
    "CoWW": ("W x 1 ; . ; W x 2", {"x": 1}),
    "CoRW": ("R x ; . ; W x 1 | W x 2", {"r0": 2, "x": 2}),
    "CoWR": ("W x 1 ; . ; R x | W x 2", {"r0": 2, "x": 1}),
    "IRIW": ("w x 1 | w y 1 | r x ; . ; r y | r y ; . ; r x", {"r0": 1, "r1": 0, "r2": 1, "r3": 0}),
    "WRC": ("W x 1 | r x ; . ; w y 1 | r y ; . ; R x", {"r0": 1, "r1": 1, "r2": 0}),
    "RWC": ("W x 1 | r x ; . ; r y | w y 1 ; . ; R x", {"r0": 1, "r1": 0, "r2": 0}),
    "ISA2": ("W x 1 ; . ; w y 1 | r y ; . ; w z 1 | r z ; . ; R x", {"r0": 1, "r1": 1, "r2": 0}),
}


@dataclass(frozen=True)
class Variant:
    """How strong the accesses of a shape are.

    Attributes:
        name: for tables.
        data: of accesses to data.
        store: of stores to flags.
        load: of loads of flags.
        fence: what stands for the dots; None for nothing.
        strong_scope: of the accesses; where None, the scope that the table varies.
    """

    name: str
    data: Order
    store: Order
    load: Order
    fence: str | None = None
    strong_scope: str | None = None

    @property
    def scoped(self) -> bool:
        """Whether a scope makes a difference."""
        return self.fence is not None or self.load in (Order.RELAXED, Order.ACQUIRE)


_WEAK, _VOLATILE, _RELAXED = Order.WEAK, Order.VOLATILE, Order.RELAXED
VARIANTS = (
    Variant("weak", _WEAK, _WEAK, _WEAK),
    Variant("volatile", _VOLATILE, _VOLATILE, _VOLATILE),
    Variant("relaxed", _RELAXED, _RELAXED, _RELAXED),
    Variant("weak data, relaxed flag", _WEAK, _RELAXED, _RELAXED),
    Variant("weak data, release and acquire", _WEAK, Order.RELEASE, Order.ACQUIRE),
    Variant("relaxed data, release and acquire", _RELAXED, Order.RELEASE, Order.ACQUIRE),
    Variant("weak data, relaxed flag, fence.acq_rel", _WEAK, _RELAXED, _RELAXED, "acq_rel", "gpu"),
    Variant("relaxed, fence.acq_rel", _RELAXED, _RELAXED, _RELAXED, "acq_rel", "gpu"),
    Variant("weak, fence.sc", _WEAK, _WEAK, _WEAK, "sc", "gpu"),
    Variant("relaxed, fence.sc", _RELAXED, _RELAXED, _RELAXED, "sc", "gpu"),
)
PLACES = ("blocks", "one block")


def litmus(shape: str, variant: Variant, scope: str, place: str) -> Litmus:
    """A shape in one of its variants."""
    text, outcome = SHAPES[shape]
    register = iter(range(100))
    threads = []
    for number, part in enumerate(text.split("|")):
        ops = tuple(op for word in part.split(";") for op in _ops(word.split(), variant, scope, register))
        threads.append(Thread(ops, *((number, 0) if place == "blocks" else (0, number))))
    name = f"{shape}, {variant.name}{f', {scope}' if variant.scoped else ''}, {place}"
    return Litmus(name, tuple(threads), outcome)


def _ops(words: list[str], variant: Variant, scope: str, register: Iterator[int]) -> list[Op]:
    if words == ["."]:
        return [] if variant.fence is None else [Fence(scope, variant.fence == "sc")]
    width = variant.strong_scope or scope
    match words[0]:
        case "W":
            return [Write(words[1], int(words[2]), variant.data, width)]
        case "w":
            return [Write(words[1], int(words[2]), variant.store, width)]
        case "R":
            return [Read(words[1], next(register), variant.data, width)]
        case "r":
            return [Read(words[1], next(register), variant.load, width)]
    raise ValueError(words)
