"""What became of a mutant, as a record that a file of JSON lines holds."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tileproof.conformance.records import from_json, parse_json, to_json
from tileproof.kernels.given_file import read_given
from tileproof.oracle.refusal import Refusal

MAX_FILE_BYTES = 1 << 28


class Outcome(StrEnum):
    """How a mutant ended.

    KILLED: a case has a finding. EQUIVALENT: a machine proved that it does the same. SURVIVED: every case that reaches
    it passes. REFUSED: the device or the assembler does not take it. UNFINISHED: its time ran out before its cases did.
    """

    KILLED = "killed"
    EQUIVALENT = "equivalent"
    SURVIVED = "survived"
    REFUSED = "refused"
    UNFINISHED = "unfinished"


@dataclass(frozen=True)
class Result:
    """One mutant's end.

    Args:
        id: of the mutant.
        variant: readable name of the module.
        entry: of the module.
        operator: its name.
        file: CUDA file; "" where the compiler says nothing.
        line: CUDA line; 0 where it says nothing.
        ptx_line: of the module's text.
        ptx: digits that stand for the entry's instructions: another kernel, another result.
        outcome: how it ended.
        change: the new PTX, "" for an instruction dropped.
        kinds: of the findings that killed it.
        property: that it broke.
        case: that killed it, of all others the cheapest that reaches it.
        schedule: under which it was killed.
        tried: cases that ran, those of both schedules counted.
        reaching: cases that reach its instruction.
        seconds: of processor time until it was decided.
        reason: the proof, the refusal, or of a survivor of order why no proof over interleavings holds.
        proof_cases: of a proof over interleavings the cases.
    """

    id: str
    variant: str
    entry: str
    operator: str
    file: str
    line: int
    ptx_line: int
    ptx: str
    outcome: Outcome
    change: str = ""
    kinds: tuple[str, ...] = ()
    property: str = ""
    case: str = ""
    schedule: str = ""
    tried: int = 0
    reaching: int = 0
    seconds: float = 0.0
    reason: str = ""
    proof_cases: tuple[str, ...] = ()


def read_results(path: Path) -> dict[str, Result]:
    """Results by the mutants' ids, the last of each; none where there is no file.

    Raises:
        Refusal: a line is no result; the message has its number.
    """
    if not os.path.lexists(path):
        return {}
    found: dict[str, Result] = {}
    lines = read_given(path, MAX_FILE_BYTES).splitlines()
    for number, line in enumerate(lines, 1):
        try:
            one = from_json(Result, parse_json(line, "line"))
        except Refusal as refusal:
            if number == len(lines):  # the run was ended while it wrote: the mutant runs again
                break
            raise Refusal(f"{path}:{number}: not a result: {refusal.message}", hint=refusal.hint) from None
        found[one.id] = one
    return found


def write_results(path: Path, results: Iterable[Result]) -> None:
    """A file anew, sorted by id, so that two runs of one kernel compare line by line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(sorted(line_of(one) for one in results)))


def line_of(result: Result) -> str:
    """One line of the file; what is empty is left out."""
    fields = {name: value for name, value in to_json(result).items() if value not in ("", 0, [], 0.0)}
    return json.dumps({"id": result.id, **fields, "file": result.file, "line": result.line}) + "\n"
