"""Wrong rules of metainfer's product."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from tileproof.conformance import metainfer_w8a8_gemm as w8a8
from tileproof.conformance.contract import Arrays, Right
from tileproof.conformance.int8_layout_tokens import LAYOUT_TOKENS
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.operand_rules import misread
from tileproof.conformance.triage.scene import Scene
from tileproof.conformance.triage.sum_rules import BF16, Array, cut_to_bf16, neighbours
from tileproof.conformance.triage.what_if import WhatIf
from tileproof.oracle.epilogue import METAINFER_W8A8, Output
from tileproof.oracle.epilogues.epilogue_array import Operands, apply_epilogue
from tileproof.oracle.formats import FLOAT32
from tileproof.oracle.layouts import PACKS
from tileproof.oracle.refusal import Refusal

STAGE = 64

Then = Callable[..., Right]


def int8_rules(scene: Scene) -> Iterator[WhatIf]:
    """Epilogues, codes, packs, parts of K, operands, columns. Planes of a split are predicted by the parts alone."""
    values, case = scene.values, scene.case
    _, n, k, splits = w8a8.extents(case.shape)
    x = values["x"]
    w = np.ascontiguousarray(PACKS[LAYOUT_TOKENS[case.shape.dtype]].unpack(values["weight"], k, n).T)
    sums = multiply(x, w)
    rest = {name: value for name, value in scene.right.items() if name != "out"}

    def then(given: Array, changed: Arrays | None = None) -> Right:
        wrapped = given.astype(np.int64).astype(np.int32)
        return {**rest, "out": w8a8.outputs(wrapped, {**values, **(changed or {})})}

    yield from _epilogues(scene, sums, rest)
    for name in ("w_scale", "x_scale"):
        for text, place in neighbours(values[name].size):
            changed = {name: values[name][place]}
            yield WhatIf(Cause.OTHER_SCALE, f"{name} of i is that of {text}", partial(then, sums, changed))
    yield from _codes(x, w, then)
    yield from _packs(values["weight"], x, n, k, then)
    yield from _parts(x, w, sums, max(splits, 1), then)
    for one in misread(x, w):
        yield WhatIf(one.cause, one.text, partial(lambda one: then(multiply(one.a, one.b)), one))
    for cause, text, place in _columns(n):
        yield WhatIf(cause, text, partial(lambda place: then(sums[:, place]), place))


def multiply(x: Array, w: Array) -> Array:
    """Exact sums int64 [M, N]; float64 holds every sum of fewer than 2^39 products."""
    return np.asarray((x.astype(np.float64) @ w.astype(np.float64).T).astype(np.int64))


def _codes(x: Array, w: Array, then: Then) -> Iterator[WhatIf]:
    yield WhatIf(Cause.FORMAT, "weights are taken for unsigned", lambda: then(multiply(x, w.view(np.uint8))))
    yield WhatIf(Cause.FORMAT, "activations are taken for unsigned", lambda: then(multiply(x.view(np.uint8), w)))
    clamped = [np.where(one == -128, -127, one).astype(np.int8) for one in (x, w)]
    for text, pair in (("x", (clamped[0], w)), ("W", (x, clamped[1])), ("x and W", (clamped[0], clamped[1]))):
        rule = f"-128 of {text} is taken for -127"
        yield WhatIf(Cause.OVERFLOW, rule, partial(lambda pair: then(multiply(*pair)), pair))
    yield WhatIf(Cause.OVERFLOW, "two products are added in 16 bits", lambda: then(_pairs(x, w)))


def _pairs(x: Array, w: Array) -> Array:
    total = np.zeros((len(x), len(w)), np.int64)
    for i in range(0, x.shape[1], 2):
        total += multiply(x[:, i : i + 2], w[:, i : i + 2]).astype(np.int16)
    return total


def _packs(stored: Array, x: Array, n: int, k: int, then: Then) -> Iterator[WhatIf]:
    for name, other in PACKS.items():
        try:
            read = np.ascontiguousarray(other.unpack(stored, k, n).T)
        except (Refusal, ValueError):
            continue  # a pack that has no such shape
        text = f"the weight is read as {name}"
        yield WhatIf(Cause.WRONG_PACK, text, partial(lambda read: then(multiply(x, read)), read))
    if stored.size == n * k:
        for form, read in (("[K][N]", stored.reshape(k, n).T), ("[N][K]", stored.reshape(n, k))):
            text = f"the weight is read as contiguous {form}"
            yield WhatIf(Cause.WRONG_PACK, text, partial(lambda read: then(multiply(x, read)), read))


def _parts(x: Array, w: Array, sums: Array, splits: int, then: Then) -> Iterator[WhatIf]:
    """Parts of a split, and halves of K that two groups of a block add up, in every second column."""
    k, column = np.arange(x.shape[1]), np.arange(len(w))
    if splits > 1:
        edges = [part * (len(k) // STAGE) // splits * STAGE for part in range(splits + 1)]
        for part in range(splits):
            lost = multiply(x[:, edges[part] : edges[part + 1]], w[:, edges[part] : edges[part + 1]])
            yield WhatIf(Cause.PART_OF_K, f"part {part} of K is not added", partial(then, sums - lost))
        even = len(k) // STAGE // splits * STAGE
        planes = np.stack([multiply(x[:, p : p + even], w[:, p : p + even]) for p in range(0, splits * even, even)])
        text = "each part of K has as many stages as all have, and the rest is dropped"
        whole = {"planes": planes.astype(np.int32)}
        yield WhatIf(Cause.PART_OF_K, text, lambda: {**then(planes.sum(axis=0)), **whole})
    for text, inside in (("the second half", k >= len(k) // 2), ("every second stage", k // STAGE % 2 == 1)):
        part_sums = multiply(x * inside, w)
        for parity, where in enumerate(("even", "odd")):
            rule = f"{text} of K is lost in {where} columns"
            yield WhatIf(Cause.PART_LOST, rule, partial(then, sums - part_sums * (column % 2 == parity)))


def _columns(n: int) -> Iterator[tuple[Cause, str, Array]]:
    """Sums that stand in other columns."""
    column = np.arange(n)
    for text, place in neighbours(n):
        yield Cause.PERMUTED, f"sums of column i are those of {text}", place
    low, inside = column % 32 < 16, column % 32
    apart = column - inside + np.where(low, inside * 2, (inside - 16) * 2 + 1)
    beside = column - inside + inside // 2 + inside % 2 * 16
    for text, place in (
        ("partners are neighbours in place of 16 columns away", apart),
        ("partners 16 columns away are taken for neighbours", beside),
    ):
        yield Cause.WRONG_PACK, text, np.where(place < n, place, column)


def _epilogues(scene: Scene, sums: Array, rest: Right) -> Iterator[WhatIf]:
    values = scene.values
    xs, ws = values["x_scale"][:, np.newaxis], values["w_scale"][np.newaxis]
    exact = sums.astype(np.int32)
    turned = Operands(accumulators=exact.T, factors=(values["w_scale"], values["x_scale"]))
    with np.errstate(all="ignore"):
        near, cut = exact.astype(np.float32), _toward_zero(exact)
        first = _plain(near * (xs * ws).astype(np.float32))
        right = ((near * xs).astype(np.float32) * ws).astype(np.float32)
        of_cut = _plain((cut * xs).astype(np.float32) * ws)
    column_first = np.ascontiguousarray(apply_epilogue(METAINFER_W8A8, turned).T)
    away = ((right.view(np.uint32) + np.uint32(0x8000)) >> 16).astype(np.uint16).view(BF16)
    straight = Operands(accumulators=exact, factors=(values["x_scale"], values["w_scale"]))
    by_instruction = apply_epilogue(replace(METAINFER_W8A8, output=Output.BFLOAT16), straight)
    with np.errstate(all="ignore"):
        flushed = _plain(_flushed(_flushed(near * _flushed(xs)) * _flushed(ws)))
    for cause, text, out in (
        (Cause.SPECIAL, "NaN becomes 0x7fff, by an instruction that rounds to bfloat16", by_instruction),
        (Cause.SUBNORMALS, "what is below 2^-126 is taken for zero, in scales and in products", flushed),
        (Cause.EPILOGUE, "the scales are multiplied first", first),
        (Cause.EPILOGUE, "the column's scale comes first", column_first),
        (Cause.ROUNDING, "sums are cut to float32", of_cut),
        (Cause.ROUNDING, "outputs are cut to bfloat16", cut_to_bf16(right)),
        (Cause.ROUNDING, "ties go away from zero", away),
    ):
        yield WhatIf(cause, text, partial(dict, {**rest, "out": out}))


def _plain(values: Array) -> Array:
    """bfloat16 as the rule has it, `Output.BFLOAT16_PLAIN`: a NaN is 0x7FFFFFFF and has no case of its own."""
    bits = np.where(np.isnan(values), np.uint32(FLOAT32.nan_code), values.astype(np.float32).view(np.uint32))
    with np.errstate(over="ignore"):
        return ((bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16).astype(np.uint16).view(BF16)


def _flushed(values: Array) -> Array:
    """float32 with zeros of the same sign for subnormals."""
    small = np.abs(values) < np.float32(2.0**-126)
    return np.where(small, np.copysign(np.float32(0), values), values).astype(np.float32)


def _toward_zero(sums: Array) -> Array:
    """float32 of integers, cut."""
    near = sums.astype(np.float32)
    beyond = np.abs(near.astype(np.float64)) > np.abs(sums.astype(np.float64))
    return np.where(beyond, np.nextafter(near, np.float32(0)), near).astype(np.float32)
