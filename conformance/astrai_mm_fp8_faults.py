"""The faults of mm_fp8: edits of the kernel and of its headers."""

from tileproof.conformance.astrai_mm_fp8_cases import CONTRACT, KERNEL
from tileproof.conformance.fault import MISMATCH, Edit, Fault
from tileproof.conformance.finding import FindingKind

RACE = frozenset({FindingKind.RACE})
OUT_OF_BOUNDS = frozenset({FindingKind.OUT_OF_BOUNDS})
READ_TOO_EARLY = frozenset({FindingKind.UNINITIALISED, FindingKind.MISMATCH})
"""What a race, or a load from outside, may bring besides."""

_GEMM = "AstrAI csrc/kernels/fp8/gemm.cuh"
_MULTIPLY = "            multiply_stage(sum, rings.a.of(stage), rings.b.of(stage), warp_row, warp_column);\n"
_SLOTS = "static constexpr int kSlots = kLean ? kStages : kStages + 1;"
_VALUE = "biased ? __fmaf_rn(sums, scale, bias[i]) : __fmul_rn(sums, scale);"


def _fault(
    name: str,
    what: str,
    precedent: str,
    expected: frozenset[FindingKind],
    *edits: Edit,
    possible: frozenset[FindingKind] = frozenset(),
) -> Fault:
    return Fault(f"mm-{name}", CONTRACT, what, precedent, expected, possible, file=KERNEL, edits=edits)


_RINGS = (
    _fault(
        "staging-over-live-rings",
        "writes the staged tile over the rings with no barrier after the last stage was read",
        f"{_GEMM} @01eacbde: no drain between the last ldmatrix and the epilogue's scatter",
        RACE,
        Edit("    cp_async_wait_group<0>();\n    __syncthreads();\n", ""),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "lean-ring-under-crosswise-fetch",
        "gives a crosswise operand a lean ring, although it is fetched while the stage in that slot is multiplied",
        f"{_GEMM} @01eacbde: a lean direct-crosswise ring raced",
        RACE,
        Edit(_SLOTS, "static constexpr int kSlots = MM_FP8_LEAN ? kStages : kStages + 1;"),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "ring-one-slot-short",
        "gives a full ring as many slots as stages, so that a fetch goes into the slot that is being read",
        f"{_GEMM}: rings of kStages + 1 slots",
        RACE,
        Edit(_SLOTS, "static constexpr int kSlots = kStages;"),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "wait-covers-one-group-too-few",
        "waits until kStages groups may be on their way, so that a stage is read before it has arrived",
        "AstrAI 7580d80d (missing sync after cp.async.wait_group: sporadic NaN)",
        RACE,
        Edit("cp_async_wait_group<kStages - 1>();", "cp_async_wait_group<kStages>();"),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "empty-group-not-committed",
        "commits no group where nothing is fetched, so that the wait of the last stages covers too few",
        "AstrAI 530d280e (the last tile with fewer tiles than stages)",
        RACE,
        Edit(
            "        cp_async_commit_group();\n",
            "        if (stage + kStages < copier.stages) cp_async_commit_group();\n",
        ),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "no-barrier-after-the-wait",
        "reads what other threads copied after waiting for its own copies alone",
        "AstrAI 7580d80d",
        RACE,
        Edit(
            "cp_async_wait_group<kStages - 1>();\n            __syncthreads();", "cp_async_wait_group<kStages - 1>();"
        ),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "no-barrier-before-a-lean-refill",
        "fills a slot of a lean ring that other warps may still be reading",
        f"{_GEMM} @01eacbde: the barrier of a lean ring",
        RACE,
        Edit("            if constexpr (kLeanA || kLeanB) __syncthreads();\n", ""),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "no-barrier-before-the-copy-out",
        "copies the staged tile out while other warps are still writing it",
        "ninfer 3e0b5dae (reducer scratch reuse without sync)",
        RACE,
        Edit("    __syncthreads();\n    write_tile", "    write_tile"),
        possible=READ_TOO_EARLY,
    ),
)

