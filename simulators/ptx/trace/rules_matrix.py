"""Backwards through matrix instructions: D[m, n] comes from row m of A, row n of B (held transposed), and C[m, n]."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.maps.ldmatrix import ROW_BYTES, load_rows, movmatrix, store_rows
from tileproof.oracle.maps.wgmma_fragments import wgmma_k
from tileproof.oracle.maps.wgmma_tile import Major
from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.warp import WARP, WARP_SHIFT
from tileproof.simulators.ptx.matrix_form import RegisterMatrix, SharedMatrix
from tileproof.simulators.ptx.program import NONE
from tileproof.simulators.ptx.trace.demand import EVERY_BIT
from tileproof.simulators.ptx.trace.look import Look
from tileproof.simulators.ptx.trace.recorder import Touched

Words = npt.NDArray[Any]


def load_matrix(look: Look) -> None:
    """The map between rows and registers goes both ways: wanted bits travel like values that are stored."""
    transfer = look.step.transfer
    assert transfer is not None
    warps = np.unique(np.concatenate([touched.lanes for touched in look.event.touched]) >> WARP_SHIFT)
    lanes = _lanes_of(warps, WARP)
    bits = [look.result(slot)[lanes] for slot in look.step.destinations]
    words = np.stack(bits, axis=-1).astype(np.uint32).reshape(-1, WARP, transfer.registers)
    rows = store_rows(transfer, words) != 0
    for touched in look.event.touched:
        look.follow(touched.backing, touched.offsets, rows[_row(touched, warps)])
    look.count(look.results())


def store_matrix(look: Look) -> None:
    """Wanted bytes travel like bytes that are loaded."""
    transfer = look.step.transfer
    assert transfer is not None
    warps = np.unique(np.concatenate([touched.lanes for touched in look.event.touched]) >> WARP_SHIFT)
    rows = np.zeros((warps.size, transfer.rows, ROW_BYTES), np.uint8)
    for touched in look.event.touched:
        wanted = look.demand.take_bytes(touched.backing, touched.offsets, ROW_BYTES)
        rows[_row(touched, warps)] = np.where(wanted, np.uint8(0xFF), np.uint8(0))
        look.note(touched.backing, touched.offsets, wanted)
    words = load_rows(transfer, rows).reshape(-1, transfer.registers).astype(np.uint64)
    lanes = _lanes_of(warps, WARP)
    for index, slot in enumerate(look.step.sources[1:-1]):
        look.demand.want(slot, lanes, words[:, index])
    look.count(lanes[words.any(axis=1)])


def transpose_matrix(look: Look) -> None:
    """`movmatrix` undoes itself."""
    lanes = _lanes_of(np.unique(look.results() >> WARP_SHIFT), WARP)
    bits = look.result(look.step.destinations[0])[lanes].astype(np.uint32)
    back = movmatrix(bits.reshape(-1, WARP)).reshape(-1).astype(np.uint64)
    look.demand.want(look.step.sources[0], lanes, back)
    look.count(look.results())


def multiply(look: Look) -> None:
    """Of each product with a wanted element of D: rows of A and of B, and the element of C where it is added."""
    product = look.step.product
    assert product is not None
    fragment, found = product.d.fragment, look.results()
    executed = look.event.written[-1].lanes.reshape(-1, fragment.lanes)
    groups = np.flatnonzero(np.isin(executed, found).any(axis=1))
    lanes = executed[groups].reshape(-1)
    bits = np.stack([look.result(slot)[lanes] for slot in product.d.slots], axis=-1).astype(fragment.word_dtype)
    wanted = fragment.scatter(bits.reshape(-1, fragment.lanes, fragment.registers)) != 0
    calls = iter(range(look.event.calls))
    for matrix, rows in ((product.a, wanted.any(axis=2)), (product.b, wanted.any(axis=1))):
        if isinstance(matrix, SharedMatrix):
            _shared(look, matrix, next(calls), rows, groups)
        else:
            columns = matrix.fragment.columns
            _registers(look, matrix, np.repeat(rows[:, :, np.newaxis], columns, axis=2), lanes)
    if product.adds_c != NONE:
        added = (look.read(product.adds_c, lanes[:: fragment.lanes]) != 0) != product.adds_c_negated
        wanted &= added[:, np.newaxis, np.newaxis]
    _registers(look, product.c, wanted, lanes)
    look.count(found)


def _registers(look: Look, matrix: RegisterMatrix, wanted: Mask, lanes: Lanes) -> None:
    fragment = matrix.fragment
    ones = fragment.code_dtype.type((1 << fragment.code_width) - 1)
    words = fragment.gather(np.where(wanted, ones, fragment.code_dtype.type(0)))
    for index, slot in enumerate(matrix.slots):
        bits = words[:, :, index].reshape(-1).astype(np.uint64)
        look.demand.want(slot, lanes, np.where(bits != 0, EVERY_BIT, bits) if fragment.code_bits else bits)


def _shared(look: Look, matrix: SharedMatrix, call: int, rows: Mask, groups: Lanes) -> None:
    """Chunks of 16 bytes: neighbours in k, or with MN-major operands in the row; see `machine.shared_operand`.

    Args:
        look: the event.
        matrix: the operand.
        call: which of the event's address vectors is the operand's.
        rows: wanted ones [groups, rows].
        groups: numbers of these warpgroups among those that executed it.
    """
    size, k = matrix.element_bits // 8, wgmma_k(matrix.element_bits)
    wanted, neighbours = np.repeat(rows[:, :, np.newaxis], k, axis=2), ROW_BYTES // size
    if matrix.major is Major.MN:
        wanted = wanted.reshape(len(rows), -1, neighbours, k).swapaxes(-1, -2)
    chunks = np.repeat(wanted.reshape(len(rows), -1, neighbours), size, axis=2)
    for touched in look.event.touched:
        if touched.call == call:
            group, number = np.divmod(touched.positions, chunks.shape[1])
            here = np.flatnonzero(np.isin(group, groups))
            chosen = chunks[np.searchsorted(groups, group[here]), number[here]]
            look.follow(touched.backing, touched.offsets[here], chosen)


def _lanes_of(groups: Lanes, size: int) -> Lanes:
    """All lanes of warps or warpgroups."""
    lanes: Lanes = (groups[:, np.newaxis] * size + np.arange(size)).reshape(-1)
    return lanes


def _row(touched: Touched, warps: Lanes) -> tuple[Lanes, Lanes]:
    """Which warp's which row each address is of."""
    return np.searchsorted(warps, touched.lanes >> WARP_SHIFT), touched.lanes & (WARP - 1)
