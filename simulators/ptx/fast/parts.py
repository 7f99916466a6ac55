"""How the parts of the compiled loop are compiled: with the loop, not each for itself.

Division by zero is IEEE 754's, integers wrap, and nobody calls a part from Python.
"""

from functools import partial
from typing import Any

import numba

#: A function of the loop.
part: Any = partial(numba.njit, no_cpython_wrapper=True, error_model="numpy")
#: A function that becomes part of its callers.
inlined: Any = partial(numba.njit, no_cpython_wrapper=True, error_model="numpy", forceinline=True)
