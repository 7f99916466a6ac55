"""The faults of `astrai_quantize`: edits of the tensor quantiser and of the ring that it folds into."""

from tileproof.conformance.astrai_setting import CONTRACT
from tileproof.conformance.fault import MISMATCH, Edit, Fault
from tileproof.conformance.finding import FindingKind
from tileproof.kernels.fp8_quantize_tensor import NAME as FILE

_RACE = frozenset({FindingKind.RACE})
_UNSETTLED = frozenset({FindingKind.MISMATCH, FindingKind.UNINITIALISED})


def _fault(
    name: str,
    what: str,
    precedent: str,
    expected: frozenset[FindingKind],
    *edits: Edit,
    possible: frozenset[FindingKind] = frozenset(),
) -> Fault:
    return Fault(name, CONTRACT, what, precedent, expected, possible, FILE, edits)


_ELECTION = (
    _fault(
        "ring-no-fence-before-the-ticket",
        "takes a ticket without releasing the maximum that it collected",
        "systems.md 2.1 (threadfence removed); CUDA threadFenceReduction",
        _RACE,
        Edit("    __threadfence();\n    const unsigned ticket", "    const unsigned ticket"),
        possible=MISMATCH,
    ),
    _fault(
        "ring-no-fence-after-the-ticket",
        "reads what others collected without acquiring it",
        "systems.md 2.1 (threadfence removed); CUDA threadFenceReduction",
        _RACE,
        Edit("    __threadfence();\n    return ticket", "    return ticket"),
        possible=MISMATCH,
    ),
    _fault(
        "ring-no-syncwarp",
        "lets all lanes read what only the first lane has acquired",
        "ninfer N-late (adds __syncwarp)",
        _RACE,
        Edit("    __syncwarp();\n    if (is_last)", "    if (is_last)"),
        possible=MISMATCH,
    ),
    _fault(
        "ring-ticket-of-one-dimension",
        "compares the ticket with gridDim.x on a grid of two dimensions",
        "AstrAI A-qS/A-qN (published every gridDim.x-th completion, scale clipped)",
        MISMATCH,
        Edit("ticket == gridDim.x * gridDim.y - 1", "ticket == gridDim.x - 1"),
        possible=_RACE,
    ),
    _fault(
        "ring-counter-not-re-armed",
        "leaves the counter at the number of blocks, so that no later launch publishes",
        "aiter 4622; cutlass 3538",
        MISMATCH,
        Edit("    atomicExch(fold.counter, 0u);\n", ""),
    ),
    _fault(
        "ring-scale-read-after-the-ticket",
        "reads the scale again when the last block may have published the next one there",
        "AstrAI 962c10c5 (published scale leaked into the same step)",
        _RACE,
        Edit(
            "    if (threadIdx.x < kLanes) join(fold, threadIdx.x, amax);\n",
            "    if (threadIdx.x < kLanes) join(fold, threadIdx.x, amax);\n"
            "    if (threadIdx.x == kThreads - 1 && multiplier_of(cast) < 0.0f) *cast.codes = 0;\n",
        ),
    ),
)

_WINDOW = (
    _fault(
        "ring-slot-not-cleaned",
        "leaves the collected maximum for the next launch",
        "AstrAI A-gR (missing zero leaves stale amax); aiter 3288",
        MISMATCH,
        Edit("        fold.maxima[slot] = 0u;\n", ""),
    ),
    _fault(
        "ring-window-one-short",
        "leaves the oldest slot out of the window's maximum",
        "TransformerEngine 825; MS-AMP 17",
        MISMATCH,
        Edit("step < fold.window;", "step < fold.window - 1;"),
    ),
    _fault(
        "ring-history-one-off",
        "puts the maximum into the slot behind the index",
        "TransformerEngine 825",
        MISMATCH,
        Edit("if (step == fold.index) fold", "if (step == fold.index + 1) fold"),
    ),
    _fault(
        "ring-window-without-this-step",
        "takes the window's maximum before this step's own goes in",
        "TransformerEngine 825; TIRx 5 (scale slice not advanced)",
        MISMATCH,
        Edit("step == fold.index ? amax : fold.history[step]", "step == fold.index ? 0.0f : fold.history[step]"),
    ),
)

