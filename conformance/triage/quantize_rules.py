"""Wrong rules of the quantisers: scales, maxima, codes, and the state of a ring."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.astrai_quantize import ring_state
from tileproof.conformance.astrai_setting import host, setting
from tileproof.conformance.contract import Right
from tileproof.conformance.layout import lay_out
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.code_rules import Encode, encode_rules
from tileproof.conformance.triage.scene import Scene
from tileproof.conformance.triage.what_if import WhatIf
from tileproof.oracle.formats import E4M3FN, FloatFormat
from tileproof.oracle.ring.ring_fold import FoldRule, Launch, fold
from tileproof.oracle.ring.ring_stage import Field
from tileproof.oracle.ring.ring_state import RingState, as_float32, reciprocal_field, scale_field
from tileproof.oracle.scaling.scale_rule import NINFER_ROW, Apply, NanRule, ScaleRule, StepForm, ZeroRule
from tileproof.oracle.scaling.scale_rule_array import scaled_values, scales_of

Array = NDArray[Any]


def row_rules(scene: Scene) -> Iterator[WhatIf]:
    """Of ninfer's quantiser."""
    x = scene.values["x"].astype(np.float32)
    amax = _amax(x)
    for cause, text, rule in (
        (Cause.RECIPROCAL, "elements are multiplied by 448 / amax", replace(NINFER_ROW, apply=Apply.RATIO)),
        (Cause.RECIPROCAL, "amax is multiplied by the rounded 1 / 448", replace(NINFER_ROW, step=StepForm.MULTIPLY)),
        (Cause.SPECIAL, "the inverse of a zero scale is infinite", replace(NINFER_ROW, zero=ZeroRule.FOLLOW)),
        (Cause.SPECIAL, "a row with a NaN has a NaN for its maximum", replace(NINFER_ROW, nan=NanRule.KEEP)),
    ):
        yield WhatIf(cause, text, partial(_rows, x, _amax(x, rule.nan is NanRule.KEEP), rule))
    yield WhatIf(Cause.RECIPROCAL, "elements are divided by the scale", partial(_divided, x, amax))
    for cause, text, encode in encode_rules(E4M3FN):
        yield WhatIf(cause, text, partial(_rows, x, amax, NINFER_ROW, encode))
    for step in (2, 4, 8, 16):
        part = _amax(x[:, : x.shape[1] // step * step])
        yield WhatIf(
            Cause.TAIL, f"the last K mod {step} elements do not count for the maximum", partial(_rows, x, part)
        )
    yield WhatIf(Cause.SPECIAL, "the element after a NaN replaces the maximum", partial(_rows, x, _replaced(x)))
    for lanes in (32, 64, 128, 256):
        lost = _replaced(x, lanes)
        yield WhatIf(
            Cause.SPECIAL, f"the next element of one of {lanes} threads replaces a NaN", partial(_rows, x, lost)
        )
    found = _rows_without_their_stride(scene)
    if found is not None:
        unstrided = "a row of x is taken from row · K on, whatever the stride of its rows"
        yield WhatIf(Cause.OPERAND_MISPLACED, unstrided, partial(_rows, found, _amax(found)))
    for distance in (1, 2, 4, 8):
        text = f"the scale is that of the row {distance} before"
        yield WhatIf(Cause.OTHER_SCALE, text, partial(_rows, x, np.roll(amax, distance)))


def _rows_without_their_stride(scene: Scene) -> Array | None:
    """x as it would be read, the padding of the first launch among it; None where its rows have no padding."""
    spec = next(spec for spec in scene.contract.tensors(scene.case.shape) if spec.name == "x")
    if not spec.pad:
        return None
    layout = lay_out(spec, exact_bounds=True)
    stored = layout.image(scene.values["x"], 0)[layout.lead_bytes :]
    whole = stored[: stored.size // spec.dtype.itemsize * spec.dtype.itemsize].view(spec.dtype)
    return np.asarray(whole[: scene.values["x"].size].reshape(spec.shape), np.float32)


def _amax(x: Array, keep_nan: bool = False) -> Array:
    if x.shape[1] == 0:
        return np.zeros((len(x), 1), np.float32)
    largest = np.abs(x).max(axis=1, keepdims=True) if keep_nan else np.nanmax(np.where(np.isnan(x), 0, np.abs(x)), 1)
    return np.asarray(largest.reshape(-1, 1), np.float32)


def _replaced(x: Array, lanes: int = 1) -> Array:
    """`largest >= |x| ? largest : |x|` in each of so many threads: a NaN replaces, and is replaced."""
    padded = np.pad(np.abs(x), [(0, 0), (0, -x.shape[1] % lanes)])
    largest = np.zeros((len(x), lanes), np.float32)
    with np.errstate(invalid="ignore"):
        for part in padded.reshape(len(x), -1, lanes).swapaxes(0, 1):
            largest = np.where(largest >= part, largest, part)
    return np.asarray(np.fmax.reduce(largest, axis=1, keepdims=True), np.float32)


def _rows(x: Array, amax: Array, rule: ScaleRule = NINFER_ROW, encode: Encode | None = None) -> Right:
    with np.errstate(all="ignore"):
        scales = scales_of(rule, amax)
        values = scaled_values(rule, x, scales)
        codes = np.asarray(E4M3FN.encode(values)) if encode is None else encode(values)
    return {"codes": codes, "scales": np.ascontiguousarray(scales.steps[:, 0])}


def _divided(x: Array, amax: Array) -> Right:
    scales = scales_of(NINFER_ROW, amax)
    with np.errstate(all="ignore"):
        values = np.where(scales.steps == 0, x * np.float32(0), x / scales.steps)
    return {"codes": np.asarray(E4M3FN.encode(values)), "scales": np.ascontiguousarray(scales.steps[:, 0])}


def tensor_rules(scene: Scene) -> Iterator[WhatIf]:
    """Of AstrAI's quantiser: codes first, then the ring."""
    of = setting(scene.case.shape)
    right = scene.right
    state = ring_state(scene.case, of, scene.values)
    x = scene.values["x"].astype(np.float32)
    known = {name: value for name, value in right.items() if name not in ("rows", "transposed")}
    given = scene.values["scale"][0] if of.brings_scale else _own_scale(state, is_step=of.is_step)
    with np.errstate(all="ignore"):
        factor = np.float32(1) / given if of.is_step else np.float32(given)
    formats = {"rows": of.types.rows, "transposed": of.types.transposed}

    def coded(factor: np.float32, rule: str = "") -> Right:
        found = dict(known)
        for name, record in formats.items():
            if record is not None:
                with np.errstate(all="ignore"):
                    values = np.ascontiguousarray(x if name == "rows" else x.T) * factor
                wrong = {text: encode for _, text, encode in encode_rules(record)}
                codes = wrong.get(rule, record.encode)(values.reshape(-1))
                found[name] = np.asarray(codes).astype(np.uint8).reshape(values.shape)
        return found

    with np.errstate(all="ignore"):
        inverse = np.float32(1) / factor
    yield WhatIf(Cause.RECIPROCAL, "the step is taken for a multiplier, or the reverse", lambda: coded(inverse))
    record = of.types.rows or of.types.transposed
    if record is not None:
        for cause, text, _ in encode_rules(record):
            yield WhatIf(cause, text, partial(coded, factor, text))
    if of.types.transposed is not None and "transposed" in right:
        view = np.ascontiguousarray(np.asarray(right["transposed"]).T).reshape(np.asarray(right["transposed"]).shape)
        yield WhatIf(Cause.TRANSPOSED, "the transposed codes stand row by row", lambda: {**right, "transposed": view})
    if state is not None and "ring" in scene.specs:
        yield from _ring_rules(scene)


def _own_scale(state: RingState | None, *, is_step: bool) -> np.float32:
    """What a cast reads from the ring: the scale, or its reciprocal."""
    assert state is not None, "a cast without a scale of its own has a ring"
    field = scale_field(state.current) if is_step else reciprocal_field(state.current)
    return as_float32(state.read(field))


def _ring_rules(scene: Scene) -> Iterator[WhatIf]:
    """Folds that go wrong; what none predicts is the state all the same, for `state` to say."""
    of, case = setting(scene.case.shape), scene.case
    state = ring_state(case, of, scene.values)
    assert state is not None, "asked only where there is a ring"
    margin = host(case).margin
    peak = np.float32(np.asarray(scene.right["amax"]).reshape(-1)[0]) if "amax" in scene.right else _peak(scene)

    def folded(margin: int, amax: np.float32) -> Right:
        after = fold(state, Launch.single(amax), FoldRule(of.target, margin))
        return {**scene.right, "ring": np.array(after.words, np.uint32).view(np.float32)}

    scale, wrong = _by_reciprocal(state, of.target, margin, np.asarray(scene.right["ring"]))
    if wrong is not None:
        text = f"word {scale}, the scale, is a maximum times a rounded inverse and no quotient"
        yield WhatIf(Cause.RECIPROCAL, text, lambda: {**scene.right, "ring": wrong})
    yield WhatIf(Cause.STATE, "the margin has the other sign", lambda: folded(-margin, peak))
    kept = {**scene.right, "ring": scene.values["ring"]}
    yield WhatIf(Cause.STATE, "the ring is as it was: nothing was folded", lambda: kept)


def _by_reciprocal(state: RingState, target: FloatFormat, margin: int, right: Array) -> tuple[int, Array | None]:
    """The ring with the published scale made with the rounded inverse of the largest value."""
    place = state.stage.offset(scale_field(state.publishing_pair), state.window)
    start = state.stage.offset(Field.HISTORY, state.window)
    peak = right[start : start + state.window].max()
    largest = np.float32(target.number(target.max_code).value)
    for power in (margin, -margin):
        factor = np.float32(2.0**power)
        if np.float32(peak / largest) * factor == right[place]:
            wrong = right.copy()
            wrong[place] = peak * (np.float32(1) / largest) * factor
            return place, wrong
    return place, None


def _peak(scene: Scene) -> np.float32:
    return np.float32(np.nanmax(np.abs(scene.values["x"].astype(np.float32)), initial=0))
