"""The solver says of two kernels that they do the same only where they do."""

from collections.abc import Sequence

import numpy as np
import pytest

from tileproof.conformance.mutation.lockstep.fact import Fact
from tileproof.conformance.mutation.lockstep.proof import difference
from tileproof.conformance.mutation.lockstep.solver import available, z3
from tileproof.conformance.mutation.lockstep.terms import Terms, width
from tileproof.simulators.ptx.alu.operation import resolve
from tileproof.simulators.ptx.decoding.contraction import Contraction
from tileproof.simulators.ptx.device import decoded
from tileproof.simulators.ptx.program import Program

pytestmark = pytest.mark.skipif(not available(), reason="z3-solver, a package of development, is not installed")

TEXT = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_param_0, .param .u32 k_param_1)
.maxntid 128, 1, 1
{{
	.reg .pred %p<4>;
	.reg .f32 %f<5>;
	.reg .b16 %h<3>;
	.reg .b32 %r<12>;
	.reg .b64 %rd<12>;
	.shared .align 4 .b8 room[512];
	ld.param.u64 %rd1, [k_param_0];
	ld.param.u32 %r5, [k_param_1];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.u32 %r2, [%rd3];
	ld.global.u64 %rd9, [%rd1];
	{body}
	ret;
}}
"""
STORE = " st.global.u32 [%rd3], %r3;"
SMALL = (Fact("n", 1, 1000, 4, parameter=1),)

DIVISION = (
    "cvt.u64.u32 %rd5, %r5; and.b64 %rd6, {a}, -4294967296; setp.eq.s64 %p1, %rd6, 0; @%p1 bra SHORT;"
    " div.u64 %rd7, {a}, %rd5; mul.lo.s64 %rd8, %rd7, %rd5; sub.s64 %rd8, {a}, %rd8; bra.uni BOTH;"
    " SHORT: cvt.u32.u64 %r6, {a}; div.u32 %r7, %r6, %r5; mul.lo.s32 %r8, %r7, %r5; sub.s32 %r8, %r6, %r8;"
    " cvt.u64.u32 %rd7, %r7; cvt.u64.u32 %rd8, %r8; BOTH: st.global.u64 [%rd3], %rd7; st.global.u64 [%rd3+512], %rd8;"
)
"""Quotient and remainder as the compiler writes them: of 32 bits where that is enough."""
COUNTED = "mov.u32 %r3, 0; AGAIN: add.u32 %r4, %r3, 1; st.global.u32 [%rd3], %r4; mov.u32 %r3, %r4;"
SCALE = (
    "ld.global.f32 %f1, [%rd3]; mov.f32 %f2, 0f00000000; abs.f32 %f1, %f1; setp.num.f32 %p2, %f1, %f1; @!%p2 bra END;"
    " setp.leu.f32 %p1, %f1, 0f00000000; @%p1 bra END; div.rn.f32 %f2, %f1, 0f43E00000; END: st.global.f32 [%rd3], %f2;"
)
"""A row's scale, from the maximum: 0 where that is 0; amax / 448 of the least numbers is 0 as well."""
PACKED = (
    "ld.global.f32 %f1, [%rd3]; mov.f32 %f2, 0f00000000; cvt.rn.satfinite.e4m3x2.f32 %h1, %f2, %f1;"
    " cvt.u32.u16 %r3, %h1; st.global."
)
LARGEST = "ld.global.f32 %f1, [%rd3]; max.f32 %f2, %f1, "

