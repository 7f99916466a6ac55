"""One instruction through the compiled loop, without a device: what the tests of the fast engine share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.forms import Form
from tileproof.simulators.ptx.alu.scalar import SCALARS
from tileproof.simulators.ptx.decoding.decode import decode_entry
from tileproof.simulators.ptx.fast import layout
from tileproof.simulators.ptx.fast.lower import lower
from tileproof.simulators.ptx.machine.registers import DEFINED, NEVER
from tileproof.simulators.ptx.program import Program
from tileproof.simulators.ptx.text.parse import parse_module

Bits = NDArray[np.uint64]
TABLE = 0xCA  # of lop3


def register_type(type_: str, *, wide: bool) -> str:
    """A register's type for an operand: as wide as it is, or wider where PTX allows that."""
    if type_ == "pred":
        return "pred"
    bits = max(16, SCALARS[type_].bits)
    return f"b{64 if wide and not SCALARS[type_].is_float else bits}"


def program_of(form: Form, *, wide: bool = False) -> Program:
    """A kernel of one instruction; its registers are d0, d1, s0, s1, .. in this order."""
    operation = form.operation
    sources = operation.sources[:3] if form.mnemonic == "lop3" else operation.sources
    both = form.mnemonic == "setp" and form.types[0] not in ("f16", "bf16")
    results = operation.destinations[: 1 + both]
    names = [f"%d{i}" for i in range(len(results))], [f"%s{i}" for i in range(len(sources))]
    types = (*results, *sources)
    declared = "".join(
        f".reg .{register_type(type_, wide=wide)} {name};\n"
        for name, type_ in zip(names[0] + names[1], types, strict=True)
    )
    operands = ", ".join(["|".join(names[0]), *names[1], *([str(TABLE)] if form.mnemonic == "lop3" else [])])
    head = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n"
    text = f"{head}{{\n{declared}{form.opcode} {operands};\n}}"
    module = parse_module(text)
    return decode_entry(module, module.entries["k"])


def is_hot(program: Program) -> bool:
    """Whether the loop knows the program's first step."""
    return bool(lower(program, "sm_90a").code[0, layout.OP] != layout.COLD)


def run_loop(
    program: Program, values: Bits, runs: Sequence[tuple[int, int]], known: Sequence[int] = ()
) -> tuple[int, NDArray[np.uint8]]:
    """The first step on a register file [slots, lanes]; the next program counter and what is known of the registers.

    Args:
        program: the kernel.
        values: changed in place.
        runs: the lanes.
        known: of the first registers; all are defined where it is not given.
    """
    from tileproof.simulators.ptx.fast.gates import FUNCTIONS, provide
    from tileproof.simulators.ptx.fast.loop import run

    bytecode = lower(program, "sm_90a")
    provide({int(bytecode.code[0, layout.OP])})
    slots, lanes = values.shape
    flags = np.full(slots, DEFINED, np.uint8)
    flags[: len(known)] = known
    frame = np.zeros(layout.FRAME, np.int64)
    count = sum(last - first for first, last in runs)
    frame[: layout.TOGETHER + 1] = (0, 1, 1, 0, count, lanes, 0)
    frame[layout.SLOTS], frame[layout.WIDTH], frame[layout.RUN_COUNT] = slots, lanes, len(runs)
    frame[layout.PLACES] = 64
    arrays: dict[int, NDArray[Any]] = {
        layout.CODE: bytecode.code,
        layout.OPERAND_TABLE: bytecode.operands,
        layout.FUNCTIONS: FUNCTIONS,
        layout.REGISTERS: values,
        layout.MASKS: np.zeros_like(values),
        layout.FLAGS: flags,
        layout.NEVER_ROW: np.full(lanes, (1 << 64) - 1, np.uint64),
        layout.BRACKETS: np.zeros(slots, np.uint8),
        layout.RUNS: np.array(runs, np.int64),
        layout.CHOSEN: np.zeros((lanes // 2 + 1, 2), np.int64),
        layout.SPACE_TABLE: np.zeros((layout.SPACES, layout.SPACE_COLUMNS), np.int64),
        layout.ALLOCATION_TABLE: np.zeros((0, layout.SPACE_COLUMNS), np.int64),
        layout.COUNTER_TABLE: np.zeros(layout.COUNTERS, np.int64),
        layout.SCRATCH: np.zeros(2 * lanes, np.uint64),
        layout.KEYS: np.zeros(64, np.uint64),
        layout.STAMPS: np.zeros(65, np.int64),
    }
    for place, array in arrays.items():
        assert array.flags.c_contiguous
        frame[place] = array.ctypes.data
    pc = run(frame.ctypes.data)
    assert frame[layout.MADE] == pc
    return int(pc), flags


__all__ = ["DEFINED", "NEVER", "TABLE", "is_hot", "program_of", "run_loop"]
