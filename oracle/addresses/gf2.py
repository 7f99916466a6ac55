"""Linear maps of bits: matrices over GF(2), where addition is XOR.

An address map that only moves and XORs index bits is linear: map(x ^ y) = map(x) ^ map(y). It is then known by the
images of single bits, and it is a bijection exactly when these images are independent, which a matrix of 24 columns
decides where 2^24 addresses would have to be listed otherwise. Example, swapping bits 0 and 1 and XORing bit 1 into 2:

    bit 0 -> 0b010, bit 1 -> 0b101, bit 2 -> 0b100        rank 3, a bijection of 0..7
    bit 0 -> 0b010, bit 1 -> 0b110, bit 2 -> 0b100        rank 2: 3 and 4 both go to 0b100
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class BitMatrix:
    """A linear map of bit vectors, held as integers."""

    #: Image of bit 0, of bit 1, and so on.
    columns: tuple[int, ...]

    @classmethod
    def of(cls, function: Callable[[int], int], bits: int) -> "BitMatrix":
        """The matrix of a function that is linear on `bits` bits; only single bits are looked at.

        Raises:
            Refusal: the function does not map 0 to 0, so it is not linear.
        """
        if function(0) != 0:
            raise Refusal(f"a linear map takes 0 to 0, this one to {function(0)}", hint="XOR the image of 0 away first")
        return cls(tuple(function(1 << bit) for bit in range(bits)))

    def apply(self, vector: int) -> int:
        """The image of one vector."""
        result = 0
        for bit, column in enumerate(self.columns):
            result ^= column * (vector >> bit & 1)
        return result

    def apply_all(self, vectors: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The images of many vectors; held to `apply` by the tests."""
        result = np.zeros_like(vectors)
        for bit, column in enumerate(self.columns):
            result ^= (vectors >> bit & 1) * column
        return result

    @property
    def rank(self) -> int:
        """How many columns are independent."""
        return len(self.columns) - len(self._dependencies())

    @property
    def collision(self) -> int | None:
        """A vector other than 0 that goes to 0, so that v and 0 collide; None for an injective map."""
        return next(iter(self._dependencies()), None)

    def inverse(self) -> "BitMatrix":
        """The inverse map.

        Raises:
            Refusal: the columns are dependent, or an image leaves the bits of the domain.
        """
        bits = len(self.columns)
        if self.rank < bits or any(column >> bits for column in self.columns):
            raise Refusal(f"a map of {bits} bits with rank {self.rank} has no inverse on them")
        reduced, origins = list(self.columns), [1 << bit for bit in range(bits)]
        for bit in range(bits):
            pivot = next(i for i in range(bit, bits) if reduced[i] >> bit & 1)
            reduced[bit], reduced[pivot] = reduced[pivot], reduced[bit]
            origins[bit], origins[pivot] = origins[pivot], origins[bit]
            for other in range(bits):
                if other != bit and reduced[other] >> bit & 1:
                    reduced[other] ^= reduced[bit]
                    origins[other] ^= origins[bit]
        return BitMatrix(tuple(origins))

    def __matmul__(self, first: "BitMatrix") -> "BitMatrix":
        return BitMatrix(tuple(self.apply(column) for column in first.columns))

    def __str__(self) -> str:
        rows = max((column.bit_length() for column in self.columns), default=0)
        return ", ".join(f"bit {row} = {self._row(row)}" for row in range(rows))

    def _row(self, row: int) -> str:
        return " ^ ".join(f"in {bit}" for bit, column in enumerate(self.columns) if column >> row & 1) or "0"

    def _dependencies(self) -> list[int]:
        """Independent vectors that go to 0, by elimination with the origin of each reduced column kept."""
        basis: dict[int, tuple[int, int]] = {}
        dependent = []
        for bit, column in enumerate(self.columns):
            origin = 1 << bit
            while column and column.bit_length() in basis:
                other, other_origin = basis[column.bit_length()]
                column, origin = column ^ other, origin ^ other_origin
            if column:
                basis[column.bit_length()] = column, origin
            else:
                dependent.append(origin)
        return dependent
