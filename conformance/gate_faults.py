"""The faults that every suite of this kind must reject: oracles that cannot be right, and three defects of kernels.

An oracle that gives zeros, 0.72 or 1.05 times the value, another sign, the scales of other rows, a sum without its last
step of K, exchanged nibbles or the neighbouring code has passed public gates with a tolerance. Here the kernel is right
and the model wrong; a suite that finds nothing compares nothing.
"""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.astrai_mm_fp8_cases import CONTRACT as MM
from tileproof.conformance.contract import Arrays, Right
from tileproof.conformance.fault import MISMATCH, Edit, Fault
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.metainfer_w8a8_cases import CONTRACT as W8A8
from tileproof.conformance.ninfer_gemm import OPERATORS
from tileproof.conformance.ninfer_quantize_cases import CONTRACT as QUANTIZE
from tileproof.oracle.formats import E4M3FN
from tileproof.oracle.quantize import quantize_rows

LINEAR = "ninfer_linear"
_GATE = "rocm-libraries 11003, KernelBench 165, imp 1304 (a gate that cannot fail)"
_STEP = 32  # codes of K that one matrix instruction takes

Codes = NDArray[np.uint8]


def _linear(values: Arrays, arch: str, *, codes: Callable[[Codes], Codes] = lambda codes: codes) -> dict[str, Any]:
    """The right outputs of the plain product, or those of other activations than the quantised ones."""
    operator, right = OPERATORS[LINEAR], quantize_rows(values["x"])
    sums = operator.sums(values, codes(right.codes), arch)
    return {
        "codes": right.codes,
        "scales": right.scales,
        "out": np.asarray(operator.finished(values, sums, right.scales)),
    }


def _times(factor: float) -> Callable[[Arrays, str], Right]:
    """A model that gives so many times the value."""

    def model(values: Arrays, arch: str) -> Right:
        right = _linear(values, arch)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = right["out"].astype(np.float32) * np.float32(factor)
            return {**right, "out": scaled.astype(ml_dtypes.bfloat16)}

    return model


def _other_scales(values: Arrays, arch: str) -> Right:
    return _linear({**values, "weight_scales": values["weight_scales"][::-1]}, arch)


def _without_the_last_step(values: Arrays, arch: str) -> Right:
    def dropped(codes: Codes) -> Codes:
        kept = codes.copy()
        kept[:, max(0, kept.shape[1] - 1) // _STEP * _STEP :] = 0
        return kept

    return _linear(values, arch, codes=dropped)


def _subnormals_as_normals(values: Arrays, arch: str) -> Right:
    """A model that puts the hidden bit before every mantissa; it sums exactly."""
    right = _linear(values, arch)
    with np.errstate(all="ignore"):
        sums = (_decoded_as_normal(right["codes"]) @ _decoded_as_normal(values["weight"]).T).astype(np.float32)
    return {**right, "out": OPERATORS[LINEAR].finished(values, sums, right["scales"])}


def _decoded_as_normal(codes: Codes) -> NDArray[np.float64]:
    decoded = np.asarray(E4M3FN.decode(codes), np.float64)
    fraction = codes & 7
    subnormal = (codes & 0x78 == 0) & (fraction != 0)
    wrong = np.where(codes & 0x80, -1.0, 1.0) * (1 + fraction / 8) * 2.0**-7
    return np.where(subnormal, wrong, decoded)


def _quantised(change: Callable[[Codes], Codes]) -> Callable[[Arrays, str], Right]:
    def model(values: Arrays, arch: str) -> Right:
        right = quantize_rows(values["x"])
        return {"codes": change(right.codes), "scales": right.scales}

    return model


def _nibbles_swapped(codes: Codes) -> Codes:
    return np.asarray(codes << 4 | codes >> 4, np.uint8)


def _up(codes: Codes) -> Codes:
    return codes + np.uint8(1)


def _down(codes: Codes) -> Codes:
    return codes - np.uint8(1)


def _model(name: str, contract: str, what: str, model: Callable[[Arrays, str], Right], precedent: str = _GATE) -> Fault:
    return Fault(f"gate-{name}", contract, what, precedent, MISMATCH, model=model)


FAULTS = (
    _model("zeros", LINEAR, "the reference gives zeros", _times(0.0)),
    _model("times-0.72", LINEAR, "the reference gives 0.72 times the value", _times(0.72)),
    _model("times-1.05", LINEAR, "the reference gives 1.05 times the value", _times(1.05)),
    _model("sign-flipped", LINEAR, "the reference gives the other sign", _times(-1.0)),
    _model("scales-swapped", LINEAR, "the reference takes the scales of other rows of the weight", _other_scales),
    _model("last-k-tile-dropped", LINEAR, "the reference leaves out the last step of K", _without_the_last_step),
    _model(
        "subnormals-as-normals",
        LINEAR,
        "the reference decodes subnormal codes with the hidden bit of normal ones",
        _subnormals_as_normals,
        "b12x 388",
    ),
    _model("nibbles-swapped", QUANTIZE, "the reference exchanges the halves of a code", _quantised(_nibbles_swapped)),
    _model("one-code-up", QUANTIZE, "the reference gives the next code", _quantised(_up)),
    _model("one-code-down", QUANTIZE, "the reference gives the code below", _quantised(_down)),
    Fault(
        "gate-vectors-for-codes-of-any-alignment",
        QUANTIZE,
        "the launcher asks whether x suits vectors and not whether the codes do",
        "vllm 14796 (wrong support predicate)",
        frozenset({FindingKind.ROUTE, FindingKind.MISALIGNED, FindingKind.UNWRITTEN}),
        file="fp8_quantize_rows.py",
        edits=(Edit("(x, LOAD_BYTES) and is_aligned(codes, STORE_BYTES) else", "(x, LOAD_BYTES) else"),),
    ),
    Fault(
        "gate-bias-along-the-other-axis",
        MM,
        "adds the bias of an output's row, where columns have one",
        "xla 46897 (bias along the wrong axis)",
        MISMATCH,
        frozenset({FindingKind.OUT_OF_BOUNDS, FindingKind.UNINITIALISED}),
        file="mm_fp8",
        edits=(
            Edit(
                "biased ? __fmaf_rn(sums, scale, bias[i]) : __fmul_rn(sums, scale);",
                "biased && row < problem.columns ? __fmaf_rn(sums, scale, bias_of<Format>(problem, row))"
                " : __fmul_rn(sums, scale);",
            ),
        ),
    ),
    Fault(
        "gate-pairs-summed-in-16-bits",
        W8A8,
        "adds two products in 16 bits, which -128 times -128 twice does not fit",
        "onnxruntime 31573 (16-bit pair sum)",
        MISMATCH,
        file="int8_gemm_scalar",
        edits=(
            Edit("    int sum = 0;\n", "    int sum = 0, pair = 0;\n"),
            Edit(
                "        sum += x[k] * static_cast<signed char>(byte);\n",
                "        pair = static_cast<short>(pair + x[k] * static_cast<signed char>(byte));\n"
                "        if (k % 2 == 1 || k + 1 == problem.depth) sum += pair, pair = 0;\n",
            ),
        ),
    ),
)  # fmt: skip
