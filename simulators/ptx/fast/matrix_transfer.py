"""`ldmatrix`, `stmatrix` and `movmatrix`, compiled: rows of 16 bytes and registers."""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast.matrix_layout import TRANSFER_MAP, TRANSFER_REGISTERS, TRANSFER_ROWS
from tileproof.simulators.ptx.fast.parts import part
from tileproof.simulators.ptx.machine.asynchronous.barriers import Life

_WARP, _ROW_BYTES, _REGISTER_BYTES = 32, 16, 4
#: The state of a word in which an mbarrier stands.
_LIVE = np.uint8(Life.LIVE)
_WINDOW_BYTES = np.uint64(1 << 32)
_ALL_DEFINED = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@part
def locate(
    record: Any, sources: Any, values: Any, runs: Any, memory: Any, window: Any, offset: Any, reads: Any, places: Any
) -> bool:
    """Where the rows lie; whether nothing about that is suspicious.

    Args:
        record: of `matrix_record.transfer_record`.
        sources: operands of the step, slots in their first column: the first is the address.
        values: the register file.
        runs: lanes that execute, whole warps.
        memory: shared memory: words of 8 bytes, their definedness (empty if all are defined), states of mbarriers
            (empty if there are none), lowest address, bytes of a block, offset of each lane's block.
        window: where shared memory starts in the generic address space, or 0 for shared addresses.
        offset: added to every address.
        reads: whether rows must be defined.
        places: int64 [rows of all warps], filled with the places of rows as numbers of 8-byte words.
    """
    _, written, life, base, nbytes, starts = memory
    slot, filled = sources[0, 0], 0
    for run in range(len(runs)):
        for first in range(runs[run, 0], runs[run, 1], _WARP):
            for lane in range(first, first + record[TRANSFER_ROWS]):
                address = values[slot, lane] + np.uint64(offset)
                address = address - np.uint64(window) if window else address & np.uint64(0xFFFF_FFFF)
                if address & np.uint64(_ROW_BYTES - 1) or address >= _WINDOW_BYTES:
                    return False
                relative = np.int64(address) - base
                if relative < 0 or relative + _ROW_BYTES > nbytes:
                    return False
                place = (relative + starts[lane]) >> 3
                if reads and len(written) and (written[place] != _ALL_DEFINED or written[place + 1] != _ALL_DEFINED):
                    return False
                if len(life) and (life[place] == _LIVE or life[place + 1] == _LIVE):
                    return False
                places[filled] = place
                filled += 1
    return True


@part
def load(record: Any, results: Any, values: Any, runs: Any, memory: Any, places: Any) -> None:
    """`ldmatrix`; the rows are at `places`."""
    words = memory[0]
    buffer = np.empty(record[TRANSFER_ROWS] * 2, np.uint64)
    rows, filled = buffer.view(np.uint8), 0
    for run in range(len(runs)):
        for first in range(runs[run, 0], runs[run, 1], _WARP):
            for row in range(record[TRANSFER_ROWS]):
                buffer[2 * row], buffer[2 * row + 1] = words[places[filled]], words[places[filled] + 1]
                filled += 1
            _gather(record, results, values, first, rows)


@part
def store(record: Any, sources: Any, values: Any, runs: Any, memory: Any, places: Any) -> None:
    """`stmatrix`; the rows go to `places`."""
    words, written = memory[0], memory[1]
    buffer = np.empty(record[TRANSFER_ROWS] * 2, np.uint64)
    rows, filled = buffer.view(np.uint8), 0
    for run in range(len(runs)):
        for first in range(runs[run, 0], runs[run, 1], _WARP):
            place = record[TRANSFER_MAP]
            for register in range(record[TRANSFER_REGISTERS]):
                for lane in range(first, first + _WARP):
                    word = values[sources[1 + register, 0], lane]
                    for byte in range(_REGISTER_BYTES):
                        rows[record[place]] = (word >> np.uint64(8 * byte)) & np.uint64(0xFF)
                        place += 1
            for row in range(record[TRANSFER_ROWS]):
                target = places[filled]
                words[target], words[target + 1] = buffer[2 * row], buffer[2 * row + 1]
                if len(written):
                    written[target] = written[target + 1] = _ALL_DEFINED
                filled += 1


@part
def transpose(record: Any, sources: Any, results: Any, values: Any, runs: Any) -> None:
    """`movmatrix`: the registers of a warp take the place of rows."""
    rows = np.empty(_WARP * _REGISTER_BYTES, np.uint8)
    for run in range(len(runs)):
        for first in range(runs[run, 0], runs[run, 1], _WARP):
            for lane in range(_WARP):
                word = values[sources[0, 0], first + lane]
                for byte in range(_REGISTER_BYTES):
                    rows[_REGISTER_BYTES * lane + byte] = (word >> np.uint64(8 * byte)) & np.uint64(0xFF)
            _gather(record, results, values, first, rows)


@part
def overlaps(memory: Any, places: Any) -> bool:
    """Whether two of the rows that a step stores lie at one place: each leaves its number there, and finds it again."""
    words, saved, found = memory[0], np.empty(len(places), np.uint64), False
    for row in range(len(places)):
        saved[row] = words[places[row]]
    for row in range(len(places)):
        words[places[row]] = row
    for row in range(len(places)):
        found |= words[places[row]] != row
    for row in range(len(places)):
        words[places[row]] = saved[row]
    return found


@part
def _gather(record: Any, results: Any, values: Any, first: Any, rows: Any) -> None:
    """The registers of one warp from bytes."""
    place = record[TRANSFER_MAP]
    for register in range(record[TRANSFER_REGISTERS]):
        slot = results[register, 0]
        for lane in range(first, first + _WARP):
            word = np.uint64(0)
            for byte in range(_REGISTER_BYTES):
                word |= np.uint64(rows[record[place]]) << np.uint64(8 * byte)
                place += 1
            if slot >= 0:
                values[slot, lane] = word