#: what the kernel does, what the mutant does instead, what is promised of the launch, whether both do the same.
PAIRS: tuple[tuple[str, str, str, tuple[Fact, ...], bool], ...] = (
    ("shr.u32 %r3, %r1, 5;" + STORE, "shr.u32", "shr.s32", (), True),
    ("shr.u32 %r3, %r2, 5;" + STORE, "shr.u32", "shr.s32", (), False),
    # What a branch says holds behind it.
    ("setp.gt.u32 %p1, %r2, 99; @%p1 bra END; shr.u32 %r3, %r2, 5;" + STORE + " END:", "shr.u32", "shr.s32", (), True),
    ("setp.lt.u32 %p1, %r2, 99; @%p1 bra END; shr.u32 %r3, %r2, 5;" + STORE + " END:", "shr.u32", "shr.s32", (), False),
    # What is promised of a parameter, and only that.
    ("and.b32 %r3, %r5, 3; add.s32 %r3, %r3, %r1;" + STORE, "5, 3", "5, 2", SMALL, True),
    ("and.b32 %r3, %r5, 7; add.s32 %r3, %r3, %r1;" + STORE, "5, 7", "5, 3", SMALL, False),
    ("and.b32 %r3, %r5, 3; add.s32 %r3, %r3, %r1;" + STORE, "5, 3", "5, 2", (), False),
    # A branch that is never taken, and one that may be.
    ("setp.eq.u32 %p1, %r5, 0; mov.u32 %r3, 7; @%p1 bra END;" + STORE + " END:", "@%p1 bra END;", "", SMALL, True),
    ("setp.eq.u32 %p1, %r5, 4; mov.u32 %r3, 7; @%p1 bra END;" + STORE + " END:", "@%p1 bra END;", "", SMALL, False),
    # Two ways to one quotient; the short one is wrong of numbers that need more than 32 bits.
    (DIVISION.format(a="%rd9"), "%rd6, 0", "%rd6, 1", SMALL, True),
    (DIVISION.format(a="%rd9"), "@%p1 bra", "bra", SMALL, False),
    (DIVISION.format(a="%rd2"), "@%p1 bra", "bra", SMALL, True),
    (DIVISION.format(a="%rd9"), "%rd8, {a}, %rd8".format(a="%rd9"), "%rd8, %rd9, %rd7", SMALL, False),
    # Loops: how often, what is counted, and a single turn.
    (COUNTED + " setp.lt.u32 %p1, %r3, %r5; @%p1 bra AGAIN;", "setp.lt.u32", "setp.lt.s32", SMALL, True),
    (COUNTED + " setp.lt.u32 %p1, %r3, %r5; @%p1 bra AGAIN;", "setp.lt.u32", "setp.lt.s32", (), False),
    (COUNTED + " setp.lt.u32 %p1, %r3, %r5; @%p1 bra AGAIN;", "setp.lt.u32", "setp.le.u32", SMALL, False),
    (COUNTED + " setp.lt.u32 %p1, %r3, 9; @%p1 bra AGAIN;", "%r3, 9", "%r3, 10", (), False),
    (COUNTED + " setp.ne.u32 %p1, %r3, 9; @%p1 bra AGAIN;", "%r3, 0;", "%r3, 1;", (), False),
    (COUNTED + " setp.lt.u32 %p1, %r3, 1; @%p1 bra AGAIN;", "%r3, 1; @", "%r3, 0; @", (), True),
    # Memory: where, what, whether, how wide.
    ("mov.u32 %r3, 7;" + STORE, "[%rd3]", "[%rd3+4]", (), False),
    ("mov.u32 %r3, 7;" + STORE, "7", "8", (), False),
    ("mov.u32 %r3, 7;" + STORE, STORE, "", (), False),
    ("mov.u32 %r3, 7; setp.gt.u32 %p1, %r1, 127; @%p1" + STORE, "@%p1" + STORE, "", (), True),
    ("mov.u32 %r3, 7; setp.gt.u32 %p1, %r1, 126; @%p1" + STORE, "@%p1" + STORE, "", (), False),
    ("ld.global.u8 %r3, [%rd3]; and.b32 %r3, %r3, 127;" + STORE, "ld.global.u8", "ld.global.s8", (), True),
    ("ld.global.u8 %r3, [%rd3]; and.b32 %r3, %r3, 511;" + STORE, "ld.global.u8", "ld.global.s8", (), False),
    ("ld.global.u8 %r3, [%rd3]; and.b32 %r3, %r3, 127;" + STORE, "ld.global.u8", "ld.global.u16", (), False),
    # What others see: a barrier, an exchange, an end.
    ("mov.u32 %r3, 7; bar.sync 0;" + STORE, "bar.sync 0;", "", (), False),
    ("setp.lt.u32 %p1, %r2, 9; mov.u32 %r3, 7; @%p1 ret;" + STORE, "%r2, 9", "%r2, 8", (), False),
    ("shfl.sync.bfly.b32 %r3, %r2, 4, 31, -1;" + STORE, " 4, 31", " 5, 31", (), False),
    ("shfl.sync.bfly.b32 %r3, %r2, 4, 31, -1;" + STORE, "bfly", "down", (), False),
    # Functions that the solver does not know are taken as they are where it has guessed wrong.
    (SCALE, "leu.f32 %p1, %f1, 0f00000000", "leu.f32 %p1, %f1, 0f00000001", (), True),
    (SCALE, "leu.f32 %p1, %f1, 0f00000000", "leu.f32 %p1, %f1, 0f00000100", (), False),
    (SCALE, "0f43E00000", "0f43E00001", (), False),
    ("ld.global.f32 %f1, [%rd3]; mul.rn.f32 %f2, %f1, %f1; st.global.f32 [%rd3], %f2;", "rn", "rz", (), False),
    (LARGEST + "0f3F800000; st.global.f32 [%rd3], %f2;", "max", "max.ftz", (), True),
    (LARGEST + "0f00000000; st.global.f32 [%rd3], %f2;", "max", "max.ftz", (), False),
    # A pack of two conversions is a function of each half; a half that is not stored counts for nothing.
    (PACKED + "u8 [%rd3], %r3;", "0f00000000", "0f40000000", (), True),
    (PACKED + "u16 [%rd3], %r3;", "0f00000000", "0f40000000", (), False),
    (PACKED + "u16 [%rd3], %r3;", "0f00000000", "0f00000001", (), True),
    # A register that one way leaves as it was.
    ("setp.lt.u32 %p1, %r2, 9; @%p1 bra END; mov.u32 %r3, 7; END:" + STORE, "%r2, 9", "%r2, 8", (), False),
)  # fmt: skip


