"""The contract of mm_fp8: a product of two FP8 operands by one scale, with or without a bias, to bf16 or e4m3.

Worked example, layout NT, one row [2, 4] of a and one row [1, 0.5] of b, scale 0.75, bias 1: the sum is 4, and the
output fma(4, 0.75, 1) = 4. `astrai_mm_fp8_cases` says what runs, `astrai_mm_families` on which data.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.astrai_mm_families import BF16, FAMILIES, generate
from tileproof.conformance.astrai_mm_fp8_cases import CONTRACT, KERNEL, SPACE, cases
from tileproof.conformance.astrai_mm_fp8_properties import properties
from tileproof.conformance.astrai_mm_setting import DIMENSIONS, TYPES, Setting, setting
from tileproof.conformance.case import Case, Shape
from tileproof.conformance.contract import (
    REFUSED,
    Arrays,
    Comparison,
    Contract,
    EditedSource,
    Mask,
    Role,
    Rule,
    Run,
    TensorSpec,
)
from tileproof.conformance.division import Divides
from tileproof.conformance.our_divisions import mm_fp8
from tileproof.kernels.device import Device
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH, Launch
from tileproof.kernels.mm_fp8 import SOURCE, MmFp8
from tileproof.kernels.mm_fp8_dispatch import Route
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.epilogue import ASTRAI_LINEAR, Addend, Contraction, EpilogueRule, Output
from tileproof.oracle.epilogues.epilogue_array import Operands, apply_epilogue
from tileproof.oracle.products.accumulation_order import AccumulationOrder

ASSEMBLER = "13.0"
"""The CUDA release of the pinned compiler, by which the sum's expansion on sm_90 is chosen."""

STAGE_K = 64
"""Codes of K in a stage: what K is filled up to."""

TILE = 64

_ASTRAI = "0z5a/AstrAI csrc/kernels/fp8/{gemm.cuh,ops.cu}"
_CHOICE = "left open by AstrAI; declared here"
_PTX = "PTX ISA 9.0"

RULES = (
    Rule("sum", "mma m16n8k32 in float32, chained over k ascending from 0; its bits are the architecture's", _ASTRAI),
    Rule("ragged K", "both operands filled with zero codes up to a multiple of 64", _ASTRAI),
    Rule("scale", "one float32 for the call, multiplied", f"{_ASTRAI} @057c0d33"),
    Rule("bias", "added in float32 before the only rounding; bf16, or a code times bias_scale, rounded", _ASTRAI),
    Rule(
        "contraction", "with a bias, sum · scale + bias is one fused operation; without one, nothing is added", _CHOICE
    ),
    Rule("bf16 output", "one rounding to nearest even; NaN becomes 0x7fff", f"{_PTX}, cvt.rn.bf16"),
    Rule("e4m3 output", "the value times out_scale, then one rounding, saturating; NaN becomes 0x7f", _ASTRAI),
    Rule("batch", "an operand of one matrix, or of two dimensions, is every member's; at most 65,535 of them", _ASTRAI),
    Rule("strides", "one inner stride must be 1; a transposed view is another layout, not a copy", _ASTRAI),
    Rule("routes", "every variant gives the same bits", _CHOICE),
)