_OPERANDS = (
    _fault(
        "permute-takes-another-byte",
        "picks byte i - 1 of the second line of K where it should pick byte i",
        f"{_GEMM}: selectors of the crosswise load",
        MISMATCH,
        Edit("i | (i + 4) << 4;", "i | (i + 3) << 4;"),
    ),
    _fault(
        "permute-swaps-its-halves",
        "puts lines 2 and 3 of K before lines 0 and 1",
        f"{_GEMM}: selectors of the crosswise load",
        MISMATCH,
        Edit("__byte_perm(low, high, 0x5410)", "__byte_perm(low, high, 0x1054)"),
    ),
    _fault(
        "tail-bytes-not-zeroed",
        "fills the rest of a ragged segment with what lies behind the line",
        "ninfer 0c077078 (16-byte staging with ragged k); AstrAI 21ddead2 (0 times NaN)",
        OUT_OF_BOUNDS,
        Edit("if (i < left) words", "if (0 < left) words"),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "ragged-segment-copied-whole",
        "copies 16 bytes where a line ends before",
        "ninfer pull request 167 (rows past the end)",
        OUT_OF_BOUNDS,
        Edit(
            "if (matrix.aligned && left >= kSegment) {\n            cp_async_cg_16",
            "if (matrix.aligned) {\n            cp_async_cg_16",
        ),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "alignment-not-asked",
        "copies 16 bytes from any address",
        "ninfer 0c077078 (odd k misaligned)",
        frozenset({FindingKind.MISALIGNED}),
        Edit(
            "if (matrix.aligned && left >= kSegment) {\n            cp_async_cg_16",
            "if (left >= kSegment) {\n            cp_async_cg_16",
        ),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "crosswise-lines-past-the-end-of-k",
        "reads lines of a crosswise operand past the last one",
        f"{_GEMM}: contract tail rows load zero",
        OUT_OF_BOUNDS,
        Edit("at < matrix.depth ? matrix.rows - first_row - row : 0", "matrix.rows - first_row - row"),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "swizzle-of-the-reader-differs",
        "finds a segment by the first row of its fragment, although it was put in place by its own row",
        "AstrAI tma.cuh (readers keep an XOR that the writer does not do)",
        MISMATCH,
        Edit(
            "place_of<kStageK>(row + lane % 16, k / kSegment + lane / 16);",
            "place_of<kStageK>(row, k / kSegment + lane / 16) + lane % 16 * kStageK;",
        ),
    ),
    _fault(
        "base-of-a-fragment-added-twice",
        "adds the warp's first row to the place of a fragment a second time",
        f"{_GEMM} @01eacbde: a hoisted table of fragment offsets added the base twice",
        MISMATCH,
        Edit("place_of<kStageK>(row + lane % 16,", "place_of<kStageK>(row + row + lane % 16,"),
        possible=READ_TOO_EARLY | RACE | OUT_OF_BOUNDS,
    ),
    _fault(
        "halves-of-a-fragment-swapped",
        "gives mma the codes k + 16 .. k + 31 of B first",
        "AstrAI 16a55bb4 (ldmatrix lane indexing)",
        MISMATCH,
        Edit("b[n / 2][n % 2], b[n / 2][n % 2 + 2]", "b[n / 2][n % 2 + 2], b[n / 2][n % 2]"),
    ),
    _fault(
        "e5m2-multiplied-as-e4m3",
        "gives e5m2 codes to the e4m3 instruction",
        f"{_GEMM}: one kernel body for two formats",
        MISMATCH,
        Edit("mma_m16n8k32_f32_e5m2(sum, a, b0, b1);", "mma_m16n8k32_f32_e4m3(sum, a, b0, b1);"),
    ),
    _fault(
        "k-steps-backwards",
        "chains the steps of a stage in descending order: another sum of the same products",
        "ninfer 87a72b9e (association of split-K)",
        MISMATCH,
        Edit("for (int k = 0; k < kStageK; k += kStepK) {", "for (int k = kStageK - kStepK; k >= 0; k -= kStepK) {"),
    ),
    _fault(
        "ragged-stage-dropped",
        "counts whole stages of K only",
        "AstrAI 530d280e (the last tile)",
        MISMATCH,
        Edit("(problem.depth + kStageK - 1) / kStageK", "problem.depth / kStageK"),
    ),
)

