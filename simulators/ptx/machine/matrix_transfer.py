"""`ldmatrix`, `stmatrix` and `movmatrix` of whole warps: rows of 16 bytes in shared memory, and registers.

Lane r of a warp gives the address of row r. Every row is an access by all lanes of the warp, because each row's
elements go to, or come from, several of them: strict, and inferred (PTX ISA, "ldmatrix", calls it a weak access and
does not say whose).
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.oracle.maps.ldmatrix import ROW_BYTES, load_rows, movmatrix, store_rows
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine import bracket, bracket_matrix
from tileproof.simulators.ptx.machine.addressing import Positions, pieces, verb
from tileproof.simulators.ptx.machine.memory import Bits, Bytes, Lanes, Piece
from tileproof.simulators.ptx.machine.order.kinds import AccessKind
from tileproof.simulators.ptx.machine.overlap import check_overlap
from tileproof.simulators.ptx.machine.registers import Selection, as_selection
from tileproof.simulators.ptx.machine.warp import WARP
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import StateSpace, Step

Words = npt.NDArray[np.uint32]
_HALF = ROW_BYTES // 2
_READS = AccessKind(writes=False, by_warp=True)
_WRITES = AccessKind(writes=True, by_warp=True)


def load_matrix(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`ldmatrix`: a row at a wrong address has its finding and reads zero."""
    transfer = _transfer(step)
    providers = _providers(wave, selection, transfer)
    rows = np.zeros((providers.size, ROW_BYTES), np.uint8)
    masks: Bytes | None = None
    opened: list[bracket_matrix.HalfRows] = []
    for positions, piece in _shared_pieces(wave, step, providers):
        rows[positions], undefined = load_chunks(piece)
        if undefined is not None:
            masks = np.zeros_like(rows) if masks is None else masks
            masks[positions] = undefined
        if piece.backing.brackets is not None:
            opened += bracket_matrix.found(positions, piece)
        wave.order.access(
            _READS, step, pc, providers[positions], StateSpace.SHARED, piece.backing, piece.offsets, ROW_BYTES
        )
        wave.count_read(StateSpace.SHARED, piece.offsets.size * ROW_BYTES)
    words = _loaded(transfer, rows)
    undefined_words = None if masks is None else _loaded(transfer, masks)
    for index, slot in enumerate(step.destinations):
        mask = None if undefined_words is None else undefined_words[:, index]
        wave.registers.write(slot, selection, words[:, index], mask)
    if opened:
        bracket_matrix.loaded(wave, step, selection, rows, opened, _loaded)


def store_matrix(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`stmatrix`: a row at a wrong address is dropped."""
    transfer = _transfer(step)
    slots, narrow = step.sources[1:-1], step.narrow[1:-1]
    values = [wave.registers.read(slot, selection, bits) for slot, bits in zip(slots, narrow, strict=True)]
    undefined = wave.registers.undefined(slots, selection, (32,) * len(slots))
    live = wave.registers.brackets.live
    put = bracket_matrix.stored(wave, step, selection, slots, values, _stored) if live else None
    providers = _providers(wave, selection, transfer)
    rows = _stored(transfer, values)
    masks = None if undefined is None else _stored(transfer, undefined)
    for positions, piece in _shared_pieces(wave, step, providers):
        halves = _halves(rows[positions])
        check_overlap(wave, step, providers[positions], piece.offsets, halves)
        wave.order.access(
            _WRITES, step, pc, providers[positions], StateSpace.SHARED, piece.backing, piece.offsets, ROW_BYTES
        )
        half_masks = (None, None) if masks is None else _halves(masks[positions])
        for index in range(2):
            piece.backing.store(piece.offsets + index * _HALF, _HALF, halves[index], half_masks[index])
        if put is not None:
            put(piece, positions)
        wave.count_written(StateSpace.SHARED, piece.offsets.size * ROW_BYTES)


def transpose_matrix(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """`movmatrix`."""
    slot = step.sources[0]
    undefined = wave.registers.undefined((slot,), selection, (32,))
    mask = None if undefined is None else _transposed(undefined[0])
    value = wave.registers.read(slot, selection, 32)
    live = wave.registers.brackets.live
    carried = bracket_matrix.transposed(wave, step, selection, value, _transposed) if live else None
    wave.registers.write(step.destinations[0], selection, _transposed(value), mask)
    bracket.write(wave, step, selection, [carried])


def load_chunks(piece: Piece) -> tuple[Bytes, Bytes | None]:
    """The 16 bytes at every place [places, 16], and their undefined bits, None if there are none."""
    halves = [piece.backing.load(piece.offsets + start, _HALF) for start in (0, _HALF)]
    values = _joined([value for value, _ in halves])
    if all(mask is None for _, mask in halves):
        return values, None
    return values, _joined([np.zeros(len(values), np.uint64) if mask is None else mask for _, mask in halves])


def _joined(halves: list[Bits]) -> Bytes:
    return np.stack(halves, axis=-1).astype("<u8", copy=False).view(np.uint8)


def _halves(rows: Bytes) -> tuple[Bits, Bits]:
    words = np.ascontiguousarray(rows).view("<u8").astype(np.uint64, copy=False)
    return words[:, 0], words[:, 1]


def _transfer(step: Step) -> FragmentMap:
    assert step.transfer is not None
    return step.transfer


def _providers(wave: Wave, selection: Selection, transfer: FragmentMap) -> Lanes:
    """The lanes that give addresses: of each warp the first, one a row."""
    lanes: Lanes = wave.ids(selection).reshape(-1, WARP)[:, : transfer.rows].reshape(-1)
    return lanes


def _shared_pieces(wave: Wave, step: Step, providers: Lanes) -> Iterator[tuple[Positions, Piece]]:
    """Legal rows; generic addresses must lie in the block's shared memory (PTX ISA, "ldmatrix")."""
    for space, positions, piece in pieces(wave, step, as_selection(providers), providers):
        here = providers[positions]
        if space is StateSpace.SHARED:
            blocks = here // wave.geometry.lanes_per_block
            if (piece.offsets // max(wave.shared.stride, 1) == blocks).all():
                yield positions, piece
                continue
        what = "another block's shared" if space is StateSpace.SHARED else space.value
        message = f"{step.opcode} {verb(step)} {what} memory, and only shared memory of the block is legal"
        wave.report(FindingKind.OUT_OF_BOUNDS, message, step.where, here)


def _loaded(transfer: FragmentMap, rows: Bytes) -> Bits:
    """Registers [lanes, registers] of rows [warps · rows, 16]."""
    words = load_rows(transfer, rows.reshape(-1, transfer.rows, ROW_BYTES))
    return words.reshape(-1, transfer.registers).astype(np.uint64)


def _stored(transfer: FragmentMap, registers: list[Bits]) -> Bytes:
    """Rows [warps · rows, 16] of registers."""
    words = np.stack(registers, axis=-1).astype(np.uint32).reshape(-1, WARP, transfer.registers)
    return store_rows(transfer, words).reshape(-1, ROW_BYTES)


def _transposed(words: Bits) -> Bits:
    return movmatrix(words.astype(np.uint32).reshape(-1, WARP)).reshape(-1).astype(np.uint64)
