"""How large a probe's numbers may be, found by asking: 2^top and -2^top cancel, and 2^-18 alone comes back.

A float16 accumulator overflows where a float32 one does not, so the largest power of two is tried downwards.
"""

from dataclasses import dataclass

import numpy as np

from tileproof.conformance.fingerprint.asking import Asker
from tileproof.conformance.fingerprint.evidence import Unexplained
from tileproof.conformance.fingerprint.operands import UNIT_BITS

TOPS = (16, 12)
"""Tried in order; eight times the second is still a float16."""

MULTIPLE = 8
"""A probe adds up at most so many of its largest number."""

TINY = 2.0**-UNIT_BITS


@dataclass(frozen=True)
class Scale:
    """The exponent of the largest number in a probe."""

    top: int

    @property
    def large(self) -> float:
        """2^top."""
        return 2.0**self.top


def find_scale(asker: Asker) -> Scale:
    """The larger of the two that the box holds eight times.

    Raises:
        Unexplained: it holds neither, or does not give a lone 2^-18 back.
    """
    alone = np.zeros((1, asker.k))
    alone[0, -1] = TINY
    if (seen := asker.each(alone)[0]) != TINY:
        raise Unexplained(f"{TINY} at k = {asker.k - 1} alone", f"{seen}", "a lone product is its own sum")
    for top in TOPS:
        many = np.zeros((2, asker.k))
        many[0, :MULTIPLE] = 2.0**top
        many[1, 0], many[1, -1] = 2.0**top, -(2.0**top)
        seen = asker.each(many)
        if seen[0] == MULTIPLE * 2.0**top and seen[1] == 0:
            return Scale(top)
    raise Unexplained(
        f"{MULTIPLE} times 2^{TOPS[-1]} at k = 0 to {MULTIPLE - 1}, and 2^{TOPS[-1]} - 2^{TOPS[-1]}",
        f"{seen[0]}, {seen[1]}",
        f"exact sums are {MULTIPLE * 2 ** TOPS[-1]} and 0",
    )
