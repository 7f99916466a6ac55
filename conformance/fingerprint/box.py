"""A black box: something that multiplies two matrices of codes, of which nothing is known but its outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.oracle.arguments import whole
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.operand import OPERAND_TYPES, OperandType

Array = NDArray[Any]

OPERANDS = ("e4m3", "e5m2", "f16", "bf16")
"""Types whose products include every power of two from 2^-18 to 2^16, on which the probes rest."""


@dataclass(frozen=True, kw_only=True)
class Box:
    """What is asked, and what it takes.

    Args:
        name: for the report.
        operand: type of both operands, one of `OPERANDS`.
        multiply: A codes [M, K] and B codes [N, K] (as `matrix_unit.multiply_add` takes them) to A · Bᵀ, [M, N] of a
            float type. Where it takes them: `c=` float32 [M, N] and `bias=` float32 [N].
        takes_c: whether a matrix can be added.
        takes_bias: whether a bias can be added.
        c_bits: fraction bits of the values given as C: 23 for float32, 7 where it is stored as bfloat16.
        bias_bits: likewise, of the bias.
        rows: M is always a multiple of it.
        columns: N is always a multiple of it.
        depth: K is always a multiple of it.
        one_shape: always ask with the same M and N, because a library chooses its kernel by them.

    Raises:
        Refusal: an operand type that the probes cannot be made of, or an extent below 1.
    """

    name: str
    operand: str
    multiply: Callable[..., Array]
    takes_c: bool = False
    takes_bias: bool = False
    c_bits: int = 23
    bias_bits: int = 7
    rows: int = 1
    columns: int = 1
    depth: int = 1
    one_shape: bool = False

    def __post_init__(self) -> None:
        if self.operand not in OPERANDS:
            raise Refusal(
                f"operands of type {self.operand!r} cannot be fingerprinted", hint=f"choose from {', '.join(OPERANDS)}"
            )
        for name in ("rows", "columns", "depth"):
            if whole(name, getattr(self, name)) < 1:
                raise Refusal(f"{name} is {getattr(self, name)}; the least is 1")

    @property
    def type(self) -> OperandType:
        """The operand type."""
        return OPERAND_TYPES[self.operand]

    def ask(self, a: Array, b: Array, **more: Array) -> Array:
        """What the box answers, as it stands.

        Raises:
            Refusal: it answers with another shape or with no floats.
        """
        answer = np.asarray(self.multiply(a, b, **more))
        if answer.shape != (len(a), len(b)):
            raise Refusal(f"{self.name} answers with shape {answer.shape}, not {(len(a), len(b))}")
        if answer.dtype.kind != "f" and answer.dtype.name != "bfloat16":
            raise Refusal(
                f"{self.name} answers with {answer.dtype.name}, no floating-point type",
                hint="integer products are exact; see `tileproof fingerprint --help`",
            )
        return answer
