"""Where `wgmma` finds an operand's elements in shared memory: strides and swizzle of a matrix descriptor.

An operand is M (or N) × K with K = 32 bytes. Its memory consists of chunks of 16 bytes; a line is W = 1, 2, 4 or 8
chunks without swizzle and with 32, 64 and 128 bytes. Chunk c of 2 along K (K-major), or chunk c along M (MN-major,
16-bit elements only, so 8 rows a chunk) lies at

    K-major, no swizzle      16 · (row % 8) + stride · (row / 8) + leading · c
    K-major, swizzled        16W · (row % 8) + stride · (row / 8) + 16 · c            (leading is not used)
    MN-major, no swizzle     16 · (k % 8) + leading · (k / 8) + stride · c
    MN-major, swizzled       16W · (k % 8) + stride · (k / 8) + 16 · (c % W) + leading · (c / W)

from the start address. The sum is an address; its bits 6:4 are then XORed with bits 9:7 as TMA does (`swizzle`), so the
start may lie inside a pattern: a kernel steps along K by adding 32 bytes to it. A base offset b makes that bits 9:7 of
the address - 128 b. Example, 128-byte swizzle, K-major, row 9, second chunk, stride 1024: 128 + 1024 + 16 = 1168 =
0b100_1001_0000; bits 9:7 are 001, bits 6:4 become 001 ^ 001 = 000, address 1152.

Sources: PTX ISA 9.2 section 9.7.15.5.1.2, table 38 and "Strides"; CUTLASS include/cute/atom/mma_traits_sm90_gmma.hpp,
canonical layouts above make_gmma_desc. Measured on an H200 (tests/golden/h200_fragments.npz): all swizzles, both axes,
starts inside a pattern, strides that are any multiple of 16, and base offsets, of which the PTX ISA gives the value but
not the effect; CUTLASS calls them valid for 64 and 128 bytes only, the H200 obeys them for 32 bytes too.
"""

from enum import Enum
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.addresses.digit import Offsets
from tileproof.oracle.arguments import require_member, wholes
from tileproof.oracle.maps.wgmma_descriptor import MatrixDescriptor
from tileproof.oracle.maps.wgmma_fragments import wgmma_k
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import CHUNK_BYTES, Swizzle

#: Bytes of a line that a base offset counts.
_LINE_BYTES = 128

Codes = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]


class Major(Enum):
    """Along which axis 16 neighbouring bytes lie."""

    #: `imm-trans` 0.
    K = "K-major"
    #: `imm-trans` 1, 16-bit elements only.
    MN = "MN-major"


