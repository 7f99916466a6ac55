"""Many steps of one scale ring on a device, each held to the oracle: codes, words, and what a product reads.

Used by the tests of the gate and by the script for the H200; nothing here needs a GPU or forbids one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.kernels.device import Device, DeviceFinding
from tileproof.kernels.fp8_quantize_tensor import Output, QuantizeTensor
from tileproof.kernels.fp8_scale_ring import ScaleRing
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.formats import E4M3FN, FloatFormat
from tileproof.oracle.ring.amax import Amax
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED, Reading, RingStage
from tileproof.oracle.ring.ring_state import RingState, as_bits, fresh
from tileproof.oracle.ring.scale_formula import reciprocals
from tileproof.oracle.ring.scale_recipe import PURE_E4M3, PURE_E5M2, ScaleRecipe
from tileproof.oracle.scale_ring import Step, seed, step
from tileproof.oracle.scaling.astrai_quantize import Outputs, Stage, quantize

BF16 = np.dtype(ml_dtypes.bfloat16)
KINDS = ("rising", "falling", "zero", "infinite", "nan", "wild")


@dataclass(frozen=True)
class Sequence:
    """A ring and the tensors that come by.

    Args:
        stage: of the ring.
        window: of the ring.
        shape: of every tensor.
        blocks: the most blocks of a launch.
        margin: of the recipe.
        target: of the codes and of the ring.
        tiled: whether codes are transposed, too, which makes the grid one of two dimensions.
        dtype: of the tensors.
    """

    stage: RingStage = DOUBLE_BUFFERED
    window: int = 16
    shape: tuple[int, int] = (5, 13)
    blocks: int = 12
    margin: int = 0
    target: FloatFormat = E4M3FN
    tiled: bool = False
    dtype: np.dtype[Any] = BF16

    @property
    def recipe(self) -> ScaleRecipe:
        """As the oracle takes it."""
        return ScaleRecipe(self.window, self.margin, PURE_E4M3 if self.target is E4M3FN else PURE_E5M2)


@dataclass(frozen=True)
class Taken:
    """What one step did.

    Args:
        number: of the step, from 0.
        grid: of the launch.
        wrong: what differs from the oracle, in words.
        findings: of the device.
        right: the oracle's step.
        read: the scale that lies where a later launch of this step reads it, after this launch.
    """

    number: int
    grid: tuple[int, int, int]
    wrong: tuple[str, ...]
    findings: tuple[DeviceFinding, ...]
    right: Step
    read: np.float32


def tensors(kind: str, sequence: Sequence, steps: int, random: np.random.Generator) -> Iterator[NDArray[Any]]:
    """One tensor a step, its largest magnitude anywhere in it; "wild" takes all kinds in turn, drawn step by step."""
    for number in range(steps):
        drawn = KINDS[random.integers(len(KINDS) - 1)] if kind == "wild" else kind
        place = number if drawn == "rising" else steps - number
        size = np.exp2((place + random.uniform(0, 0.5)) * 12 / steps - 6)
        with np.errstate(all="ignore"):
            x = (random.uniform(-1, 1, sequence.shape) * size).astype(sequence.dtype)
        flat = x.reshape(-1)
        at = random.integers(flat.size)
        match drawn:
            case "zero":
                flat[:] = random.choice([0.0, -0.0], flat.size).astype(sequence.dtype)
            case "infinite":
                flat[at] = random.choice([np.inf, -np.inf])
            case "nan":
                flat[:: int(random.integers(1, 4))] = np.nan
            case _:
                flat[at] = size
        yield x


def take(device: Device, quantizer: QuantizeTensor, sequence: Sequence, kind: str, steps: int) -> Iterator[Taken]:
    """Every step in turn; the ring is seeded on the host with a tensor of ones."""
    random = np.random.default_rng([steps, sequence.window, KINDS.index(kind)])
    state = seed(fresh(sequence.stage, sequence.window), Amax(np.float32(1)), sequence.recipe)
    words = device.upload(np.array(state.words, np.uint32).view(np.float32))
    ring = ScaleRing(
        Tensor.whole(words), sequence.stage, sequence.window, 0, sequence.target, sequence.margin, state.current
    )
    for number, x in enumerate(tensors(kind, sequence, steps, random)):
        right = step(state, Amax.of(x), sequence.recipe)
        taken = _launch(device, quantizer, sequence, ring, state, right, x, number)
        yield taken
        state, ring = right.state, ring.advanced()
    device.free(words)


def _launch(
    device: Device,
    quantizer: QuantizeTensor,
    sequence: Sequence,
    ring: ScaleRing,
    state: RingState,
    right: Step,
    x: NDArray[Any],
    number: int,
) -> Taken:
    uploads = {
        "x": device.upload(x),
        "rows": device.upload(np.full(x.shape, 0xA5, np.uint8)),
        "transposed": device.upload(np.full(x.shape[::-1], 0xA5, np.uint8)),
        "scale": device.upload(reciprocals(np.array([state.scale]))),
        "amax": device.upload(np.zeros(1, np.float32)),
    }
    given = {name: Tensor.whole(buffer) for name, buffer in uploads.items()}
    # NOTE: the stages in between take a snapshot of the scale before the launch.
    snapshot = sequence.stage.reading is Reading.SNAPSHOT
    launch = quantizer(
        given["x"],
        rows=Output(given["rows"], sequence.target),
        transposed=Output(given["transposed"], sequence.target) if sequence.tiled else None,
        scale=given["scale"] if snapshot else None,
        ring=ring,
        amax=None if ring.collects else given["amax"],
        max_blocks=sequence.blocks,
    )
    assert right.multiplier is not None
    codes = quantize(x, right.multiplier, Stage.MULTIPLIER, Outputs(sequence.target, sequence.target))
    after = ring.words.buffer.download().view(np.uint32)
    found = {"codes": uploads["rows"].download(), "ring": after}
    wanted: dict[str, Any] = {"codes": codes.rows, "ring": np.array(right.state.words, np.uint32)}
    if sequence.tiled:
        found["transposed"], wanted["transposed"] = uploads["transposed"].download(), codes.transposed
    if not ring.collects:
        found["amax"] = uploads["amax"].download().view(np.uint32)
        wanted["amax"] = np.array([as_bits(Amax.of(x).value)], np.uint32)
    wrong = tuple(_difference(name, found[name], wanted[name]) for name in found if (found[name] != wanted[name]).any())
    for buffer in uploads.values():
        device.free(buffer)
    at = (ring.scale.address - ring.words.address) // 4
    findings = tuple(launch.report.findings) if launch.report is not None else ()
    return Taken(number, launch.grid, wrong, findings, right, np.float32(after.view(np.float32)[at]))


def _difference(name: str, found: NDArray[Any], wanted: NDArray[Any]) -> str:
    at = tuple(int(index) for index in np.argwhere(found != wanted)[0])
    return f"{name}{list(at)}: expected {int(wanted[at]):#x}, got {int(found[at]):#x}"
