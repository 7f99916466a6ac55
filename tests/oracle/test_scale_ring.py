"""The scale ring equals a plain transcription of its source, in every word and at every step."""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tileproof.oracle import scale_ring
from tileproof.oracle.formats import E4M3FN, E5M2, FLOAT32, FloatFormat
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring import ring_fold, ring_registry, ring_state, scale_formula
from tileproof.oracle.ring.amax import Amax
from tileproof.oracle.ring.ring_fold import Arrival, Block, FoldRule, Launch, fold
from tileproof.oracle.ring.ring_registry import Entry, Registry, Weight
from tileproof.oracle.ring.ring_stage import (
    DOUBLE_BUFFERED,
    FOLD_SLOTS,
    RING_STAGES,
    SEED,
    SELF_CLEANING,
    Field,
    Occasion,
    Reading,
    RingStage,
)
from tileproof.oracle.ring.ring_state import RingState, as_bits, as_float32, fresh
from tileproof.oracle.ring.scale_formula import (
    HostDivision,
    published_scale,
    published_scales,
    reciprocal,
    reciprocals,
    seed_scale,
)
from tileproof.oracle.ring.scale_recipe import HYBRID, PURE_E4M3, PURE_E5M2, Role, ScaleRecipe

INF, NAN = float("inf"), float("nan")
NAN_BITS = 0x7FFFFFFF
FLOOR_BITS = 0x2B8CBCCC
SMALLEST = 2.0**-149
TRAINING, NO_GRAD = Occasion.TRAINING, Occasion.NO_GRAD

each_stage = pytest.mark.parametrize("stage", RING_STAGES, ids=lambda stage: stage.name)


# The transcription: Python numbers and struct, nothing of the oracle.


def nearest(value: Fraction) -> float:
    """The float32 nearest to a fraction that is not negative; round() of a Fraction goes to the even neighbour."""
    if value == 0:
        return 0.0
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= value < Fraction(2) ** exponent
    step = Fraction(2) ** max(exponent - 23, -149)
    rounded = round(value / step) * step
    return INF if rounded >= 2**128 else float(rounded)


def divide(a: float, b: float) -> float:
    """IEEE float32 division of values that are not negative."""
    if a != a or b != b or (a == INF and b == INF) or a == b == 0:
        return NAN
    if b == 0 or a == INF:
        return INF
    return 0.0 if b == INF else nearest(Fraction(a) / Fraction(b))


def pattern(value: float) -> int:
    return NAN_BITS if value != value else int(struct.unpack("<I", struct.pack("<f", value))[0])


FLOOR = nearest(Fraction(1, 10**12))


@dataclass
class Transcript:
    """The ring as its source writes it down, one stage by name."""

    name: str
    window: int
    fp8_max: float = 448.0
    margin: int = 0
    hist: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=lambda: [0.0, 0.0])
    recips: list[float] = field(default_factory=lambda: [0.0, 0.0])
    last_amax: float = 0.0
    idx: int = 0
    cur: int = 0
    cast: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        self.hist = [0.0] * self.window

    def seed(self, amax: float) -> None:
        a = amax if amax != amax else max(amax, FLOOR)
        self.hist = [a] * self.window
        inverse = nearest(1 / Fraction(self.fp8_max))
        if a in (INF,) or a != a:
            scale = a
        else:
            scale = nearest(Fraction(nearest(Fraction(a) * Fraction(inverse))) / Fraction(2) ** self.margin)
            scale = max(scale, FLOOR)
        self.cur = 0
        self.scales[0], self.recips[0] = scale, divide(1.0, scale)

    def publish(self, amax: float) -> None:
        self.hist[self.idx] = amax
        known = [value for value in self.hist if value == value]
        quotient = divide(max(known), self.fp8_max)
        if quotient != INF:
            quotient = nearest(Fraction(quotient) / Fraction(2) ** self.margin)
        pair = 1 - self.cur if self.name == "double-buffered" else 0
        self.scales[pair] = max(quotient, FLOOR)
        self.recips[pair] = divide(1.0, self.scales[pair])
        self.last_amax = amax

    def train(self, amax: float) -> tuple[float, float]:
        """Casts, folds, advances: the multiplier and the scale that the GEMM reads."""
        self.cast = (divide(1.0, self.scales[self.cur]), self.scales[self.cur])
        self.publish(amax)
        read = self.scales[0] if self.name == "seed" else self.cast[1]
        self.idx = (self.idx + 1) % self.window
        if self.name == "double-buffered":
            self.cur = 1 - self.cur
        return self.cast[0], read

    def without_gradients(self, amax: float) -> tuple[float, float]:
        if self.name != "double-buffered":
            return self.train(amax)
        return divide(1.0, self.scales[self.cur]), self.scales[self.cur]

    @property
    def words(self) -> tuple[int, ...]:
        hist = [pattern(value) for value in self.hist]
        scale0, scale1 = (pattern(value) for value in self.scales)
        recip0, recip1 = (pattern(value) for value in self.recips)
        match self.name:
            case "seed":
                return (*hist, scale0, 0)
            case "self-cleaning":
                return (*hist, scale0, 0, 0, 0)
            case "fold-slots":
                return (*hist, scale0, recip0, pattern(self.last_amax), 0, *[0] * 32)
            case "double-buffered":
                return (*hist, scale0, recip0, pattern(self.last_amax), 0, *[0] * 32, scale1, recip1)
        raise AssertionError(self.name)


def agree(state: RingState, transcript: Transcript) -> None:
    __tracebackhide__ = True
    for place, (observed, expected) in enumerate(zip(state.words, transcript.words, strict=True)):
        assert observed == expected, f"word {place}: {observed:#010x}, expected {expected:#010x}"
    assert (state.index, state.current) == (transcript.idx, transcript.cur)


