"""The law under which a formula relative to a tile's base agrees with a swizzle of absolute addresses.

Hardware permutes absolute addresses; a kernel that reads the tile back usually counts from the tile's base. Both put
every byte at the same place exactly when the base is a multiple of the swizzle's atom (256, 512 or 1,024 bytes): then
the base has no bits in the fields and adding an offset carries nothing into them. Otherwise the kernel reads some bytes
from places where others lie. For the 64-byte mode and a tile of 1,024 bytes:

    base offset     0    64    128    256    384    512
    bytes wrong     0   512  1,024  1,024  1,024      0

A TMA destination is a multiple of 128 bytes, so an offset of 64 exists in this model only.

Sources: measured on an H200 (tests/golden, h200_tma_2d_u16: bases from 0 to 896 bytes); seen on an RTX 5090 by ninfer
(docs/maintainer/fp8-a8-tma-route.md @01591621). Public defects of this kind: NVIDIA/Fuser 4096, tile-ai/tilelang 2379.
"""

import numpy as np

from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import Swizzle


def relative_formula_holds(swizzle: Swizzle, base: int) -> bool:
    """Whether `base + swizzle.apply(offset)` equals `swizzle.apply(base + offset)` for every offset."""
    return swizzle.bits == 0 or base % swizzle.atom_bytes == 0


def misplaced_bytes(swizzle: Swizzle, base_offset: int, tile_bytes: int = 1024) -> int:
    """How many bytes of a tile a formula relative to its base looks for at a wrong place.

    Args:
        swizzle: what the hardware applies to absolute addresses.
        base_offset: the tile's base, modulo the atom or in full.
        tile_bytes: size of the tile.

    Raises:
        Refusal: a negative base or size.
    """
    if base_offset < 0 or tile_bytes < 0:
        raise Refusal(f"base offset {base_offset} and tile of {tile_bytes} bytes must not be negative")
    offsets = np.arange(tile_bytes, dtype=np.int64)
    hardware = swizzle.apply(base_offset + offsets) - base_offset
    return int(np.count_nonzero(hardware != swizzle.apply(offsets)))


def require_aligned(swizzle: Swizzle, base: int) -> None:
    """Refuses a tile base for which a relative formula is wrong.

    Raises:
        Refusal: names the base, the atom and how far off it is.
    """
    if not relative_formula_holds(swizzle, base):
        raise Refusal(
            f"tile base {base} is {base % swizzle.atom_bytes} bytes past a multiple of {swizzle.atom_bytes}, the atom "
            f"of {swizzle}: a formula relative to the base is wrong there",
            hint=f"align the tile to {swizzle.atom_bytes} bytes, or swizzle the absolute address",
        )