_BATCH = (
    _fault(
        "batch-stride-ignored",
        "multiplies the first matrix of a batch for all of its members",
        "AstrAI ops.cu: batch in grid.z",
        MISMATCH,
        Edit("source.codes + blockIdx.z * source.matrix_stride", "source.codes"),
    ),
    _fault(
        "broadcast-stride-not-zero",
        "steps through a batch that is one matrix",
        "AstrAI ops.cu: a batch of size 1 has stride 0",
        OUT_OF_BOUNDS,
        Edit(
            "blockIdx.z * source.matrix_stride",
            "blockIdx.z * (source.matrix_stride == 0 ? rows * source.line_stride : source.matrix_stride)",
        ),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "output-batch-stride-ignored",
        "writes every matrix of a batch over the first one",
        "AstrAI ops.cu: batch in grid.z",
        RACE | {FindingKind.UNWRITTEN},
        Edit(" + blockIdx.z * problem.out_matrix_stride;", ";"),
        possible=MISMATCH,
    ),
    _fault(
        "raster-not-a-bijection",
        "takes a short last group of rows of tiles for a whole one, so that tiles are made twice or never",
        f"{_GEMM}: grouped raster",
        frozenset({FindingKind.UNWRITTEN}),
        Edit("in_group / rows * Block::kColumns", "in_group / problem.raster_group * Block::kColumns"),
    ),
)

_EPILOGUE = (
    _fault(
        "bias-added-after-rounding",
        "rounds the scaled sum to bf16 before it adds the bias",
        "AstrAI ops.cu: added to fp32 before the single rounding",
        MISMATCH,
        Edit(
            _VALUE,
            "__fmul_rn(sums, scale);\n"
            "                    if (biased) {\n"
            "                        const unsigned rounded = cvt_rn_bf16_f32(value[i]);\n"
            "                        value[i] = __fadd_rn(__uint_as_float(rounded << 16), bias[i]);\n"
            "                    }",
        ),
    ),
    _fault(
        "contraction-left-out",
        "rounds the product before it adds the bias",
        f"{_GEMM}: acc * s + bias may be contracted",
        MISMATCH,
        Edit("__fmaf_rn(sums, scale, bias[i])", "__fadd_rn(__fmul_rn(sums, scale), bias[i])"),
    ),
    _fault(
        "scale-after-the-bias",
        "adds the bias to the sum and scales both",
        f"{_GEMM}: bias after the operands' dequantisation",
        MISMATCH,
        Edit("__fmaf_rn(sums, scale, bias[i])", "__fmul_rn(__fadd_rn(sums, bias[i]), scale)"),
    ),
    _fault(
        "fp8-bias-without-its-scale",
        "adds the value of an FP8 bias's code as it is",
        "AstrAI ops.cu: fp8 bias requires bias_scale",
        MISMATCH,
        Edit("__fmul_rn(Format::widen(code), *problem.bias_scale)", "Format::widen(code)"),
    ),
    _fault(
        "output-scale-divides",
        "divides by out_scale, as the binding's word 'step' has it",
        "AstrAI ops.cu: out_scale documented as a step, multiplied by the kernel",
        MISMATCH,
        Edit("__fmul_rn(second, scale), __fmul_rn(first, scale)", "__fdiv_rn(second, scale), __fdiv_rn(first, scale)"),
    ),
    _fault(
        "bias-read-past-the-end",
        "loads the bias of columns that do not exist",
        "ninfer pull request 167 (epilogue loads past the end)",
        OUT_OF_BOUNDS,
        Edit("if (biased && first_column + column + i < problem.columns) {", "if (biased) {"),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "swizzle-of-the-copy-out-differs",
        "reads the staged tile as if it were not swizzled",
        "AstrAI tma.cuh (one side keeps an XOR)",
        MISMATCH,
        Edit("staged.bytes + place_of<kRowBytes>(row, segment)", "staged.bytes + row * kRowBytes + segment * kSegment"),
    ),
    _fault(
        "copy-out-guarded-by-the-stride",
        "ends a row of outputs at its stride, not at N",
        "AstrAI epilogue/writer.cuh @4142f85d compares with out_ld",
        frozenset({FindingKind.CANARY}),
        Edit("problem.columns - column;", "problem.out_stride - column;"),
        possible=OUT_OF_BOUNDS,
    ),
    _fault(
        "rows-written-past-the-end",
        "writes rows of a tile that do not exist",
        "ninfer pull request 167 (rows past the end)",
        OUT_OF_BOUNDS,
        Edit("if (first_row + row >= problem.rows || left <= 0) continue;", "if (left <= 0) continue;"),
        possible=MISMATCH | RACE,
    ),
)

FAULTS = (*_RINGS, *_OPERANDS, *_BATCH, *_EPILOGUE)