def amax_of(value: float) -> Amax:
    return Amax(np.float32(value))


def seeded(stage: RingStage, window: int, amax: float = 8.0, recipe: ScaleRecipe | None = None) -> RingState:
    return scale_ring.seed(fresh(stage, window), amax_of(amax), recipe or ScaleRecipe(window=window))


# Values worked by hand.


def test_the_floor_is_the_float32_of_1e_12() -> None:
    assert FLOAT32.round(scale_formula.FLOOR) == FLOOR_BITS == pattern(FLOOR)
    assert as_bits(np.float32(1e-12)) == FLOOR_BITS  # through float64, as a C literal 1e-12f and PyTorch have it


@pytest.mark.parametrize(
    ("amax", "target", "margin", "folded", "on_host"),
    [
        (448.0, E4M3FN, 0, 0x3F800000, 0x3F800000),  # 1
        (448.0, E4M3FN, 3, 0x3E000000, 0x3E000000),  # 1/8
        (57344.0, E5M2, 0, 0x3F800000, 0x3F800000),
        (3.0, E4M3FN, 0, 0x3BDB6DB7, 0x3BDB6DB8),  # 3/448 = 6/7 / 128: 1.101101...
        (7.0, E4M3FN, 0, 0x3C800000, 0x3C800000),  # 1/64
        (0.0, E4M3FN, 0, FLOOR_BITS, FLOOR_BITS),
        (SMALLEST, E5M2, 0, FLOOR_BITS, FLOOR_BITS),
        (INF, E4M3FN, 0, 0x7F800000, 0x7F800000),
        (INF, E4M3FN, 126, 0x7F800000, 0x7F800000),
        (NAN, E4M3FN, 0, FLOOR_BITS, NAN_BITS),  # fmaxf drops it, clamp_min keeps it
        (3.0e38, E4M3FN, -20, 0x7F800000, 0x7F800000),  # a negative margin can overflow
    ],
)
def test_scales_worked_by_hand(amax: float, target: FloatFormat, margin: int, folded: int, on_host: int) -> None:
    number = FLOAT32.number(pattern(amax))
    assert scale_formula.float32_bits(published_scale(number, target, margin)) == folded
    assert scale_formula.float32_bits(seed_scale(number, target, margin)) == on_host


@pytest.mark.parametrize("target", [E4M3FN, E5M2], ids=str)
def test_the_hosts_product_differs_from_the_quotient_for_4593760_mantissas(target: FloatFormat) -> None:
    """Measured on an H200: PyTorch divides a CUDA tensor by a number through the rounded inverse."""
    mantissas = np.arange(0x3F800000, 0x40000000, dtype=np.uint32).view(np.float32)
    largest = np.float32(target.decode([target.max_code])[0])
    quotients, products = mantissas / largest, mantissas * (np.float32(1) / largest)
    assert np.count_nonzero(quotients != products) == 4_593_760
    for place in (1, 2, 4096, 0x400000, 0x7FFFFF, 1234567):
        number = FLOAT32.number(int(mantissas[place : place + 1].view(np.uint32)[0]))
        host = seed_scale(number, target)
        assert scale_formula.float32_bits(host) == as_bits(products[place])
        cpu = seed_scale(number, target, division=HostDivision.QUOTIENT)
        assert scale_formula.float32_bits(cpu) == as_bits(quotients[place])
        assert published_scale(number, target) == cpu


def boundary_peaks() -> np.ndarray[Any, np.dtype[np.float32]]:
    """Zero, subnormals, powers of two and 448 · 2^k with their neighbours, the floor's edges, the top, inf, NaN."""
    centres = [2.0**e for e in range(-149, 128)] + [448.0 * 2.0**e for e in range(-140, 119)]
    centres += [448e-12, 57344e-12, 448e-12 * 8, 3.4e38]
    bits = np.array(centres, np.float64).astype(np.float32).view(np.uint32).astype(np.int64)
    near = np.concatenate([bits + step for step in (-1, 0, 1)])
    special = np.array([0, 1, 0x7F7FFFFF, 0x7F800000, NAN_BITS])
    return np.concatenate([near[(near >= 0) & (near < 0x7F800000)], special]).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("target", [E4M3FN, E5M2], ids=str)
@pytest.mark.parametrize("margin", [0, 1, 7, -3, 126, -126])
def test_array_scales_equal_the_definition(target: FloatFormat, margin: int) -> None:
    peaks = boundary_peaks()[:: 1 if margin == 0 else 7]
    scales = published_scales(peaks, target, margin)
    for peak, scale, inverse in zip(peaks, scales, reciprocals(scales), strict=True):
        expected = published_scale(FLOAT32.number(as_bits(peak)), target, margin)
        assert as_bits(scale) == scale_formula.float32_bits(expected), f"peak {as_bits(peak):#010x}"
        assert as_bits(inverse) == scale_formula.float32_bits(reciprocal(expected))


@pytest.mark.parametrize("target", [E4M3FN, E5M2], ids=str)
def test_every_finite_amax_gives_a_positive_scale_that_covers_it(target: FloatFormat) -> None:
    peaks = boundary_peaks()
    peaks = peaks[np.isfinite(peaks)]
    scales = published_scales(peaks, target)
    assert np.all(np.isfinite(scales) & (scales >= np.float32(1e-12)))
    cast = target.encode((peaks * reciprocals(scales)).astype(np.float32), overflow="nan")
    assert not np.isnan(target.decode(cast)).any()  # with overflow to NaN: nothing saturates


# Layouts.


