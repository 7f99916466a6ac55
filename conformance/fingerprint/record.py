"""A fingerprint as JSON: what is named, and every probe."""

from dataclasses import asdict
from typing import Any

from tileproof.conformance.fingerprint.fingerprint import Fingerprint
from tileproof.conformance.fingerprint.report import rows


def to_record(found: Fingerprint) -> dict[str, Any]:
    """Plain strings, numbers and lists."""
    return {
        "box": found.box,
        "operand": found.operand,
        "k": [found.k, 2 * found.k],
        "known": found.is_known,
        "fields": dict(rows(found)),
        "accumulator": asdict(found.accumulator) if found.accumulator else None,
        "models that are not told apart": len(found.alike),
        "remarks": found.remarks,
        "outputs": found.outputs,
        "probes": [asdict(proof) for proof in found.proofs],
    }
