"""A trial: one case at one place, with its generated inputs changed in a few elements.

The case's id says parameters and the generated inputs; each edit then puts bits into one element. Example: `x` is
bf16 [1, 9] and an edit is (x, 3, 0x7f81): element 3 in row-major order becomes a signalling NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Arrays
from tileproof.conformance.registry import contract_of
from tileproof.conformance.run_case import case_inputs
from tileproof.conformance.target import Coordinates
from tileproof.oracle.refusal import Refusal

MAX_NAMED = 3


@dataclass(frozen=True)
class Edit:
    """Bits for one element of an input.

    Args:
        tensor: its name.
        index: of the element, in row-major order.
        bits: to be stored there.
    """

    tensor: str
    index: int
    bits: int

    def __str__(self) -> str:
        return f"{self.tensor}[{self.index}] = {self.bits:#x}"


@dataclass(frozen=True)
class Trial:
    """What is run.

    Args:
        case: parameters, input family and seed.
        place: target, architecture, schedule and its seed.
        edits: of the generated inputs, in order.
    """

    case: Case
    place: Coordinates
    edits: tuple[Edit, ...] = ()

    @property
    def origin(self) -> str:
        """In words where the inputs come from; empty where the id says it all."""
        if not self.edits:
            return ""
        named = ", ".join(map(str, self.edits[:MAX_NAMED]))
        left = len(self.edits) - MAX_NAMED
        return f"the id, with {named}" + (f" and {left} more" if left > 0 else "")

    def inputs(self) -> Arrays:
        """The inputs. Raises: Refusal for an edit of what the case does not have."""
        return edited(case_inputs(self.case), self.edits)

    def elements(self) -> int:
        """Of all tensors of the case: what makes a trial small."""
        return sum(prod(spec.shape) for spec in contract_of(self.case).tensors(self.case.shape))


def edited(inputs: Arrays, edits: Sequence[Edit]) -> Arrays:
    """Copies of the inputs, changed. Raises: Refusal for a tensor or an element that there is not."""
    if not edits:
        return inputs
    made = {name: np.ascontiguousarray(array).copy() for name, array in inputs.items()}
    for edit in edits:
        array = made.get(edit.tensor)
        if array is None or not 0 <= edit.index < array.size:
            raise Refusal(f"{edit}: the case has no such element")
        width = np.dtype(f"u{array.dtype.itemsize}")
        if not 0 <= edit.bits <= np.iinfo(width).max:
            raise Refusal(f"{edit}: an element of {edit.tensor} has {width.itemsize} bytes")
        array.reshape(-1).view(width)[edit.index] = edit.bits
    return made
