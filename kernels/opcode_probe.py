"""One kernel for each of many opcodes: element i of the results is the opcode on element i of the operands.

The instruction stands in inline assembly with all operands in registers that were loaded from memory, so that the
assembler can compute nothing itself. Every opcode is an entry of its own, for they differ in nothing but their PTX.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

#: Threads of a block of every entry.
THREADS = 256

_WORDS = {16: ("unsigned short", "h"), 32: ("unsigned", "r"), 64: ("unsigned long long", "l")}
_OPERANDS = 4


def stored_bits(type_name: str) -> int:
    """Bits in which an operand or result of a PTX type lies in memory and in its register: 16, 32 or 64."""
    digits = "".join(character for character in type_name if character.isdigit())
    return max(16, int(digits)) if digits else 16


def stored_dtype(type_name: str) -> np.dtype[np.unsignedinteger]:
    """Element type of the arrays of operands and results; of an 8-bit result it is the register, 16 bits."""
    return np.dtype(f"u{stored_bits(type_name) // 8}")


@dataclass(frozen=True)
class Probe:
    """One opcode to issue.

    Args:
        entry: name of its kernel.
        opcode: as PTX writes it, without operands.
        destinations: PTX types of the results, one or two.
        sources: PTX types of the operands in registers, at most four; scalar types with their width ("s8", "b32"), and
            "pred", which is a 16-bit 0 or 1 in memory. "carry" is one too; the instruction takes it from, or leaves it
            in, the carry flag.
        immediate: a fourth operand that must be one (the table of lop3).
    """

    entry: str
    opcode: str
    destinations: tuple[str, ...]
    sources: tuple[str, ...]
    immediate: int | None = None


def probe_source(probes: Iterable[Probe]) -> str:
    """CUDA source of one module.

    Each entry takes four addresses of operands (the last ones unused where the opcode has fewer), two of results, and
    the number of elements, an unsigned.
    """
    return "using Address = const void*;\n" + "".join(_entry(probe) for probe in probes)


def _entry(probe: Probe) -> str:
    results, operands = range(len(probe.destinations)), range(len(probe.sources))
    loads = "".join(
        f"    const {_WORDS[stored_bits(type_)][0]} s{k} = "
        f"static_cast<const {_WORDS[stored_bits(type_)][0]}*>(a{k})[i];\n"
        for k, type_ in enumerate(probe.sources)
    )
    declared = "".join(f"    {_WORDS[stored_bits(t)][0]} r{k};\n" for k, t in enumerate(probe.destinations))
    outputs = ", ".join(f'"=&{_WORDS[stored_bits(probe.destinations[k])][1]}"(r{k})' for k in results)
    inputs = ", ".join(f'"{_WORDS[stored_bits(probe.sources[k])][1]}"(s{k})' for k in operands)
    stores = "".join(
        f"    static_cast<{_WORDS[stored_bits(t)][0]}*>(d{k})[i] = r{k};\n" for k, t in enumerate(probe.destinations)
    )
    parameters = ", ".join(
        [f"Address a{k}" for k in range(_OPERANDS)] + ["void* d0", "void* d1", "const unsigned count"]
    )
    return (
        f'extern "C" __global__ void {probe.entry}({parameters}) {{\n'
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i >= count) return;\n"
        f'{loads}{declared}    asm volatile("{_assembly(probe)}" : {outputs} : {inputs});\n{stores}}}\n'
    )


def _assembly(probe: Probe) -> str:
    """The instruction, between those that make its operands from the stored numbers and numbers of its results."""
    before, after, targets, sources = list[str](), list[str](), list[str](), list[str]()
    for k, type_ in enumerate(probe.destinations):
        place = f"%{k}"
        if type_ == "pred":
            before.append(f".reg .pred q{k};")
            after.append(f"selp.b16 %{k}, 1, 0, q{k};")
            place = f"q{k}"
        elif _needs_byte(probe, type_):
            before.append(f".reg .b8 q{k};")
            kind = type_[0].replace("b", "u")
            after.append(f"cvt.{kind}16.{kind}8 %{k}, q{k};")
            place = f"q{k}"
        elif type_ == "carry":
            before.append(f".reg .u32 q{k};")
            after.insert(0, f"addc.u32 q{k}, 0, 0; cvt.u16.u32 %{k}, q{k};")
            continue
        targets.append(place)
    for k, type_ in enumerate(probe.sources):
        place = f"%{k + len(probe.destinations)}"
        if type_ == "pred":
            before.append(f".reg .pred p{k}; setp.ne.u16 p{k}, {place}, 0;")
            place = f"p{k}"
        elif _needs_byte(probe, type_):
            before.append(f".reg .b8 p{k}; cvt.u8.u16 p{k}, {place};")
            place = f"p{k}"
        elif type_ == "carry":
            before.append(f".reg .u32 p{k}; cvt.u32.u16 p{k}, {place}; add.cc.u32 p{k}, p{k}, 0xffffffff;")
            continue
        sources.append(place)
    if probe.immediate is not None:
        sources.insert(3, str(probe.immediate))
    instruction = f"{probe.opcode} {', '.join(['|'.join(targets), *sources])};"
    return " ".join(["{", *before, instruction, *after, "}"])


def _needs_byte(probe: Probe, type_: str) -> bool:
    """The assembler takes 8-bit operands in wider registers, but not beside bf16, and not pairs of 4-bit floats."""
    return type_ == "b8" or (type_ in ("u8", "s8") and "bf16" in probe.opcode.split("."))
