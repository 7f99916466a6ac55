"""The contract `ninfer_quantize`: each row of activations to e4m3 codes and one float32 scale, as ninfer defines it.

Worked example, one row [896, 34, -0]: amax 896, scale 896 / 448 = 2, inverse 0.5; the products are 448, 17 and -0;
17 is the tie between 16 and 18 and goes to the even code of 16: codes 0x7e, 0x58, 0x80.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

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
    Tier,
)
from tileproof.conformance.division import Divides
from tileproof.conformance.families import FAMILIES, finite_grid, generate, midpoints
from tileproof.conformance.host_module import SUFFIX, host_modules
from tileproof.conformance.layout import strides_of
from tileproof.conformance.ninfer_quantize_cases import CONTRACT, DTYPES, SPACE, full_cases, smoke_cases
from tileproof.conformance.ninfer_quantize_properties import properties
from tileproof.conformance.our_thread_divisions import row_codes
from tileproof.kernels.device import Device
from tileproof.kernels.fp8_quantize_rows import NAME as KERNEL
from tileproof.kernels.fp8_quantize_rows import SOURCE
from tileproof.oracle.quantize import quantize_rows

_NINFER = "ninfer src/ops/linear/fp8/fp8_a8.cu @9180d956"
_CHOICE = "follows from ninfer's formula; declared here"

RULES = (
    Rule("amax", "max over the row of |x| by fmax from 0: NaN is dropped, infinity survives", _NINFER),
    Rule("scale", "amax > 0 ? amax / 448 : 0, one float32 division to nearest even", _NINFER),
    Rule("inverse", "scale > 0 ? 1 / scale : 0, one float32 division to nearest even", _NINFER),
    Rule("code", "e4m3fn of x · inverse: a float32 product, not a division by the scale", _NINFER),
    Rule("rounding", "to nearest, ties to the even code, subnormal codes included; one rounding from float32", _NINFER),
    Rule("overflow", "saturates: |value| > 448 and infinity become ±448 (0x7e, 0xfe)", _NINFER),
    Rule("NaN", "becomes 0x7f, whatever its sign and payload", "PTX ISA 9.0, cvt .e4m3x2"),
    Rule("zero row", "scale 0, inverse 0, each code 0x00 or 0x80 by the element's sign", _NINFER),
    Rule("infinite row", "scale infinity, inverse 0: finite elements become ±0, infinities NaN", _NINFER),
    Rule("row of NaN only", "amax 0, scale 0: every code 0x7f", _CHOICE),
    Rule(
        "tiny row",
        "scale <= 2^-128 (amax up to about 1.3e-36): inverse infinity, so non-zero elements become ±448, zeros NaN; "
        "amax <= 224 · 2^-149: the scale itself rounds to 0 and every finite code is ±0",
        _CHOICE,
    ),
    Rule("subnormals", "kept in x, scale, inverse and product: nothing is flushed", _CHOICE),
)

_FORMATS = {"bf16": "BFLOAT16", "f16": "FLOAT16", "f32": "FLOAT32"}

_X_ALIGNMENT_BYTES = 16
_CODES_ALIGNMENT_BYTES = 8


def tensors(shape: Shape) -> tuple[TensorSpec, ...]:
    """x [T, K], codes [T, K] and scales [T] of one shape, with their views."""
    rows, columns = shape.size("T"), shape.size("K")
    dtype, name = DTYPES[shape.dtype], _FORMATS[shape.dtype]
    x, codes, scales = (shape.view(short) for short in ("x", "c", "s"))
    return (
        TensorSpec("x", "x", Role.INPUT, dtype, name, (rows, columns), x.pad, x.offset),
        TensorSpec("codes", "c", Role.OUTPUT, np.dtype(np.uint8), "E4M3FN", (rows, columns), codes.pad, codes.offset),
        TensorSpec("scales", "s", Role.OUTPUT, np.dtype(np.float32), "FLOAT32", (rows,), scales.pad, scales.offset),
    )


def expected_route(shape: Shape) -> str:
    """vector where x's rows begin at 16-byte and the codes' at 8-byte boundaries, by base offset and row stride."""
    x, codes, _ = tensors(shape)
    if shape.size("K") == 0:
        return REFUSED
    if shape.size("T") == 0:
        return "empty"
    aligned = _rows_aligned(x, _X_ALIGNMENT_BYTES) and _rows_aligned(codes, _CODES_ALIGNMENT_BYTES)
    return "vector" if aligned else "scalar"


def inputs(case: Case) -> Arrays:
    """The generated x of a case, [T, K], contiguous."""
    rows, columns = case.shape.size("T"), case.shape.size("K")
    dtype = DTYPES[case.shape.dtype]
    if rows == 0 or columns == 0:
        return {"x": np.zeros((rows, columns), dtype)}
    return {"x": generate(case.family, rows, columns, dtype, case.random())}


def expected(case: Case, values: Arrays, arch: str) -> Arrays:
    """The codes [T, K] and scales [T] that the oracle gives for x; they are the same everywhere."""
    right = quantize_rows(values["x"])
    return {"codes": right.codes, "scales": right.scales}


def classes(values: Arrays, right: Arrays) -> Mapping[str, Mapping[str, Mask]]:
    """What kind of element each code and each scale belongs to; the most telling first."""
    with np.errstate(invalid="ignore"):  # widening a signalling NaN raises the flag
        x = values["x"].astype(np.float32)
    scales = right["scales"]
    rows = _row_classes(x, scales)
    spread = {name: np.broadcast_to(mask[:, None], x.shape) for name, mask in rows.items()}
    return {"codes": {**_element_classes(x, scales, right["codes"]), **spread, **_column_classes(x)}, "scales": rows}


def _element_classes(x: Any, scales: Any, codes: Any) -> dict[str, Mask]:
    with np.errstate(all="ignore"):
        inverse = np.where(scales > 0, np.float32(1) / scales, np.float32(0)).astype(np.float32)
        size = np.abs(x * inverse[:, None])
    ties = midpoints()[midpoints() > 0].astype(np.float32)
    beside = np.concatenate([np.nextafter(ties, np.float32(end)) for end in (0, np.inf)])
    return {
        "NaN": np.isnan(size),
        "zeros": x == 0,
        "saturated": size > finite_grid()[-1],
        "ties": np.isin(size, ties),
        "neighbours of ties": np.isin(size, beside),
        "subnormal codes": (codes & 0x78 == 0) & (codes & 0x07 != 0),
    }


def _row_classes(x: Any, scales: Any) -> dict[str, Mask]:
    return {
        "rows of zeros": (x == 0).all(axis=1),
        "tiny rows": (scales <= np.float32(2.0**-128)) & (x != 0).any(axis=1),
        "rows with infinity": np.isinf(x).any(axis=1),
        "rows with NaN": np.isnan(x).any(axis=1),
        "rows whose scale is no power of two": (np.frexp(scales)[0] != 0.5) & np.isfinite(scales) & (scales > 0),
    }


def _column_classes(x: Any) -> dict[str, Mask]:
    column = np.broadcast_to(np.arange(x.shape[1]), x.shape)
    return {
        "the ragged tail (K mod 8)": column >= x.shape[1] // 8 * 8,
        "even columns": column % 2 == 0,
        "odd columns": column % 2 == 1,
        "columns 0, 1 mod 4": column % 4 < 2,
        "columns 2, 3 mod 4": column % 4 >= 2,
    }


def witnesses(output: str, index: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """For a code: its input and its row's scale."""
    return (("x", index), ("scales", index[:1])) if output == "codes" else ()


