"""Asks a box: products at chosen elements of K, every other product zero, many outputs at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.fingerprint.box import Array, Box
from tileproof.conformance.fingerprint.operands import Operands, Values

TILE = 128
"""Rows and columns of one question at most."""


@dataclass
class Asker:
    """A box at one K.

    Args:
        box: whom.
        k: how long its sums are.
        outputs: how many outputs were looked at so far.
        questions: how many products were asked for so far.
    """

    box: Box
    k: int
    outputs: int = 0
    questions: int = 0
    operands: Operands = field(init=False)

    def __post_init__(self) -> None:
        self.operands = Operands(self.box.operand)

    def each(self, products: Values, c: Values | None = None, bias: Values | None = None) -> Values:
        """One output for each row of products [P, K]; c and bias are [P]."""
        a, b = self.operands.split(products)
        step = min(TILE, max(len(products), 1))
        found = []
        for first in range(0, len(products), step):
            rows = slice(first, first + step)
            more = {}
            if c is not None:
                more["c"] = np.broadcast_to(c[rows, np.newaxis], (len(c[rows]),) * 2)
            if bias is not None:
                more["bias"] = bias[rows]
            found.append(np.diagonal(self.all(a[rows], b[rows], **more)))
        return np.concatenate(found) if found else np.zeros(0)

    def all(self, a: Values, b: Values, c: Values | None = None, bias: Values | None = None) -> Values:
        """Every output of rows of A [M, K] and rows of B [N, K], given as values; c [M, N], bias [N]."""
        found = np.empty((len(a), len(b)))
        for i in range(0, len(a), TILE):
            for j in range(0, len(b), TILE):
                rows, columns = slice(i, i + TILE), slice(j, j + TILE)
                more = {} if c is None else {"c": c[rows, columns]}
                more |= {} if bias is None else {"bias": bias[columns]}
                found[rows, columns] = self._ask(a[rows], b[columns], more)
        return found

    def _ask(self, a: Values, b: Values, more: dict[str, Values]) -> Values:
        m, n = self._extent(len(a), self.box.rows), self._extent(len(b), self.box.columns)
        padded = {"c": (m, n), "bias": (n,)}
        given = {name: _padded(value, padded[name]).astype(np.float32) for name, value in more.items()}
        x, y = (self._codes(values, rows) for values, rows in ((a, m), (b, n)))
        answer = self.box.ask(x, y, **given)[: len(a), : len(b)]
        self.outputs += answer.size
        self.questions += 1
        return np.asarray(answer, np.float64)

    def _extent(self, wanted: int, multiple: int) -> int:
        return -(-(TILE if self.box.one_shape else wanted) // multiple) * multiple

    def _codes(self, values: Values, rows: int) -> Array:
        return self.operands.encode(_padded(values, (rows, self.k)))


def _padded(values: Values, shape: Sequence[int]) -> NDArray[np.float64]:
    return np.pad(values, [(0, wanted - has) for wanted, has in zip(shape, values.shape, strict=True)])
