"""The ring in the kernel against the oracle, step after step, on the CPU device under hostile schedules."""

from dataclasses import replace

import numpy as np
import pytest
from scale_ring_sequence import KINDS, Sequence, Taken, take

from tileproof.kernels.fp8_quantize_tensor import QuantizeTensor
from tileproof.kernels.fp8_scale_ring import ScaleRing
from tileproof.oracle.formats import E4M3FN, E5M2
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED, FOLD_SLOTS, RING_STAGES, SEED, SELF_CLEANING
from tileproof.simulators.ptx.device import Device

STEPS = 200
WINDOWS = (1, 2, 3, 16, 33)


def run(sequence: Sequence, kind: str, steps: int = STEPS, *, seed: int = 0) -> list[Taken]:
    """All steps, none of which may differ or be found at fault."""
    device = Device(schedule="adversarial", seed=seed)
    taken = list(take(device, QuantizeTensor(device), sequence, kind, steps))
    assert len(taken) == steps
    assert [(one.number, one.wrong, one.findings) for one in taken if one.wrong or one.findings] == []
    return taken


def test_a_ring_equals_the_oracles_through_two_hundred_steps_of_every_kind() -> None:
    taken = run(Sequence(window=3), "wild")
    assert {one.right.state.current for one in taken} == {0, 1}
    assert any(np.isinf(one.right.dequantize) for one in taken)


@pytest.mark.parametrize("stage", RING_STAGES, ids=lambda stage: stage.name)
def test_a_ring_of_each_stage_equals_the_oracles_on_a_grid_of_two_dimensions(stage: object) -> None:
    found = next(one for one in RING_STAGES if one is stage)
    taken = run(Sequence(stage=found, window=2, shape=(33, 65), tiled=True, margin=1), "wild", 4)
    assert taken[0].grid == (2, 2, 1)


@pytest.mark.parametrize("blocks", [1, 5])
def test_the_grid_changes_no_bit(blocks: int) -> None:
    taken = run(Sequence(window=2, shape=(1, 5 * 2048 + 1), blocks=blocks), "wild", 3)
    assert taken[0].grid == (blocks, 1, 1)


def consistent(taken: list[Taken]) -> list[bool]:
    """Whether what a product reads after each launch is the scale of that launch's codes."""
    for one in taken:
        assert one.read.view(np.uint32) == np.float32(one.right.dequantize).view(np.uint32)
    return [one.right.is_consistent for one in taken]


def test_a_product_reads_the_scale_of_its_codes_from_a_double_buffered_ring() -> None:
    assert all(consistent(run(Sequence(stage=DOUBLE_BUFFERED, window=2), "rising", 10)))


def test_a_product_reads_the_next_steps_scale_from_a_ring_of_the_seed_stage() -> None:
    """The hazard of one pair: the launch that casts has published the next scale before a product reads it."""
    assert not any(consistent(run(Sequence(stage=SEED, window=2), "rising", 10))[1:])


class PublishesWhereItReads(ScaleRing):
    """A host that forgets to flip the pair it publishes into."""

    @property
    def _next_pair(self) -> int:
        return self.current


def test_a_host_that_publishes_into_the_pair_that_is_read_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scale_ring_sequence.ScaleRing", PublishesWhereItReads)
    device = Device()
    first = next(take(device, QuantizeTensor(device), Sequence(window=2), "rising", 2))
    assert [words.split("[")[0] for words in first.wrong] == ["ring"]


def test_a_counter_that_is_not_re_armed_is_caught_by_the_next_step_too() -> None:
    from tileproof.conformance.faults import fault

    source = fault("ring-counter-not-re-armed").kernel_source()
    assert source is not None
    device = Device()
    taken = list(take(device, QuantizeTensor(device, source=source.text), Sequence(window=2), "rising", 2))
    assert all(one.wrong for one in taken)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", WINDOWS)
def test_every_window_and_kind_of_sequence_equals_the_oracles(window: int, kind: str) -> None:
    margin = {1: 0, 2: 3, 3: -2, 16: 126, 33: -126}[window]
    for target in (E4M3FN, E5M2):
        run(Sequence(window=window, target=target, margin=margin), kind, seed=window)


@pytest.mark.slow
@pytest.mark.parametrize("stage", [SEED, SELF_CLEANING, FOLD_SLOTS, DOUBLE_BUFFERED], ids=lambda stage: stage.name)
@pytest.mark.parametrize("tiled", [False, True], ids=["flat", "tiled"])
def test_every_stage_equals_the_oracles_on_one_to_twelve_blocks(stage: object, tiled: bool) -> None:
    found = next(one for one in RING_STAGES if one is stage)
    shape = (3 * 32 - 1, 4 * 64 - 1) if tiled else (1, 12 * 2048)
    for blocks in range(1, 13):
        sequence = Sequence(stage=found, shape=shape, blocks=blocks, tiled=tiled)
        run(sequence, "wild", 17, seed=blocks)


@pytest.mark.slow
@pytest.mark.parametrize("tiled", [False, True], ids=["flat", "tiled"])
def test_two_hundred_steps_of_twelve_blocks_equal_the_oracles(tiled: bool) -> None:
    shape = (1, 12 * 64) if tiled else (1, 12 * 2048)
    taken = run(replace(Sequence(window=16, tiled=tiled), shape=shape), "wild")
    assert taken[0].grid == (12, 1, 1)
