"""Launcher of fp8_a8_judge: holds outputs of the FP8 product, where they lie, to what right sums make of them.

At full size an oracle in numpy would take hours for the sums and minutes for the rest. `e4m3_gemm` gives the sums, this
kernel judges every output; both are held to the oracle on sizes that it can do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from math import prod
from typing import TypeAlias

import numpy as np

from tileproof.kernels.device import Argument, Buffer, Device
from tileproof.kernels.fp8_a8_gemm import BF16, F32
from tileproof.kernels.launcher import Dimension, Kernel, Layout, Role, TensorRule, check_tensors
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

NAME = "fp8_a8_judge"
SOURCE = resources.files("tileproof.kernels.reference").joinpath(f"{NAME}.cu").read_text()

THREADS = 256
MOST_BLOCKS = 4096
GATES = 1 << 16
"""Entries of a table by the bits of a bfloat16."""

_NOWHERE = np.iinfo(np.uint64).max
_WORDS = np.dtype(np.uint32)
_COUNT = Dimension("n", minimum=1)
_TOKENS, _COLUMNS, _GATES = Dimension("T"), Dimension("columns", minimum=1), Dimension("gates", GATES, GATES)

Rules: TypeAlias = Sequence[tuple[TensorRule, Tensor]]
"""Tensors with what is asked of them."""


@dataclass(frozen=True)
class Verdict:
    """How many outputs are wrong, and which is the first of them as (token, column); None if all are right."""

    different: int
    first: tuple[int, int] | None


@dataclass(frozen=True)
class Sums:
    """What outputs are made of.

    Args:
        values: float32 [T, rows]: the sums over K.
        activation_scales: float32 [T].
        weight_scales: bfloat16 [rows].
    """

    values: Tensor
    activation_scales: Tensor
    weight_scales: Tensor

    def _rules(self, rows: Dimension) -> tuple[tuple[TensorRule, Tensor], ...]:
        return (
            (TensorRule("sums", (F32,), (_TOKENS, rows), Layout.ROWS, Role.INPUT), self.values),
            (
                TensorRule("activation_scales", (F32,), (_TOKENS,), Layout.CONTIGUOUS, Role.INPUT),
                self.activation_scales,
            ),
            (TensorRule("weight_scales", (BF16,), (rows,), Layout.CONTIGUOUS, Role.INPUT), self.weight_scales),
        )

    def _structure(self) -> np.void:
        tensors = (self.values, self.activation_scales, self.weight_scales)
        addresses = [tensor.address for tensor in tensors]
        return np.void(np.array([addresses[0], self.values.strides[0], *addresses[1:]], np.uint64).tobytes())


class Fp8A8Judge:
    """The judge on one device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._kernel = Kernel(device, name=NAME, source=SOURCE)

    def product(self, sums: Sums, out: Tensor, residual: Tensor | None = None) -> Verdict:
        """Judge bf16 [T, rows] outputs of a plain product, or of one that was added to a residual of that shape.

        Raises:
            Refusal: a tensor is not as described.
            DeviceError: the device failed.
        """
        rules = [*sums._rules(_COLUMNS), (_matrix("out"), out)]
        if residual is not None:
            rules.append((_matrix("residual"), residual))
        given = (np.uint64(residual.address if residual else 0), np.int64(residual.strides[0] if residual else 0))
        return self._judge("judge_product", rules, (sums._structure(), _outputs(out), *given), out.shape)

    def swiglu(self, sums: Sums, out: Tensor, low: Tensor, high: Tensor) -> Verdict:
        """Judge bf16 [T, rows / 2] outputs of SwiGLU.

        Args:
            sums: gates in the first half of the rows, and what they are multiplied by in the second.
            out: the outputs.
            low: float32 [65536], the least that silu may be of each gate, by its bits.
            high: likewise, the most.

        Raises:
            Refusal: a tensor is not as described.
            DeviceError: the device failed.
        """
        if sums.values.shape[1] != 2 * out.shape[1]:
            raise Refusal(f"sums of {sums.values.shape[1]} rows for {out.shape[1]} outputs: SwiGLU needs twice as many")
        rules = [*sums._rules(Dimension("rows")), (_matrix("out"), out)]
        for name, table in (("low", low), ("high", high)):
            rules.append((TensorRule(name, (F32,), (_GATES,), Layout.CONTIGUOUS, Role.INPUT), table))
        tables = (np.uint64(low.address), np.uint64(high.address))
        return self._judge("judge_swiglu", rules, (sums._structure(), _outputs(out), *tables), out.shape)

    def words(self, found: Tensor, right: Tensor | int) -> Verdict:
        """Compare 32-bit words [n] with those of another tensor, or with one value; `first` is (index, 0).

        Raises:
            Refusal: a tensor is not as described.
            DeviceError: the device failed.
        """
        count = found.shape[0]
        return self._judge("judge_words", *_words(found, right, Role.INPUT), (count, 1))

    def put(self, out: Tensor, what: Tensor | int) -> None:
        """Set 32-bit words [n] to those of another tensor, or to one value.

        Raises:
            Refusal: a tensor is not as described.
            DeviceError: the device failed.
        """
        rules, args = _words(out, what, Role.OUTPUT)
        self._launch("put_words", rules, args, out.shape[0])

    def _judge(
        self,
        entry: str,
        rules: Rules,
        args: tuple[Argument, ...],
        shape: tuple[int, ...],
    ) -> Verdict:
        found: Buffer = self._device.upload(np.array([0, _NOWHERE], np.uint64))
        try:
            self._launch(entry, rules, (*args, found), prod(shape))
            different, first = (int(value) for value in found.download())
        finally:
            self._device.free(found)
        return Verdict(different, divmod(first, shape[1]) if different else None)

    def _launch(self, entry: str, rules: Rules, args: tuple[Argument, ...], count: int) -> None:
        check_tensors(self._device, [rule for rule, _ in rules], [tensor for _, tensor in rules])
        blocks = min(-(-count // THREADS), MOST_BLOCKS)
        self._kernel.launch(entry=entry, route=entry, grid=(blocks, 1, 1), block=(THREADS, 1, 1), args=args)


def _words(words: Tensor, other: Tensor | int, role: Role) -> tuple[Rules, tuple[Argument, ...]]:
    """What both kernels of words take."""
    rules = [(TensorRule("words", (_WORDS,), (_COUNT,), Layout.CONTIGUOUS, role), words)]
    fill, address = (0, other.address) if isinstance(other, Tensor) else (other, 0)
    if isinstance(other, Tensor):
        rules.append((TensorRule("others", (_WORDS,), (_COUNT,), Layout.CONTIGUOUS, Role.INPUT), other))
    return rules, (np.uint64(words.address), np.uint64(address), np.uint32(fill), np.int64(words.shape[0]))


def _outputs(out: Tensor) -> np.void:
    return np.void(np.array([out.address, out.strides[0], *out.shape], np.uint64).tobytes())


def _matrix(name: str) -> TensorRule:
    return TensorRule(name, (BF16,), (_TOKENS, _COLUMNS), Layout.ROWS, Role.INPUT)
