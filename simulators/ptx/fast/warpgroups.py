"""The rules of registers of `wgmma`, compiled: the twin of `ProductRegisters.issue`.

`tables` are the address of its table of registers and how many rows that has, the address of its table of warps, and
how many warps there are.
"""

from typing import Any

from tileproof.simulators.ptx.fast.layout import ROW
from tileproof.simulators.ptx.fast.matrix_layout import IN_MEMORY, REGISTERS, A, B, C
from tileproof.simulators.ptx.fast.parts import inlined, part
from tileproof.simulators.ptx.fast.pointers import offsets_at

_FENCED = 0
_WARP, _WARPGROUP = 32, 128


@part
def whole(runs: Any) -> bool:
    """Whether all runs are of whole warpgroups; blocks have whole warpgroups where they are."""
    bits = 0
    for run in range(len(runs)):
        bits |= runs[run, 0] | runs[run, 1]
    return bits % _WARPGROUP == 0


@inlined
def _tables(tables: Any) -> Any:
    """Standings, groups of accumulators and of A, steps likewise, all [rows, warps]; complete, committed, open."""
    registers, rows, known, warps = tables
    size = rows * warps * 8
    shape = rows * warps
    standing, accumulating = offsets_at(registers, shape), offsets_at(registers + size, shape)
    reading = offsets_at(registers + 2 * size, shape)
    user, reader = offsets_at(registers + 3 * size, shape), offsets_at(registers + 4 * size, shape)
    complete, committed = offsets_at(known, warps), offsets_at(known + warps * 8, warps)
    return standing, accumulating, reading, user, reader, complete, committed, offsets_at(known + 2 * warps * 8, warps)


@inlined
def committed(tables: Any) -> Any:
    """How many groups each warp has committed."""
    return _tables(tables)[6]


@inlined
def _first_accumulator(record: Any) -> Any:
    return record[record[A] + REGISTERS] + record[record[B] + REGISTERS]


@part
def may_issue(record: Any, sources: Any, shape: Any, runs: Any, tables: Any) -> bool:
    """Whether nothing about the registers of a `wgmma` is suspicious."""
    standing, accumulating, reading, _, _, complete, _, _ = _tables(tables)
    warps, start = tables[3], _first_accumulator(record)
    good = True
    for run in range(len(runs)):
        for warp in range(runs[run, 0] // _WARP, runs[run, 1] // _WARP):
            done = complete[warp]
            for index in range(start, start + record[record[C] + REGISTERS]):
                place = sources[index, ROW] * warps + warp
                continues = standing[place] == shape
                good &= continues | ((standing[place] == _FENCED) & (accumulating[place] < done))
                good &= reading[place] < done
            for index in range(0 if record[record[A] + IN_MEMORY] else record[record[A] + REGISTERS]):
                place = sources[index, ROW] * warps + warp
                good &= (standing[place] == _FENCED) & (accumulating[place] < done)
    return good


@part
def issue(record: Any, sources: Any, shape: Any, step: Any, runs: Any, tables: Any) -> None:
    """The registers are in use."""
    standing, accumulating, reading, user, reader, _, committed, uncommitted = _tables(tables)
    warps, start = tables[3], _first_accumulator(record)
    for run in range(len(runs)):
        for warp in range(runs[run, 0] // _WARP, runs[run, 1] // _WARP):
            for index in range(start, start + record[record[C] + REGISTERS]):
                place = sources[index, ROW] * warps + warp
                standing[place], accumulating[place], user[place] = shape, committed[warp], step
            for index in range(0 if record[record[A] + IN_MEMORY] else record[record[A] + REGISTERS]):
                place = sources[index, ROW] * warps + warp
                reading[place], reader[place] = committed[warp], step
            uncommitted[warp] = step
