"""The faults of ninfer's FP8 operators: edits of the cp.async and the fallback kernel and of what they share, and of
their models.
"""

import numpy as np

from tileproof.conformance.contract import Arrays, Right
from tileproof.conformance.fault import MISMATCH, Edit, Fault
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.ninfer_gemm import OPERATORS
from tileproof.oracle.epilogue import NINFER_LINEAR_ADD
from tileproof.oracle.epilogues.epilogue_array import Operands, apply_epilogue
from tileproof.oracle.formats import E4M3FN
from tileproof.oracle.quantize import quantize_rows

TILED = "fp8_a8_gemm_cp_async"
FALLBACK = "fp8_a8_gemm_fallback"

LINEAR = "ninfer_linear"
LINEAR_ADD = "ninfer_linear_add"
SWIGLU = "ninfer_linear_swiglu"
ATTENTION = "ninfer_attn_input_proj"

RACE = frozenset({FindingKind.RACE})
OUT_OF_BOUNDS = frozenset({FindingKind.OUT_OF_BOUNDS})
READ_TOO_EARLY = frozenset({FindingKind.UNINITIALISED, FindingKind.MISMATCH})
"""What a race may bring besides."""

_BARRIER = "        __syncthreads();\n"
_MULTIPLY = "        multiply_stage(sum, shared.stages[slot], warp_token, warp_row);\n"

_PIPELINE = (
    Fault(
        "wait-covers-one-group-too-few",
        LINEAR,
        "waits until two groups may be on their way, so that a stage is read before it has arrived",
        "AstrAI 7580d80d (missing sync after cp.async.wait_group: sporadic NaN)",
        RACE | {FindingKind.ASYNC},
        READ_TOO_EARLY,
        file=TILED,
        edits=(Edit("cp_async_wait_group<kStages - 1>();", "cp_async_wait_group<kStages>();"),),
    ),
    Fault(
        "no-barrier-after-the-wait",
        LINEAR,
        "reads what other threads copied after waiting for its own copies alone",
        "AstrAI 7580d80d",
        RACE,
        READ_TOO_EARLY,
        file=TILED,
        edits=(Edit(_BARRIER + _MULTIPLY, _MULTIPLY),),
    ),
    Fault(
        "no-barrier-before-the-refill",
        LINEAR,
        "fills a slot of the ring that other warps may still be reading",
        "AstrAI 530d280e; lean ring of AstrAI gemm.cuh",
        RACE,
        READ_TOO_EARLY,
        file=TILED,
        edits=(Edit(_MULTIPLY + _BARRIER, _MULTIPLY),),
    ),
    Fault(
        "staging-over-live-operands",
        LINEAR,
        "writes the staged tile over the ring without a barrier after the last stage was read",
        "AstrAI gemm.cuh (no barrier between the last ldmatrix and the epilogue's scatter)",
        RACE,
        READ_TOO_EARLY,
        file=TILED,
        edits=(Edit(_MULTIPLY + _BARRIER, _MULTIPLY + "        if (k + kDepth < product.depth) __syncthreads();\n"),),
    ),
    Fault(
        "no-barrier-before-the-copy-out",
        LINEAR,
        "copies the staged tile out while other warps are still writing it",
        "ninfer 3e0b5dae (reducer scratch reuse without sync)",
        RACE,
        READ_TOO_EARLY,
        file=TILED,
        edits=(Edit("    __syncthreads();\n    write_tile", "    write_tile"),),
    ),
)

