"""Address swizzles: one field of address bits XORed into a lower (or higher) one.

CuTe writes `Swizzle<B, M, S>`: B bits starting at bit M + S are XORed into the B bits starting at bit M. The TMA modes
of 32, 64 and 128 bytes are B = 1, 2, 3 with M = 4 and S = 3 on *absolute* shared-memory byte addresses, so 16-byte
chunks move inside a line of 32, 64 or 128 bytes, by a pattern that repeats every 256, 512 or 1,024 bytes. Example,
64-byte mode, `address ^ (((address >> 7) & 3) << 4)`:

    0x0C8 = 0b000_1_1001000    bits 8:7 = 01, bits 5:4 = 00  ->  bits 5:4 = 01, 0x0D8
    0x2C8, 512 bytes further                                 ->  0x2D8
    0x148, 128 bytes further   bits 8:7 = 10                 ->  bits 5:4 = 10, 0x168: another chunk

The field that is read does not change, so a swizzle is its own inverse and a bijection.

Sources: CUTLASS include/cute/swizzle.hpp for the three numbers; the TMA modes are measured on an H200 (tests/golden,
h200_tma_2d_u16: every case).
"""

from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from tileproof.oracle.arguments import whole
from tileproof.oracle.refusal import Refusal

Addresses = npt.NDArray[np.integer]

#: Bytes that a TMA swizzle moves as one: bits 3:0 of an address stay.
CHUNK_BYTES = 16

_TMA_BITS = {0: 0, 32: 1, 64: 2, 128: 3}


@dataclass(frozen=True)
class Swizzle:
    """CuTe's Swizzle<bits, base, shift>.

    Raises:
        Refusal: what is no whole number, negative `bits` or `base`, or fields that overlap (|shift| < bits), which
            would not be a bijection of CuTe's kind.
    """

    #: Width of both fields.
    bits: int
    #: Lowest bit of the lower field.
    base: int
    #: Distance of the fields; positive: the higher field is read and the lower one changed.
    shift: int

    def __post_init__(self) -> None:
        for name in ("bits", "base", "shift"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        if self.bits < 0 or self.base < 0:
            raise Refusal(f"Swizzle<{self.bits}, {self.base}, {self.shift}> has a negative width or position")
        if abs(self.shift) < self.bits:
            raise Refusal(
                f"Swizzle<{self.bits}, {self.base}, {self.shift}>: fields of {self.bits} bits at distance "
                f"{self.shift} overlap",
                hint="the distance must be at least the width",
            )

    @classmethod
    def tma(cls, span_bytes: int) -> "Swizzle":
        """The hardware mode of a tensor map, on absolute shared-memory byte addresses.

        Args:
            span_bytes: 32, 64 or 128; 0 for a copy without swizzle.

        Raises:
            Refusal: another span.
        """
        span_bytes = whole("span_bytes", span_bytes)
        if span_bytes not in _TMA_BITS:
            raise Refusal(f"a swizzle span of {span_bytes} bytes is no TMA mode", hint="spans are 0, 32, 64 and 128")
        return cls(_TMA_BITS[span_bytes], 4, 3)

    @property
    def atom_bytes(self) -> int:
        """Addresses after which the pattern repeats: 2^(bits + base + |shift|); 256, 512, 1,024 for the TMA modes.

        Without swizzle this is 128, the alignment that a TMA destination needs anyway.
        """
        return 1 << (self.bits + self.base + abs(self.shift))

    @property
    def read_mask(self) -> int:
        """The address bits that decide the permutation."""
        return self._field << (self.base + max(self.shift, 0))

    @property
    def changed_mask(self) -> int:
        """The address bits that the swizzle may flip."""
        return self._field << (self.base + max(-self.shift, 0))

    @overload
    def apply(self, addresses: int) -> int: ...
    @overload
    def apply(self, addresses: Addresses) -> Addresses: ...
    def apply(self, addresses: int | Addresses) -> int | Addresses:
        """Where the byte of a linear address lies; applied twice it gives the linear address back.

        Args:
            addresses: one address, or an array of any shape and integer type.

        Returns:
            The same kind and type.

        Raises:
            Refusal: a negative address, an array of another type, or one too narrow for the fields.
        """
        if isinstance(addresses, int):
            if addresses < 0:
                raise Refusal(f"address {addresses} is negative")
            return addresses ^ _moved(addresses & self.read_mask, self.shift)
        array = self._require_addresses(np.asarray(addresses))
        field = array & array.dtype.type(self.read_mask)
        moved = field >> array.dtype.type(self.shift) if self.shift >= 0 else field << array.dtype.type(-self.shift)
        return np.asarray(array ^ moved)

    def __str__(self) -> str:
        return f"Swizzle<{self.bits}, {self.base}, {self.shift}>"

    @property
    def _field(self) -> int:
        return (1 << self.bits) - 1

    def _require_addresses(self, addresses: Addresses) -> Addresses:
        if not np.issubdtype(addresses.dtype, np.integer):
            raise Refusal(f"addresses of type {addresses.dtype} are no integers")
        if np.any(addresses < 0):
            raise Refusal(f"address {addresses.min()} is negative")
        if (self.read_mask | self.changed_mask) > np.iinfo(addresses.dtype).max:
            raise Refusal(
                f"addresses of type {addresses.dtype} are too narrow for {self}", hint="pass uint32 or int64 addresses"
            )
        return addresses


def _moved(field: int, shift: int) -> int:
    return field >> shift if shift >= 0 else field << -shift
