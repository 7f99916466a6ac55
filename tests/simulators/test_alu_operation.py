"""How opcodes become operations, and the definedness rules that hold for all of them."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tileproof.oracle.evidence import Evidence
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.alu.assumption import Assumption
from tileproof.simulators.ptx.alu.operation import NotModelled, Operation, resolve
from tileproof.simulators.ptx.alu.scalar import SCALARS, Bits


def operation(opcode: str) -> Operation:
    mnemonic, *qualifiers = opcode.split(".")
    found = resolve(mnemonic, tuple(qualifiers))
    assert found is not None
    return found


def opcodes() -> Iterator[str]:
    """One opcode of each kind of operation, all types where the type changes the rule."""
    for bits in ("16", "32", "64"):
        for sign in "us":
            for name in (
                "add",
                "sub",
                "mul.lo",
                "mul.hi",
                "mad.lo",
                "mad.hi",
                "sad",
                "div",
                "rem",
                "min",
                "max",
                "shr",
            ):
                yield f"{name}.{sign}{bits}"
            if bits != "64":
                yield from (f"{name}.wide.{sign}{bits}" for name in ("mul", "mad"))
            else:
                yield from ()
            yield from (f"setp.{comparison}.{sign}{bits}" for comparison in ("eq", "lt", "ge.and", "ne.or", "gt.xor"))
            yield from (f"{name}.{sign}{bits}" for name in ("mov", "selp"))
        yield from (f"{name}.b{bits}" for name in ("and", "or", "xor", "not", "cnot", "shl", "mov", "selp"))
        yield from (f"{name}.s{bits}" for name in ("abs", "neg"))
    for bits in ("32", "64"):
        yield from (f"{name}.b{bits}" for name in ("popc", "clz", "brev", "bfi"))
        yield from (f"{name}.{sign}{bits}" for name in ("bfe", "bfind") for sign in "us")
    yield from ("and.pred", "or.pred", "xor.pred", "not.pred", "mov.pred", "lop3.b32", "add.sat.s32")
    yield from ("add.u16x2", "add.s16x2", "min.s16x2", "max.u16x2", "dp4a.u32.s32", "dp2a.hi.s32.s32")
    yield from (f"prmt.b32{mode}" for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"))
    yield from (f"shf.{direction}.{mode}.b32" for direction in "lr" for mode in ("wrap", "clamp"))
    yield from ("slct.b32.s32", "slct.u64.f32", "set.lt.u32.s32", "set.lt.and.f32.f32", "testp.normal.f32")
    for kind in ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64"):
        yield from (f"{name}.{kind}" for name in ("add.rn", "mul.rn", "fma.rn", "min", "max", "neg", "abs"))
    yield from ("div.rn.f32", "rcp.rn.f32", "sqrt.rn.f64", "copysign.f32", "setp.ltu.f32", "setp.eq.f16")
    integers = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
    yield from (f"cvt.{result}.{source}" for result in integers for source in integers)
    yield from (
        "cvt.sat.s8.s32",
        "cvt.rni.s32.f32",
        "cvt.rn.f32.u64",
        "cvt.rn.f16.f32",
        "cvt.f32.f16",
        "cvt.rna.tf32.f32",
    )
    yield from ("cvt.rn.f16x2.f32", "cvt.rn.bf16x2.f32", "cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.e5m2x2.f16x2")
    yield "cvt.rn.f16x2.e4m3x2"


ALL = sorted(set(opcodes()))
LANES = 48


def draw(generator: random.Random, type_name: str) -> list[int]:
    """Random values; small ones too, so that shift amounts and field positions matter."""
    bits = SCALARS[type_name].bits
    return [generator.getrandbits(generator.choice([bits, min(bits, 6)])) for _ in range(LANES)]


def draw_masks(generator: random.Random, type_name: str) -> list[int]:
    """Undefined bits: none, one, a few, many."""
    bits = SCALARS[type_name].bits
    return [generator.choice([0, 1 << generator.randrange(bits), generator.getrandbits(bits)]) for _ in range(LANES)]


def arrays(columns: list[list[int]]) -> list[Bits]:
    return [np.array(column, np.uint64) for column in columns]


@pytest.mark.parametrize("opcode", ALL)
def test_no_undefined_bit_changes_a_result_bit_called_defined(opcode: str) -> None:
    generator = random.Random(opcode)
    op = operation(opcode)
    for _ in range(4):
        values, masks = (arrays([make(generator, t) for t in op.sources]) for make in (draw, draw_masks))
        undefined = op.undefined(values, masks)
        reference = op.compute(values)
        for _ in range(6):
            noise = arrays([[generator.getrandbits(64) for _ in range(LANES)] for _ in op.sources])
            changed = op.compute([v ^ (n & m) for v, n, m in zip(values, noise, masks, strict=True)])
            for before, after, mask in zip(reference, changed, undefined, strict=True):
                assert not np.any((before ^ after) & ~mask), op.name


@pytest.mark.parametrize("opcode", ALL)
def test_results_and_masks_stay_inside_the_type_and_nothing_comes_from_nothing(opcode: str) -> None:
    generator = random.Random(opcode)
    op = operation(opcode)
    values = arrays([draw(generator, t) for t in op.sources])
    nothing = [np.zeros_like(value) for value in values]
    everything = [np.full_like(value, SCALARS[t].mask) for value, t in zip(values, op.sources, strict=True)]
    results = (op.compute(values), op.undefined(values, nothing), op.undefined(values, everything))
    assert all(len(group) == len(op.destinations) for group in results)
    for group in results:
        for result, type_name in zip(group, op.destinations, strict=True):
            assert result.dtype == np.uint64
            assert result.shape == (LANES,)
            assert not np.any(result & ~np.uint64(SCALARS[type_name].mask)), op.name
    assert all(not np.any(mask) for mask in results[1])


@pytest.mark.parametrize("opcode", ALL)
def test_one_value_broadcasts_over_a_block_of_any_shape(opcode: str) -> None:
    generator = random.Random(opcode)
    op = operation(opcode)
    first, *rest = arrays([draw(generator, t) for t in op.sources])
    shaped = op.compute([first.reshape(2, 3, 8), *(value[:1].reshape(1, 1, 1) for value in rest)])
    flat = op.compute([first, *(np.full_like(first, value[0]) for value in rest)])
    for one, other in zip(shaped, flat, strict=True):
        assert np.array_equal(one.reshape(-1), other)


EXACT = ("and.b16", "or.b16", "xor.b16", "not.b16", "mov.b16", "cvt.s16.s8", "cvt.u8.u16", "cvt.s32.u8", "lop3.b32")


@pytest.mark.parametrize("opcode", [*EXACT, "selp.b16", "cnot.b16", "copysign.f32", "brev.b32"])
def test_bitwise_rules_are_exact(opcode: str) -> None:
    """Every bit called undefined really changes, for some choice of the undefined source bits."""
    generator = random.Random(opcode)
    op = operation(opcode)
    for _ in range(200):
        values = arrays([[generator.getrandbits(SCALARS[t].bits)] for t in op.sources])
        masks = arrays([[_few_bits(generator, SCALARS[t].bits)] for t in op.sources])
        if opcode == "lop3.b32":
            values[3], masks[3] = values[3] & np.uint64(0xFF), np.zeros(1, np.uint64)
        choices = [list(_submasks(int(mask[0]))) for mask in masks]
        seen_set, seen_clear = 0, 0
        for choice in _product(choices):
            filled = [(v & ~m) | np.uint64(c) for v, m, c in zip(values, masks, choice, strict=True)]
            result = int(op.compute(filled)[0][0])
            seen_set, seen_clear = seen_set | result, seen_clear | ~result
        expected = seen_set & seen_clear
        assert int(op.undefined(values, masks)[0][0]) == expected, op.name


def _few_bits(generator: random.Random, bits: int) -> int:
    mask = 0
    for _ in range(generator.randrange(3)):
        mask |= 1 << generator.randrange(bits)
    return mask


def _submasks(mask: int) -> Iterator[int]:
    subset = mask
    while True:
        yield subset
        if not subset:
            return
        subset = (subset - 1) & mask


def _product(choices: list[list[int]]) -> Iterator[tuple[int, ...]]:
    if not choices:
        yield ()
        return
    for head in choices[0]:
        for tail in _product(choices[1:]):
            yield (head, *tail)


def undefined_of(opcode: str, values: tuple[int, ...], masks: tuple[int, ...]) -> int:
    results = operation(opcode).undefined(arrays([[v] for v in values]), arrays([[m] for m in masks]))
    return int(results[0][0])


def test_carries_go_up_only() -> None:
    assert undefined_of("add.s32", (5, 3), (0x100, 0)) == 0xFFFFFF00
    assert undefined_of("mul.wide.u16", (5, 3), (0, 0x80)) == 0xFFFFFF80
    assert undefined_of("add.u16x2", (5, 3), (0x100, 0)) == 0x0000FF00, "not into the other half"


def test_packed_conversions_are_undefined_by_half_and_byte() -> None:
    assert undefined_of("cvt.rn.satfinite.e4m3x2.f32", (0, 0), (1, 0)) == 0xFF00
    assert undefined_of("cvt.rn.bf16x2.f32", (0, 0), (0, 1)) == 0x0000FFFF
    assert undefined_of("fma.rn.f16x2", (0, 0, 0), (0x10000, 0, 0)) == 0xFFFF0000


def test_an_undefined_selector_is_harmless_between_equal_values() -> None:
    assert undefined_of("selp.b32", (7, 7, 0), (0, 0, 1)) == 0
    assert undefined_of("selp.b32", (7, 5, 0), (0, 0, 1)) == 2
    assert undefined_of("setp.lt.and.s32", (1, 2, 0), (1, 0, 0)) == 0, "a defined 0 decides the conjunction"


def test_qualifier_order_does_not_matter_but_the_order_of_types_does() -> None:
    assert operation("cvt.satfinite.rn.e4m3x2.f32").name == operation("cvt.rn.satfinite.e4m3x2.f32").name
    assert operation("cvt.f64.f16.rn").name == "cvt.rn.f64.f16"
    assert operation("fma.ftz.rn.f32").name == "fma.rn.ftz.f32"
    assert operation("cvt.u8.u16").destinations == ("u8",)
    assert operation("cvt.u16.u8").destinations == ("u16",)


def test_resolving_twice_gives_the_same_record() -> None:
    assert resolve("add", ("s32",)) is resolve("add", ("s32",))


@pytest.mark.parametrize("mnemonic", ["ld", "st", "bra", "bar", "mma", "shfl", "atom", "cvta", "frobnicate"])
def test_what_is_not_arithmetic_is_none(mnemonic: str) -> None:
    assert resolve(mnemonic, ("b32",)) is None


@pytest.mark.parametrize(
    ("opcode", "named"),
    [
        ("add.cc.s16", ".u32, .s32, .u64, .s64"),
        ("addc.sat.u32", ".sat"),
        ("mad.wide.cc.u32", ".wide"),
        ("mul.s32", ".lo, .hi, .wide"),
        ("mul.wide.s64", "wide"),
        ("add.sat.u32", ".sat"),
        ("bmsk.b32", ".clamp, .wrap"),
        ("lop3.xor.b32", ".xor"),
        ("shf.l.b32", ".clamp, .wrap"),
        ("shl.s32", ".b16, .b32, .b64"),
        ("mov.b128", ".b128"),
        ("and.f32", "type"),
        ("popc.b16", ".b32, .b64"),
        ("add.frobnicate.s32", ".frobnicate"),
        ("vadd.u32.u32.u32", "video"),
        ("vadd4.u32.u32", ".u32 and .s32"),
        ("vavrg2.s32.s32.s32.sat.add", "exclude"),
        ("mad24.lo.sat.s32", ".hi.s32"),
        ("set.eq.u16.u32", "no .u16"),
    ],
)
def test_unknown_forms_name_opcode_and_reason(opcode: str, named: str) -> None:
    mnemonic, *qualifiers = opcode.split(".")
    with pytest.raises(NotModelled, match=re.escape(named)) as refused:
        resolve(mnemonic, tuple(qualifiers))
    assert opcode in refused.value.message
    assert isinstance(refused.value, Refusal)


def test_evidence_is_the_weakest_of_the_assumptions() -> None:
    assert operation("add.s32").evidence is Evidence.DOCUMENTED
    measured = operation("div.u32")
    assert measured.evidence is Evidence.MEASURED
    guessed = replace(measured, assumptions=(*measured.assumptions, Assumption("a guess")))
    assert guessed.evidence is Evidence.INFERRED


# Arithmetic opcodes of e4m3 GEMM, attention and quantisation kernels as nvcc 13.0 and NVRTC 13.0 emit them.
COMPILED = """
fma.rn.f32 mul.f32 add.f32 max.f32 div.rn.f32 abs.f32
add.s32 shl.b32 add.s64 and.b32 shr.u32 or.b32 xor.b32 shr.s32 mul.wide.s32 shl.b64 mul.lo.s64 sub.s32 and.pred
or.b64 shr.u64 mul.lo.s32 or.pred bfi.b32 and.b16 and.b64 sub.s64 mul.hi.u64 mad.lo.s32 mul.wide.u32 mul.wide.u16
not.b32 not.pred min.s32 div.u32 min.u32 mul.hi.s32 xor.pred div.s32 max.s32 or.b16
mov.f32 mov.u32 mov.b32 cvt.rn.bf16x2.f32 setp.eq.s32 cvt.u64.u32 selp.b32 mov.b64 setp.ne.b32 selp.u32 setp.lt.s32
cvt.u32.u64 cvt.s64.s32 setp.ne.s32 mov.u16 setp.eq.s64 mov.u64 mov.s32 setp.lt.u32 setp.ge.s32 selp.u16 setp.eq.s16
setp.gt.u32 setp.ne.s64 setp.eq.f32 setp.gt.s32 mov.pred setp.le.u64 setp.ne.s16 cvt.u16.u32 setp.eq.b32 selp.b64
setp.ge.u32 setp.le.s32 cvt.rn.bf16.f32 cvt.rn.satfinite.e4m3x2.f32 selp.b16 selp.f32 setp.ne.u32
"""


@pytest.mark.parametrize("opcode", COMPILED.split())
def test_what_compilers_emit_for_quantised_kernels_is_covered(opcode: str) -> None:
    assert operation(opcode).name == opcode