CODES, F32 = np.dtype(np.uint8), np.dtype(np.float32)
OPERAND_TYPES = {"e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2)}
_NAMES = {"e4m3": "E4M3FN", "e5m2": "E5M2"}


def tensors(shape: Shape) -> tuple[TensorSpec, ...]:
    """Both operands as they are stored, the scales, the bias, the output."""
    of = setting(shape)
    kind = _NAMES[of.types.format]

    def spec(name: str, short: str, role: Role, dtype: Any, kind: str, *extents: int) -> TensorSpec:
        view = shape.view(short)
        return TensorSpec(name, short, role, dtype, kind, extents, view.pad, view.offset)

    a, b = (of.rows, of.depth), (of.depth, of.columns)
    found = [
        spec("a", "a", Role.INPUT, CODES, kind, *of.leading(of.a_batch), *(a[::-1] if of.types.a_turned else a)),
        spec("b", "b", Role.INPUT, CODES, kind, *of.leading(of.b_batch), *(b[::-1] if of.types.b_turned else b)),
        spec("scale", "s", Role.INPUT, F32, "FLOAT32", 1),
    ]
    if of.types.bias == "bf16":
        found.append(spec("bias", "bias", Role.INPUT, BF16, "BFLOAT16", of.columns))
    if of.types.bias == "fp8":
        found.append(spec("bias", "bias", Role.INPUT, CODES, kind, of.columns))
        found.append(spec("bias_scale", "bs", Role.INPUT, F32, "FLOAT32", 1))
    if of.types.fp8_out:
        found.append(spec("out_scale", "os", Role.INPUT, F32, "FLOAT32", 1))
    dtype, name = (CODES, "E4M3FN") if of.types.fp8_out else (BF16, "BFLOAT16")
    found.append(spec("out", "o", Role.OUTPUT, dtype, name, *of.leading(of.batch), of.rows, of.columns))
    return tuple(found)


def expected_routes(shape: Shape) -> tuple[str, ...]:
    """Every variant takes every shape that has a K and fitting batches."""
    of = setting(shape)
    if of.depth == 0 or not of.fits:
        return (REFUSED,)
    return (NOTHING_TO_LAUNCH,) if 0 in (of.rows, of.columns) else tuple(Route)


def inputs(case: Case) -> Arrays:
    """The generated inputs of a case."""
    of, specs = setting(case.shape), tensors(case.shape)
    if expected_routes(case.shape) == (REFUSED,):
        return {spec.name: np.zeros(spec.shape, spec.dtype) for spec in specs if spec.role.is_read}
    made = generate(case.family, of, case.random())
    a, b = (made.a.swapaxes(-1, -2) if of.types.a_turned else made.a), made.b
    values = {
        "a": np.ascontiguousarray(a),
        "b": np.ascontiguousarray(b if of.types.b_turned else b.swapaxes(-1, -2)),
        "bias": made.bias,
    }
    scales = {"scale": made.scale, "bias_scale": made.bias_scale, "out_scale": made.out_scale}
    values.update({name: np.array([value], np.float32) for name, value in scales.items()})
    return {spec.name: values[spec.name] for spec in specs if spec.role.is_read}


def sums(of: Setting, values: Arrays, arch: str) -> NDArray[Any]:
    """The sums over k, float32 [.., M, N]."""
    from tileproof.oracle.gemm import gemm  # here: it loads a compiler, and listing cases needs none

    order = AccumulationOrder(
        instruction=f"mma.m16n8k32.f32.{of.types.format}.{of.types.format}", arch=arch, assembler=ASSEMBLER
    )
    a = values["a"].swapaxes(-1, -2) if of.types.a_turned else values["a"]
    b = values["b"] if of.types.b_turned else values["b"].swapaxes(-1, -2)
    return gemm(order, *(_filled(rows) for rows in (a, b)))


def _filled(rows: NDArray[Any]) -> NDArray[Any]:
    return np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, -rows.shape[-1] % STAGE_K)])


def rule_of(of: Setting) -> EpilogueRule:
    """What becomes of a sum."""
    rule = replace(ASTRAI_LINEAR, addend=Addend.NONE)
    if of.types.bias:
        rule = replace(ASTRAI_LINEAR, bias_scaled=of.types.bias == "fp8").contracted(Contraction.SCALE)
    return replace(rule, output=Output.E4M3) if of.types.fp8_out else rule


def finished(rule: EpilogueRule, of: Setting, values: Arrays, given: NDArray[Any]) -> NDArray[Any]:
    """The outputs of sums by a rule."""
    scaled = of.types.bias == "fp8"
    operands = Operands(
        accumulators=given.reshape(-1, of.columns),
        factors=(values["scale"][0],),
        addend=values.get("bias"),
        bias_format=of.types.record if scaled else None,
        bias_scale=values["bias_scale"][0] if scaled else None,
        out_scale=values["out_scale"][0] if of.types.fp8_out else None,
    )
    return apply_epilogue(rule, operands).reshape(given.shape)


