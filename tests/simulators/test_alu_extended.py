"""Extended precision, masks, 24-bit products, byte-wise and packed operations: hard values and plain-Python twins."""

import numpy as np
import pytest

from tileproof.simulators.ptx.alu.carry import CARRY
from tileproof.simulators.ptx.alu.operation import resolve
from tileproof.simulators.ptx.alu.scalar import SCALARS

F32 = {1.0: 0x3F800000, -1.0: 0xBF800000, 2.0: 0x40000000, 0.5: 0x3F000000, -2.0: 0xC0000000}
NAN, NAN16 = 0x7FFFFFFF, 0x7FFF

HARD = [
    # With `.cc` the second result is the carry; addc, subc, madc take it as their last operand. That of a subtraction
    # is 1 where nothing is borrowed.
    ("add.cc.u32", (0xFFFFFFFF, 1), (0, 1)),
    ("add.cc.s32", (0x7FFFFFFF, 1), (0x80000000, 0)),
    ("addc.u32", (0xFFFFFFFF, 0, 1), (0,)),
    ("addc.cc.u64", (2**64 - 1, 2**64 - 1, 1), (2**64 - 1, 1)),
    ("addc.cc.u64", (2**64 - 1, 0, 1), (0, 1)),
    ("sub.cc.u32", (0, 1), (0xFFFFFFFF, 0)),
    ("sub.cc.s64", (5, 5), (0, 1)),
    ("subc.cc.u32", (5, 5, 0), (0xFFFFFFFF, 0)),
    ("subc.cc.u32", (5, 5, 1), (0, 1)),
    ("subc.u64", (7, 5, 0), (1,)),
    ("mad.lo.cc.u32", (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF), (0, 1)),
    ("mad.hi.cc.u32", (0xFFFFFFFF, 0xFFFFFFFF, 2), (0, 1)),
    ("madc.hi.s32", (0xFFFFFFFF, 2, 5, 1), (5,)),
    ("madc.lo.cc.u64", (2, 3, 2**64 - 7, 1), (0, 1)),
    # 24-bit products: the lower 32 bits, or bits 16 to 47.
    ("mul24.lo.u32", (0xFF000003, 0xAB000005), (15,)),
    ("mul24.hi.u32", (0xFFFFFF, 0xFFFFFF), (0xFFFFFE00,)),
    ("mul24.hi.s32", (0xFFFFFF, 0x10000), (0xFFFFFFFF,)),
    ("mad24.lo.s32", (0xFFFFFF, 2, 5), (3,)),
    ("mad24.hi.sat.s32", (0x7FFFFF, 0x7FFFFF, 0x7FFFFFFF), (0x7FFFFFFF,)),
    ("mad.hi.sat.s32", (0x80000000, 0x80000000, 0x7FFFFFFF), (0x7FFFFFFF,)),
    ("mad.hi.sat.s32", (0x80000000, 0x7FFFFFFF, 0x80000000), (0x80000000,)),
    # Masks and set bits.
    ("bmsk.clamp.b32", (4, 8), (0xFF0,)),
    ("bmsk.clamp.b32", (32, 8), (0,)),
    ("bmsk.clamp.b32", (4, 0xFFFFFFFF), (0xFFFFFFF0,)),
    ("bmsk.clamp.b32", (0, 32), (0xFFFFFFFF,)),
    ("bmsk.wrap.b32", (36, 40), (0xFF0,)),
    ("bmsk.wrap.b32", (28, 8), (0xF0000000,)),
    ("bmsk.wrap.b32", (7, 32), (0,)),
    ("szext.clamp.s32", (0x80, 8), (0xFFFFFF80,)),
    ("szext.clamp.u32", (0x1FF80, 8), (0x80,)),
    ("szext.clamp.s32", (0x80000000, 40), (0x80000000,)),
    ("szext.wrap.s32", (0x80, 40), (0xFFFFFF80,)),
    ("szext.wrap.s32", (0x80, 32), (0,)),
    ("fns.b32", (0b10110, 1, 2), (2,)),
    ("fns.b32", (0b10110, 4, 0xFFFFFFFF), (4,)),
    ("fns.b32", (0b10110, 3, 0xFFFFFFFE), (1,)),
    ("fns.b32", (0b10110, 2, 0), (2,)),
    ("fns.b32", (0b10110, 3, 0), (0xFFFFFFFF,)),
    ("fns.b32", (0b10110, 0, 4), (0xFFFFFFFF,)),
    ("fns.b32", (0x80000001, 33, 0xFFFFFFFF), (0xFFFFFFFF,)),
    ("fns.b32", (0, 0, 0x80000000), (0,)),
    # lop3 with a predicate: whether the result is not zero, and or or another predicate.
    ("lop3.or.b32", (6, 3, 0, 0xC0, 0), (2, 1)),
    ("lop3.or.b32", (4, 3, 0, 0xC0, 1), (0, 1)),
    ("lop3.and.b32", (6, 3, 0, 0xC0, 0), (2, 0)),
    # Bytes and halfwords.
    ("vadd4.u32.u32.u32", (0x01FF, 0x0101, 0), (0x0200,)),
    ("vadd4.u32.u32.u32.sat", (0x01FF, 0x0101, 0), (0x02FF,)),
    ("vsub4.s32.s32.s32.sat", (0x80, 0x01, 0), (0x80,)),
    ("vsub4.u32.u32.u32.sat", (0x0105, 0x0206, 0), (0,)),
    ("vabsdiff4.u32.u32.u32", (0x0180, 0x8001, 0), (0x7F7F,)),
    ("vabsdiff4.u32.u32.u32.add", (0xFF00FF00, 0x00FF00FF, 5), (1025,)),
    ("vmin2.s32.s32.s32", (0x80000001, 0x00010002, 0), (0x80000001,)),
    ("vmax4.u32.u32.u32", (0x80010203, 0x7F020104, 0), (0x80020204,)),
    ("vset4.u32.u32.lt", (0x01020304, 0x02020500, 0), (0x01000100,)),
    ("vset2.s32.s32.ge.add", (0xFFFF0001, 0x00000001, 10), (11,)),
    # Clamped and packed.
    ("cvt.pack.sat.s16.s32", (0x7FFFFFFF, 0xFFFF0000), (0x7FFF8000,)),
    ("cvt.pack.sat.u16.s32", (70000, 0xFFFFFFFF), (0xFFFF0000,)),
    ("cvt.pack.sat.u8.s32.b32", (300, 0xFFFFFFFF, 0xABCD), (0xABCDFF00,)),
    ("cvt.pack.sat.s8.s32.b32", (0xFFFFFF00, 127, 0x1234ABCD), (0xABCD807F,)),
    ("cvt.pack.sat.s4.s32.b32", (7, 0xFFFFFFF8, 0x00ABCDEF), (0xABCDEF78,)),
    ("cvt.pack.sat.u2.s32.b32", (9, 2, 0x0ABCDEF1), (0xABCDEF1E,)),
    # Packed comparisons: one result a half.
    ("setp.lt.f16x2", (0x3C003C00, 0x40003C00), (0, 1)),
    ("setp.neu.bf16x2", (0x7FC03F80, 0x3F803F80), (0, 1)),
    ("setp.lt.and.f16x2", (0x3C003C00, 0x40004000, 0), (0, 0)),
    ("set.lt.f16x2.f16x2", (0x3C003C00, 0x40003C00), (0x3C000000,)),
    ("set.ge.u32.bf16x2", (0x3F80BF80, 0x3F803F80), (0xFFFF0000,)),
    ("set.eq.bf16.bf16", (0x8000, 0x0000), (0x3F80,)),
    ("set.gt.s16.f16", (0x4000, 0x3C00), (0xFFFF,)),
    ("set.lt.f16.u32", (1, 2), (0x3C00,)),
    # The exclusive or of the signs; a NaN has none.
    ("max.xorsign.abs.f32", (F32[-1.0], F32[2.0]), (F32[-2.0],)),
    ("min.xorsign.abs.f32", (F32[-1.0], F32[-2.0]), (F32[1.0],)),
    ("min.xorsign.abs.f16x2", (0xBC007E00, 0x4000FE00), (0xBC000000 | NAN16,)),
    ("max.NaN.xorsign.abs.f32", (F32[1.0], 0xFFC00000), (NAN,)),
    # Pairs of f32, and f16 and bf16 operands beside f32.
    ("add.rn.f32x2", (F32[1.0] << 32 | F32[0.5], F32[1.0] << 32 | F32[0.5]), (F32[2.0] << 32 | F32[1.0],)),
    ("mul.rz.f32x2", (0x3F800001 << 32 | F32[2.0], 0x3F800001 << 32 | F32[0.5]), (0x3F800002 << 32 | F32[1.0],)),
    ("mul.rp.f32x2", (0x3F800001 << 32, 0x3F800001 << 32), (0x3F800003 << 32,)),
    ("fma.rn.ftz.f32x2", (0x00400000 << 32 | F32[1.0], F32[2.0] << 32 | F32[1.0], F32[1.0]), (F32[2.0],)),
    ("add.f32.bf16", (0x3F80, F32[1.0]), (F32[2.0],)),
    ("sub.rm.f32.f16", (0x0001, F32[1.0]), (0xBF7FFFFF,)),
    ("add.sat.f32.f16", (0x4000, F32[1.0]), (F32[1.0],)),
    ("fma.rn.f32.f16", (0x0001, 0x0001, F32[1.0]), (F32[1.0],)),
    ("fma.rp.f32.bf16", (0x3F81, 0x3F81, 0), (0x3F820200,)),
    # 4- and 6-bit floats and powers of two: the first operand, or the upper half, into the upper code.
    ("cvt.rn.satfinite.e2m1x2.f32", (0x40DCCCCD, 0xBE99999A), (0x79,)),
    ("cvt.rn.satfinite.e2m1x2.f32", (0x3E800000, 0x3F400000), (0x02,)),
    ("cvt.rn.satfinite.e2m1x2.f32", (NAN, 0xFF800000), (0x7F,)),
    ("cvt.rn.satfinite.relu.e2m1x2.f32", (F32[-1.0], F32[1.0]), (0x02,)),
    ("cvt.rn.satfinite.e2m1x2.f16x2", (0x4600B800,), (0x79,)),
    ("cvt.rn.f16x2.e2m1x2", (0x79,), (0x4600B800,)),
    ("cvt.rn.relu.f16x2.e2m1x2", (0x9A,), (0,)),
    ("cvt.rn.satfinite.e2m3x2.f32", (0x40F00000, 0xC1200000), (0x1F3F,)),
    ("cvt.rn.satfinite.e3m2x2.f32", (0x42C80000, NAN), (0x1F1F,)),
    ("cvt.rn.f16x2.e3m2x2", (0x1FE1,), (0x4F00AC00,)),
    ("cvt.rn.f16x2.e2m3x2", (0x3FC1,), (0xC7803000,)),
    ("cvt.rp.ue8m0x2.f32", (0x40400000, F32[2.0]), (0x8180,)),
    ("cvt.rz.ue8m0x2.f32", (0xC0400000, 0x7F800000), (0x80FF,)),
    ("cvt.rp.satfinite.ue8m0x2.f32", (0x7F7FFFFF, NAN), (0xFEFF,)),
    ("cvt.rp.ue8m0x2.f32", (0x00400000, 0x00400001), (0x0001,)),
    ("cvt.rz.ue8m0x2.bf16x2", (0x40C03F80,), (0x817F,)),
    ("cvt.rp.satfinite.ue8m0x2.bf16x2", (0x40C07F80,), (0x82FE,)),
    ("cvt.rn.bf16x2.ue8m0x2", (0xFF00,), (0x7FFF0040,)),
    ("cvt.rn.bf16x2.ue8m0x2", (0x7FFE,), (0x3F807F00,)),
]  # fmt: skip


