"""Matrix operations in machine code: none yet."""

from typing import Any

from tileproof.simulators.ptx.fast.parts import part


@part
def matrix(row: Any, operands: Any, values: Any, runs: Any, spaces: Any, counters: Any) -> Any:
    """One matrix operation of whole warps; not 0 for handed back."""
    return 1
