"""The faults of the INT8 products: edits of the kernels and of their headers."""

from tileproof.conformance.fault import MISMATCH, Edit, Fault
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.metainfer_w8a8_cases import CONTRACT

RACE = frozenset({FindingKind.RACE})
UNWRITTEN = frozenset({FindingKind.UNWRITTEN})
OUT_OF_BOUNDS = frozenset({FindingKind.OUT_OF_BOUNDS})
READ_TOO_EARLY = frozenset({FindingKind.UNINITIALISED, FindingKind.MISMATCH})
"""What a race, or a load from outside, may bring besides."""

ASYNC = frozenset({FindingKind.ASYNC})
TILE, DECODE, SCALAR, COMBINE = "int8_gemm_tile", "int8_gemm_decode", "int8_gemm_scalar", "int8_combine"
WGMMA = "int8_gemm_wgmma"

_FUSED = "MetaInfer decode skill section 1.1: the fused last-arrival combine"
_BARRIERS = "MetaInfer prefill skill section 1: barriers of a stage"
_TAIL = "MetaInfer prefill skill section 1: tail M is zero-filled and masked"
_EPILOGUE = "MetaInfer prefill skill sections 3.3, 4.1: the epilogue"
_FALLBACK = "MetaInfer prefill skill section 3.2: the fallback decodes the matching pack"
_SIGN = "MetaInfer's cases of extremes; smoothquant #84"
_ISA = "PTX ISA 9.0, wgmma"
_RING = "CUTLASS: a stage is released when the products that read it have ended"
_FRAGMENTS = "MetaInfer foundations skill section 3: fragment maps"


def _fault(
    name: str,
    file: str,
    what: str,
    precedent: str,
    expected: frozenset[FindingKind],
    *edits: Edit,
    possible: frozenset[FindingKind] = frozenset(),
) -> Fault:
    return Fault(f"w8a8-{name}", CONTRACT, what, precedent, expected, possible, file=file, edits=edits)


_COMBINE = (
    _fault(
        "no-fence-before-the-arrival",
        DECODE,
        "counts a block in before what it stored is released",
        f"{_FUSED}, __threadfence",
        RACE,
        Edit("    __threadfence();\n    const unsigned long long arrived", "    const unsigned long long arrived"),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "no-fence-behind-the-arrival",
        DECODE,
        "lets the last block read the planes without acquiring what the others released",
        f"{_FUSED}, __threadfence",
        RACE,
        Edit("1ull);\n    __threadfence();\n", "1ull);\n"),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "no-barrier-before-the-arrival",
        DECODE,
        "counts a block in while its other threads still store their sums",
        _FUSED,
        RACE,
        Edit("        __syncthreads();\n        if (threadIdx.x == 0) shared", "        if (threadIdx.x == 0) shared"),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "counter-meant-to-begin-at-zero",
        DECODE,
        "takes the block whose arrival has one certain number for the last, as if the counter were cleared",
        f"{_FUSED}: arrived % SPLIT_K == SPLIT_K - 1, counters are set to zero once",
        UNWRITTEN,
        Edit("arrived % parts == parts - 1;", "arrived == parts - 1;"),
    ),
    _fault(
        "counter-of-32-bits",
        DECODE,
        "counts modulo 2^32, which three parts do not divide",
        f"{_FUSED}: 32-bit counters and a split of 6",
        UNWRITTEN,
        Edit("return arrived % parts", "return static_cast<unsigned>(arrived) % parts"),
    ),
    _fault(
        "first-arrival-combines",
        DECODE,
        "lets the first block to arrive add the planes",
        _FUSED,
        RACE,
        Edit("arrived % parts == parts - 1;", "arrived % parts == 0;"),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "planes-on-one-another",
        DECODE,
        "stores every part in the first plane",
        "MetaInfer decode skill: partials [split][M][N]",
        RACE | UNWRITTEN,
        Edit("problem.planes + part * problem.at(problem.rows, 0);", "problem.planes;"),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "last-plane-left-out",
        COMBINE,
        "adds one plane too few",
        "MetaInfer decode skill: planes in ascending order",
        MISMATCH,
        Edit("part < problem.splits; ++part", "part < problem.splits - 1; ++part"),
    ),
    _fault(
        "even-boundaries",
        DECODE,
        "gives every part as many stages as the division yields, and drops the rest",
        "MetaInfer decode skill: boundaries [s * 128 / S, (s + 1) * 128 / S)",
        MISMATCH,
        Edit(
            "{part * stages / parts, (part + 1) * stages / parts}",
            "{stages / parts * part, stages / parts * (part + 1)}",
        ),
    ),
    _fault(
        "no-barrier-before-the-groups-meet",
        DECODE,
        "adds the other group's sums without waiting for them",
        "MetaInfer decode skill, o_proj: one barrier at the end",
        RACE,
        Edit("        __syncthreads();\n        if (group > 0) return;", "        if (group > 0) return;"),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "half-of-the-other-group-lost",
        DECODE,
        "adds the other group's sums in even columns alone",
        "MetaInfer decode skill, down: adds s = 0, then s = 1",
        MISMATCH,
        Edit("                pair.x += more.x, pair.y += more.y;", "                pair.x += more.x;"),
    ),
)

