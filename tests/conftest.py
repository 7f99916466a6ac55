"""Settings of all tests.

Hypothesis runs without a clock and with fixed examples: the gate's outcome must not depend on the machine's load. The
folder of the conformance tests is on the path, so that a spawned worker can import the fakes that a test hands it.
"""

import sys
from pathlib import Path

from hypothesis import settings

settings.register_profile("gate", deadline=None, derandomize=True)
settings.load_profile("gate")
sys.path.insert(0, str(Path(__file__).parent / "conformance"))
