"""A scale ring in device memory, as launches take it: views of its words, and the structure Fold of fp8_scale_ring.cuh.

The host counts what changes from step to step, the index and the current pair; the device keeps the rest. A launch
folds into `words` and the host then goes on with `advanced()`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tileproof.kernels.device import Device
from tileproof.kernels.launcher import Dimension, Layout, Role, TensorRule, check_tensors
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.arguments import whole
from tileproof.oracle.formats import E4M3FN, E5M2, FloatFormat
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.ring_stage import Field, RingStage

MARGIN_LIMIT = 126
"""Margins whose power of two and its inverse are normal float32."""

LARGEST = {E4M3FN.name: 448.0, E5M2.name: 57344.0}
"""What a ring of a format divides by."""

F32 = np.dtype(np.float32)

_FOLD = np.dtype(
    [
        *((name, np.uint64) for name in ("maxima", "counter", "history", "scale", "reciprocal", "amax")),
        ("largest", np.float32),
        *((name, np.int32) for name in ("margin", "slots", "window", "index")),
    ],
    align=True,
)
_SCALES, _RECIPROCALS = (Field.SCALE, Field.SCALE_1), (Field.RECIPROCAL, Field.RECIPROCAL_1)


@dataclass(frozen=True)
class ScaleRing:
    """One ring and what the host knows of it.

    Args:
        words: float32 [stage.size(window)], contiguous; counter and collected maxima are integers in it.
        stage: what lies where.
        window: amax values that the history holds.
        index: where the next fold writes in the history.
        target: the format that the ring scales for, E4M3FN or E5M2.
        margin: headroom in powers of two.
        current: the pair of scales that this step reads.
    """

    words: Tensor
    stage: RingStage
    window: int
    index: int
    target: FloatFormat = E4M3FN
    margin: int = 0
    current: int = 0

    @property
    def collects(self) -> bool:
        """Whether blocks collect their maxima inside the ring."""
        return self.stage.maximum_field is not None

    @property
    def keeps_reciprocals(self) -> bool:
        """Whether a multiplier lies beside each scale."""
        return Field.RECIPROCAL in self.stage.fields

    @property
    def scale(self) -> Tensor:
        """The current scale, [1]: what a product reads to undo this step's cast.

        In a ring with one pair the fold of this step publishes the next scale here, and a product that reads it later
        in the stream multiplies with another scale than the codes were made with.
        """
        return self._view(_SCALES[self.current])

    @property
    def multiplier(self) -> Tensor:
        """The current reciprocal, [1]. Raises: Refusal for a stage that keeps none."""
        return self._view(_RECIPROCALS[self.current])

    @property
    def history(self) -> Tensor:
        """Where the window of maxima begins, [1]."""
        return self._view(Field.HISTORY)

    def advanced(self) -> "ScaleRing":
        """The ring of the next step: the host's part after a fold."""
        return replace(self, index=(self.index + 1) % self.window, current=self._next_pair)

    def check(self, device: Device) -> None:
        """Raises: Refusal naming what is not as described."""
        # NOTE: the structure Fold takes integers, and would cut half a power of two off a margin.
        for name in ("window", "index", "margin", "current"):
            whole(f"the ring's {name}", getattr(self, name))
        if self.window < 1:
            raise Refusal(f"the ring has a window of {self.window}; the least is 1")
        if self.target.name not in LARGEST:
            raise Refusal(f"the ring scales for {self.target.name}; it must be E4M3FN or E5M2")
        if abs(self.margin) > MARGIN_LIMIT:
            raise Refusal(f"the ring has margin {self.margin}; it must lie in -{MARGIN_LIMIT}..{MARGIN_LIMIT}")
        if not 0 <= self.index < self.window:
            raise Refusal(
                f"the ring has index {self.index}, outside its window of {self.window}",
                hint="the host advances it modulo the window",
            )
        if not 0 <= self.current < self.stage.pairs:
            raise Refusal(f"the ring has no pair {self.current}: a {self.stage.name} ring has {self.stage.pairs}")
        check_tensors(device, (self.rule,), (self.words,))

    @property
    def rule(self) -> TensorRule:
        """What the words must be."""
        size = self.stage.size(self.window)
        return TensorRule(
            "ring", (F32,), (Dimension("words", minimum=size, maximum=size),), Layout.CONTIGUOUS, Role.IN_PLACE
        )

    def fold(self, amax: Tensor | None) -> np.void:
        """The structure Fold; `amax` is where blocks collect if not in the ring, and then keeps the maximum."""
        field = self.stage.maximum_field
        maxima = self._address(field) if field is not None else _address(amax)
        kept = self._address(Field.AMAX) if field is Field.SCRATCH else 0
        publishing = self._next_pair
        return _structure(
            maxima=maxima,
            counter=self._address(Field.COUNTER),
            history=self._address(Field.HISTORY),
            scale=self._address(_SCALES[publishing]),
            reciprocal=self._address(_RECIPROCALS[publishing]) if self.keeps_reciprocals else 0,
            amax=kept if self.collects else maxima,
            largest=LARGEST[self.target.name],
            margin=self.margin,
            slots=self.stage.words(field, self.window) if field is not None else 1,
            window=self.window,
            index=self.index,
        )

    @property
    def _next_pair(self) -> int:
        return (self.current + 1) % self.stage.pairs

    def _view(self, field: Field) -> Tensor:
        offset = self.stage.offset(field, self.window) * F32.itemsize
        return replace(self.words, shape=(1,), strides=(1,), offset_bytes=self.words.offset_bytes + offset)

    def _address(self, field: Field) -> int:
        return self._view(field).address


def no_fold(amax: Tensor | None) -> np.void:
    """The structure Fold of a launch without a ring: the maximum is collected in `amax`, if anywhere."""
    return _structure(maxima=_address(amax), slots=1)


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.address


def _structure(**values: Any) -> np.void:
    made = np.zeros((), _FOLD)
    for name, value in values.items():
        made[name] = value
    return np.void(made.tobytes())
