"""Keep what the launchers of this checkout pass, for cases that a GPU has confirmed and of which nothing is kept yet.

    python tests/h200/keep_launches.py [GLOB]     # anew for cases that match, after they have run on a GPU again

Run it in the checkout whose launchers ran, when a recording is brought in; see docs/evidence/README.md.
"""

import sys
from fnmatch import fnmatchcase
from pathlib import Path

from tileproof.conformance.case import Case
from tileproof.conformance.evidence.dry_device import DryDevice
from tileproof.conformance.evidence.kernel_file import FILE as KERNELS
from tileproof.conformance.evidence.kernel_file import read_modules
from tileproof.conformance.evidence.launch_file import FILE, read_forms, write_forms
from tileproof.conformance.evidence.launched import asked
from tileproof.conformance.evidence.recordings import recordings
from tileproof.conformance.evidence.standing import Standing, standing
from tileproof.conformance.registry import find_case
from tileproof.oracle.refusal import Refusal

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"


def main(anew: str = "") -> None:
    kept = dict(read_forms(EVIDENCE / FILE))
    confirmed = recordings(EVIDENCE)
    wanted = [case for one in confirmed if one not in kept or fnmatchcase(one, anew) for case in _known(one)]
    found = asked(wanted, DryDevice(read_modules(EVIDENCE / KERNELS)))
    stand = {
        str(case): one.form
        for case, one in found.items()
        if standing(one.kernels, confirmed[str(case)]) is Standing.CONFIRMED
    }
    write_forms(EVIDENCE / FILE, kept | stand)
    sys.stdout.write(f"{len(stand)} cases kept, {len(kept | stand)} in all\n")


def _known(name: str) -> list[Case]:
    """The case of an id; none where no contract knows it any more."""
    try:
        return [find_case(name)]
    except Refusal:
        return []


if __name__ == "__main__":
    main(*sys.argv[1:])
