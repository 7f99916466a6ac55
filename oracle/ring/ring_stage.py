"""The four stages of AstrAI's scale ring as records: memory layout, and every rule in which they differ.

A ring is one float32 device buffer. n is the window; sizes in 4-byte words:

    seed             hist n | scale | counter                                             n + 2
    self-cleaning    hist n | scale | spare | amax | counter                              n + 4
    fold-slots       hist n | scale | recip | amax | counter | scratch 32                 n + 36
    double-buffered  hist n | scale | recip | amax | counter | scratch 32 | scale1 | recip1   n + 38

Example, double-buffered with n = 16: scale at word 16, recip 17, amax 18, counter 19, scratch 20..51, scale1 52,
recip1 53, 54 words in all. The window cannot be told from the size, since the same size fits several stages.

The counter is an integer in a float slot (int32 in the seed stage, uint32 later): one arrival is 0x00000001, the
subnormal 2^-149. It is "re-armed" by the float 0.0, which is the integer 0 because +0.0 has no bit set; -0.0 would
leave 2^31.
"""

from dataclasses import dataclass
from enum import Enum

from tileproof.oracle.evidence import Evidence
from tileproof.oracle.refusal import Refusal


class Field(Enum):
    """A part of the device buffer, by its source's word for it."""

    HISTORY = "hist"
    SCALE = "scale"
    SPARE = "legacy"
    RECIPROCAL = "recip"
    AMAX = "amax"
    COUNTER = "done"
    SCRATCH = "scratch"
    SCALE_1 = "scale1"
    RECIPROCAL_1 = "recip1"


class Reading(Enum):
    """Which scale the GEMM of a step multiplies its accumulators with; the value says it in words."""

    ALIASED = "the slot itself, in which the step's own fold has published the next scale by then (a defect)"
    SNAPSHOT = "a copy that the host took before the fold"
    CURRENT_PAIR = "the current one of two pairs; the fold publishes into the other, and the host then flips"


class Occasion(Enum):
    """Why an operand is needed; the value says it in words."""

    TRAINING = "a pass that casts the operand and records gradients"
    NO_GRAD = "a forward pass without gradients: inference, or the first pass under checkpointing"
    UNCHANGED_WEIGHT = "the weight was cast before and has not changed since"
    SHARED_ACTIVATION = "another linear has cast this very activation"
    PREQUANTIZED = "the operand arrives as FP8"
    BACKWARD_RECAST = "w or x is cast again for the backward pass"


class KeyRule(Enum):
    """How a weight finds its rings again; the value says it in words."""

    ADDRESS = "address, shape and dtype: a recycled address inherits the rings of the weight that died there"
    IDENTITY = "address, shape and dtype, if the weight they were made for is still alive and the recipe is the same"


@dataclass(frozen=True, kw_only=True)
class RingStage:
    """One stage of the ring's development."""

    name: str
    #: Parts of the buffer in order. One word each, except the history and the scratch.
    fields: tuple[Field, ...]
    #: Words of scratch over which blocks spread their maxima; a power of two, or 0.
    scratch_slots: int
    reading: Reading
    #: Occasions that neither fold nor advance the ring. On any other the operand is cast anew, which does both.
    unfolded: frozenset[Occasion]
    #: How sure `unfolded` is.
    unfolded_evidence: Evidence
    key: KeyRule
    #: Whether an index outside the window is refused; otherwise a fold leaves the history as it is.
    checks_index: bool
    #: Whether the transposing cast of an empty tensor launches no block: nothing is folded, yet the host advances.
    may_launch_nothing: bool
    #: Public repository, file and commit.
    source: str
    evidence: Evidence

    @property
    def pairs(self) -> int:
        """How many scales the buffer holds."""
        return 2 if Field.SCALE_1 in self.fields else 1

    @property
    def maximum_field(self) -> Field | None:
        """Where blocks collect the maximum of a launch; None where that word is no part of the ring."""
        return next((field for field in (Field.SCRATCH, Field.AMAX) if field in self.fields), None)

    def size(self, window: int) -> int:
        """Words of the buffer."""
        return sum(self.words(field, window) for field in self.fields)

    def words(self, field: Field, window: int) -> int:
        """Words of one part."""
        return {Field.HISTORY: window, Field.SCRATCH: self.scratch_slots}.get(field, 1)

    def offset(self, field: Field, window: int) -> int:
        """First word of a part.

        Raises:
            Refusal: the stage lacks the part.
        """
        if field not in self.fields:
            parts = " | ".join(part.value for part in self.fields)
            raise Refusal(f"the {self.name} ring has no {field.value}", hint=f"its parts are {parts}")
        return sum(self.words(part, window) for part in self.fields[: self.fields.index(field)])


