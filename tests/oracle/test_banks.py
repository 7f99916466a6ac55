"""Bank conflicts: the H200 recording, textbook patterns, LDS strides of the INT8 kernels, wrong twins."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.addresses.lds_tile import STRIDES, LdsTile, publish_position
from tileproof.oracle.addresses.xor_tile import tile_at
from tileproof.oracle.banks import LDS, SHARED, Access, BankUse, bank_use
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.refusal import Refusal

GOLDEN = Path(__file__).parents[1] / "golden" / "h200_shared_banks.npz"
IDLE = 16384
LANE = np.arange(32)

Counter = Callable[[npt.NDArray[np.int64], int, Access, npt.NDArray[np.bool_]], int]


def passes(addresses: npt.NDArray[np.int64], width: int, access: Access, active: npt.NDArray[np.bool_]) -> int:
    return bank_use(addresses, width, access=access, active=active).passes


def separates(count: Counter, width: int, access: Access) -> bool:
    """Whether recorded times fall into bands that rise with the counted passes and do not touch.

    A pass of all 8 warps and 64 repeats costs 440 cycles or more; times of equal counts lie within 150.
    """
    with np.load(GOLDEN) as recording:
        patterns, cycles = recording[f"addresses{width}"].astype(np.int64), recording[f"{access.value}{width}"]
    active = patterns < IDLE
    counts = np.array([count(np.where(a, p, 0), width, access, a) for p, a in zip(patterns, active, strict=True)])
    bands = [(cycles[counts == c].min(), cycles[counts == c].max()) for c in sorted(set(counts.tolist()))]
    narrow = all(high - low < 150 for low, high in bands)
    return narrow and all(above[0] - below[1] > 300 for below, above in pairwise(bands))


@pytest.mark.parametrize("access", Access)
@pytest.mark.parametrize("width", [4, 8, 16])
def test_recorded_times_follow_the_counted_passes(width: int, access: Access) -> None:
    assert separates(passes, width, access)
    assert SHARED.evidence is Evidence.MEASURED


#: Wrong rules, with an access that shows them up in the recording.
TWINS: tuple[tuple[str, int, Access, Counter], ...] = (
    ("a shared word is not shared", 4, Access.LOAD, lambda a, w, x, on: busiest(a[on] // 4)),
    ("whole warp in one phase", 16, Access.LOAD, lambda a, w, x, on: one_phase(a[on], w)),
    ("no pairing of phases", 8, Access.LOAD, lambda a, w, x, on: passes(a, w, Access.STORE, on)),
    ("pairing of stores", 8, Access.STORE, lambda a, w, x, on: passes(a, w, Access.LOAD, on)),
    ("16 banks", 4, Access.STORE, lambda a, w, x, on: busiest(np.unique(a[on] // 4), 16)),
    ("idle lanes count", 4, Access.LOAD, lambda a, w, x, on: passes(a, w, x, np.ones_like(on))),
)


def busiest(words: npt.NDArray[np.int64], banks: int = 32) -> int:
    return int(np.bincount(words % banks, minlength=banks).max()) if words.size else 0


def one_phase(addresses: npt.NDArray[np.int64], width: int) -> int:
    words = addresses[:, np.newaxis] // 4 + np.arange(width // 4)
    return busiest(np.unique(words))


@pytest.mark.parametrize(("why", "width", "access", "twin"), TWINS, ids=[t[0] for t in TWINS])
def test_wrong_rules_do_not_fit_the_recording(why: str, width: int, access: Access, twin: Counter) -> None:
    assert not separates(twin, width, access), why


@pytest.mark.parametrize(
    ("addresses", "width", "use"),
    [
        (LANE * 4, 4, BankUse(1, 1, 1)),
        (LANE * 0, 4, BankUse(1, 1, 1)),
        (LANE * 8, 4, BankUse(1, 2, 2)),
        (LANE * 64, 4, BankUse(1, 16, 16)),
        (LANE * 128, 4, BankUse(1, 32, 32)),
        (LANE * 132, 4, BankUse(1, 1, 1)),
        (LANE, 1, BankUse(1, 1, 1)),
        (LANE * 2, 2, BankUse(1, 1, 1)),
        (LANE * 8, 8, BankUse(2, 2, 1)),
        (LANE // 2 * 8, 8, BankUse(1, 1, 1)),
        (LANE * 16, 16, BankUse(4, 4, 1)),
        (LANE * 128, 16, BankUse(4, 32, 8)),
        (LANE * 0, 16, BankUse(2, 2, 1)),
    ],
)
def test_textbook_patterns(addresses: npt.NDArray[np.int64], width: int, use: BankUse) -> None:
    assert bank_use(addresses, width) == use
    assert bank_use(addresses, width).conflicts == use.passes - use.phases


@pytest.mark.parametrize("k", [32, 64, 128])
def test_ldmatrix_rows_of_a_swizzled_tile_are_free_of_conflicts_and_of_a_plain_tile_are_not(k: int) -> None:
    rows = LANE % 8 + LANE // 16 * 8
    half = LANE // 8 % 2 * 16  # ldmatrix.x4: 8 lanes a phase give the rows of one matrix
    swizzled = tile_at(k).offset(rows.astype(np.int64), half.astype(np.int64))
    assert bank_use(swizzled, 16).conflicts == 0
    assert bank_use(rows * k + half, 16).conflicts > 0


def test_a_warp_without_active_lanes_costs_nothing() -> None:
    assert bank_use(LANE * 4, 16, active=np.zeros(32, bool)) == BankUse(0, 0, 0)


@pytest.mark.parametrize(
    ("stride", "ways"), [(68, 2), (72, 1), (80, 2), (88, 1), (136, 1), (144, 2), (208, 2), (272, 2), (64, 8), (128, 16)]
)
def test_lds_fragment_reads_by_stride(stride: int, ways: int) -> None:
    tile = LdsTile(64, 64, stride)
    assert tile.fragment_use().ways == ways
    assert tile.aliases == (stride % 128 == 0)


def test_bank_facts_of_the_kernel_comments() -> None:
    for words, values in ((22, 16), (18, 16), (20, 8)):  # strides 88, 72 permute the even banks; 80 has period 8
        assert len({words * row % 32 for row in range(16)}) == values
    assert all(word % 2 == 0 for word in {22 * row % 32 for row in range(16)})


def test_store_width_follows_the_stride() -> None:
    assert {stride: LdsTile(16, 64, stride).store_bytes for stride in STRIDES} == {
        68: 4,
        72: 8,
        80: 16,
        88: 8,
        136: 8,
        144: 16,
        208: 16,
        272: 16,
    }


@pytest.mark.parametrize(
    ("tiles", "size"),
    [
        (((64, 68), (128, 80)), 14_592),
        (((128, 80), (64, 80)) * 2, 30_720),
        (((128, 80), (64, 72)) * 2, 29_696),
        (((64, 88), (128, 72)) * 2, 29_696),
        (((128, 72), (64, 72)) * 2, 27_648),
        (((256, 88), (64, 72)), 27_136),
        (((64, 88), (128, 72)), 14_848),
    ],
)
def test_lds_sizes_of_the_accepted_kernels(tiles: tuple[tuple[int, int], ...], size: int) -> None:
    assert sum(LdsTile(rows, 64, stride).size_bytes for rows, stride in tiles) == size


def test_the_q_b_publish_map_fills_its_tile_once() -> None:
    positions = [publish_position(thread) for thread in range(256)]
    assert sorted(positions) == [(row, byte) for row in range(64) for byte in range(0, 64, 16)]


def test_waves_use_phases_of_the_same_bytes() -> None:
    wave = np.arange(64)
    assert bank_use(wave * 4, 4, memory=LDS) == BankUse(2, 2, 1)
    assert bank_use(wave * 8, 8, memory=LDS) == BankUse(4, 4, 1)
    assert bank_use(wave * 128, 8, memory=LDS) == BankUse(4, 64, 16)
    assert LDS.evidence is Evidence.DOCUMENTED


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: bank_use(LANE * 4, 12), "12 bytes a lane"),
        (lambda: bank_use(LANE * 4, 8), "lane 1: address 4"),
        (lambda: bank_use(LANE - 1, 1), "lane 0: address -1"),
        (lambda: bank_use(np.arange(64), 1), "has 32 lanes"),
        (lambda: bank_use(LANE, 1, memory=LDS), "has 64 lanes"),
        (lambda: LdsTile(64, 64, 62), "stride 62"),
        (lambda: LdsTile(64, 64, 66), "stride 66"),
        (lambda: LdsTile(1024, 64, 80), "do not fit 65536"),
        (lambda: LdsTile(4, 64, 80).offset(4, 0), "row 4"),
        (lambda: publish_position(256), "thread 256"),
    ],
)
def test_illegal_requests_are_refused(refused: Callable[[], object], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        refused()
