"""What a kernel takes of an SM, as the assembler reports it.

Example of the report (`--ptxas-options=-v`): "Compiling entry function 'k' for 'sm_90a'", then "0 bytes stack frame,
0 bytes spill stores, 0 bytes spill loads", then "Used 28 registers, used 1 barriers, 32 bytes smem".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tileproof.oracle.refusal import Refusal

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:, used (\d+) barriers)?")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Resources:
    """One kernel's needs.

    Attributes:
        registers: of a thread, 32 bits each.
        stack_bytes: of a thread.
        spill_store_bytes: that a thread stores because registers ran out, counted once for each place in the code.
        spill_load_bytes: likewise, loads.
        shared_bytes: static shared memory of a block.
        barriers: hardware barriers of a block.
    """

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    barriers: int


def resources_of(report: str) -> Mapping[str, Resources]:
    """Resources by entry name, from the assembler's report.

    Raises:
        Refusal: the report of an entry is not of the known form.
    """
    parts = _ENTRY.split(report)
    return {name: _resources(name, text) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def _resources(name: str, text: str) -> Resources:
    stack, used, shared = _STACK.search(text), _USED.search(text), _SHARED.search(text)
    if stack is None or used is None:
        raise Refusal(
            f"the assembler's report of {name} has no line of registers or stack",
            hint="NVRTC 13.0.88 is the release that this is made for",
        )
    return Resources(
        registers=int(used[1]),
        stack_bytes=int(stack[1]),
        spill_store_bytes=int(stack[2]),
        spill_load_bytes=int(stack[3]),
        shared_bytes=int(shared[1]) if shared else 0,
        barriers=int(used[2] or 0),
    )
