"""Other sums of the right FP8 products: other orders, other accumulators, other formats."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.contract import Right
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.operand_rules import misread, steps_backwards
from tileproof.conformance.triage.what_if import WhatIf
from tileproof.oracle.formats import E4M3FN, E5M2
from tileproof.oracle.gemm import gemm
from tileproof.oracle.products.accumulation_order import AccumulationOrder, RaggedK

Array = NDArray[Any]
Finish = Callable[[Array], Right]
BF16 = ml_dtypes.bfloat16

STEP = 32

UNITS = (
    ("wgmma.m64n8k32.f32.{0}.{0}", "sm_90a", "13.0"),
    ("mma.m16n8k32.f32.{0}.{0}", "sm_90a", "13.0"),
    ("mma.m16n8k32.f32.{0}.{0}", "sm_90a", "12.6"),
    ("mma.m16n8k32.f32.{0}.{0}", "sm_89", "13.0"),
    ("mma.m16n8k32.f32.{0}.{0}", "sm_120a", "13.0"),
    ("mma.m16n8k32.f16.{0}.{0}", "sm_89", "13.0"),
)
"""Units whose sums another accumulator would give."""


def operand_rules(a: Array, b: Array, order: AccumulationOrder, then: Finish) -> Iterator[WhatIf]:
    """Misread operands, through the right sum; `then` makes outputs of sums."""
    for one in misread(a, b):
        yield WhatIf(one.cause, one.text, partial(lambda one: then(gemm(order, one.a, one.b)), one))


def sum_rules(name: str, a: Array, b: Array, order: AccumulationOrder, then: Finish) -> Iterator[WhatIf]:
    """The right operands, of format e4m3 or e5m2, through other sums."""
    for stage in (64, 128, a.shape[-1]):
        if stage > STEP:
            text = f"steps of each {stage} elements of K are added backwards"
            yield WhatIf(Cause.ORDER_OF_SUM, text, partial(_backwards, a, b, order, then, stage))
    record = E4M3FN if name == "e4m3" else E5M2

    def exact() -> Right:
        with np.errstate(all="ignore"):
            return then((record.decode(a) @ record.decode(b).swapaxes(-1, -2)).astype(np.float32))

    yield WhatIf(Cause.NARROW_SUM, "sums are exact and rounded once", exact)
    for instruction, arch, assembler in UNITS:
        other = AccumulationOrder(
            instruction=instruction.format(name), arch=arch, assembler=assembler, ragged_k=RaggedK.ZERO_FILL
        )
        text = f"sums are those of {other.instruction} on {arch}, ptxas {assembler}"
        yield WhatIf(Cause.NARROW_SUM, text, partial(_summed, a, b, other, then))
    wrong = "e5m2" if name == "e4m3" else "e4m3"
    other = replace(order, instruction=order.instruction.replace(name, wrong))
    yield WhatIf(Cause.FORMAT, f"codes are multiplied as {wrong}", partial(_summed, a, b, other, then))


def _backwards(a: Array, b: Array, order: AccumulationOrder, then: Finish, stage: int) -> Right:
    return then(gemm(order, steps_backwards(a, stage, STEP), steps_backwards(b, stage, STEP)))


def _summed(a: Array, b: Array, order: AccumulationOrder, then: Finish) -> Right:
    return then(gemm(order, a, b).astype(np.float32))


def cut_to_bf16(values: Array) -> Array:
    """Toward zero."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16).view(BF16)


def neighbours(size: int) -> Iterator[tuple[str, Array]]:
    """Other places for each of so many: what they are, and which place each then takes."""
    place = np.arange(size)
    for distance in (1, 2, 4, 8, 16, 32, 64):
        for text, other in (
            (f"i xor {distance}", place ^ distance),
            (f"i minus {distance}", place - distance),
            (f"i and not {distance}", place & ~distance),
        ):
            yield text, np.where((other >= 0) & (other < size), other, place)
    yield "the last one minus i", place[::-1]
