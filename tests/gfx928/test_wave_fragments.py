"""Fragments of gfx928 against the formulas as published: loads, the 8-byte load, the unit, the shuffled epilogue."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.addresses.bijection import NotABijection
from tileproof.oracle.maps.dumma_fragments import DUMMA_A, DUMMA_B, DUMMA_C
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928 import transpose_epilogue
from tileproof.simulators.gfx928.lds_phases import SHOWN_STRIDES
from tileproof.simulators.gfx928.matrix_unit import mmac
from tileproof.simulators.gfx928.operand_loads import (
    A_ROW_MAJOR,
    B_COLUMN_MAJOR,
    B_ROW_MAJOR,
    LOADS,
    OperandLoad,
    load_fragment8,
    prove_load,
)
from tileproof.simulators.gfx928.wave import shfl_xor

RANDOM = np.random.default_rng(928)


def int8_matrix(rows: int, columns: int) -> npt.NDArray[np.int8]:
    return RANDOM.integers(-128, 128, (rows, columns), np.int8)


@pytest.mark.parametrize("lane", range(64))
def test_addresses_are_the_published_ones(lane: int) -> None:
    r, q, pitch = lane & 15, lane >> 4, 80
    for i in range(8):
        assert A_ROW_MAJOR.addresses(pitch)[lane, i] == r * pitch + 8 * q + i
        assert B_COLUMN_MAJOR.addresses(pitch)[lane, i] == r * pitch + 8 * q + i
        assert B_ROW_MAJOR.addresses(pitch)[lane, i] == (8 * q + i) * pitch + r
    for i in range(4):
        assert DUMMA_C.locate(lane, i, 0) == (r, q + 4 * i)


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
@pytest.mark.parametrize("pitch", [*SHOWN_STRIDES, 4096])
def test_every_load_is_proved_to_bring_each_element_once_to_its_place(load: OperandLoad, pitch: int) -> None:
    assert prove_load(load, pitch).elements == 512


def test_a_load_of_the_wrong_operand_order_is_not_proved() -> None:
    with pytest.raises(NotABijection, match="holds the element"):
        prove_load(replace(B_ROW_MAJOR, fragment=replace(DUMMA_B, lane=DUMMA_B.lane[::-1])), 80)


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_a_loaded_fragment_gives_the_matrix_back(load: OperandLoad) -> None:
    matrix = int8_matrix(16, 32)
    lines = matrix if load.along_k else matrix.T
    memory = np.full((load.lines, 80), 0xEE, np.uint8)
    memory[:, : load.line_bytes] = lines.view(np.uint8)
    np.testing.assert_array_equal(load.fragment.scatter(load.load(memory.reshape(-1), 80), np.int8), matrix)


@pytest.mark.parametrize("load", [A_ROW_MAJOR, B_COLUMN_MAJOR], ids=lambda load: load.name)
@pytest.mark.parametrize("pitch", [64, 72, 80, 88, 136, 144, 208, 272])
def test_one_read_of_8_bytes_gives_the_same_fragment_as_single_bytes(load: OperandLoad, pitch: int) -> None:
    memory = RANDOM.integers(0, 256, 16 * pitch, np.uint8)
    np.testing.assert_array_equal(load_fragment8(load, memory, pitch), load.load(memory, pitch))


def test_the_8_byte_load_refuses_bytes_that_are_no_neighbours_or_not_aligned() -> None:
    memory = np.zeros(32 * 80, np.uint8)
    with pytest.raises(Refusal, match="80 bytes apart"):
        load_fragment8(B_ROW_MAJOR, memory, 80)
    with pytest.raises(Refusal, match="pitch 68 is no multiple of 8"):
        load_fragment8(A_ROW_MAJOR, memory, 68)


@pytest.mark.parametrize("memory", [np.zeros(1231, np.uint8), np.zeros(4096, np.int32), np.zeros((64, 80), np.uint8)])
def test_memory_that_ends_before_the_tile_or_is_no_bytes_is_refused(memory: npt.NDArray[np.uint8]) -> None:
    assert A_ROW_MAJOR.load(np.zeros(1232, np.uint8), 80).shape == (64, 2)
    for load in (OperandLoad.load, load_fragment8):
        with pytest.raises(Refusal, match="A row-major: memory of"):
            load(A_ROW_MAJOR, memory, 80)


def test_lines_that_overlap_are_refused() -> None:
    with pytest.raises(Refusal, match="pitch of 31 bytes"):
        A_ROW_MAJOR.addresses(31)


def test_the_unit_multiplies_and_adds_exactly() -> None:
    a, b = int8_matrix(16, 32), int8_matrix(16, 32)
    c = RANDOM.integers(-(2**29), 2**29, (16, 16), np.int32)
    words = mmac(DUMMA_A.gather(a), DUMMA_B.gather(b), DUMMA_C.gather(c))
    np.testing.assert_array_equal(
        DUMMA_C.scatter(words, np.int32), a.astype(np.int64) @ b.astype(np.int64).T + c.astype(np.int64)
    )


@pytest.mark.parametrize("largest", [2**31 - 1, -(2**31)])
def test_a_sum_beyond_int32_is_refused_and_the_last_one_within_is_not(largest: int) -> None:
    sign = 1 if largest > 0 else -1
    one = np.zeros((16, 32), np.int8)
    one[:, 0] = 1
    ends = np.full((16, 16), largest, np.int32)
    a, b = DUMMA_A.gather(one), DUMMA_B.gather(sign * one)
    np.testing.assert_array_equal(DUMMA_C.scatter(mmac(a, b, DUMMA_C.gather(ends - np.int32(sign))), np.int32), ends)
    with pytest.raises(Refusal, match="wraps or saturates"):
        mmac(a, b, DUMMA_C.gather(ends))


def test_the_transpose_brings_every_element_once_to_the_lane_that_stores_it() -> None:
    assert transpose_epilogue.prove_transpose().elements == 256


def test_a_lane_stores_four_neighbouring_columns() -> None:
    matrix = RANDOM.integers(-(2**31), 2**31, (16, 16), np.int32)
    moved = transpose_epilogue.transpose(DUMMA_C.gather(matrix)).view(np.int32)
    for lane in range(64):
        r, q = lane & 15, lane >> 4
        np.testing.assert_array_equal(moved[lane], matrix[r, 4 * q : 4 * q + 4])


@pytest.mark.parametrize(("shape", "bit"), [((64, 4), 2), ((64, 4), -1), ((64, 8), 0), ((32, 4), 0)])
def test_an_exchange_of_other_values_is_refused(shape: tuple[int, ...], bit: int) -> None:
    with pytest.raises(Refusal, match="an exchange of"):
        transpose_epilogue.exchange(np.zeros(shape), bit)


@pytest.mark.parametrize("masks", [(16, 16), (32, 16), (16, 8), (1, 2)])
def test_a_transpose_by_other_masks_is_not_proved(masks: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transpose_epilogue, "MASKS", masks)
    with pytest.raises(NotABijection):
        transpose_epilogue.prove_transpose()


def test_a_shuffle_takes_64_lanes_and_a_mask_of_the_wave() -> None:
    lanes = np.arange(64)
    np.testing.assert_array_equal(shfl_xor(lanes, 48), lanes ^ 48)
    for values, mask in ((lanes, 64), (lanes[:32], 16), (np.array(3), 1)):
        with pytest.raises(Refusal, match="shfl_xor"):
            shfl_xor(values, mask)
