"""The 64-bit matrix descriptor of `wgmma`: where an operand starts in shared memory, its two strides, its swizzle.

    bits 13:0    start address / 16            bits 51:49   base offset
    bits 29:16   leading dimension offset / 16 bits 63:62   swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes
    bits 45:32   stride dimension offset / 16  the others are reserved

Example, a 128-byte swizzled K-major tile at 0x4000, groups of 8 rows 1,024 bytes apart: 0x4000 / 16 = 0x400,
1024 / 16 = 64 = 0x40, swizzle 1: 0x4000_0040_0001_0400 with a leading offset of 16 (not used there).

What the fields mean for an element's address is in `wgmma_tile`.

Source: PTX ISA 9.2 section 9.7.15.5.1.2, "Matrix Descriptor Format"; CUTLASS include/cute/arch/mma_sm90_desc.hpp.
"""

from dataclasses import dataclass, replace

from tileproof.oracle.refusal import Refusal

#: What addresses and offsets are multiples of: their low bits are not encoded.
UNIT_BYTES = 16

_FIELD_BITS = 14
_LIMIT_BYTES = UNIT_BYTES << _FIELD_BITS

#: First bit of each 14-bit field.
_FIELDS = {"start": 0, "leading_bytes": 16, "stride_bytes": 32}
_BASE_OFFSET_BIT, _BASE_OFFSET_LIMIT = 49, 8
_SWIZZLE_BIT = 62
_SPANS = (0, 128, 64, 32)
_RESERVED = 0x3FF1_C000_C000_C000


@dataclass(frozen=True, kw_only=True)
class MatrixDescriptor:
    """One operand of `wgmma` in shared memory.

    Raises:
        Refusal: an address or offset that is no multiple of 16 or does not fit 14 bits of 16-byte units, another
            swizzle span, or a base offset above 7 or without a swizzle.
    """

    #: Shared-memory byte address of row 0, k 0 before the swizzle.
    start: int
    #: Leading dimension byte offset.
    leading_bytes: int
    #: Stride dimension byte offset.
    stride_bytes: int
    #: 0, 32, 64 or 128 bytes.
    span_bytes: int = 0
    #: Where the swizzle pattern starts, in lines of 128 bytes, modulo 8.
    base_offset: int = 0

    def __post_init__(self) -> None:
        for name in _FIELDS:
            _require_units(name, getattr(self, name))
        if self.span_bytes not in _SPANS:
            raise Refusal(f"a swizzle span of {self.span_bytes} bytes", hint="spans are 0, 32, 64 and 128 bytes")
        if not 0 <= self.base_offset < _BASE_OFFSET_LIMIT:
            raise Refusal(
                f"base offset {self.base_offset} does not fit 3 bits",
                hint="it is (address where the pattern starts >> 7) & 7",
            )
        if self.base_offset and not self.span_bytes:
            raise Refusal(f"base offset {self.base_offset} without a swizzle", hint="leave it 0")

    @classmethod
    def decode(cls, bits: int) -> "MatrixDescriptor":
        """The descriptor in a 64-bit register.

        Raises:
            Refusal: more than 64 bits, or a reserved bit that is set.
        """
        if not 0 <= bits < 1 << 64:
            raise Refusal(f"descriptor {bits:#x} is no 64-bit value")
        if bits & _RESERVED:
            raise Refusal(
                f"descriptor {bits:#018x} sets reserved bits {bits & _RESERVED:#x}",
                hint="mask each field to (value & 0x3FFFF) >> 4 before it is shifted into place",
            )
        return cls(
            **{name: (bits >> first) % (1 << _FIELD_BITS) * UNIT_BYTES for name, first in _FIELDS.items()},
            span_bytes=_SPANS[bits >> _SWIZZLE_BIT],
            base_offset=(bits >> _BASE_OFFSET_BIT) % _BASE_OFFSET_LIMIT,
        )

    def encode(self) -> int:
        """The 64-bit value."""
        bits = self.base_offset << _BASE_OFFSET_BIT | _SPANS.index(self.span_bytes) << _SWIZZLE_BIT
        for name, first in _FIELDS.items():
            bits |= getattr(self, name) // UNIT_BYTES << first
        return bits

    def advanced(self, bytes_: int) -> "MatrixDescriptor":
        """The same operand further on, as a kernel steps along K.

        Raises:
            Refusal: the new start is no legal one.
        """
        return replace(self, start=self.start + bytes_)


def _require_units(name: str, value: int) -> None:
    if value % UNIT_BYTES:
        raise Refusal(f"{name} {value} is no multiple of {UNIT_BYTES} bytes", hint="align it, or pad the tile")
    if not 0 <= value < _LIMIT_BYTES:
        raise Refusal(
            f"{name} {value} does not fit {_FIELD_BITS} bits of {UNIT_BYTES} bytes",
            hint=f"it lies in 0..{_LIMIT_BYTES - UNIT_BYTES}",
        )
