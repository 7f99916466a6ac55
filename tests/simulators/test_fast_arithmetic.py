"""Every hot form of every arithmetic instruction computes, in machine code, what `alu` defines."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from fast_step import NEVER, TABLE, Bits, is_hot, program_of, run_loop

from tileproof.conformance.operands import crossed, operands, read_types
from tileproof.simulators.ptx.alu.forms import Form, accepted_forms
from tileproof.simulators.ptx.alu.operation import arithmetic_mnemonics
from tileproof.simulators.ptx.alu.scalar import SCALARS, widen
from tileproof.simulators.ptx.fast.lower_arithmetic import form_of
from tileproof.simulators.ptx.program import Program

# `set` and `slct` have more forms than all others together, none of them hot.
MNEMONICS = [name for name in arithmetic_mnemonics() if name not in ("set", "slct")]
RANDOM = 1500
# Results that only `alu` decides: with .ftz, those that may have been rounded up to the smallest normal number.
BORDER = 0x0080_0000

Compute = Callable[[Sequence[Bits]], tuple[Bits, ...]]


def drawn(form: Form) -> list[Bits]:
    """Boundary values of all operands crossed, and a sample of random ones."""
    every = operands(form, seed=3)
    if len(every) == 1 and every[0].size <= 1 << 16:
        return [every[0]]
    boundary = crossed(read_types(form))
    few = slice(None, None, max(1, boundary[0].size // 4000))
    sample = np.random.default_rng(5).integers(0, every[0].size, RANDOM)
    return [np.concatenate((b[few], e[sample])) for b, e in zip(boundary, every, strict=True)]


def differences(form: Form, compute: Compute, *, wide: bool) -> int:
    """How many lanes differ from `compute`; the loop must have executed the step, but for border results."""
    program = program_of(form, wide=wide)
    columns: list[Bits] = drawn(form)[: len(form.operation.sources)]
    if form.mnemonic == "lop3":
        columns = columns[:3]
    lanes = columns[0].size
    table = [np.full(lanes, TABLE, np.uint64)] if form.mnemonic == "lop3" else []
    cut = [c & np.uint64(SCALARS[t].mask) for c, t in zip(columns, form.operation.sources, strict=False)]
    right = compute([*cut, *table])
    keep = np.ones(lanes, np.bool_)
    if "ftz" in form.qualifiers and form.operation.destinations[0] == "f32":
        unflushed = [bits & np.uint64(0x7FFF_FFFF) for bits in right[:1]]
        keep = (unflushed[0] != BORDER) & (unflushed[0] != 0)  # a flushed result may have been on the border
    columns, kept = [c[keep] for c in columns], [r[keep] for r in right]
    values = filled(program, columns, len(kept[0]), wide=wide)
    pc, _ = run_loop(program, values, [(0, values.shape[1])])
    if pc == 0:
        return -1
    different = np.zeros(values.shape[1], np.bool_)
    results = program.steps[0].destinations
    for slot, bits, type_ in zip(results, kept, form.operation.destinations, strict=False):
        if slot >= 0:
            held = bits if type_ == "pred" else widen(bits, type_, program.slot_bits[slot])
            different |= values[slot] != held
    return int(different.sum())


def filled(program: Program, columns: Sequence[Bits], lanes: int, *, wide: bool) -> Bits:
    """A register file with the operands in their slots; what an operand's type does not reach is random."""
    values = np.zeros((len(program.slot_bits), lanes), np.uint64)
    noise = np.random.default_rng(7).integers(0, 1 << 63, lanes, np.uint64) << np.uint64(1)
    for slot, column in zip(program.steps[0].sources, columns, strict=False):
        bits = program.slot_bits[slot]
        if wide and bits == 64 and column.max(initial=0) >> np.uint64(32) == 0:
            column = column | (noise << np.uint64(32))
        values[slot] = column & np.uint64((1 << bits) - 1)
    for slot, bits in program.constants.items():
        values[slot] = bits
    return values


def hot_forms(mnemonic: str) -> list[Form]:
    table = [TABLE if mnemonic == "lop3" and index == 3 else -1 for index in range(5)]
    exact = (form for form in accepted_forms(mnemonic) if form.operation.allowed is None)
    return [form for form in exact if form_of(form.operation.name, table) and is_hot(program_of(form))]


