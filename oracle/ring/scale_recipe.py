"""What a training run chooses for its delayed scaling: window, margin, and which FP8 format each operand takes.

Under the hybrid policy the forward operands x and w have rings for E4M3FN (448), the gradient g one for E5M2 (57,344).
The backward pass casts w and x again, to E5M2 but with their forward scale: nothing overflows, and a factor of 128 of
the range stays empty.

Source: 0z5a/AstrAI astrai/extension/fp8.py (ring era), csrc/gemm/fp8_linear.cu @2fb0b143.
"""

from dataclasses import dataclass
from enum import Enum

from tileproof.oracle.arguments import require_member
from tileproof.oracle.formats import E4M3FN, E5M2, FloatFormat
from tileproof.oracle.refusal import Refusal


class Role(Enum):
    """Whose magnitudes a ring follows."""

    WEIGHT = "w"
    ACTIVATION = "x"
    GRADIENT = "g"


@dataclass(frozen=True)
class FormatPolicy:
    """A format for each direction."""

    name: str
    forward: FloatFormat
    backward: FloatFormat


HYBRID = FormatPolicy("hybrid", forward=E4M3FN, backward=E5M2)
PURE_E4M3 = FormatPolicy("e4m3", forward=E4M3FN, backward=E4M3FN)
PURE_E5M2 = FormatPolicy("e5m2", forward=E5M2, backward=E5M2)


@dataclass(frozen=True)
class ScaleRecipe:
    """Raises: Refusal for a window below 1."""

    #: Number of amax values that a ring remembers.
    window: int = 16
    #: Headroom of the scale in powers of two.
    margin: int = 0
    formats: FormatPolicy = HYBRID

    def __post_init__(self) -> None:
        if self.window < 1:
            raise Refusal(f"a window of {self.window} steps remembers nothing", hint="the window is at least 1")

    def ring_format(self, role: Role) -> FloatFormat:
        """The format whose largest value the ring of an operand divides by."""
        require_member(Role, "role", role)
        return self.formats.backward if role is Role.GRADIENT else self.formats.forward
