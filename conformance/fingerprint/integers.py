"""An integer product as a black box: it is exact, or it is not; there is no order to find.

    >>> examine("ours", lambda a, b: a.astype(np.int32) @ b.astype(np.int32).T, 64)
    'exact: 10240 of 10240 sums of 64 and 128 products'

Sums that leave 32 bits need a K of 131,072 of the largest products; they are asked for where a K of that is given.
"""

from collections.abc import Callable

import numpy as np

from tileproof.conformance.fingerprint.box import Array
from tileproof.conformance.fingerprint.evidence import Unexplained

ROWS = 32
SEED = 30
LARGEST = 1 << 14
"""The product of -128 with itself."""


def examine(name: str, multiply: Callable[[Array, Array], Array], k: int, *, overflow: bool = False) -> str:
    """What an int8 product does, in words.

    Args:
        name: of the box.
        multiply: int8 codes [M, K] and [N, K] to integers [M, N].
        k: how many products; twice as many are asked for too.
        overflow: whether to ask for sums beyond 2^31 as well, with K = 131,072 and more.

    Raises:
        Unexplained: a sum is not the exact one, or one that leaves 32 bits neither wraps nor is clamped.
    """
    random, agreed = np.random.default_rng(SEED), 0
    for depth in (k, 2 * k):
        for low, high in ((-128, 128), (127, 128), (-128, -127), (-1, 2), (-128, -120)):
            a, b = (random.integers(low, high, (ROWS, depth)).astype(np.int8) for _ in range(2))
            _require(name, multiply(a, b), a.astype(np.int64) @ b.astype(np.int64).T, depth)
            agreed += ROWS * ROWS
    text = f"exact: {agreed} of {agreed} sums of {k} and {2 * k} products"
    return f"{text}; beyond 32 bits: {_beyond(name, multiply)}" if overflow else text


def _beyond(name: str, multiply: Callable[[Array, Array], Array]) -> str:
    depth = (1 << 31) // LARGEST
    a = np.full((8, depth), -128, np.int8)
    seen = int(np.asarray(multiply(a, a), np.int64)[0, 0])
    if seen == -(1 << 31):
        return "wrapped"
    if seen == (1 << 31) - 1:
        return "clamped"
    raise Unexplained(f"{name}: {depth} products of -128 with itself", str(seen), "2^31 wraps, or is clamped")


def _require(name: str, seen: Array, exact: Array, depth: int) -> None:
    wrong = np.argwhere(np.asarray(seen, np.int64) != exact)
    if len(wrong):
        i, j = wrong[0]
        raise Unexplained(
            f"{name}: random int8 codes, K = {depth}, row {i}, column {j}",
            str(seen[i, j]),
            f"the exact sum is {exact[i, j]}",
        )
