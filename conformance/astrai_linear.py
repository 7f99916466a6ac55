"""The contracts of AstrAI's linear layer: programs of passes, their outputs and gradients, and the rings afterwards.

`astrai_linear` runs the forward passes of a program, `astrai_linear_backward` the gradients as well. Worked example,
one step, x = [2], w = [3], no bias: rings seeded with 2 and 3 have the scales 2/448 and 3/448, both codes are of 448,
and the output is 448 · 448 · (2/448 · 3/448), rounded to 6; the window's first slot is 2, the next scale 2/448.

`astrai_linear_setting` says what a case id means, `astrai_linear_program` what a program does, `astrai_linear_cases`
what runs, `astrai_linear_families` on which data.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.astrai_linear_cases import SPACE, cases
from tileproof.conformance.astrai_linear_device import STEMS, DeviceSession, Memory
from tileproof.conformance.astrai_linear_families import BF16, FAMILIES, generate
from tileproof.conformance.astrai_linear_oracle import OracleSession
from tileproof.conformance.astrai_linear_program import program
from tileproof.conformance.astrai_linear_properties import properties
from tileproof.conformance.astrai_linear_setting import (
    BACKWARD,
    DIMENSIONS,
    FORWARD,
    KERNEL,
    PROGRAMS,
    TOKENS,
    WITHOUT_GRADIENTS,
    Setting,
    margin_of,
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
from tileproof.conformance.our_divisions import chosen_mm_fp8
from tileproof.kernels.device import Device
from tileproof.kernels.launcher import JoinedReport, Launch
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED

_LINEAR = "AstrAI csrc/gemm/fp8_linear.cu @2fb0b143"
_LIFE = "AstrAI tests/extension/test_fp8_lifecycle.py @0ec5f297"
_STATE = "AstrAI csrc/gemm/fp8_state.h @17ac3709"
_CHOICE = "left open by AstrAI; declared here"

RULES = (
    Rule(
        "forward", "product of the casts of x and w, forward format, by sx · sw, bias fused: see astrai_mm_fp8", _LINEAR
    ),
    Rule("backward", "dX of g and w, dW of g and x, all in the backward format, by sg · sw and sg · sx", _LINEAR),
    Rule("recast", "x and w for the backward pass by the multipliers of their forward casts; no ring moves", _LINEAR),
    Rule("bias's gradient", "column sums of g itself: 16 interleaved strands, added in order; one rounding", _CHOICE),
    Rule("leading dimensions", "of x are rows", _LINEAR),
    Rule(
        "folds", "each cast that gradients are recorded for folds its ring once; a pass without gradients, none", _LIFE
    ),
    Rule("unchanged weight", "keeps codes and scale of its last cast with gradients, and folds nothing", _STATE),
    Rule("shared activation", "codes and scale of the layer that cast it; this layer's ring does not move", _CHOICE),
    Rule("quantised weight", "codes and scale as they are given; it has no ring", _LINEAR),
    Rule("scales", "belong to a cast, and outlive later folds of its ring", _CHOICE),
    Rule("seed", "the first tensor that a ring scales fills its history; the division by a rounded inverse", _STATE),
    Rule("keys", "rings belong to a weight object and a recipe; an address says nothing", _LIFE),
    Rule("reset", "forgets rings and checkpoint, and restores the first recipe", _LIFE),
    Rule("checkpoint", "of living weights in the order of registration, claimed by shape", _LIFE),
)

F32, CODES = np.dtype(np.float32), np.dtype(np.uint8)


def tensors(contract: str, shape: Shape) -> tuple[TensorSpec, ...]:
    """Inputs and outputs of all steps, and the words of all rings that the program makes."""
    of = _setting(contract, shape)

    def spec(name: str, role: Role, dtype: np.dtype[Any], kind: str, *extents: int) -> TensorSpec:
        view = shape.view(name)
        return TensorSpec(name, name, role, dtype, kind, extents, view.pad, view.offset)

    def bf16(name: str, role: Role, *extents: int) -> TensorSpec:
        return spec(name, role, BF16, "BFLOAT16", *extents)

    found = [bf16("x", Role.INPUT, of.steps, *of.tokens, of.depth)]
    if of.is_quantised:
        found.append(spec("codes", Role.INPUT, CODES, of.formats.forward.name, of.columns, of.depth))
        found.append(spec("scale", Role.INPUT, F32, "FLOAT32", 1))
    else:
        found.append(bf16("w", Role.INPUT, of.steps, of.columns, of.depth))
    if of.biased:
        found.append(bf16("bias", Role.INPUT, of.columns))
    found.append(bf16("out", Role.OUTPUT, of.steps, *of.tokens, of.columns))
    if contract == BACKWARD:
        found.append(bf16("g", Role.INPUT, of.steps, *of.tokens, of.columns))
        found.append(bf16("dx", Role.OUTPUT, of.steps, *of.tokens, of.depth))
        found.append(bf16("dw", Role.OUTPUT, of.steps, of.columns, of.depth))
        found.append(bf16("dbias", Role.OUTPUT, of.steps, of.columns))
    words = 3 * program(of.program).weights(of.steps) * DOUBLE_BUFFERED.size(of.window)
    found.append(spec("rings", Role.IN_PLACE, F32, "FLOAT32", words))
    return tuple(found)


def expected_routes(contract: str, shape: Shape) -> tuple[str, ...]:
    """The program, or a refusal: of what is empty, of a ring without a window, of codes beside another format."""
    of = _setting(contract, shape)
    empty = 0 in (of.steps, *of.tokens, of.columns, of.depth, of.window)
    padded = any(view.pad for view in shape.views)
    mixed = of.is_quantised and contract == BACKWARD and of.formats.forward is not of.formats.backward
    return (REFUSED,) if empty or padded or mixed else (of.program,)


def _setting(contract: str, shape: Shape) -> Setting:
    of = setting(shape)
    if contract == BACKWARD and of.program == WITHOUT_GRADIENTS:
        raise Refusal(f"program {of.program} has steps without gradients", hint=f"it runs in {FORWARD}")
    return of


def inputs(contract: str, case: Case) -> Arrays:
    """The generated inputs of a case."""
    specs = [spec for spec in tensors(contract, case.shape) if spec.role.is_read]
    if expected_routes(contract, case.shape) == (REFUSED,):
        return {spec.name: np.zeros(spec.shape, spec.dtype) for spec in specs}
    made = generate(case.family, setting(case.shape), case.random())
    made["rings"] = np.zeros(next(spec.shape for spec in specs if spec.name == "rings"), np.float32)
    return {spec.name: np.ascontiguousarray(made[spec.name]) for spec in specs}


def expected(contract: str, case: Case, values: Arrays, arch: str) -> Arrays:
    """Outputs, gradients and rings as the oracle has them."""
    of = setting(case.shape)
    session = OracleSession(of, margin_of(case), values, arch, with_gradients=contract == BACKWARD)
    program(of.program).run(session)
    right: dict[str, NDArray[Any]] = {"rings": session.words}
    for spec in tensors(contract, case.shape):
        if spec.role is Role.OUTPUT:
            steps = session.outputs[spec.name]
            right[spec.name] = np.stack([steps[step] for step in range(of.steps)])
    return right


def classes(values: Arrays, right: Arrays) -> Mapping[str, Mapping[str, Mask]]:
    """Of an output: kinds of values and steps. Of the rings: which part of one a word is, and whose it is."""
    found: dict[str, Mapping[str, Mask]] = {"rings": _ring_classes(right["rings"])}
    for name, array in right.items():
        if name != "rings":
            wide = array.astype(np.float32)
            step = np.arange(len(array)).reshape(-1, *[1] * (array.ndim - 1))
            found[name] = {
                "NaN": np.isnan(wide),
                "zeros": wide == 0,
                "the first step": np.broadcast_to(step == 0, array.shape),
                "steps past the first": np.broadcast_to(step > 0, array.shape),
            }
    return found


def _ring_classes(words: NDArray[Any]) -> dict[str, Mask]:
    """Counter and collected maxima are zeros, and so are rings that were never seeded."""
    return {"words that are 0": words == 0, "words that are not 0": words != 0}


def divisions(contract: str, case: Case) -> Mapping[str, Divides]:
    """Of the products, whose variant the launcher chooses, where every device chooses the same."""
    if case.route == REFUSED:
        return {}
    of = setting(case.shape)
    rows = {"out": (of.tokens, of.columns), "dx": (of.tokens, of.depth), "dw": ((of.columns,), of.depth)}
    made = {name: chosen_mm_fp8(*extents) for name, extents in rows.items()}
    written = {spec.name for spec in tensors(contract, case.shape)}
    return {name: division for name, division in made.items() if division and name in written}


def witnesses(output: str, index: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """None: an output depends on all that came before it."""
    return ()


def kernel(device: Device, name: str, source: EditedSource | None) -> Run:
    """The operator on `device`; a kernel's text or a host file's may be an edited one."""
    modules = host_modules(STEMS, source)
    memory = Memory(device)
    operator: Any = modules["fp8_linear"]
    sources = {source.name: source.text} if source is not None and not source.name.endswith(SUFFIX) else {}
    linear = operator.Fp8Linear(device, None, allocate=memory.allocate, sources=sources)

    def run(case: Case, given: Mapping[str, Tensor]) -> Launch:
        of = setting(case.shape)
        try:
            session = DeviceSession(modules, linear, memory, of, margin_of(case), given)
            program(of.program).run(session)
        finally:
            memory.free()
        reports = tuple(launch.report for launch in session.launches if launch.report is not None)
        last = session.launches[-1]
        return Launch(KERNEL, last.entry, of.program, last.grid, last.block, JoinedReport(reports))

    return run


def _contract(name: str, summary: str) -> Contract:
    routes = partial(expected_routes, name)
    return Contract(
        name=name,
        summary=summary,
        comparison=Comparison.ROUTE_BITS,
        rules=RULES,
        properties=properties(name),
        routes={KERNEL: (*PROGRAMS, REFUSED)},
        dimensions=DIMENSIONS,
        dtypes=TOKENS,
        families=tuple(FAMILIES),
        generator_version=1,
        tensors=partial(tensors, name),
        cases=partial(cases, name, routes),
        inputs=partial(inputs, name),
        expected=partial(expected, name),
        expected_routes=routes,
        classes=classes,
        witnesses=witnesses,
        kernel=kernel,
        divisions=partial(divisions, name),
        space=SPACE,
    )


ASTRAI_LINEAR = _contract(FORWARD, "FP8 linear layer, forward: programs of passes, and their scale rings")
ASTRAI_LINEAR_BACKWARD = _contract(BACKWARD, "FP8 linear layer with its gradients: programs of passes, and scale rings")
CONTRACTS = (ASTRAI_LINEAR, ASTRAI_LINEAR_BACKWARD)