@pytest.mark.parametrize(
    ("stage", "extra", "offsets"),
    [
        (SEED, 2, {Field.SCALE: 0, Field.COUNTER: 1}),
        (SELF_CLEANING, 4, {Field.SCALE: 0, Field.SPARE: 1, Field.AMAX: 2, Field.COUNTER: 3}),
        (FOLD_SLOTS, 36, {Field.SCALE: 0, Field.RECIPROCAL: 1, Field.AMAX: 2, Field.COUNTER: 3, Field.SCRATCH: 4}),
        (DOUBLE_BUFFERED, 38, {Field.COUNTER: 3, Field.SCRATCH: 4, Field.SCALE_1: 36, Field.RECIPROCAL_1: 37}),
    ],
    ids=lambda value: value.name if isinstance(value, RingStage) else "",
)
@pytest.mark.parametrize("window", [1, 2, 3, 16, 40])
def test_layout(stage: RingStage, extra: int, offsets: dict[Field, int], window: int) -> None:
    assert stage.size(window) == window + extra
    assert stage.offset(Field.HISTORY, window) == 0
    assert {part: stage.offset(part, window) - window for part in offsets} == offsets


def test_the_counter_is_an_integer_in_a_float_slot() -> None:
    assert pattern(SMALLEST) == 1  # one arrival, read as a float
    state = seeded(SEED, 2)
    first = ring_fold.arrive(Arrival(state), Block(np.float32(1)), (2, 1), FoldRule(E4M3FN))
    assert first.state.counter == 1
    assert as_float32(first.state.read(Field.COUNTER)) == np.float32(SMALLEST)
    last = ring_fold.arrive(first, Block(np.float32(3), x=1), (2, 1), FoldRule(E4M3FN))
    assert last.state.read(Field.COUNTER) == pattern(0.0) == 0
    assert pattern(-0.0) == 2**31  # why re-arming needs +0.0


# Sequences.


@each_stage
@pytest.mark.parametrize("window", [1, 2, 3])
def test_a_decreasing_amax_is_felt_after_the_window(stage: RingStage, window: int) -> None:
    """8, 1, 1, 1, ... : the published scale falls when the 8 has left the window, and never before."""
    recipe, state, scales = ScaleRecipe(window=window), seeded(stage, window), []
    for amax in (8.0, 1.0, 1.0, 1.0, 1.0):
        state = scale_ring.step(state, amax_of(amax), recipe).state
        scales.append(state.scale)
    eight, one = np.float32(8) / np.float32(448), np.float32(1) / np.float32(448)
    assert scales == [eight] * window + [one] * (5 - window)


SEQUENCE = (8.0, 1.0, 1.0, 3.0, 0.0, INF, 2.0**-126, 5.0, 448.0, 1.0, 0.0, 2.0**-149, 0.0, 2.0**-126, 0.0, 3.0)


@each_stage
@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("margin", [0, 2])
def test_every_word_of_every_step_equals_the_transcription(stage: RingStage, window: int, margin: int) -> None:
    check_sequence(stage, window, margin)


def check_sequence(stage: RingStage, window: int, margin: int, role: Role = Role.ACTIVATION) -> None:
    recipe = ScaleRecipe(window=window, margin=margin)
    transcript = Transcript(stage.name, window, 57344.0 if role is Role.GRADIENT else 448.0, margin)
    state = scale_ring.seed(fresh(stage, window), amax_of(3.0), recipe, role)
    transcript.seed(3.0)
    agree(state, transcript)
    for number, amax in enumerate(SEQUENCE):
        occasion = NO_GRAD if number % 4 == 2 else TRAINING
        expected = transcript.without_gradients(amax) if occasion is NO_GRAD else transcript.train(amax)
        step = scale_ring.step(state, amax_of(amax), recipe, role, occasion)
        assert step.multiplier is not None
        assert (as_bits(step.multiplier), as_bits(step.dequantize)) == tuple(map(pattern, expected))
        state = step.state
        agree(state, transcript)


@pytest.mark.parametrize("stage", [SELF_CLEANING, FOLD_SLOTS, DOUBLE_BUFFERED], ids=lambda stage: stage.name)
def test_the_gemm_reads_the_scale_that_the_codes_were_made_with(stage: RingStage) -> None:
    state, recipe = seeded(stage, 1), ScaleRecipe(window=1)
    for amax in (8.0, 3.0, 700.0, 0.01):
        step = scale_ring.step(state, amax_of(amax), recipe)
        assert step.is_consistent
        state = step.state


def test_the_seed_stage_reads_the_scale_of_the_next_step() -> None:
    step = scale_ring.step(seeded(SEED, 1, 448.0), amax_of(224.0), ScaleRecipe(window=1))
    assert step.multiplier == 1
    assert step.dequantize == np.float32(0.5)
    assert not step.is_consistent


def test_a_second_linear_reads_the_flipped_pair_for_a_shared_activation() -> None:
    recipe = ScaleRecipe(window=1)
    first = scale_ring.step(seeded(DOUBLE_BUFFERED, 1, 8.0), amax_of(4.0), recipe)
    second = scale_ring.step(first.state, amax_of(4.0), recipe, occasion=Occasion.SHARED_ACTIVATION)
    assert second.state == first.state
    assert first.is_consistent
    assert second.multiplier == first.multiplier
    assert second.dequantize == np.float32(4) / np.float32(448) != first.dequantize
    assert not second.is_consistent


def test_a_scale_survives_one_later_fold_and_not_two() -> None:
    """A backward pass that reads the forward's pair must come before the second fold after it."""
    recipe = ScaleRecipe(window=1)
    step = scale_ring.step(seeded(DOUBLE_BUFFERED, 1, 8.0), amax_of(4.0), recipe)
    used = as_bits(step.dequantize)
    assert used in (step.state.read(Field.SCALE), step.state.read(Field.SCALE_1))
    later = scale_ring.step(step.state, amax_of(2.0), recipe).state
    assert used not in (later.read(Field.SCALE), later.read(Field.SCALE_1))


