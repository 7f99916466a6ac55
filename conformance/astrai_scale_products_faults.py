"""The faults of fp8_scale_products, of its launcher, and of its model."""

import numpy as np

from tileproof.conformance.astrai_scale_products_cases import CONTRACT
from tileproof.conformance.contract import Arrays
from tileproof.conformance.fault import MISMATCH, Edit, Fault
from tileproof.conformance.finding import FindingKind
from tileproof.kernels.fp8_scale_products import NAME
from tileproof.oracle.scale_product import scale_product

UNWRITTEN = frozenset({FindingKind.UNWRITTEN})
OUT_OF_BOUNDS = frozenset({FindingKind.OUT_OF_BOUNDS})

_LAUNCHER = f"{NAME}.py"
_CALLER = "AstrAI ops.cu @057c0d33 (one scale, the product made by the caller)"


def _fault(
    name: str,
    what: str,
    precedent: str,
    expected: frozenset[FindingKind],
    *edits: Edit,
    file: str = NAME,
    possible: frozenset[FindingKind] = frozenset(),
) -> Fault:
    return Fault(f"scales-{name}", CONTRACT, what, precedent, expected, possible, file, edits)


def _flushing_model(values: Arrays, arch: str) -> Arrays:
    """A reference whose process flushes subnormal products to zero."""
    letters = [name[-1] for name in values if name.startswith("first_")]
    made = {one: scale_product(values[f"first_{one}"], values.get(f"second_{one}")) for one in letters}
    tiny, zero = np.finfo(np.float32).tiny, np.float32(0)
    return {f"out_{one}": np.where(np.abs(out) < tiny, np.copysign(zero, out), out) for one, out in made.items()}


FAULTS = (
    _fault(
        "flushed",
        "flushes a subnormal product to zero, as a build with -ftz=true does",
        "pytorch 107586; tvm 20315",
        MISMATCH,
        Edit(
            "__fmul_rn(first, *scalars.second[i])",
            "(fabsf(__fmul_rn(first, *scalars.second[i])) < 1.17549435e-38f ? copysignf(0.0f, first) * "
            "copysignf(1.0f, *scalars.second[i]) : __fmul_rn(first, *scalars.second[i]))",
        ),
    ),
    _fault(
        "truncated",
        "cuts the product instead of rounding it",
        "aiter 4637; FreeToken 85",
        MISMATCH,
        Edit("__fmul_rn(first, *scalars.second[i])", "__fmul_rz(first, *scalars.second[i])"),
    ),
    _fault(
        "of-one-second",
        "multiplies every first by the second of the first scalar",
        _CALLER,
        MISMATCH,
        Edit("__fmul_rn(first, *scalars.second[i])", "__fmul_rn(first, *scalars.second[0])"),
        possible=OUT_OF_BOUNDS,
    ),
    _fault(
        "stops-at-a-copy",
        "leaves a scalar out that has no second",
        _CALLER,
        UNWRITTEN,
        Edit("scalars.out[i] == nullptr", "scalars.second[i] == nullptr"),
    ),
    _fault(
        "copy-squared",
        "takes a scalar without a second for a square",
        _CALLER,
        MISMATCH,
        Edit(
            "scalars.second[i] == nullptr ? first : __fmul_rn",
            "scalars.second[i] == nullptr ? __fmul_rn(first, first) : __fmul_rn",
        ),
    ),
    _fault(
        "last-left-out",
        "the launcher fills in all scalars but the last",
        _CALLER,
        UNWRITTEN,
        Edit(
            "for number, one in enumerate(scalars):\n        made",
            "for number, one in enumerate(scalars[:-1]):\n        made",
        ),
        file=_LAUNCHER,
    ),
    Fault(
        "scales-model-flushes",
        CONTRACT,
        "the reference flushes subnormal products and the kernel does not",
        "pytorch 107586; tvm 20315",
        MISMATCH,
        file=NAME,
        model=_flushing_model,
    ),
)
