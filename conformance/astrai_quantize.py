"""The contract `astrai_quantize`: a tensor by one scale to FP8 codes, and its maximum into a scale ring, in one launch.

Worked example, x = [[896, -3]] in bf16, multiplier 0.5, a ring of window 2 for e4m3 with the history [1792, 100], index
1: the products 448 and -1.5 have the codes 0x7e and 0xbc; the raw maximum 896 replaces 100; the window's maximum stays
1792, and the next scale is 1792 / 448 = 4, its reciprocal 0.25.

`astrai_setting` says what a case id means, `astrai_quantize_cases` what runs, `astrai_families` on which data.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.astrai_families import FAMILIES, Made, generate
from tileproof.conformance.astrai_quantize_cases import SPACE, cases
from tileproof.conformance.astrai_quantize_properties import properties
from tileproof.conformance.astrai_setting import (
    CONTRACT,
    DIMENSIONS,
    MOST_BLOCKS,
    TYPES,
    Setting,
    generators,
    host,
    setting,
)
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
from tileproof.conformance.host_module import SUFFIX, host_modules
from tileproof.conformance.our_thread_divisions import flat_codes, tile_codes
from tileproof.kernels.device import Device
from tileproof.kernels.fp8_quantize_tensor import NAME as KERNEL
from tileproof.kernels.fp8_quantize_tensor import SOURCE
from tileproof.kernels.fp8_scale_ring import ScaleRing
from tileproof.oracle.formats import FloatFormat
from tileproof.oracle.ring.ring_fold import FoldRule, Launch, fold
from tileproof.oracle.ring.ring_stage import Field
from tileproof.oracle.ring.ring_state import RingState, reciprocal_field, scale_field
from tileproof.oracle.scaling.astrai_quantize import Outputs, Stage, quantize, raw_amax

_ASTRAI = "AstrAI csrc/kernels/quantize/quantize.cuh, csrc/include/kernel/quantize/kernel.cuh @97e7b798"
_SEED = "AstrAI csrc/kernels/fp8/gemm.cuh (ring era)"
_RING = "AstrAI csrc/gemm/fp8_ring.h @ddfa813d"
_CHOICE = "follows from AstrAI's formula; declared here"

RULES = (
    Rule("code", "fp8 of x · multiplier, one float32 product; e4m3 or e5m2, each output its own", _ASTRAI),
    Rule("multiplier", "the current pair's reciprocal; by a step, 1 / step to nearest even (bf16 only)", _ASTRAI),
    Rule("rounding", "to nearest, ties to the even code, subnormals included; one rounding from float32", _ASTRAI),
    Rule("overflow", "saturates: beyond ±448 or ±57,344, and infinity, become these", _ASTRAI),
    Rule("NaN", "becomes 0x7f in both formats, whatever its sign and payload", "PTX ISA 9.0, cvt .e4m3x2, .e5m2x2"),
    Rule("amax", "of the raw values, by fmax from 0: NaN is dropped, infinity survives; 0 of no element", _SEED),
    Rule("window", "history[index] = amax, then fmax over the history", _ASTRAI),
    Rule("scale", "fmax(peak / 448 or 57,344 / 2^margin, 1e-12), divisions to nearest even", _SEED),
    Rule("reciprocal", "1 / scale to nearest even", _ASTRAI),
    Rule("publication", "into the pair that the step does not read, where there are two", _RING),
    Rule("workspace", "counter and collected maxima are 0 afterwards", _ASTRAI),
    Rule("empty tensor", "folds 0", _ASTRAI),
    Rule("amax tensor", "is raised, not set: the caller zeroes it", _SEED),
    Rule("subnormals", "kept everywhere: nothing is flushed", _CHOICE),
)

F32 = np.dtype(np.float32)
CODES = np.dtype(np.uint8)


def tensors(shape: Shape) -> tuple[TensorSpec, ...]:
    """x; the multiplier and the collected maximum where they are tensors; the outputs; the ring."""
    of = setting(shape)
    formats = {"bfloat16": "BFLOAT16", "float16": "FLOAT16", "float32": "FLOAT32"}

    def spec(name: str, short: str, role: Role, dtype: np.dtype[Any], kind: str, *extents: int) -> TensorSpec:
        view = shape.view(short)
        return TensorSpec(name, short, role, dtype, kind, extents, view.pad, view.offset)

    found = [spec("x", "x", Role.INPUT, of.types.x, formats[of.types.x.name], of.rows, of.columns)]
    if of.brings_scale:
        found.append(spec("scale", "s", Role.INPUT, F32, "FLOAT32", 1))
    if of.types.rows is not None:
        found.append(spec("rows", "r", Role.OUTPUT, CODES, of.types.rows.name, of.rows, of.columns))
    if of.types.transposed is not None:
        found.append(spec("transposed", "t", Role.OUTPUT, CODES, of.types.transposed.name, of.columns, of.rows))
    if of.brings_amax:
        found.append(spec("amax", "a", Role.IN_PLACE, F32, "FLOAT32", 1))
    if of.stage is not None:
        found.append(spec("ring", "ring", Role.IN_PLACE, F32, "FLOAT32", of.stage.size(of.window)))
    return tuple(found)


def expected_route(shape: Shape) -> str:
    """Rows alone by address; tiles by address and extents; only contiguous tensors, and a step only for bf16."""
    of = setting(shape)
    is_step_of_another_type = of.is_step and shape.dtype[:4] != "bf16"
    has_no_window = of.window == 0 and of.stage is not None
    if is_padded(shape) or has_no_window or not 0 < of.blocks <= MOST_BLOCKS or is_step_of_another_type:
        return REFUSED
    x, rows, transposed = (shape.view(short).offset for short in "xrt")
    if of.types.transposed is None:
        aligned = x * of.types.x.itemsize % 16 == 0 and rows % 16 == 0
        return "vector" if aligned else "scalar"
    pairs = of.columns % 2 == 0 and x % 2 == 0 and (of.types.rows is None or rows % 2 == 0)
    chunks = of.rows % 8 == 0 and transposed % 8 == 0
    return "tile-vector" if pairs and chunks else "tile-scalar"


def is_padded(shape: Shape) -> bool:
    """Whether a step from row to row passes over padding: one row takes no step, nor does a tensor without elements."""
    return any(spec.pad and spec.shape[0] > 1 and 0 not in spec.shape for spec in tensors(shape))


def inputs(case: Case) -> Arrays:
    """The generated inputs of a case."""
    of = setting(case.shape)
    if of.window == 0 and of.stage is not None:
        return {spec.name: np.zeros(spec.shape, spec.dtype) for spec in tensors(case.shape) if spec.role.is_read}
    _, random = generators(case)
    made = generate(case.family, replace(of, window=max(of.window, 1)), random)
    values: dict[str, NDArray[Any]] = {"x": np.ascontiguousarray(made.x)}
    if of.brings_scale:
        with np.errstate(all="ignore"):
            values["scale"] = np.array([np.float32(1) / made.scale], np.float32)
    if of.brings_amax:
        # NOTE: with a ring the caller has zeroed it; without one it may hold what an earlier tensor left.
        earlier = made.history[0] if of.stage is None and np.isfinite(made.history[0]) else 0
        values["amax"] = np.array([earlier], np.float32)
    if of.stage is not None:
        values["ring"] = ring_words(case, of, made, random)
    return values


def ring_words(case: Case, of: Setting, made: Made, random: np.random.Generator) -> NDArray[np.float32]:
    """The ring before a step: workspace zero, what earlier steps left elsewhere."""
    assert of.stage is not None
    words = random.uniform(1, 2, of.stage.size(of.window)).astype(np.float32)
    current = host(case).current
    with np.errstate(all="ignore"):
        parts = {
            Field.HISTORY: made.history,
            Field.COUNTER: np.float32(0),
            scale_field(current): made.scale,
            reciprocal_field(current): np.float32(1) / made.scale,
        }
    if of.stage.maximum_field is not None:
        parts[of.stage.maximum_field] = np.float32(0)
    for field, values in parts.items():
        if field in of.stage.fields:
            start = of.stage.offset(field, of.window)
            words[start : start + of.stage.words(field, of.window)] = values
    return words


def expected(case: Case, values: Arrays, arch: str) -> Arrays:
    """Codes, the raised maximum and the ring after the step; they are the same everywhere."""
    of = setting(case.shape)
    state = ring_state(case, of, values)
    multiplier = values["scale"][0] if of.brings_scale else _own(state, of)
    stage = Stage.STEP if of.is_step else Stage.MULTIPLIER
    result = quantize(values["x"], np.float32(multiplier), stage, Outputs(of.types.rows, of.types.transposed))
    amax = result.amax
    right: dict[str, NDArray[Any]] = {}
    if of.brings_amax:
        amax = np.float32(max(amax, values["amax"][0]))
        right["amax"] = np.array([amax], np.float32)
    if state is not None:
        after = fold(state, Launch.single(amax), FoldRule(of.target, host(case).margin))
        right["ring"] = np.array(after.words, np.uint32).view(np.float32)
    outputs = {"rows": result.rows, "transposed": result.transposed}
    return {**right, **{name: codes for name, codes in outputs.items() if codes is not None}}


def ring_state(case: Case, of: Setting, values: Arrays) -> RingState | None:
    """The oracle's record of the ring before the step; None without one."""
    if of.stage is None:
        return None
    words = tuple(int(word) for word in values["ring"].view(np.uint32))
    counted = host(case)
    return RingState(of.stage, of.window, words, counted.index, counted.current, initialized=True)