_ALWAYS_UNFOLDED = frozenset({Occasion.PREQUANTIZED, Occasion.BACKWARD_RECAST})

SEED = RingStage(
    name="seed",
    fields=(Field.HISTORY, Field.SCALE, Field.COUNTER),
    scratch_slots=0,
    reading=Reading.ALIASED,
    unfolded=_ALWAYS_UNFOLDED,
    unfolded_evidence=Evidence.DOCUMENTED,
    key=KeyRule.ADDRESS,
    checks_index=False,
    may_launch_nothing=False,
    source="0z5a/AstrAI csrc/kernels/fp8/{gemm.cuh,ops.cu}, astrai/extension/fp8.py (ring era, before @057c0d33)",
    evidence=Evidence.DOCUMENTED,
)
SELF_CLEANING = RingStage(
    name="self-cleaning",
    fields=(Field.HISTORY, Field.SCALE, Field.SPARE, Field.AMAX, Field.COUNTER),
    scratch_slots=0,
    reading=Reading.SNAPSHOT,
    unfolded=_ALWAYS_UNFOLDED,
    unfolded_evidence=Evidence.INFERRED,
    key=KeyRule.ADDRESS,
    checks_index=True,
    may_launch_nothing=True,
    source="0z5a/AstrAI csrc/kernels/fp8/quantize.cuh, ops.cu (fold_ring); tests/extension/test_fp8_mma.py @962c10c5",
    evidence=Evidence.DOCUMENTED,
)
FOLD_SLOTS = RingStage(
    name="fold-slots",
    fields=(Field.HISTORY, Field.SCALE, Field.RECIPROCAL, Field.AMAX, Field.COUNTER, Field.SCRATCH),
    scratch_slots=32,
    reading=Reading.SNAPSHOT,
    unfolded=_ALWAYS_UNFOLDED,
    unfolded_evidence=Evidence.INFERRED,
    key=KeyRule.ADDRESS,
    checks_index=True,
    may_launch_nothing=False,
    source="0z5a/AstrAI csrc/kernels/quantize/quantize.cuh (fold slots), csrc/include/kernel/quantize @97e7b798",
    evidence=Evidence.DOCUMENTED,
)
DOUBLE_BUFFERED = RingStage(
    name="double-buffered",
    fields=(*FOLD_SLOTS.fields, Field.SCALE_1, Field.RECIPROCAL_1),
    scratch_slots=32,
    reading=Reading.CURRENT_PAIR,
    unfolded=_ALWAYS_UNFOLDED | {Occasion.NO_GRAD, Occasion.UNCHANGED_WEIGHT, Occasion.SHARED_ACTIVATION},
    unfolded_evidence=Evidence.DOCUMENTED,
    key=KeyRule.IDENTITY,
    checks_index=True,
    may_launch_nothing=False,
    source="0z5a/AstrAI csrc/gemm/{fp8_ring.h @ddfa813d, fp8_state.h @17ac3709, fp8_linear.cu @2fb0b143}, "
    "csrc/include/api/quantize_common.h @669540fd",
    evidence=Evidence.DOCUMENTED,
)

#: All stages, oldest first.
RING_STAGES = (SEED, SELF_CLEANING, FOLD_SLOTS, DOUBLE_BUFFERED)