_STAGES = (
    _fault(
        "no-second-barrier-with-one-slot",
        TILE,
        "publishes a stage into the only slot while other warps still multiply the one before",
        _BARRIERS,
        RACE,
        Edit("        if (kSlots == 1 && stage > stages.first) barrier();\n", ""),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "no-barrier-after-publishing",
        TILE,
        "multiplies a stage that other threads may not have published",
        _BARRIERS,
        RACE,
        Edit(
            "        weights.publish(slot, thread);\n        barrier();\n", "        weights.publish(slot, thread);\n"
        ),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "stage-fetched-twice",
        TILE,
        "fetches the stage that is being multiplied in place of the next",
        "MetaInfer prefill skill section 5.4: a prefetch that is none",
        MISMATCH,
        Edit("fetch(stage + 1);", "fetch(stage);"),
    ),
    _fault(
        "last-stage-dropped",
        TILE,
        "leaves out the last stage of K",
        "MetaInfer prefill skill: barriers of 65 for 64 stages",
        MISMATCH,
        Edit("all = {0, problem.depth / BlockTile::kDepth};", "all = {0, problem.depth / BlockTile::kDepth - 1};"),
    ),
)

_TILES = (
    _fault(
        "tail-rows-not-masked-on-the-way-in",
        TILE,
        "reads rows of x past M",
        _TAIL,
        OUT_OF_BOUNDS,
        Edit(
            "            if (row < problem.rows) {\n                const size_t at",
            "            {\n                const size_t at",
        ),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "tail-rows-written",
        TILE,
        "writes rows of the output past M",
        _TAIL,
        OUT_OF_BOUNDS,
        Edit(
            "                if (row < problem.rows) {\n                    unsigned short* to",
            "                {\n                    unsigned short* to",
        ),
    ),
    _fault(
        "warps-in-the-same-columns",
        TILE,
        "derives a warp's columns from a lane's number, which is always 0",
        "MetaInfer qkv M16 R6: b_nchunk = lane >> 6 (30,697 of 40,960 mismatches, the first at 16)",
        UNWRITTEN,
        Edit("column(thread / kLanes % Tile::kWarpsAcross", "column(thread % kLanes / kLanes % Tile::kWarpsAcross"),
        possible=READ_TOO_EARLY | RACE,
    ),
    _fault(
        "swizzle-of-the-reader-differs",
        TILE,
        "reads fragments as if tiles were stored row by row",
        _FRAGMENTS,
        MISMATCH,
        Edit(
            "place_of<kDepth>(row + lane % 16, k / kSegment + lane / 16);",
            "(row + lane % 16) * kDepth + (k / kSegment + lane / 16) * kSegment;",
        ),
    ),
    _fault(
        "halves-of-a-fragment-swapped",
        TILE,
        "multiplies the first 16 k of x with the second 16 of W",
        _FRAGMENTS,
        MISMATCH,
        Edit("b[n / 2][n % 2], b[n / 2][n % 2 + 2]", "b[n / 2][n % 2 + 2], b[n / 2][n % 2]"),
    ),
    _fault(
        "exchange-gives-its-own-words",
        TILE,
        "keeps the words that it should give away when lanes exchange columns",
        "MetaInfer prefill skill section 3.3: transposition by shfl_xor",
        MISMATCH,
        Edit("upper ? words[low] : words[high]", "upper ? words[high] : words[low]"),
    ),
    _fault(
        "weight-taken-for-unsigned",
        TILE,
        "multiplies with the bytes of W as numbers from 0 to 255",
        _SIGN,
        MISMATCH,
        Edit("s32.s8.s8.s32", "s32.s8.u8.s32"),
    ),
    _fault(
        "reads-another-order",
        TILE,
        "reads every weight as if it were packed n-major",
        "MetaInfer prefill skill: a pack that is not the kernel's",
        MISMATCH,
        Edit("using Layout = INT8_LAYOUT;", "using Layout = NMajor;"),
    ),
    _fault(
        "partner-is-the-neighbour",
        TILE,
        "puts the second half of a vector into the next column, where it belongs 16 columns on",
        "MetaInfer decode skill, o_proj in tile pairs",
        MISMATCH,
        Edit("slot.w.put(column + Layout::kPartner, k", "slot.w.put(column + 1, k"),
        possible=frozenset({FindingKind.UNINITIALISED, FindingKind.RACE}),
    ),
    _fault(
        "turned-bytes-of-another-column",
        TILE,
        "takes byte 3 - j of each line for column j",
        "MetaInfer foundations skill: B row-major is strided by columns",
        MISMATCH,
        Edit("bytes_of(of[0], of[1], of[2], of[3], j % 4)", "bytes_of(of[0], of[1], of[2], of[3], 3 - j % 4)"),
    ),
)

