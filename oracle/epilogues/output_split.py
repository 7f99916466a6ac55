"""Projections that write several outputs: which columns of the product go to which tensor, each contiguous [T, width].

Example, ninfer's attention input projection of 14,336 columns: column 7000 is `key` column 856.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class Part:
    """Columns begin .. end - 1 of the product, the columns 0 .. end - begin - 1 of one output."""

    name: str
    begin: int
    end: int

    @property
    def width(self) -> int:
        """Columns of the output."""
        return self.end - self.begin


@dataclass(frozen=True)
class OutputSplit:
    """Outputs in the order of their columns, without gap or overlap.

    Raises:
        Refusal: a gap, an overlap, an empty part, or a name twice.
    """

    name: str
    parts: tuple[Part, ...]
    source: str

    def __post_init__(self) -> None:
        begins = [0, *(part.end for part in self.parts)]
        for part, begin in zip(self.parts, begins, strict=False):
            if part.begin != begin or part.end <= begin:
                raise Refusal(f"{self.name}: part {part.name} is [{part.begin}, {part.end}), after {begin} columns")
        if len({part.name for part in self.parts}) != len(self.parts):
            raise Refusal(f"{self.name}: a name of a part is there twice")

    @property
    def columns(self) -> int:
        """Columns of the product."""
        return self.parts[-1].end

    def locate(self, column: int) -> tuple[Part, int]:
        """The part that a column of the product goes to, and its column there.

        Raises:
            Refusal: a column outside the product.
        """
        for part in self.parts:
            if part.begin <= column < part.end:
                return part, column - part.begin
        raise Refusal(f"{self.name}: column {column} is outside 0..{self.columns - 1}")

    def split(self, product: npt.NDArray[Any]) -> Mapping[str, npt.NDArray[Any]]:
        """The outputs by name, each a contiguous copy [T, width].

        Args:
            product: [T, columns].

        Raises:
            Refusal: another shape.
        """
        if product.ndim != 2 or product.shape[1] != self.columns:
            raise Refusal(f"{self.name}: a product of shape {product.shape}", hint=f"[T, {self.columns}]")
        return {part.name: np.ascontiguousarray(product[:, part.begin : part.end]) for part in self.parts}


_GINFER = "Gadflyii/ginfer @a19d247d, attention and gdn outputs of src/ops"

NINFER_ATTENTION = OutputSplit(
    name="ninfer attn_input_proj",
    parts=(
        Part("query", 0, 6144),
        Part("key", 6144, 7168),
        Part("gate", 7168, 13312),
        Part("value", 13312, 14336),
    ),
    source=_GINFER,
)
NINFER_GDN = OutputSplit(
    name="ninfer gdn_input_proj",
    parts=(Part("qkv", 0, 10240), Part("z", 10240, 16384)),
    source=_GINFER,
)
