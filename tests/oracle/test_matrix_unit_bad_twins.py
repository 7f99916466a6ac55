"""Wrong matrix units that the evidence must reject: one line each, none may survive.

A wrong unit is either a record with another parameter or a definition with one rule replaced. It answers the committed
witness vectors of a few instructions and some recorded and constructed cases; surviving means that every bit is right.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.conformance.matrix_peers import disagreements
from tileproof.conformance.matrix_rows import ANY_ASSEMBLER, Row
from tileproof.oracle.formats import FLOAT16, FLOAT32, FORMATS, FloatFormat
from tileproof.oracle.numbers.number import Kind, Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.units import fused_sum, matrix_definition, mfma, rounded_sum, term
from tileproof.oracle.units.instruction import parse_instruction
from tileproof.oracle.units.matrix_definition import define_tiles
from tileproof.oracle.units.matrix_operands import check_operands, values_of
from tileproof.oracle.units.term import Term
from tileproof.oracle.units.unit import (
    CUT_TO_E8M13,
    CUT_TO_FLOAT32,
    Conversion,
    ExactSum,
    FlooredSum,
    FlushedPairs,
    FusedSum,
    GroupScaledSum,
    IntegerSum,
    LateSum,
    ScaledSum,
    Unit,
)

Array = NDArray[Any]

TESTS = Path(__file__).parents[1]
WITNESS = np.load(TESTS / "witness" / "matrix_unit.npz")
GOLDEN = np.load(TESTS / "golden" / "h200_matrix_unit.npz")


@dataclass(frozen=True)
class Case:
    """Operands with the right D."""

    row: Row
    operands: Mapping[str, Array | None]
    d: Array

    def wrong(self, unit: Unit) -> bool:
        """Whether the definition with this unit gives a wrong bit anywhere."""
        instruction = self.row.instruction
        operands = check_operands(instruction, *(self.operands[name] for name in ("a", "b", "c")), *self.scales)  # type: ignore[arg-type]
        d = values_of(instruction, define_tiles(unit, instruction, operands), operands.shape)
        return bool(disagreements(unit, d, self.d).any())

    @property
    def scales(self) -> Sequence[Array | None]:
        """Scale factors of A and B."""
        return self.operands["scale_a"], self.operands["scale_b"]


def row(arch: str, name: str, assembler: str = ANY_ASSEMBLER) -> Row:
    return Row(parse_instruction(name), arch, assembler)


def witnessed(where: Row) -> Case:
    """The vectors of mmasim for an instruction."""
    cases = WITNESS[f"mmasim|{where.arch}|{where.assembler}|{where.instruction.name}"]
    names = cases.dtype.names or ()
    parts = {name: cases[name][:, None] if name in names else None for name in ("a", "b", "c", "scale_a", "scale_b")}
    return Case(where, parts, cases["d"][:, None])


def constructed(where: Row, products: Sequence[tuple[int, float, float]], c: float, d: float) -> Case:
    """One dot product of few terms whose result is known."""
    instruction = where.instruction
    codes: list[Array] = []
    for operand, place in ((instruction.a, 1), (instruction.b, 2)):
        values = np.zeros((1, instruction.shape.k))
        for product in products:
            values[0, product[0]] = product[place]
        encode = getattr(operand.record, "encode", None)
        codes.append(values.astype(operand.code_dtype) if encode is None else encode(values))
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[instruction.accumulator]
    start, end = (np.array([[value]]).astype(dtype) for value in (c, d))
    return Case(where, {"a": codes[0], "b": codes[1], "c": start, "scale_a": None, "scale_b": None}, end)


def recorded_subnormal() -> Case:
    """The recorded element that tells an unpacked e4m3 subnormal."""
    a, b, c, d = (GOLDEN[f"mma_m16n8k32_e4m3_e5m2.{part}"][151] for part in "ABCD")
    parts = {"a": a[14:15], "b": b[:1], "c": c[14:15, :1], "scale_a": None, "scale_b": None}
    return Case(EXPANDED_MIXED, parts, d[14:15, :1])


VOLTA = row("sm_70", "mma.m8n8k4.f32.f16.f16")
AMPERE = row("sm_80", "mma.m16n8k16.f32.f16.f16")
HOPPER = row("sm_90", "mma.m16n8k16.f32.f16.f16")
HOPPER_F16 = row("sm_90", "mma.m16n8k16.f16.f16.f16")
HOPPER_BF16 = row("sm_90", "mma.m16n8k16.f32.bf16.bf16")
ADA_FP8 = row("sm_89", "mma.m16n8k32.f32.e4m3.e4m3")
WGMMA_FP8 = row("sm_90", "wgmma.m64n8k32.f32.e4m3.e4m3")
WGMMA_E5M2 = row("sm_90", "wgmma.m64n8k32.f32.e5m2.e5m2")
WGMMA_FP8_F16 = row("sm_90", "wgmma.m64n8k32.f16.e4m3.e4m3")
EXPANDED = row("sm_90", "mma.m16n8k32.f32.e4m3.e4m3")
EXPANDED_MIXED = row("sm_90", "mma.m16n8k32.f32.e4m3.e5m2")
EXPANDED_EARLY = row("sm_90", "mma.m16n8k32.f32.e4m3.e4m3", "12.4")
SCALED = row("sm_120", "mma.m16n8k32.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.ue8m0")
SCALED_FP4 = row("sm_120", "mma.m16n8k64.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.ue4m3")
WRAPPED = row("sm_90", "mma.m16n8k32.s32.s8.s8")
CLAMPED = row("sm_90", "mma.m16n8k32.satfinite.s32.s8.s8")
CDNA1 = row("gfx908", "mfma.m16n16k16.f32.f16.f16")
CDNA2 = row("gfx90a", "mfma.m16n16k16.f32.f16.f16")
CDNA3 = row("gfx942", "mfma.m16n16k16.f32.f16.f16")
CDNA3_BF16 = row("gfx942", "mfma.m16n16k16.f32.bf16.bf16")
CDNA3_FP8 = row("gfx942", "mfma.m16n16k32.f32.e4m3fnuz.e4m3fnuz")

#: 2^-25 is a tie; 2^-46 beside it is kept, 2^-47 is not (probe H4).
H4 = tuple(
    constructed(HOPPER_F16, [(0, 2.0**-12, 2.0**-13), (1, 2.0 ** (q // 2), 2.0 ** (q - q // 2))], 0, d)
    for q, d in ((-46, 2.0**-24), (-47, 0))
)
#: The exact sum is above a tie, its float32 is the tie (probe H2).
H2 = constructed(HOPPER_F16, [(0, 2.0**-11, 1), (1, 2.0**-12, 2.0**-12)], 1, 1 + 2.0**-10)
OVERFLOW = constructed(HOPPER_BF16, [(0, 2.0**64, 2.0**63), (1, 2.0**64, 2.0**63)], 0, np.inf)
ZERO = constructed(HOPPER, [(0, -0.0, 1)], -0.0, 0.0)
#: The subnormal operand keeps exponent -14, so 2^-28 is below the last bit.
SUBNORMAL = constructed(WGMMA_E5M2, [(0, 2.0**-16, 1), (1, 2.0**-14, 2.0**-14)], 0, 2.0**-16)
LEAVES_AND_RETURNS = constructed(CLAMPED, [(k, 127 if k < 16 else -127, 127) for k in range(32)], 2**31 - 1, 2**31 - 1)
CLAMPS = constructed(CLAMPED, [(0, 127, 127)], 2**31 - 1, 2**31 - 1)
#: Below a tie by what the last rounding down removes, and by what the first one keeps.
SUM_BITS = constructed(CDNA3_BF16, [(0, 2.0**-8, 1), (1, 2.0**-23, 1), (2, 2.0**-32, 1)], 2 - 2.0**-8, 2)
DOT_BITS = constructed(CDNA3_BF16, [(0, -(2.0**-8), 1), (1, 2.0**-25, 1), (2, 2.0**-32, 1)], 1, 1 - 2.0**-8 + 2.0**-24)
WRAPS = constructed(WRAPPED, [(0, 127, 127)], 2**31 - 1, 2**31 - 1 + 127 * 127 - 2**32)


def scaled_fp4(low: Sequence[tuple[int, float, float]], factor: float, d: float) -> Case:
    """Groups 0 and 1 are ±2^16 and cancel; group 2 has the products `low` (k in the group) times `factor` · 2^-9."""
    record, factors = SCALED_FP4.instruction.a.record, FORMATS["E4M3FN"]
    assert isinstance(record, FloatFormat)
    a, b = np.zeros((1, 64)), np.zeros((1, 64))
    a[0, 0], b[0, 0], a[0, 16], b[0, 16] = 1, 1, -1, 1
    for k, x, y in low:
        a[0, 32 + k], b[0, 32 + k] = x, y
    scale_a, scale_b = np.array([[256, 256, factor, 0]]), np.array([[256, 256, 2.0**-9, 0]])
    parts = {"a": record.encode(a), "b": record.encode(b), "c": np.zeros((1, 1), np.float32)}
    encoded = {"scale_a": factors.encode(scale_a), "scale_b": factors.encode(scale_b)}
    return Case(SCALED_FP4, {**parts, **encoded}, np.array([[d]], np.float32))


#: The largest exponent is 16, so 2^-19 is the last bit: kept alone, and kept as a sum of two that are less.
FP4 = (
    scaled_fp4([(0, 0.5, 0.5)], 2.0**-8, 2.0**-19),
    scaled_fp4([(0, 0.5, 0.5)], 2.0**-9, 0),
    scaled_fp4([(0, 0.5, 0.5), (15, 0.5, 0.5)], 2.0**-9, 2.0**-19),
)


def cases(where: Row, *more: Case) -> tuple[Case, ...]:
    return (witnessed(where), *more)


FUSED_CASES = (
    *(witnessed(where) for where in (VOLTA, AMPERE, HOPPER, HOPPER_F16, HOPPER_BF16, ADA_FP8, WGMMA_FP8, EXPANDED)),
    *H4,
    H2,
    OVERFLOW,
    ZERO,
    SUBNORMAL,
    recorded_subnormal(),
)


# Records with another parameter


def fused(unit: Unit) -> FusedSum:
    assert isinstance(unit, FusedSum)
    return unit


def bits(by: int) -> Callable[[Unit], Unit]:
    def change(unit: Unit) -> Unit:
        match unit:
            case LateSum() | ScaledSum():
                return replace(unit, unit=replace(unit.unit, fraction_bits=unit.unit.fraction_bits + by))
            case FusedSum() | GroupScaledSum():
                return replace(unit, fraction_bits=unit.fraction_bits + by)
        raise AssertionError(unit)

    return change


def group(size: int) -> Callable[[Unit], Unit]:
    def change(unit: Unit) -> Unit:
        match unit:
            case LateSum():
                return replace(unit, unit=replace(unit.unit, group=size))
            case FusedSum() | GroupScaledSum() | ExactSum() | FlushedPairs() | FlooredSum():
                return replace(unit, group=size)
        raise AssertionError(unit)

    return change


def chained(is_chained: bool) -> Callable[[Unit], Unit]:
    def change(unit: Unit) -> Unit:
        assert isinstance(unit, LateSum)
        return replace(unit, chained=is_chained)

    return change


def convert_by(conversion: Conversion) -> Callable[[Unit], Unit]:
    return lambda unit: replace(fused(unit), conversion=conversion)


class MadeUp(Conversion):
    """One that no unit has, which the record would refuse."""

    def __post_init__(self) -> None: ...


NEAREST_FLOAT32 = MadeUp("RN-FP32", FLOAT32, kept_bits=23, nearest=True)
CUT_FLOAT16 = MadeUp("RZ-FP16", FLOAT16, kept_bits=10, nearest=False)

BAD_RECORDS: Mapping[str, tuple[Sequence[Case], Callable[[Unit], Unit]]] = {
    **{
        f"{where.arch} {where.instruction.name}, {word} bit": (
            cases(where, *(H4 if where is HOPPER_F16 else ())),
            bits(by),
        )
        for where in (VOLTA, AMPERE, HOPPER, HOPPER_F16, ADA_FP8, WGMMA_FP8, WGMMA_FP8_F16, EXPANDED, SCALED)
        for by, word in ((-1, "one less"), (1, "one more"))
    },
    "groups of 4 for 8": (cases(AMPERE), group(4)),
    "groups of 16 for 8": (cases(AMPERE), group(16)),
    "groups of 8 for 16": (cases(HOPPER), group(8)),
    "groups of 32 for 16": (cases(ADA_FP8), group(32)),
    "groups of 16 for 32": (cases(WGMMA_FP8), group(16)),
    "halves in groups of 8": (cases(EXPANDED), group(8)),
    "float32 rounded to nearest": (cases(HOPPER), convert_by(NEAREST_FLOAT32)),
    "8-bit result of 23 bits": (cases(WGMMA_FP8), convert_by(CUT_TO_FLOAT32)),
    "8-bit result of 12 bits": (cases(WGMMA_FP8), convert_by(replace(CUT_TO_E8M13, kept_bits=12))),
    "float32 result of 13 bits": (cases(HOPPER), convert_by(CUT_TO_E8M13)),
    "float16 cut": (cases(HOPPER_F16), convert_by(CUT_FLOAT16)),
    "exponent of zero one lower": (H4, lambda unit: replace(fused(unit), least_exponent=-22)),
    "exponent of zero one higher": (H4, lambda unit: replace(fused(unit), least_exponent=-20)),
    "halves not chained": (cases(EXPANDED), chained(False)),
    "early halves chained": (cases(EXPANDED_EARLY), chained(True)),
    "expanded as if native": (cases(EXPANDED), lambda unit: unit.unit if isinstance(unit, LateSum) else unit),
    "native as if expanded": (cases(WGMMA_FP8), lambda unit: LateSum(fused(unit), chained=True)),
    "scales not applied": (cases(SCALED), lambda unit: unit.unit if isinstance(unit, ScaledSum) else unit),
    "fp4, one bit less": (cases(SCALED_FP4, *FP4), bits(-1)),
    "fp4, one bit more": (cases(SCALED_FP4, *FP4), bits(1)),
    "fp4 in groups of 8": (cases(SCALED_FP4, *FP4), group(8)),
    "integer clamped for wrapped": ((WRAPS,), lambda unit: IntegerSum(True)),
    "integer wrapped for clamped": ((CLAMPS,), lambda unit: IntegerSum(False)),
    "CDNA1 in groups of 2": (cases(CDNA1), group(2)),
    "CDNA1 in groups of 8": (cases(CDNA1), group(8)),
    "CDNA2 in pairs": (cases(CDNA2), group(2)),
    "CDNA3 in groups of 4": (cases(CDNA3), group(4)),
    "CDNA3 8-bit not interleaved": (cases(CDNA3_FP8), lambda unit: FlooredSum(16)),
    "CDNA3 interleaved": (cases(CDNA3), lambda unit: FlooredSum(8, interleaved=True)),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_a_unit_with_another_parameter_is_rejected(name: str) -> None:
    evidence, change = BAD_RECORDS[name]
    assert not any(case.wrong(case.row.unit) for case in evidence), "the right unit must pass"
    assert any(case.wrong(change(case.row.unit)) for case in evidence), "survived"


# Definitions with one rule replaced

Rule = Callable[[pytest.MonkeyPatch], None]


def floor_for_truncation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Term, "cut", Term.floored)


def nearest_for_truncation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Term, "cut", lambda self, step: round(self.value / Fraction(2) ** step))


def products_normalised(patch: pytest.MonkeyPatch) -> None:
    exact = Term.__mul__

    def multiply(x: Term, y: Term) -> Term:
        product = exact(x, y)
        over = product.significand.bit_length() - 1 - product.fraction_bits
        if product.kind is not Kind.FINITE or over <= 0:
            return product
        return replace(product, exponent=product.exponent + over, fraction_bits=product.fraction_bits + over)

    patch.setattr(Term, "__mul__", multiply)


def subnormals(change: Callable[[Term], Term]) -> Rule:
    """Operands and C whose significand has no leading bit are changed."""

    def rule(patch: pytest.MonkeyPatch) -> None:
        right = term.decode_term

        def decode(record: Any, code: int) -> Term:
            found = right(record, code)
            short = found.kind is Kind.FINITE and 0 < found.significand < 1 << found.fraction_bits
            return change(found) if short else found

        for module in (term, fused_sum, rounded_sum):
            patch.setattr(module, "decode_term", decode)

    return rule


def normalised(found: Term) -> Term:
    by = found.fraction_bits + 1 - found.significand.bit_length()
    return replace(found, significand=found.significand << by, exponent=found.exponent - by)


def flushed(found: Term) -> Term:
    return replace(found, significand=0)


def not_unpacked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(matrix_definition, "unpacked_term", term.decode_operand)


def specials(change: Callable[[Sequence[Term]], Sequence[Term]]) -> Rule:
    """The terms that decide about infinity and NaN are changed first."""

    def rule(patch: pytest.MonkeyPatch) -> None:
        right = term.special_sum
        for module in (fused_sum, rounded_sum):
            patch.setattr(module, "special_sum", lambda terms: right(change(terms)))

    return rule


def without_nan(terms: Sequence[Term]) -> Sequence[Term]:
    return [found for found in terms if found.kind is not Kind.NAN]


def without_negative_infinity(terms: Sequence[Term]) -> Sequence[Term]:
    return [found for found in terms if found.kind is not Kind.INFINITE or not found.negative]


def zero_times_infinity_is_zero(patch: pytest.MonkeyPatch) -> None:
    exact = Term.__mul__
    patch.setattr(Term, "__mul__", lambda x, y: Term(Kind.FINITE) if x.is_zero or y.is_zero else exact(x, y))


def another_nan(patch: pytest.MonkeyPatch) -> None:
    right = rounded_sum.special_code

    def code(record: Any, special: Term) -> int:
        return (
            record.top_field | 1 << (record.mantissa_bits - 1) if special.kind is Kind.NAN else right(record, special)
        )

    for module in (fused_sum, rounded_sum):
        patch.setattr(module, "special_code", code)


def converted(change: Callable[[Conversion, int, int], int]) -> Rule:
    def rule(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(fused_sum, "convert", change)

    return rule


RIGHT_CONVERT = fused_sum.convert


def saturating(conversion: Conversion, total: int, step: int) -> int:
    code = RIGHT_CONVERT(conversion, total, step)
    infinite = code & conversion.format.magnitude_mask == conversion.format.top_field
    return code - 1 if infinite else code


def twice_rounded(conversion: Conversion, total: int, step: int) -> int:
    """float16 by way of float32."""
    if conversion.format is CUT_TO_FLOAT32.format:
        return RIGHT_CONVERT(conversion, total, step)
    first = term.decode_term(CUT_TO_FLOAT32.format, RIGHT_CONVERT(NEAREST_FLOAT32, total, step))
    if first.kind is not Kind.FINITE:
        return RIGHT_CONVERT(conversion, total, step)
    exact = Number.of(first.value)
    return conversion.format.round(exact, Rounding.NEAREST_EVEN, Overflow.INF) if exact.magnitude else 0


def c_joins_late(patch: pytest.MonkeyPatch) -> None:
    right = fused_sum.fused_sum

    def late(unit: FusedSum, products: Sequence[Term], c: int) -> int:
        return rounded_sum.add(unit.conversion.format, c, right(unit, products, 0))

    patch.setattr(matrix_definition, "fused_sum", late)


def zero_keeps_a_sign(patch: pytest.MonkeyPatch) -> None:
    right = fused_sum._group_sum

    def group_sum(unit: FusedSum, products: Sequence[Term], c: int) -> int:
        code = right(unit, products, c)
        return code or (c & unit.conversion.format.sign_bit)

    patch.setattr(fused_sum, "_group_sum", group_sum)


def halves_in_order(patch: pytest.MonkeyPatch) -> None:
    right = fused_sum.late_sum

    def late(unit: LateSum, products: Sequence[Term], c: int) -> int:
        half = len(products) // 2
        pairs = zip(*(iter(part) for part in (products[:half], products[half:])), strict=True)
        mixed = list(pairs)
        order = [product for k in range(0, half, 2) for i in (0, 1) for product in (mixed[k][i], mixed[k + 1][i])]
        return right(unit, order, c)

    patch.setattr(matrix_definition, "late_sum", late)


def wider_products(patch: pytest.MonkeyPatch) -> None:
    """Every exponent one higher: a window one bit shorter for products than for C."""
    exact = Term.__mul__

    def multiply(x: Term, y: Term) -> Term:
        product = exact(x, y)
        return replace(product, exponent=product.exponent + 1, fraction_bits=product.fraction_bits + 1)

    patch.setattr(Term, "__mul__", multiply)


BAD_RULES: Mapping[str, Rule] = {
    "floor for truncation": floor_for_truncation,
    "rounded terms": nearest_for_truncation,
    "products normalised": products_normalised,
    "products one binade up": wider_products,
    "subnormals normalised": subnormals(normalised),
    "subnormals flushed": subnormals(flushed),
    "8-bit codes not unpacked": not_unpacked,
    "a NaN is dropped": specials(without_nan),
    "infinities never meet": specials(without_negative_infinity),
    "zero times infinity is zero": zero_times_infinity_is_zero,
    "NaN is 0x7FC00000": another_nan,
    "overflow saturates": converted(saturating),
    "float16 is rounded twice": converted(twice_rounded),
    "C joins after the products": c_joins_late,
    "zero keeps the sign of C": zero_keeps_a_sign,
    "halves of K in order": halves_in_order,
}


@pytest.mark.parametrize("name", BAD_RULES)
def test_a_definition_with_one_rule_replaced_is_rejected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BAD_RULES[name](monkeypatch)
    assert any(case.wrong(case.row.unit) for case in FUSED_CASES), "survived"


def test_the_right_definition_survives_all_evidence() -> None:
    assert not [str(case.row) for case in FUSED_CASES if case.wrong(case.row.unit)]


def test_clamping_after_each_step_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    def stepwise(unit: IntegerSum, a: Sequence[int], b: Sequence[int], c: int) -> int:
        for x, y in zip(a, b, strict=True):
            c = min(max(c + x * y, -(2**31)), 2**31 - 1)
        return c

    monkeypatch.setattr(matrix_definition, "integer_sum", stepwise)
    assert LEAVES_AND_RETURNS.wrong(LEAVES_AND_RETURNS.row.unit)


def amd_rules() -> Iterator[tuple[str, Sequence[Case], Any, str, Any]]:
    yield "CDNA3 sum not floored", cases(CDNA3, SUM_BITS), mfma, "SUM_BITS", 60
    yield "CDNA3 dot sum of 31 bits", cases(CDNA3, DOT_BITS), mfma, "DOT_BITS", 31
    yield "CDNA3 terms of 25 bits", cases(CDNA3), mfma, "TERM_BITS", 25
    yield "CDNA3 truncates C", cases(CDNA3), Term, "floored", Term.cut
    yield "CDNA3 8-bit never drops C", cases(CDNA3_FP8), mfma, "DROPPED_BELOW", 10_000
    yield "CDNA2 keeps subnormals of A and B", cases(CDNA2), mfma, "_normal", lambda found: found


@pytest.mark.parametrize(("name", "evidence", "module", "attribute", "value"), list(amd_rules()))
def test_an_amd_definition_with_one_rule_replaced_is_rejected(
    name: str, evidence: Sequence[Case], module: Any, attribute: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not any(case.wrong(case.row.unit) for case in evidence), name
    monkeypatch.setattr(module, attribute, value)
    assert any(case.wrong(case.row.unit) for case in evidence), name
