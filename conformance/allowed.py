"""Outputs with more than one right value: what was seen against a set.

Example: a set from 2.0 to 2.015625 in bfloat16 has two values. Seen 2.015625: expected becomes 2.015625, and nothing
differs. Seen 2.03125: expected becomes the nearer end, 2.015625.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.bits import Raw, is_nan, ordinal
from tileproof.conformance.compare import raw_bits
from tileproof.conformance.contract import Allowed, Mask, Right


def settle(format_name: str, right: NDArray[Any] | Allowed, seen: Sequence[Raw]) -> tuple[Raw, Raw]:
    """Expected and observed bits that agree where all that was seen is right.

    Args:
        format_name: of the elements.
        right: the right value, or the set of them.
        seen: the bits of an output, and of the ends of its bracket where the device carries one.

    Returns:
        The right bits, of a set the ones nearest to what was seen; and the first of `seen` that is not right, where one
        is not.
    """
    observed, *ends = seen
    if not isinstance(right, Allowed):
        return raw_bits(right), observed
    for end in ends:
        observed = np.where(contains(format_name, right, observed), end, observed)
    observed = np.where(contains(format_name, right, observed), seen[0], observed)
    lower, upper = raw_bits(right.lower), raw_bits(right.upper)
    low, key = ordinal(format_name, lower), ordinal(format_name, observed)
    nearest = np.where(key < low, lower, upper)
    return np.where(contains(format_name, right, observed), observed, nearest), observed


def contains(format_name: str, right: Allowed, observed: Raw) -> Mask:
    """Which of the observed bits are allowed."""
    lower, upper = raw_bits(right.lower), raw_bits(right.upper)
    key = ordinal(format_name, observed)
    between = (ordinal(format_name, lower) <= key) & (key <= ordinal(format_name, upper))
    plain = ~(is_nan(format_name, observed) | is_nan(format_name, lower) | _zero(format_name, observed))
    return np.asarray((observed == lower) | (observed == upper) | (between & plain))


def undecided(right: Right) -> dict[str, Mask]:
    """For each output with sets, which elements have more than one right value."""
    return {
        name: np.asarray(raw_bits(one.lower) != raw_bits(one.upper))
        for name, one in right.items()
        if isinstance(one, Allowed)
    }


def shares(right: Right, brackets: dict[str, tuple[Raw, Raw]]) -> tuple[str, ...]:
    """How much of each output is not decided to the bit, in words."""
    notes = []
    for name, open_ in undecided(right).items():
        text = f"{name}: {int(open_.sum())} of {open_.size} elements have two right values or more"
        if name in brackets:
            low, high = brackets[name]
            text += f"; the device leaves {int((low != high).sum())} open"
        notes.append(text)
    return tuple(notes)


def _zero(format_name: str, observed: Raw) -> Mask:
    """Zeros, whose sign is right or wrong by itself."""
    return np.asarray(ordinal(format_name, observed) == 0)
