"""The true cause of each fault, as declared by whoever reads what the fault does; and a case that it fails.

A fault that a device or the runner sees by its kind has the cause of that kind, a fault of the model `ORACLE`. The
others are written down here.
"""

from collections.abc import Mapping

import test_astrai_faults
import test_astrai_linear_contract
import test_astrai_mm_fp8
import test_astrai_scale_products
import test_faults
import test_gate_faults
import test_metainfer_pack
import test_metainfer_w8a8

from tileproof.conformance.fault import Fault
from tileproof.conformance.faults import faults
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.fp8_a8_tma_faults import FAULTS as TMA
from tileproof.conformance.triage.cause import OF_FINDING, Cause

_VALUES = frozenset({FindingKind.MISMATCH})

TMA_CASE = "ninfer_linear_add/fp8_a8_gemm/tma/T17.N128.K320/normal/0"
"""Five stages through a ring of four, 17 of 256 tokens."""

_BIASED = "astrai_mm_fp8/mm_fp8/64x64-s3/Ba0.Bb0.M9.N10.K70.nte4m3b16/normal/0"

_TELLING: Mapping[str, str] = {
    "mm-bias-added-after-rounding": _BIASED,
    "mm-scale-after-the-bias": _BIASED,
    "pair-operands-swapped": f"{test_faults.PREFIX}vector/T2.K48.bf16/on-grid/0",
}
"""Cases whose data tell these faults from others; where they are caught first, two causes give the same bits."""

_NAMED: Mapping[Cause, tuple[str, ...]] = {
    Cause.RECIPROCAL: (
        "divide", "step-taken-for-a-multiplier", "mm-output-scale-divides", "linear-seed-divides",
        "ring-scale-by-reciprocal",
    ),
    Cause.OVERFLOW: (
        "no-saturation", "saturates-a-binade-early", "e4m3-wraps", "e5m2-overflows-to-infinity",
        "w8a8-lowest-code-clamped", "gate-pairs-summed-in-16-bits",
    ),
    Cause.DOUBLE_ROUNDING: ("through-fp16", "residual-added-after-rounding", "mm-bias-added-after-rounding"),
    Cause.ROUNDING: (
        "truncates", "ties-away", "cuts-instead-of-rounding", "w8a8-sum-cut-to-float", "w8a8-output-cut",
        "w8a8-ties-away-from-zero", "scales-truncated",
    ),
    Cause.SUBNORMALS: ("flushes-subnormal-codes", "w8a8-small-values-flushed", "scales-flushed"),
    Cause.SPECIAL: ("zero-row-unguarded", "nan-erases-amax", "linear-seed-drops-nan", "w8a8-nan-by-the-instruction"),
    Cause.TAIL: ("amax-of-aligned-part",),
    Cause.HALVES_SWAPPED: ("halves-swapped", "pair-operands-swapped", "pack-halves-of-a-run-swapped"),
    Cause.PART_LOST: ("half-dropped", "codes-half-dropped", "w8a8-half-of-the-other-group-lost"),
    Cause.TRANSPOSED: ("transposed-view",),
    Cause.PERMUTED: (
        "mm-swizzle-of-the-copy-out-differs", "pack-words-turned-and-bytes-not", "pack-partner-is-the-neighbour",
        "w8a8-exchange-gives-its-own-words",
    ),
    Cause.OPERAND_MISPLACED: (
        "x-stride-ignored", "swizzle-of-the-reader-differs", "halves-of-a-fragment-swapped", "tma-swizzle-base",
        "tma-swizzle-of-128", "mm-permute-takes-another-byte", "mm-permute-swaps-its-halves",
        "mm-swizzle-of-the-reader-differs", "mm-base-of-a-fragment-added-twice", "mm-halves-of-a-fragment-swapped",
        "w8a8-swizzle-of-the-reader-differs", "w8a8-halves-of-a-fragment-swapped",
        "w8a8-turned-bytes-of-another-column", "w8a8-descriptor-without-its-swizzle",
        "w8a8-both-warpgroups-in-the-same-rows", "linear-both-operands-of-one-description",
    ),
    Cause.WRONG_PACK: (
        "up-rows-interleaved", "w8a8-reads-another-order",
        "w8a8-partner-is-the-neighbour", "w8a8-fallback-reads-as-stored",
    ),
    Cause.PART_OF_K: (
        "last-stage-dropped", "mm-ragged-stage-dropped", "w8a8-last-plane-left-out", "w8a8-even-boundaries",
        "w8a8-stage-fetched-twice", "w8a8-last-stage-dropped",
    ),
    Cause.OTHER_SCALE: (
        "scale-of-another-token", "mm-fp8-bias-without-its-scale", "w8a8-scale-of-the-neighbour",
        "gate-bias-along-the-other-axis", "linear-scale-of-the-next-step", "linear-gradients-scales-swapped",
        "linear-scales-added", "linear-scales-kept-as-views", "scales-of-one-second", "scales-copy-squared",
    ),
    Cause.EPILOGUE: (
        "contraction-left-open", "quadratic-silu", "mm-contraction-left-out", "mm-scale-after-the-bias",
        "w8a8-scales-multiplied-first", "w8a8-column-scale-first",
    ),
    Cause.ORDER_OF_SUM: (
        "k-steps-backwards", "mm-k-steps-backwards", "linear-bias-summed-in-another-order",
        "linear-bias-strands-backwards",
    ),
    Cause.FORMAT: (
        "mm-e5m2-multiplied-as-e4m3", "w8a8-weight-taken-for-unsigned", "linear-recast-in-the-forward-format",
        "linear-gradients-ring-of-the-forward-format",
    ),
    Cause.STALE: ("mm-batch-stride-ignored",),
    Cause.STATE: (
        "ring-ticket-of-one-dimension", "ring-counter-not-re-armed", "ring-collects-the-latest",
        "ring-slot-not-cleaned", "ring-window-one-short", "ring-history-one-off", "ring-window-without-this-step",
        "ring-margin-reversed", "ring-no-floor", "ring-reciprocal-of-the-old-scale", "ring-amax-of-scaled-values",
        "ring-nan-erases-amax", "linear-folds-without-gradients", "linear-advances-without-a-fold",
        "linear-folds-without-advancing", "linear-unchanged-weight-folds-again",
        "linear-changed-weight-keeps-its-codes",
        "linear-weight-folds-into-the-gradients-ring", "linear-gradients-scale-by-448", "linear-rings-keyed-by-address",
        "linear-recipe-change-keeps-the-rings", "linear-reset-keeps-the-recipe", "linear-reset-keeps-the-rings",
        "linear-checkpoint-with-orphans", "linear-checkpoint-without-its-index", "linear-checkpoint-without-its-pair",
        "linear-seed-of-one-slot",
    ),
}  # fmt: skip

