"""The contracts of ninfer's FP8 operators: bf16 activations quantised per token, times an e4m3 weight, to bf16 outputs.

Worked example, one token [448, 2] and one weight row [0, 3] with scale 0.5: the activation scale is 448 / 448 = 1, the
codes are those of 448 and 2, the sum is 6, and the output is (6 · 1) · 0.5 = 3. `linear_add` on an output of 1 gives 4.

The operators differ in what becomes of the product; `ninfer_gemm_cases` says what runs, `gemm_families` on which data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance import gemm_families
from tileproof.conformance.case import Case, Shape
from tileproof.conformance.contract import (
    REFUSED,
    Allowed,
    Arrays,
    Comparison,
    Contract,
    EditedSource,
    Mask,
    Right,
    Role,
    Run,
    TensorSpec,
)
from tileproof.conformance.division import Divides
from tileproof.conformance.gemm_families import BF16, FAMILIES, Extents
from tileproof.conformance.layout import strides_of
from tileproof.conformance.ninfer_gemm_cases import (
    DIMENSIONS,
    KERNEL,
    PARTS,
    SHORT,
    cases,
    contract_name,
    space,
    widths,
)
from tileproof.conformance.ninfer_gemm_properties import properties
from tileproof.conformance.ninfer_gemm_rules import rules
from tileproof.conformance.our_divisions import fp8_a8
from tileproof.kernels.compile import architecture_number
from tileproof.kernels.device import Device
from tileproof.kernels.fp8_a8_call_site import CALL_SITES, CallSite
from tileproof.kernels.fp8_a8_gemm import kernel_name
from tileproof.kernels.fp8_a8_operator import Fp8A8Operator, Weight, Workspace
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.kernels.fp8_quantize_rows import NAME as QUANTIZE
from tileproof.kernels.fp8_quantize_rows import SOURCE as QUANTIZE_SOURCE
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH
from tileproof.oracle.epilogue import NINFER_LINEAR, NINFER_LINEAR_ADD, Contraction
from tileproof.oracle.epilogues.epilogue_array import Operands, apply_epilogue
from tileproof.oracle.epilogues.silu import CUDA_EX2_SILU
from tileproof.oracle.epilogues.swiglu import swiglu_of_rows
from tileproof.oracle.products.accumulation_order import AccumulationOrder, RaggedK
from tileproof.oracle.quantize import quantize_rows

INSTRUCTION = "mma.m16n8k32.f32.e4m3.e4m3"
ASSEMBLER = "13.0"
"""The CUDA release of the pinned compiler, by which the sum's expansion on sm_90 is chosen."""

TILE_ROWS = 128
TILE_TOKENS = 64
STAGE_DEPTHS = {Route.TMA: 64, Route.CP_ASYNC: 128}
"""Codes of K that a stage holds; the fallback takes any number."""
FIRST_WITH_TMA = 90
VECTOR_BYTES = 16
SCALE_PAIR_BYTES = 4


def order(arch: str) -> AccumulationOrder:
    """How every route adds up K on an architecture."""
    return AccumulationOrder(instruction=INSTRUCTION, arch=arch, assembler=ASSEMBLER, ragged_k=RaggedK.ZERO_FILL)


