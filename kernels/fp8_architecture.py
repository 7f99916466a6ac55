"""Which architectures have FP8 at all: conversions and matrix unit came with the same one."""

from tileproof.kernels.compile import architecture_number
from tileproof.oracle.refusal import Refusal

FIRST_WITH_FP8 = 89
"""The first architecture with `cvt` to e4m3x2 and e5m2x2 and with `mma` of FP8 operands (PTX ISA 9.0, "cvt", "mma")."""


def check_fp8(arch: str, what: str) -> None:
    """Whether an architecture has what a kernel asks of it.

    Args:
        arch: for example "sm_90a".
        what: "matrix unit" or "conversions", for the message.

    Raises:
        Refusal: it has not.
    """
    if architecture_number(arch) < FIRST_WITH_FP8:
        raise Refusal(
            f"{arch} has no FP8 {what}; the first is sm_{FIRST_WITH_FP8}", hint="choose a device of a later one"
        )
