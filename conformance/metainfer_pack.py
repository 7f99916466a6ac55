"""The contract of int8_pack: an int8 weight W[K][N] in a packed order, and the way back.

Worked example, n-major, K = 2, N = 3: W = 0 1 2 / 3 4 5 is packed as 0 3 1 4 2 5. What runs is in
`metainfer_pack_cases`.
"""

from collections.abc import Callable, Mapping
from functools import partial

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
)
from tileproof.conformance.division import Divides
from tileproof.conformance.int8_layout_tokens import LAYOUT_TOKENS
from tileproof.conformance.metainfer_pack_cases import BACK, CONTRACT, DIMENSIONS, EDGE, KERNEL, SPACE, TOKENS, cases
from tileproof.conformance.metainfer_pack_properties import properties
from tileproof.conformance.our_thread_divisions import int8_pack
from tileproof.kernels.device import Device
from tileproof.kernels.int8_pack import SOURCE, Int8Pack, Route
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH, Launch
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.layouts import PACKS
from tileproof.oracle.refusal import Refusal

_SKILLS = "HuangPuStar/MetaInfer int8-w8a8-gemm-{foundations,prefill,decode}/SKILL.md"

RULES = (
    Rule("relation", "element W[k][n] lies where its order says; a permutation of the bytes", _SKILLS),
    Rule("shapes", "K and N are multiples of the order's tiles; nothing is padded", _SKILLS),
    Rule(
        "routes", "vectors of 16 bytes where they are legal, single bytes everywhere; the same bytes", "declared here"
    ),
)

I8 = np.dtype(np.int8)


def order(shape: Shape) -> tuple[str, bool]:
    """The name of the order, and whether it is packed (else unpacked)."""
    return LAYOUT_TOKENS[shape.dtype.removeprefix(BACK)], not shape.dtype.startswith(BACK)


def tensors(shape: Shape) -> tuple[TensorSpec, ...]:
    """The weight and the packed buffer."""
    k, n = (shape.size(name) for name in DIMENSIONS)
    _, packs = order(shape)
    roles = (Role.INPUT, Role.OUTPUT) if packs else (Role.OUTPUT, Role.INPUT)
    raw, packed = (shape.view(short).offset for short in "rp")
    both = (
        TensorSpec("raw", "r", roles[0], I8, "INT8", (k, n), 0, raw),
        TensorSpec("packed", "p", roles[1], I8, "INT8", (k * n,), 0, packed),
    )
    return both if packs else both[::-1]


def expected_routes(shape: Shape) -> tuple[str, ...]:
    """Refused where tiles are not filled; else single bytes, and vectors where all their addresses are aligned."""
    k, n = (shape.size(name) for name in DIMENSIONS)
    record = PACKS[order(shape)[0]]
    try:
        record.stored_shape(k, n)
    except Refusal:
        return (REFUSED,)
    if 0 in (k, n):
        return (NOTHING_TO_LAUNCH,)
    along_k = record.digits[-1].axis.value == "k"
    aligned = all(shape.view(short).offset % EDGE == 0 for short in "rp")
    if n % EDGE or not aligned or (along_k and k % EDGE):
        return (Route.SCALAR,)
    return (Route.VECTOR, Route.SCALAR)


def _plane(byte: int) -> Callable[[np.random.Generator, int], Arrays]:
    """Byte `byte` of each position's number."""

    def values(random: np.random.Generator, size: int) -> Arrays:
        return {"": (np.arange(size) >> 8 * byte & 255).astype(np.uint8).view(np.int8)}

    return values


def _random(random: np.random.Generator, size: int) -> Arrays:
    return {"": random.integers(-128, 128, size).astype(np.int8)}


def _extremes(random: np.random.Generator, size: int) -> Arrays:
    return {"": random.choice(np.array([-128, -127, -1, 0, 1, 127], np.int8), size)}


FAMILIES = {"random": _random, "extremes": _extremes, "plane-0": _plane(0), "plane-1": _plane(1)}


def inputs(case: Case) -> Arrays:
    """The weight, or the packed buffer of one."""
    k, n = (case.shape.size(name) for name in DIMENSIONS)
    name, packs = order(case.shape)
    weight = FAMILIES[case.family](case.random(), k * n)[""].reshape(k, n)
    if packs:
        return {"raw": weight}
    legal = expected_routes(case.shape) != (REFUSED,)
    return {"packed": PACKS[name].pack(weight) if legal else weight.reshape(-1)}


def expected(case: Case, values: Arrays, arch: str) -> Arrays:
    """What the record of the order makes of it."""
    name, packs = order(case.shape)
    k, n = (case.shape.size(dimension) for dimension in DIMENSIONS)
    if packs:
        return {"packed": PACKS[name].pack(values["raw"])}
    return {"raw": np.ascontiguousarray(PACKS[name].unpack(values["packed"], k, n))}


def classes(values: Arrays, right: Arrays) -> Mapping[str, Mapping[str, Mask]]:
    """Of the output: where in its 16 bytes an element lies, and the partial patches of W."""
    ((name, out),) = right.items()
    position = np.arange(out.size).reshape(out.shape) % EDGE
    masks = {
        "the first byte of 16": position == 0,
        "bytes 8 to 15 of 16": position >= 8,
        "odd bytes": position % 2 == 1,
    }
    if out.ndim == 2:
        masks["the partial patches (K mod 16)"] = np.broadcast_to(
            np.arange(out.shape[0])[:, np.newaxis] >= out.shape[0] // EDGE * EDGE, out.shape
        )
    return {name: masks}


def witnesses(output: str, index: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """None: the expected byte says where it came from."""
    return ()


def divisions(case: Case) -> Mapping[str, Divides]:
    """Of the output, by route and order."""
    name, packs = order(case.shape)
    k, n = (case.shape.size(dimension) for dimension in DIMENSIONS)
    division = int8_pack(case.route, name, (k, n), packs=packs)
    return {"packed" if packs else "raw": division} if division else {}


def kernel(device: Device, name: str, source: EditedSource | None) -> Run:
    """The launcher on `device`, compiled from `source` or as shipped; the case names the route."""
    launcher = Int8Pack(device, source=SOURCE if source is None else source.text)
    routes = {str(route): route for route in Route}

    def run(case: Case, given: Mapping[str, Tensor]) -> Launch:
        name, packs = order(case.shape)
        move = launcher.pack if packs else launcher.unpack
        first, second = given.values()
        return move(first, second, name, route=routes.get(case.route))

    return run


METAINFER_PACK = Contract(
    name=CONTRACT,
    summary="packed orders of int8 weights: every published index relation, and the way back",
    comparison=Comparison.BITS,
    rules=RULES,
    properties=properties(),
    routes={KERNEL: (*Route, NOTHING_TO_LAUNCH, REFUSED)},
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
    divisions=divisions,
    kernel=kernel,
    space=SPACE,
)
