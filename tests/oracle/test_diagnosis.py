"""Diagnosis: planted faults are named, the right offset is found, unrelated damage stays unexplained."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileproof.oracle.addresses.probe import bit_map, index_planes, recover_map
from tileproof.oracle.addresses.rearrangement import Cause
from tileproof.oracle.diagnosis import Diagnosis, Region, diagnose, diagnose_pack, diagnose_tile, general
from tileproof.oracle.layouts import PACKS
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import Swizzle

POISON = 0xEE
Bytes = npt.NDArray[np.uint8]


def data(size: int, seed: int = 0) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)


def read_back(tile: Bytes, swizzle: Swizzle, base: int) -> Bytes:
    """What a kernel sees that reads a TMA tile by a formula relative to its base."""
    memory = np.zeros(base + tile.size + swizzle.atom_bytes, np.uint8)
    offsets = np.arange(tile.size)
    memory[swizzle.apply(base + offsets)] = tile
    return memory[base + swizzle.apply(offsets)]


def first(diagnosis: Diagnosis) -> tuple[Cause, str]:
    assert diagnosis.is_explained
    return diagnosis.explanations[0].rearrangement.cause, diagnosis.explanations[0].rearrangement.text


def test_an_equal_buffer_has_nothing_to_explain() -> None:
    tile = data(1024)
    diagnosis = diagnose_tile(tile, tile, 64, poison=POISON)
    assert diagnosis.lines() == ["all 1024 elements are as expected"]
    assert diagnosis.is_explained
    assert not diagnosis.explanations


@pytest.mark.parametrize("span", [32, 64, 128])
def test_a_wrong_swizzle_base_is_found(span: int) -> None:
    swizzle, tile = Swizzle.tma(span), data(4096)
    for base in range(128, swizzle.atom_bytes, 128):
        observed = read_back(tile, swizzle, 0x800 + base)
        cause, text = first(diagnose_tile(observed, tile, span, poison=POISON))
        assert cause is Cause.SWIZZLE_BASE
        assert f"{base} bytes past its atom of {swizzle.atom_bytes}" in text


def test_half_an_atom_of_the_model_is_found_too() -> None:
    tile = data(1024)
    diagnosis = diagnose_tile(read_back(tile, Swizzle.tma(64), 0x600 + 64), tile, 64)
    assert diagnosis.differing > 500
    assert "base 64 bytes past" in first(diagnosis)[1]


@pytest.mark.parametrize("span", [32, 64, 128])
def test_a_swizzle_left_in_place_is_named(span: int) -> None:
    tile = data(2048)
    observed = np.empty_like(tile)
    observed[Swizzle.tma(span).apply(np.arange(2048))] = tile
    assert first(diagnose_tile(observed, tile, span))[0] is Cause.SWIZZLE_LEFT


@pytest.mark.parametrize(
    ("fault", "cause", "words"),
    [
        (lambda x: x.reshape(-1, 2)[:, ::-1], Cause.HALVES, "halves of every 2"),
        (lambda x: x.reshape(-1, 2, 2)[:, ::-1], Cause.HALVES, "halves of every 4"),
        (lambda x: x.reshape(-1, 2, 8)[:, ::-1], Cause.HALVES, "halves of every 16"),
        (lambda x: x.reshape(-1, 4)[:, ::-1], Cause.HALVES, "every 4 elements reversed"),
        (lambda x: x.reshape(-1, 4)[:, [0, 2, 1, 3]], Cause.BITS, "bits 0 and 1"),
        (lambda x: x.reshape(32, 64).T, Cause.TRANSPOSED, "transposed"),
        (lambda x: x.reshape(64, 32).T, Cause.TRANSPOSED, "transposed"),
        (lambda x: np.concatenate([data(3, 9), x[:-3]]), Cause.SHIFTED, "by +3"),
        (lambda x: np.concatenate([x[64:], data(64, 9)]), Cause.SHIFTED, "by -64"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_planted_rearrangements_are_named(fault: Callable[[Bytes], Bytes], cause: Cause, words: str) -> None:
    tile = data(2048)
    found, text = first(diagnose_tile(fault(tile).reshape(-1), tile, 64, poison=POISON))
    assert found is cause
    assert words in text


def test_two_names_of_one_map_are_both_listed() -> None:
    """A 32-byte swizzle read 128 bytes off its atom swaps the halves of every 32 bytes: one map, two causes."""
    tile = data(2048)
    observed = tile.reshape(-1, 2, 16)[:, ::-1].reshape(-1)
    explanations = diagnose_tile(observed, tile, 32).explanations
    assert [e.rearrangement.cause for e in explanations] == [Cause.SWIZZLE_BASE, Cause.HALVES]
    assert all(e.is_complete for e in explanations)


@pytest.mark.parametrize("name", [n for n in PACKS if PACKS[n].element_bits == 8])
def test_another_pack_is_named(name: str) -> None:
    layout = PACKS["fragment"] if name != "fragment" else PACKS["n-major"]
    raw = data(256 * 256).reshape(256, 256).view(np.int8)
    cause, text = first(diagnose_pack(PACKS[name].pack(raw), layout, raw))
    assert cause is Cause.RELATION
    assert f"packed as {name} " in text


def test_unwritten_regions_are_found_beside_a_permutation() -> None:
    raw = data(128 * 128).reshape(128, 128)
    observed = PACKS["n-major"].pack(raw)
    observed[1000:3000] = POISON
    observed[8192:] = POISON
    diagnosis = diagnose_pack(observed, PACKS["contiguous"], raw, poison=POISON)
    assert diagnosis.unwritten == (Region(1000, 3000), Region(8192, 16384))
    assert first(diagnosis)[0] is Cause.RELATION
    assert "never written: 8192 to 16383, 8192 elements" in diagnosis.lines()


def test_an_unwritten_region_alone_is_the_whole_story() -> None:
    expected = data(4096)
    observed = expected.copy()
    observed[100:1700] = POISON
    diagnosis = diagnose_tile(observed, expected, 64, poison=POISON)
    assert diagnosis.is_explained
    assert not diagnosis.explanations
    assert diagnosis.unwritten == (Region(100, 1700),)


def test_data_that_looks_like_poison_is_not_called_unwritten() -> None:
    expected = data(4096)
    observed = expected.copy()
    observed[7] = POISON
    diagnosis = diagnose_tile(observed, expected, 64, poison=POISON)
    assert not diagnosis.unwritten
    assert not diagnosis.is_explained


#: Damage that no rearrangement made; none may be called explained.
UNRELATED: dict[str, Callable[[Bytes], Bytes]] = {
    "noise": lambda x: data(x.size, 77),
    "one wrong byte": lambda x: np.where(np.arange(x.size) == 5, x ^ 1, x),
    "all bytes off by one": lambda x: x + np.uint8(1),
    "a swapped tile with one more fault": lambda x: np.where(
        np.arange(x.size) == 5, 0, x.reshape(-1, 2)[:, ::-1].ravel()
    ),
    "half swapped": lambda x: np.concatenate([x[: x.size // 2].reshape(-1, 2)[:, ::-1].ravel(), x[x.size // 2 :]]),
    "rows in random order": lambda x: x.reshape(-1, 64)[np.random.default_rng(5).permutation(x.size // 64)].ravel(),
    "constant": lambda x: np.zeros_like(x),
}


@pytest.mark.parametrize("why", UNRELATED)
def test_unrelated_damage_stays_unexplained(why: str) -> None:
    tile = data(2048)
    diagnosis = diagnose_tile(UNRELATED[why](tile).astype(np.uint8), tile, 64, poison=POISON)
    assert not diagnosis.is_explained, why
    assert diagnosis.lines()[-1] == "no known rearrangement explains the rest"


def test_a_partial_explanation_is_counted() -> None:
    tile = data(2048)
    observed = tile.reshape(-1, 2)[:, ::-1].reshape(-1).copy()
    observed[5] ^= 0x55
    best = diagnose_tile(observed, tile, 64).explanations[0]
    assert best.rearrangement.cause is Cause.HALVES
    assert best.contradicted == 1
    assert "contradicts 1" in str(best)


def test_wide_elements_are_diagnosed_as_elements() -> None:
    expected = np.arange(1, 513, dtype=np.uint32)
    observed = expected.reshape(16, 32).T.reshape(-1).copy()
    observed[40] = 0xEEEEEEEE
    diagnosis = diagnose(observed, expected, general(512, 16, 32), poison=0xEEEEEEEE)
    assert diagnosis.unwritten == (Region(40, 41),)
    assert first(diagnosis)[0] is Cause.TRANSPOSED


@given(st.integers(1, 2**17))
def test_index_planes_give_every_map_back(size: int) -> None:
    planes = index_planes(size)
    order = np.random.default_rng(size).permutation(size)
    assert np.array_equal(recover_map(planes[:, order]), order)


def test_a_recovered_map_is_told_bit_by_bit() -> None:
    planes = index_planes(1024)
    placed = np.empty_like(planes)
    placed[:, Swizzle.tma(64).apply(np.arange(1024))] = planes
    found = bit_map(recover_map(placed))
    assert found is not None
    matrix, constant = found
    assert constant == 0
    assert "bit 4 = in 4 ^ in 7, bit 5 = in 5 ^ in 8" in str(matrix)


def test_a_map_with_a_constant_is_affine_and_a_shift_is_not() -> None:
    at = np.arange(256)
    flipped = bit_map(at ^ 6)
    assert flipped is not None
    assert flipped[1] == 6
    assert bit_map(np.roll(at, 1)) is None
    assert bit_map(np.where(at == 3, -1, at)) is None
    assert bit_map(at[:100]) is None


def test_poisoned_planes_name_no_position() -> None:
    planes = index_planes(1000)
    planes[:, 10:20] = POISON
    assert recover_map(planes)[10:20].tolist() == [-1] * 10


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: diagnose(np.zeros(4, np.uint8), np.zeros(5, np.uint8), []), "differ"),
        (lambda: diagnose(np.zeros(4, np.uint8), np.zeros(4, np.int8), []), "differ"),
        (lambda: diagnose(np.zeros(4), np.zeros(4), []), "float64"),
        (lambda: diagnose(np.zeros((2, 2), np.uint8), np.zeros((2, 2), np.uint8), []), "rank 2"),
        (lambda: index_planes(0), "0 elements"),
    ],
)
def test_illegal_requests_are_refused(refused: Callable[[], object], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        refused()
