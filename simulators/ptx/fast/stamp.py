"""What the compiled loop is made of: numba's cache watches the file of a compiled function, not those of its callees.

The loop carries a number that stands for the text of all of them; numba keys its cache on such numbers too.
"""

import hashlib
from pathlib import Path

from tileproof.oracle.units import fma_chain_array, unit_kernels
from tileproof.simulators.ptx import layout
from tileproof.simulators.ptx.machine import draws
from tileproof.simulators.ptx.machine.asynchronous import barriers, small_flights

_HERE = Path(__file__).parent


def _number(paths: list[Path]) -> int:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "little") | 1


#: Compiled code of other rooms that the loop calls.
_CALLED = [Path(module.__file__ or "") for module in (unit_kernels, fma_chain_array)]
_DRAWS = Path(draws.__file__ or "")
#: What the matrix instructions use of the room.
_BASE = [_HERE / f"{name}.py" for name in ("asking", "gates", "layout", "parts", "pointers", "warpgroups")]

# The files whose functions are compiled into the loop, and those whose constants they take.
_OWN = (
    "asking",
    "compare",
    "convert",
    "copy",
    "flights",
    "floating",
    "gates",
    "integer",
    "layout",
    "loop",
    "memory",
    "parts",
    "places",
    "pointers",
    "rows",
    "warp",
)

#: Files of other rooms whose constants are compiled into the loop.
_CONSTANTS = [Path(module.__file__ or "") for module in (layout, barriers, small_flights)]

MATRIX_WATCHED = [*_HERE.glob("matrix*.py"), *_BASE, *_CALLED]
WATCHED = [*MATRIX_WATCHED, *(_HERE / f"{name}.py" for name in _OWN), *_CONSTANTS, _DRAWS]
SOURCES = _number(WATCHED)
MATRIX_SOURCES = _number(MATRIX_WATCHED)
