"""What operations make of intervals: no choice inside the operands' intervals leads outside the result's.

Random straight-line programs of the operations are run on random choices; every pair of half-precision operands from
small intervals is run exhaustively. A rule that forgets something must be caught by the same check.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.operation import Opcode, Operation, resolve
from tileproof.simulators.ptx.alu.scalar import SCALARS
from tileproof.simulators.ptx.machine import bracket_rules
from tileproof.simulators.ptx.machine.bracket_interval import Interval, hull, place, regroup
from tileproof.simulators.ptx.machine.bracket_rules import Rule, rule_of, width_of

Bits = NDArray[np.uint64]
RNG = np.random.default_rng(20)
_FIRST = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def every_test_draws_the_same_whatever_ran_before_it() -> None:
    RNG.bit_generator.state = _FIRST


def operation_of(opcode: str) -> Operation:
    mnemonic, *qualifiers = opcode.split(".")
    operation = resolve(mnemonic, tuple(qualifiers))
    assert operation is not None
    return operation


def inside(values: Bits, interval: Interval, width: int) -> NDArray[np.bool_]:
    """Whether values lie in an interval, element by element."""
    result = np.ones(values.shape, np.bool_)
    grain = interval.grain
    if grain == 1:
        return np.equal((values ^ interval.low) & ~(interval.low ^ interval.high), 0)
    field = np.uint64((1 << grain) - 1)
    for shift in range(0, width, grain):
        value, low, high = ((word >> np.uint64(shift)) & field for word in (values, interval.low, interval.high))
        result &= (place(value, grain) >= place(low, grain)) & (place(value, grain) <= place(high, grain))
    return result


def chosen(interval: Interval, width: int) -> Bits:
    """One random member of each interval, often an end."""
    grain = interval.grain
    if grain == 1:
        noise = RNG.integers(0, 1 << 63, interval.low.shape, np.uint64) * np.uint64(2) + np.uint64(1)
        return interval.low | (interval.high & noise)
    result = np.zeros_like(interval.low)
    field, sign = np.uint64((1 << grain) - 1), np.uint64(1 << (grain - 1))
    for shift in range(0, width, grain):
        low, high = (place((end >> np.uint64(shift)) & field, grain) for end in (interval.low, interval.high))
        share = RNG.choice([0.0, 1.0, 0.5, 0.1, 0.9], low.shape)
        at = low + ((high - low).astype(np.float64) * share).astype(np.uint64)
        zero = place(RNG.choice(np.array([0, 1 << (grain - 1)], np.uint64), low.shape), grain)
        at = np.where(RNG.random(low.shape) < 0.1, zero, at + RNG.integers(0, 3, low.shape).astype(np.uint64))
        at = np.clip(at, low, high)
        code = np.where(at & sign != 0, at ^ sign, at ^ field)
        result |= code << np.uint64(shift)
    return result


def random_intervals(scalar_name: str, count: int) -> Interval:
    """Narrow, wide and one-value intervals around random and telling codes."""
    scalar = SCALARS[scalar_name]
    bits = scalar.bits // scalar.lanes
    words = []
    for _ in range(scalar.lanes):
        telling = [0, 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << bits) - 1]
        telling += [code for f in (0.5, 1, 2, 3.5, -1, np.inf, -np.inf) for code in _code(f, bits, scalar_name)]
        centre = np.where(
            RNG.random(count) < 0.4,
            RNG.choice(np.array(telling, np.uint64), count),
            _ordinary(bits, scalar_name, count),
        )
        reach = RNG.choice(np.array([0, 0, 1, 2, 5, 1 << (bits // 4), 1 << (bits // 2)], np.uint64), (2, count))
        at = place(centre, bits)
        top = np.uint64((1 << bits) - 1)
        low, high = at - np.minimum(reach[0], at), at + np.minimum(reach[1], top - at)
        sign = np.uint64(1 << (bits - 1))
        words.append([np.where(end & sign != 0, end ^ sign, end ^ top) for end in (low, high)])
    low, high = (
        sum((word[end] << np.uint64(lane * bits) for lane, word in enumerate(words)), np.zeros(count, np.uint64))
        for end in range(2)
    )
    return Interval(low, high, bits)


def _code(value: float, bits: int, name: str) -> list[int]:
    if "bf16" in name:
        return [int(np.array(value, np.float32).view(np.uint32)) >> 16]
    kind = {16: (np.float16, np.uint16), 32: (np.float32, np.uint32), 64: (np.float64, np.uint64)}.get(bits)
    return [] if kind is None else [int(np.array(value, kind[0]).view(kind[1]))]


def _ordinary(bits: int, name: str, count: int) -> Bits:
    values = RNG.normal(size=count) * RNG.choice([1e-3, 1, 10, 100], count)
    if "bf16" in name:
        wide: Bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        return wide >> np.uint64(16)
    if bits == 8:
        return RNG.integers(0, 256, count).astype(np.uint64)
    kind = {16: (np.float16, np.uint16), 32: (np.float32, np.uint32), 64: (np.float64, np.uint64)}[bits]
    codes: Bits = values.astype(kind[0]).view(kind[1]).astype(np.uint64)
    return codes


OPCODES = [
    *("add.rn.f32", "sub.ftz.f32", "mul.f32", "mul.rz.ftz.f32", "fma.rn.f32", "fma.rn.ftz.f32", "mad.rp.f32"),
    *("add.sat.f32", "mul.ftz.sat.f32", "fma.rn.sat.f32", "div.rn.f32", "div.rm.ftz.f32", "rcp.rn.f32", "sqrt.rn.f32"),
    *("min.f32", "max.f32", "min.NaN.f32", "max.ftz.f32", "neg.f32", "abs.f32", "abs.ftz.f32", "neg.bf16x2"),
    *("add.f16x2", "sub.f16", "mul.bf16x2", "fma.rn.relu.f16x2", "fma.rn.bf16", "min.bf16x2", "max.f16", "abs.bf16x2"),
    *("add.f64", "mul.f64", "div.rn.f64", "sqrt.rn.f64", "neg.f64", "max.f64"),
    *("cvt.rn.bf16.f32", "cvt.rn.f16.f32", "cvt.rz.bf16.f32", "cvt.f32.f16", "cvt.f32.bf16", "cvt.f64.f32"),
    *("cvt.rn.f32.f64", "cvt.rn.bf16x2.f32", "cvt.rn.f16x2.f32", "cvt.rn.relu.bf16x2.f32", "cvt.rna.tf32.f32"),
    *("cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.e5m2x2.f32", "cvt.rn.satfinite.e4m3x2.f16x2"),
    *("cvt.rn.f16x2.e4m3x2", "cvt.sat.f32.f32", "cvt.rni.f32.f32", "cvt.rni.s32.f32", "cvt.rzi.u8.f32"),
    *("cvt.rni.s8.f32", "cvt.rmi.s64.f32", "cvt.rni.s32.f64", "cvt.rn.f32.s32", "cvt.rn.f32.u32", "cvt.rn.f16.s16"),
    *("setp.lt.f32", "setp.geu.ftz.f32", "setp.eq.f32", "setp.neu.f32", "setp.num.f32", "setp.eq.and.f32"),
    *("setp.gt.xor.f16", "setp.lt.s32", "setp.hi.u32", "setp.ne.b32", "setp.eq.s16", "set.le.f32.f32"),
    *("set.eq.u32.f32", "selp.f32", "selp.b32", "selp.b16", "slct.f32.f32", "testp.normal.f32", "copysign.f32"),
    *(
        "and.b32",
        "or.b32",
        "xor.b32",
        "not.b32",
        "lop3.b32",
        "lop3.or.b32",
        "lop3.and.b32",
        "shl.b32",
        "shr.u32",
        "shr.s32",
        "prmt.b32",
        "bfi.b32",
    ),
    *("cvt.u32.u16", "cvt.u16.u32", "cvt.s32.s8", "mov.b32", "add.s32", "sub.u32", "mul.lo.u32", "mad.lo.s32"),
    *("min.s32", "max.u32", "shf.l.wrap.b32", "popc.b32", "bfe.u32", "abs.s32", "dp4a.u32.u32"),
    *("ex2.approx.f32", "ex2.approx.ftz.f32", "lg2.approx.f32", "rcp.approx.f32", "rcp.approx.ftz.f32"),
    *("rsqrt.approx.f32", "sqrt.approx.ftz.f32", "sin.approx.f32", "cos.approx.f32", "tanh.approx.f32"),
    *("div.approx.f32", "div.approx.ftz.f32", "div.full.f32", "ex2.approx.f16x2", "ex2.approx.ftz.bf16x2"),
    *("tanh.approx.bf16x2", "tanh.approx.f16", "rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"),
]


def source_name(operation: Operation, index: int) -> str:
    """How the elements of a source are read."""
    declared = SCALARS[operation.sources[index]]
    parts = [SCALARS[part] for part in operation.name.split(".") if part in SCALARS]
    last = parts[-1] if parts else declared
    return last.name if last.lanes > 1 and last.operand == declared.name else declared.name


def operands_of(operation: Operation, count: int, *, regrain: bool) -> tuple[list[Bits], list[Interval | None]]:
    """Random intervals for every source; control operands that are immediates stay what they are."""
    values: list[Bits] = []
    intervals: list[Interval | None] = []
    mnemonic = operation.name.partition(".")[0]
    for index, declared in enumerate(operation.sources):
        if declared == "pred":
            low = RNG.integers(0, 2, count).astype(np.uint64)
            interval = Interval(low, low | RNG.integers(0, 2, count).astype(np.uint64), 1)
        else:
            interval = random_intervals(source_name(operation, index), count)
            if regrain:
                grain = int(RNG.choice([g for g in (1, 8, 16, 32, 64) if g <= SCALARS[declared].bits]))
                interval = regroup(interval, grain, width_of(declared))
        fixed = (mnemonic in ("lop3", "prmt", "shl", "shr", "bfi", "bfe", "shf") and index >= (2 if mnemonic in (
            "prmt", "bfi", "shf") else 3 if mnemonic == "lop3" else 1)) or RNG.random() < 0.2  # fmt: skip
        if fixed:
            telling = [0, 4, 8, 16, 24, 31] if mnemonic != "prmt" else [0x3210, 0x5410, 0x7632, 0x4321, 0x1054]
            value = RNG.choice(np.array(telling, np.uint64), count)
            if mnemonic not in ("lop3", "prmt", "shl", "shr", "bfi", "bfe", "shf"):
                value = interval.low
            values.append(value)
            intervals.append(None)
        else:
            values.append(chosen(interval, width_of(declared)))
            intervals.append(interval)
    return values, intervals


def violations(operation: Operation, rule: Rule, rounds: int, count: int = 1500) -> int:
    """Choices inside the operands' intervals whose results, or approximate results, lie outside the rule's interval."""
    found = 0
    for turn in range(rounds):
        values, intervals = operands_of(operation, count, regrain=turn % 2 == 1)
        if operation.allowed is None and not any(intervals):
            continue
        with np.errstate(all="ignore"):
            claimed = rule(values, intervals)
        for _ in range(4):
            picked = [
                value if interval is None else chosen(interval, width_of(name))
                for value, interval, name in zip(values, intervals, operation.sources, strict=True)
            ]
            results: Sequence[Bits] = operation.compute(picked)
            if operation.allowed is not None:
                bits = _result_bits(operation)
                results = [chosen(Interval(*operation.allowed(picked, True), bits), width_of(operation.sources[0]))]
            for result, interval, name in zip(results, claimed, operation.destinations, strict=True):
                assert interval is not None
                found += int((~inside(result, interval, width_of(name))).sum())
        for result, interval, name in zip(operation.compute(values), claimed, operation.destinations, strict=True):
            assert interval is not None
            found += int((~inside(result, interval, width_of(name))).sum())
    return found


def _result_bits(operation: Operation) -> int:
    scalar = SCALARS[operation.name.rpartition(".")[2]]
    return scalar.bits // scalar.lanes


@pytest.mark.parametrize("opcode", OPCODES)
def test_no_choice_inside_the_operands_leads_outside_the_result(opcode: str) -> None:
    operation = operation_of(opcode)
    assert violations(operation, rule_of(operation), rounds=2, count=1000) == 0


class Careless(bracket_rules.Corners):
    """Forgets that a divisor around zero, or zero times infinity, leaves the corners."""

    def singular(self, operands: bracket_rules.Operands) -> NDArray[np.bool_]:
        return np.zeros(operands.ends[0][0].shape, np.bool_)


class Hasty(bracket_rules.Corners):
    """Looks at two corners only: all operands low, all operands high."""

    def __call__(self, values: Sequence[Bits], intervals: bracket_rules.Intervals) -> list[Interval | None]:
        ends = [
            [v if i is None else getattr(i, end) for v, i in zip(values, intervals, strict=True)]
            for end in ("low", "high")
        ]
        low, high = (self.at(end, single=False) for end in ends)
        return [hull([low, high], self.width)]


class Forgetful(bracket_rules.Decision):
    """Holds equality for a comparison that grows."""

    def may_meet(self, operands: bracket_rules.Operands) -> NDArray[np.bool_]:
        return np.zeros(operands.ends[0][0].shape, np.bool_)


def as_points(
    operation: Operation, values: Sequence[Bits], intervals: bracket_rules.Intervals
) -> list[Interval | None]:
    """Takes the nominal results for all there is."""
    return [Interval(result, result, 32) for result in operation.compute(values)]


@pytest.mark.parametrize(
    ("opcode", "wrong"),
    [
        ("div.rn.f32", Careless),
        ("mul.f32", Careless),
        ("rcp.rn.f32", Careless),
        ("rsqrt.approx.f32", Careless),
        ("sub.ftz.f32", Hasty),
        ("fma.rn.f32", Hasty),
        ("setp.eq.f32", Forgetful),
        ("setp.ne.b32", Forgetful),
        ("add.rn.f32", None),
        ("ex2.approx.f32", None),
    ],
)
def test_a_wrong_rule_is_caught(opcode: str, wrong: type[bracket_rules.Corners] | None) -> None:
    operation = operation_of(opcode)
    mnemonic, *qualifiers = opcode.split(".")
    parsed = Opcode.parse(mnemonic, tuple(qualifiers))
    rule = partial(as_points, operation) if wrong is None else wrong(operation, parsed)
    assert violations(operation, rule, rounds=60) > 0


@pytest.mark.parametrize("opcode", ["ex2.approx.f32", "rcp.approx.ftz.f32", "rsqrt.approx.f32", "tanh.approx.f16"])
def test_points_that_are_exact_do_not_narrow_their_neighbours(opcode: str) -> None:
    """At 1 the reciprocal is exact; between 0.9 and 1.1 it is not."""
    operation = operation_of(opcode)
    bits = _result_bits(operation)
    one = place(np.array(_code(1.0, bits, opcode), np.uint64), bits)
    ends = [np.where(end >> np.uint64(bits - 1) != 0, end ^ np.uint64(1 << (bits - 1)), end) for end in (one, one + 1)]
    (result,) = rule_of(operation)([ends[0]], [Interval(ends[0], ends[1], bits)])
    assert result is not None
    for operand in ends:
        assert operation.allowed is not None
        for end in operation.allowed([operand], False):
            assert inside(end, result, bits).all()


# Register-to-register programs: what each step reads is drawn from all registers before it.
STEPS = [
    op for op in OPCODES if op.endswith(".f32") and op.count("f32") == 1 and not op.startswith(("set", "testp", "selp"))
]
STEPS = [op for op in STEPS if "cvt" not in op and "slct" not in op and "copysign" not in op]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_stay_inside_what_is_carried(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, inputs = 200, 3
    registers: list[Bits] = [random_intervals("f32", count).low for _ in range(inputs)]
    carried: list[Interval | None] = [None] * inputs
    program: list[tuple[Operation, list[int]]] = []
    for _ in range(12):
        operation = operation_of(str(rng.choice(STEPS if rng.random() < 0.6 else [s for s in STEPS if "approx" in s])))
        reads = [
            int(index) for index in rng.integers(max(0, len(registers) - 5), len(registers), len(operation.sources))
        ]
        values, intervals = [registers[index] for index in reads], [carried[index] for index in reads]
        opens = operation.allowed is not None or any(intervals)
        (result,) = rule_of(operation)(values, intervals) if opens else (None,)
        registers.append(operation.compute(values)[0])
        carried.append(result if result is not None and result.wide.any() else None)
        program.append((operation, reads))
    assert any(carried), "the program leaves something open"
    for _ in range(8):
        run = registers[:inputs]
        for operation, reads in program:
            picked = [run[index] for index in reads]
            if operation.allowed is None:
                run.append(operation.compute(picked)[0])
            else:
                run.append(chosen(Interval(*operation.allowed(picked, True), 32), 32))
        for value, nominal, interval in zip(run, registers, carried, strict=True):
            around = Interval(nominal, nominal, 32) if interval is None else interval
            assert inside(value, around, 32).all()


def test_every_choice_of_a_half_precision_program_is_carried() -> None:
    """y = x * sigmoid(x) on all f16: every allowed exponential, then every allowed tanh of it."""
    everything = np.arange(1 << 16, dtype=np.uint64)
    ex2, tanh, fma, mul = map(operation_of, ("ex2.approx.f16", "tanh.approx.f16", "fma.rn.f16", "mul.f16"))
    half = np.full_like(everything, 0x3800)
    carried: Interval | None = None
    values = everything
    for operation, others in ((ex2, ()), (fma, (half, half)), (tanh, ()), (mul, (everything,))):
        (carried,) = rule_of(operation)([values, *others], [carried, *(None for _ in others)])
        values = operation.compute([values, *others])[0]
    assert carried is not None

    def allowed(operation: Operation, operand: Bits) -> list[Bits]:
        assert operation.allowed is not None
        low, high = (place(end, 16) for end in operation.allowed([operand], True))
        most = int((high - low).max())
        steps = [np.minimum(low + np.uint64(step), high) for step in range(most + 1)]
        sign = np.uint64(1 << 15)
        return [np.where(at & sign != 0, at ^ sign, at ^ np.uint64(0xFFFF)) for at in steps]

    runs = 0
    for exponential in allowed(ex2, everything):
        (sum_,) = fma.compute([exponential, half, half])
        for tangent in allowed(tanh, sum_):
            runs += 1
            assert inside(mul.compute([tangent, everything])[0], carried, 16).all()
    assert runs > 4
