"""All 2^32 float32 patterns through the compiled encoder, compared with the table form (`lookup`), on threads.

The table holds two codes for each 16-bit head: one for the pattern whose lower 16 bits are 0, one for the 65,535 others
(see `lookup` for the proof that these agree). So a head is right when its first code is the one and all others are the
other. The table is made by `convert_array`, which the tests hold to the definition.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tileproof.oracle.formats import FLOAT32, FloatFormat
from tileproof.oracle.numbers.compiled_convert import encode_bits, plan_encode
from tileproof.oracle.numbers.lookup import has_table, table_of
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.refusal import Refusal

_HEADS = 1 << 16
_RESTS = 1 << 16


@dataclass(frozen=True)
class Sweep:
    """The outcome of a sweep."""

    #: Patterns compared.
    patterns: int
    #: Patterns whose two codes differ.
    different: int
    #: Heads (the upper 16 bits) with a difference, in order.
    heads: tuple[int, ...]


def sweep_float32(
    record: FloatFormat,
    overflow: Overflow = Overflow.SATURATE,
    *,
    heads: Sequence[int] = range(_HEADS),
    threads: int = 2,
) -> Sweep:
    """Compares the two ways to encode float32 by nearest-even.

    Args:
        record: a format of at most 8 bits that `lookup` has a table for.
        overflow: a mode that the format has.
        heads: upper halves of the patterns to take; all of them by default.
        threads: how many run at once; the loops hold no lock.

    Raises:
        Refusal: a format without a table, or without the overflow mode.
    """
    if record.bits > 8 or not has_table(record, FLOAT32):
        raise Refusal(f"{record.name} has no table from FLOAT32 to compare with", hint="signed formats of 8 bits have")
    table = table_of(record, FLOAT32, Rounding.NEAREST_EVEN, overflow)
    plan = plan_encode(record, FLOAT32, overflow)
    rests = np.arange(_RESTS, dtype=np.int32)

    def differences(part: Sequence[int]) -> dict[int, int]:
        codes, found = np.empty(_RESTS, np.uint8), {}
        bits = np.empty(_RESTS, np.int32)
        for head in part:
            np.bitwise_or(rests, np.uint32(head << 16).astype(np.int32), out=bits)
            encode_bits(bits, codes, plan)
            exact, other = table[2 * head], table[2 * head + 1]
            if different := int(codes[0] != exact) + int(np.count_nonzero(codes[1:] != other)):
                found[head] = different
        return found

    with ThreadPoolExecutor(threads) as pool:
        parts = pool.map(differences, (heads[start::threads] for start in range(threads)))
        found = {head: count for part in parts for head, count in part.items()}
    return Sweep(len(heads) * _RESTS, sum(found.values()), tuple(sorted(found)))
