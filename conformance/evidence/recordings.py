"""What the committed recordings of a GPU say: which cases passed there, and which PTX their kernels had.

Files `*cases.json` hold the cases that passed on both devices, `confirmed.json` cases that passed on the GPU alone.
Both say which kernels ran (`launched`); for older files `ptx.json` says it, derived from the repository's history.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileproof.conformance.evidence.kernel_key import parse_key
from tileproof.conformance.records import parse_json, shorten
from tileproof.kernels.given_file import read_given
from tileproof.oracle.refusal import Refusal

FOLDERS = "h200-*"
MAX_FILE_BYTES = 1 << 26
DERIVED = "ptx.json"


@dataclass(frozen=True)
class Confirmation:
    """A case passed on a GPU.

    Args:
        device: the GPU, as "NVIDIA H200".
        file: the recording, below the folder of evidence.
        kernels: digest of each kernel that ran, by instance; of an older recording, of every kernel that it knows.
    """

    device: str
    file: str
    kernels: Mapping[str, str]


Recordings = Mapping[str, tuple[Confirmation, ...]]
"""Confirmations by case id."""


def recordings(folder: Path) -> Recordings:
    """All confirmations below the folder of evidence. Raises: Refusal where a file is not as it must be."""
    found: dict[str, list[Confirmation]] = {}
    for path in sorted(folder.glob(f"{FOLDERS}/*.json")):
        if path.name.endswith("cases.json") or path.name.startswith("confirmed"):
            for case, confirmation in _of_file(path, folder):
                found.setdefault(case, []).append(confirmation)
    return {case: tuple(those) for case, those in found.items()}


def _of_file(path: Path, folder: Path) -> Iterator[tuple[str, Confirmation]]:
    data, name = _read(path), str(path.relative_to(folder))
    try:
        device = data["environment"]["gpu"].split(",")[0]
        if "launched" in data:
            for group in data["launched"]:
                keys = {key.instance: key.digest for key in map(parse_key, group["kernels"])}
                yield from ((case, Confirmation(device, name, keys)) for case in group["cases"])
            return
        derived = path.parent / DERIVED
        known = _read(derived)["recordings"].get(path.name, {}) if derived.exists() else {}
        confirmation = Confirmation(device, name, known)
        yield from ((case, confirmation) for case in (*data["digests"], *data["passed_with_different_bytes"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise Refusal(f"{path}: not a recording: {shorten(str(error))} is missing or of another type") from None


def _read(path: Path) -> Any:
    return parse_json(read_given(path, MAX_FILE_BYTES), str(path))


def device_names(found: Recordings) -> tuple[str, ...]:
    """The GPUs that recordings are of."""
    return tuple(sorted({one.device for those in found.values() for one in those}))