_OUTPUTS = (
    _fault(
        "scales-multiplied-first",
        TILE,
        "multiplies the two scales before the sum",
        f"{_EPILOGUE} is left-associative",
        MISMATCH,
        Edit(
            "__fmul_rn(__fmul_rn(__int2float_rn(sum), x_scale), w_scale)",
            "__fmul_rn(__int2float_rn(sum), __fmul_rn(x_scale, w_scale))",
        ),
    ),
    _fault(
        "column-scale-first",
        SCALAR,
        "multiplies by the scale of the column before that of the row",
        f"{_EPILOGUE} is left-associative",
        MISMATCH,
        Edit("__int2float_rn(sum), x_scale), w_scale)", "__int2float_rn(sum), w_scale), x_scale)"),
    ),
    _fault(
        "sum-cut-to-float",
        TILE,
        "converts sums towards zero",
        f"{_EPILOGUE}: int to float is inexact above 2^24",
        MISMATCH,
        Edit("__int2float_rn(sum)", "__int2float_rz(sum)"),
    ),
    _fault(
        "output-cut",
        TILE,
        "cuts outputs to bf16",
        f"{_EPILOGUE} rounds to nearest even",
        MISMATCH,
        Edit("(bits + (0x7FFFu + (bits >> 16 & 1u))) >> 16", "bits >> 16"),
    ),
    _fault(
        "small-values-flushed",
        SCALAR,
        "takes what is below 2^-126 for 0",
        "nvcc --use_fast_math: -ftz=true",
        MISMATCH,
        Edit(
            "return bf16_of(__fmul_rn(__fmul_rn(__int2float_rn(sum), x_scale), w_scale));",
            'float value = __int2float_rn(sum);\n    asm("mul.rn.ftz.f32 %0, %0, %1;" : "+f"(value) : "f"(x_scale));\n'
            '    asm("mul.rn.ftz.f32 %0, %0, %1;" : "+f"(value) : "f"(w_scale));\n    return bf16_of(value);',
        ),
    ),
    _fault(
        "nan-by-the-instruction",
        TILE,
        "rounds with a case for NaN, which the published rounding has not",
        "MetaInfer prefill skill section 4.1: plain RNE without Inf/NaN fix-up",
        MISMATCH,
        Edit(
            "return (bits + (0x7FFFu + (bits >> 16 & 1u))) >> 16;",
            "return value != value ? 0x7FFFu : (bits + (0x7FFFu + (bits >> 16 & 1u))) >> 16;",
        ),
    ),
    _fault(
        "ties-away-from-zero",
        DECODE,
        "rounds ties away from zero",
        f"{_EPILOGUE} rounds to nearest even",
        MISMATCH,
        Edit("0x7FFFu + (bits >> 16 & 1u)", "0x8000u"),
    ),
    _fault(
        "scale-of-the-neighbour",
        TILE,
        "gives both columns of a pair the scale of the first",
        _EPILOGUE,
        MISMATCH,
        Edit(
            "{problem.w_scale[column], problem.w_scale[column + 1]}",
            "{problem.w_scale[column], problem.w_scale[column]}",
        ),
    ),
    _fault(
        "fallback-reads-as-stored",
        SCALAR,
        "reads a packed weight as if it were contiguous",
        _FALLBACK,
        MISMATCH,
        Edit("problem.weight[Layout::offset(", "problem.weight[Contiguous::offset("),
    ),
    _fault(
        "lowest-code-clamped",
        SCALAR,
        "takes -128 for -127",
        _SIGN,
        MISMATCH,
        Edit("static_cast<signed char>(byte);", "(byte == 0x80 ? -127 : static_cast<signed char>(byte));"),
    ),
)

