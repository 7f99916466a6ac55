"""Software XOR tiles: rows of 16-byte chunks whose order depends on the row, so that columns avoid bank conflicts.

One rule covers every tile of this kind, with C chunks in a row:

    offset(row, byte) = row · row_bytes + ((byte / 16) ^ ((row >> row_shift) & mask)) · 16 + byte % 16

A TMA mode is the same rule wherever the tile's base is a multiple of the mode's atom (`tma_alignment`). Example, rows
of 64 bytes (4 chunks, row_shift 1, mask 3): row 3, byte 20 is chunk 1 ^ (3 >> 1) = 0, so offset 192 + 0 + 4 = 196.

Only software reads and writes the cp.async and epilogue tiles, so these need no alignment of their base beyond that of
a chunk; a tile that TMA fills needs its atom.
"""

from dataclasses import dataclass

import numpy as np

from tileproof.oracle.addresses.digit import Index, Offsets, widen_index
from tileproof.oracle.arguments import wholes
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import CHUNK_BYTES


@dataclass(frozen=True, kw_only=True)
class XorTile:
    """A tile of rows whose 16-byte chunks are permuted row by row.

    Raises:
        Refusal: rows that are no power of two of at least one chunk, or a mask that leaves the row.
    """

    #: What the tile is called in reports.
    name: str
    #: Bytes of a row, a power of two of at least 16.
    row_bytes: int
    #: Row bits dropped before the XOR.
    row_shift: int
    #: Row bits that are XORed into the chunk number, all below the chunks in a row.
    mask: int
    #: Public source of the rule.
    source: str
    evidence: Evidence

    def __post_init__(self) -> None:
        if self.row_bytes < CHUNK_BYTES or self.row_bytes & (self.row_bytes - 1):
            raise Refusal(
                f"{self.name}: rows of {self.row_bytes} bytes cannot be permuted by XOR in {CHUNK_BYTES}-byte chunks",
                hint="a row holds a power of two of chunks",
            )
        if not 0 <= self.mask < self.chunks or self.row_shift < 0:
            raise Refusal(
                f"{self.name}: mask {self.mask} or row shift {self.row_shift} leaves a row of {self.chunks} chunks"
            )

    @property
    def chunks(self) -> int:
        """16-byte chunks in a row."""
        return self.row_bytes // CHUNK_BYTES

    @property
    def period_rows(self) -> int:
        """Rows after which the pattern repeats."""
        return (self.mask + 1) << self.row_shift if self.mask else 1

    def offset(self, row: Index, byte: Index) -> Index:
        """Bytes from the tile's base to a byte of a row; numbers or arrays that broadcast.

        Raises:
            Refusal: what is no integer, a negative row, or a byte outside the row.
        """
        row, byte = widen_index("row", row), widen_index("byte", byte)
        if np.any(np.asarray(row) < 0):
            raise Refusal(f"{self.name}: row {np.min(row)} is negative")
        if np.any(np.asarray(byte) < 0) or np.any(np.asarray(byte) >= self.row_bytes):
            raise Refusal(f"{self.name}: byte {np.max(byte)} is outside a row of {self.row_bytes} bytes")
        chunk = (byte // CHUNK_BYTES) ^ ((row >> self.row_shift) & self.mask)
        return row * self.row_bytes + chunk * CHUNK_BYTES + byte % CHUNK_BYTES

    def locate(self, offset: int) -> tuple[int, int]:
        """The inverse: row and byte that lie at an offset.

        Raises:
            Refusal: a negative offset.
        """
        if offset < 0:
            raise Refusal(f"{self.name}: offset {offset} is negative")
        row, placed = divmod(offset, self.row_bytes)
        return row, self.offset(row, placed) - row * self.row_bytes  # XOR with the same row bits undoes itself

    def offsets(self, rows: int) -> Offsets:
        """The offset of every byte of a tile of `rows` rows, int64 [rows, row_bytes]."""
        return self.offset(np.arange(rows, dtype=np.int64)[:, np.newaxis], np.arange(self.row_bytes, dtype=np.int64))


def _log2(value: int) -> int:
    return value.bit_length() - 1


def cp_async_tile(block_k: int = 128) -> XorTile:
    """The operand tile of ninfer's cp.async route: segment ^ (row & (BlockK / 16 - 1)); both sides are software.

    Args:
        block_k: bytes of K in a stage, a power of two of at least 16.
    """
    return XorTile(
        name=f"cp.async tile, BlockK {block_k}",
        row_bytes=block_k,
        row_shift=0,
        mask=block_k // CHUNK_BYTES - 1,
        source="igorls/ninfer src/ops/linear/fp8/fp8_a8_mma.cuh @4e76b37e",
        evidence=Evidence.DOCUMENTED,
    )


def tma_row_tile() -> XorTile:
    """How ninfer's TMA route reads its 64-byte rows back: chunk ^ ((row >> 1) & 3), right at multiples of 512 only."""
    return XorTile(
        name="row-relative 64-byte rows",
        row_bytes=64,
        row_shift=1,
        mask=3,
        source="Neroued/ninfer src/ops/linear/fp8/fp8_a8_tma.cuh @1ba31703",
        evidence=Evidence.DOCUMENTED,
    )


def tile_at(k: int) -> XorTile:
    """AstrAI's `tile_at<K>`: C = K / 16 chunks, row bits from 3 - log2 C on.

    The comment in its source says that K = 32 uses row bit 3; the code uses bit 2, and so does this.

    Args:
        k: 32, 64 or 128 bytes a row.

    Raises:
        Refusal: another K.
    """
    if k not in (32, 64, 128):
        raise Refusal(f"tile_at<{k}> is not defined", hint="K is 32, 64 or 128")
    chunks = k // CHUNK_BYTES
    return XorTile(
        name=f"tile_at<{k}>",
        row_bytes=k,
        row_shift=3 - _log2(chunks),
        mask=chunks - 1,
        source="0z5a/AstrAI csrc/kernels/fp8/gemm.cuh, ring era",
        evidence=Evidence.DOCUMENTED,
    )


def chunk_swizzle(bits: int, shift: int, row_bytes: int) -> XorTile:
    """AstrAI's general form: on the linear chunk index L, L ^ ((L >> shift) & (2^bits - 1)), for rows of `row_bytes`.

    With C chunks in a row it is the rule above with row_shift = shift - log2 C; a `shift` below log2 C would mix chunk
    bits of the same row and is refused, and so are more bits than a row has.

    Raises:
        Refusal: such a shift or such bits, a negative number, or a row without a chunk.
    """
    bits, shift, row_bytes = wholes(bits=bits, shift=shift, row_bytes=row_bytes)
    if bits < 0 or row_bytes < CHUNK_BYTES:
        raise Refusal(
            f"a chunk swizzle of {bits} bits in rows of {row_bytes} bytes",
            hint=f"bits are at least 0 and a row has {CHUNK_BYTES} bytes or more",
        )
    chunks = row_bytes // CHUNK_BYTES
    if shift < _log2(chunks):
        raise Refusal(
            f"a chunk swizzle of shift {shift} reads chunk bits of its own row, which has {chunks} chunks",
            hint=f"shift is at least {_log2(chunks)}",
        )
    return XorTile(
        name=f"chunk swizzle <{bits}, {shift}>",
        row_bytes=row_bytes,
        row_shift=shift - _log2(chunks),
        mask=(1 << bits) - 1,
        source="ViperEkura/AstrAI csrc/include/utils/swizzle.cuh @2fb0b143",
        evidence=Evidence.DOCUMENTED,
    )


def epilogue_tile(block_n: int) -> XorTile:
    """AstrAI's bf16 output tile of `block_n` columns: chunk ^ (row & (BN / 8 - 1)); a byte is 2 · element.

    Args:
        block_n: columns, a power of two of at least 8.
    """
    return XorTile(
        name=f"epilogue tile, {block_n} bf16 columns",
        row_bytes=2 * block_n,
        row_shift=0,
        mask=block_n // 8 - 1,
        source="0z5a/AstrAI csrc/kernels/fp8/gemm.cuh @01eacbde",
        evidence=Evidence.DOCUMENTED,
    )
