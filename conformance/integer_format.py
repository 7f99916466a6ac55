"""Integers as a report shows them, two's complement where they have a sign: codes, sums and counters.

Example, INT8: 0x80 is -128, and its distance to 0x7f is 255 codes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class IntegerFormat:
    """Integers of `bits` bits, with a sign or without."""

    name: str
    bits: int
    signed: bool = True

    def values(self, raw: NDArray[Any]) -> NDArray[np.int64]:
        """The integers of stored bits; of 64 bits without a sign, the ones below 2^63."""
        kind = "i" if self.signed else "u"
        stored = np.ascontiguousarray(raw, f"u{self.bits // 8}").reshape(np.shape(raw))
        return stored.view(f"{kind}{self.bits // 8}").astype(np.int64)


INTEGER_FORMATS = {
    one.name: one
    for one in (
        IntegerFormat(f"{'' if signed else 'U'}INT{bits}", bits, signed)
        for bits in (8, 16, 32, 64)
        for signed in (True, False)
    )
}
"""By name: INT8, UINT8, and so on to UINT64."""
