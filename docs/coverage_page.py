"""docs/coverage.md: from the declarations of the contracts, the file of known kernels and the committed recordings."""

from functools import cache
from pathlib import Path

from tileproof.conformance.coverage.coverage import Coverage, Sources, coverage, kernel_stems
from tileproof.conformance.coverage.tables import page
from tileproof.conformance.evidence.dry_device import DryDevice
from tileproof.conformance.evidence.kernel_file import FILE, read_modules, write_modules
from tileproof.conformance.evidence.launch_file import FILE as LAUNCHES
from tileproof.conformance.evidence.launch_file import read_forms
from tileproof.conformance.evidence.recordings import recordings
from tileproof.conformance.faults import faults
from tileproof.conformance.registry import built_in

EVIDENCE = Path(__file__).parent / "evidence"


@cache
def covered() -> tuple[Coverage, DryDevice]:
    """Of all contracts, and the device that knows their kernels."""
    device = DryDevice(read_modules(EVIDENCE / FILE))
    sources = Sources(
        contracts=tuple(built_in().values()),
        device=device,
        recordings=recordings(EVIDENCE),
        forms=read_forms(EVIDENCE / LAUNCHES),
        faults=tuple(faults().values()),
        kernels=tuple(kernel_stems()),
    )
    return coverage(sources), device


def coverage_page() -> str:
    """docs/coverage.md."""
    return page(covered()[0])


def renew_known_kernels() -> None:
    """Write the file of known kernels anew: variants whose source has changed are compiled."""
    write_modules(EVIDENCE / FILE, covered()[1].modules.values())