SKIPS = {
    SEED.name: {Occasion.PREQUANTIZED, Occasion.BACKWARD_RECAST},
    SELF_CLEANING.name: {Occasion.PREQUANTIZED, Occasion.BACKWARD_RECAST},
    FOLD_SLOTS.name: {Occasion.PREQUANTIZED, Occasion.BACKWARD_RECAST},
    DOUBLE_BUFFERED.name: set(Occasion) - {TRAINING},
}


@each_stage
@pytest.mark.parametrize("occasion", Occasion)
def test_a_skipped_call_changes_no_bit(stage: RingStage, occasion: Occasion) -> None:
    recipe = ScaleRecipe(window=2)
    before = scale_ring.step(seeded(stage, 2), amax_of(5.0), recipe).state
    after = scale_ring.step(before, amax_of(100.0), recipe, occasion=occasion)
    assert after.folded == (occasion not in SKIPS[stage.name])
    assert (after.state == before) == (occasion in SKIPS[stage.name])


def test_an_unchanged_weight_keeps_the_scale_of_its_cast() -> None:
    """The cache keeps its own copy: folds of other calls do not reach it."""
    recipe = ScaleRecipe(window=1)
    first = scale_ring.step(seeded(DOUBLE_BUFFERED, 1, 8.0), amax_of(4.0), recipe, Role.WEIGHT)
    again = scale_ring.step(first.state, amax_of(4.0), recipe, Role.WEIGHT, Occasion.UNCHANGED_WEIGHT)
    assert (again.multiplier, again.dequantize) == (first.multiplier, first.dequantize)
    assert again.is_consistent
    assert again.dequantize != first.state.scale


def test_a_prequantized_operand_has_no_multiplier() -> None:
    step = scale_ring.step(seeded(SEED, 1), amax_of(4.0), ScaleRecipe(window=1), Role.WEIGHT, Occasion.PREQUANTIZED)
    assert step.multiplier is None
    assert step.is_consistent


def test_first_use_seeds_on_every_occasion() -> None:
    for occasion in (TRAINING, NO_GRAD):
        step = scale_ring.step(fresh(DOUBLE_BUFFERED, 3), amax_of(7.0), ScaleRecipe(window=3), occasion=occasion)
        assert step.dequantize == np.float32(1 / 64)
        assert step.state.initialized
        assert step.state.index == (1 if occasion is TRAINING else 0)


# NaN, infinity, nothing.


def test_infinity_stays_for_a_window_of_folds() -> None:
    recipe, state = ScaleRecipe(window=2), seeded(DOUBLE_BUFFERED, 2)
    state = scale_ring.step(state, amax_of(INF), recipe).state
    for amax, expected in ((1.0, INF), (1.0, 1 / 448)):
        step = scale_ring.step(state, amax_of(amax), recipe)
        assert step.multiplier == 0  # codes of finite elements are 0
        assert step.state.scale == np.float32(expected)
        state = step.state


def test_a_nan_poisons_the_seed_and_the_first_fold_recovers() -> None:
    recipe = ScaleRecipe(window=2)
    first = scale_ring.step(fresh(DOUBLE_BUFFERED, 2), Amax(np.float32(4), has_nan=True), recipe)
    assert np.isnan(first.dequantize)
    assert np.isnan(first.multiplier or 0)
    assert first.state.scale == np.float32(4) / np.float32(448)
    assert [np.isnan(value) for value in first.state.history] == [False, True]


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32])
def test_amax_drops_nan_keeps_infinity_and_starts_from_zero(dtype: Any) -> None:
    def measure(values: Sequence[float]) -> Amax:
        return Amax.of(np.array(values, np.float32).astype(dtype))

    assert measure([1.0, -3.5, 2.0]) == Amax(np.float32(3.5))
    assert measure([NAN, -3.5, -NAN]) == Amax(np.float32(3.5), has_nan=True)
    assert measure([NAN]) == Amax(np.float32(0), has_nan=True)
    assert measure([-INF, NAN, 1.0]) == Amax(np.float32(INF), has_nan=True)
    assert measure([-0.0, 0.0]) == Amax(np.float32(0))
    assert measure([]) == Amax(np.float32(0), is_empty=True)


def test_an_empty_tensor_folds_a_zero_or_nothing() -> None:
    """The self-cleaning stage launched no block for it, yet its host advanced; later a block always runs."""
    empty, recipe = Amax(np.float32(0), is_empty=True), ScaleRecipe(window=2)
    for stage in RING_STAGES:
        before = seeded(stage, 2)
        after = scale_ring.step(before, empty, recipe).state
        assert after.index == 1
        assert list(after.history) == [8.0 if stage is SELF_CLEANING else 0.0, 8.0]


# Launches of many blocks.


def launch_of(grid: tuple[int, int], amaxes: Sequence[float], order: Sequence[int]) -> Launch:
    places = [(x, y) for y in range(grid[1]) for x in range(grid[0])]
    return Launch(grid, tuple(Block(np.float32(amaxes[i]), *places[i]) for i in order))


@each_stage
def test_neither_grid_nor_order_changes_a_bit(stage: RingStage) -> None:
    state, rule = seeded(stage, 2), FoldRule(E4M3FN, 1)
    whole = fold(state, Launch.single(np.float32(9)), rule)
    for order in permutations(range(4)):
        for grid in ((4, 1), (1, 4), (2, 2)):
            assert fold(state, launch_of(grid, (1.0, 9.0, 0.0, 2.0), order), rule) == whole


def test_more_blocks_than_scratch_slots_share_them() -> None:
    amaxes = [float(i % 37) for i in range(72)]
    launch = launch_of((8, 9), amaxes, range(72))
    state = fold(seeded(FOLD_SLOTS, 1), launch, FoldRule(E4M3FN))
    assert state.history[0] == 36
    assert state == fold(seeded(FOLD_SLOTS, 1), Launch.single(np.float32(36)), FoldRule(E4M3FN))