def tile_offset(descriptor: MatrixDescriptor, row: int, k: int, *, bits: int, major: Major = Major.K) -> int:
    """Bytes from the start to an element before the swizzle: the definition, one element at a time.

    Args:
        descriptor: the operand.
        row: row of A, or column of the multiplication's B.
        k: below 256 / bits.
        bits: 8, 16 or 32.
        major: which axis is contiguous.

    Raises:
        Refusal: elements or an index that the form does not have.
    """
    _require_form(bits, major)
    row, k = wholes(row=row, k=k)
    if row < 0 or not 0 <= k < wgmma_k(bits):
        raise Refusal(f"row {row}, k {k} is outside an operand of K = {wgmma_k(bits)}")
    element_bytes, line = bits // 8, max(descriptor.span_bytes, CHUNK_BYTES)
    contiguous, other = (k, row) if major is Major.K else (row, k)
    chunk, inside = divmod(contiguous * element_bytes, CHUNK_BYTES)
    across = other % 8 * line + inside
    leading, stride = descriptor.leading_bytes, descriptor.stride_bytes
    if major is Major.MN and not descriptor.span_bytes:
        return across + leading * (other // 8) + stride * chunk
    if not descriptor.span_bytes:
        return across + stride * (other // 8) + leading * chunk
    chunks = line // CHUNK_BYTES
    far, near = divmod(chunk, chunks) if major is Major.MN else (0, chunk)
    return across + stride * (other // 8) + CHUNK_BYTES * near + leading * far


def element_address(descriptor: MatrixDescriptor, row: int, k: int, *, bits: int, major: Major = Major.K) -> int:
    """The shared-memory byte address of an element, swizzled; arguments and refusals of `tile_offset`."""
    linear = descriptor.start + tile_offset(descriptor, row, k, bits=bits, major=major)
    return int(_swizzled(descriptor, np.array(linear, np.int64)))


def tile_addresses(descriptor: MatrixDescriptor, *, rows: int, bits: int, major: Major = Major.K) -> Offsets:
    """The addresses of a whole operand; held to `element_address` by the tests.

    Args:
        descriptor: the operand.
        rows: M or N, a multiple of 8.
        bits: 8, 16 or 32.
        major: which axis is contiguous.

    Returns:
        int64 [rows, K].

    Raises:
        Refusal: elements or rows that no form has.
    """
    _require_form(bits, major)
    if rows < 8 or rows % 8:
        raise Refusal(f"an operand of {rows} rows", hint="M is 64, N a multiple of 8")
    strides = descriptor.leading_bytes, descriptor.stride_bytes, descriptor.span_bytes
    return _swizzled(descriptor, descriptor.start + _offsets(*strides, rows, bits, major))


def read_tile(
    memory: Bytes, descriptor: MatrixDescriptor, *, rows: int, bits: int, major: Major = Major.K, base: int = 0
) -> Codes:
    """The operand that `wgmma` reads.

    Args:
        memory: shared memory, uint8 [n].
        descriptor: the operand.
        rows: M or N.
        bits: 8, 16 or 32.
        major: which axis is contiguous.
        base: shared address of memory[0].

    Returns:
        Codes [rows, K], unsigned of `bits`.

    Raises:
        Refusal: a form that does not exist, or an address outside the memory.
    """
    places = _places(memory, descriptor, rows, bits, major, base)
    codes = memory[places].view(np.dtype(f"<u{bits // 8}"))[..., 0]
    return codes.astype(f"u{bits // 8}", copy=False)


def write_tile(
    memory: Bytes, descriptor: MatrixDescriptor, matrix: Codes, *, major: Major = Major.K, base: int = 0
) -> None:
    """Puts a matrix [rows, K] of 1, 2 or 4 bytes an element where `wgmma` will read it, in place.

    Raises:
        Refusal: another K, a form that does not exist, or an address outside the memory.
    """
    bits = 8 * matrix.itemsize
    if matrix.ndim != 2 or matrix.shape[1] != wgmma_k(bits):
        raise Refusal(f"a matrix of shape {list(matrix.shape)}", hint=f"pass [rows, {wgmma_k(bits)}]")
    places = _places(memory, descriptor, matrix.shape[0], bits, major, base)
    little = np.ascontiguousarray(matrix, matrix.dtype.newbyteorder("<"))
    memory[places] = little.view(np.uint8).reshape(*matrix.shape, -1)


def _places(memory: Bytes, descriptor: MatrixDescriptor, rows: int, bits: int, major: Major, base: int) -> Offsets:
    """Index of every byte, [rows, K, bytes of an element]."""
    addresses = tile_addresses(descriptor, rows=rows, bits=bits, major=major) - base
    if addresses.min() < 0 or addresses.max() + bits // 8 > memory.size:
        raise Refusal(
            f"the operand reaches bytes {addresses.min()} to {addresses.max() + bits // 8 - 1} of a memory of "
            f"{memory.size}",
            hint="check the start address and both strides of the descriptor",
        )
    return addresses[..., np.newaxis] + np.arange(bits // 8)


@cache
def _offsets(leading: int, stride: int, span: int, rows: int, bits: int, major: Major) -> Offsets:
    """Linear offsets [rows, K]."""
    descriptor = MatrixDescriptor(start=0, leading_bytes=leading, stride_bytes=stride, span_bytes=span)
    one_k = range(wgmma_k(bits))
    offsets = [[tile_offset(descriptor, row, k, bits=bits, major=major) for k in one_k] for row in range(rows)]
    return np.array(offsets, np.int64)


def _swizzled(descriptor: MatrixDescriptor, linear: Offsets) -> Offsets:
    pattern = linear - _LINE_BYTES * descriptor.base_offset + 8 * _LINE_BYTES
    return np.asarray(linear ^ Swizzle.tma(descriptor.span_bytes).apply(pattern) ^ pattern)


def _require_form(bits: int, major: Major) -> None:
    require_member(Major, "major", major)
    if bits not in (8, 16, 32):
        raise Refusal(f"elements of {bits} bits have no byte address", hint="elements have 8, 16 or 32 bits")
    if major is Major.MN and bits != 16:
        raise Refusal(
            f"an MN-major operand of {bits}-bit elements; wgmma transposes 16-bit elements only",
            hint="store the operand K-major",
        )