def compute(opcode: str, operands: tuple[int, ...]) -> tuple[int, ...]:
    mnemonic, *qualifiers = opcode.split(".")
    operation = resolve(mnemonic, tuple(qualifiers))
    assert operation is not None
    assert len(operation.sources) == len(operands)
    return tuple(int(bits[0]) for bits in operation.compute([np.array([bits], np.uint64) for bits in operands]))


@pytest.mark.parametrize(("opcode", "operands", "results"), HARD)
def test_the_result_is_the_documented_one(opcode: str, operands: tuple[int, ...], results: tuple[int, ...]) -> None:
    assert tuple(map(hex, compute(opcode, operands))) == tuple(map(hex, results))


@pytest.mark.parametrize(("opcode", "operands", "results"), HARD)
def test_undefined_bits_never_change_what_is_called_defined(
    opcode: str, operands: tuple[int, ...], results: tuple[int, ...]
) -> None:
    """Every single bit of every operand is made undefined in turn; the result with that bit flipped bounds the mask."""
    mnemonic, *qualifiers = opcode.split(".")
    operation = resolve(mnemonic, tuple(qualifiers))
    assert operation is not None
    for position, type_ in enumerate(operation.sources):
        for bit in range(SCALARS[type_].bits):
            values = [np.array([value], np.uint64) for value in operands]
            masks = [np.zeros(1, np.uint64) for _ in operands]
            masks[position][0] = 1 << bit
            flipped = compute(opcode, tuple(v ^ (1 << bit) if p == position else v for p, v in enumerate(operands)))
            for before, after, mask in zip(results, flipped, operation.undefined(values, masks), strict=True):
                assert (before ^ after) & ~int(mask[0]) == 0, (type_, bit)