BY_HAND: Mapping[str, Cause] = {name: cause for cause, names in _NAMED.items() for name in names}


_BESIDES: Mapping[str, Cause] = {"linear-empty-tensor-launches-nothing": Cause.STATE}
"""What is just as true: no launch is another route, and a ring that nobody publishes."""


def truths(one: Fault) -> frozenset[Cause]:
    """The causes that are right for a fault: one, or those of every kind that its finding must have."""
    if one.name in BY_HAND:
        return frozenset({BY_HAND[one.name]})
    if one.model is not None:
        return frozenset({Cause.ORACLE})
    besides = {_BESIDES[one.name]} if one.name in _BESIDES else set()
    return frozenset({OF_FINDING[kind] for kind in one.expected - _VALUES} | besides)


def cases() -> Mapping[str, str]:
    """A failing case of each fault, by the fault's name."""
    found = {name: test_faults.PREFIX + case for name, case in test_faults.CATCHING.items()}
    found |= test_faults.GEMM_CATCHING
    found |= {one.name: TMA_CASE for one in TMA}
    found |= {name: test_astrai_faults.PREFIX + case for name, case in test_astrai_faults.CATCHING.items()}
    found |= {test_astrai_mm_fp8.BY_NAME[name].name: case for name, case in test_astrai_mm_fp8.CATCHING.items()}
    linear = test_astrai_linear_contract
    found |= {linear.BY_NAME[name].name: case for name, case in linear.CATCHING.items()}
    scales = test_astrai_scale_products
    found |= {f"scales-{name}": scales.PREFIX + case for name, case in scales.CATCHING.items()}
    found |= {f"pack-{name}": f"metainfer_pack/int8_pack/{case}" for name, case in test_metainfer_pack.CATCHING.items()}
    found |= {f"w8a8-{name}": case for name, case in test_metainfer_w8a8.CATCHING.items()}
    found |= {f"gate-{name}": case for name, case in test_gate_faults.CATCHING.items()}
    found |= _TELLING
    return {name: found[name] for name in faults() if name in found}
