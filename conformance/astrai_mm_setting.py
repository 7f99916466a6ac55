"""What a shape of `astrai_mm_fp8` says: extents, batches, and by its type token layout, format, bias and output.

The token `tne5m2b8o8` is layout TN, operands e5m2, an FP8 bias, e4m3 outputs; `b16` is a bf16 bias, and without `o8`
the outputs are bf16. `Ba0` is an operand a of two dimensions, `Ba1` a batch of one matrix.
"""

from dataclasses import dataclass
from functools import cache
from itertools import product

from tileproof.conformance.case import Shape
from tileproof.oracle.formats import E4M3FN, E5M2, FloatFormat

DIMENSIONS = ("Ba", "Bb", "M", "N", "K")
LAYOUTS = ("nt", "nn", "tn", "tt")
FORMATS = {"e4m3": E4M3FN, "e5m2": E5M2}
BIASES = {"": "", "b16": "bf16", "b8": "fp8"}
OUTPUTS = {"": False, "o8": True}

MOST_MATRICES = 65535
"""A block's z is its matrix: "Technical Specifications per Compute Capability", CUDA C++ Programming Guide 13.0."""


@dataclass(frozen=True)
class Types:
    """What a type token says.

    Args:
        a_turned: whether a is stored [K][M], not [M][K].
        b_turned: whether b is stored [N][K], not [K][N].
        format: of the operands, by its name in instructions.
        bias: "bf16", "fp8" or "" for none.
        fp8_out: whether the outputs are e4m3 and not bf16.
    """

    a_turned: bool
    b_turned: bool
    format: str
    bias: str
    fp8_out: bool

    @property
    def record(self) -> FloatFormat:
        """The operands' format."""
        return FORMATS[self.format]


TYPES = {
    f"{layout}{name}{bias}{out}": Types(layout[0] == "t", layout[1] == "t", name, BIASES[bias], OUTPUTS[out])
    for layout, name, bias, out in product(LAYOUTS, FORMATS, BIASES, OUTPUTS)
}
"""By token."""


@dataclass(frozen=True)
class Setting:
    """A shape, read.

    Args:
        a_batch: matrices of a; 0 for two dimensions.
        b_batch: likewise, of b.
        rows: M.
        columns: N.
        depth: K.
        types: what the token says.
    """

    a_batch: int
    b_batch: int
    rows: int
    columns: int
    depth: int
    types: Types

    @property
    def fits(self) -> bool:
        """Whether the batches are alike, or one of them is one matrix, and a grid has room for them."""
        return len({self.a_batch, self.b_batch} - {0, 1}) < 2 and self.batch <= MOST_MATRICES

    def leading(self, batch: int) -> tuple[int, ...]:
        """Extents before the two inner ones."""
        return (batch,) if batch else ()

    @property
    def batch(self) -> int:
        """Matrices of the output; 0 for two dimensions."""
        return max(self.a_batch, self.b_batch)


@cache
def setting(shape: Shape) -> Setting:
    """The setting of a shape."""
    a_batch, b_batch, rows, columns, depth = (shape.size(name) for name in DIMENSIONS)
    return Setting(a_batch, b_batch, rows, columns, depth, TYPES[shape.dtype])
