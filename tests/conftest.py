"""Settings of all tests.

Hypothesis runs without a clock and with fixed examples: the gate's outcome must not depend on the machine's load. What
the test files of a folder share stands in a module beside them, hence these folders are on the path; a spawned worker
imports the fakes that a test hands it from there too.
"""

import sys
from pathlib import Path

from hypothesis import settings

collect_ignore = ["foreign"]  # unless it is named: `make foreign` fetches the packages that it needs

settings.register_profile("gate", deadline=None, derandomize=True)
settings.load_profile("gate")
_SHARED = (
    "conformance",
    "foreign",
    "fuzz",
    "gfx928",
    "hostile",
    "kernels",
    "litmus",
    "oracle",
    "order_table",
    "protocols",
    "simulators",
)
for folder in _SHARED:
    sys.path.insert(0, str(Path(__file__).parent / folder))
