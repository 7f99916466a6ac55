"""The oracles of our own routes as boxes: what a fingerprint must name right on a machine without a GPU.

A route is `CONTRACT/ROUTE`; a matrix instruction stands for the chain of it along K, with C as its start.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from tileproof.conformance.astrai_mm_fp8 import finished, rule_of, sums
from tileproof.conformance.astrai_mm_setting import TYPES, Setting
from tileproof.conformance.fingerprint.box import Array, Box
from tileproof.conformance.ninfer_gemm import ASSEMBLER, OPERATORS, order
from tileproof.kernels.fp8_a8_selector import Route as NinferRoute
from tileproof.kernels.mm_fp8_dispatch import Route as MmRoute
from tileproof.oracle.gemm import gemm
from tileproof.oracle.matrix_unit import multiply_add
from tileproof.oracle.products.accumulation_order import AccumulationOrder

BF16 = ml_dtypes.bfloat16


def instruction_box(instruction: str, arch: str, assembler: str = ASSEMBLER) -> Box:
    """The chain of one instruction along K, starting from C.

    Raises:
        Refusal: an unknown instruction, or operands that cannot be fingerprinted.
    """
    chosen = AccumulationOrder(instruction=instruction, arch=arch, assembler=assembler)
    return Box(
        name=f"{instruction} on {arch}, ptxas {assembler}",
        operand=chosen.parsed.a.name,
        multiply=partial(_chained, chosen),
        takes_c=chosen.parsed.accumulator == "f32",
        depth=chosen.parsed.shape.k,
    )


def oracle_boxes(arch: str) -> Mapping[str, Callable[[], Box]]:
    """Every FP8 route of the repository by name, as its oracle computes it on an architecture."""
    found: dict[str, Callable[[], Box]] = {}
    for route in NinferRoute:
        found[f"ninfer_linear/{route}"] = partial(_ninfer, "ninfer_linear", str(route), arch)
        found[f"ninfer_linear_add/{route}"] = partial(_ninfer, "ninfer_linear_add", str(route), arch)
    for variant in MmRoute:
        for name in ("e4m3", "e5m2"):
            found[f"astrai_mm_fp8/{variant}/{name}"] = partial(_mm_fp8, str(variant), name, arch)
    return found


def _chained(chosen: AccumulationOrder, a: Array, b: Array, c: Array | None = None) -> Array:
    if c is None:
        return gemm(chosen, a, b)
    total: Array = np.ascontiguousarray(c, np.float32)
    depth = chosen.parsed.shape.k
    for k in range(0, a.shape[1], depth):
        parts = a[:, k : k + depth], b[:, k : k + depth]
        total = multiply_add(chosen.instruction, *parts, total, arch=chosen.arch, assembler=chosen.assembler)
    return total


def _ninfer(contract: str, route: str, arch: str) -> Box:
    operator = OPERATORS[contract]

    def multiply(a: Array, b: Array, c: Array | None = None) -> Array:
        residual: Any = np.zeros((len(a), len(b)), BF16) if c is None else c.astype(BF16)
        values = {"weight": b, "weight_scales": np.ones(len(b), BF16), "out": residual}
        return operator.finished(values, gemm(order(arch), a, b), np.ones(len(a), np.float32))

    name = f"{contract}/{route} on {arch} (oracle)"
    return Box(name=name, operand="e4m3", multiply=multiply, takes_c=operator.site.adds, c_bits=7)


def _mm_fp8(variant: str, name: str, arch: str) -> Box:
    types = TYPES[f"nt{name}b16"]

    def multiply(a: Array, b: Array, bias: Array | None = None) -> Array:
        of = Setting(0, 0, len(a), len(b), a.shape[1], types)
        added = np.zeros(len(b), BF16) if bias is None else bias.astype(BF16)
        values = {"a": a, "b": b, "scale": np.ones(1, np.float32), "bias": added}
        return finished(rule_of(of), of, values, sums(of, values, arch))

    return Box(
        name=f"astrai_mm_fp8/{variant} {name} on {arch} (oracle)", operand=name, multiply=multiply, takes_bias=True
    )