def program(body: str) -> Program:
    return decoded(TEXT.format(body=body), Contraction.NONE)[1]["k"]


@pytest.mark.parametrize(("body", "old", "new", "promised", "same"), PAIRS)
def test_a_mutant_is_proved_where_it_does_the_same_and_nowhere_else(
    body: str, old: str, new: str, promised: tuple[Fact, ...], same: bool
) -> None:
    assert old in body
    reason = difference(program(body.replace(old, new, 1)), program(body), promised)
    assert (reason == "") == same, reason


OPERATIONS = (
    *(f"{name}.{kind}" for name in ("add", "sub", "min", "max", "mul.lo", "mul.hi", "div", "rem")
      for kind in ("u16", "s16", "u32", "s32", "u64", "s64")),
    *(f"mul.wide.{kind}" for kind in ("u16", "s16", "u32", "s32")),
    *(f"mad.{kind}" for kind in ("lo.s32", "lo.u64", "hi.u32", "wide.s32", "wide.u16")),
    *(f"{name}.b{bits}" for name in ("and", "or", "xor", "not") for bits in (16, 32, 64)),
    *("and.pred", "or.pred", "xor.pred", "not.pred"),
    *(f"shl.b{bits}" for bits in (16, 32, 64)), *(f"shr.{kind}" for kind in ("u16", "s16", "u32", "s32", "u64", "s64")),
    *(f"setp.{how}.{kind}" for how in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("u32", "s32", "u64", "s64")),
    *("setp.lo.u32", "setp.ls.u32", "setp.hi.u32", "setp.hs.u32", "setp.lt.and.s32", "setp.eq.or.u32"),
    *(f"setp.{how}.f32" for how in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu",
                                    "num", "nan", "lt.ftz")),
    *("selp.b32", "selp.b64", "mov.b32", "abs.s32", "neg.s32", "neg.s64", "abs.f32", "neg.f32", "min.f32", "max.f32",
      "max.ftz.f32", "min.ftz.f32"),
    *(f"cvt.{to}.{source}" for to in ("u16", "s32", "u32", "s64", "u64")
      for source in ("u8", "s16", "u32", "s32", "u64")),
)  # fmt: skip
"""Of which each has an exact term."""


