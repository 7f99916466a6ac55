"""Puts this folder on the path, so that a spawned worker can import the fakes that a test hands it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
