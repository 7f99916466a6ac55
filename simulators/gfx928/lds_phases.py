"""What a row stride costs in LDS: passes and conflicts of the reads and writes that the kernels make.

A stage of K bytes stands in rows of a padded stride (`oracle.addresses.lds_tile`). Three accesses of a wave touch it:

* the write that stages it: lane t brings 16 neighbouring bytes; in one store of 16 bytes where the stride keeps that
  aligned, else in two of 8 or four of 4 (`ds_write_b128`, `ds_write2_b64`, `ds_write2_b32`);
* the fragment read: 8 bytes a lane (`ds_read_b64`), or twice 4 where the stride is no multiple of 8 (`ds_read2_b32`);
* the read by single bytes of a row-major B, 8 of them (`ds_read_u8`).

An access is served in phases of 128 bytes in lane order, and a phase takes as many passes as its busiest bank has
different words (`oracle.banks.LDS`). Example, stride 64: rows of a fragment read start at banks 0 and 16 only, eight
rows each: 8 passes a phase, 4 phases, 28 conflicts. Stride 80: period 8, two rows a bank: 4 conflicts.

Four counts that the kernels' authors read from hardware counters come out as this model says, to the last digit that
they print (`lds_counts`).

Sources: HuangPuStar/MetaInfer int8-w8a8-gemm-prefill/SKILL.md @f3ac90ad sections 3.5, 4.4, 6, 8 (strides, counts);
variant/int8w8a8-gemm/hy3/TP8/M4096/shared_down_proj.hip @08ddbe41, load_frag8 (phases of 16 lanes of 8 bytes, of 32
lanes of 4).
"""

from dataclasses import dataclass

from tileproof.oracle.addresses.lds_tile import STRIDES, LdsTile
from tileproof.oracle.arguments import whole
from tileproof.oracle.banks import LDS, Access, BankUse, bank_use
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.operand_loads import A_ROW_MAJOR, B_ROW_MAJOR, FRAGMENT_BYTES, Addresses
from tileproof.simulators.gfx928.wave import LANE

#: Bytes that a lane stages at a time.
CHUNK_BYTES = 16

#: The strides of the accepted kernels, and the unpadded one that they replaced.
SHOWN_STRIDES = (64, *STRIDES)


@dataclass(frozen=True)
class StrideUse:
    """What one stride costs, each access by one wave."""

    stride: int
    #: Bytes of a row that are data.
    row_bytes: int
    #: Bytes of one store, and what the 16 bytes of every lane cost.
    write_bytes: int
    write: BankUse
    #: Bytes of one read of a fragment along K, and what its 8 bytes of every lane cost.
    read_bytes: int
    read: BankUse
    #: The same fragment, if the rows are K and its bytes are read one by one.
    byte_read: BankUse


def stride_use(stride: int, row_bytes: int | None = None) -> StrideUse:
    """The costs of a stride.

    Args:
        stride: bytes from row to row.
        row_bytes: of data; None for the most of 64, 128, 192 and 256 that fit.

    Raises:
        Refusal: a row that does not fit its stride or is not made of whole chunks, or a stride that is no multiple of a
            word.
    """
    stride = whole("stride", stride)
    data = _row_bytes(stride) if row_bytes is None else whole("row_bytes", row_bytes)
    if data < A_ROW_MAJOR.line_bytes or data % CHUNK_BYTES:
        raise Refusal(f"rows of {data} bytes", hint=f"a multiple of {CHUNK_BYTES}, {A_ROW_MAJOR.line_bytes} at least")
    tile = LdsTile(CHUNK_BYTES, data, stride)  # holds the stride to its rules
    chunks = data // CHUNK_BYTES
    staged = LANE // chunks * stride + LANE % chunks * CHUNK_BYTES
    fragment = A_ROW_MAJOR.addresses(stride)
    read_bytes = min(FRAGMENT_BYTES, tile.store_bytes)
    column = B_ROW_MAJOR.addresses(stride)
    return StrideUse(
        stride=stride,
        row_bytes=data,
        write_bytes=tile.store_bytes,
        write=_parts(staged, CHUNK_BYTES, tile.store_bytes, Access.STORE),
        read_bytes=read_bytes,
        read=_parts(fragment[:, 0], FRAGMENT_BYTES, read_bytes, Access.LOAD),
        byte_read=_sum([bank_use(column[:, i], 1, memory=LDS) for i in range(FRAGMENT_BYTES)]),
    )


def every_stride() -> tuple[StrideUse, ...]:
    """All of `SHOWN_STRIDES`."""
    return tuple(map(stride_use, SHOWN_STRIDES))


def _row_bytes(stride: int) -> int:
    return max(64, min(256, stride // 64 * 64))


def _parts(addresses: Addresses, total: int, width: int, access: Access) -> BankUse:
    return _sum([bank_use(addresses + part, width, memory=LDS, access=access) for part in range(0, total, width)])


def _sum(uses: list[BankUse]) -> BankUse:
    return BankUse(sum(u.phases for u in uses), sum(u.passes for u in uses), max(u.ways for u in uses))
