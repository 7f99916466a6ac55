"""Schedules alone: every block is started once, turns are legal, nobody starves."""

import numpy as np
import pytest

from tileproof.simulators.ptx.machine.schedule import SHUFFLED_BLOCKS, Adversarial, Friendly, Schedule


def schedules() -> list[Schedule]:
    return [Friendly(), *[Adversarial(np.random.SeedSequence(seed)) for seed in range(5)]]


@pytest.mark.parametrize(("blocks", "most"), [(1, 1), (7, 3), (1000, 256), (SHUFFLED_BLOCKS + 5, 4096)])
def test_waves_start_every_block_once(blocks: int, most: int) -> None:
    for schedule in schedules():
        waves = list(schedule.waves(blocks, most))
        assert all(1 <= wave.size <= most for wave in waves)
        np.testing.assert_array_equal(np.sort(np.concatenate(waves)), np.arange(blocks))


def test_turns_take_running_lanes_of_one_place_in_order() -> None:
    random = np.random.default_rng(0)
    for schedule in schedules():
        for _ in range(200):
            pc = random.integers(0, 4, 128)
            running = np.flatnonzero(random.random(128) < 0.5)
            turn = schedule.next_turn(pc, running)
            assert turn.lanes.size
            assert (np.diff(turn.lanes) > 0).all()
            assert np.isin(turn.lanes, running).all()
            assert (pc[turn.lanes] == turn.pc).all()
            assert turn.stop > turn.pc
            assert turn.steps >= 1


def test_one_lane_among_very_many_gets_its_turn_soon() -> None:
    pc = np.zeros(8192, np.int64)
    pc[4000] = 9
    for schedule in schedules():
        turns = (schedule.next_turn(pc, np.arange(8192)) for _ in range(60))
        assert any(4000 in turn.lanes for turn in turns)


def test_the_friendly_schedule_goes_back_to_the_rearmost_after_progress() -> None:
    schedule = Friendly()
    pc = np.array([5, 5, 8, 20])
    first, second = (schedule.next_turn(pc, np.arange(4)) for _ in range(2))
    assert (first.lanes.tolist(), first.stop) == ([0, 1], 8)
    assert (second.lanes.tolist(), second.stop) == ([2], 20)
    schedule.progress()
    assert schedule.next_turn(pc, np.arange(4)).lanes.tolist() == [0, 1]


def test_leaders_are_members_and_stay() -> None:
    for schedule in schedules():
        for members in (1, 0x8000_0000, 0xFFFF_FFFF, 0x0F0F_0000):
            leader = schedule.leader(members)
            assert members >> leader & 1
            assert schedule.leader(members) == leader


def test_the_lowest_lane_leads_where_that_is_asked_for() -> None:
    members = (1, 0x8000_0000, 0xFFFF_FFFF, 0x0F0F_0000)
    lowest = [0, 31, 0, 16]
    for seed in range(5):
        schedule = Adversarial(np.random.SeedSequence(seed), lowest_leader=True)
        assert [schedule.leader(mask) for mask in members] == lowest
    drawn = [Adversarial(np.random.SeedSequence(seed)).leader(0xFFFF_FFFF) for seed in range(5)]
    assert any(drawn)
