"""Matrix instructions on float32 and float64 that are chains of fused multiply-adds: one rounding a step, k in order.

D = fma(a[K-1], b[K-1], ... fma(a[1], b[1], fma(a[0], b[0], C))), to nearest even and with subnormals (IEEE 754-2019,
5.4.1).
NVIDIA's `mma` on f64 (sm_80 on) and AMD's `v_mfma` on f32 and f64. Source: MMA-Sim, arXiv 2511.10909v2. The code of a
NaN is not published; ours is the format's canonical one.
"""

from collections.abc import Sequence

from tileproof.oracle.units.rounded_sum import rounded_sum
from tileproof.oracle.units.term import Term, decode_term
from tileproof.oracle.units.unit import FmaChain


def fma_chain(unit: FmaChain, products: Sequence[Term], c: int) -> int:
    """The code of the chain: exact products in the order of k, starting from the code of C."""
    for product in products:
        c = rounded_sum(unit.format, [product, decode_term(unit.format, c)])
    return c