_OPERANDS = (
    Fault(
        "swizzle-of-the-reader-differs",
        LINEAR,
        "finds a segment by the first row of its matrix, although it was put in place by its own row",
        "AstrAI tma.cuh (readers keep an XOR that the writer does not do); ninfer pull request 167",
        MISMATCH,
        file=TILED,
        edits=(Edit("place_of(row, k / kSegment + lane / 16)", "place_of(row - lane % 16, k / kSegment + lane / 16)"),),
    ),
    Fault(
        "halves-of-a-fragment-swapped",
        LINEAR,
        "gives mma the codes k + 16 .. k + 31 of the weight first",
        "AstrAI 16a55bb4 (ldmatrix lane indexing)",
        MISMATCH,
        file=TILED,
        edits=(Edit("b[n / 2][n % 2], b[n / 2][n % 2 + 2]", "b[n / 2][n % 2 + 2], b[n / 2][n % 2]"),),
    ),
    Fault(
        "k-steps-backwards",
        LINEAR,
        "chains the steps of a stage in descending order: another sum of the same products",
        "ninfer 87a72b9e (association of split-K)",
        MISMATCH,
        file=TILED,
        edits=(
            Edit("for (int k = 0; k < kDepth; k += kStep) {", "for (int k = kDepth - kStep; k >= 0; k -= kStep) {"),
        ),
    ),
    Fault(
        "last-stage-dropped",
        LINEAR,
        "leaves the last stage of K out of the sum",
        "AstrAI 530d280e (the last tile with fewer tiles than stages)",
        MISMATCH,
        file=TILED,
        edits=(Edit(_MULTIPLY, "        if (k == 0 || k + kDepth < product.depth)\n    " + _MULTIPLY),),
    ),
    Fault(
        "partial-tile-read-past-the-end",
        LINEAR,
        "copies whole tiles of tokens, past the last one too",
        "ninfer pull request 167 (rows past T); pytorch 133334",
        OUT_OF_BOUNDS,
        READ_TOO_EARLY,
        file=TILED,
        edits=(Edit("const bool inside = first_token + row < product.tokens;", "const bool inside = true;"),),
    ),
    Fault(
        "rows-are-not-aligned",
        LINEAR,
        "finds the rows of the weight at a stride that 16-byte copies cannot take",
        "ninfer 0c077078 (cp.async staging with odd k)",
        frozenset({FindingKind.MISALIGNED}),
        READ_TOO_EARLY | OUT_OF_BOUNDS,
        file=TILED,
        edits=(Edit("* product.weight_stride + k", "* (product.weight_stride + 8) + k"),),
    ),
    Fault(
        "fallback-reads-past-the-last-row",
        LINEAR,
        "loads weight rows up to a whole fragment",
        "ik_llama.cpp 2493; AstrAI d565d44c",
        OUT_OF_BOUNDS,
        READ_TOO_EARLY,
        file=FALLBACK,
        edits=(Edit("if (row < rows && k + i < depth)", "if (k + i < depth)"),),
    ),
    Fault(
        "fallback-reads-past-the-end-of-k",
        LINEAR,
        "loads whole steps of K, so that the next row's codes join the sum",
        "AstrAI d565d44c; mlx 3912",
        frozenset({FindingKind.OUT_OF_BOUNDS, FindingKind.MISMATCH}),
        frozenset({FindingKind.UNINITIALISED}),
        file=FALLBACK,
        edits=(Edit("if (row < rows && k + i < depth)", "if (row < rows)"),),
    ),
)

