"""What a matrix unit does, as records: a few algorithms, each with its parameters.

NVIDIA's units are one algorithm with parameters, `FusedSum` (see `fused_sum`); AMD's three generations are three. A
record says what is computed, `unit_table` says which instruction of which architecture computes it and how that is
known, and the file named after the algorithm defines it.
"""

from dataclasses import dataclass
from typing import TypeAlias

from tileproof.oracle.evidence import Evidence
from tileproof.oracle.formats import FLOAT16, FLOAT32, FloatFormat
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class Conversion:
    """How a unit turns its exact sum into the accumulator's format, in one step.

    Overflow gives an infinity even where the conversion cuts; a zero result is +0; a NaN is `format.nan_code`.

    Raises:
        Refusal: rounding to nearest other than to a whole float16, or cutting other than to float32 or a part of it:
            no unit does that, and the array twin does not know it.
    """

    name: str
    format: FloatFormat
    #: Fraction bits that are kept; the format's remaining low bits are zero.
    kept_bits: int
    #: To the nearest value, ties to even; otherwise cut toward zero.
    nearest: bool

    def __post_init__(self) -> None:
        modelled = self.kept_bits == 10 if self.nearest else 0 <= self.kept_bits <= 23
        if self.format != (FLOAT16 if self.nearest else FLOAT32) or not modelled:
            how = "rounds to nearest" if self.nearest else "cuts"
            raise Refusal(
                f"no modelled unit {how} to {self.kept_bits} fraction bits of {self.format.name}",
                hint="a unit rounds to float16 with its 10 fraction bits, or cuts to at most 23 of float32",
            )


CUT_TO_FLOAT32 = Conversion("RZ-FP32", FLOAT32, kept_bits=23, nearest=False)
#: The 22-bit register ("FP22") of the 8-bit units: the low 10 bits of the float32 are zero.
CUT_TO_E8M13 = Conversion("RZ-E8M13", FLOAT32, kept_bits=13, nearest=False)
ROUND_TO_FLOAT16 = Conversion("RNE-FP16", FLOAT16, kept_bits=10, nearest=True)


@dataclass(frozen=True, kw_only=True)
class FusedSum:
    """Groups of products are added to the accumulator, all terms aligned and cut, exactly and at once: `fused_sum`."""

    #: Products in one sum; K is a chain of such groups through the accumulator.
    group: int
    #: Fraction bits that each term keeps below the largest exponent.
    fraction_bits: int
    #: The exponent that a zero term counts with, so the least exponent that terms are aligned to.
    least_exponent: int
    conversion: Conversion


@dataclass(frozen=True)
class LateSum:
    """An 8-bit instruction that the assembler expands: unpacked to f16 and given to `unit`, C added last: `late_sum`.

    K is taken in two halves: k mod 4 in {0, 1}, then k mod 4 in {2, 3}.
    """

    unit: FusedSum
    #: The second half starts from the first's result; otherwise both start from 0 and are added.
    chained: bool


@dataclass(frozen=True)
class ScaledSum:
    """A fused sum whose products carry power-of-two scale factors in their exponents: `block_scaled_sum`."""

    unit: FusedSum


@dataclass(frozen=True, kw_only=True)
class GroupScaledSum:
    """Exact sums of small groups times two scale factors, aligned by the factors' exponents: `block_scaled_sum`."""

    #: Products in one exact sum.
    group: int
    fraction_bits: int
    least_exponent: int
    conversion: Conversion


@dataclass(frozen=True)
class IntegerSum:
    """The exact sum of all products and C, wrapped to 32 bits or clamped: `integer_sum`."""

    saturates: bool


@dataclass(frozen=True)
class FmaChain:
    """IEEE fused multiply-adds in the order of k, starting from C: `fma_chain`."""

    format: FloatFormat


@dataclass(frozen=True)
class ExactSum:
    """Groups of products and the accumulator are added exactly and rounded once to nearest even (CDNA1): `mfma`."""

    group: int


@dataclass(frozen=True)
class FlushedPairs:
    """Single-precision products added pairwise, subnormals flushed everywhere (CDNA2): `mfma`."""

    #: Products that are added together before they are added to the accumulator: 2 or 4.
    group: int


@dataclass(frozen=True)
class FlooredSum:
    """Products are cut and added, then the accumulator joins, rounded down on the way (CDNA3): `mfma`."""

    group: int
    #: Even and odd k are summed apart and an accumulator far below the products is dropped (the 8-bit forms).
    interleaved: bool = False


Unit: TypeAlias = (
    FusedSum | LateSum | ScaledSum | GroupScaledSum | IntegerSum | FmaChain | ExactSum | FlushedPairs | FlooredSum
)


@dataclass(frozen=True)
class KnownUnit:
    """A unit and how it is known."""

    unit: Unit
    evidence: Evidence
    #: Where from: the recording, the vendor's text, or the published models that agree.
    source: str
