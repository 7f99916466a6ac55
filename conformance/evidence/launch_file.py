"""The file that keeps what launchers passed when a GPU confirmed a case: `docs/evidence/launches.json`.

A recording of a GPU says which kernels ran, not with which grid and arguments. So these digests are taken on the CPU
when a recording is brought in (`tests/h200/keep_launches.py`), from the launchers that ran, and are never renewed but
by another run: a launcher that passes something else later loses the marks of its cases.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tileproof.conformance.records import from_json, parse_json
from tileproof.kernels.given_file import read_given

FILE = "launches.json"
MAX_FILE_BYTES = 1 << 24

Forms = Mapping[str, str]
"""Digest of the launches of a case, by its id."""


@dataclass(frozen=True)
class _File:
    launches: Mapping[str, tuple[str, ...]]


def read_forms(path: Path) -> Forms:
    """The digests of a file; none where there is no file. Raises: Refusal where it is not such a file."""
    if not path.exists():
        return {}
    file = from_json(_File, parse_json(read_given(path, MAX_FILE_BYTES), str(path)), str(path))
    return {case: digest for digest, cases in file.launches.items() for case in cases}


def write_forms(path: Path, forms: Forms) -> None:
    """A file anew, a line for each digest, with its cases in order."""
    by_digest: dict[str, list[str]] = {}
    for case, digest in sorted(forms.items()):
        by_digest.setdefault(digest, []).append(case)
    lines = ",\n".join(f" {json.dumps(digest)}: {json.dumps(cases)}" for digest, cases in sorted(by_digest.items()))
    path.write_text(f'{{"launches": {{\n{lines}\n}}}}\n')
