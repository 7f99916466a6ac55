"""Training steps captured once and replayed on other contents, on the CPU device: a cycle of graphs, one a phase."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from linear_layer import poisoned
from linear_loop import Graph, Loop, Step, words

from tileproof.simulators.ptx.device import Device

LAUNCHES = 9
"""Of a step: three casts, two products of scales, three matrix products, the bias's gradient."""


def loop(window: int) -> Loop:
    device = Device(schedule="friendly")

    def capture(body: Callable[[], None]) -> Graph:
        with device.capture() as graph:
            body()
        return graph.replay

    return Loop(device, capture, window)


@pytest.mark.parametrize("window", [1, 3])
def test_replayed_steps_have_the_oracles_bits_and_rings_through_three_cycles(window: int) -> None:
    tested = loop(window)
    assert tested.host() == tested.counts, "after a cycle the host counts as before"
    sizes = 2.0 ** tested.random.uniform(-6, 6, 3 * len(tested.steps))
    for number, size in enumerate(sizes):
        step = tested.steps[number % len(tested.steps)]
        assert tested.replay(step, float(size)) == (LAUNCHES, 0, 0), number


def test_one_graph_replayed_for_every_step_is_wrong_from_the_second_on() -> None:
    """It reads the pair that it read before, and writes the slot of the window that it wrote before."""
    tested = loop(2)
    _, _, first = tested.replay(tested.steps[0], 1.0)
    _, _, second = tested.replay(tested.steps[0], 64.0)
    assert (first, second > 0) == (0, True)


def test_a_step_captured_without_the_weights_change_replays_its_old_codes() -> None:
    """The cast of an unchanged weight is no part of the graph; the launches of a replay are counted for this."""
    tested = loop(1)
    weight = tested.layer.weight
    weight.changed = lambda tensor=None: None  # type: ignore[method-assign]
    launches, _, different = tested.replay(tested.captured(), 4.0)
    assert launches < LAUNCHES
    assert different > 0


def test_memory_that_is_given_back_after_the_capture_is_found_by_the_replay() -> None:
    """AstrAI's torch::empty inside a capture: codes and scales of a graph must live as long as the graph."""
    tested = loop(1)
    before = len(tested.kept)
    step = tested.captured()
    given_back = tested.kept[before:]
    assert given_back
    for tensor in given_back:
        tested.device.free(tensor.buffer)
    kinds = {str(finding.kind.value) for report in step.replay() for finding in report.findings}
    assert "use-after-free" in kinds


def test_a_graph_that_holds_nothing_is_seen_by_its_launches_and_its_outputs() -> None:
    """A launch that a capture does not see leaves an empty graph, which replays without an error."""
    tested = loop(1)
    written = {name: poisoned(tested.device, tensor.shape) for name, tensor in tested.steps[0].written.items()}
    launches, findings, different = tested.replay(Step(list, written), 1.0)
    assert (launches, findings, different) == (0, 0, 4 + 3)


def test_the_loop_sees_a_wrong_bit_of_a_gradient() -> None:
    tested = loop(1)
    step = tested.steps[0]

    def wrong() -> Sequence[Any]:
        reports = step.replay()
        tested.judge.put(words(step.written["bias"]), 0x12345678)
        return reports

    assert tested.replay(Step(wrong, step.written), 1.0) == (LAUNCHES, 0, 1)
