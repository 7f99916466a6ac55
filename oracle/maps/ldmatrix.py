"""`ldmatrix`, `stmatrix` and `movmatrix`: rows of 16 bytes in shared memory to and from registers.

A transfer moves 1, 2 or 4 matrices. Stack their rows: row r of the stack is the 16 bytes at the address that lane r
supplies (lanes beyond the rows supply nothing). In registers, with t = lane % 4 and g = lane / 4:

    m8n8 .b16            register r, slot i: row 8r + g,      column 2t + i
    m8n8 .trans .b16     register r, slot i: row 8r + 2t + i, column g
    m16n16 .trans .b8    register r, slot i: row 16 · (r / 2) + 4t + i, column g + 8 · (r % 2)        (ldmatrix)
    m16n8 .trans .b8     register r, slot i: row 8r + 2t + i % 2,       column g + 8 · (i / 2)        (stmatrix)

Example: `ldmatrix.x4` on a 16 × 32 tile of bytes, lane l pointing at row l % 16, byte 16 · (l / 16), is A of
mma.m16n8k32: a slot of 16 bits holds two bytes. `movmatrix` is an m8n8 matrix stored and loaded transposed.

Sources: PTX ISA 9.2 sections 9.7.14.5.15 to 9.7.14.5.17. The 8-bit forms (sm_100a, sm_120a) are figures there; their
text form is CUTLASS include/cute/atom/copy_traits_sm100.hpp with the byte exchange of include/cute/arch/copy_sm100.hpp.
The 16-bit forms are measured on an H200. Those that unpack 6- and 4-bit elements are not modelled.
"""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.evidence import Evidence
from tileproof.oracle.maps.fragment_map import COLUMN, ROW, FragmentMap, Operand, Words
from tileproof.oracle.maps.mma_fragments import RECORDING
from tileproof.oracle.refusal import Refusal

#: Bytes of a row, and what a row's address is a multiple of.
ROW_BYTES = 16

_LOAD = "PTX ISA 9.2 section 9.7.14.5.15, ldmatrix"
_STORE = "PTX ISA 9.2 section 9.7.14.5.16, stmatrix"
_CUTLASS = "CUTLASS include/cute/atom/copy_traits_sm100.hpp"

Rows = npt.NDArray[np.uint8]


