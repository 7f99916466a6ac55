"""What the compiled loop is made of: numba's cache watches the file of a compiled function, not those of its callees.

The loop carries a number that stands for the text of all of them; numba keys its cache on such numbers too.
"""

import hashlib
from pathlib import Path

_HERE = Path(__file__).parent


def _number(paths: list[Path]) -> int:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "little") | 1


# The files whose functions are compiled, and those whose constants they take.
_COMPILED = ("compare", "convert", "floating", "integer", "layout", "loop", "matrix", "memory", "parts", "pointers", "warp")
SOURCES = _number([_HERE / f"{name}.py" for name in _COMPILED])
