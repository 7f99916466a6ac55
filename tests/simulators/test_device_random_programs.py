"""Random structured kernels: every schedule gives what a second interpreter gives, which knows only masks and arrays.

A program is a list of statements. `Both` writes its PTX and its meaning side by side: control flow becomes branches in
PTX, and masks over all threads of the launch in numpy.
"""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.device import Device

Words = NDArray[np.uint32]
Mask = NDArray[np.bool_]
REGISTERS = 4
ARITHMETIC: dict[str, Callable[[Words, Words], Words]] = {
    "add.u32": np.add,
    "sub.u32": np.subtract,
    "mul.lo.u32": np.multiply,
    "xor.b32": np.bitwise_xor,
    "and.b32": np.bitwise_and,
    "max.u32": np.maximum,
}


class Both:
    """Writes one random program twice: as PTX text, and as its effect on arrays of all threads."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.threads = int(self.draw.choice([32, 40, 64, 96, 7]))
        self.blocks = int(self.draw.integers(1, 4))
        count = self.threads * self.blocks
        self.thread = np.tile(np.arange(self.threads), self.blocks)
        self.block = np.repeat(np.arange(self.blocks), self.threads)
        self.lane = self.thread % 32
        base = np.arange(count, dtype=np.uint32) * np.uint32(2654435761)
        self.registers = [base >> np.uint32(shift) for shift in (0, 7, 13, 21)]
        self.cells = np.zeros(4, np.uint32)
        self.lines: list[str] = []
        self._labels = 0
        self._counters = 0

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def statements(self, mask: Mask, depth: int) -> None:
        """Some statements under a mask; what makes warps or blocks meet only stands where nothing has diverged."""
        kinds = [self.arithmetic, self.guarded, self.count]
        kinds += [self.branch, self.loop] * 2 if depth < 3 else []
        for _ in range(int(self.draw.integers(1, 4))):
            kinds[int(self.draw.integers(len(kinds)))](mask, depth)
        if depth == 0:
            meetings = [self.exchange, self.shuffle, self.ballot, self.reduction]
            meetings[int(self.draw.integers(len(meetings)))](mask)

    def _pick(self) -> int:
        return int(self.draw.integers(REGISTERS))

    def arithmetic(self, mask: Mask, depth: int, guard: str = "") -> None:
        name = str(self.draw.choice(list(ARITHMETIC)))
        d, a, b = self._pick(), self._pick(), self._pick()
        self.emit(f"{guard}{name} %x{d}, %x{a}, %x{b};")
        self.registers[d] = np.where(mask, ARITHMETIC[name](self.registers[a], self.registers[b]), self.registers[d])

    def _condition(self) -> tuple[Mask, str]:
        """A condition on one register, in a fresh predicate."""
        a, bits = self._pick(), int(self.draw.integers(1, 4))
        predicate = f"%p{self._fresh()}"
        self.emit(f"and.b32 %t0, %x{a}, {bits}; setp.eq.u32 {predicate}, %t0, 0;")
        return (self.registers[a] & np.uint32(bits)) == 0, predicate

    def _fresh(self) -> int:
        self._labels += 1
        return self._labels

    def guarded(self, mask: Mask, depth: int) -> None:
        holds, predicate = self._condition()
        negated = bool(self.draw.integers(2))
        self.arithmetic(mask & (holds != negated), depth, f"@{'!' if negated else ''}{predicate} ")

    def count(self, mask: Mask, depth: int) -> None:
        """An atomic of a value that all schedules add up alike."""
        cell, a = int(self.draw.integers(4)), self._pick()
        self.emit(f"red.global.add.u32 [%d1+{4 * cell}], %x{a};")
        self.cells[cell : cell + 1] += self.registers[a][mask].sum(dtype=np.uint32)

    def branch(self, mask: Mask, depth: int) -> None:
        holds, predicate = self._condition()
        label = self._fresh()
        self.emit(f"@!{predicate} bra ELSE{label};")
        self.statements(mask & holds, depth + 1)
        self.emit(f"bra JOIN{label};\nELSE{label}:")
        self.statements(mask & ~holds, depth + 1)
        self.emit(f"JOIN{label}:")

    def loop(self, mask: Mask, depth: int) -> None:
        """As many rounds as the low bits of a register say: the body is drawn once, its meaning is run for each."""
        a, label, bits = self._pick(), self._fresh(), int(self.draw.choice([1, 3, 7]))
        left = self.registers[a] & np.uint32(bits)
        counter = f"%c{self._counters}"
        self._counters += 1
        self.emit(f"and.b32 {counter}, %x{a}, {bits};")
        self.emit(f"LOOP{label}: setp.eq.u32 %q{label}, {counter}, 0; @%q{label} bra OUT{label};")
        self.emit(f"sub.u32 {counter}, {counter}, 1;")
        state = self.draw.bit_generator.state
        written, labels, counters = len(self.lines), self._labels, self._counters
        first_text: list[str] = []
        for turn in range(bits + 1):  # the last turn is one of nobody: it makes the text where nobody loops at all
            self.draw.bit_generator.state = state
            del self.lines[written:]
            self._labels, self._counters = labels, counters
            self.arithmetic(mask & (left > turn), depth)
            self.guarded(mask & (left > turn), depth)
            if depth < 2:
                self.branch(mask & (left > turn), 3)
            first_text = first_text or self.lines[written:]
            assert self.lines[written:] == first_text
        self.emit(f"bra LOOP{label};\nOUT{label}:")

    def exchange(self, mask: Mask) -> None:
        """Through shared memory, between two barriers, with the mirror image in the block."""
        d, a = self._pick(), self._pick()
        self.emit(f"st.shared.u32 [%mine], %x{a}; bar.sync 0; ld.shared.u32 %x{d}, [%mirror]; bar.sync 0;")
        mirror = self.block * self.threads + self.threads - 1 - self.thread
        self.registers[d] = self.registers[a][mirror]

    def shuffle(self, mask: Mask) -> None:
        d, a, distance = self._pick(), self._pick(), int(self.draw.integers(1, 32))
        self.emit(f"shfl.sync.bfly.b32 %t1, %x{a}, {distance}, 31, -1;")
        self.emit(f"xor.b32 %t2, %r0, {distance}; setp.lt.u32 %p0, %t2, {self.threads}; @%p0 mov.u32 %x{d}, %t1;")
        source = self.thread ^ distance
        inside = source < self.threads
        there = self.block * self.threads + np.where(inside, source, 0)
        self.registers[d] = np.where(inside, self.registers[a][there], self.registers[d])

    def _warps(self) -> list[NDArray[np.int64]]:
        warp = self.block * 64 + self.thread // 32
        return [np.flatnonzero(warp == one) for one in np.unique(warp)]

    def ballot(self, mask: Mask) -> None:
        holds, predicate = self._condition()
        d = self._pick()
        self.emit(f"vote.sync.ballot.b32 %x{d}, {predicate}, -1;")
        result = self.registers[d].copy()
        for warp in self._warps():
            result[warp] = sum(1 << int(lane) for lane in self.lane[warp][holds[warp]])
        self.registers[d] = result

    def reduction(self, mask: Mask) -> None:
        d, a = self._pick(), self._pick()
        self.emit(f"redux.sync.add.u32 %x{d}, %x{a}, -1;")
        result = self.registers[d].copy()
        for warp in self._warps():
            result[warp] = self.registers[a][warp].sum(dtype=np.uint32)
        self.registers[d] = result

    def text(self) -> str:
        """The whole module."""
        body = "\n".join(self.lines)
        return f"""