@cache
def ldmatrix(count: int, *, transposed: bool = False, shape: str = "m8n8", bits: int = 16) -> FragmentMap:
    """The map of ldmatrix.{shape}.x{count}: rows of the stack × elements of a row.

    Args:
        count: matrices: 1, 2 or 4.
        transposed: `.trans`.
        shape: "m8n8" with 16 bits, "m16n16" with 8.
        bits: `.b16` or `.b8`.

    Raises:
        Refusal: a form that PTX does not have, or one that unpacks narrower elements.
    """
    if (shape, bits) == ("m8n8", 16):
        return _of_words("ldmatrix", count, transposed, _LOAD)
    if (shape, bits) != ("m16n16", 8) or not transposed or count not in (1, 2):
        raise _refused("ldmatrix", count, transposed, shape, bits, "m16n16.x1 or .x2 with .trans and .b8")
    return _stack(
        f"ldmatrix.m16n16.x{count}.trans",
        rows=16 * count,
        bits=8,
        lane=(COLUMN % 8, ROW // 4 % 4),
        register=(ROW // 16, COLUMN // 8),
        slot=(ROW % 4,),
        source=f"{_LOAD}; {_CUTLASS}, SM100_U8x8_LDSM_T",
    )


@cache
def stmatrix(count: int, *, transposed: bool = False, shape: str = "m8n8", bits: int = 16) -> FragmentMap:
    """The map of stmatrix.{shape}.x{count}: rows of the stack × elements of a row.

    Args:
        count: matrices: 1, 2 or 4.
        transposed: `.trans`.
        shape: "m8n8" with 16 bits, "m16n8" with 8.
        bits: `.b16` or `.b8`.

    Raises:
        Refusal: a form that PTX does not have.
    """
    if (shape, bits) == ("m8n8", 16):
        return _of_words("stmatrix", count, transposed, _STORE)
    if (shape, bits) != ("m16n8", 8) or not transposed or count not in (1, 2, 4):
        raise _refused("stmatrix", count, transposed, shape, bits, "m16n8.x1, .x2 or .x4 with .trans and .b8")
    return _stack(
        f"stmatrix.m16n8.x{count}.trans",
        rows=8 * count,
        bits=8,
        lane=(COLUMN % 8, ROW // 2 % 4),
        register=(ROW // 8,),
        slot=(COLUMN // 8, ROW % 2),
        source=f"{_STORE}; {_CUTLASS}, SM100_U8x4_STSM_T",
    )


def load_rows(transfer: FragmentMap, rows: Rows) -> Words:
    """What `ldmatrix` puts into registers.

    Args:
        transfer: of `ldmatrix`.
        rows: uint8 [..., transfer.rows, 16], row r from the address of lane r.

    Returns:
        uint32 [..., 32, registers].

    Raises:
        Refusal: another shape or type.
    """
    array = np.asarray(rows)
    if array.shape[-2:] != (transfer.rows, ROW_BYTES) or array.dtype != np.uint8:
        raise Refusal(
            f"{transfer}: rows of shape {list(array.shape)} and type {array.dtype}",
            hint=f"pass uint8 [..., {transfer.rows}, {ROW_BYTES}]",
        )
    codes = np.ascontiguousarray(array).view(transfer.code_dtype.newbyteorder("<"))
    return transfer.gather(codes.astype(transfer.code_dtype, copy=False))


def store_rows(transfer: FragmentMap, words: Words) -> Rows:
    """What `stmatrix` writes.

    Args:
        transfer: of `stmatrix`.
        words: uint32 [..., 32, registers].

    Returns:
        uint8 [..., transfer.rows, 16], row r for the address of lane r.

    Raises:
        Refusal: another shape or type.
    """
    codes = transfer.scatter(words)
    return codes.astype(codes.dtype.newbyteorder("<"), copy=False).view(np.uint8)


def movmatrix(words: Words) -> Words:
    """`movmatrix.m8n8.trans.b16`: an 8 × 8 matrix of 16 bits transposed across a warp.

    Args:
        words: uint32 [..., 32], row g, columns 2t and 2t + 1 in lane 4g + t.

    Returns:
        uint32 [..., 32], the transpose held alike.

    Raises:
        Refusal: another shape or type.

    Source: PTX ISA 9.2 section 9.7.14.5.17, figures 109 and 110.
    """
    matrix = _of_words("movmatrix", 1, False, "PTX ISA 9.2 section 9.7.14.5.17, figure 109")
    return matrix.gather(matrix.scatter(np.asarray(words)[..., np.newaxis]).swapaxes(-1, -2))[..., 0]


def _of_words(opcode: str, count: int, transposed: bool, source: str) -> FragmentMap:
    """Any transfer of 8 × 8 matrices of 16 bits."""
    if count not in (1, 2, 4):
        raise _refused(opcode, count, transposed, "m8n8", 16, "m8n8.x1, .x2 or .x4 with .b16")
    digits = {
        False: {"lane": (ROW % 8, COLUMN // 2), "slot": (COLUMN % 2,)},
        True: {"lane": (COLUMN, ROW // 2 % 4), "slot": (ROW % 2,)},
    }[transposed]
    suffix = ".trans" if transposed else ""
    return _stack(
        f"{opcode}.m8n8.x{count}{suffix}",
        rows=8 * count,
        bits=16,
        register=(ROW // 8,),
        source=f"{source}; {RECORDING}",
        evidence=Evidence.MEASURED,
        **digits,
    )


def _stack(instruction: str, *, rows: int, bits: int, **digits: Any) -> FragmentMap:
    return FragmentMap(
        instruction=instruction,
        operand=Operand.MATRIX,
        rows=rows,
        columns=8 * ROW_BYTES // bits,
        element_bits=bits,
        **digits,
    )


def _refused(opcode: str, count: int, transposed: bool, shape: str, bits: int, legal: str) -> Refusal:
    form = f"{opcode}.{shape}.x{count}{'.trans' if transposed else ''}.b{bits}"
    return Refusal(f"{form} is outside the model", hint=f"modelled: m8n8.x1, .x2 or .x4 with .b16; {legal}")
