"""The call sites of the FP8 product: what each writes, and the policy of `fp8_a8_output.cuh` that writes it.

Example: `linear_swiglu` of a weight with N = 34,816 rows writes one output of 17,408 columns: rows 0 .. 17,407 are
gates, and row 17,408 + i is what gate i is multiplied by.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True, kw_only=True)
class CallSite:
    """One way to use the product.

    Args:
        name: as ninfer calls the operator.
        policy: the structure of fp8_a8_output.cuh.
        outputs: names of the outputs, in the order of their weight rows.
        paired: whether the second half of the weight's rows goes into the outputs of the first.
        adds: whether the output is read first and added.
    """

    name: str
    policy: str
    outputs: tuple[str, ...] = ("out",)
    paired: bool = False
    adds: bool = False

    def check_rows(self, rows: int, widths: Sequence[int]) -> None:
        """Whether outputs of these widths are what a weight of `rows` rows makes.

        Raises:
            Refusal: they are not.
        """
        needed = 2 * sum(widths) if self.paired else sum(widths)
        if rows == needed:
            return
        columns = " + ".join(f"{name} {width}" for name, width in zip(self.outputs, widths, strict=True))
        factor = "twice " if self.paired else ""
        raise Refusal(
            f"{self.name}: weight has N = {rows} rows; the outputs' columns need {factor}{columns} = {needed}"
        )

    def begins(self, widths: Sequence[int]) -> tuple[int, ...]:
        """The weight row at which each output begins."""
        return tuple(accumulate(widths, initial=0))[: len(widths)]


LINEAR = CallSite(name="linear", policy="Linear")
LINEAR_ADD = CallSite(name="linear_add", policy="LinearAdd", adds=True)
LINEAR_SWIGLU = CallSite(name="linear_swiglu", policy="SwiGlu", paired=True)
ATTN_INPUT_PROJ = CallSite(name="attn_input_proj", policy="Split", outputs=("query", "key", "gate", "value"))
GDN_INPUT_PROJ = CallSite(name="gdn_input_proj", policy="Split", outputs=("qkv", "z"))

CALL_SITES = (LINEAR, LINEAR_ADD, LINEAR_SWIGLU, ATTN_INPUT_PROJ, GDN_INPUT_PROJ)

NINFER_SHAPES = (
    (LINEAR_ADD, 5120, 17408),
    (LINEAR_ADD, 5120, 6144),
    (LINEAR, 5120, 17408),
    (LINEAR, 5120, 6144),
    (ATTN_INPUT_PROJ, 14336, 5120),
    (GDN_INPUT_PROJ, 16384, 5120),
    (LINEAR_SWIGLU, 34816, 5120),
)
"""Where ninfer's model calls the product: call site, N and K of the weight."""
