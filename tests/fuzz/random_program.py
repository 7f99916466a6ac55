"""Random PTX kernels: arithmetic of every modelled form, control flow, memory, collectives, matrix instructions.

A right program has one meaning whatever the schedule: threads write places of their own, exchange through shared memory
only between barriers, and update common cells by sums alone. A flawed one has a single defect put in, which the checks
should see. Programs are PTX text for sm_90a, so a GPU runs the right ones as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from assembled import assembled_right, converts_its_amount, folds_one_register
from usable_forms import shown_types, usable_forms

from tileproof.simulators.ptx.alu.scalar import SCALARS

WORDS, LONGS, HALVES, PREDICATES = 8, 4, 4, 4
INPUT_WORDS = 1024
CELLS = 16
SLOT_BYTES = 16  # of shared memory, for each thread
OUTPUT_BYTES = 4 * WORDS + 8 * LONGS + 2 * HALVES + 8


class Flaw(StrEnum):
    """The defect of a flawed program."""

    NONE = "none"
    NO_BARRIER = "an exchange without its first barrier"
    LATE_BARRIER = "an exchange without its second barrier"
    PAST_THE_END = "a load past the end of the input"
    MISALIGNED = "a load at an odd address"
    NOT_WRITTEN = "a register that nothing wrote"
    SHARED_NOT_WRITTEN = "shared memory that nothing wrote"
    ONE_PLACE = "different values stored to one place"
    WILD_SHARED = "a store outside of shared memory"
    SPLIT_COLLECTIVE = "a vote that half of its members reach"
    PLAIN_COUNT = "a cell that is counted without an atomic"
    APPROXIMATE = "approximate functions, whose results may decide a branch"


@dataclass(frozen=True)
class RandomProgram:
    """One program and its launch: kernel `k(out, in, cells)`.

    Args:
        text: PTX.
        blocks: of the grid, along x.
        threads: of a block, along x.
        flaw: its defect.
    """

    text: str
    blocks: int
    threads: int
    flaw: Flaw

    def input_words(self, seed: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        """Input for the program: random bits, one in four of them a number that is special in some format."""
        draw = np.random.default_rng(seed)
        words = draw.integers(0, 1 << 32, INPUT_WORDS, dtype=np.uint32)
        special = draw.random(INPUT_WORDS) < 0.25
        words[special] = draw.choice(_SPECIAL_WORDS, int(special.sum()))
        return words


_SPECIAL_WORDS = np.array(
    [
        *(0, 1, 0x8000_0000, 0xFFFF_FFFF, 0x7FFF_FFFF, 0x3F80_0000, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0001, 0x7F80_0001),
        *(0x0080_0000, 0x007F_FFFF, 0x0001_0001, 0x7C00_7C00, 0x7E01_FC00, 0x3C00_BC00, 0x7F80_FF80, 0x43E0_0000),
        *(0x0000_0020, 0x4F00_0000, 0xCF00_0000, 0x5F00_0000, 0x7F7F_FFFF, 0x3F00_0000, 0x0400_0400, 0x80),
    ],
    np.uint32,
)


class _Writer:
    """Writes the statements of one program."""

    def __init__(self, seed: int, flaw: Flaw, measured: frozenset[str] | None) -> None:
        self.draw = np.random.default_rng(seed)
        self.flaw = flaw
        self.measured = measured
        self.threads = int(self.draw.choice([32, 64, 96, 128, 40]))
        self.blocks = int(self.draw.integers(1, 5))
        self.lines: list[str] = []
        self.flaw_left = flaw not in (Flaw.NONE, Flaw.APPROXIMATE)
        self._labels = 0

    @property
    def whole_warps(self) -> bool:
        return self.threads % 32 == 0

    def emit(self, text: str) -> None:
        self.lines.append(text)

    def pick(self, name: str, count: int) -> str:
        return f"%{name}{int(self.draw.integers(count))}"

    def word(self) -> str:
        return self.pick("w", WORDS)

    def predicate(self) -> str:
        return self.pick("p", PREDICATES)

    def register(self, type_name: str) -> str:
        """A register of the width of a PTX type."""
        if type_name == "pred":
            return self.predicate()
        match SCALARS[type_name].bits:
            case 16:
                return self.pick("h", HALVES)
            case 32:
                return self.word()
            case _:
                return self.pick("l", LONGS)

    def label(self) -> int:
        self._labels += 1
        return self._labels

    # -- statements ----------------------------------------------------------------------------------------------

    def arithmetic(self, guard: str = "") -> None:
        known = usable_forms(self.flaw is Flaw.APPROXIMATE)
        mnemonics = list(known)
        for _ in range(50):
            forms = known[str(self.draw.choice(mnemonics))]
            form = forms[int(self.draw.integers(len(forms)))]
            if self.measured is None or (form.opcode in self.measured and assembled_right(form, guarded=bool(guard))):
                break
        else:
            return
        sources = [self.register(name) for name in shown_types(form.operation.sources)]
        if self.measured is not None and folds_one_register(form):
            sources = self.different(form.operation.sources)
        if self.measured is not None and converts_its_amount(form):
            self.emit(f"mov.b32 %t0, {sources[1]};")
            sources[1] = "%t0"
        if "carry" in form.operation.sources:
            self.emit(f"{guard}add.cc.u32 %t0, {self.word()}, {self.word()};")
        for index in form.operation.immediates:
            sources[index] = str(int(self.draw.integers(256)))
        targets = [self.register(name) for name in shown_types(form.operation.destinations)]
        if len(targets) == 2 and targets[0] == targets[1]:
            targets = ["%p0", "%p1"]
        self.emit(f"{guard}{form.opcode} {'|'.join(targets)}, {', '.join(sources)};")

    def different(self, types: Sequence[str]) -> list[str]:
        """A register for each operand, none of them twice."""
        name, count = {16: ("h", HALVES), 32: ("w", WORDS), 64: ("l", LONGS)}[SCALARS[types[0]].bits]
        return [f"%{name}{int(index)}" for index in self.draw.permutation(count)[: len(types)]]

    def guarded(self) -> None:
        negation = "!" if self.draw.integers(2) else ""
        self.arithmetic(f"@{negation}{self.predicate()} ")

    def load_input(self) -> None:
        """A load of 1, 2, 4 or 8 bytes or a vector at a place that a register names, inside the input."""
        self.emit(f"and.b32 %t0, {self.word()}, {INPUT_WORDS - 4};")
        address = "%t0 of four words"
        self.emit("mul.wide.u32 %a0, %t0, 4; add.s64 %a0, %a0, %in;" + f" // {address}")
        self.emit(str(self.draw.choice(self._loads())))

    def _loads(self) -> list[str]:
        space = str(self.draw.choice(["global", "global.nc", ""]))
        dot = f".{space}" if space else ""
        base = "%a0"
        if not space:
            base = "%g0"
            self.emit("cvta.global.u64 %g0, %a0;")
        w = [f"%w{int(index)}" for index in self.draw.permutation(WORDS)[:4]]
        offset = int(self.draw.integers(0, 8))
        return [
            f"ld{dot}.u32 {w[0]}, [{base}+{offset // 2 * 4}];",
            f"ld{dot}.s16 {self.pick('h', HALVES)}, [{base}+{offset * 2}];",
            f"ld{dot}.u8 {w[0]}, [{base}+{offset}];",
            f"ld{dot}.s8 {w[0]}, [{base}+{offset}];",
            f"ld{dot}.b64 {self.pick('l', LONGS)}, [{base}+{offset // 4 * 8}];",
            f"ld{dot}.v2.b32 {{{w[0]}, {w[1]}}}, [{base}+8];",
            f"ld{dot}.v4.u32 {{{', '.join(w)}}}, [{base}];",
        ]

    def local(self) -> None:
        """Through local memory at a place that a register names; all of it was written at the start."""
        self.emit(f"and.b32 %t0, {self.word()}, 28; add.u32 %t0, %t0, %scratch;")
        self.emit(f"st.local.u32 [%t0], {self.word()};")
        self.emit(f"and.b32 %t0, {self.word()}, 28; add.u32 %t0, %t0, %scratch;")
        self.emit(f"ld.local.u32 {self.word()}, [%t0];")

    def count(self) -> None:
        """A sum into a common cell, which comes out the same in every order."""
        cell = 4 * int(self.draw.integers(CELLS))
        operation = str(self.draw.choice(["add.u32", "xor.b32", "max.u32", "min.s32", "or.b32", "and.b32"]))
        offset = 64 * ["add.u32", "xor.b32", "max.u32", "min.s32", "or.b32", "and.b32"].index(operation)
        self.emit(f"red.global.{operation} [%cells+{offset + cell}], {self.word()};")

    def branch(self, depth: int) -> None:
        label = self.label()
        self.emit(f"@{self.condition()} bra ELSE{label};")
        self.statements(depth + 1)
        if self.draw.integers(2):
            self.emit(f"bra JOIN{label};\nELSE{label}:")
            self.statements(depth + 1)
            self.emit(f"JOIN{label}:")
        else:
            self.emit(f"ELSE{label}:")

    def condition(self) -> str:
        """A predicate to branch on; for a GPU a copy that the assembler cannot trace to a predicate of the program."""
        predicate = self.predicate()
        if self.measured is None:
            return predicate
        self.emit(f"selp.u32 %t1, 1, 0, {predicate};")
        self.emit("st.volatile.shared.u32 [%own], %t1; ld.volatile.shared.u32 %t1, [%own];")
        self.emit("setp.ne.u32 %q3, %t1, 0;")
        return "%q3"

    def loop(self, depth: int) -> None:
        label = self.label()
        self.emit(f"and.b32 %c{depth}, {self.word()}, {int(self.draw.choice([1, 3, 7]))};")
        self.emit(f"LOOP{label}: setp.eq.u32 %q{depth}, %c{depth}, 0; @%q{depth} bra OUT{label};")
        self.emit(f"sub.u32 %c{depth}, %c{depth}, 1;")
        self.statements(depth + 1)
        self.emit(f"bra LOOP{label};\nOUT{label}:")

    def statements(self, depth: int) -> None:
        kinds: list[tuple[Callable[[], None], float]] = [
            (self.arithmetic, 8),
            (self.guarded, 3),
            (self.load_input, 1.5),
            (self.local, 0.7),
            (self.count, 0.5),
        ]
        if depth < 3:
            kinds += [(lambda: self.branch(depth), 1), (lambda: self.loop(depth), 0.7)]
        weights = np.array([weight for _, weight in kinds])
        for _ in range(int(self.draw.integers(2, 7))):
            kinds[int(self.draw.choice(len(kinds), p=weights / weights.sum()))][0]()

    # -- what all threads of a block do together -----------------------------------------------------------------

    def exchange(self) -> None:
        """Every thread writes its slot of shared memory and reads another's."""
        shift = int(self.draw.integers(1, self.threads))
        self.emit(f"add.u32 %t0, %tid0, {shift}; rem.u32 %t0, %t0, {self.threads}; mul.lo.u32 %t0, %t0, {SLOT_BYTES};")
        self.emit("add.u32 %t0, %t0, %shared;")
        a, b, c, d = (f"%w{int(index)}" for index in self.draw.permutation(WORDS)[:4])
        store, load = [
            (f"st.shared.v4.u32 [%mine], {{{a}, {b}, {c}, {d}}};", f"ld.shared.v4.u32 {{{a}, {b}, {c}, {d}}}, [%t0];"),
            (f"st.shared.u32 [%mine+4], {a};", f"ld.shared.u32 {b}, [%t0+4];"),
            (f"st.shared.b64 [%mine+8], {self.pick('l', LONGS)};", f"ld.shared.v2.u32 {{{a}, {b}}}, [%t0+8];"),
            (f"st.shared.u8 [%mine+3], {a};", f"ld.shared.s8 {b}, [%t0+3];"),
            (f"st.shared.b16 [%mine+2], {self.pick('h', HALVES)};", f"ld.shared.u16 {a}, [%t0+2];"),
        ][int(self.draw.integers(5))]
        first, second = "bar.sync 0;", "bar.sync 0;"
        if self._now(Flaw.NO_BARRIER):
            first = ""
        elif self._now(Flaw.LATE_BARRIER):
            second = f"{store}"
        if self._now(Flaw.SHARED_NOT_WRITTEN):
            self.emit(f"ld.shared.u32 {a}, [%shared+{SLOT_BYTES * self.threads}];")
        if self._now(Flaw.WILD_SHARED):
            self.emit(f"@%never st.shared.u32 [%mine], {a}; st.shared.u32 [%mine+1048576], {a};")
        self.emit(f"{store} {first} {load} {second}")

    def shuffle(self) -> None:
        mode = str(self.draw.choice(["up", "down", "bfly", "idx"]))
        offset = int(self.draw.integers(0, 32))
        width = int(self.draw.choice([32, 16, 8]))
        clamp = (32 - width) << 8 | (0 if mode == "up" else 31)
        self.emit(f"shfl.sync.{mode}.b32 {self.word()}|{self.predicate()}, {self.word()}, {offset}, {clamp}, -1;")

    def vote(self) -> None:
        if self._now(Flaw.SPLIT_COLLECTIVE):
            self.emit("@%even vote.sync.ballot.b32 %w0, %p0, -1;")
        mode = str(self.draw.choice(["all", "any", "uni"]))
        self.emit(f"vote.sync.{mode}.pred {self.predicate()}, {self.predicate()}, -1;")
        self.emit(f"vote.sync.ballot.b32 {self.word()}, {self.predicate()}, -1;")

    def match(self) -> None:
        self.emit(f"and.b32 %t0, {self.word()}, 3; match.any.sync.b32 {self.word()}, %t0, -1;")
        self.emit(f"match.all.sync.b32 {self.word()}|{self.predicate()}, %t0, -1;")

    def redux(self) -> None:
        operation = str(self.draw.choice(["add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "max.s32"]))
        self.emit(f"redux.sync.{operation} {self.word()}, {self.word()}, -1;")

    def mma(self) -> None:
        a = [f"%w{int(index)}" for index in self.draw.permutation(WORDS)]
        c = [f"%w{int(index)}" for index in self.draw.permutation(WORDS)[:4]]
        form, width_a, width_b = [
            ("m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 2),
            ("m16n8k32.row.col.f32.e5m2.e4m3.f32", 4, 2),
            ("m16n8k16.row.col.f32.f16.f16.f32", 4, 2),
            ("m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2),
            ("m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2),
            ("m16n8k32.row.col.s32.s8.u8.s32", 4, 2),
            ("m16n8k32.row.col.satfinite.s32.u8.s8.s32", 4, 2),
        ][int(self.draw.integers(7))]
        left, right = ", ".join(a[:width_a]), ", ".join(a[width_a : width_a + width_b])
        accumulators = ", ".join(c)
        self.emit(f"mma.sync.aligned.{form} {{{accumulators}}}, {{{left}}}, {{{right}}}, {{{accumulators}}};")

    def matrix_move(self) -> None:
        """Rows of a warp's own part of shared memory, through stmatrix and ldmatrix."""
        a, b = (f"%w{int(index)}" for index in self.draw.permutation(WORDS)[:2])
        trans = str(self.draw.choice(["", ".trans"]))
        self.emit("bar.sync 0;")
        self.emit(f"stmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 [%mine], {{{a}, {b}}};")
        self.emit("bar.sync 0;")
        trans = str(self.draw.choice(["", ".trans"]))
        self.emit(f"ldmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 {{{b}, {a}}}, [%mine];")
        self.emit(f"movmatrix.sync.aligned.m8n8.trans.b16 {a}, {b};")
        self.emit("bar.sync 0;")

    def copy(self) -> None:
        """A cp.async of the thread's own slot, from the input."""
        bytes_ = int(self.draw.choice([4, 8, 16]))
        route = "cg" if bytes_ == 16 and self.draw.integers(2) else "ca"
        source = "" if self.draw.integers(2) else f", {int(self.draw.integers(0, bytes_ + 1))}"
        self.emit(f"and.b32 %t0, {self.word()}, {INPUT_WORDS - 4}; mul.wide.u32 %a0, %t0, 4; add.s64 %a0, %a0, %in;")
        self.emit(f"bar.sync 0; cp.async.{route}.shared.global [%mine], [%a0], {bytes_}{source};")
        self.emit("cp.async.commit_group; cp.async.wait_group 0;")
        self.emit(f"ld.shared.u32 {self.word()}, [%mine]; bar.sync 0;")

    def shared_count(self) -> None:
        """Atomics of all threads on a few words of shared memory, read between barriers."""
        base = SLOT_BYTES * (self.threads + 1)
        operation = str(self.draw.choice(["add.u32", "max.s32", "xor.b32"]))
        self.emit(f"bar.sync 0; @%first st.shared.u32 [%shared+{base}], {int(self.draw.integers(100))}; bar.sync 0;")
        self.emit(f"red.shared.{operation} [%shared+{base}], {self.word()}; bar.sync 0;")
        self.emit(f"ld.shared.u32 {self.word()}, [%shared+{base}]; bar.sync 0;")

    def together(self) -> None:
        kinds: list[Callable[[], None]] = [self.exchange, self.shared_count, self.copy]
        if self.whole_warps:
            kinds += [self.shuffle, self.vote, self.match, self.redux, self.mma, self.matrix_move]
        kinds[int(self.draw.integers(len(kinds)))]()

    # -- flaws ---------------------------------------------------------------------------------------------------

    def _now(self, flaw: Flaw) -> bool:
        """Whether the program has this flaw and it is not in yet."""
        if self.flaw is not flaw or not self.flaw_left:
            return False
        self.flaw_left = False
        return True

    def put_flaw(self) -> None:
        """The flaws that stand alone."""
        if self._now(Flaw.PAST_THE_END):
            self.emit(f"ld.global.u32 %w0, [%in+{4 * INPUT_WORDS}];")
        elif self._now(Flaw.MISALIGNED):
            self.emit("ld.global.u32 %w1, [%in+2];")
        elif self._now(Flaw.NOT_WRITTEN):
            self.emit("add.u32 %w2, %w2, %nothing;")
        elif self._now(Flaw.ONE_PLACE):
            self.emit("st.global.u32 [%cells], %tid0;")
        elif self._now(Flaw.PLAIN_COUNT):
            self.emit("ld.global.u32 %t1, [%cells+4]; add.u32 %t1, %t1, 1; st.global.u32 [%cells+4], %t1;")

    def text(self) -> str:
        """The whole module."""
        for _ in range(int(self.draw.integers(2, 6))):
            self.statements(0)
            self.together()
            if self.draw.random() < 0.5:
                self.put_flaw()
        self.put_flaw()
        if self.flaw_left:
            self.exchange()
            if self.whole_warps:
                self.vote()
        exit_early = f"@{self.predicate()} ret;" if self.draw.integers(4) == 0 else ""
        self.statements(1)
        return _MODULE.format(
            body="\n    ".join(self.lines),
            exit_early=exit_early,
            shared=(SLOT_BYTES + 4) * (self.threads + 2),
            own=SLOT_BYTES * (self.threads + 2),
            threads=self.threads,
            words=", ".join(f"%w{i}" for i in range(4)),
            more_words=", ".join(f"%w{i}" for i in range(4, 8)),
            output=OUTPUT_BYTES,
        )


_MODULE = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in, .param .u64 cells)
{{
    .shared .align 16 .b8 slots[{shared}];
    .local .align 16 .b8 stack[32];
    .reg .pred %p<4>, %q<4>, %even, %first, %never;
    .reg .b16 %h<4>;
    .reg .b32 %w<8>, %t<4>, %c<4>, %tid0, %mine, %shared, %scratch, %nothing, %thread, %own;
    .reg .b64 %l<4>, %a<2>, %g<2>, %out, %in, %cells;
    ld.param.u64 %out, [out];
    ld.param.u64 %in, [in];
    ld.param.u64 %cells, [cells];
    cvta.to.global.u64 %out, %out;
    cvta.to.global.u64 %in, %in;
    cvta.to.global.u64 %cells, %cells;
    mov.u32 %tid0, %tid.x;
    mov.u32 %thread, %ctaid.x;
    mad.lo.u32 %thread, %thread, {threads}, %tid0;
    and.b32 %t0, %tid0, 1; setp.eq.u32 %even, %t0, 0;
    setp.eq.u32 %first, %tid0, 0;
    setp.gt.u32 %never, %tid0, 100000;
    mov.u32 %shared, slots;
    mov.u32 %scratch, stack;
    mad.lo.u32 %mine, %tid0, 16, %shared;
    mad.lo.u32 %own, %tid0, 4, %shared; add.u32 %own, %own, {own};
    mul.lo.u32 %t0, %thread, 52; and.b32 %t0, %t0, 1008; mul.wide.u32 %a0, %t0, 4; add.s64 %a0, %a0, %in;
    ld.global.v4.u32 {{{words}}}, [%a0];
    ld.global.v4.u32 {{{more_words}}}, [%a0+16];
    mov.b64 %l0, {{%w0, %w5}}; mov.b64 %l1, {{%w1, %w6}}; mov.b64 %l2, {{%w2, %w7}}; mov.b64 %l3, {{%w3, %w4}};
    mov.b32 {{%h0, %h1}}, %w3; mov.b32 {{%h2, %h3}}, %w5;
    setp.lt.u32 %p0, %w0, %w1; setp.lt.s32 %p1, %w2, 0; setp.ne.u32 %p2, %w4, %w5; setp.gt.u32 %p3, %w6, %w7;
    st.local.v4.u32 [stack], {{{words}}}; st.local.v4.u32 [stack+16], {{{more_words}}};
    st.shared.v4.u32 [%mine], {{{words}}};
    bar.sync 0;
    {body}
    {exit_early}
    mul.wide.u32 %a1, %thread, {output}; add.s64 %a1, %a1, %out;
    st.global.b64 [%a1], %l0; st.global.b64 [%a1+8], %l1; st.global.b64 [%a1+16], %l2; st.global.b64 [%a1+24], %l3;
    st.global.u32 [%a1+32], %w0; st.global.u32 [%a1+36], %w1; st.global.u32 [%a1+40], %w2; st.global.u32 [%a1+44], %w3;
    st.global.u32 [%a1+48], %w4; st.global.u32 [%a1+52], %w5; st.global.u32 [%a1+56], %w6; st.global.u32 [%a1+60], %w7;
    st.global.b16 [%a1+64], %h0; st.global.b16 [%a1+66], %h1; st.global.b16 [%a1+68], %h2; st.global.b16 [%a1+70], %h3;
    selp.u32 %t0, 1, 0, %p0; selp.u32 %t1, 2, 0, %p1; selp.u32 %t2, 4, 0, %p2; selp.u32 %t3, 8, 0, %p3;
    or.b32 %t0, %t0, %t1; or.b32 %t0, %t0, %t2; or.b32 %t0, %t0, %t3;
    st.global.u32 [%a1+72], %t0;
    ret;
}}
"""


def random_program(seed: int, flaw: Flaw = Flaw.NONE, measured: frozenset[str] | None = None) -> RandomProgram:
    """A program.

    Args:
        seed: the same seed gives the same program.
        flaw: the defect to put in.
        measured: for a GPU: opcodes that it was shown to execute as modelled; only these are used, and nothing that
            the assembler is known to get wrong. None for all that is modelled.
    """
    writer = _Writer(seed, flaw, measured)
    return RandomProgram(writer.text(), writer.blocks, writer.threads, flaw)
