"""The contract of the INT8 products: a scale a row and a scale a column on exact int32 sums, rounded once to bf16.

Worked example: sums -88, 32 / 83, 20 with every x_scale 0.5 and every w_scale 1 give -44, 16 / 41.5, 10, the outputs of
MetaInfer's self-test. `metainfer_w8a8_cases` says what runs, `metainfer_w8a8_families` on which data.
"""

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

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
from tileproof.conformance.int8_layout_tokens import LAYOUT_TOKENS
from tileproof.conformance.metainfer_w8a8_cases import (
    CONTRACT,
    DIMENSIONS,
    FUSED,
    IN_BLOCK,
    KERNEL,
    PARTIAL,
    SPACE,
    TOKENS,
    cases,
)
from tileproof.conformance.metainfer_w8a8_families import FAMILIES, first_arrivals, generate
from tileproof.conformance.metainfer_w8a8_properties import properties
from tileproof.conformance.our_divisions import int8_gemm
from tileproof.conformance.our_thread_divisions import int8_scalar
from tileproof.kernels.device import Device
from tileproof.kernels.int8_gemm import Int8Gemm, Product
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH, Launch
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.epilogue import METAINFER_W8A8
from tileproof.oracle.epilogues.epilogue_array import Operands, apply_epilogue
from tileproof.oracle.layouts import PACKS
from tileproof.oracle.products.integer_matrix import multiply_integers
from tileproof.oracle.refusal import Refusal

_SKILLS = "HuangPuStar/MetaInfer int8-w8a8-gemm-{foundations,prefill,decode}/SKILL.md"
_CHOICE = "declared here"

RULES = (
    Rule("sum", "exact in int32; K at most 131,071, so that no sum of products of -128 leaves it", _SKILLS),
    Rule("scales", "(float(sum) * x_scale[m]) * w_scale[n], left-associative, each one float32 operation", _SKILLS),
    Rule("conversion", "int32 to float32 to nearest even, before the scales", "MetaInfer's kernels; inferred"),
    Rule("output", "one rounding to bf16, to nearest even, with no case for NaN: it becomes 0x8000", _SKILLS),
    Rule("weight", "read in the packed order that the call names; correct against W as it is stored", _SKILLS),
    Rule("split K", "boundaries at whole stages of 64; planes are written whole in every launch", _SKILLS),
    Rule("counters", "grow by the number of splits in every launch and are never set back", _SKILLS),
    Rule("routes", "every kernel gives the same bits", _CHOICE),
)

I8, I32, U64 = np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.uint64)
F32, BF16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)

TILES = {
    f"{rows}x{columns}x{depth}-b{slots}": (rows, columns, depth)
    for (rows, columns, depth), many in (
        ((64, 128, 64), (1, 2)),
        ((128, 64, 64), (1, 2)),
        ((64, 64, 64), (1, 2)),
        ((128, 128, 64), (1, 2)),
        ((256, 64, 64), (1, 2)),
        ((64, 128, 128), (1,)),
        ((128, 64, 128), (1,)),
        ((64, 64, 128), (1,)),
    )
    for slots in many
}
WGMMA_COLUMNS = {"wgmma-128x128-s3": 128, "wgmma-128x128-s4": 128, "wgmma-128x256-s4": 256}
WGMMA_ARCH, WGMMA_PACK, WGMMA_DEPTH = "sm_90a", "n-major", 16
STAGE = 64
DECODE_MOST = 32
VECTOR = 16
CODES = 128
"""The largest magnitude of a code."""


def extents(shape: Shape) -> tuple[int, int, int, int]:
    """M, N, K and planes."""
    m, n, k, splits = (shape.size(name) for name in DIMENSIONS)
    return m, n, k, splits