@pytest.mark.parametrize("mnemonic", MNEMONICS)
def test_hot_forms_compute_what_alu_defines(mnemonic: str) -> None:
    for form in hot_forms(mnemonic):
        assert differences(form, form.operation.compute, wide=False) == 0, form.opcode


def test_the_instructions_of_common_kernels_are_hot() -> None:
    for mnemonic, types in (
        ("add", {"s32", "s64", "u32", "u64", "f32", "f64"}),
        ("mul", {"s32", "s64", "u32", "u64", "f32", "f64"}),
        ("fma", {"f32", "f64"}),
        ("mad", {"s32", "u32", "s64"}),
        *[(name, {"b32", "b64", "pred"}) for name in ("and", "or", "xor", "not")],
        ("shl", {"b32", "b64"}),
        ("shr", {"u32", "s32", "u64"}),
        ("setp", {"s32", "u32", "s64", "f32", "b32", "s16"}),
        ("selp", {"b32", "u32", "b64", "f32"}),
        *[(name, {"b32"}) for name in ("bfi", "lop3", "prmt", "shf", "popc", "clz")],
        ("bfe", {"u32", "s32"}),
        ("max", {"s32", "f32"}),
    ):
        assert types <= {form.types[-1] for form in hot_forms(mnemonic)}, mnemonic
    conversions = {form.opcode for form in hot_forms("cvt")}
    assert {"cvt.rn.bf16x2.f32", "cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.f16x2.e4m3x2", "cvt.u64.u32"} <= conversions
    assert {"cvt.s64.s32", "cvt.rn.f32.s32", "cvt.rzi.s32.f32", "cvt.f32.f16", "cvt.f32.bf16"} <= conversions


@pytest.mark.parametrize(
    "opcode", ["add.s32", "mul.wide.s32", "shr.s32", "setp.lt.s32", "cvt.s64.s32", "min.s32", "bfe.s32"]
)
def test_upper_bits_of_a_wider_register_do_not_count_and_signed_results_fill_it(opcode: str) -> None:
    mnemonic = opcode.partition(".")[0]
    (form,) = [form for form in accepted_forms(mnemonic) if form.opcode == opcode]
    assert differences(form, form.operation.compute, wide=True) == 0


@pytest.mark.parametrize("opcode", ["add.s32", "fma.rn.f32", "setp.lt.s32", "cvt.rn.bf16x2.f32", "prmt.b32"])
def test_a_wrong_definition_is_noticed(opcode: str) -> None:
    """The comparison above must be able to fail: a definition with one bit changed in one place."""
    mnemonic = opcode.partition(".")[0]
    (form,) = [form for form in accepted_forms(mnemonic) if form.opcode == opcode]

    def mutated(values: Sequence[Bits]) -> tuple[Bits, ...]:
        first, *rest = form.operation.compute(values)
        changed = first.copy()
        changed[len(changed) // 2] ^= np.uint64(1)
        return (changed, *rest)

    assert differences(form, mutated, wide=False) == 1


def test_a_tiny_result_that_may_have_been_rounded_up_is_handed_back() -> None:
    (form,) = [form for form in accepted_forms("mul") if form.opcode == "mul.rn.ftz.f32"]
    program = program_of(form)
    values = np.zeros((len(program.slot_bits), 4), np.uint64)
    values[program.steps[0].sources[0]] = 0x0080_0000
    values[program.steps[0].sources[1]] = 0x3F80_0000
    assert run_loop(program, values, [(0, 4)])[0] == 0


def test_lanes_outside_the_turn_keep_their_values_and_a_result_may_stand_in_a_source() -> None:
    (form,) = [form for form in accepted_forms("add") if form.opcode == "add.u32"]
    program = program_of(form)
    values = np.full((len(program.slot_bits), 8), 5, np.uint64)
    pc, _ = run_loop(program, values, [(1, 3), (6, 7)])
    assert pc == 1
    assert values[program.steps[0].destinations[0]].tolist() == [5, 10, 10, 5, 5, 5, 10, 5]


def test_a_source_that_nothing_wrote_hands_the_step_back_untouched() -> None:
    (form,) = [form for form in accepted_forms("add") if form.opcode == "add.u32"]
    program = program_of(form)
    values = np.full((len(program.slot_bits), 8), 5, np.uint64)
    known = [NEVER if slot == program.steps[0].sources[1] else 0 for slot in range(len(program.slot_bits))]
    pc, _ = run_loop(program, values, [(0, 8)], known)
    assert pc == 0
    assert (values == 5).all()
