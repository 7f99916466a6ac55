"""P24: oracles that cannot be right are rejected, on the very case, before any kernel is judged by it.

The kernel is right and the oracle wrong; a verdict that finds nothing compares nothing, or compares with a tolerance.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Allowed, Arrays, EditedSource, Right
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.registry import contract_of
from tileproof.conformance.run_case import run_case
from tileproof.oracle.formats import FORMATS
from tileproof.simulators.ptx.device import Device

Array = NDArray[Any]
Wrong = Callable[[Array, str], Array]


def _times(factor: float) -> Wrong:
    def scaled(array: Array, name: str) -> Array:
        if name in FORMATS:
            record = FORMATS[name]
            return np.asarray(record.encode(record.decode(array) * factor))
        with np.errstate(all="ignore"):
            return np.asarray(array.astype(np.float64) * factor).astype(array.dtype)

    return scaled


def _flipped(array: Array, name: str) -> Array:
    """Another sign; of an integer, the lowest bit."""
    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    highest = 0 if name.startswith(("INT", "UINT")) else 8 * array.dtype.itemsize - 1
    return np.asarray((bits ^ bits.dtype.type(1 << highest)).view(array.dtype))


def _swapped(array: Array, name: str) -> Array:
    """Nibbles exchanged in every byte."""
    data = np.ascontiguousarray(array).view(np.uint8)
    return np.asarray(((data << 4) | (data >> 4)).view(array.dtype))


WRONG: Mapping[str, Wrong] = {
    "zeros": lambda array, name: np.zeros_like(array),
    "0.72 times the value": _times(0.72),
    "1.05 times the value": _times(1.05),
    "another sign": _flipped,
    "rows the other way round": lambda array, name: array[::-1].copy(),
    "nibbles exchanged": _swapped,
}
"""What becomes of the right outputs of an array and its format."""


def accepted(case: Case, source: EditedSource | None = None) -> tuple[str, ...]:
    """The wrong oracles that no finding of the case rejects."""
    return tuple(name for name, wrong in WRONG.items() if not rejected(case, wrong, source))


def rejected(case: Case, wrong: Wrong, source: EditedSource | None = None) -> bool:
    """Whether the verdict on a case is a mismatch by a wrong oracle."""
    contract = contract_of(case)
    formats = {spec.name: spec.format for spec in contract.tensors(case.shape)}

    def oracle(values: Arrays, arch: str) -> Right:
        right = contract.expected(case, values, arch)
        return {name: _made_wrong(one, wrong, formats[name]) for name, one in right.items()}

    found = run_case(case, Device(schedule="friendly"), kernel_source=source, expected=oracle).findings
    return any(finding.kind is FindingKind.MISMATCH for finding in found)


def _made_wrong(right: Array | Allowed, wrong: Wrong, name: str) -> Array | Allowed:
    if isinstance(right, Allowed):
        return Allowed(wrong(right.lower, name), wrong(right.upper, name))
    return wrong(right, name)