def tensors(shape: Shape) -> tuple[TensorSpec, ...]:
    """Operands, scales, output, and for a split K the workspace."""
    m, n, k, splits = extents(shape)

    def spec(name: str, short: str, role: Role, dtype: Any, kind: str, *sizes: int) -> TensorSpec:
        view = shape.view(short)
        return TensorSpec(name, short, role, dtype, kind, sizes, 0, view.offset)

    found = [
        spec("x", "x", Role.INPUT, I8, "INT8", m, k),
        spec("weight", "w", Role.INPUT, I8, "INT8", k * n),
        spec("x_scale", "xs", Role.INPUT, F32, "FLOAT32", m),
        spec("w_scale", "ws", Role.INPUT, F32, "FLOAT32", n),
        spec("out", "o", Role.OUTPUT, BF16, "BFLOAT16", m, n),
    ]
    if splits:
        found.append(spec("planes", "p", Role.OUTPUT, I32, "INT32", splits, m, n))
        found.append(spec("arrivals", "a", Role.IN_PLACE, U64, "UINT64", -(-n // STAGE)))
    return tuple(found)


def expected_routes(shape: Shape) -> tuple[str, ...]:
    """Every kernel whose tile divides N and K; with planes those that split K over the grid.

    Kernels with wgmma take n-major weights, and only one architecture: `obstacle`.
    """
    m, n, k, splits = extents(shape)
    try:
        PACKS[LAYOUT_TOKENS[shape.dtype]].stored_shape(k, n)
    except Refusal:
        return (REFUSED,)
    sizes = (("x", 1), ("w", 1), ("o", 2), *((("p", 4),) if splits else ()))
    aligned = all(shape.view(short).offset * size % VECTOR == 0 for short, size in sizes)
    if k == 0 or (splits and not (aligned and splits <= k // STAGE)):
        return (REFUSED,)
    if 0 in (m, n):
        return (NOTHING_TO_LAUNCH,)
    decodes = aligned and m <= DECODE_MOST and n % STAGE == 0 and k % STAGE == 0
    if splits:
        return (FUSED, PARTIAL) if decodes else (REFUSED,)
    tiled = [name for name, (_, columns, depth) in TILES.items() if aligned and n % columns == 0 and k % depth == 0]
    if aligned and LAYOUT_TOKENS[shape.dtype] == WGMMA_PACK and k % WGMMA_DEPTH == 0:
        tiled += [name for name, columns in WGMMA_COLUMNS.items() if n % columns == 0]
    return (*tiled, *((IN_BLOCK,) if decodes and k >= 2 * STAGE else ()), "scalar")


def obstacle(case: Case, arch: str) -> str | None:
    """Why a case cannot run on an architecture."""
    if case.route in WGMMA_COLUMNS and arch != WGMMA_ARCH:
        return f"{case.route} is compiled for {WGMMA_ARCH}"
    return None


def inputs(case: Case) -> Arrays:
    """The generated inputs of a case."""
    specs = [spec for spec in tensors(case.shape) if spec.role.is_read]
    if case.route in (REFUSED, NOTHING_TO_LAUNCH):
        return {spec.name: np.zeros(spec.shape, spec.dtype) for spec in specs}
    m, n, k, splits = extents(case.shape)
    made = generate(case.family, m, n, k, case.random())
    values = {
        "x": made.x,
        "weight": PACKS[LAYOUT_TOKENS[case.shape.dtype]].pack(made.w),
        "x_scale": made.x_scale,
        "w_scale": made.w_scale,
        "arrivals": np.full(-(-n // STAGE), first_arrivals(case.family, splits or 1), U64),
    }
    return {spec.name: values[spec.name] for spec in specs}


def partial_sums(case: Case, values: Arrays) -> NDArray[np.int32]:
    """The exact sums of each part of K, int32 [max(S, 1), M, N]."""
    _, n, k, splits = extents(case.shape)
    w = PACKS[LAYOUT_TOKENS[case.shape.dtype]].unpack(values["weight"], k, n)
    edges = [0, k] if not splits else [part * (k // STAGE) // splits * STAGE for part in range(splits + 1)]
    x, columns = values["x"].astype(np.int64), np.ascontiguousarray(w.T).astype(np.int64)
    parts = [multiply_integers(x[:, first:end], columns[:, first:end], CODES, CODES) for first, end in pairwise(edges)]
    return np.stack(parts).astype(np.int32)


def expected(case: Case, values: Arrays, arch: str) -> Arrays:
    """The output that the oracle gives; planes and counters too where there are any."""
    m, n, _, splits = extents(case.shape)
    if 0 in (m, n):
        planes = {"planes": np.zeros((splits, m, n), I32), "arrivals": values["arrivals"]} if splits else {}
        return {"out": np.zeros((m, n), BF16)} | planes
    parts = partial_sums(case, values)
    found: dict[str, NDArray[Any]] = {"out": outputs(parts.sum(axis=0, dtype=np.int32), values)}
    if splits:
        found["planes"] = parts
        found["arrivals"] = values["arrivals"] + np.uint64(splits if case.route == FUSED else 0)
    return found


def outputs(sums: NDArray[np.int32], values: Arrays) -> NDArray[Any]:
    """bfloat16 [M, N] of exact sums."""
    operands = Operands(accumulators=sums, factors=(values["x_scale"], values["w_scale"]))
    return np.asarray(apply_epilogue(METAINFER_W8A8, operands))


def classes(values: Arrays, right: Arrays) -> Mapping[str, Mapping[str, Mask]]:
    """Of the output: which part of a tile and of a fragment, and what kind of result."""
    out = right["out"]
    row, column = np.arange(out.shape[0])[:, np.newaxis], np.arange(out.shape[1])[np.newaxis]
    plain = out.astype(np.float32)
    masks = {
        "infinities": np.isinf(plain),
        "zeros": plain == 0,
        "the partial row tile (M mod 64)": row >= out.shape[0] // STAGE * STAGE,
        "even columns": column % 2 == 0,
        "odd columns": column % 2 == 1,
        "rows 8 to 15 mod 16": row % 16 >= 8,
        "columns 8 to 15 mod 16": column % 16 >= 8,
        "columns past the first 64": column >= STAGE,
    }
    return {
        name: {} if name != "out" else {name: np.broadcast_to(mask, out.shape) for name, mask in masks.items()}
        for name in right
    }


def witnesses(output: str, index: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """For an output: its scales."""
    return (("x_scale", (index[0],)), ("w_scale", (index[1],))) if output == "out" else ()


def divisions(case: Case) -> Mapping[str, Divides]:
    """Of the output, by route."""
    division = int8_scalar() if case.route == "scalar" else int8_gemm(case.route, case.shape.size("M"))
    return {"out": division} if division else {}


def kernel(device: Device, name: str, source: EditedSource | None) -> Run:
    """The launcher on `device`, one kernel's text edited or all as shipped; the case names the kernel."""
    gemm = Int8Gemm(device, sources=None if source is None else {source.name: source.text})

    def run(case: Case, given: Mapping[str, Tensor]) -> Launch:
        product = Product(pack=LAYOUT_TOKENS[case.shape.dtype], **given)
        planned = FUSED if case.shape.size("S") else "scalar"
        return gemm(product, planned if case.route in (REFUSED, NOTHING_TO_LAUNCH) else case.route)

    return run


METAINFER_W8A8_GEMM = Contract(
    name=CONTRACT,
    summary="INT8 product with a scale a row and a scale a column: tiles, split K, scalar fallback",
    comparison=Comparison.BITS,
    rules=RULES,
    properties=properties(),
    routes={KERNEL: (*TILES, *WGMMA_COLUMNS, FUSED, PARTIAL, IN_BLOCK, "scalar", NOTHING_TO_LAUNCH, REFUSED)},
    dimensions=DIMENSIONS,
    dtypes=TOKENS,
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
    obstacle=obstacle,
    divisions=divisions,
    space=SPACE,
)