@dataclass(frozen=True)
class Operator:
    """One call site as a contract."""

    site: CallSite

    def tensors(self, shape: Shape) -> tuple[TensorSpec, ...]:
        """x, weight and its scales; the workspace; the outputs."""
        tokens, rows, depth = (shape.size(name) for name in DIMENSIONS)
        codes, scales = np.dtype(np.uint8), np.dtype(np.float32)

        def spec(name: str, short: str, role: Role, dtype: Any, kind: str, extents: tuple[int, ...]) -> TensorSpec:
            view = shape.view(short)
            return TensorSpec(name, short, role, dtype, kind, extents, view.pad, view.offset)

        role = Role.IN_PLACE if self.site.adds else Role.OUTPUT
        return (
            spec("x", "x", Role.INPUT, BF16, "BFLOAT16", (tokens, depth)),
            spec("weight", "w", Role.INPUT, codes, "E4M3FN", (rows, depth)),
            spec("weight_scales", "ws", Role.INPUT, BF16, "BFLOAT16", (rows,)),
            spec("codes", "c", Role.OUTPUT, codes, "E4M3FN", (tokens, depth)),
            spec("scales", "s", Role.OUTPUT, scales, "FLOAT32", (tokens,)),
            *(
                spec(name, SHORT[name], role, BF16, "BFLOAT16", (tokens, width))
                for name, width in zip(self.site.outputs, widths(self.site, rows), strict=True)
            ),
        )

    def expected_routes(self, shape: Shape) -> tuple[str, ...]:
        """The fallback takes every shape; the tiled routes whole tiles of rows and of K at aligned addresses."""
        tokens, rows, depth = (shape.size(name) for name in DIMENSIONS)
        if rows == 0 or depth == 0 or rows % PARTS[self.site.name].total:
            return (REFUSED,)
        if tokens == 0:
            return (NOTHING_TO_LAUNCH,)
        specs = {spec.name: spec for spec in self.tensors(shape)}
        begins = self.site.begins(widths(self.site, rows))
        whole = not any(begin % TILE_ROWS for begin in (rows, *begins))
        aligned = all(_is_aligned(specs[name], VECTOR_BYTES) for name in ("codes", "weight", *self.site.outputs))
        paired = _is_aligned(specs["weight_scales"], SCALE_PAIR_BYTES)
        tiled = whole and aligned and paired
        return (*(route for route, stage in STAGE_DEPTHS.items() if tiled and depth % stage == 0), Route.FALLBACK)

    def obstacle(self, case: Case, arch: str) -> str | None:
        """Tensor copies begin with sm_90."""
        missing = case.route == Route.TMA and architecture_number(arch) < FIRST_WITH_TMA
        return f"{arch} has no tensor copies" if missing else None

    def inputs(self, case: Case) -> Arrays:
        """The generated inputs of a case."""
        extents = Extents(*(case.shape.size(name) for name in DIMENSIONS))
        if 0 in (extents.rows, extents.depth):
            return {
                spec.name: np.zeros(spec.shape, spec.dtype) for spec in self.tensors(case.shape) if spec.role.is_read
            }
        made = gemm_families.generate(case.family, extents, case.random())
        given = {"x": made.x, "weight": made.weight, "weight_scales": made.weight_scales}
        return {**given, "out": made.residual} if self.site.adds else given

    def expected(self, values: Arrays, arch: str) -> Right:
        """The workspace and the outputs that the oracle gives."""
        right = quantize_rows(values["x"])
        product = self.finished(values, self.sums(values, right.codes, arch), right.scales)
        return {"codes": right.codes, "scales": right.scales, **self.outputs(product)}

    def sums(self, values: Arrays, codes: NDArray[Any], arch: str) -> NDArray[Any]:
        """The sums over k, float32 [T, N]."""
        from tileproof.oracle.gemm import gemm  # here: it loads a compiler, and listing cases needs none

        return gemm(order(arch), codes, values["weight"])

    def finished(self, values: Arrays, sums: NDArray[Any], scales: NDArray[Any]) -> NDArray[Any]:
        """bf16 [T, N] of sums, before it is combined or dealt out."""
        rule = NINFER_LINEAR_ADD.contracted(Contraction.SCALE) if self.site.adds else NINFER_LINEAR
        residual = values["out"] if self.site.adds else None
        factors = (scales, values["weight_scales"])
        return apply_epilogue(rule, Operands(accumulators=sums, factors=factors, addend=residual))

    def outputs(self, product: NDArray[Any]) -> Right:
        """The outputs of a product."""
        if self.site.paired:
            allowed = swiglu_of_rows(product, CUDA_EX2_SILU, width=product.shape[1] // 2)
            return {"out": Allowed(allowed.lower, allowed.upper)}
        ends = np.cumsum(widths(self.site, product.shape[1]))[:-1]
        parts = np.split(product, ends, axis=1)
        return {name: np.ascontiguousarray(part) for name, part in zip(self.site.outputs, parts, strict=True)}

    def classes(self, values: Arrays, right: Arrays) -> Mapping[str, Mapping[str, Mask]]:
        """Of each output: what kind of result it is, and which part of a tile."""
        return {"codes": {}, "scales": {}, **{name: _output_classes(right[name]) for name in self.site.outputs}}

    def witnesses(self, output: str, index: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """For an output: the scales of its row, and of its column where that is the weight's."""
        if output not in self.site.outputs:
            return ()
        column = (("weight_scales", index[1:]),) if len(self.site.outputs) == 1 else ()
        return (("scales", index[:1]), *column)

    def divisions(self, case: Case) -> Mapping[str, Divides]:
        """Of the outputs, by route; an output begins at a whole tile."""
        division = fp8_a8(case.route, paired=self.site.paired)
        return dict.fromkeys(self.site.outputs, division) if division else {}

    def kernel(self, device: Device, name: str, source: EditedSource | None) -> Run:
        """The operator on a device; `source` stands in for the one kernel that it is a text of."""
        names = {kernel_name(route): route for route in Route}
        sources = {names[source.name]: source.text} if source is not None and source.name in names else {}
        edited = source is not None and source.name == QUANTIZE
        quantize = source.text if source is not None and edited else QUANTIZE_SOURCE
        operator = Fp8A8Operator(device, self.site, sources=sources, quantize_source=quantize)
        routes = {str(route): route for route in Route}
        return lambda case, given: operator(
            given["x"],
            Weight(given["weight"], given["weight_scales"]),
            [given[name] for name in self.site.outputs],
            Workspace(given["codes"], given["scales"]),
            route=routes.get(case.route),
        )

    def contract(self) -> Contract:
        """The contract of this operator."""
        return Contract(
            name=contract_name(self.site),
            summary=_SUMMARIES[self.site.name],
            comparison=Comparison.SET if self.site.paired else Comparison.ROUTE_BITS,
            rules=rules(self.site),
            properties=properties(self.site),
            routes={KERNEL: (*Route, NOTHING_TO_LAUNCH, REFUSED)},
            dimensions=DIMENSIONS,
            dtypes=("",),
            families=tuple(FAMILIES),
            generator_version=1,
            tensors=self.tensors,
            cases=partial(cases, self.site, self.expected_routes),
            inputs=self.inputs,
            expected=lambda case, values, arch: self.expected(values, arch),
            expected_routes=self.expected_routes,
            classes=self.classes,
            witnesses=self.witnesses,
            kernel=self.kernel,
            obstacle=self.obstacle,
            divisions=self.divisions,
            space=space(self.site),
        )


def _output_classes(right: NDArray[Any]) -> dict[str, Mask]:
    values = right.astype(np.float32)
    tokens, columns = np.arange(values.shape[0])[:, np.newaxis], np.arange(values.shape[1])[np.newaxis]
    masks = {
        "NaN": np.isnan(values),
        "infinities": np.isinf(values),
        "zeros": values == 0,
        "the partial token tile (T mod 64)": tokens >= values.shape[0] // TILE_TOKENS * TILE_TOKENS,
        "token 0": tokens == 0,
        "even columns": columns % 2 == 0,
        "odd columns": columns % 2 == 1,
        "columns 0 to 63 mod 128": columns % TILE_ROWS < TILE_ROWS // 2,
    }
    return {name: np.broadcast_to(mask, values.shape) for name, mask in masks.items()}


def _is_aligned(spec: TensorSpec, alignment_bytes: int) -> bool:
    width = spec.dtype.itemsize
    rows = strides_of(spec)[0] * width if len(spec.shape) > 1 else 0
    return spec.offset * width % alignment_bytes == 0 and rows % alignment_bytes == 0


_SUMMARIES = {
    "linear": "FP8 row-scaled product of quantised activations",
    "linear_add": "the product added to the output in place, before the only rounding",
    "linear_swiglu": "silu(gate) · up of the two halves of the product",
    "attn_input_proj": "the product dealt out to query, key, gate and value",
    "gdn_input_proj": "the product dealt out to qkv and z",
}

OPERATORS = {contract_name(site): Operator(site) for site in CALL_SITES}
"""By contract name."""

CONTRACTS = tuple(operator.contract() for operator in OPERATORS.values())
