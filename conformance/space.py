"""What a contract says about the parameters of its cases: from where a search draws, and where it draws most.

A tier is a list that someone wrote; a search needs to know what could stand in such a list. A contract's record says
it beside its cases: for each dimension how far it may go and the sizes at which a kernel goes another way, how tensors
may lie, and the inputs of which every bit pattern has a right answer.

    Space({"T": Extent(17), "K": Extent(4200, (8, 2048))}, offsets={"x": 16}, any_bits=("x",))

draws K from 0 to 4200, and oftener 7, 8, 9, 2047, 2048 and 2049.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

from tileproof.conformance.case import Shape, View


@dataclass(frozen=True)
class Extent:
    """One dimension.

    Args:
        most: the largest size.
        edges: sizes that a kernel's tiles end at; their neighbours on both sides are drawn too.
        least: the smallest size.
        step: sizes are `least` and multiples of `step` further on.
        only: the sizes themselves, where no other will do; one that stands twice is drawn twice as often. The rest is
            then without meaning.
    """

    most: int = 0
    edges: tuple[int, ...] = ()
    least: int = 0
    step: int = 1
    only: tuple[int, ...] = ()

    def sizes(self, most: int) -> tuple[int, ...]:
        """The sizes worth drawing often, ascending, none above `most`: smallest, edges and what lies beside them."""
        if self.only:
            return tuple(sorted(size for size in self.only if size <= most)) or (min(self.only),)
        beside = (edge + step for edge in self.edges for step in (-self.step, 0, self.step))
        found = {self.least, self.least + self.step, *beside}
        return tuple(sorted(size for size in found if self.holds(size) and size <= most)) or (self.least,)

    def holds(self, size: int) -> bool:
        """Whether a dimension may have this size."""
        if self.only:
            return size in self.only
        return self.least <= size <= self.most and (size - self.least) % self.step == 0


@dataclass(frozen=True)
class Space:
    """The parameters of a contract's cases.

    Args:
        extents: of each dimension, by name.
        offsets: the most elements between an aligned address and a tensor, by the tensor's short name.
        pads: the most elements between two rows, likewise.
        views: the ways in which tensors may lie, where no others will do: offsets and pads then stay empty.
        any_bits: names of inputs of which every bit pattern has a right answer.
        work: the largest product of the dimensions named in `volume`: what a search can afford to run.
        volume: dimensions whose product is the work; all where it is empty.
        nothing: counted dimensions of which 0 leaves something to do: a batch of none is a matrix alone.
        dear: of routes that take longer for the same work, the largest product.
        takes: whether a shape is one that the kernel takes, beyond what the contract itself refuses.
    """

    extents: Mapping[str, Extent]
    offsets: Mapping[str, int] = field(default_factory=dict)
    pads: Mapping[str, int] = field(default_factory=dict)
    views: tuple[tuple[View, ...], ...] = ()
    any_bits: tuple[str, ...] = ()
    work: int = 1 << 16
    volume: tuple[str, ...] = ()
    nothing: tuple[str, ...] = ()
    dear: Mapping[str, int] = field(default_factory=dict)
    takes: Callable[[Shape], bool] = lambda shape: True

    def left(self, name: str, drawn: Mapping[str, int], share: int = 1) -> int:
        """How large a dimension may be beside those that are drawn already, in a part of the work: one in so many."""
        extent = self.extents[name]
        most = max(extent.only, default=extent.most)
        if name not in self.counted:
            return most
        beside = prod(max(1, size) for other, size in drawn.items() if other in self.counted)
        return min(most, max(1, self.work // share // beside))

    @property
    def counted(self) -> tuple[str, ...]:
        """Names of the dimensions whose product is the work."""
        return self.volume or tuple(self.extents)

    def fewest(self, name: str) -> int:
        """The least size with which a dimension leaves something to do, as far as it alone says."""
        return int(name in self.counted and name not in self.nothing)

    @property
    def least_work(self) -> int:
        """Of the least sizes that there are: more than `work`, and a search has nothing to draw."""
        return prod(max(1, min(one.only, default=one.least)) for one in map(self.extents.__getitem__, self.counted))

    def affords(self, shape: Shape, route: str) -> bool:
        """Whether a shape is small enough for a route."""
        return self.work_of(shape) <= self.dear.get(route, self.work)

    def work_of(self, shape: Shape) -> int:
        """The product of a shape's counted dimensions."""
        return prod(max(1, shape.size(name)) for name in self.counted)
