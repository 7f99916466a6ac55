"""Results recorded on an H200 that differ from what the PTX ISA suggests or leaves open: each was wrong here before."""

from pathlib import Path

import numpy as np
import pytest

from tileproof.simulators.ptx.alu.operation import resolve

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence" / "h200-2026-11-30"
NAN32, NAN16 = 0x7FFFFFFF, 0x7FFF

RECORDED = [
    # .ftz flushes what is below the smallest normal number after rounding at any exponent, though as a subnormal it
    # would round up to that number.
    ("mul.rn.ftz.f32", (0xBF7FFFFF, 0x80800000), 0),
    ("mul.rm.ftz.f32", (0xBF7FFFFF, 0x00800000), 0x80000000),
    ("div.rn.ftz.f32", (0xBF7FFFFF, 0xFE800000), 0),
    ("rcp.rp.ftz.f32", (0x7E800001,), 0),
    ("fma.rn.ftz.f32", (0xBF7FFFFF, 0x80800000, 0x80FFFFFF), 0x80000000),
    ("mul.ftz.f16", (0x9BFF, 0xA400), 0),
    ("fma.rn.ftz.f16x2", (0x7740BBFF, 0x78018400, 0x760087FF), 0x7C008000),
    ("cvt.rn.ftz.sat.f32.f64", (0x380FFFFFE0000000,), 0),
    ("mul.rn.ftz.f32", (0x800001, 0x3F7FFFFE), 0x800000),
    ("fma.rn.ftz.f32", (0x800000, 0x800000, 0x80800000), 0x80800000),
    ("cvt.rn.ftz.f32.f64", (0x380FFFFFFFFFFFFF,), 0x800000),
    ("mul.ftz.f16", (0x401, 0x3BFE), 0x400),
    # ... but a conversion to f16 flushes nothing.
    ("cvt.rm.ftz.f16.f32", (0x804E93E3,), 0x8001),
    ("cvt.rp.ftz.f16.f32", (0x001EAA62,), 0x0001),
    # f64: a NaN operand goes through, quiet; which of several depends on the instruction.
    ("add.f64", (0xFFF0000000000002, 0x7FF8000000000000), 0x7FF8000000000000),
    ("div.rn.f64", (0xFFF0000000000002, 0x7FF8000000000000), 0xFFF8000000000002),
    ("fma.rn.f64", (0xFFF8000000000000, 0x7FF8000000000003, 0x7FF0000000000001), 0x7FF8000000000003),
    ("fma.rn.f64", (0x7FF8000000000000, 0x0, 0x7FF8000000000003), 0x7FF8000000000003),
    ("max.f64", (0xFFF0000000000001, 0xFFF8000000000003), 0xFFF8000000000003),
    ("neg.f64", (0xFFF8EA203AEB8EAF,), 0xFFF8EA203AEB8EAF),
    ("abs.f64", (0xFFF737526ECA5721,), 0xFFFF37526ECA5721),
    # Narrower formats: the canonical NaN, also of a copy, a change of sign, a flush.
    ("neg.f32", (0x7F87F788,), NAN32),
    ("abs.f16x2", (0x7D6FCEF4,), 0x7FFF4EF4),
    ("cvt.f16.f16", (0xFC01,), NAN16),
    ("cvt.bf16.bf16", (0xFF81,), NAN16),
    ("cvt.ftz.f32.f32", (0x7F87F788,), NAN32),
    ("cvt.ftz.f32.bf16", (0x7FFF,), NAN32),
    ("cvt.ftz.f64.f32", (0x7F87F788,), 0x7FFFFFFFE0000000),
    # From f64, and to tf32, a NaN keeps something.
    ("cvt.rn.f16.f64", (0xFFF737526ECA5721,), 0xFFCD),
    ("cvt.rn.bf16.f64", (0x7FF21C485D78A4A7,), 0x7FD0),
    ("cvt.rn.ftz.f32.f64", (0x7FF1BA0193DA4D13,), 0x7FCDD00C),
    ("cvt.rn.tf32.f32", (0xFFA737D8,), 0x7FFFE000),
    ("cvt.rna.tf32.f32", (0xFFA737D8,), 0xFFA72000),
    ("cvt.rna.tf32.f32", (0x7F800002,), 0x7F800000),
    ("cvt.rna.satfinite.tf32.f32", (0x7FC00000,), 0x7FBFE000),
    # Zeros are normal; 64-bit fields take all bits of start and length.
    ("testp.normal.f32", (0,), 1),
    ("bfe.u64", (0x1DD3C45341B2768E, 0xFE682331, 0x08634AB4), 0),
    ("bfe.u64", (0x20, 0, 0x200), 0x20),
    ("bfe.s64", (0xFF135488BAE821FB, 1, 0x200), 0xFF89AA445D7410FD),
    ("bfi.b64", (0x33, 0xCF4, 0xFC000000, 0x7C000002), 0xCF4),
]


@pytest.mark.parametrize(("opcode", "operands", "result"), RECORDED)
def test_the_result_is_the_recorded_one(opcode: str, operands: tuple[int, ...], result: int) -> None:
    mnemonic, *qualifiers = opcode.split(".")
    operation = resolve(mnemonic, tuple(qualifiers))
    assert operation is not None
    (observed,) = operation.compute([np.array([operand], np.uint64) for operand in operands])[:1]
    assert hex(int(observed[0])) == hex(result)


@pytest.mark.parametrize(("file", "elements"), [("alu_differences.npz", 1102), ("alu_further_differences.npz", 5200)])
def test_every_element_that_differed_at_the_last_run_agrees_now(file: str, elements: int) -> None:
    with np.load(EVIDENCE / file) as recorded:
        assert sum(recorded[name].shape[1] for name in recorded.files) == elements
        for name in recorded.files:
            mnemonic, *qualifiers = name.split(".")
            operation = resolve(mnemonic, tuple(qualifiers))
            assert operation is not None
            sources, results = len(operation.sources), len(operation.destinations)
            operands, before, observed = np.split(recorded[name], [sources, sources + results])
            assert not np.array_equal(before, observed)
            np.testing.assert_array_equal(operation.compute(list(operands)), observed, err_msg=name)
