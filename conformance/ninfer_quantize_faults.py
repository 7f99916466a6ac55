"""The faults of `ninfer_quantize`: edits of the row quantiser, and of its model."""

import numpy as np

from tileproof.conformance.contract import Arrays
from tileproof.conformance.fault import MISMATCH, Edit, Fault
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.ninfer_quantize_cases import CONTRACT
from tileproof.oracle.formats import E4M3FN
from tileproof.oracle.quantize import quantize_rows


def _of_product(expression: str) -> tuple[Edit, ...]:
    """An edit that puts `expression` in place of the product of an element and its row's inverse."""
    return (Edit("    return value * row.inverse;\n", f"    const float product = value * row.inverse;\n{expression}"),)


_CONVERSION = (
    Fault(
        "divide",
        CONTRACT,
        "divides by the scale instead of multiplying by its rounded reciprocal",
        "MSLK 224; arch-com 905",
        MISMATCH,
        edits=(
            Edit(
                "    return value * row.inverse;\n",
                "    const bool known = row.scale > 0.0f && row.inverse <= 3.0e38f;\n"
                "    return known ? __fdiv_rn(value, row.scale) : value * row.inverse;\n",
            ),
        ),
    ),
    Fault(
        "no-saturation",
        CONTRACT,
        "a product beyond 448 keeps only the low bits of its exponent: it wraps instead of saturating",
        "pytorch 178817; aiter 4637",
        MISMATCH,
        edits=_of_product(
            "    const bool beyond = fabsf(product) >= 464.0f;\n"
            "    return beyond ? __uint_as_float(__float_as_uint(product) & 0xBFFFFFFFu) : product;\n"
        ),
    ),
    Fault(
        "saturates-a-binade-early",
        CONTRACT,
        "everything from 256 on becomes 448, as if exponent 15 were not finite",
        "sglang 40581; tilelang-metax 140",
        MISMATCH,
        edits=_of_product("    return fabsf(product) >= 256.0f ? copysignf(kLargestE4m3, product) : product;\n"),
    ),
    Fault(
        "through-fp16",
        CONTRACT,
        "rounds the product to fp16 first, so that what lies just past a tie becomes one",
        "triton 11753; FreeToken 85",
        MISMATCH,
        edits=_of_product("    return cvt_f32_f16(cvt_rn_f16_f32(product));\n"),
    ),
    Fault(
        "truncates",
        CONTRACT,
        "cuts the mantissa to three bits instead of rounding it",
        "aiter 4637; FreeToken 85",
        MISMATCH,
        edits=_of_product("    return __uint_as_float(__float_as_uint(product) & 0xFFF00000u);\n"),
    ),
    Fault(
        "ties-away",
        CONTRACT,
        "rounds ties away from zero instead of to even",
        "triton 11753; tt-metal 45086",
        MISMATCH,
        edits=_of_product(
            "    const bool normal = fabsf(product) >= 0.015625f && fabsf(product) < 464.0f;\n"
            "    return normal ? __uint_as_float((__float_as_uint(product) + 0x00080000u) & 0xFFF00000u) : product;\n"
        ),
    ),
    Fault(
        "flushes-subnormal-codes",
        CONTRACT,
        "a product below the smallest normal code becomes zero",
        "pytorch 107586; tvm 20315",
        MISMATCH,
        edits=_of_product("    return fabsf(product) < 0.015625f ? copysignf(0.0f, product) : product;\n"),
    ),
)

_SCALE = (
    Fault(
        "zero-row-unguarded",
        CONTRACT,
        "takes the reciprocal of a zero scale, so that a row of zeros becomes NaN",
        "torchao 4714; kernels-community 681",
        MISMATCH,
        edits=(Edit("scale > 0.0f ? __fdiv_rn(1.0f, scale) : 0.0f", "__fdiv_rn(1.0f, scale)"),),
    ),
    Fault(
        "nan-erases-amax",
        CONTRACT,
        "compares in place of fmaxf, so that a NaN replaces the maximum and the next element replaces the NaN",
        "Camelid 561; MIOpen 2819",
        MISMATCH,
        edits=(
            Edit(
                "amax = fmaxf(amax, fabsf(values[i]));",
                "amax = amax >= fabsf(values[i]) ? amax : fabsf(values[i]);",
            ),
        ),
    ),
    Fault(
        "amax-of-aligned-part",
        CONTRACT,
        "leaves the ragged end of a row out of its maximum",
        "mlx 3912; sglang 8543",
        MISMATCH,
        edits=(
            Edit(
                "k < columns; k += kThreads) {\n        amax",
                "k < columns / kVector * kVector; k += kThreads) {\n        amax",
            ),
        ),
    ),
)

