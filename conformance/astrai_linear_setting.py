"""What a shape of `astrai_linear` and `astrai_linear_backward` says: extents, formats, and which program runs.

Example: `P4.S3.B0.M5.N9.K17.W2.e4m3e5m2b16` is program 4 (late-backward, see `astrai_linear_program`) of three steps,
x [5, 17] and w [9, 17], rings with a window of 2, forward format e4m3, backward e5m2, with a bias. `B2` makes x
[2, 5, 17].
"""

from dataclasses import dataclass
from functools import cache
from itertools import product

from tileproof.conformance.case import Case, Shape
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.scale_recipe import HYBRID, PURE_E4M3, PURE_E5M2, FormatPolicy, ScaleRecipe

FORWARD, BACKWARD = "astrai_linear", "astrai_linear_backward"
KERNEL = "fp8_linear"
DIMENSIONS = ("P", "S", "B", "M", "N", "K", "W")

FORMATS: dict[str, FormatPolicy] = {"e4m3e5m2": HYBRID, "e4m3e4m3": PURE_E4M3, "e5m2e5m2": PURE_E5M2}
TOKENS = tuple(formats + bias for formats, bias in product(FORMATS, ("", "b16")))

PROGRAMS = (
    "training",
    "unchanged-weight",
    "no-gradients",
    "checkpointed",
    "late-backward",
    "shared-activation",
    "quantised-weight",
    "renewed-weight",
    "changed-recipe",
    "reset",
    "restored",
)
"""By number; the route of a case is its program."""

RESTORED_AT = 4
"""The step in front of which the program `restored` takes its checkpoint."""

WITHOUT_GRADIENTS = "no-gradients"
QUANTISED = PROGRAMS.index("quantised-weight")
MARGINS = (0, 0, 1, -1, 3)


@dataclass(frozen=True)
class Setting:
    """A shape, read.

    Args:
        program: its name.
        steps: S.
        leading: of x, in front of its rows: none, or B.
        rows: M.
        columns: N.
        depth: K.
        window: of the rings.
        formats: of the recipe.
        biased: whether there is a bias.
    """

    program: str
    steps: int
    leading: tuple[int, ...]
    rows: int
    columns: int
    depth: int
    window: int
    formats: FormatPolicy
    biased: bool

    @property
    def tokens(self) -> tuple[int, ...]:
        """Extents of x before its last."""
        return (*self.leading, self.rows)

    @property
    def is_quantised(self) -> bool:
        """Whether the weight arrives as codes."""
        return self.program == PROGRAMS[QUANTISED]

    def recipe(self, margin: int) -> ScaleRecipe:
        """The recipe with a margin."""
        return ScaleRecipe(self.window, margin, self.formats)


@cache
def setting(shape: Shape) -> Setting:
    """The setting of a shape. Raises: Refusal for a program that there is not."""
    program, steps, batch, rows, columns, depth, window = (shape.size(name) for name in DIMENSIONS)
    if program >= len(PROGRAMS):
        names = ", ".join(f"P{number} {name}" for number, name in enumerate(PROGRAMS))
        raise Refusal(f"shape {shape} has program P{program}", hint=names)
    formats, biased = shape.dtype.removesuffix("b16"), shape.dtype.endswith("b16")
    leading = (batch,) if batch else ()
    return Setting(PROGRAMS[program], steps, leading, rows, columns, depth, window, FORMATS[formats], biased)


def margin_of(case: Case) -> int:
    """The recipe's margin, drawn, so that seeds reach all."""
    return int(case.random().choice(MARGINS))
