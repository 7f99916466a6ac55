"""Writes a tile kernel as wave operations, for one block of a product: x [M][K] · w [K][N] to bf16 [M][N].

    one buffer     per stage: load, vmcnt, ds_write, lgkmcnt, barrier, fragments and products, barrier
    two buffers    stage 0 first; per stage: load the next, fragments and products, vmcnt, ds_write to the other
                   buffer, lgkmcnt, barrier

Rows of x beyond M are loaded as zeros; their outputs are not stored. The epilogue transposes the accumulators
(`transpose_epilogue`), then computes (float(acc) · x_scale[m]) · w_scale[n] in float32 and rounds to bf16 by adding
0x7FFF and bit 16, as the kernels do.

Source: HuangPuStar/MetaInfer int8-w8a8-gemm-prefill/SKILL.md @f3ac90ad sections 1, 3.3, 4.4.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileproof.oracle.layouts import find_layout
from tileproof.oracle.maps.dumma_fragments import LANES
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.machine.operations import (
    Addresses,
    Alu,
    Arrays,
    Barrier,
    Bytes,
    Counter,
    DsRead,
    DsWrite,
    GlobalLoad,
    GlobalStore,
    Mask,
    Mmac,
    Operation,
    ShflXor,
    Wait,
    Zero,
)
from tileproof.simulators.gfx928.operand_loads import A_ROW_MAJOR, B_COLUMN_MAJOR, B_ROW_MAJOR, FRAGMENT_BYTES
from tileproof.simulators.gfx928.tiles.tile_kernel import CHUNK, UNIT_COLUMNS, UNIT_K, UNIT_ROWS, BStage, TileKernel
from tileproof.simulators.gfx928.transpose_epilogue import MASKS, VALUES
from tileproof.simulators.gfx928.wave import LANE, QUARTER, ROW

_BYTE = np.arange(CHUNK, dtype=np.int64)


@dataclass(frozen=True)
class Product:
    """The extents of a product."""

    m: int
    n: int
    k: int


@dataclass(frozen=True, eq=False)
class _Chunks:
    """16 bytes a thread of one operand's stage, one round of all threads."""

    register: str
    buffer: str
    #: Byte of the buffer, of LDS, [waves, 64].
    source: Addresses
    target: Addresses
    loads: Mask
    stores: Mask


def tile_program(kernel: TileKernel, product: Product, block_row: int, block_column: int) -> tuple[Operation, ...]:
    """The operations of one block.

    Raises:
        Refusal: N or K is no multiple of the tile, or the pack does not hold what a thread loads side by side.
    """
    if product.n % kernel.columns or product.k % kernel.stage or product.k < 1 or product.n < 1 or product.m < 1:
        raise Refusal(
            f"{kernel}: a product of {product}",
            hint=f"M >= 1, N a multiple of {kernel.columns}, K a multiple of {kernel.stage}",
        )
    return tuple(_Writer(kernel, product, block_row * kernel.rows, block_column * kernel.columns).operations())


