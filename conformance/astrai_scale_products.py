"""The contract of fp8_scale_products: up to three float32 scalars, each a product of two scales or a copy of one.

Worked example, two scalars, the second a copy (P2.C2): firsts 3 and 0.5, second 0.1: outputs 0.3 (0x3e99999a, the
product of 3 and the float32 beside 0.1, rounded once) and 0.5. `astrai_scale_products_cases` says what runs.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from tileproof.conformance.astrai_scale_products_cases import (
    CONTRACT,
    DIMENSIONS,
    FAMILIES,
    LETTERS,
    SPACE,
    cases,
    route_of,
    setting,
)
from tileproof.conformance.astrai_scale_products_properties import properties
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
from tileproof.conformance.host_module import SUFFIX, host_modules
from tileproof.kernels.device import Device
from tileproof.kernels.fp8_scale_products import NAME, SOURCE
from tileproof.kernels.launcher import Launch
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.scale_product import scale_product

_PTX = "PTX ISA 9.1, Floating Point Instructions"
_CHOICE = "left open by AstrAI, whose caller makes the product; declared here"
F32 = np.dtype(np.float32)

RULES = (
    Rule("product", "first · second: one float32 product to nearest even, which may become infinite", _CHOICE),
    Rule("subnormals", "kept in factors and products: nothing is flushed", _CHOICE),
    Rule("NaN", "of a product is 0x7fffffff, whatever the factors' payloads", _PTX),
    Rule("copy", "has the bits of first, those of a NaN too", _CHOICE),
    Rule("scalars", "one to three a launch; a place that is not asked for is not written", _CHOICE),
)


def tensors(shape: Shape) -> tuple[TensorSpec, ...]:
    """Of each scalar its first, its second unless it is a copy, and its output, float32 [1] each."""
    of = setting(shape)

    def specs() -> Iterator[TensorSpec]:
        for number, letter in enumerate(LETTERS[: of.scalars]):
            roles = [("first", Role.INPUT), ("second", Role.INPUT), ("out", Role.OUTPUT)]
            for name, role in roles:
                if name != "second" or not of.is_copy(number):
                    short = name[0] + letter
                    offset = shape.view(short).offset
                    yield TensorSpec(f"{name}_{letter}", short, role, F32, "FLOAT32", (1,), offset=offset)

    return tuple(specs())


def inputs(case: Case) -> Arrays:
    """The generated firsts and seconds of a case."""
    of = setting(case.shape)
    first, second = FAMILIES[case.family](case.random(), of.scalars)
    made = {}
    for number, letter in enumerate(LETTERS[: of.scalars]):
        made[f"first_{letter}"] = first[number : number + 1].copy()
        if not of.is_copy(number):
            made[f"second_{letter}"] = second[number : number + 1].copy()
    return made


def expected(case: Case, values: Arrays, arch: str) -> Arrays:
    """The scalars; the same everywhere."""
    letters = LETTERS[: setting(case.shape).scalars]
    return {f"out_{one}": scale_product(values[f"first_{one}"], values.get(f"second_{one}")) for one in letters}


def classes(values: Arrays, right: Arrays) -> Mapping[str, Mapping[str, Mask]]:
    """What kind of value an output is, and how it was made."""
    return {name: _classes_of(out, f"second_{name[-1]}" in values) for name, out in right.items()}


def _classes_of(out: Mask, is_product: bool) -> dict[str, Mask]:
    return {
        "NaN": np.isnan(out),
        "infinities": np.isinf(out),
        "zeros": out == 0,
        "subnormal": (out != 0) & (np.abs(out) < np.finfo(np.float32).tiny),
        "products": np.full(out.shape, is_product),
        "copies": np.full(out.shape, not is_product),
    }


def witnesses(output: str, index: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """For a scalar: its first. A second is not always there."""
    return ((f"first_{output[-1]}", index),)


def kernel(device: Device, name: str, source: EditedSource | None) -> Run:
    """The launcher on `device`, with `source` for the kernel's text or the launcher's."""
    launcher = host_modules((NAME,), source)[NAME]
    text = SOURCE if source is None or source.name.endswith(SUFFIX) else source.text
    run = launcher.ScaleProducts(device, source=text)

    def launch(case: Case, given: Mapping[str, Tensor]) -> Launch:
        letters = LETTERS[: setting(case.shape).scalars]
        made = [
            launcher.Scalar(given[f"out_{one}"], given[f"first_{one}"], given.get(f"second_{one}")) for one in letters
        ]
        result: Launch = run(made)
        return result

    return launch


ASTRAI_SCALE_PRODUCTS = Contract(
    name=CONTRACT,
    summary="scalars that later launches take: products of two scales, and copies of one",
    comparison=Comparison.BITS,
    rules=RULES,
    properties=properties(),
    routes={NAME: (NAME, REFUSED)},
    dimensions=DIMENSIONS,
    dtypes=("",),
    families=tuple(FAMILIES),
    generator_version=1,
    tensors=tensors,
    cases=cases,
    inputs=inputs,
    expected=expected,
    expected_routes=lambda shape: (route_of(shape),),
    classes=classes,
    witnesses=witnesses,
    kernel=kernel,
    space=SPACE,
)
