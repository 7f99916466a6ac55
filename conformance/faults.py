"""All faults by name, and `fault` to find one; what a fault is stands in the module `fault`."""

import difflib
from collections.abc import Mapping
from functools import cache

from tileproof.conformance.astrai_linear_faults import FAULTS as ASTRAI_LINEAR
from tileproof.conformance.astrai_mm_fp8_faults import FAULTS as ASTRAI_MM
from tileproof.conformance.astrai_quantize_faults import FAULTS as ASTRAI_QUANTIZE
from tileproof.conformance.astrai_scale_products_faults import FAULTS as ASTRAI_SCALES
from tileproof.conformance.fault import Fault
from tileproof.conformance.fp8_a8_tma_faults import FAULTS as TMA
from tileproof.conformance.gate_faults import FAULTS as GATE
from tileproof.conformance.metainfer_pack_faults import FAULTS as PACK
from tileproof.conformance.metainfer_w8a8_faults import FAULTS as W8A8
from tileproof.conformance.ninfer_gemm_faults import FAULTS as GEMM
from tileproof.conformance.ninfer_quantize_faults import FAULTS as QUANTIZE
from tileproof.oracle.refusal import Refusal


def fault(name: str) -> Fault:
    """The fault of that name. Raises: Refusal for an unknown name, with near matches."""
    known = faults()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        hint = "did you mean " + ", ".join(near) if near else "`tileproof list --faults` shows what there is"
        raise Refusal(f"unknown fault {name!r}", hint=hint)
    return known[name]


@cache
def faults() -> Mapping[str, Fault]:
    """All faults by name."""
    astrai = (*ASTRAI_QUANTIZE, *ASTRAI_MM, *ASTRAI_LINEAR, *ASTRAI_SCALES)
    every = (*QUANTIZE, *GEMM, *TMA, *astrai, *PACK, *W8A8, *GATE)
    return {one.name: one for one in every}