_OUTPUTS = (
    Fault(
        "scales-read-past-the-end",
        LINEAR,
        "takes scales for all tokens of a tile, past the last one too",
        "ninfer pull request 167 (epilogue called for rows past T)",
        OUT_OF_BOUNDS,
        READ_TOO_EARLY,
        file=TILED,
        edits=(
            Edit(
                "if (token >= product.tokens) continue;\n            const float activation", "const float activation"
            ),
        ),
    ),
    Fault(
        "residual-read-past-the-end",
        LINEAR_ADD,
        "calls the epilogue, which reads the residual, for tokens past the last one",
        "ninfer pull request 167 (fp8_a8_tma.cuh before review: residual read for rows past T)",
        OUT_OF_BOUNDS,
        READ_TOO_EARLY,
        file=TILED,
        edits=(
            Edit(
                "if (token >= product.tokens) continue;\n            const float activation_scale = "
                "product.activation_scales[token];",
                "const float activation_scale = product.activation_scales[token < product.tokens ? token : 0];",
            ),
        ),
    ),
    Fault(
        "stores-past-the-end",
        LINEAR,
        "writes whole tiles of tokens, past the last one too",
        "ninfer pull request 167; b12x 215",
        OUT_OF_BOUNDS,
        READ_TOO_EARLY,
        file=TILED,
        edits=(Edit("        if (first_token + local >= product.tokens) return;\n", ""),),
    ),
    Fault(
        "scale-of-another-token",
        LINEAR,
        "takes the activation scale of the token eight rows before for the lower half of a fragment",
        "vllm 49092",
        MISMATCH,
        file=TILED,
        edits=(Edit("product.activation_scales[token];", "product.activation_scales[token - 8 * half];"),),
    ),
    Fault(
        "cuts-instead-of-rounding",
        LINEAR,
        "cuts the value to bf16 instead of rounding it to nearest",
        "aiter 4637; FreeToken 85",
        MISMATCH,
        file=TILED,
        edits=(Edit("cvt.rn.bf16x2.f32", "cvt.rz.bf16x2.f32"),),
    ),
    Fault(
        "contraction-left-open",
        LINEAR_ADD,
        "rounds the product with the weight scale before it adds the residual, as a compiler may or may not",
        "ninfer pull request 167 (whole and partial tiles contracted differently)",
        MISMATCH,
        file=TILED,
        edits=(
            Edit(
                "__fmaf_rn(x, w, widen(*place(p, token, row)))",
                "__fadd_rn(__fmul_rn(x, w), widen(*place(p, token, row)))",
            ),
        ),
    ),
    Fault(
        "residual-added-after-rounding",
        LINEAR_ADD,
        "rounds the product to bf16 before it adds the residual, and then again",
        "TensorRT-LLM 17505 (double rounding)",
        MISMATCH,
        file=TILED,
        edits=(
            Edit(
                "__fmaf_rn(x, w, widen(*place(p, token, row)))",
                "__fadd_rn(widen(cvt_rn_bf16_f32(__fmul_rn(x, w))), widen(*place(p, token, row)))",
            ),
        ),
    ),
    Fault(
        "quadratic-silu",
        SWIGLU,
        "computes silu by a quadratic that is right on [-1, 1] only",
        "ninfer ef7a19aa",
        MISMATCH,
        file=TILED,
        edits=(
            Edit(
                "__fdiv_rn(x, __fadd_rn(1.0f, expf(-x)))",
                "__fmul_rn(x, __fmaf_rn(0.25f, x, 0.5f))",
            ),
        ),
    ),
    Fault(
        "up-rows-interleaved",
        SWIGLU,
        "takes gate and up rows in turn, as if the weight were interleaved",
        "ninfer b0146d29 (interleaved projection split naively)",
        MISMATCH,
        frozenset({FindingKind.MISALIGNED}),
        file=TILED,
        edits=(
            Edit(
                "    return local < kOutputs ? row : row + product.rows / 2;",
                "    return Output::kPaired ? 2 * row + local / kOutputs : row;",
            ),
        ),
    ),
    Fault(
        "split-one-row-late",
        ATTENTION,
        "gives the first row of an output to the one before it",
        "ninfer b0146d29 (projection split at the wrong rows)",
        frozenset({FindingKind.UNWRITTEN, FindingKind.OUT_OF_BOUNDS}),
        READ_TOO_EARLY | RACE,
        file=FALLBACK,
        edits=(Edit("if (row >= p.begin[i]) {", "if (row > p.begin[i]) {"),),
    ),
)


def _uncontracted_model(values: Arrays, arch: str) -> Right:
    """A reference that rounds the product before it adds the residual."""
    operator = OPERATORS[LINEAR_ADD]
    right = quantize_rows(values["x"])
    sums = operator.sums(values, right.codes, arch)
    factors = (right.scales, values["weight_scales"])
    out = apply_epilogue(NINFER_LINEAR_ADD, Operands(accumulators=sums, factors=factors, addend=values["out"]))
    return {"codes": right.codes, "scales": right.scales, "out": out}


def _exact_model(values: Arrays, arch: str) -> Right:
    """A reference that sums exactly, in float64, and rounds once: no matrix unit does."""
    right = quantize_rows(values["x"])
    with np.errstate(all="ignore"):
        sums = (E4M3FN.decode(right.codes) @ E4M3FN.decode(values["weight"]).T).astype(np.float32)
    out = OPERATORS[LINEAR].finished(values, sums, right.scales)
    return {"codes": right.codes, "scales": right.scales, "out": out}


_MODEL = (
    Fault(
        "model-left-uncontracted",
        LINEAR_ADD,
        "the reference rounds the product before it adds: the kernel is right and the model wrong",
        "ninfer pull request 167",
        MISMATCH,
        model=_uncontracted_model,
    ),
    Fault(
        "model-sums-exactly",
        LINEAR,
        "the reference sums in float64, as most do: the kernel is right and the model wrong",
        "DeepGEMM 37, 176; cutlass 1641",
        MISMATCH,
        model=_exact_model,
    ),
)

FAULTS = (*_PIPELINE, *_OPERANDS, *_OUTPUTS, *_MODEL)
