"""One line of assembly: mnemonic, operands, modifiers, and the vector registers that it names.

    global_load_dwordx4 v[40:43], v[2:3], off offset:16 glc
        operands ("v[40:43]", "v[2:3]", "off"), modifiers ("offset:16", "glc"), first operand v40 .. v43

Syntax: LLVM, "User Guide for AMDGPU Backend" and "Syntax of AMDGPU Instruction Operands".
"""

import re
from dataclasses import dataclass
from functools import cached_property

from tileproof.oracle.refusal import Refusal

#: What a gfx9 mnemonic begins with.
FAMILIES = ("s_", "v_", "ds_", "global_", "flat_", "buffer_", "tbuffer_", "scratch_", "image_")
#: Those that `vmcnt` counts; on gfx9 stores are among them (Vega ISA, s_waitcnt).
VECTOR_MEMORY = ("global_", "flat_", "buffer_", "tbuffer_", "scratch_", "image_")
#: Those of `ds_` that leave LDS alone.
LANE_EXCHANGES = ("ds_permute", "ds_bpermute", "ds_swizzle", "ds_nop")
#: Characters of a text that a message repeats.
SHOWN = 80
#: Vector registers of a lane.
REGISTER_LIMIT = 512

_MNEMONIC = re.compile(r"[a-z][a-z0-9_]*\Z")
#: Also within -v3, |v3|, neg(v[2:3]).
_NAMED = re.compile(r"\b([va])(?:\[(\d{1,4}):(\d{1,4})\]|\[(\d{1,4})\]|(\d{1,4})\b)")
#: What the assembler takes for registers too: v[0x2a], v[40 : 43], [v40,v41], v99999.
_OTHER_NAMES = re.compile(r"\A\[|\b[va](?:\s*\[|\d+\b|\Z)")
_COUNT = re.compile(r"(vmcnt|lgkmcnt|expcnt)\((\d{1,3})\)\Z")


@dataclass(frozen=True)
class Instruction:
    """A decoded line.

    Attributes:
        line: of the text, from 1.
        mnemonic: without an encoding suffix.
        operands: in order, as written.
        modifiers: behind the last operand.
        comment: what follows the instruction on its line.
        inline: whether it was written by hand, between ASMSTART and ASMEND.
    """

    line: int
    mnemonic: str
    operands: tuple[str, ...]
    modifiers: tuple[str, ...]
    comment: str
    inline: bool

    def registers(self, operand: int) -> frozenset[str]:
        """Vector registers that an operand names, "v40" and so on; none for another kind of operand.

        Raises:
            Refusal: registers that there are not, or in a form that no compiler prints.
        """
        if operand >= len(self.operands):
            return frozenset()
        return _registers(self.operands[operand], self.line)

    @property
    def words(self) -> frozenset[str]:
        """Operands and modifiers taken apart; the assembler lets commas stand between modifiers too: `off, glc`."""
        return frozenset(word for part in (*self.operands, *self.modifiers) for word in part.split())

    @cached_property
    def every_register(self) -> frozenset[str]:
        """Vector registers of all operands."""
        return frozenset().union(*(self.registers(i) for i in range(len(self.operands))))

    @property
    def reads_memory(self) -> bool:
        """Whether it loads from vector memory."""
        return self.mnemonic.startswith(VECTOR_MEMORY) and "_load" in self.mnemonic

    @property
    def is_vector_memory(self) -> bool:
        """Whether `vmcnt` counts it."""
        return self.mnemonic.startswith(VECTOR_MEMORY)

    @property
    def stores_lds(self) -> bool:
        """Whether it writes LDS, and does no more than that."""
        return self.mnemonic.startswith(("ds_write", "ds_store")) and "gds" not in self.words

    @property
    def reads_lds(self) -> bool:
        """Whether it reads LDS."""
        return self.mnemonic.startswith(("ds_read", "ds_load"))

    @property
    def changes_lds(self) -> bool:
        """Whether it is a `ds_` access but no read, write or exchange of lanes: an atomic one, or one of GDS."""
        plain = self.stores_lds or self.reads_lds or self.mnemonic.startswith(LANE_EXCHANGES)
        return self.mnemonic.startswith("ds_") and not plain

    @property
    def waits(self) -> dict[str, int]:
        """The counters of an `s_waitcnt` and what each may still count; empty for another instruction.

        Raises:
            Refusal: a wait in numbers, which this reader does not take apart.
        """
        if self.mnemonic != "s_waitcnt":
            return {}
        parts = [part for operand in (*self.operands, *self.modifiers) for part in operand.split("&") if part.strip()]
        found = [_COUNT.match(part.strip()) for part in parts]
        if not parts or not all(found):
            raise Refusal(
                f"line {self.line}: s_waitcnt {shown(' '.join(parts))} names no counters",
                hint="print the listing with vmcnt(n), lgkmcnt(n), expcnt(n)",
            )
        return {match[1]: int(match[2]) for match in found if match}

    def __str__(self) -> str:
        return f"line {self.line}: {shown(self.mnemonic + ' ' + ', '.join(self.operands)).rstrip()}"


def shown(text: str) -> str:
    """A foreign text as a message may hold it."""
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def parse_instruction(text: str, line: int, comment: str, inline: bool) -> Instruction:
    """Takes a line without its comment apart.

    Raises:
        Refusal: it is no gfx9 instruction.
    """
    mnemonic, _, rest = text.strip().partition(" ")
    mnemonic = re.sub(r"_(e32|e64|sdwa|dpp)\Z", "", mnemonic)
    if not text.isascii() or not _MNEMONIC.match(mnemonic) or not mnemonic.startswith(FAMILIES):
        raise Refusal(
            f"line {line}: {shown(text.strip())!r} is no gfx9 instruction",
            hint="give a listing by clang -S or llvm-objdump -d, one instruction a line",
        )
    parts = [part.strip() for part in _split(rest)]
    operands, modifiers = parts, []
    if parts:
        first, *modifiers = parts[-1].split() or [""]
        operands = [*parts[:-1], first]
    if any(not operand for operand in operands):
        raise Refusal(f"line {line}: an operand of {shown(text.strip())!r} is empty")
    return Instruction(line, mnemonic, tuple(operands), tuple(modifiers), comment, inline)


def _split(text: str) -> list[str]:
    """Operands between commas; `[40:43]` and `vmcnt(0)` hold none."""
    return text.split(",") if text.strip() else []


def _registers(operand: str, line: int) -> frozenset[str]:
    if _OTHER_NAMES.search(_NAMED.sub("", operand)):
        raise Refusal(f"line {line}: registers written as {shown(operand)}", hint="v40 and v[40:43] are read")
    named: set[str] = set()
    for kind, low, high, alone, single in _NAMED.findall(operand):
        first, last = int(low or alone or single), int(high or alone or single)
        if not first <= last < REGISTER_LIMIT:
            hint = f"{kind}0 .. {kind}{REGISTER_LIMIT - 1}"
            raise Refusal(f"line {line}: there are no registers {shown(operand)}", hint=hint)
        named |= {f"{kind}{number}" for number in range(first, last + 1)}
    return frozenset(named)
