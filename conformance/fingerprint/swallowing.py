"""The structure probe: 2^top at one element of K, -2^top at another, 2^-18 at a third, zero elsewhere.

The result is 0 or 2^-18. It is 0 exactly if the tiny term meets the large one before that is cancelled: in the same
fused sum, which cuts it, or in a total that already holds it. So the elements at which the tiny term is lost are those
of the smallest sum that has both large ones, and all pairs together give the tree of sums (the idea of FPRev,
arXiv 2411.00442, whose tiny terms are all there at once and counted; here each is asked alone, so a narrow output
format does no harm).

Worked example, a chain of groups of 16: with the large terms at k = 0 and 1 the tiny one is lost at 2 to 15 and
survives from 16 on; with the large terms at 0 and 16 it is lost at 1 to 31.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.fingerprint.asking import Asker
from tileproof.conformance.fingerprint.evidence import Unexplained
from tileproof.conformance.fingerprint.scale import TINY, Scale


class Swallowing:
    """Asks structure probes of one box at one K."""

    def __init__(self, asker: Asker, scale: Scale) -> None:
        self._asker = asker
        half = scale.top // 2
        self._large = (2.0 ** (scale.top - half), 2.0**half)
        self._tiny = (2.0**-9, 2.0**-9)

    def survives(self, plus: int, minus: Sequence[int], tiny: Sequence[int]) -> NDArray[np.bool_]:
        """Whether the tiny term is in the result: [minus, tiny]; the three places are disjoint.

        Raises:
            Unexplained: a result that is neither 0 nor the tiny term.
        """
        a, b = np.zeros((len(minus), self._asker.k)), np.zeros((len(tiny), self._asker.k))
        rows, columns = np.arange(len(minus)), np.arange(len(tiny))
        a[:, plus], a[rows, list(minus)] = self._large[0], -self._large[0]
        a[:, list(tiny)] = self._tiny[0]
        b[:, plus], b[:, list(minus)] = self._large[1], self._large[1]
        b[columns, list(tiny)] = self._tiny[1]
        seen = self._asker.all(a, b)
        odd = np.argwhere((seen != 0) & (seen != TINY))
        if len(odd):
            i, j = odd[0]
            large = f"{self._large[0] * self._large[1]:g}"
            probe = f"{large} at k = {plus}, -{large} at k = {minus[i]}, 2^-18 at k = {tiny[j]}"
            raise Unexplained(probe, f"{seen[i, j]:g}", "a sum either keeps 2^-18 or loses it")
        return np.asarray(seen == TINY)

    def lost(self, plus: int, members: Sequence[int]) -> Mapping[int, frozenset[int]]:
        """For each other member as the place of -2^top: where the tiny term is lost, among the rest.

        One product asks for all pairs of two halves of the members; the bits of an index make halves that tell any
        two apart.
        """
        others = [k for k in members if k != plus]
        gone: dict[int, set[int]] = {k: set() for k in others}
        for bit in range(max(len(others) - 1, 0).bit_length()):
            halves = (
                ([], [])
                if not others
                else tuple([k for i, k in enumerate(others) if i >> bit & 1 == s] for s in (0, 1))
            )
            for minus, tiny in (halves, halves[::-1]):
                kept = self.survives(plus, minus, tiny)
                for i, j in np.argwhere(~kept):
                    gone[minus[i]].add(tiny[j])
        return {k: frozenset(lost) for k, lost in gone.items()}
