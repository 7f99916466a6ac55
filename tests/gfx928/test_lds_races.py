"""The race check of LDS is held to its definition: two accesses that no chain of waits and barriers orders."""

import random
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest

from tileproof.simulators.gfx928.machine.lds import Lds

WAVES, SIZE = 3, 8


@dataclass(frozen=True)
class Event:
    """An access of a wave to a byte, by its place in the program."""

    line: int
    wave: int
    byte: int
    writes: bool


#: A program: accesses, and between them "wait" and "barrier", which all waves execute.
Program = list[Event | str]


def random_program(draw: random.Random) -> Program:
    program: Program = []
    for line in range(draw.randint(2, 12)):
        kind = draw.random()
        if kind < 0.25:
            program.append("barrier")
        elif kind < 0.5:
            program.append("wait")
        else:
            program.append(Event(line, draw.randrange(WAVES), draw.randrange(SIZE), draw.random() < 0.5))
    return program


def races_by_definition(program: Program) -> set[tuple[int, int]]:
    """Pairs of lines: different waves, one byte, one of them writes, and no wait with a barrier behind it between."""
    events = [(place, event) for place, event in enumerate(program) if isinstance(event, Event)]
    found = set()
    for (i, first), (j, second) in combinations(events, 2):
        if first.wave == second.wave or first.byte != second.byte or not (first.writes or second.writes):
            continue
        between = program[i + 1 : j]
        waited = between.index("wait") if "wait" in between else len(between)
        if "barrier" not in between[waited:]:
            found.add((first.line, second.line))
    return found


def reported(program: Program) -> dict[int, int]:
    """Line that raced, and the line that it raced with."""
    lds = Lds(SIZE)
    found = {}
    for event in program:
        if event == "barrier":
            lds.barrier()
        elif event == "wait":
            lds.wait()
        elif isinstance(event, Event):
            race = lds.access(event.wave, np.array([event.byte]), event.writes, event.line)
            if race is not None:
                assert race.byte == event.byte
                found[event.line] = race.other_line
    return found


def test_a_race_is_reported_exactly_where_the_definition_has_one() -> None:
    draw = random.Random(64)
    racing = 0
    for _ in range(3000):
        program = random_program(draw)
        wanted = races_by_definition(program)
        found = reported(program)
        assert set(found) == {second for _, second in wanted}, program
        racing += bool(found)
    assert 300 < racing < 2700


@pytest.mark.parametrize(
    ("between", "races"),
    [
        ([], True),
        (["barrier"], True),
        (["wait"], True),
        (["barrier", "wait"], True),
        (["wait", "barrier"], False),
        (["barrier", "wait", "barrier"], False),
    ],
)
def test_a_write_is_ordered_before_another_waves_read_by_a_wait_and_then_a_barrier(
    between: list[str], races: bool
) -> None:
    program: Program = [Event(0, 0, 5, True), *between, Event(1, 1, 5, False)]
    assert bool(reported(program)) is races
    assert bool(races_by_definition(program)) is races


@pytest.mark.parametrize("second", [Event(1, 0, 5, False), Event(1, 1, 6, False)])
def test_the_same_wave_and_another_byte_do_not_race(second: Event) -> None:
    assert not reported([Event(0, 0, 5, True), second])


def test_two_reads_do_not_race() -> None:
    assert not reported([Event(0, 0, 5, False), Event(1, 1, 5, False)])
