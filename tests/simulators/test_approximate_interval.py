"""Intervals of raw bits: every change of grain keeps every value, and the ends are as near as they can be."""

from itertools import product

import numpy as np
import pytest

from tileproof.simulators.ptx.machine.bracket_interval import Interval, from_mask, hull, open_bits, place, regroup

# Small elements that are split and joined like those of 16 and 32 bits.
EDGES_8 = (0x00, 0x01, 0x3F, 0x7E, 0x7F, 0x80, 0x81, 0xC0, 0xFE, 0xFF)
EDGES_16 = (0x0000, 0x00FF, 0x0100, 0x01FE, 0x7FFF, 0x8000, 0x80FF, 0x8100, 0xFFFF)


def words(*values: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


def ordered_pairs(codes: tuple[int, ...], bits: int) -> list[tuple[int, int]]:
    at = {code: int(place(words(code), bits)[0]) for code in codes}
    return [(low, high) for low, high in product(codes, codes) if at[low] <= at[high]]


def members(low: int, high: int, grain: int, width: int) -> set[int]:
    """Every word between two ends, element by element."""
    ranges = []
    for element in range(width // grain):
        codes = np.arange(1 << grain, dtype=np.uint64)
        ends = [int(end) >> element * grain & (1 << grain) - 1 for end in (low, high)]
        if grain == 1:
            ranges.append(sorted(set(ends)))
            continue
        at = place(codes, grain)
        first, last = (place(words(end), grain)[0] for end in ends)
        ranges.append([int(code) for code in codes[(at >= first) & (at <= last)]])
    return {sum(code << index * grain for index, code in enumerate(choice)) for choice in product(*ranges)}


@pytest.mark.parametrize(("low", "high"), ordered_pairs(EDGES_16, 16))
def test_halves_of_an_interval_hold_the_halves_of_its_values(low: int, high: int) -> None:
    halves = regroup(Interval(words(low), words(high), 16), 8, 16)
    inside = members(low, high, 16, 16)
    held = [members(int(halves.low[0] >> s & 0xFF), int(halves.high[0] >> s & 0xFF), 8, 8) for s in (0, 8)]
    assert {value & 0xFF for value in inside} <= held[0]
    assert {value >> 8 for value in inside} == held[1], "the upper half is exact"


@pytest.mark.parametrize(("low", "high"), ordered_pairs(EDGES_16, 16))
def test_open_bits_hold_every_value(low: int, high: int) -> None:
    bits = regroup(Interval(words(low), words(high), 16), 1, 16)
    mask = int(open_bits(Interval(words(low), words(high), 16), 16)[0])
    assert members(low, high, 16, 16) <= members(int(bits.low[0]), int(bits.high[0]), 1, 16)
    assert mask == int(bits.low[0] ^ bits.high[0])
    assert (mask == 0) == (low == high)


@pytest.mark.parametrize("rest", ordered_pairs(EDGES_8, 8)[::5])
@pytest.mark.parametrize("top", ordered_pairs(EDGES_8, 8)[::6])
def test_joined_elements_hold_every_pair(rest: tuple[int, int], top: tuple[int, int]) -> None:
    low, high = (rest[end] | top[end] << 8 for end in range(2))
    joined = regroup(Interval(words(low), words(high), 8), 16, 16)
    first, last = (place(end, 16)[0] for end in (joined.low, joined.high))
    inside = place(np.array(sorted(members(low, high, 8, 16)), np.uint64), 16)
    assert first == inside.min(), "no wider than it must be"
    assert last == inside.max()


@pytest.mark.parametrize("value", [0x00, 0x5A, 0x80, 0xFF])
@pytest.mark.parametrize("mask", [0x01, 0x80, 0x81, 0x7E, 0xFF])
def test_open_bits_become_an_element_around_them(value: int, mask: int) -> None:
    element = regroup(from_mask(words(value), words(mask)), 8, 8)
    inside = place(np.array(sorted(members(value & ~mask, value | mask, 1, 8)), np.uint64), 8)
    assert place(element.low, 8)[0] == inside.min()
    assert place(element.high, 8)[0] == inside.max()


def test_a_hull_follows_the_order_of_floats_not_of_integers() -> None:
    minus_two, one, minus_one = (np.array([x], np.float32).view(np.uint32).astype(np.uint64) for x in (-2, 1, -1))
    around = hull([Interval(minus_one, one, 32), Interval(minus_two, minus_two, 32)], 32)
    assert (around.low, around.high) == (minus_two, one)


def test_order_places_nan_at_both_ends_and_minus_zero_below_zero() -> None:
    codes = words(0xFFFF, 0xFF80, 0xBF80, 0x8000, 0x0000, 0x3F80, 0x7F80, 0x7FFF)
    assert (np.diff(place(codes, 16).astype(np.int64)) > 0).all()
