"""The name of a matrix instruction, taken apart.

A name is what decides the arithmetic, in PTX's order, joined by dots:

    family . shape [. satfinite | kind::K | block_scale | scale_vec::NX | 1k] . accumulator . A . B [. scale type]

    mma.m16n8k32.f32.e4m3.e4m3               C and D float32, A and B e4m3
    mma.m16n8k32.satfinite.s32.s8.s8         clamped instead of wrapped
    wgmma.m64n128k16.f16.f16.f16
    tcgen05.m128n256k32.kind::f8f6f4.f32.e4m3.e2m1
    mma.m16n8k64.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.ue4m3
    mfma.m16n16k16.f32.f16.f16               AMD v_mfma_f32_16x16x16_f16; `1k` is AMD's suffix _1k

Layouts (.row, .col), .sync and .aligned decide no bit and are left out.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.operand import ACCUMULATOR_DTYPES, OPERAND_TYPES, OperandType


class Family(StrEnum):
    """Who executes it and how it is issued."""

    #: One warp, operands in registers (NVIDIA `mma.sync`).
    MMA = "mma"
    #: One warpgroup, asynchronous (NVIDIA `wgmma.mma_async`, sm_90a).
    WGMMA = "wgmma"
    #: One thread, accumulators in tensor memory (NVIDIA `tcgen05.mma`, sm_100a).
    TCGEN05 = "tcgen05"
    #: One wavefront (AMD `v_mfma`).
    MFMA = "mfma"


@dataclass(frozen=True)
class Shape:
    """The extents of one instruction: A is m × k, B n × k (transposed), C and D m × n."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"m{self.m}n{self.n}k{self.k}"


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One matrix instruction, as far as its name decides bits."""

    family: Family
    shape: Shape
    #: "f64", "f32", "f16" or "s32": the type of C and D.
    accumulator: str
    a: OperandType
    b: OperandType
    #: PTX's `.kind::`, without the prefix; empty where none is written.
    kind: str = ""
    #: Integer results are clamped (`.satfinite`).
    saturates: bool = False
    #: Scale factors in a row of K; 0 without block scaling.
    scales: int = 0
    #: The type of a scale factor; None without block scaling.
    scale_type: OperandType | None = None
    #: AMD's `_1k` forms of CDNA2, which differ in arithmetic and not always in shape.
    one_k: bool = False

    @property
    def name(self) -> str:
        """The name that `parse_instruction` takes apart."""
        words = [self.family.value, str(self.shape)]
        words += [f"kind::{self.kind}"] if self.kind else []
        words += ["satfinite"] * self.saturates + ["1k"] * self.one_k
        words += ["block_scale", f"scale_vec::{self.scales}X"] if self.scales else []
        words += [self.accumulator, *self.operands, *([self.scale_type.name] if self.scale_type else [])]
        return ".".join(words)

    @property
    def operands(self) -> tuple[str, str]:
        """The names of the types of A and B."""
        return self.a.name, self.b.name

    @property
    def block(self) -> int:
        """Elements of K that share a scale factor."""
        return self.shape.k // self.scales


_SHAPE = re.compile(r"m([1-9][0-9]*)n([1-9][0-9]*)k([1-9][0-9]*)")
_SCALE_VECTOR = re.compile(r"scale_vec::([124])X")
_EXAMPLE = "write it like mma.m16n8k32.f32.e4m3.e4m3 or mma.m16n8k32.satfinite.s32.s8.s8"


def parse_instruction(name: str) -> Instruction:
    """The instruction that a name describes.

    Whether an architecture has it is not asked here; `unit_table.find_unit` knows.

    Raises:
        Refusal: no text, or a part is missing, empty, unknown or in excess.
    """
    if not isinstance(name, str):
        raise _refused(name, f"it is of type {type(name).__name__}, no text")
    family, _, rest = name.partition(".")
    if family not in list(Family):
        raise _refused(name, f"{family!r} is no family; known are {', '.join(Family)}")
    shape_text, _, rest = rest.partition(".")
    shape = _SHAPE.fullmatch(shape_text)
    if shape is None:
        raise _refused(name, f"{shape_text!r} is no shape such as m16n8k32" if shape_text else "its shape is missing")
    if not rest:
        raise _refused(name, "the types of accumulator, A and B are missing")
    words = rest.split(".")
    if "" in words:
        raise _refused(name, "nothing stands between two of its dots, or behind the last")
    if "kind::" in words:
        raise _refused(name, "kind:: is followed by no name")
    saturates, one_k, block_scale = (_take(words, word) for word in ("satfinite", "1k", "block_scale"))
    kind = _take_kind(words)
    scales = _take_scale_vector(words)
    if block_scale != bool(scales) or len(words) != 3 + block_scale:
        raise _refused(name, "it needs accumulator, A and B, and block_scale, scale_vec::NX and a scale type together")
    if words[0] not in ACCUMULATOR_DTYPES:
        raise _refused(name, f"{words[0]!r} is no accumulator type; known are {', '.join(ACCUMULATOR_DTYPES)}")
    a, b, *scale = (_operand(name, word) for word in words[1:])
    return Instruction(
        family=Family(family),
        shape=Shape(*(int(extent) for extent in shape.groups())),
        accumulator=words[0],
        a=a,
        b=b,
        kind=kind,
        saturates=saturates,
        scales=scales,
        scale_type=scale[0] if scale else None,
        one_k=one_k,
    )


def _take(words: list[str], word: str) -> bool:
    """Whether `word` is there; it is taken out."""
    if word not in words:
        return False
    words.remove(word)
    return True


def _take_kind(words: list[str]) -> str:
    kind = next((word for word in words if word.startswith("kind::")), "")
    _take(words, kind)
    return kind.removeprefix("kind::")


def _take_scale_vector(words: list[str]) -> int:
    for word in words:
        if match := _SCALE_VECTOR.fullmatch(word):
            words.remove(word)
            return int(match[1])
    return 0


def _operand(name: str, word: str) -> OperandType:
    if word not in OPERAND_TYPES:
        raise _refused(name, f"{word!r} is no operand type; known are {', '.join(OPERAND_TYPES)}")
    return OPERAND_TYPES[word]


def _refused(name: str, why: str) -> Refusal:
    return Refusal(f"instruction {name!r}: {why}", hint=_EXAMPLE)
