"""What a pack of a weight or scale matrix is: the offset of element raw[k][n] in the packed buffer.

Every pack of this project writes the digits of k and n (`digit`) in another order, slowest first. From that list follow
the offset, its inverse, which shapes are legal, and that the offsets of a legal shape are a bijection.

`offset` and `locate` are the definition, for numbers and arrays of them; `pack` and `unpack` move whole matrices by
reshaping and are held to `offset` by the tests. An offset counts elements. Layouts of 4-bit codes count codes;
`nibble.join` makes the bytes of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.addresses.digit import Axis, Digit, Index, axis_digits, widen_index
from tileproof.oracle.arguments import whole, wholes
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.refusal import Refusal

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Use:
    """A production weight that is stored in a layout: who, and its shape."""

    name: str
    k: int
    n: int


@dataclass(frozen=True, kw_only=True)
class PackLayout:
    """A packed order of a matrix raw[K][N].

    Raises:
        Refusal: the digits leave out a part of k or n or take one twice.
    """

    name: str
    #: Digits of k and n, slowest first.
    digits: tuple[Digit, ...]
    #: Where the relation comes from: repository, path, commit, and section.
    source: str
    evidence: Evidence
    #: Production shapes stored this way.
    uses: tuple[Use, ...]
    #: Bits of an element: 8, or 4 for codes that `nibble.join` packs two to a byte.
    element_bits: int = 8
    #: Whether a shape that does not fill tiles is padded (else it is refused).
    pads: bool = False

    def __post_init__(self) -> None:
        for axis in Axis:
            axis_digits(self.digits, axis)

    @property
    def k_multiple(self) -> int:
        """What K is a multiple of, padding included."""
        return axis_digits(self.digits, Axis.K)[0].divisor

    @property
    def n_multiple(self) -> int:
        """What N is a multiple of, padding included."""
        return axis_digits(self.digits, Axis.N)[0].divisor

    def stored_shape(self, K: int, N: int) -> tuple[int, int]:
        """K and N as stored: rounded up to whole tiles where the layout pads.

        Raises:
            Refusal: a size that is negative or no whole number, or a shape that does not fill tiles in a layout that
                does not pad.
        """
        K, N = wholes(K=K, N=N)
        if K < 0 or N < 0:
            raise Refusal(f"{self.name}: shape K = {K}, N = {N} has a negative size")
        stored = _round_up(K, self.k_multiple), _round_up(N, self.n_multiple)
        if stored != (K, N) and not self.pads:
            raise Refusal(
                f"{self.name}: K = {K}, N = {N} are no multiples of {self.k_multiple} and {self.n_multiple}",
                hint=f"pad the matrix to K = {stored[0]}, N = {stored[1]}, or take another layout",
            )
        return stored

    def size(self, K: int, N: int) -> int:
        """Elements of the packed buffer, padding included."""
        return math.prod(self.stored_shape(K, N))

    def offset(self, k: Index, n: Index, K: int, N: int) -> Index:
        """Where element raw[k][n] lies in the packed buffer, in elements.

        Args:
            k, n: numbers, or integer arrays that broadcast.
            K, N: the matrix.

        Raises:
            Refusal: an illegal shape, or an index outside it.
        """
        K, N = wholes(K=K, N=N)
        stored = self.stored_shape(K, N)
        k, n = _require_inside(k, K, "k"), _require_inside(n, N, "n")
        result = k * 0
        for digit in self.digits:
            result = result * _size(digit, stored) + digit.of(k if digit.axis is Axis.K else n)
        return result

    def locate(self, offset: Index, K: int, N: int) -> tuple[Index, Index]:
        """The inverse: k and n of the element at an offset; in a padded layout they may lie outside K, N.

        Raises:
            Refusal: an illegal shape, or an offset outside the buffer.
        """
        stored = self.stored_shape(K, N)
        rest = _require_inside(offset, math.prod(stored), "offset")
        index = {Axis.K: rest * 0, Axis.N: rest * 0}
        for digit in reversed(self.digits):
            size = _size(digit, stored)
            index[digit.axis] = index[digit.axis] + rest % size * digit.divisor
            rest = rest // size
        return index[Axis.K], index[Axis.N]

    def pack(self, raw_kn: Array, *, fill: int = 0) -> Array:
        """The packed buffer, one-dimensional, of the matrix's type.

        Args:
            raw_kn: [K, N], any type.
            fill: what padding holds.

        Raises:
            Refusal: another rank, an illegal shape, or a fill that the type does not hold.
        """
        raw = np.asarray(raw_kn)
        if raw.ndim != 2:
            raise Refusal(f"{self.name}: raw has shape {raw.shape}; pack takes rank 2, [K, N]")
        _require_fill(fill, raw.dtype)
        stored = self.stored_shape(*raw.shape)
        if stored != raw.shape:
            padded = np.full(stored, fill, raw.dtype)
            padded[: raw.shape[0], : raw.shape[1]] = raw
            raw = padded
        return raw.reshape(self._cut(stored)).transpose(self._order()).reshape(-1)

    def unpack(self, flat: Array, K: int, N: int) -> Array:
        """The matrix [K, N] of a packed buffer; padding is dropped.

        Raises:
            Refusal: an illegal shape, or a buffer of another rank or size.
        """
        buffer = np.asarray(flat)
        K, N = wholes(K=K, N=N)
        stored = self.stored_shape(K, N)
        if buffer.shape != (math.prod(stored),):
            raise Refusal(
                f"{self.name}: buffer of shape {buffer.shape}; K = {K}, N = {N} take [{math.prod(stored)}]",
                hint="pass the whole packed buffer as one dimension",
            )
        cut, order = self._cut(stored), self._order()
        permuted = buffer.reshape([cut[axis] for axis in order])
        return permuted.transpose(np.argsort(order)).reshape(stored)[:K, :N]

    def is_bit_linear(self, K: int, N: int) -> bool:
        """Whether the offset is a linear map of the index bits over GF(2): every digit a bit field of a full axis."""
        sizes = self.stored_shape(K, N)
        return all(size > 0 and size & (size - 1) == 0 for size in sizes) and all(d.is_bit_field for d in self.digits)

    def __str__(self) -> str:
        return "".join(f"[{digit}]" for digit in self.digits)

    def _by_axis(self) -> tuple[Digit, ...]:
        """Digits in the order of a row-major raw[K][N] cut into them."""
        return axis_digits(self.digits, Axis.K) + axis_digits(self.digits, Axis.N)

    def _cut(self, stored: tuple[int, int]) -> list[int]:
        return [_size(digit, stored) for digit in self._by_axis()]

    def _order(self) -> Sequence[int]:
        cut = self._by_axis()
        return [cut.index(digit) for digit in self.digits]


def _size(digit: Digit, stored: tuple[int, int]) -> int:
    return digit.size(stored[0] if digit.axis is Axis.K else stored[1])


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _require_fill(fill: int, dtype: np.dtype[Any]) -> None:
    fill = whole("fill", fill)
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= fill <= np.iinfo(dtype).max:
        raise Refusal(f"fill {fill} is outside {np.iinfo(dtype).min}..{np.iinfo(dtype).max}, the range of {dtype}")


def _require_inside(index: Index, length: int, name: str) -> Index:
    index = widen_index(name, index)  # an int32 index would overflow in a matrix of 2^31 elements
    if isinstance(index, int):
        if not 0 <= index < length:
            raise Refusal(f"{name} = {index} is outside 0..{length - 1}")
        return index
    if np.any(index < 0) or np.any(index >= length):
        raise Refusal(f"{name} from {index.min()} to {index.max()} is outside 0..{length - 1}")
    return index
