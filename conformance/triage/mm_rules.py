"""Wrong rules of AstrAI's product."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from tileproof.conformance.astrai_mm_fp8 import finished, rule_of
from tileproof.conformance.astrai_mm_setting import Setting, setting
from tileproof.conformance.contract import Arrays, Right
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.scene import Scene
from tileproof.conformance.triage.sum_rules import BF16, STEP, Array, cut_to_bf16, operand_rules, sum_rules
from tileproof.conformance.triage.what_if import WhatIf
from tileproof.oracle.epilogue import Contraction, EpilogueRule
from tileproof.oracle.formats import E4M3FN
from tileproof.oracle.gemm import gemm
from tileproof.oracle.products.accumulation_order import AccumulationOrder, RaggedK

Then = Callable[..., Right]


def mm_rules(scene: Scene) -> Iterator[WhatIf]:
    """Epilogues, operands, batches, sums, and the way out."""
    of, values = setting(scene.case.shape), scene.values
    name, rule = of.types.format, rule_of(of)
    order = AccumulationOrder(
        instruction=f"mma.m16n8k32.f32.{name}.{name}", arch=scene.arch, assembler="13.0", ragged_k=RaggedK.ZERO_FILL
    )
    a, b = _operands(of, values)
    sums = gemm(order, a, b)

    def then(given: Array, other: EpilogueRule = rule, changed: Arrays | None = None) -> Right:
        return {"out": finished(other, of, {**values, **(changed or {})}, given)}

    yield from _epilogues(scene, of, sums, then)
    if of.types.bias:
        yield from _biases(scene, of, sums, then)
    yield from operand_rules(a, b, order, then)
    if of.batch > 1:
        first = [rows[:1] if rows.ndim == 3 else rows for rows in (a, b)]
        for text, pair in (("A", (first[0], b)), ("B", (a, first[1])), ("A and B", (first[0], first[1]))):
            same = partial(lambda pair: then(np.broadcast_to(gemm(order, *pair), sums.shape)), pair)
            yield WhatIf(Cause.STALE, f"{text} of the first matrix of the batch serves all", same)
    yield from sum_rules(name, a, b, order, then)
    yield from _copy_out(np.asarray(scene.right["out"]))


def _operands(of: Setting, values: Arrays) -> tuple[Array, Array]:
    """A [.., M, K] and B [.., N, K], K filled to whole steps."""
    a = values["a"].swapaxes(-1, -2) if of.types.a_turned else values["a"]
    b = values["b"] if of.types.b_turned else values["b"].swapaxes(-1, -2)
    filled = [np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, -rows.shape[-1] % STEP)]) for rows in (a, b)]
    return np.ascontiguousarray(filled[0]), np.ascontiguousarray(filled[1])


def _epilogues(scene: Scene, of: Setting, sums: Array, then: Then) -> Iterator[WhatIf]:
    values = scene.values
    with np.errstate(all="ignore"):
        product = (sums * values["scale"][0]).astype(np.float32)
    if of.types.fp8_out:
        with np.errstate(all="ignore"):
            inverse = {"out_scale": (np.float32(1) / values["out_scale"]).astype(np.float32)}
        yield WhatIf(Cause.RECIPROCAL, "the output's scale divides", lambda: then(sums, changed=inverse))
    elif not of.types.bias:
        yield WhatIf(Cause.ROUNDING, "outputs are cut to bfloat16", lambda: {"out": cut_to_bf16(product)})


def _biases(scene: Scene, of: Setting, sums: Array, then: Then) -> Iterator[WhatIf]:
    values, rule = scene.values, rule_of(of)
    is_fp8 = of.types.bias == "fp8"
    plain = of.types.record.decode(values["bias"]) if is_fp8 else values["bias"]
    with np.errstate(all="ignore"):
        bias = plain.astype(np.float32) * (values["bias_scale"][0] if is_fp8 else np.float32(1))
        product = (sums * values["scale"][0]).astype(np.float32)
        scaled_last = ((sums + bias) * values["scale"][0]).astype(np.float32)
        twice = product.astype(BF16).astype(np.float32) + bias
    uncontracted = replace(rule, contraction=Contraction.NONE)
    text = "the product is rounded to bfloat16 before the bias is added"
    yield WhatIf(Cause.EPILOGUE, "the product is rounded before the bias is added", lambda: then(sums, uncontracted))
    yield WhatIf(Cause.EPILOGUE, "the bias is added before the scale", lambda: _out(scene, of, scaled_last))
    yield WhatIf(Cause.DOUBLE_ROUNDING, text, lambda: _out(scene, of, twice))
    yield WhatIf(Cause.PART_LOST, "the bias is not added", lambda: _out(scene, of, product))
    if is_fp8:
        one = {"bias_scale": np.ones(1, np.float32)}
        yield WhatIf(Cause.OTHER_SCALE, "the bias goes without its scale", lambda: then(sums, changed=one))
    if sums.ndim == 2 and sums.shape[0] <= values["bias"].size:
        yield WhatIf(Cause.OTHER_SCALE, "the bias is that of the output's row", lambda: _along_rows(sums, values, then))


def _along_rows(sums: Array, values: Arrays, then: Then) -> Right:
    """Each row finished with its own element of the bias in every column."""
    rows = [
        np.asarray(then(sums, changed={"bias": np.full_like(values["bias"], values["bias"][i])})["out"])[i]
        for i in range(len(sums))
    ]
    return {"out": np.stack(rows)}


def _out(scene: Scene, of: Setting, total: Array) -> Right:
    with np.errstate(all="ignore"):
        if of.types.fp8_out:
            return {"out": np.asarray(E4M3FN.encode((total * scene.values["out_scale"][0]).astype(np.float32)))}
        return {"out": total.astype(BF16)}


def _copy_out(right: Array) -> Iterator[WhatIf]:
    """Staged outputs that are read as if they were not swizzled: segments of 16 bytes exchanged by the row."""
    row, column = np.arange(right.shape[-2])[:, np.newaxis], np.arange(right.shape[-1])[np.newaxis]
    width = 16 // right.itemsize
    for tile in (64, 128):
        segments = tile // width
        for lines in dict.fromkeys((8, 16, segments)):
            twisted = (column % tile // width) ^ (row % lines % segments)
            other = column // tile * tile + twisted * width + column % width
            inside = other < right.shape[-1]
            place = np.broadcast_to(np.where(inside, other, column), right.shape)
            out = np.where(inside, np.take_along_axis(right, place, axis=-1), np.zeros((), right.dtype))
            text = f"segments of 16 bytes in {tile} outputs are exchanged by the row mod {lines}"
            yield WhatIf(Cause.PERMUTED, text, partial(dict, out=out))