_SCALE = (
    _fault(
        "ring-scale-by-reciprocal",
        "multiplies by the rounded inverse of the largest value instead of dividing",
        "AstrAI A-gR comment (--use_fast_math); MSLK 224",
        MISMATCH,
        Edit("__fdiv_rn(peak, fold.largest)", "peak * __frcp_rn(fold.largest)"),
    ),
    _fault(
        "ring-margin-reversed",
        "makes the scale smaller by the margin, so that headroom becomes overflow",
        "AstrAI A-life A3 (stale margin)",
        MISMATCH,
        Edit("-fold.margin", "fold.margin"),
    ),
    _fault(
        "ring-no-floor",
        "publishes the scale 0 of a window of zeros, whose reciprocal is infinite",
        "torchao 4714",
        MISMATCH,
        Edit(
            "fmaxf(ldexpf(__fdiv_rn(peak, fold.largest), -fold.margin), kLeastScale)",
            "ldexpf(__fdiv_rn(peak, fold.largest), -fold.margin)",
        ),
    ),
    _fault(
        "ring-reciprocal-of-the-old-scale",
        "publishes the reciprocal of the scale that the launch has read",
        "sglang 28418 (stored code and stored scale disagree)",
        MISMATCH,
        Edit("*fold.reciprocal = __frcp_rn(scale)", "*fold.reciprocal = __frcp_rn(*fold.scale + 0.0f * scale)"),
        Edit("    *fold.scale = scale;\n", ""),
        Edit("    if (fold.amax != nullptr)", "    *fold.scale = scale;\n    if (fold.amax != nullptr)"),
    ),
    _fault(
        "step-taken-for-a-multiplier",
        "multiplies by the step",
        "AstrAI 057c0d33 (scale became the multiplier)",
        MISMATCH,
        Edit("cast.is_step ? __frcp_rn(*cast.scale) : *cast.scale", "*cast.scale"),
    ),
)

_MEASURE = "        amax = fmaxf(amax, largest_of(values));\n"

_AMAX = (
    _fault(
        "ring-amax-of-scaled-values",
        "measures the products, which are always near the largest code: the scale collapses to 1",
        "AstrAI 69f35c46 (gradient cosine 0.05)",
        MISMATCH,
        Edit(
            f"{_MEASURE}        scale_all(values, multiplier);\n        const uint2",
            f"        scale_all(values, multiplier);\n{_MEASURE}        const uint2",
        ),
    ),
    _fault(
        "ring-nan-erases-amax",
        "compares in place of fmaxf, so that a NaN replaces the maximum and the next element replaces the NaN",
        "Camelid 561; MIOpen 2819",
        MISMATCH,
        Edit(
            "largest = fmaxf(largest, fabsf(values[i]));",
            "largest = largest >= fabsf(values[i]) ? largest : fabsf(values[i]);",
        ),
    ),
    _fault(
        "ring-no-barrier-before-the-block-maximum",
        "reads the warps' maxima without waiting for the warps",
        "optimum-quanto 332; AstrAI 7580d80d",
        _RACE,
        Edit("    __syncthreads();\n    return warp_max(", "    return warp_max("),
        possible=_UNSETTLED,
    ),
)