.version 9.0
.target sm_90
.address_size 64
.shared .align 4 .b8 s[{4 * self.threads}];
.visible .entry k(.param .u64 out, .param .u64 cells)
{{
    .reg .pred %p<{self._labels + 1}>, %q<{self._labels + 1}>;
    .reg .b32 %x<{REGISTERS}>, %t<4>, %c<{self._counters + 1}>, %r<4>, %mine, %mirror;
    .reg .b64 %d<8>;
    ld.param.u64 %d0, [out];
    ld.param.u64 %d1, [cells];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %r1, %r1, {self.threads}, %r0;
    mul.lo.u32 %x0, %r1, 2654435761;
    shr.u32 %x1, %x0, 7;
    shr.u32 %x2, %x0, 13;
    shr.u32 %x3, %x0, 21;
    mov.u32 %r2, s;
    mad.lo.u32 %mine, %r0, 4, %r2;
    sub.u32 %r3, {self.threads - 1}, %r0;
    mad.lo.u32 %mirror, %r3, 4, %r2;
    {body}
    mul.wide.u32 %d2, %r1, 16;
    add.s64 %d2, %d2, %d0;
    st.global.v4.u32 [%d2], {{%x0, %x1, %x2, %x3}};
}}
"""


@pytest.mark.parametrize("program", range(25))
def test_random_kernels_give_the_same_on_all_schedules_and_engines_as_in_the_second_interpreter(program: int) -> None:
    both = Both(program)
    everyone = np.ones(both.thread.size, np.bool_)
    for _ in range(5):
        both.statements(everyone, 0)
    runs = [("friendly", 0), ("adversarial", program), ("adversarial", program + 1000)]
    counters: dict[tuple[str, int], object] = {}
    for schedule, seed, engine in [*[(*run, "fast") for run in runs], (*runs[program % 3], "reference")]:
        device = Device(schedule=schedule, seed=seed, engine=engine)
        out, cells = device.allocate((both.thread.size, 4), np.uint32), device.upload(np.zeros(4, np.uint32))
        report = device.load_ptx(both.text())["k"].launch(
            grid=(both.blocks, 1, 1), block=(both.threads, 1, 1), args=(out, cells)
        )
        assert report.findings == []
        np.testing.assert_array_equal(out.download(), np.stack(both.registers, axis=1), err_msg=f"{schedule} {engine}")
        np.testing.assert_array_equal(cells.download(), both.cells, err_msg=schedule)
        assert counters.setdefault((schedule, seed), report.counters) == report.counters
