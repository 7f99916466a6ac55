"""One thing wrong, with the evidence that a report needs: readable, JSON-safe, and grouped by its signature.

Every record here holds only strings, numbers, enums of strings, tuples and further records, so that
`dataclasses.asdict` gives what a crash file and an event stream can hold.
"""

from dataclasses import dataclass
from enum import StrEnum

from tileproof.oracle.refusal import Refusal

MARKS = " .123456789#"
"""Of a map of units."""


class FindingKind(StrEnum):
    """What is wrong, by cause. The first group comes from a device, the second from the conformance run."""

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

    MISMATCH = "mismatch"
    UNWRITTEN = "unwritten"
    CANARY = "canary"
    INPUT_CHANGED = "input-changed"
    ROUTE = "route"
    REFUSAL = "refusal"
    CRASH = "crash"
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class BitPattern:
    """One stored value, readable at every level: `0x7e`, `0|1111|110`, `448`.

    Args:
        format: the name of the number format, for example "E4M3FN".
        raw: the bits in hexadecimal; empty where no value is known, and `value` says why.
        fields: sign, exponent and mantissa bits, split by bars; without bars for an integer.
        value: the decoded value in decimal, "nan" or "inf".
    """

    format: str
    raw: str
    fields: str
    value: str

    def __str__(self) -> str:
        return f"{self.raw} {self.fields} = {self.value}" if self.raw else self.value


@dataclass(frozen=True)
class Witness:
    """A value that explains a mismatch: the input at that place, the scale of that row."""

    name: str
    bits: BitPattern


@dataclass(frozen=True)
class InputClass:
    """How many elements of one class of input differ, for example "tie": 12 of 30."""

    name: str
    differing: int
    of: int


@dataclass(frozen=True)
class UnitMap:
    """One kind of unit as marks: ` ` no element, `.` none differs, `1` to `9` the tenths that do, `#` all.

    Raises:
        Refusal: no rows, rows of unlike lengths, or another mark: a damaged file.
    """

    head: str
    rows: tuple[str, ...]

    def __post_init__(self) -> None:
        lengths = {len(row) for row in self.rows}
        if len(lengths) != 1 or 0 in lengths or not set("".join(self.rows)) <= set(MARKS):
            raise Refusal("a map of units is no rectangle of marks", hint="the file was changed or damaged")


@dataclass(frozen=True)
class Units:
    """A difference in units of the kernel's work; see `division`.

    Args:
        division: the units, in words.
        where: the ones that hold the difference, in words.
        maps: by tile, warp, fragment, and register and lane, as far as they are known.
    """

    division: str
    where: str
    maps: tuple[UnitMap, ...]


@dataclass(frozen=True)
class Mismatch:
    """Where and how an output differs from the expected one.

    Args:
        index: of the first differing element, in row-major order.
        count: differing elements, of `of` in the tensor.
        expected: the right bits at `index`.
        observed: the bits found there.
        witnesses: inputs and other outputs that belong to that element.
        largest_step: the largest distance between expected and observed, in codes of the format
            (NaN against a number counts as the whole code range); 0 where every difference is one of sign of
            zero or of NaN payload, and where nothing was written.
        map: a small text map, rows down and columns across; see `compare.draw_map`.
        classes: input classes with at least one member, those that differ first.
        units: the same by tile, warp and lane, where it is known how the kernel divides its output.
    """

    index: tuple[int, ...]
    count: int
    of: int
    expected: BitPattern
    observed: BitPattern
    witnesses: tuple[Witness, ...]
    largest_step: int
    map: tuple[str, ...]
    classes: tuple[InputClass, ...]
    units: Units | None = None


@dataclass(frozen=True)
class Place:
    """Where a device found something: source lines, and the threads that took part.

    Args:
        ptx_line: line of the PTX text; 0 where unknown.
        file: CUDA source file; "" where unknown.
        line: CUDA source line; 0 where unknown.
        threads: readable positions such as "block (0,0,0) thread (3,0,0)".
        count: how often the device saw it.
    """

    ptx_line: int
    file: str
    line: int
    threads: tuple[str, ...]
    count: int


class Proof(StrEnum):
    """How well an explanation stands; see docs/triage.md."""

    SEEN = "seen"
    PROVED = "proved"
    GUESS = "guess"
    NONE = "none"


@dataclass(frozen=True)
class Why:
    """The first explanation of a failed case.

    Args:
        state: how well it stands; NONE where there is no explanation.
        text: the cause in words; empty where there is none.
        proof: what the state rests on, with counts, or why there is no explanation.
    """

    state: Proof
    text: str
    proof: str

    def __str__(self) -> str:
        return f"{self.text} ({self.proof})" if self.text else self.proof


@dataclass(frozen=True)
class Finding:
    """One thing wrong with one case.

    Args:
        kind: by cause.
        message: one or two lines for a person.
        signature: coarse and stable pattern; it changes with the shape, see `gathering`.
        tensor: the tensor concerned, if one is.
        mismatch: for a wrong value, unwritten element, canary hit or changed input: where and how.
        place: for a finding of the device: where.
    """

    kind: FindingKind
    message: str
    signature: str
    tensor: str | None = None
    mismatch: Mismatch | None = None
    place: Place | None = None
