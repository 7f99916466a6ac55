"""A swizzle's atom: which 16-byte chunk of which row lies where, a line of 128 bytes, all banks, a row."""

import re

from tileproof.conformance.drawings.picture import Box, Picture, Row
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import CHUNK_BYTES, Swizzle

LINE_BYTES = 128
_CUTE = re.compile(r"(?:Swizzle<)?(\d+), ?(\d+), ?(\d+)>?")
MAX_ATOM_BITS = 15


def find_swizzle(text: str) -> tuple[Swizzle, int]:
    """The swizzle that a text names, and the bytes of a row that it is drawn with.

    Raises:
        Refusal: neither a TMA span (0, 32, 64, 128) nor CuTe's three numbers ("3,4,3").
    """
    if text in ("0", "32", "64", "128"):
        return Swizzle.tma(int(text)), int(text) or LINE_BYTES
    found = _CUTE.fullmatch(text)
    if found is None:
        raise Refusal(f"no swizzle {text!r}", hint="a TMA span, 0, 32, 64 or 128; or CuTe's numbers, such as 3,4,3")
    swizzle = Swizzle(*map(int, found.groups()))
    if swizzle.base < 4:
        raise Refusal(
            f"{swizzle} moves pieces of {1 << swizzle.base} bytes; drawn are {CHUNK_BYTES} and more",
            hint="its second number is at least 4: CuTe counts in elements, and bytes are drawn here",
        )
    bits = swizzle.bits + swizzle.base + abs(swizzle.shift)
    if bits > MAX_ATOM_BITS:
        raise Refusal(
            f"{swizzle} repeats every 2^{bits} bytes; drawn are 2^{MAX_ATOM_BITS} at most",
            hint=f"its three numbers add up to {MAX_ATOM_BITS} at most",
        )
    return swizzle, LINE_BYTES


def draw_swizzle(text: str) -> Picture:
    """The atom, or a line where nothing moves."""
    swizzle, row_bytes = find_swizzle(text)
    rows = []
    for line in range(0, max(swizzle.atom_bytes, LINE_BYTES), LINE_BYTES):
        boxes = []
        for address in range(line, line + LINE_BYTES, CHUNK_BYTES):
            row, chunk = divmod(swizzle.apply(address) // CHUNK_BYTES, row_bytes // CHUNK_BYTES)
            boxes.append(Box(f"{row}.{chunk}", chunk))
        rows.append(Row(f"{line:#06x}", tuple(boxes)))
    banks = tuple(f"banks {first}-{first + 3}" for first in range(0, 32, 4))
    name = f"{swizzle}, the TMA mode of {text} bytes" if text in ("32", "64", "128") else str(swizzle)
    rule = f"address ^ ((address & {swizzle.read_mask:#x}) >> {swizzle.shift})" if swizzle.bits else "nothing moves"
    return Picture(
        title=name,
        under=(f"{rule}; repeats every {swizzle.atom_bytes} bytes",),
        columns=banks,
        rows=tuple(rows),
        notes=(f"r.c is chunk c (16 bytes) of row r, rows of {row_bytes} bytes; before a line its address",),
    )