@pytest.mark.parametrize("bits", [32, 64])
def test_a_chain_of_carries_adds_subtracts_and_multiplies_wide_numbers(bits: int) -> None:
    rng = np.random.default_rng(bits)
    limit = 1 << bits
    for _ in range(200):
        words = [int(word) % limit for word in rng.integers(0, 1 << 64, 6, np.uint64)]
        words = [limit - 1 if word % 3 == 0 else word for word in words]
        a, b = (words[k] | words[k + 1] << bits for k in (0, 2))
        for first, second, exact in (("add.cc", "addc", a + b), ("sub.cc", "subc", a - b)):
            low, carry = compute(f"{first}.u{bits}", (words[0], words[2]))
            (high,) = compute(f"{second}.u{bits}", (words[1], words[3], carry))
            assert low | high << bits == exact % (limit * limit)
        product = words[0] * words[2] + (words[4] | words[5] << bits)
        low, carry = compute(f"mad.lo.cc.u{bits}", (words[0], words[2], words[4]))
        (high,) = compute(f"madc.hi.u{bits}", (words[0], words[2], words[5], carry))
        assert low | high << bits == product % (limit * limit)


def test_the_carry_is_an_operand_that_no_register_can_be() -> None:
    operation = resolve("madc", ("lo", "cc", "u32"))
    assert operation is not None
    assert operation.destinations == ("u32", CARRY)
    assert operation.sources == ("u32", "u32", "u32", CARRY)
