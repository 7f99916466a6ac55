"""Trials kept from search to search: the first with each signature, and the first to reach a line or a route.

A file each, JSON, `CONTRACT/NAME.json`, called by a hash of the trial: two searches that keep the same one write the
same file. A file holds parameters and edits, no code and no inputs; a later search runs it before it draws anything.
"""

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tileproof.conformance.case import parse_case
from tileproof.conformance.fuzz.trial import Edit, Trial
from tileproof.conformance.records import from_json, parse_json, shorten, to_json
from tileproof.conformance.registry import contract_of, contracts
from tileproof.conformance.target import Coordinates
from tileproof.kernels.given_file import read_given
from tileproof.oracle.refusal import Refusal

FORMAT = 1
MAX_FILE_BYTES = 1 << 20
DEFAULT_FOLDER = Path(".tileproof") / "corpus"


@dataclass(frozen=True)
class Kept:
    """One file.

    Args:
        format: version of this form.
        case: id.
        place: where it ran.
        edits: of its inputs.
        why: what it was the first to show: signatures and routes.
        lines: that it was the first to reach, as `entry@text:line`.
    """

    format: int
    case: str
    place: Coordinates
    edits: tuple[Edit, ...]
    why: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def trial(self) -> Trial:
        """As it is run. Raises: Refusal where no contract knows the case any more."""
        case = parse_case(self.case)
        contract_of(case).check(case)
        return Trial(case, self.place, self.edits)


@dataclass
class Corpus:
    """A folder of kept trials.

    Args:
        folder: where; made when something is kept.
        known: everything that some kept trial shows.
        failure: why a file could not be written, if one could not: a search does not end for it.
    """

    folder: Path
    known: set[str] = field(default_factory=set)
    failure: str = ""

    def read(self, names: Iterable[str]) -> tuple[list[Kept], list[str]]:
        """The kept trials of these contracts, and what is wrong with files that hold none."""
        found, wrong = [], []
        for path in (path for name in names for path in sorted((self.folder / name).glob("*.json"))):
            try:
                kept = read_kept(path)
            except Refusal as refusal:
                wrong.append(refusal.message)
                continue
            found.append(kept)
            self.known |= {*kept.why, *kept.lines}
        return found, wrong

    def keep(self, trial: Trial, why: Iterable[str], lines: Iterable[str] = ()) -> bool:
        """Keep a trial if it shows anything that none did. Returns whether it is kept."""
        new_why = tuple(one for one in why if one not in self.known)
        new_lines = tuple(sorted(line for line in lines if line not in self.known))
        if not new_why and not new_lines:
            return False
        self.known |= {*new_why, *new_lines}
        return self._write(Kept(FORMAT, str(trial.case), trial.place, trial.edits, new_why, new_lines))

    def _write(self, kept: Kept) -> bool:
        key = json.dumps([kept.case, to_json(kept.place), to_json(kept.edits)])
        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        path = self.folder / kept.case.split("/")[0] / f"{name}.json"
        beside = path.with_name(f"{name}.{uuid.uuid4().hex}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                beside.write_text(json.dumps(to_json(kept), indent=1), encoding="utf-8")
                os.replace(beside, path)
            finally:
                beside.unlink(missing_ok=True)
        except OSError as error:
            self.failure = self.failure or f"corpus {path} cannot be written: {error.strerror}"
            return False
        return True


def read_kept(path: Path) -> Kept:
    """One file. Raises: Refusal where it is damaged, too large, of another form, or of a case that is not known."""
    data = parse_json(read_given(path, MAX_FILE_BYTES), str(path))
    try:
        return _kept(data)
    except Refusal as refusal:
        raise Refusal(f"{path}: {refusal.message}", hint=refusal.hint) from None


def _kept(data: object) -> Kept:
    if isinstance(data, dict) and data.get("format") != FORMAT:
        raise Refusal(f"form {shorten(data.get('format'))} of kept trial, this version reads {FORMAT}")
    kept = from_json(Kept, data)
    _ = kept.trial
    return kept


def known_contracts(folder: Path) -> Iterator[str]:
    """Names of contracts of which a folder keeps trials."""
    yield from (name for name in contracts() if (folder / name).is_dir())