@each_stage
def test_a_counter_left_behind_never_heals(stage: RingStage) -> None:
    """A launch cut short leaves 1: block 3 of 4 is then taken for the last, and 1 is left again."""
    state = seeded(stage, 1).write(Field.COUNTER, 1)
    for _ in range(3):
        state = fold(state, launch_of((4, 1), (1.0, 2.0, 3.0, 500.0), range(4)), FoldRule(E4M3FN))
        assert state.history[0] == 3  # the 500 is missing
        assert state.counter == 1
        state = replace(state, words=seeded(stage, 1).words).write(Field.COUNTER, 1)


def test_the_seed_stage_folds_into_no_slot_with_an_index_outside_the_window() -> None:
    state = replace(seeded(SEED, 2), index=2)
    after = fold(state, Launch.single(np.float32(500)), FoldRule(E4M3FN))
    assert list(after.history) == [8, 8]
    assert after.scale == np.float32(8) / np.float32(448)
    for stage in RING_STAGES[1:]:
        with pytest.raises(Refusal, match=r"index 2 is outside the window, 0\.\.1"):
            fold(replace(seeded(stage, 2), index=2), Launch.single(np.float32(1)), FoldRule(E4M3FN))


amaxes = st.one_of(
    st.floats(0, 3.4028234663852886e38, width=32),
    st.sampled_from([0.0, SMALLEST, 2.0**-126, 448e-12, 1.0, 3.0, 448.0, 57344.0, INF]),
).map(abs)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(RING_STAGES),
    st.integers(1, 4),
    st.integers(-2, 5),
    amaxes,
    st.lists(st.tuples(amaxes, st.booleans()), max_size=12),
    st.integers(0, 5),
)
def test_run_equals_step_after_step(
    stage: RingStage, window: int, margin: int, first: float, calls: list[tuple[float, bool]], earlier: int
) -> None:
    recipe = ScaleRecipe(window=window, margin=margin)
    state = seeded(stage, window, first, recipe)
    for number in range(earlier):
        state = scale_ring.step(state, amax_of(number), recipe).state
    values = np.array([amax for amax, _ in calls], np.float32)
    folds = np.array([folds or stage is not DOUBLE_BUFFERED for _, folds in calls], np.bool_)
    batch = scale_ring.run(state, values, recipe, folds=folds)
    for number, amax in enumerate(values):
        occasion = TRAINING if folds[number] else NO_GRAD
        step = scale_ring.step(state, Amax(amax), recipe, occasion=occasion)
        assert step.multiplier is not None
        assert as_bits(batch.multipliers[number]) == as_bits(step.multiplier)
        assert as_bits(batch.dequantize[number]) == as_bits(step.dequantize)
        state = step.state
    assert batch.state == state


class RingMachine(RuleBasedStateMachine):
    """Any order of calls, checkpoints and launches against the transcription."""

    @initialize(stage=st.sampled_from(RING_STAGES), window=st.integers(1, 3), margin=st.integers(0, 2), amax=amaxes)
    def begin(self, stage: RingStage, window: int, margin: int, amax: float) -> None:
        self.recipe = ScaleRecipe(window=window, margin=margin)
        self.transcript = Transcript(stage.name, window, margin=margin)
        self.transcript.seed(amax)
        self.state = seeded(stage, window, amax, self.recipe)
        self.has_cast = False

    @rule(amax=amaxes)
    def train(self, amax: float) -> None:
        self._compare(TRAINING, amax, self.transcript.train(amax))
        self.has_cast = True

    @rule(amax=amaxes)
    def infer(self, amax: float) -> None:
        self.has_cast |= self.state.stage is not DOUBLE_BUFFERED
        self._compare(NO_GRAD, amax, self.transcript.without_gradients(amax))

    @rule(amax=amaxes)
    def reuse(self, amax: float) -> None:
        if self.has_cast and self.state.stage is DOUBLE_BUFFERED:
            self._compare(Occasion.UNCHANGED_WEIGHT, amax, self.transcript.cast)

    @rule(parts=st.lists(amaxes, min_size=1, max_size=5), seed=st.randoms(use_true_random=False))
    def launch_blocks(self, parts: list[float], seed: Any) -> None:
        order = list(range(len(parts)))
        seed.shuffle(order)
        rule = FoldRule(E4M3FN, self.recipe.margin)
        self.transcript.train(max(parts))
        cast = self.state.cast
        folded = fold(self.state, launch_of((len(parts), 1), parts, order), rule)
        self.state = replace(scale_ring.advance(folded), cast=cast)
        self.has_cast = False

    @rule()
    def save_and_load(self) -> None:
        self.state = ring_registry.restore_ring(fresh(self.state.stage, self.recipe.window), self.state)
        self.has_cast = False

    @invariant()
    def words_agree(self) -> None:
        if hasattr(self, "state"):
            agree(self.state, self.transcript)

    def _compare(self, occasion: Occasion, amax: float, expected: tuple[float, float]) -> None:
        step = scale_ring.step(self.state, amax_of(amax), self.recipe, occasion=occasion)
        assert step.multiplier is not None
        assert (as_bits(step.multiplier), as_bits(step.dequantize)) == tuple(map(pattern, expected))
        self.state = step.state


TestRingMachine = RingMachine.TestCase
TestRingMachine.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)


# Recipes and the registry.


def test_the_gradient_ring_divides_by_its_own_format() -> None:
    assert [HYBRID.forward, HYBRID.backward] == [E4M3FN, E5M2]
    formats = {recipe.name: [ScaleRecipe(formats=recipe).ring_format(role) for role in Role] for recipe in (HYBRID,)}
    assert formats == {"hybrid": [E4M3FN, E4M3FN, E5M2]}
    assert [ScaleRecipe(formats=PURE_E5M2).ring_format(role) for role in Role] == [E5M2] * 3
    assert ScaleRecipe() == ScaleRecipe(window=16, margin=0, formats=HYBRID)


