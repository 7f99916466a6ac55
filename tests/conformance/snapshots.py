"""Texts that commands print, held to committed files.

    TILEPROOF_UPDATE_SNAPSHOTS=1 pytest tests/conformance/test_snapshots.py

writes them anew; the difference is then looked at in git, as any other.
"""

import os
import re
from pathlib import Path

FOLDER = Path(__file__).parent / "snapshots"
SWITCH = "TILEPROOF_UPDATE_SNAPSHOTS"

_SECONDS = re.compile(r"\b\d+\.\d s\b")
_CLOCK = re.compile(r"\b\d:\d\d:\d\d\b")


def held(name: str, text: str) -> None:
    """Compare a text with its file, or write it where the switch is set.

    Args:
        name: of the file, without ".txt".
        text: times in it are made alike, and the escape that begins a colour is made visible.
    """
    steady = _CLOCK.sub("0:00:00", _SECONDS.sub("1.0 s", text)).replace("\x1b", "␛")
    path = FOLDER / f"{name}.txt"
    if os.environ.get(SWITCH):
        path.parent.mkdir(exist_ok=True)
        path.write_text(steady, encoding="utf-8")
    assert path.exists(), f"there is no snapshot {name}; set {SWITCH}=1 to write it"
    assert steady == path.read_text(encoding="utf-8"), (
        f"{name} has changed; set {SWITCH}=1 to write it, then look at it"
    )


def names() -> set[str]:
    """Of all snapshots that there are."""
    return {path.stem for path in FOLDER.glob("*.txt")}
