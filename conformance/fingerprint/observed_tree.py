"""The tree of sums of a box, recovered by structure probes (`swallowing`).

From one element, the others fall into classes: those that meet it in the same sum. The classes nest, the smallest sum
first; what stands in a class is then recovered the same way. In a *wide* sum nothing is lost beside 2^top, so only
what was added before is; its class is told by that.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tileproof.conformance.fingerprint.evidence import Unexplained
from tileproof.conformance.fingerprint.swallowing import Swallowing
from tileproof.conformance.fingerprint.tree import Node, Tree


@dataclass(frozen=True)
class Meeting:
    """Elements that join in one sum."""

    members: tuple[int, ...]
    wide: bool


class TreeFinder:
    """Recovers trees of one box at one K."""

    def __init__(self, probes: Swallowing) -> None:
        self._probes = probes

    def find(self, members: Sequence[int]) -> Tree:
        """The tree over ascending elements of K, all others being zero.

        Raises:
            Unexplained: the classes do not nest, so there is no tree.
        """
        if len(members) == 1:
            return members[0]
        start, meetings = self._path(members)
        tree: Tree = start
        for meeting in meetings:
            tree = Node((tree, *self._beside(meeting, start)), meeting.wide)
        return tree

    def _path(self, members: Sequence[int]) -> tuple[int, list[Meeting]]:
        """From the end that sees more of the structure: a descending chain shows nothing to its last element."""
        start = members[0]
        meetings = self._meetings(start, members)
        if len(meetings) == 1 and len(members) > 2 and not meetings[0].wide:
            other = self._meetings(members[-1], members)
            if len(other) > 1:
                return members[-1], other
        return start, meetings

    def _meetings(self, start: int, members: Sequence[int]) -> list[Meeting]:
        lost = self._probes.lost(start, members)
        meetings = sorted(_classes(lost), key=lambda one: len(lost[one.members[0]]))
        before: set[int] = set()
        for meeting in meetings:
            for k in meeting.members:
                _require_nested(start, k, lost[k], before | (set() if meeting.wide else set(meeting.members) - {k}))
            before |= set(meeting.members)
        return meetings

    def _beside(self, meeting: Meeting, start: int) -> list[Tree]:
        """The children of a sum besides the one that holds `start`."""
        left, found = list(meeting.members), list[Tree]()
        while left:
            first, *rest = left
            if meeting.wide or not rest:
                return [*found, *left]
            together = self._probes.survives(first, rest, [start])[:, 0]
            lower = [k for k, kept in zip(rest, together, strict=True) if kept]
            left = [k for k in rest if k not in lower]
            found.append(self.find([first, *lower]))
        return found


def _classes(lost: Mapping[int, frozenset[int]]) -> list[Meeting]:
    """Wide sums: several elements with the same losses. The others: the same losses but for the element itself."""
    alike: dict[frozenset[int], list[int]] = defaultdict(list)
    for k, gone in lost.items():
        alike[gone].append(k)
    found = [Meeting(tuple(members), wide=True) for members in alike.values() if len(members) > 1]
    narrow: dict[frozenset[int], list[int]] = defaultdict(list)
    for gone, members in alike.items():
        if len(members) == 1:
            narrow[gone | set(members)].append(members[0])
    return [*found, *(Meeting(tuple(members), wide=False) for members in narrow.values())]


def _require_nested(start: int, minus: int, lost: frozenset[int], wanted: set[int]) -> None:
    if lost == wanted:
        return
    odd = min(lost ^ wanted)
    raise Unexplained(
        f"large terms at k = {start} and k = {minus}, 2^-18 at k = {odd}",
        "it is lost" if odd in lost else "it survives",
        "in a tree of sums that contradicts the other elements",
    )
