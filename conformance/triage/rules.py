"""The wrong rules that each contract has."""

from collections.abc import Iterator
from dataclasses import replace

from tileproof.conformance.ninfer_gemm import OPERATORS
from tileproof.conformance.registry import built_in
from tileproof.conformance.triage.scene import Scene
from tileproof.conformance.triage.what_if import WhatIf


def rules_of(scene: Scene) -> Iterator[WhatIf]:
    """Of the scene's contract, or the one that it is like, in the order in which they are tried; none without any."""
    from tileproof.conformance.triage import (
        int8_rules,
        linear_rules,
        mm_rules,
        ninfer_rules,
        quantize_rules,
        scale_rules,
    )

    # NOTE: imported here, since they load a compiler that listing cases does not need.
    if scene.contract.like:
        scene = replace(scene, contract=built_in()[scene.contract.like])
    name = scene.contract.name
    if name == "ninfer_quantize":
        yield from quantize_rules.row_rules(scene)
    elif name == "astrai_quantize":
        yield from quantize_rules.tensor_rules(scene)
    elif name == "astrai_mm_fp8":
        yield from mm_rules.mm_rules(scene)
    elif name == "astrai_scale_products":
        yield from scale_rules.scale_rules(scene)
    elif name == "metainfer_w8a8_gemm":
        yield from int8_rules.int8_rules(scene)
    elif name.startswith("astrai_linear"):
        yield from linear_rules.linear_rules(scene)
    elif name in OPERATORS:
        yield from ninfer_rules.ninfer_rules(scene)