RECIPE = ScaleRecipe(window=2)


def trained(registry: Registry, weight: Weight, amax: float, recipe: ScaleRecipe = RECIPE) -> Registry:
    registry, entry = registry.find(weight, recipe)
    step = scale_ring.step(entry.x, amax_of(amax), recipe)
    return registry.update(entry.with_ring(Role.ACTIVATION, step.state))


def test_a_recycled_address_inherits_the_rings_of_the_dead_until_identity_is_asked() -> None:
    dead, alive = Weight(1, 0x1000, (32, 64)), Weight(2, 0x1000, (32, 64))
    for stage, inherits in ((SEED, True), (FOLD_SLOTS, True), (DOUBLE_BUFFERED, False)):
        registry, entry = trained(Registry(stage), dead, 100.0).find(alive, RECIPE)
        assert entry.x.initialized == inherits
        assert len(registry.entries) == 1
        assert registry.generation == (0 if inherits else 1)


@pytest.mark.parametrize("recipe", [ScaleRecipe(window=3), ScaleRecipe(window=2, margin=1)])
def test_a_changed_recipe_rebuilds_the_rings_in_the_last_stage_only(recipe: ScaleRecipe) -> None:
    weight = Weight(1, 0x1000, (32, 64))
    for stage, rebuilt in ((SEED, False), (DOUBLE_BUFFERED, True)):
        _, entry = trained(Registry(stage), weight, 100.0).find(weight, recipe)
        assert entry.x.initialized != rebuilt
        assert entry.x.window == (recipe.window if rebuilt else 2)


def test_a_changed_format_keeps_a_ring_whose_scale_is_128_times_too_small() -> None:
    weight, e5m2 = Weight(1, 0x1000, (32, 64)), replace(RECIPE, formats=PURE_E5M2)
    registry = trained(Registry(DOUBLE_BUFFERED), weight, 57344.0, e5m2)
    registry, entry = registry.find(weight, replace(RECIPE, formats=PURE_E4M3))
    assert entry.x.scale == 1  # E4M3FN needs 128
    assert scale_ring.step(entry.x, amax_of(57344.0), replace(RECIPE, formats=PURE_E4M3)).state.scale == 128


def test_a_checkpoint_binds_by_shape_and_dtype_in_order_and_leaves_the_dead_out() -> None:
    shape = (32, 64)
    first, dead, second, other = Weight(1, 1, shape), Weight(2, 2, shape), Weight(3, 3, shape), Weight(4, 4, (8, 8))
    registry = Registry(DOUBLE_BUFFERED)
    for weight, amax in ((first, 1.0), (dead, 50.0), (other, 9.0), (second, 3.0)):
        registry = trained(registry, weight, amax)
    registry, saved = registry.snapshot(alive={1, 3, 4})
    assert [entry.weight.identity for entry in registry.entries] == [1, 4, 3]
    resumed = Registry(DOUBLE_BUFFERED).load(saved)
    for weight, original in ((Weight(11, 0x51, shape), first), (Weight(12, 0x52, shape), second)):
        resumed, entry = resumed.find(weight, RECIPE)
        kept = next(known for known in saved if known.weight == original)
        assert entry.x == replace(kept.x, cast=None)
        assert entry.w == replace(kept.w, words=entry.w.words)
        assert as_float32(entry.w.read(Field.RECIPROCAL)) == INF  # 1 / 0 in a ring that nobody has seeded
    assert [entry.weight for entry in resumed.pending] == [other]


def test_a_checkpoint_of_another_window_leaves_the_ring_fresh() -> None:
    weight = Weight(1, 1, (4, 4))
    _, saved = trained(Registry(DOUBLE_BUFFERED), weight, 5.0).snapshot(alive={1})
    registry, entry = Registry(DOUBLE_BUFFERED).load(saved).find(weight, ScaleRecipe(window=4))
    assert entry.x == fresh(DOUBLE_BUFFERED, 4)
    assert registry.pending == ()


def test_a_resumed_run_equals_an_uninterrupted_one() -> None:
    weight, registry = Weight(1, 1, (4, 4)), Registry(DOUBLE_BUFFERED)
    for amax in (5.0, 7.0, 2.0):
        registry = trained(registry, weight, amax)
    registry, saved = registry.snapshot(alive={1})
    resumed = Registry(DOUBLE_BUFFERED).load(saved)
    for amax in (1.0, 1.0, 1.0):
        registry, resumed = trained(registry, weight, amax), trained(resumed, weight, amax)
        assert registry.entries[0].x == resumed.entries[0].x


def test_reset_forgets_everything() -> None:
    registry = trained(Registry(DOUBLE_BUFFERED), Weight(1, 1, (4, 4)), 5.0)
    assert registry.reset() == Registry(DOUBLE_BUFFERED, generation=1)


