"""The operands of `wgmma` in shared memory: descriptors, chunks of 16 bytes, elements.

The hardware reads on its own, through the async proxy and in no thread's order. Here the bytes are taken when the
instruction is issued, and the reads last until the wait that covers their group: who writes there before has a finding.
"""

from functools import lru_cache

import numpy as np

from tileproof.oracle.maps.ldmatrix import ROW_BYTES
from tileproof.oracle.maps.wgmma_descriptor import MatrixDescriptor
from tileproof.oracle.maps.wgmma_fragments import wgmma_k
from tileproof.oracle.maps.wgmma_tile import Codes, Major, tile_addresses
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.layout import RANK_SHIFT
from tileproof.simulators.ptx.machine.matrix_transfer import load_chunks
from tileproof.simulators.ptx.machine.memory import Bits, Bytes, Lanes
from tileproof.simulators.ptx.machine.order.kinds import Engine
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT
from tileproof.simulators.ptx.machine.warpgroup import LANES
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.matrix_form import SharedMatrix
from tileproof.simulators.ptx.program import StateSpace, Step


def read_shared(
    wave: Wave, step: Step, pc: int, selection: Selection, matrix: SharedMatrix
) -> tuple[Codes, Codes | None]:
    """Codes [warpgroups, rows, K] and their undefined bits; a chunk outside has its finding and reads zero."""
    lanes = wave.ids(selection)
    groups = lanes[::LANES]
    descriptors = uniform(wave, step, selection, matrix.descriptor, "matrix descriptor")
    addresses = np.stack([_chunks(step, int(bits), matrix) for bits in descriptors])
    owners = np.repeat(groups, addresses.shape[1])
    ranks = (wave.geometry.rank[owners] << RANK_SHIFT).astype(np.uint64)  # descriptors have no room for the rank
    found, faults = wave.spaces[StateSpace.SHARED].locate(addresses.reshape(-1) + ranks, owners, ROW_BYTES)
    for fault in faults:
        wave.report(
            fault.kind, f"{step.opcode} reads {fault.message}", step.where, owners[fault.positions], fault.detail
        )
    chunks = np.zeros((owners.size, ROW_BYTES), np.uint8)
    masks: Bytes | None = None
    for piece in found:
        loaded, undefined = load_chunks(piece)
        issuers = owners[piece.positions]
        ticks = wave.products.committed[issuers >> WARP_SHIFT]
        races = wave.order.async_access(
            Engine.WGMMA, ticks, step, pc, issuers, False, StateSpace.SHARED, piece.backing, piece.offsets, ROW_BYTES
        )
        if races and wave.weak is not None:
            loaded = wave.weak.read_operand(piece.offsets, ROW_BYTES, loaded)
        chunks[piece.positions] = loaded
        if undefined is not None:
            masks = np.zeros_like(chunks) if masks is None else masks
            masks[piece.positions] = undefined
        wave.count_read(StateSpace.SHARED, piece.offsets.size * ROW_BYTES)
    return _elements(matrix, chunks, groups), None if masks is None else _elements(matrix, masks, groups)


def uniform(wave: Wave, step: Step, selection: Selection, slot: int, what: str) -> Bits:
    """The value of an operand that all threads of a warpgroup must agree on, of each warpgroup."""
    undefined = wave.registers.undefined((slot,), selection)
    lanes = wave.ids(selection)
    if undefined is not None:
        message = f"a value that nothing wrote decides the {what} of {step.opcode}"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[undefined[0] != 0])
    values = wave.registers.read(slot, selection).reshape(-1, LANES)
    differs = (values != values[:, :1]).reshape(-1)
    if differs.any():
        message = f"the {what} of {step.opcode} differs between threads of a warpgroup"
        wave.report(FindingKind.DIVERGENCE, message, step.where, lanes[differs])
    first: Bits = values[:, 0]
    return first


def _chunks(step: Step, bits: int, matrix: SharedMatrix) -> Bits:
    try:
        return _addresses(bits, matrix)
    except Refusal as error:
        raise NotModelled(f"{step.opcode} at {step.where}: {error.message}", hint=error.hint) from error


@lru_cache(maxsize=4096)
def _addresses(bits: int, matrix: SharedMatrix) -> Bits:
    """Addresses of an operand's chunks, in the order in which `_elements` takes them."""
    descriptor = MatrixDescriptor.decode(bits)
    elements = tile_addresses(descriptor, rows=matrix.rows, bits=matrix.element_bits, major=matrix.major)
    step = 8 * ROW_BYTES // matrix.element_bits
    firsts = elements[:, ::step] if matrix.major is Major.K else elements[::step]
    return firsts.reshape(-1).astype(np.uint64)


def _elements(matrix: SharedMatrix, chunks: Bytes, groups: Lanes) -> Codes:
    """Codes [warpgroups, rows, K]: a chunk holds neighbours in k, or with MN-major operands in the row."""
    k = wgmma_k(matrix.element_bits)
    codes = chunks.view(f"<u{matrix.element_bits // 8}").astype(f"u{matrix.element_bits // 8}", copy=False)
    if matrix.major is Major.K:
        return codes.reshape(groups.size, matrix.rows, k)
    blocks = codes.reshape(groups.size, -1, k, codes.shape[1])
    return np.ascontiguousarray(blocks.swapaxes(-1, -2)).reshape(groups.size, matrix.rows, k)
