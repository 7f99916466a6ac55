"""Runs a wave program on one block and checks every access.

Waves run in step: operation i of all waves, then operation i + 1. One schedule of many, and enough, because what
another schedule could change is reported as a race (`lds`). Checked:

* `race`: LDS accesses of two waves without a barrier between; two lanes of one write on one byte; a register read or
  overwritten before the wait for its load; an output stored twice;
* `out-of-bounds`, `misaligned`: LDS and global memory, by the width of the access;
* `uninitialised`: a byte that nothing wrote, carried through registers, LDS and products until it is stored;
* `deadlock`: a barrier to which not all waves come.

A product is undefined in row m and column n where row m of A or column n of B has an undefined byte.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.banks import LDS, Access, bank_use
from tileproof.oracle.maps.dumma_fragments import DUMMA_A, DUMMA_B, DUMMA_C
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.machine.findings import Findings
from tileproof.simulators.gfx928.machine.lds import WAVE_LIMIT, Lds
from tileproof.simulators.gfx928.machine.memory import Buffer, Register, Registers
from tileproof.simulators.gfx928.machine.operations import (
    Addresses,
    Alu,
    Barrier,
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
from tileproof.simulators.gfx928.matrix_unit import mmac
from tileproof.simulators.gfx928.wave import LANES, shfl_xor
from tileproof.simulators.ptx.findings import FindingKind

Index = npt.NDArray[np.int64]


@dataclass
class Counters:
    """What a block executed; of one wave, but for the conflicts, which are of all."""

    barriers: int = 0
    products: int = 0
    global_loads: int = 0
    lds_conflicts: int = 0


@dataclass(eq=False)
class Block:
    """The state of one block.

    Args:
        waves: of the block.
        lds_bytes: that it has.
        buffers: global memory by name, shared with other blocks.
        findings: what it adds to.
        counters: what it adds to.
        count_banks: whether to count bank conflicts, which takes most of the time.

    Raises:
        Refusal: more waves or more LDS than there can be.
    """

    waves: int
    lds_bytes: int
    buffers: Mapping[str, Buffer]
    findings: Findings
    counters: Counters
    count_banks: bool = False
    registers: Registers = field(init=False)
    lds: Lds = field(init=False)

    def __post_init__(self) -> None:
        if not 1 <= self.waves <= WAVE_LIMIT:
            raise Refusal(f"a block of {self.waves} waves", hint=f"1 .. {WAVE_LIMIT} are modelled")
        self.registers = Registers(self.waves)
        self.lds = Lds(self.lds_bytes)

    def run(self, program: Sequence[Operation]) -> None:
        """Executes a program; a deadlock ends it.

        Raises:
            Refusal: a register that is never written, an unknown buffer, arrays of other shapes or types, or bytes that
                a register does not have.
        """
        for line, operation in enumerate(program):
            if isinstance(operation, Barrier):
                if not self._barrier(line, operation):
                    return
            else:
                _STEPS[type(operation)](self, line, operation)

    def _barrier(self, line: int, barrier: Barrier) -> bool:
        missing = set(range(self.waves)) - (barrier.waves if barrier.waves is not None else set(range(self.waves)))
        if missing:
            count = LANES * (self.waves - len(missing))
            self.findings.add(FindingKind.DEADLOCK, line, barrier, f"waves {sorted(missing)} never come", count)
            return False
        self.counters.barriers += 1
        self.lds.barrier()
        return True

    def _wait(self, line: int, wait: Wait) -> None:
        self.registers.settle(wait.counter)
        if wait.counter is Counter.LGKM:
            self.lds.wait()

    def _zero(self, line: int, zero: Zero) -> None:
        shape = (self.waves, LANES, zero.size)
        self._write(line, zero, zero.register, np.zeros(shape, np.uint8), np.ones(shape, np.bool_))

    def _global_load(self, line: int, load: GlobalLoad) -> None:
        buffer = self._buffer(load.buffer)
        inside = self._inside(line, load, load.buffer, buffer.data.size)
        data = np.where(inside[..., np.newaxis], _gather(buffer.data, load.addresses, load.nbytes), np.uint8(0))
        # A lane that is switched off keeps the zeros that the kernel put there; one out of bounds gets nothing.
        defined = np.repeat((inside | ~load.active)[..., np.newaxis], load.nbytes, axis=-1)
        self._write(line, load, load.register, data, defined).pending = (Counter.VM, line)
        self.counters.global_loads += 1

    def _global_store(self, line: int, store: GlobalStore) -> None:
        buffer = self._buffer(store.buffer)
        register = self._read(line, store, store.register)
        if register.data.shape[-1] != store.nbytes:
            raise Refusal(f"operation {line}, {store}: the register has {register.data.shape[-1]} bytes")
        inside = self._inside(line, store, store.buffer, buffer.data.size)
        undefined = inside & ~register.defined.all(axis=-1)
        self._report(FindingKind.UNINITIALISED, line, store, undefined, "stores bytes that nothing wrote")
        index = _spread(store.addresses[inside], store.nbytes).reshape(-1)
        np.add.at(buffer.stores, index, 1)
        again = inside & (_gather(buffer.stores, store.addresses, store.nbytes) > 1).any(axis=-1)
        self._report(FindingKind.RACE, line, store, again, "stores to bytes that are stored to twice")
        buffer.data[index] = register.data[inside].reshape(-1)

    def _ds_write(self, line: int, write: DsWrite) -> None:
        register = self._read(line, write, write.register)
        part = slice(write.first, write.first + write.nbytes)
        _require_part(line, write, part.start, part.stop, register.data.shape[-1])
        inside = self._inside(line, write, "LDS", self.lds.size)
        for wave in range(self.waves):
            lanes = inside[wave]
            index = _spread(write.addresses[wave][lanes], write.nbytes).reshape(-1)
            self._lds_access(line, write, wave, index, writes=True)
            if np.unique(index).size < index.size:
                message = f"two lanes of wave {wave} write one byte"
                self.findings.add(FindingKind.RACE, line, write, message, int(lanes.sum()))
            self.lds.data[index] = register.data[wave, lanes, part].reshape(-1)
            self.lds.defined[index] = register.defined[wave, lanes, part].reshape(-1)
        self._count_banks(write.addresses, write.nbytes, Access.STORE, inside)

    def _ds_read(self, line: int, read: DsRead) -> None:
        end = read.first + read.nbytes
        _require_part(line, read, read.first, end, read.size)
        known = self.registers.known(read.register)
        register = self.registers.part(read.register, read.size)
        if known is not None and known.is_awaited(*((read.first, end) if known is register else (0, read.size))):
            self._unwaited(line, read, read.register, known)
        part = slice(read.first, end)
        inside = self._inside(line, read, "LDS", self.lds.size)
        for wave in range(self.waves):
            self._lds_access(line, read, wave, _spread(read.addresses[wave][inside[wave]], read.nbytes).reshape(-1))
        register.data[..., part] = _gather(self.lds.data, read.addresses, read.nbytes)
        register.defined[..., part] = _gather(self.lds.defined, read.addresses, read.nbytes) & inside[..., np.newaxis]
        register.pending = (Counter.LGKM, line)
        register.parts.append((read.first, end))
        self._count_banks(read.addresses, read.nbytes, Access.LOAD, inside)

    def _mmac(self, line: int, operation: Mmac) -> None:
        a, b, c = (self._read(line, operation, name) for name in (operation.a, operation.b, operation.accumulator))
        words = mmac(_words(a.data), _words(b.data), _words(c.data))
        rows = np.asarray(DUMMA_A.scatter(_flags(a.defined)).all(axis=-1))
        columns = np.asarray(DUMMA_B.scatter(_flags(b.defined)).all(axis=-1))
        whole = (rows[..., np.newaxis] & columns[..., np.newaxis, :]).astype(np.uint32)
        defined = DUMMA_C.gather(whole).astype(np.bool_) & c.defined.reshape(self.waves, LANES, 4, 4).all(axis=-1)
        data = np.ascontiguousarray(words).view(np.uint8).reshape(self.waves, LANES, 16)
        self._write(line, operation, operation.accumulator, data, np.repeat(defined, 4, axis=-1))
        self.counters.products += 1

    def _shfl_xor(self, line: int, shuffle: ShflXor) -> None:
        source = self._read(line, shuffle, shuffle.source)
        data, defined = (
            np.moveaxis(shfl_xor(np.moveaxis(array, 1, -1), shuffle.mask), -1, 1)
            for array in (source.data, source.defined)
        )
        self._write(line, shuffle, shuffle.register, data, defined)

    def _alu(self, line: int, alu: Alu) -> None:
        sources = [self._read(line, alu, name) for name in alu.sources]
        data = alu.apply(*(source.data for source in sources))
        lanes = np.concatenate([source.defined for source in sources], axis=-1).all(axis=-1, keepdims=True)
        self._write(line, alu, alu.register, data, np.repeat(lanes, data.shape[-1], axis=-1))

    def _read(self, line: int, operation: Operation, name: str) -> Register:
        register = self.registers.find(name)
        if register.pending is not None:
            self._unwaited(line, operation, name, register)
        return register

    def _write(self, line: int, operation: Operation, name: str, data: npt.NDArray[Any], defined: Mask) -> Register:
        known = self.registers.known(name)
        if known is not None and known.pending is not None:
            self._unwaited(line, operation, name, known)
        return self.registers.put(name, data, defined)

    def _unwaited(self, line: int, operation: Operation, name: str, register: Register) -> None:
        counter, load = register.pending or (Counter.VM, line)
        message = f"{name} is in flight since operation {load}: no {counter.value}(0) between"
        self.findings.add(FindingKind.RACE, line, operation, message, self.waves * LANES)

    def _lds_access(self, line: int, operation: Operation, wave: int, index: Index, writes: bool = False) -> None:
        race = self.lds.access(wave, index, writes, line)
        if race is not None:
            message = (
                f"wave {wave} {'writes' if writes else 'reads'} byte {race.byte} of LDS, which wave {race.other_wave} "
                f"{'writes' if race.other_writes else 'reads'} in operation {race.other_line}: no barrier between"
            )
            self.findings.add(FindingKind.RACE, line, operation, message, race.count)

    def _inside(self, line: int, access: GlobalLoad | GlobalStore | DsWrite | DsRead, name: str, size: int) -> Mask:
        """Active lanes whose access lies inside and is aligned; the others are reported."""
        active = np.ones_like(access.addresses, np.bool_) if isinstance(access, DsRead) else access.active
        if access.addresses.shape != (self.waves, LANES) or active.shape != (self.waves, LANES):
            raise Refusal(f"operation {line}: addresses {access.addresses.shape}", hint=f"[{self.waves}, {LANES}]")
        if access.addresses.dtype != np.int64 or access.nbytes < 1:
            raise Refusal(
                f"operation {line}: {access.nbytes} bytes at {access.addresses.dtype} addresses", hint="int64"
            )
        inside = (access.addresses >= 0) & (access.addresses <= size - access.nbytes)
        aligned = access.addresses % access.nbytes == 0
        self._report(FindingKind.OUT_OF_BOUNDS, line, access, active & ~inside, f"outside {name} of {size} bytes")
        crooked = active & inside & ~aligned
        self._report(FindingKind.MISALIGNED, line, access, crooked, f"no multiple of {access.nbytes}")
        reached: Mask = active & inside & aligned
        return reached

    def _report(self, kind: FindingKind, line: int, operation: Any, lanes: Mask, message: str) -> None:
        if lanes.any():
            wave, lane = (int(index[0]) for index in np.nonzero(lanes))
            at = f", address {operation.addresses[wave, lane]}"
            self.findings.add(kind, line, operation, f"wave {wave} lane {lane}{at}: {message}", int(lanes.sum()))

    def _count_banks(self, addresses: Addresses, nbytes: int, access: Access, active: Mask) -> None:
        if self.count_banks:
            for wave in range(self.waves):
                use = bank_use(addresses[wave], nbytes, memory=LDS, access=access, active=active[wave])
                self.counters.lds_conflicts += use.conflicts

    def _buffer(self, name: str) -> Buffer:
        if name not in self.buffers:
            raise Refusal(f"there is no buffer {name}", hint=f"buffers: {', '.join(self.buffers)}")
        return self.buffers[name]


_STEPS: dict[type, Callable[[Block, int, Any], None]] = {
    Wait: Block._wait,
    Zero: Block._zero,
    GlobalLoad: Block._global_load,
    GlobalStore: Block._global_store,
    DsWrite: Block._ds_write,
    DsRead: Block._ds_read,
    Mmac: Block._mmac,
    ShflXor: Block._shfl_xor,
    Alu: Block._alu,
}


def _require_part(line: int, operation: Operation, first: int, end: int, size: int) -> None:
    if not 0 <= first < end <= size:
        raise Refusal(f"operation {line}, {operation}: bytes {first} to {end} of {size}", hint="a part of the register")


def _spread(addresses: Index, nbytes: int) -> Index:
    return addresses[..., np.newaxis] + np.arange(nbytes, dtype=np.int64)


def _gather(memory: npt.NDArray[Any], addresses: Addresses, nbytes: int) -> npt.NDArray[Any]:
    """Bytes at the addresses, [..., nbytes]; what lies outside is not looked at by anyone."""
    return memory[np.clip(_spread(addresses, nbytes), 0, memory.size - 1)]


def _words(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(data).view("<u4").astype(np.uint32, copy=False)


def _flags(defined: Mask) -> npt.NDArray[np.uint32]:
    """Flags of bytes as the words that a fragment map scatters."""
    return _words(defined.astype(np.uint8))