# Refusals.


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: ScaleRecipe(window=0), "a window of 0 steps remembers nothing"),
        (lambda: fresh(SEED, 0), "2 words are no seed ring with a window of 0"),
        (lambda: RingState(SEED, 2, (0,) * 5), "5 words are no seed ring with a window of 2"),
        (lambda: RingState(SEED, 2, (0,) * 4, current=1), "pair 1 does not exist: the seed ring has 1"),
        (lambda: RingState(SEED, 2, (2**32, 0, 0, 0)), "wider than 32 bits"),
        (lambda: SEED.offset(Field.SCRATCH, 2), "the seed ring has no scratch"),
        (lambda: Amax(np.float32(-1)), "amax -1.0 is negative or NaN"),
        (lambda: Amax(np.float32(NAN)), "amax nan is negative or NaN"),
        (lambda: Amax.of(np.zeros(2)), "x has type float64"),
        (lambda: Amax.of(np.zeros(2, np.int32)), "x has type int32"),
        (lambda: published_scale(Number.of(1), E4M3FN, 127), "margin 127 is outside -126..126"),
        (lambda: published_scale(Number.of(-1), E4M3FN), "amax -1 is negative"),
        (lambda: published_scales(np.array([-1], np.float32), E4M3FN), "peak -1.0 is negative"),
        (lambda: seed_scale(Number.of(1), FLOAT32), "FLOAT32 is no format of the scale ring"),
        (lambda: Launch((2, 1), (Block(np.float32(1)),)), "1 blocks do not fill the grid 2 x 1 once"),
        (lambda: Launch.single(np.float32(-2)), r"block \(0, 0\) has amax -2.0, negative or NaN"),
        (lambda: fold(seeded(SEED, 1), Launch((0, 1), ()), FoldRule(E4M3FN)), "a launch without a block"),
        (lambda: seed_empty(), "an empty tensor has no maximum to seed a ring with"),
        (lambda: use_uncast(), "no cast to use again"),
        (lambda: run_on(fresh(SEED, 2)), "the ring is not seeded"),
        (lambda: run_on(replace(seeded(SEED, 2), index=5)), r"index 5 is outside the window, 0\.\.1"),
        (lambda: run_on(seeded(SEED, 2).write(Field.COUNTER, 3)), "a launch cut short has left counter 3"),
        (lambda: run_on(seeded(FOLD_SLOTS, 2).write(Field.SCRATCH, 0, 7)), "collected maximum 0x00000007"),
        (lambda: run_on(seeded(SEED, 2), NAN), "an amax is negative or NaN"),
        (lambda: Registry(SEED).update(new_entry()), "no rings at address 0x10"),
    ],
)
def test_refusals_name_value_and_limit(act: Callable[[], object], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        act()


def seed_empty() -> RingState:
    return scale_ring.seed(fresh(SEED, 1), Amax(np.float32(0), is_empty=True), ScaleRecipe(window=1))


def use_uncast() -> scale_ring.Step:
    recipe = ScaleRecipe(window=1)
    return scale_ring.step(seeded(DOUBLE_BUFFERED, 1), amax_of(1), recipe, occasion=Occasion.UNCHANGED_WEIGHT)


def run_on(state: RingState, amax: float = 1.0) -> scale_ring.Run:
    return scale_ring.run(state, np.array([amax], np.float32), ScaleRecipe(window=2))


def new_entry() -> Entry:
    return Registry(SEED).find(Weight(1, 0x10, (1, 1)), RECIPE)[1]


# Known-bad twins: the battery accepts the ring and rejects each of them.


def battery(stages: Sequence[RingStage] = RING_STAGES) -> None:
    """A short run through every claim; raises AssertionError or Refusal for a ring that is wrong."""
    for stage in stages:
        for window, margin, role in ((2, 1, Role.ACTIVATION), (3, 0, Role.GRADIENT)):
            check_sequence(stage, window, margin, role)
        blocks = launch_of((2, 2), (500.0, 9.0, 3.0, 2.0), (1, 0, 2, 3))
        state = seeded(stage, 2)
        for _ in range(2):
            state = fold(state, blocks, FoldRule(E4M3FN))
            assert state.history[0] == 500
            assert state.counter == 0
        batch = scale_ring.run(seeded(stage, 2), np.array([9, 1, 2], np.float32), ScaleRecipe(window=2))
        step = scale_ring.step(seeded(stage, 2), amax_of(9), ScaleRecipe(window=2))
        assert (batch.multipliers[0], batch.dequantize[0]) == (step.multiplier, step.dequantize)
        assert batch.state.scale == np.float32(2) / np.float32(448)
    test_first_use_seeds_on_every_occasion()
    test_a_nan_poisons_the_seed_and_the_first_fold_recovers()
    test_amax_drops_nan_keeps_infinity_and_starts_from_zero(np.float32)
    if DOUBLE_BUFFERED in stages:
        test_an_unchanged_weight_keeps_the_scale_of_its_cast()
        test_a_resumed_run_equals_an_uninterrupted_one()
        test_a_recycled_address_inherits_the_rings_of_the_dead_until_identity_is_asked()
        test_a_checkpoint_binds_by_shape_and_dtype_in_order_and_leaves_the_dead_out()


real_unfolded, real_arrive, real_remember = scale_ring._unfolded, ring_fold.arrive, ring_fold._remember
real_clean, real_publish, real_advance = ring_fold._clean, ring_fold.publish, scale_ring.advance
real_seed_scale, real_run, real_seed = seed_scale, scale_ring.run, scale_ring.seed
real_restore, real_of = ring_registry.restore_ring, Amax.of


def restore_without_pair(ring: RingState, saved: RingState) -> RingState:
    return replace(real_restore(ring, saved), current=0)


def late_run(*args: Any, **kwargs: Any) -> scale_ring.Run:
    run = real_run(*args, **kwargs)
    return replace(run, multipliers=np.roll(run.multipliers, 1))


def seed_one_slot(state: RingState, *args: Any, **kwargs: Any) -> RingState:
    filled = real_seed(state, *args, **kwargs)
    return filled.write(Field.HISTORY, filled.read(Field.HISTORY), *[0] * (filled.window - 1))


def keep_counter(state: RingState, peak: int) -> RingState:
    return real_clean(state, peak).write(Field.COUNTER, state.counter)


def keep_maximum(state: RingState, peak: int) -> RingState:
    cleaned, place = real_clean(state, peak), state.stage.maximum_field
    return cleaned if place is None else cleaned.write(place, peak)


def stale_reciprocal(state: RingState, rule: FoldRule) -> RingState:
    part = ring_state.reciprocal_field(state.publishing_pair)
    published = real_publish(state, rule)
    return published.write(part, state.read(part)) if part in state.stage.fields else published


def newest_only(state: RingState) -> Number:
    return FLOAT32.number(state.read(Field.HISTORY, state.index))


def nan_wins(state: RingState) -> Number:
    values = [FLOAT32.number(state.read(Field.HISTORY, slot)) for slot in range(state.window)]
    return next((value for value in values if value.is_nan), None) or ring_fold._largest(values)


def scaled_amax(x: Any) -> Amax:
    measured = real_of(x)
    return replace(measured, value=np.float32(measured.value / 448))


Patch = tuple[Any, str, Any]

PATCHED: dict[str, Patch] = {
    "history rolled on a skipped step": (
        scale_ring,
        "_unfolded",
        lambda state, occasion: real_unfolded(real_advance(state), occasion),
    ),
    "no margin": (scale_formula, "_power_of_two", lambda exponent: Number.of(1)),
    "margin the other way": (scale_formula, "_power_of_two", lambda exponent: Number.of(Fraction(2) ** -exponent)),
    "floor missing": (scale_formula, "FLOOR", Number.of(Fraction(1, 2**149))),
    "floor of 1e-10": (scale_formula, "FLOOR", scale_formula.float32(Number.of(Fraction(1, 10**10)))),
    "scale published into the pair that this step reads": (
        RingState,
        "publishing_pair",
        property(lambda state: state.current),
    ),
    "pair not flipped": (
        scale_ring,
        "advance",
        lambda state: replace(real_advance(state), current=state.current),
    ),
    "index past the end of the window": (scale_ring, "advance", lambda s: replace(real_advance(s), index=s.index + 1)),
    "window of one slot fewer": (
        scale_ring,
        "advance",
        lambda state: replace(real_advance(state), index=(state.index + 1) % max(state.window - 1, 1)),
    ),
    "counter compared with the grid's width": (
        ring_fold,
        "arrive",
        lambda before, block, grid, rule: real_arrive(before, block, (grid[0], 1), rule),
    ),
    "counter compared with one block more": (
        ring_fold,
        "arrive",
        lambda before, block, grid, rule: real_arrive(before, block, (1, grid[0] * grid[1] + 1), rule),
    ),
    "counter not re-armed": (ring_fold, "_clean", keep_counter),
    "collected maximum not cleared": (ring_fold, "_clean", keep_maximum),
    "amax written one slot further": (
        ring_fold,
        "_remember",
        lambda state, peak: replace(
            real_remember(replace(state, index=(state.index + 1) % state.window), peak), index=state.index
        ),
    ),
    "published before the amax is in the window": (ring_fold, "_remember", lambda state, peak: state),
    "newest amax instead of the window's": (ring_fold, "window_peak", newest_only),
    "a NaN of the window wins": (ring_fold, "window_peak", nan_wins),
    "reciprocal of the scale before": (ring_fold, "publish", stale_reciprocal),
    "gradient ring divided by the forward format": (
        ScaleRecipe,
        "ring_format",
        lambda recipe, role: recipe.formats.forward,
    ),
    "seed by division": (
        scale_ring,
        "seed_scale",
        lambda amax, target, margin, division: real_seed_scale(amax, target, margin, HostDivision.QUOTIENT),
    ),
    "seed of one slot": (scale_ring, "seed", seed_one_slot),
    "amax over scaled values": (Amax, "of", staticmethod(scaled_amax)),
    "batch one step late": (scale_ring, "run", late_run),
    "checkpoint without the current pair": (ring_registry, "restore_ring", restore_without_pair),
}

EDITED: dict[str, RingStage] = {
    "same step reads the published scale": replace(DOUBLE_BUFFERED, reading=Reading.ALIASED),
    "inference folds": replace(DOUBLE_BUFFERED, unfolded=DOUBLE_BUFFERED.unfolded - {NO_GRAD}),
    "seed form with a snapshot": replace(SEED, reading=Reading.SNAPSHOT),
    "16 scratch slots": replace(FOLD_SLOTS, scratch_slots=16),
    "recip before scale": replace(
        FOLD_SLOTS, fields=(Field.HISTORY, Field.RECIPROCAL, Field.SCALE, *FOLD_SLOTS.fields[3:])
    ),
    "second pair in front of the scratch": replace(
        DOUBLE_BUFFERED,
        fields=(*FOLD_SLOTS.fields[:5], Field.SCALE_1, Field.RECIPROCAL_1, Field.SCRATCH),
    ),
    "amax left in the self-cleaning ring": replace(
        SELF_CLEANING, fields=(Field.HISTORY, Field.SCALE, Field.AMAX, Field.SPARE, Field.COUNTER), checks_index=True
    ),
}


@contextmanager
def patched(patch: Patch) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(*patch)
        yield


def test_the_battery_accepts_the_ring() -> None:
    battery()


@pytest.mark.parametrize("name", PATCHED)
def test_the_battery_rejects_a_twin(name: str) -> None:
    with patched(PATCHED[name]), pytest.raises((AssertionError, Refusal, ValueError)):
        battery()


@pytest.mark.parametrize("name", [name for name in EDITED if name != "amax left in the self-cleaning ring"])
def test_the_battery_rejects_an_edited_stage(name: str) -> None:
    with pytest.raises((AssertionError, Refusal, ValueError)):
        battery([EDITED[name]])


def test_swapping_two_words_that_are_both_zero_is_seen_by_the_layout_only() -> None:
    """Spare and amax are both 0 after a launch, so only their offsets tell them apart."""
    swapped = EDITED["amax left in the self-cleaning ring"]
    battery([swapped])
    assert swapped.offset(Field.AMAX, 2) != SELF_CLEANING.offset(Field.AMAX, 2) == 4