def classes(values: Arrays, right: Arrays) -> Mapping[str, Mapping[str, Mask]]:
    """What kind of element each code belongs to, and which part of a vector or a tile."""
    x = np.abs(values["x"].astype(np.float32))
    masks = _element_classes(x)
    found: dict[str, Mapping[str, Mask]] = {name: {} for name in right}
    if "rows" in right:
        found["rows"] = masks
    if "transposed" in right:
        found["transposed"] = {name: mask.T for name, mask in masks.items()}
    return found


def _element_classes(x: NDArray[np.float32]) -> dict[str, Mask]:
    row, column = (np.broadcast_to(index, x.shape) for index in np.ogrid[: x.shape[0], : x.shape[1]])
    flat = np.arange(x.size).reshape(x.shape)
    return {
        "NaN": np.isnan(x),
        "zeros": x == 0,
        "infinities": np.isinf(x),
        "the largest": x == raw_amax(x),
        "the ragged tail (R · C mod 8)": flat >= x.size // 8 * 8,
        "the partial tile row (R mod 32)": row >= x.shape[0] // 32 * 32,
        "the partial tile column (C mod 64)": column >= x.shape[1] // 64 * 64,
        "even columns": column % 2 == 0,
        "odd columns": column % 2 == 1,
        "rows 0, 1 mod 4": row % 4 < 2,
        "rows 2, 3 mod 4": row % 4 >= 2,
    }