def divisions(case: Case) -> Mapping[str, Divides]:
    """Of the codes, by route."""
    division = row_codes(case.route, case.shape.size("K"))
    return {"codes": division} if division else {}


def kernel(device: Device, name: str, source: EditedSource | None) -> Run:
    """The only kernel on `device`, with `source` for its text or its launcher's; the launcher chooses the route."""
    launcher = host_modules((KERNEL,), source)[KERNEL]
    text = SOURCE if source is None or source.name.endswith(SUFFIX) else source.text
    quantize = launcher.QuantizeRows(device, source=text)
    return lambda case, given: quantize(given["x"], given["codes"], given["scales"])


def cases(tier: Tier) -> Sequence[Case]:
    """The cases of a tier, in a fixed order."""
    return smoke_cases(expected_route) if tier is Tier.SMOKE else full_cases(expected_route)


def _rows_aligned(spec: TensorSpec, alignment_bytes: int) -> bool:
    width = spec.dtype.itemsize
    return spec.offset * width % alignment_bytes == 0 and strides_of(spec)[0] * width % alignment_bytes == 0


NINFER_QUANTIZE = Contract(
    name=CONTRACT,
    summary="each row to e4m3 codes and a float32 scale, amax / 448, through the rounded reciprocal",
    comparison=Comparison.BITS,
    rules=RULES,
    properties=properties(),
    routes={KERNEL: ("vector", "scalar", "empty", REFUSED)},
    dimensions=("T", "K"),
    dtypes=tuple(DTYPES),
    families=tuple(FAMILIES),
    generator_version=1,
    tensors=tensors,
    cases=cases,
    inputs=inputs,
    expected=expected,
    expected_routes=lambda shape: (expected_route(shape),),
    classes=classes,
    witnesses=witnesses,
    divisions=divisions,
    kernel=kernel,
    space=SPACE,
)
