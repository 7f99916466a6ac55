"""Wrong rules of ninfer's operators."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from tileproof.conformance.contract import Allowed, Right
from tileproof.conformance.ninfer_gemm import OPERATORS, Operator, order
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.scene import Scene
from tileproof.conformance.triage.sum_rules import (
    BF16,
    Array,
    Finish,
    cut_to_bf16,
    neighbours,
    operand_rules,
    sum_rules,
)
from tileproof.conformance.triage.what_if import WhatIf
from tileproof.oracle.epilogue import NINFER_LINEAR, NINFER_LINEAR_ADD
from tileproof.oracle.epilogues.epilogue_array import Operands, apply_epilogue
from tileproof.oracle.gemm import gemm
from tileproof.oracle.quantize import quantize_rows


def ninfer_rules(scene: Scene) -> Iterator[WhatIf]:
    """Epilogues, operands, sums."""
    operator, values = OPERATORS[scene.contract.name], scene.values
    quantised = quantize_rows(values["x"])
    codes, weight, sum_order = quantised.codes, values["weight"], order(scene.arch)
    own: dict[str, Array | Allowed] = {"codes": codes, "scales": quantised.scales}
    sums = gemm(sum_order, codes, weight)

    def then(given: Array, scales: Array = quantised.scales, w: Array = values["weight_scales"]) -> Right:
        product = operator.finished({**values, "weight_scales": w}, given, scales)
        return {**own, **operator.outputs(product)}

    def finish(product: Array) -> Right:
        return {**own, **operator.outputs(product)}

    for text, place in neighbours(len(codes)):
        rule = f"the activation scale of token i is that of {text}"
        yield WhatIf(Cause.OTHER_SCALE, rule, partial(then, sums, quantised.scales[place]))
    for text, place in neighbours(len(weight)):
        rule = f"the scale of weight row i is that of {text}"
        yield WhatIf(Cause.OTHER_SCALE, rule, partial(then, sums, w=values["weight_scales"][place]))
    yield from _epilogues(scene, operator, sums, quantised.scales, finish)
    yield from operand_rules(codes, weight, sum_order, then)
    yield from sum_rules("e4m3", codes, weight, sum_order, then)


def _epilogues(
    scene: Scene, operator: Operator, sums: Array, scales: Array, finish: Callable[[Array], Right]
) -> Iterator[WhatIf]:
    w = scene.values["weight_scales"]
    with np.errstate(all="ignore"):
        x = (sums * scales[:, np.newaxis]).astype(np.float32)
        product = (x * w.astype(np.float32)).astype(np.float32)
    if operator.site.adds:
        yield from _residual(scene, sums, (scales, w), product, finish)
    else:
        yield WhatIf(Cause.ROUNDING, "outputs are cut to bfloat16", lambda: finish(cut_to_bf16(product)))
    if operator.site.paired:
        yield from _paired(product, finish)


def _residual(
    scene: Scene, sums: Array, factors: tuple[Array, Array], product: Array, finish: Finish
) -> Iterator[WhatIf]:
    residual = scene.values["out"]
    operands = Operands(accumulators=sums, factors=factors, addend=residual)
    plain, alone = (
        apply_epilogue(NINFER_LINEAR_ADD, operands),
        apply_epilogue(NINFER_LINEAR, Operands(accumulators=sums, factors=factors)),
    )
    with np.errstate(all="ignore"):
        twice = (product.astype(BF16).astype(np.float32) + residual.astype(np.float32)).astype(BF16)
    text = "the product is rounded to bfloat16 before the residual is added"
    yield WhatIf(Cause.EPILOGUE, "the product is rounded before the residual is added", lambda: finish(plain))
    yield WhatIf(Cause.DOUBLE_ROUNDING, text, lambda: finish(twice))
    yield WhatIf(Cause.PART_LOST, "the residual is not added", lambda: finish(alone))


def _paired(product: Array, finish: Finish) -> Iterator[WhatIf]:
    rounded = product.astype(BF16)
    turned = np.concatenate([rounded[:, 0::2], rounded[:, 1::2]], axis=1)
    yield WhatIf(Cause.WRONG_PACK, "gate and up rows are taken in turn", lambda: finish(turned))
    gate, up = np.split(rounded.astype(np.float32), 2, axis=1)
    with np.errstate(all="ignore"):
        inner = (0.25 * gate.astype(np.float64) + 0.5).astype(np.float32)
        out = (gate * inner * up).astype(BF16)
    yield WhatIf(Cause.EPILOGUE, "silu is the quadratic x (x / 4 + 1 / 2)", lambda: {**finish(rounded), "out": out})
