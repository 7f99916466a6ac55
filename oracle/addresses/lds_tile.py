"""Strided tiles in the LDS of the INT8 kernels: rows of a padded stride, stored in halves where that is not aligned.

Rows of K bytes stand `stride` bytes apart; a fragment of DUMMA m16n16k32 is 8 bytes a lane at row (lane % 16), byte
8 · (lane / 16). The stride decides the bank conflicts of that read: 16 lanes of a phase read 16 rows at the same byte,
so row r starts at bank (stride / 4) · r mod 32. Example: stride 88 is 22 words, and 22 r mod 32 takes all 16 even
values: no conflict. Stride 80 is 20 words, period 8: two rows a bank. Stride 128: all 16 rows in bank 0.

Source: HuangPuStar/MetaInfer int8-w8a8-gemm-prefill/SKILL.md @f3ac90ad sections 3.5 and 8.
"""

from dataclasses import dataclass

import numpy as np

from tileproof.oracle.banks import LDS, BankUse, bank_use
from tileproof.oracle.refusal import Refusal

#: Bytes of LDS in a compute unit.
CAPACITY_BYTES = 64 * 1024

#: The row strides of the accepted kernels, in bytes.
STRIDES = (68, 72, 80, 88, 136, 144, 208, 272)


@dataclass(frozen=True)
class LdsTile:
    """Rows of `row_bytes` at a stride.

    Raises:
        Refusal: a stride below the row or no multiple of a word, or a tile beyond the LDS.
    """

    rows: int
    row_bytes: int
    stride: int

    def __post_init__(self) -> None:
        if self.stride < self.row_bytes or self.stride % LDS.bank_bytes:
            raise Refusal(
                f"stride {self.stride} for rows of {self.row_bytes} bytes",
                hint=f"a stride is at least the row and a multiple of {LDS.bank_bytes} bytes",
            )
        if self.rows < 1 or self.size_bytes > CAPACITY_BYTES:
            raise Refusal(f"{self.rows} rows of stride {self.stride} do not fit {CAPACITY_BYTES} bytes of LDS")

    @property
    def size_bytes(self) -> int:
        """LDS that the tile takes."""
        return self.rows * self.stride

    @property
    def store_bytes(self) -> int:
        """The widest store that stays aligned in every row: 16, 8 (two halves) or 4 bytes."""
        return next(width for width in (16, 8, 4) if self.stride % width == 0)

    @property
    def aliases(self) -> bool:
        """Whether every row starts at the same bank (stride a multiple of 128 bytes)."""
        return self.stride % (LDS.banks * LDS.bank_bytes) == 0

    def offset(self, row: int, byte: int) -> int:
        """Bytes from the tile's base.

        Raises:
            Refusal: outside the tile.
        """
        if not (0 <= row < self.rows and 0 <= byte < self.row_bytes):
            raise Refusal(f"row {row}, byte {byte} is outside {self.rows} rows of {self.row_bytes} bytes")
        return row * self.stride + byte

    def fragment_use(self) -> BankUse:
        """Bank use of one DUMMA fragment read: 8 bytes a lane, or two reads of 4 where the stride only allows those."""
        lanes = np.arange(LDS.lanes)
        addresses = lanes % 16 * self.stride + lanes // 16 * 8
        width = min(8, self.store_bytes)
        uses = [bank_use(addresses + part, width, memory=LDS) for part in range(0, 8, width)]
        return BankUse(sum(u.phases for u in uses), sum(u.passes for u in uses), max(u.ways for u in uses))


def publish_position(thread: int) -> tuple[int, int]:
    """Row and byte of the 16 bytes that a thread of the q_b kernel publishes to its 64 × 64 tile.

    row = 16 · (t / 64) + 2 · (t % 64 / 16) + 8 · (t / 4 % 4 & 1) + (t / 4 % 4 >> 1), byte = 16 · (t % 4)

    Args:
        thread: 0 .. 255.

    Raises:
        Refusal: another thread.

    Source: HuangPuStar/MetaInfer variant/int8w8a8-gemm/glm52, q_b.
    """
    if not 0 <= thread < 256:
        raise Refusal(f"thread {thread} is outside a block of 256")
    quad = thread // 4 % 4
    return 16 * (thread // 64) + 2 * (thread % 64 // 16) + 8 * (quad & 1) + (quad >> 1), 16 * (thread % 4)