_WGMMA = (
    _fault(
        "stage-released-while-it-is-multiplied",
        WGMMA,
        "lets the producer fill a stage again whose products may still be running",
        _RING,
        RACE,
        Edit("        if (before >= 0) release(shared, before);\n", "        release(shared, turn.slot);\n"),
        possible=READ_TOO_EARLY,
    ),
    _fault(
        "last-products-not-waited-for",
        WGMMA,
        "reads the sums while the last products may still be running",
        f"{_ISA}.wait_group",
        ASYNC,
        Edit("    wgmma_wait_group<0>();\n", ""),
        possible=READ_TOO_EARLY | RACE,
    ),
    _fault(
        "first-products-add-to-nothing",
        WGMMA,
        "adds the first products to registers that nothing has set",
        f"{_ISA}: scale-d",
        frozenset({FindingKind.UNINITIALISED}),
        Edit("x, w, !is_first || k > 0);", "x, w, true);"),
        possible=MISMATCH | ASYNC,
    ),
    _fault(
        "descriptor-without-its-swizzle",
        WGMMA,
        "describes the tiles as if they were stored without a swizzle",
        "AstrAI tma.cuh @2fb0b143: map and readers disagreed on the swizzle",
        MISMATCH,
        Edit(" | 1ull << 62;", ";"),
        possible=READ_TOO_EARLY | OUT_OF_BOUNDS | RACE,
    ),
    _fault(
        "both-warpgroups-in-the-same-rows",
        WGMMA,
        "gives the second warpgroup the rows of the first",
        _FRAGMENTS,
        MISMATCH,
        Edit("&stage.x[group * kGroupRows][k]", "&stage.x[group * 0][k]"),
    ),
    _fault(
        "raster-not-a-bijection",
        WGMMA,
        "walks through the last group of rows of tiles as if it were as high as the others",
        "MetaInfer prefill skill: raster dim3(32, 41), rejected",
        UNWRITTEN,
        Edit("min(down - first, kRasterRows);", "kRasterRows;"),
        possible=MISMATCH,
    ),
    _fault(
        "ring-taken-for-full",
        WGMMA,
        "waits for a slot of a new ring to be released, which nobody will do",
        "AstrAI tma.cuh: transaction bytes and phases that never match hang",
        frozenset({FindingKind.DEADLOCK}),
        Edit(
            "shared_address(&shared.empty[turn.slot]), turn.parity ^ 1);",
            "shared_address(&shared.empty[turn.slot]), turn.parity);",
        ),
        possible=UNWRITTEN,
    ),
)

FAULTS = (*_COMBINE, *_STAGES, *_TILES, *_OUTPUTS, *_WGMMA)
