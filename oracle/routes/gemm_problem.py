"""A matrix product as a dispatcher sees it, and the plan that it answers with.

C[m][n] = A · B over k, `batch` times. An operand is *crosswise* if k is not its contiguous index: A stored [k][m], or B
stored [k][n]. Otherwise it is congruous; both congruous is a linear layer's forward pass, A [m][k] and B [n][k].
"""

from dataclasses import dataclass, replace
from enum import Enum

from tileproof.oracle.arguments import whole
from tileproof.oracle.refusal import Refusal


class Cta(Enum):
    """Output tile of a CTA; the value is (rows, columns)."""

    TILE_64X64 = (64, 64)
    TILE_64X128 = (64, 128)
    TILE_128X64 = (128, 64)
    TILE_128X128 = (128, 128)


@dataclass(frozen=True, kw_only=True)
class GemmProblem:
    """One call.

    Raises:
        Refusal: an extent, the batch or the number of SMs below 1 or no whole number.
    """

    m: int
    n: int
    k: int
    sm_count: int
    batch: int = 1
    #: A is stored [k][m].
    a_crosswise: bool = False
    #: B is stored [k][n].
    b_crosswise: bool = False

    def __post_init__(self) -> None:
        values = {"m": self.m, "n": self.n, "k": self.k, "sm_count": self.sm_count, "batch": self.batch}
        for name, given in values.items():
            value = whole(name, given)
            object.__setattr__(self, name, value)
            if value < 1:
                raise Refusal(f"{name} = {value} is below 1", hint="an empty problem has no plan; return before it")

    def tiles(self, cta: Cta) -> int:
        """Output tiles of the whole batch."""
        rows, columns = cta.value
        return self.batch * ceil_div(self.m, rows) * ceil_div(self.n, columns)

    @property
    def transposed(self) -> "GemmProblem":
        """The problem of the transposed output: operands exchanged, each as crosswise as it was."""
        return replace(self, m=self.n, n=self.m, a_crosswise=self.b_crosswise, b_crosswise=self.a_crosswise)


@dataclass(frozen=True)
class GemmPlan:
    """What is launched."""

    cta: Cta
    #: Depth of the pipeline.
    stages: int
    #: Ring with as many slots as stages; otherwise one more.
    lean: bool = False
    #: Crosswise B goes through a staging buffer and is transposed in shared memory.
    stages_b: bool = False
    #: Tiles of a raster group: 0 plain, positive along m, negative along n.
    raster: int = 0


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up, for b >= 1."""
    return -(-a // b)