_CODES = (
    _fault(
        "e4m3-wraps",
        "a product beyond 448 keeps only the low bits of its exponent: it wraps instead of saturating",
        "pytorch 178817; aiter 4637",
        MISMATCH,
        Edit(
            "return cvt_rn_satfinite_e4m3x2_f32(second, first); }",
            "return cvt_rn_satfinite_e4m3x2_f32(wrapped(second), wrapped(first)); }\n"
            "    static __device__ float wrapped(float value) {\n"
            "        return fabsf(value) >= 464.0f ? __uint_as_float(__float_as_uint(value) & 0xBFFFFFFFu) : value;\n"
            "    }",
        ),
    ),
    _fault(
        "e5m2-overflows-to-infinity",
        "a product that rounds beyond 57,344 becomes the code of infinity",
        "ml_dtypes 400; onnx 5764",
        MISMATCH,
        Edit(
            "return cvt_rn_satfinite_e5m2x2_f32(second, first); }",
            "const unsigned low = fabsf(first) >= 61440.0f, high = fabsf(second) >= 61440.0f;\n"
            "        return cvt_rn_satfinite_e5m2x2_f32(second, first) + low + (high << 8); }",
        ),
    ),
    _fault(
        "codes-half-dropped",
        "packs only the first pair of codes into a word",
        "AstrAI 057c0d33 (one word must hold two pairs)",
        MISMATCH,
        Edit(
            "| Format::pair(values[2], values[3]) << kPairBits",
            "| (Format::pair(values[2], values[3]) & 0u) << kPairBits",
        ),
    ),
    _fault(
        "transposed-view",
        "writes the transposed codes row by row, a view in place of a transpose",
        "aiter 4506",
        MISMATCH,
        Edit("cast.transposed + column * cast.rows + row;", "cast.transposed + row * cast.columns + column;"),
        possible=frozenset(
            {FindingKind.UNWRITTEN, FindingKind.RACE, FindingKind.OUT_OF_BOUNDS, FindingKind.MISALIGNED}
        ),
    ),
)

_RAGGED = (
    _fault(
        "tail-neither-written-nor-measured",
        "stops after whole vectors",
        "mlx 3912; b12x 215",
        frozenset({FindingKind.UNWRITTEN, FindingKind.MISMATCH}),
        Edit("i = whole + first; i < total;", "i = whole + first; i < whole;"),
    ),
    _fault(
        "tail-past-the-end",
        "rounds the number of elements up to whole vectors",
        "ik_llama.cpp 2493; pytorch 133334",
        frozenset({FindingKind.OUT_OF_BOUNDS}),
        Edit("i = whole + first; i < total;", "i = whole + first; i < (total + kVector - 1) / kVector * kVector;"),
    ),
    _fault(
        "second-column-past-the-end",
        "reads the second column of a pair that has one",
        "systems.md 6.4 (30, 33: tails read past the end)",
        frozenset({FindingKind.OUT_OF_BOUNDS}),
        Edit("if (column + 1 < cast.columns) values[1]", "values[1]"),
        possible=_UNSETTLED,
    ),
    _fault(
        "transposed-rows-past-the-end",
        "writes whole chunks of a column where only a part is inside",
        "hf 1153 (store masked in one dimension only)",
        frozenset({FindingKind.OUT_OF_BOUNDS}),
        Edit("if (row + i < cast.rows) codes[i]", "codes[i]"),
        possible=frozenset({FindingKind.MISMATCH, FindingKind.RACE}),
    ),
    _fault(
        "last-column-of-a-tile-dropped",
        "takes the columns for exclusive bounds one too early",
        "mlx 3912",
        frozenset({FindingKind.UNWRITTEN}),
        Edit(
            "if (row >= cast.rows || column >= cast.columns) return;\n    unsigned char* codes = cast.transposed",
            "if (row >= cast.rows || column >= cast.columns - 1) return;\n    unsigned char* codes = cast.transposed",
        ),
    ),
)

_TILES = (
    _fault(
        "tile-read-before-it-is-written",
        "writes a tile out without waiting for the other warps' columns",
        "AstrAI 7580d80d",
        _RACE,
        Edit("    __syncthreads();\n    const int own", "    const int own"),
        possible=_UNSETTLED,
    ),
    _fault(
        "tile-overwritten-while-it-is-read",
        "begins the next tile while another warp still writes this one out",
        "AstrAI A-gL (no barrier before the scatter)",
        _RACE,
        Edit("            __syncthreads();\n", ""),
        possible=_UNSETTLED,
    ),
    _fault(
        "tile-step-of-the-other-dimension",
        "steps over rows of tiles by the grid's extent in columns, and leaves some out",
        "AstrAI A-qS/A-qN (gridDim.x where gridDim.y counts)",
        frozenset({FindingKind.UNWRITTEN}),
        Edit("row += gridDim.y * kTileRows", "row += gridDim.x * kTileRows"),
        possible=MISMATCH,
    ),
)

FAULTS = (*_ELECTION, *_WINDOW, *_SCALE, *_AMAX, *_CODES, *_RAGGED, *_TILES)