def witnesses(output: str, index: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """For a code: its input."""
    at = {"rows": index, "transposed": index[::-1]}.get(output)
    return () if at is None else (("x", at),)


def divisions(case: Case) -> Mapping[str, Divides]:
    """Of both kinds of codes, by route."""
    if case.route.startswith("tile-"):
        return {"rows": tile_codes(transposed=False), "transposed": tile_codes(transposed=True)}
    division = flat_codes(case.route, case.shape.size("R") * case.shape.size("C"))
    return {"rows": division} if division else {}


def kernel(device: Device, name: str, source: EditedSource | None) -> Run:
    """The launcher on `device`, compiled from `source` or as shipped; it chooses its route."""
    modules = host_modules(("fp8_quantize_tensor",), source)
    is_kernel = source is not None and not source.name.endswith(SUFFIX)
    launcher: Any = modules["fp8_quantize_tensor"]
    quantizer = launcher.QuantizeTensor(device, source=source.text if source is not None and is_kernel else SOURCE)

    def run(case: Case, given: Any) -> Any:
        of, counted = setting(case.shape), host(case)
        ring = None
        if of.stage is not None:
            ring = ScaleRing(
                given["ring"], of.stage, of.window, counted.index, of.target, counted.margin, counted.current
            )

        def output(name: str, record: FloatFormat | None) -> Any:
            return None if record is None else launcher.Output(given[name], record)

        return quantizer(
            given["x"],
            rows=output("rows", of.types.rows),
            transposed=output("transposed", of.types.transposed),
            scale=given.get("scale"),
            ring=ring,
            amax=given.get("amax"),
            max_blocks=of.blocks,
        )

    return run


def _own(state: RingState | None, of: Setting) -> np.float32:
    assert state is not None
    field = scale_field(state.current) if of.is_step else reciprocal_field(state.current)
    return np.float32(np.array(state.read(field), np.uint32).view(np.float32)[()])


ASTRAI_QUANTIZE = Contract(
    name=CONTRACT,
    summary="a tensor by one scale to FP8 codes, rows, transposed or both, and its maximum into a scale ring",
    comparison=Comparison.BITS,
    rules=RULES,
    properties=properties(),
    routes={KERNEL: ("vector", "scalar", "tile-vector", "tile-scalar", REFUSED)},
    dimensions=DIMENSIONS,
    dtypes=tuple(TYPES),
    families=tuple(FAMILIES),
    generator_version=1,
    tensors=tensors,
    cases=partial(cases, expected_route),
    inputs=inputs,
    expected=expected,
    expected_routes=lambda shape: (expected_route(shape),),
    classes=classes,
    witnesses=witnesses,
    divisions=divisions,
    kernel=kernel,
    space=SPACE,
)
