"""Oracle against second oracle: the scalar definitions, in Python integers, at a few of the elements that differ.

The arrays of the oracle are made by numpy and by compiled code; `quantize_row`, `epilogue_code` and the definition of
the matrix instruction share neither. Where the two part, the kernel is not to blame for what the case was held to.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.contract import Allowed
from tileproof.conformance.int8_layout_tokens import LAYOUT_TOKENS
from tileproof.conformance.metainfer_w8a8_gemm import extents
from tileproof.conformance.ninfer_gemm import order
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.explanation import Explanation, Strength
from tileproof.conformance.triage.scene import Scene
from tileproof.oracle.epilogue import METAINFER_W8A8, NINFER_LINEAR, NINFER_LINEAR_ADD, Contraction, epilogue_code
from tileproof.oracle.formats import BFLOAT16, FLOAT16, FLOAT32, FloatFormat
from tileproof.oracle.gemm import gemm
from tileproof.oracle.layouts import PACKS
from tileproof.oracle.matrix_unit import define
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.quantize import quantize_row

SAMPLED = 4

Index = tuple[int, ...]
Element = Callable[[Scene, Index], int]

_FORMATS: Mapping[str, FloatFormat] = {"bfloat16": BFLOAT16, "float16": FLOAT16, "float32": FLOAT32}


def definitions(scene: Scene) -> Iterator[Explanation]:
    """Elements at which the reference is not what its own definition says."""
    for name, spec in scene.specs.items():
        element = _ELEMENTS.get((scene.contract.name, name))
        right = scene.right[name]
        if element is None or isinstance(right, Allowed):
            continue
        stored = np.ascontiguousarray(right).view(f"u{spec.dtype.itemsize}").reshape(right.shape)
        places = np.argwhere(scene.differing[name])
        for place in places[np.linspace(0, len(places) - 1, min(SAMPLED, len(places))).astype(int)].tolist():
            defined, held = element(scene, tuple(place)), int(stored[tuple(place)])
            if defined != held:
                text = f"{name}{place}: the reference has {held:#x}, its definition {defined:#x}"
                yield Explanation(Cause.ORACLE, text, Strength.SEEN)
                break


def numbers(values: NDArray[Any]) -> list[Number]:
    """Exact numbers of a row of floats."""
    record = _FORMATS[values.dtype.name]
    codes = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}").reshape(-1)
    return [record.number(int(code)) for code in codes]


def _row_code(scene: Scene, place: Index) -> int:
    return quantize_row(numbers(scene.values["x"][place[0]]))[0][place[1]]


def _row_scale(scene: Scene, place: Index) -> int:
    return quantize_row(numbers(scene.values["x"][place[0]]))[1]


def _ninfer(scene: Scene, place: Index) -> int:
    token, row = place
    codes, scale = quantize_row(numbers(scene.values["x"][token]))
    weight = scene.values["weight"][row : row + 1]
    total = gemm(order(scene.arch), np.array([codes], np.uint8), weight, multiply=define)
    factors = [FLOAT32.number(scale), *numbers(scene.values["weight_scales"][row : row + 1])]
    accumulator = numbers(total[0])[0]
    if scene.contract.name == "ninfer_linear":
        return epilogue_code(NINFER_LINEAR, accumulator, factors)
    (residual,) = numbers(scene.values["out"][token, row : row + 1])
    return epilogue_code(NINFER_LINEAR_ADD.contracted(Contraction.SCALE), accumulator, factors, addend=residual)


def _int8(scene: Scene, place: Index) -> int:
    _, n, k, _ = extents(scene.case.shape)
    w = PACKS[LAYOUT_TOKENS[scene.case.shape.dtype]].unpack(scene.values["weight"], k, n)
    total = sum(int(x) * int(y) for x, y in zip(scene.values["x"][place[0]], w[:, place[1]], strict=True))
    wrapped = (total + 2**31) % 2**32 - 2**31
    factors = [*numbers(scene.values["x_scale"][place[0] :][:1]), *numbers(scene.values["w_scale"][place[1] :][:1])]
    return epilogue_code(METAINFER_W8A8, Number.of(wrapped), factors)


_ELEMENTS: Mapping[tuple[str, str], Element] = {
    ("ninfer_quantize", "codes"): _row_code,
    ("ninfer_quantize", "scales"): _row_scale,
    ("ninfer_linear", "codes"): _row_code,
    ("ninfer_linear", "scales"): _row_scale,
    ("ninfer_linear", "out"): _ninfer,
    ("ninfer_linear_add", "out"): _ninfer,
    ("metainfer_w8a8_gemm", "out"): _int8,
}
"""By contract and output; others have no definition of one element here."""
