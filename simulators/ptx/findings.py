"""What the CPU device reports: findings, quieter notes and counters.

A finding is one cause, however many threads and accesses it hit: reports with the same kind, source line and cause are
counted, not repeated, and keep the first threads that were seen.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

# A report stays readable: more threads than this add nothing to a cause.
SHOWN_THREADS = 8

Index3 = tuple[int, int, int]


class FindingKind(StrEnum):
    """Kinds of device findings, by cause."""

    RACE = "race"
    SCOPE = "scope"
    UNINITIALISED = "uninitialised"
    OUT_OF_BOUNDS = "out-of-bounds"
    MISALIGNED = "misaligned"
    USE_AFTER_FREE = "use-after-free"
    DEADLOCK = "deadlock"
    DIVERGENCE = "divergence"
    BARRIER = "barrier"
    ASYNC = "async"
    LEAK = "leak"
    TRAP = "trap"
    APPROXIMATE = "approximate"


@dataclass(frozen=True)
class Where:
    """A place in the PTX text and, where `.loc` says so, in the CUDA source.

    Attributes:
        ptx_line: line of the PTX text, from 1.
        file: CUDA file as the compiler recorded it, or None.
        line: line of that file, or None.
    """

    ptx_line: int
    file: str | None = None
    line: int | None = None

    @property
    def source(self) -> tuple[str | None, int]:
        """The line that a programmer would mend: unrolled copies of one CUDA line are one place."""
        return (None, self.ptx_line) if self.line is None else (self.file, self.line)

    @property
    def place(self) -> str:
        """That line in words."""
        return f"PTX line {self.ptx_line}" if self.line is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        cuda = f", {self.file}:{self.line}" if self.file else ""
        return f"PTX line {self.ptx_line}{cuda}"


@dataclass(frozen=True)
class Thread:
    """One thread of a launch: block index and thread index, each (x, y, z)."""

    block: Index3
    thread: Index3

    def __str__(self) -> str:
        return f"block {self.block} thread {self.thread}"


@dataclass(frozen=True)
class Finding:
    """One thing wrong, with its cause in words.

    Attributes:
        kind: the cause's class.
        message: one sentence of cause.
        where: the instruction that showed it.
        threads: the first threads that were seen, at most eight.
        count: how many lanes were hit.
    """

    kind: FindingKind
    message: str
    where: Where
    threads: tuple[Thread, ...] = ()
    count: int = 1


@dataclass(frozen=True)
class Note:
    """The quieter level: legal or harmless here, worth knowing."""

    message: str
    where: Where
    count: int = 1

    def __str__(self) -> str:
        return f"{self.message}, at {self.where.place}"


@dataclass(frozen=True)
class SharedUse:
    """What one instruction's accesses to shared memory cost.

    Attributes:
        opcode: as written.
        where: the instruction.
        accesses: how often a warp executed it.
        passes: over the banks, all together.
        conflicts: passes that bank conflicts added.
        ways: the most passes of a phase: "n-way".
    """

    opcode: str
    where: Where
    accesses: int
    passes: int
    conflicts: int
    ways: int


@dataclass
class Counters:
    """What a launch did.

    Attributes:
        thread_instructions: instructions executed, summed over threads.
        global_bytes_read: bytes loaded from global memory.
        global_bytes_written: bytes stored to global memory.
        shared_bytes_read: bytes loaded from shared memory.
        shared_bytes_written: bytes stored to shared memory.
        global_bytes_undecided: of the bytes stored to global memory, those of values that approximate functions leave
            open: more than one result is right.
        opcodes: thread instructions by opcode, with `Device(profile=True)` only.
        lines: thread instructions by line of the PTX text, with `Device(profile=True)` only.
        shared: what shared memory costs, by instruction in PTX order, with `Device(profile=True)` only.
    """

    thread_instructions: int = 0
    global_bytes_read: int = 0
    global_bytes_written: int = 0
    shared_bytes_read: int = 0
    shared_bytes_written: int = 0
    global_bytes_undecided: int = 0
    opcodes: dict[str, int] = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)
    shared: list[SharedUse] = field(default_factory=list)


@dataclass
class Report:
    """The outcome of one launch: `findings` is empty when all is well.

    Attributes:
        findings: what is wrong, one entry a cause.
        notes: the quieter level.
        counters: what the launch did, whatever engine ran it.
        engine: which one ran it.
        handed_back: steps that compiled code left to the reference engine's functions.
    """

    findings: list[Finding] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    engine: str = ""
    handed_back: int = 0


class Findings:
    """Collects findings and notes of one launch, one entry a cause."""

    def __init__(self) -> None:
        self._findings: dict[Hashable, Finding] = {}
        self._notes: dict[Hashable, Note] = {}

    def add(
        self,
        kind: FindingKind,
        message: str,
        where: Where,
        threads: Sequence[Thread],
        *,
        count: int,
        detail: str = "",
        cause: Hashable = None,
    ) -> None:
        """Record `count` hits of a cause.

        Args:
            kind: the cause's class.
            message: the cause in words.
            where: the instruction that showed it.
            threads: threads that were hit.
            count: how many lanes were hit.
            detail: what is particular to this hit (addresses, values, the other thread); the first one is shown.
            cause: what hits of one cause have in common, where it is not their place and message.
        """
        key = (kind, cause or (where.source, message))
        known = self._findings.get(key)
        if known is None:
            self._findings[key] = Finding(kind, message + detail, where, tuple(threads[:SHOWN_THREADS]), count)
        else:
            self._findings[key] = replace(known, count=known.count + count)

    def note(self, message: str, where: Where, count: int) -> None:
        """Record `count` hits of something quieter."""
        key = (where.source, message)
        known = self._notes.get(key)
        self._notes[key] = Note(message, where, count) if known is None else replace(known, count=known.count + count)

    def report(self, counters: Counters, engine: str = "", handed_back: int = 0) -> Report:
        """The launch's report, in the order in which causes were first seen."""
        return Report(list(self._findings.values()), list(self._notes.values()), counters, engine, handed_back)