def _interesting(kind: str, random: np.random.Generator) -> int:
    """A value with extremes, subnormal numbers and NaN among them."""
    bits = width(kind)
    edges = (0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, 0x7F800000, 0x7FC00001, 0x00000007,
             0x80000003, 0x80000000, 0xFF800000, 0x3F800000)  # fmt: skip
    value = int(random.choice(np.array(edges, np.uint64))) if random.random() < 0.5 else int(random.integers(0, 2**63))
    return value % (1 << bits)


def _answered(terms: Terms, name: str, values: Sequence[int]) -> list[int]:
    mnemonic, *qualifiers = name.split(".")
    operation = resolve(mnemonic, tuple(qualifiers))
    assert operation is not None
    sources = [
        z3.BoolVal(bool(value)) if kind == "pred" else z3.BitVecVal(value, width(kind))
        for value, kind in zip(values, operation.sources, strict=True)
    ]
    made = [z3.simplify(one) for one in terms.results(operation, sources)]
    return [int(z3.is_true(one)) if z3.is_bool(one) else one.as_long() for one in made]


@pytest.mark.parametrize("name", [one for one in OPERATIONS if one.split(".")[0] not in ("div", "rem")])
def test_a_term_is_what_the_device_computes(name: str) -> None:
    mnemonic, *qualifiers = name.split(".")
    operation = resolve(mnemonic, tuple(qualifiers))
    assert operation is not None
    random, terms = np.random.default_rng(7), Terms()
    for _ in range(60):
        values = [_interesting(kind, random) for kind in operation.sources]
        if mnemonic in ("shl", "shr"):
            values[1] = int(random.integers(0, 70))
        right = operation.compute([np.array([value], np.uint64) for value in values])
        assert _answered(terms, name, values) == [int(one[0]) for one in right], values


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_what_is_known_of_a_division_holds_of_every_division(kind: str) -> None:
    """The facts about quotients are put to the device's own numbers: none of them is wrong."""
    random = np.random.default_rng(9)
    for _ in range(25):
        terms, solver = Terms(), z3.Solver()
        values = [
            _interesting(kind, random),
            max(1, _interesting(kind, random) >> int(random.integers(0, width(kind)))),
        ]
        for name in ("div", "rem"):
            operation = resolve(name, (kind,))
            assert operation is not None
            right = operation.compute([np.array([value], np.uint64) for value in values])
            made = terms.results(operation, [z3.BitVecVal(value, width(kind)) for value in values])
            solver.add(made[0] == int(right[0][0]))
            negative = kind[0] == "s" and max(values) >> (width(kind) - 1)
            if not negative:
                unsigned = z3.BitVecVal(values[0], width(kind)), z3.BitVecVal(values[1], width(kind))
                _ = terms.results(operation, unsigned)
        solver.add(*terms.facts)
        assert solver.check() == z3.sat, values


STRAY = (
    "add.s32 %r4, %r2, 1; mov.u32 %r3, 7; setp.lt.u32 %p1, %r4, 9; @%p1 bra END; sub.s32 %r6, %r4, %r2;"
    " setp.eq.u32 %p2, %r6, 2; setp.eq.and.u32 %p3, %r2, 7, %p2; selp.b32 %r3, 1, 7, %p3; END:"
)
"""Stores 7 always; a mutant that adds 2 goes on where only it does, with an input of 7, and stores 1."""


def test_values_are_not_united_where_only_the_mutant_is() -> None:
    body = STRAY + STORE
    assert difference(program(body.replace("%r2, 1;", "%r2, 2;", 1)), program(body), ())


@pytest.mark.parametrize(
    ("old", "new"), [("bra B;", ""), ("bra B;", "@%p1 bra B;"), ("bra B;", "bra A;"), ("@%p1 bra A;", "@%p1 bra B;")]
)
def test_a_branch_that_leads_elsewhere_is_not_proved(old: str, new: str) -> None:
    body = "setp.lt.u32 %p1, %r2, 9; mov.u32 %r3, 7; @%p1 bra A; bra B; A: mov.u32 %r3, 8; B:" + STORE
    assert old in body
    assert difference(program(body.replace(old, new, 1)), program(body), ())