def expected(case: Case, values: Arrays, arch: str) -> Arrays:
    """The output that the oracle gives."""
    of = setting(case.shape)
    if 0 in (of.rows, of.columns):
        return {"out": np.zeros((*of.leading(of.batch), of.rows, of.columns), CODES if of.types.fp8_out else BF16)}
    return {"out": finished(rule_of(of), of, values, sums(of, values, arch))}


def classes(values: Arrays, right: Arrays) -> Mapping[str, Mapping[str, Mask]]:
    """Of the output: what kind of result it is, and which part of a tile."""
    out = right["out"]
    plain = out.astype(np.float32) if out.dtype == BF16 else np.where(out & 0x7F == 0x7F, np.nan, out & 0x7F)
    row, column = np.arange(out.shape[-2])[:, np.newaxis], np.arange(out.shape[-1])[np.newaxis]
    masks = {
        "NaN": np.isnan(plain),
        "zeros": plain == 0,
        "the partial row tile (M mod 64)": row >= out.shape[-2] // TILE * TILE,
        "the partial column tile (N mod 64)": column >= out.shape[-1] // TILE * TILE,
        "even columns": column % 2 == 0,
        "odd columns": column % 2 == 1,
        "rows 8 to 15 mod 16": row % 16 >= 8,
        "columns 8 to 15 mod 16": column % 16 >= 8,
    }
    if out.ndim == 3:
        masks["matrices past the first"] = np.arange(out.shape[0])[:, np.newaxis, np.newaxis] > 0
    return {"out": {name: np.broadcast_to(mask, out.shape) for name, mask in masks.items()}}


def witnesses(output: str, index: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """For an output: the scale of the call."""
    return (("scale", (0,)),) if output == "out" else ()


def divisions(case: Case) -> Mapping[str, Divides]:
    """Of the output, by route."""
    division = mm_fp8(case.route)
    return {"out": division} if division else {}


def kernel(device: Device, name: str, source: EditedSource | None) -> Run:
    """The launcher on `device`, compiled from `source` or as shipped; the case names the variant."""
    mm = MmFp8(device, source=SOURCE if source is None else source.text)
    routes = {str(route): route for route in Route}

    def run(case: Case, given: Mapping[str, Tensor]) -> Launch:
        types = setting(case.shape).types
        dtype = OPERAND_TYPES[types.format]
        bias, out = given.get("bias"), given["out"]
        if bias is not None and types.bias == "fp8":
            bias = replace(bias, dtype=dtype)
        return mm(
            _operand(given["a"], dtype, turned=types.a_turned),
            _operand(given["b"], dtype, turned=types.b_turned),
            given["scale"],
            replace(out, dtype=OPERAND_TYPES["e4m3"]) if types.fp8_out else out,
            bias=bias,
            bias_scale=given.get("bias_scale"),
            out_scale=given.get("out_scale"),
            route=routes.get(case.route),
        )

    return run


def _operand(stored: Tensor, dtype: np.dtype[Any], *, turned: bool) -> Tensor:
    """The operand as the launcher takes it: a transposed view where it is stored the other way round."""
    shape, strides = stored.shape, stored.strides
    if turned:
        shape, strides = ((*of[:-2], of[-1], of[-2]) for of in (shape, strides))
    return replace(stored, dtype=dtype, shape=shape, strides=strides)


ASTRAI_MM_FP8 = Contract(
    name=CONTRACT,
    summary="product of two FP8 operands by one scale, with or without bias, to bf16 or e4m3",
    comparison=Comparison.ROUTE_BITS,
    rules=RULES,
    properties=properties(),
    routes={KERNEL: (*Route, NOTHING_TO_LAUNCH, REFUSED)},
    dimensions=DIMENSIONS,
    dtypes=tuple(TYPES),
    families=tuple(FAMILIES),
    generator_version=1,
    tensors=tensors,
    cases=partial(cases, expected_routes),
    inputs=inputs,
    expected=expected,
    expected_routes=expected_routes,
    classes=classes,
    witnesses=witnesses,
    kernel=kernel,
    divisions=divisions,
    space=SPACE,
)
