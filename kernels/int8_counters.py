"""Which number of parts the counters of a fused combine have counted in.

The last block of a tile to arrive is the one whose arrival is the last of its launch's parts, modulo that number. After
a launch of 4 parts a counter holds 4: in a launch of 3 the second block to arrive would then take itself for the last,
and add planes that are not written yet. So counters belong to one number of parts, for as long as they exist.
"""

from typing import Any
from weakref import WeakKeyDictionary

from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

_Range = tuple[int, int]

_counted: WeakKeyDictionary[Any, dict[_Range, int]] = WeakKeyDictionary()
"""By buffer, so that what is allocated where another was begins anew: the bytes of counters, and their parts."""


def require_one_number_of_parts(arrivals: Tensor, parts: int) -> None:
    """Note that these counters count in `parts`.

    Args:
        arrivals: uint64 [tiles].
        parts: of the launch to come.

    Raises:
        Refusal: some of them have counted in another number.
    """
    begin, end = arrivals.offset_bytes, arrivals.offset_bytes + arrivals.span_bytes
    known = _counted.setdefault(arrivals.buffer, {})
    for (first, last), before in known.items():
        if before != parts and max(first, begin) < min(last, end):
            raise Refusal(
                f"arrivals have counted launches of {before} splits; this one has {parts}",
                hint="give each number of splits counters of its own, zeros before the first launch",
            )
    known[begin, end] = parts
