"""What the shape and the id of an `astrai_quantize` case say: types, outputs, ring, and what the host knows of it.

Example: `R33.C65.B12.S4.W16.bf16re4m3te5m2` is 33 rows of 65 bf16 elements, to e4m3 row by row and to e5m2 transposed,
by at most 12 blocks, with a ring of the fourth stage (double-buffered) whose window is 16. S0 has no ring; S0.W0 has
no tensor for the maximum either: nobody asks for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

from tileproof.conformance.case import Case, Shape
from tileproof.oracle.formats import E4M3FN, E5M2, FloatFormat
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.ring_stage import RING_STAGES, Field, RingStage
from tileproof.oracle.ring.scale_formula import MARGIN_LIMIT

CONTRACT = "astrai_quantize"
DIMENSIONS = ("R", "C", "B", "S", "W")

DTYPES: Mapping[str, np.dtype[Any]] = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
}
FORMATS: Mapping[str, FloatFormat] = {"e4m3": E4M3FN, "e5m2": E5M2}

MARGINS = (0, 0, 1, 3, -2, 9)
WIDE_MARGINS = (-MARGIN_LIMIT, MARGIN_LIMIT, -101, 100)
"""By seed: the ends of what a ring takes, and both ways in which ldexpf multiplies by a power of two."""

WIDE = "wide-margins"
"""The family whose rings have these."""

MOST_BLOCKS = 132 * 8
"""Of a launch: as many as an H200 holds at a time."""


@dataclass(frozen=True)
class Types:
    """The element type of x and the formats of the outputs; None for an output that is not written."""

    x: np.dtype[Any]
    rows: FloatFormat | None
    transposed: FloatFormat | None

    @property
    def formats(self) -> tuple[FloatFormat, ...]:
        """Of the outputs that are written."""
        return tuple(one for one in (self.rows, self.transposed) if one is not None)


def _tokens() -> dict[str, Types]:
    """All spellings: `bf16re4m3` writes rows, `bf16te5m2` transposed codes, `bf16re4m3te5m2` both."""
    names = (None, *FORMATS)
    return {
        token(x, rows, transposed): Types(
            DTYPES[x],
            None if rows is None else FORMATS[rows],
            None if transposed is None else FORMATS[transposed],
        )
        for x, rows, transposed in product(DTYPES, names, names)
        if rows is not None or transposed is not None
    }


def token(x: str, rows: str | None, transposed: str | None) -> str:
    """The element type of a shape token."""
    return x + (f"r{rows}" if rows else "") + (f"t{transposed}" if transposed else "")


TYPES: Mapping[str, Types] = _tokens()


@dataclass(frozen=True)
class Setting:
    """What a shape says.

    Args:
        rows: R.
        columns: C.
        blocks: the most blocks of the launch.
        stage: of the ring; None without one.
        window: of the ring.
        types: of x and the outputs.
    """

    rows: int
    columns: int
    blocks: int
    stage: RingStage | None
    window: int
    types: Types

    @property
    def brings_scale(self) -> bool:
        """Whether the multiplier is a tensor of its own: without a ring, and as a snapshot by the self-cleaning one."""
        return self.stage is None or self.stage.name == "self-cleaning"

    @property
    def brings_amax(self) -> bool:
        """Whether the maximum is collected in a tensor of its own."""
        return self.window > 0 if self.stage is None else self.stage.maximum_field is None

    @property
    def is_step(self) -> bool:
        """Whether the scale that is read is a step."""
        return not self.brings_scale and self.stage is not None and Field.RECIPROCAL not in self.stage.fields

    @property
    def target(self) -> FloatFormat:
        """What the ring scales for: the format of the rows, or else the only one."""
        return self.types.formats[0]


@dataclass(frozen=True)
class Host:
    """What the host counts, and the recipe's margin."""

    index: int
    current: int
    margin: int


def setting(shape: Shape) -> Setting:
    """What a shape says. Raises: Refusal for a stage that there is not."""
    rows, columns, blocks, stage, window = (shape.size(name) for name in DIMENSIONS)
    if stage > len(RING_STAGES):
        names = ", ".join(f"S{number} {one.name}" for number, one in enumerate(RING_STAGES, start=1))
        raise Refusal(f"shape {shape} has a ring of stage S{stage}", hint=f"S0 is no ring, {names}")
    return Setting(rows, columns, blocks, RING_STAGES[stage - 1] if stage else None, window, TYPES[shape.dtype])


def generators(case: Case) -> tuple[np.random.Generator, np.random.Generator]:
    """One for the host's part, one for the data."""
    host, data = case.random().spawn(2)
    return host, data


def host(case: Case) -> Host:
    """The host's part of a case with a ring: drawn, so that seeds reach every index and both pairs."""
    random, _ = generators(case)
    stage = setting(case.shape).stage
    index = int(random.integers(max(case.shape.size("W"), 1)))
    current = int(random.integers(stage.pairs)) if stage is not None else 0
    margin = WIDE_MARGINS[case.seed % len(WIDE_MARGINS)] if case.family == WIDE else random.choice(MARGINS)
    return Host(index, current, int(margin))
