"""Packed words hold codes where PTX and little-endian memory put them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.formats import E2M1FN, E2M3FN, E3M2FN, E4M3FN, FLOAT16, FORMATS, FloatFormat
from tileproof.oracle.packing import pack_pair, pack_words, slot_bits, unpack_words
from tileproof.oracle.refusal import Refusal

each_format = pytest.mark.parametrize("record", FORMATS.values(), ids=FORMATS)
each_width = pytest.mark.parametrize("word_bits", [8, 16, 32])


def codes_of(record: FloatFormat, *shape: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(7).integers(0, 2**record.bits, shape).astype(np.uint8)


@each_width
@each_format
def test_unpacking_undoes_packing(record: FloatFormat, word_bits: int) -> None:
    codes = codes_of(record, 3, 2, 16)
    words = pack_words(codes, record, word_bits=word_bits)
    assert words.shape == (3, 2, 16 * slot_bits(record) // word_bits)
    assert words.dtype == f"u{word_bits // 8}"
    back = unpack_words(words, record)
    assert back.dtype == np.uint8
    assert (back == codes).all()


@each_width
@pytest.mark.parametrize("record", [r for r in FORMATS.values() if r.bits > 4], ids=lambda r: r.name)
def test_words_in_little_endian_memory_are_the_codes_in_order(record: FloatFormat, word_bits: int) -> None:
    codes = codes_of(record, 64)
    words = pack_words(codes, record, word_bits=word_bits)
    assert words.astype(words.dtype.newbyteorder("<")).tobytes() == codes.tobytes()


@pytest.mark.parametrize(
    ("codes", "record", "word_bits", "word"),
    [
        ([0x11, 0x22, 0x33, 0x44], E4M3FN, 32, 0x44332211),
        ([0x7E, 0xFF], E4M3FN, 16, 0xFF7E),
        ([0x1, 0x2], E2M1FN, 8, 0x21),
        ([1, 2, 3, 4], E2M1FN, 16, 0x4321),
        ([1, 2, 3, 4, 5, 6, 7, 15], E2M1FN, 32, 0xF7654321),
        ([0x3F, 0x01], E2M3FN, 16, 0x013F),
        ([0x3F, 0x01, 0x20, 0x15], E3M2FN, 32, 0x1520013F),
    ],
)
def test_the_first_code_is_in_the_lowest_bits(codes: list[int], record: FloatFormat, word_bits: int, word: int) -> None:
    assert pack_words(codes, record, word_bits=word_bits).tolist() == [word]
    assert unpack_words(np.array([word], f"u{word_bits // 8}"), record).tolist() == codes


@pytest.mark.parametrize(
    ("record", "first", "second", "word", "dtype"),
    [
        (E4M3FN, 0x11, 0x22, 0x1122, np.uint16),  # PTX ISA 9.1, cvt: "a is converted and stored in the upper half"
        (E2M3FN, 0x3F, 0x01, 0x3F01, np.uint16),
        (E2M1FN, 0x7, 0x8, 0x78, np.uint8),
    ],
)
def test_the_first_operand_of_a_ptx_pair_is_the_upper_half(
    record: FloatFormat, first: int, second: int, word: int, dtype: type
) -> None:
    packed = pack_pair(first, second, record)
    assert packed.dtype == dtype
    assert int(packed) == word
    assert unpack_words(packed.reshape(1), record).tolist() == [second, first]


def test_pairs_pack_elementwise() -> None:
    first, second = codes_of(E4M3FN, 2, 3), codes_of(E4M3FN, 2, 3)[::-1]
    assert (pack_pair(first, second, E4M3FN) == first.astype(np.uint16) * 256 + second).all()


def test_swapped_or_dropped_halves_are_seen() -> None:
    """Known-bad twins of pack_words: the pair the wrong way round, and the upper pair of a 32-bit word lost."""
    codes = np.array([0x11, 0x22, 0x33, 0x44], np.uint8)
    right = pack_words(codes, E4M3FN, word_bits=32)
    assert pack_words(codes[[1, 0, 3, 2]], E4M3FN, word_bits=32) != right
    assert pack_words(codes[[2, 3, 0, 1]], E4M3FN, word_bits=32) != right
    assert right & np.uint32(0xFFFF) != right


@each_width
def test_strided_and_empty_arrays_pack(word_bits: int) -> None:
    codes = codes_of(E4M3FN, 8, 6)
    packed = pack_words(codes.T, E4M3FN, word_bits=word_bits)
    assert (packed == pack_words(np.ascontiguousarray(codes.T), E4M3FN, word_bits=word_bits)).all()
    assert (
        unpack_words(packed[:, ::-1], E4M3FN)[:, :1] == unpack_words(packed, E4M3FN)[:, -(word_bits // 8)][:, None]
    ).all()
    for shape in ((0,), (0, 4), (4, 0)):
        empty = pack_words(np.zeros(shape, np.uint8), E4M3FN, word_bits=word_bits)
        assert empty.shape == (*shape[:-1], shape[-1] * 8 // word_bits)
        assert unpack_words(empty, E4M3FN).shape == shape


@pytest.mark.parametrize(
    ("codes", "record", "word_bits", "message"),
    [
        (np.zeros(3, np.uint8), E4M3FN, 16, r"shape \(3,\) does not end in a multiple of 2"),
        (np.uint8(1), E4M3FN, 8, r"shape \(\) does not end"),
        (np.zeros(4, np.uint8), E4M3FN, 64, "words of 64 bits"),
        (np.array([16, 0], np.uint8), E2M1FN, 8, "code 16 .* outside 0..15"),
        (np.array([64, 0], np.uint8), E2M3FN, 16, "code 64 .* outside 0..63"),
        (np.zeros(2, np.uint16), FLOAT16, 32, "FLOAT16 has 16 bits"),
        (np.zeros(2), E4M3FN, 16, "integers, not float64"),
    ],
)
def test_what_does_not_pack_is_refused(
    codes: npt.NDArray[Any], record: FloatFormat, word_bits: int, message: str
) -> None:
    with pytest.raises(Refusal, match=message):
        pack_words(codes, record, word_bits=word_bits)


@pytest.mark.parametrize(
    ("words", "record", "message"),
    [
        (np.array([0x4000], np.uint16), E2M3FN, "code 64 .* outside 0..63"),
        (np.array([1], np.int32), E4M3FN, "type int32"),
        (np.array([1], np.uint64), E4M3FN, "type uint64"),
        (np.uint32(1), E4M3FN, r"shape \(\)"),
    ],
)
def test_words_that_hold_no_codes_are_refused(words: npt.NDArray[Any], record: FloatFormat, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        unpack_words(words, record)


def test_a_pair_of_different_shapes_is_refused() -> None:
    with pytest.raises(Refusal, match=r"shapes \(2,\) and \(3,\) of a pair differ"):
        pack_pair([1, 2], [1, 2, 3], E4M3FN)