_PACKING = (
    Fault(
        "halves-swapped",
        CONTRACT,
        "exchanges the two pairs of codes in a word",
        "llvm 80502",
        MISMATCH,
        edits=(
            Edit(
                "Format::pair(values[0], values[1]) | Format::pair(values[2], values[3]) << kPairBits",
                "Format::pair(values[2], values[3]) | Format::pair(values[0], values[1]) << kPairBits",
            ),
        ),
    ),
    Fault(
        "half-dropped",
        CONTRACT,
        "packs only the first pair of codes into a word",
        "AstrAI 057c0d33 (one word must hold two pairs)",
        MISMATCH,
        edits=(
            Edit(
                "| Format::pair(values[2], values[3]) << kPairBits",
                "| (Format::pair(values[2], values[3]) & 0u) << kPairBits",
            ),
        ),
    ),
    Fault(
        "pair-operands-swapped",
        CONTRACT,
        "gives cvt its operands in memory order, although the first one lands in the upper byte",
        "Fuser 4711; composable_kernel 1889",
        MISMATCH,
        edits=(Edit("cvt_rn_satfinite_e4m3x2_f32(second, first)", "cvt_rn_satfinite_e4m3x2_f32(first, second)"),),
    ),
)

_RAGGED = (
    Fault(
        "tail-not-written",
        CONTRACT,
        "writes whole vectors of codes only",
        "mlx 3912; b12x 215",
        frozenset({FindingKind.UNWRITTEN}),
        edits=(
            Edit(
                "k < columns; k += kThreads) {\n        codes[k]",
                "k < columns / kVector * kVector; k += kThreads) {\n        codes[k]",
            ),
        ),
    ),
    Fault(
        "tail-read-past-the-end",
        CONTRACT,
        "rounds the row's length up to whole vectors when it reads",
        "ik_llama.cpp 2493; pytorch 133334",
        frozenset({FindingKind.OUT_OF_BOUNDS, FindingKind.MISMATCH}),
        possible=frozenset({FindingKind.UNINITIALISED}),
        edits=(
            Edit(
                "k < columns; k += kThreads) {\n        amax",
                "k < (columns + kVector - 1) / kVector * kVector; k += kThreads) {\n        amax",
            ),
        ),
    ),
    Fault(
        "x-stride-ignored",
        CONTRACT,
        "finds a row of x at row * K, whatever the row stride",
        "vllm 49092; vllm 21773",
        MISMATCH,
        possible=frozenset({FindingKind.MISALIGNED, FindingKind.UNINITIALISED}),
        edits=(Edit("x + row * x_stride;", "x + row * columns;"),),
    ),
    Fault(
        "codes-stride-ignored",
        CONTRACT,
        "writes a row of codes at row * K, whatever the row stride",
        "b12x 215; triton 10927",
        frozenset({FindingKind.CANARY, FindingKind.UNWRITTEN, FindingKind.MISMATCH}),
        possible=frozenset({FindingKind.MISALIGNED}),
        edits=(Edit("codes + row * codes_stride;", "codes + row * columns;"),),
    ),
)

_ORDER = (
    Fault(
        "missing-barrier",
        CONTRACT,
        "reads the warps' maxima without waiting for the warps",
        "optimum-quanto 332; AstrAI 7580d80d",
        frozenset({FindingKind.RACE}),
        possible=frozenset({FindingKind.UNINITIALISED, FindingKind.MISMATCH}),
        edits=(Edit("    __syncthreads();\n", ""),),
    ),
)


def _dividing_model(values: Arrays, arch: str) -> Arrays:
    """A reference that divides by the scale, as many do."""
    right = quantize_rows(values["x"])
    scales = right.scales[:, None]
    with np.errstate(all="ignore"):
        divided = E4M3FN.encode(values["x"].astype(np.float32) / scales)
        known = (scales > np.float32(2.0**-128)) & np.isfinite(scales)
    return {"codes": np.where(known, divided, right.codes), "scales": right.scales}


def _double_rounding_model(values: Arrays, arch: str) -> Arrays:
    """A reference that rounds the product to float16 on the way."""
    right = quantize_rows(values["x"])
    with np.errstate(all="ignore"):
        x = values["x"].astype(np.float32)
        inverse = np.where(right.scales > 0, np.float32(1) / right.scales, np.float32(0)).astype(np.float32)
        return {"codes": E4M3FN.encode((x * inverse[:, None]).astype(np.float16)), "scales": right.scales}


_MODEL = (
    Fault(
        "model-divides",
        CONTRACT,
        "the reference divides by the scale: the kernel is right and the model wrong",
        "MSLK 224; TransformerEngine 2639",
        MISMATCH,
        model=_dividing_model,
    ),
    Fault(
        "model-rounds-twice",
        CONTRACT,
        "the reference rounds through float16: the kernel is right and the model wrong",
        "TensorRT-LLM 17505; rocm-systems 8800",
        MISMATCH,
        model=_double_rounding_model,
    ),
)

FAULTS = (*_CONVERSION, *_SCALE, *_PACKING, *_RAGGED, *_ORDER, *_MODEL)