@dataclass(frozen=True)
class _Writer:
    kernel: TileKernel
    product: Product
    #: First row and column of the block's outputs.
    row: int
    column: int

    def operations(self) -> Iterator[Operation]:
        """All of a block."""
        yield from (Zero(self._accumulator(i, j), 4 * VALUES) for i in self._row_tiles for j in self._column_tiles)
        stages = self.product.k // self.kernel.stage
        yield from self._one_buffer(stages) if self.kernel.buffers == 1 else self._two_buffers(stages)
        yield from self._epilogue()

    def _one_buffer(self, stages: int) -> Iterator[Operation]:
        for stage in range(stages):
            yield from self._load(stage)
            yield from self._publish(0)
            yield Barrier()
            yield from self._compute(0)
            if stage + 1 < stages or self.kernel.last_barrier:
                yield Barrier()

    def _two_buffers(self, stages: int) -> Iterator[Operation]:
        yield from self._load(0)
        yield from self._publish(0)
        yield Barrier()
        for stage in range(stages):
            more = stage + 1 < stages
            if more:
                yield from self._load(stage + 1)
            yield from self._compute(stage % 2)
            if more:
                yield from self._publish(1 - stage % 2)
            if more or self.kernel.last_barrier:
                yield Barrier()

    def _load(self, stage: int) -> Iterator[Operation]:
        for chunks in self._chunks(stage):
            yield GlobalLoad(chunks.register, chunks.buffer, chunks.source, CHUNK, chunks.loads)

    def _publish(self, buffer: int) -> Iterator[Operation]:
        yield Wait(Counter.VM)
        base = buffer * self.kernel.stage_bytes
        for chunks in self._chunks(0):
            tile = self.kernel.a_tile if chunks.buffer == "x" else self.kernel.b_tile
            for first in range(0, CHUNK, tile.store_bytes):
                target = base + chunks.target + first
                yield DsWrite(chunks.register, first, target, tile.store_bytes, chunks.stores)
        yield Wait(Counter.LGKM)

    def _compute(self, buffer: int) -> Iterator[Operation]:
        base = buffer * self.kernel.stage_bytes
        for step in range(0, self.kernel.stage, UNIT_K):
            for i in self._row_tiles:
                yield from self._read_a(i, base, step)
            for j in self._column_tiles:
                yield from self._read_b(j, base + self.kernel.a_tile.size_bytes, step)
            yield Wait(Counter.LGKM)
            for i in self._row_tiles:
                yield from (Mmac(self._accumulator(i, j), f"a{i}", f"b{j}") for j in self._column_tiles)

    def _read_a(self, i: int, base: int, step: int) -> Iterator[Operation]:
        rows = self._wave_rows + UNIT_ROWS * i
        lanes = A_ROW_MAJOR.addresses(self.kernel.stride_a)[:, 0]
        addresses = base + rows * self.kernel.stride_a + step + lanes
        yield from _reads(f"a{i}", addresses, min(FRAGMENT_BYTES, self.kernel.a_tile.store_bytes))

    def _read_b(self, j: int, base: int, step: int) -> Iterator[Operation]:
        columns = self._wave_columns + UNIT_COLUMNS * j
        stride = self.kernel.stride_b
        if self.kernel.b is BStage.ROW_MAJOR:
            lanes = B_ROW_MAJOR.addresses(stride)
            for byte in range(FRAGMENT_BYTES):
                yield DsRead(f"b{j}", FRAGMENT_BYTES, byte, base + step * stride + columns + lanes[:, byte], 1)
        elif self.kernel.b is BStage.PLANE:
            eighth = step // 8 + QUARTER
            addresses = base + (eighth * self.kernel.columns + columns + ROW) * 8
            yield from _reads(f"b{j}", addresses, FRAGMENT_BYTES)
        else:
            addresses = base + columns * stride + step + B_COLUMN_MAJOR.addresses(stride)[:, 0]
            yield from _reads(f"b{j}", addresses, min(FRAGMENT_BYTES, self.kernel.b_tile.store_bytes))

    def _epilogue(self) -> Iterator[Operation]:
        every = np.ones((self.kernel.waves, LANES), np.bool_)
        for i in self._row_tiles:
            rows = self.row + self._wave_rows + UNIT_ROWS * i + ROW
            yield GlobalLoad(f"x_scale{i}", "x_scale", 4 * rows, 4, rows < self.product.m)
        for j in self._column_tiles:
            yield GlobalLoad(f"w_scale{j}", "w_scale", 4 * self._stored_columns(j), 4 * VALUES, every)
        yield Wait(Counter.VM)
        for i in self._row_tiles:
            rows = self.row + self._wave_rows + UNIT_ROWS * i + ROW
            for j in self._column_tiles:
                accumulator = self._accumulator(i, j)
                for bit, mask in enumerate(MASKS):
                    yield ShflXor("other", accumulator, mask)
                    yield Alu(accumulator, (accumulator, "other"), _choose(bit), "select")
                yield Alu("out", (accumulator, f"x_scale{i}", f"w_scale{j}"), _scale, "scale")
                addresses = 2 * (rows * self.product.n + self._stored_columns(j))
                yield GlobalStore("out", "out", addresses, 2 * VALUES, rows < self.product.m)

    def _stored_columns(self, j: int) -> Addresses:
        return self.column + self._wave_columns + UNIT_COLUMNS * j + VALUES * QUARTER

    def _chunks(self, stage: int) -> Iterator[_Chunks]:
        """What all threads stage, A first, a round after the other."""
        kernel = self.kernel
        for name, size in (("x", kernel.rows * kernel.stage), ("w", kernel.columns * kernel.stage)):
            count = size // CHUNK
            for turn in range(-(-count // kernel.threads)):
                number = turn * kernel.threads + LANES * np.arange(kernel.waves)[:, np.newaxis] + LANE
                stores = number < count
                place = self._chunk_of_a if name == "x" else self._chunk_of_b
                source, target, inside = place(np.where(stores, number, 0), stage)
                yield _Chunks(f"{name}{turn}", name, source, target, stores & inside, stores)

    def _chunk_of_a(self, number: Addresses, stage: int) -> tuple[Addresses, Addresses, Mask]:
        row, part = np.divmod(number, self.kernel.stage // CHUNK)
        source = (self.row + row) * self.product.k + stage * self.kernel.stage + CHUNK * part
        return source, row * self.kernel.stride_a + CHUNK * part, self.row + row < self.product.m

    def _chunk_of_b(self, number: Addresses, stage: int) -> tuple[Addresses, Addresses, Mask]:
        kernel = self.kernel
        if kernel.b is BStage.COLUMN_MAJOR:
            n, part = np.divmod(number, kernel.stage // CHUNK)
            k, target = CHUNK * part, n * kernel.stride_b + CHUNK * part
            ks, ns = k[..., np.newaxis] + _BYTE, n[..., np.newaxis] + 0 * _BYTE
        elif kernel.b is BStage.ROW_MAJOR:
            k, part = np.divmod(number, kernel.columns // CHUNK)
            target = k * kernel.stride_b + CHUNK * part
            ks, ns = k[..., np.newaxis] + 0 * _BYTE, (CHUNK * part)[..., np.newaxis] + _BYTE
        else:
            eighth, part = np.divmod(number, kernel.columns // 2)
            target = CHUNK * number
            ks, ns = (8 * eighth)[..., np.newaxis] + _BYTE % 8, (2 * part)[..., np.newaxis] + _BYTE // 8
        source = self._packed(stage * kernel.stage + ks, self.column + ns)
        every = np.ones(number.shape, np.bool_)  # N and K are whole tiles: B has no tail
        return source, target + kernel.a_tile.size_bytes, every

    def _packed(self, k: Addresses, n: Addresses) -> Addresses:
        """Where the 16 elements of a chunk start in the packed weight, [waves, 64] of [waves, 64, 16]."""
        offsets = np.asarray(find_layout(self.kernel.pack).offset(k, n, self.product.k, self.product.n))
        if np.any(offsets - offsets[..., :1] != _BYTE):
            raise Refusal(
                f"{self.kernel}: pack {self.kernel.pack} does not hold side by side what a thread stages",
                hint=f"B is staged as {self.kernel.b.value}; choose that by the pack",
            )
        return np.asarray(offsets[..., 0])

    @property
    def _row_tiles(self) -> range:
        return range(self.kernel.rows // self.kernel.waves_m // UNIT_ROWS)

    @property
    def _column_tiles(self) -> range:
        return range(self.kernel.columns // self.kernel.waves_n // UNIT_COLUMNS)

    @property
    def _wave_rows(self) -> Addresses:
        """First row of each wave's rectangle, [waves, 1]."""
        wave = np.arange(self.kernel.waves, dtype=np.int64)[:, np.newaxis]
        return wave // self.kernel.waves_n * (self.kernel.rows // self.kernel.waves_m)

    @property
    def _wave_columns(self) -> Addresses:
        wave = np.arange(self.kernel.waves, dtype=np.int64)[:, np.newaxis]
        return wave % self.kernel.waves_n * (self.kernel.columns // self.kernel.waves_n)

    @staticmethod
    def _accumulator(i: int, j: int) -> str:
        return f"acc{i},{j}"


def _reads(register: str, addresses: Addresses, width: int) -> Iterator[Operation]:
    for first in range(0, FRAGMENT_BYTES, width):
        yield DsRead(register, FRAGMENT_BYTES, first, addresses + first, width)


def _choose(bit: int) -> Callable[[Bytes, Bytes], Bytes]:
    """The lane's own value where its number agrees with q in `bit`, else the other lane's value of the other number."""
    number = np.arange(VALUES)
    stays = (number >> bit & 1) == (QUARTER[:, np.newaxis] >> bit & 1)

    def choose(own: Bytes, other: Bytes) -> Bytes:
        return _bytes(np.where(stays, own.view("<u4"), other.view("<u4")[..., number ^ (1 << bit)]))

    return choose


def _scale(accumulators: Bytes, x_scale: Bytes, w_scale: Bytes) -> Bytes:
    """(float(acc) · x_scale) · w_scale, every operation one float32 operation, then bf16 without a case for NaN."""
    with np.errstate(over="ignore", invalid="ignore"):  # infinities are values; NaN is in lanes that store nothing
        scaled = accumulators.view("<i4").astype(np.float32) * x_scale.view("<f4") * w_scale.view("<f4")
    bits = scaled.astype(np.float32, copy=False).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return _bytes((rounded >> np.uint32(16)).astype("<u2"))


def _bytes(array: Arrays) -> Bytes:
    contiguous: npt.NDArray[np.uint8] = np.ascontiguousarray(array).view(np.uint8)
    return contiguous
