"""Ids of the cases of any tier that no recording of the GPU has yet, one a line.

python tests/h200/missing_cases.py
"""

import json
import sys
from pathlib import Path

from tileproof.conformance.contract import Tier
from tileproof.conformance.registry import contracts

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"


def main() -> None:
    recorded = [json.loads(path.read_text()) for path in EVIDENCE.glob("h200-*/*cases.json")]
    ran = {case for one in recorded for case in (*one["digests"], *one["passed_with_different_bytes"])}
    cases = [str(case) for contract in contracts().values() for case in contract.cases(Tier.SOAK)]
    sys.stdout.writelines(f"{case}\n" for case in cases if case not in ran)


if __name__ == "__main__":
    main()
