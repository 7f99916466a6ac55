"""Coverage as plain records, a line of NDJSON each: `{"record": "cell", ...}`, then marks, holes and the totals."""

from collections.abc import Iterator
from typing import Any

from tileproof.conformance.coverage.coverage import Coverage
from tileproof.conformance.records import to_json


def records(found: Coverage) -> Iterator[dict[str, Any]]:
    """All records."""
    for name, those in (("cell", found.cells), ("mark", found.marks), ("hole", found.holes)):
        yield from ({"record": name, **to_json(one)} for one in those)
    yield {
        "record": "totals",
        "devices": list(found.devices),
        "instances": found.instances,
        "routes": found.routes,
        "faults": found.faults,
        "holes": len(found.holes),
        "unexplained": len(found.unexplained),
        "part": found.part,
    }
