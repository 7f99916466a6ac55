"""Codes packed into the words that conversion instructions and loads use, and back.

A code sits in a slot: 4 bits for a 4-bit format, 8 bits for an 8-bit one and for a 6-bit one (its top two bits 0, as in
PTX e2m3x2). Element i of a word sits in slot i counted from the *lowest* bits, so that on a little-endian machine
memory holds the codes in order and, of two 4-bit codes in a byte, the first is the low nibble. PTX names the operands
of a pair the other way round: in `cvt.rn.satfinite.e4m3x2.f32 d, a, b` the first source a fills the upper half, so
element order 0, 1 is the instruction `cvt d, x1, x0`. Example:

    pack_words([0x11, 0x22, 0x33, 0x44], E4M3FN, word_bits=32)    0x44332211, in memory 11 22 33 44
    pack_pair(0x11, 0x22, E4M3FN)                                 0x1122, in memory 22 11
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.formats import FloatFormat
from tileproof.oracle.refusal import Refusal

Words = npt.NDArray[Any]

_WORD_BITS = (8, 16, 32)


def slot_bits(record: FloatFormat) -> int:
    """Bits that one code takes in a packed word.

    Raises:
        Refusal: the format is wider than 8 bits.
    """
    if record.bits > 8:
        raise Refusal(f"{record.name} has {record.bits} bits; packing takes formats of at most 8")
    return 4 if record.bits <= 4 else 8


def pack_words(codes: npt.ArrayLike, record: FloatFormat, *, word_bits: int) -> Words:
    """Packs along the last axis, element 0 in the lowest bits.

    Args:
        codes: codes of `record`, shape [..., n], n a multiple of the codes in a word.
        word_bits: 8, 16 or 32.

    Returns:
        uint8, uint16 or uint32 array [..., n * slot_bits / word_bits].

    Raises:
        Refusal: a code is wider than the format, n does not fill words, or `word_bits` is another number.
    """
    if word_bits not in _WORD_BITS:
        raise Refusal(f"words of {word_bits} bits are none of {_WORD_BITS}")
    slot = slot_bits(record)
    per_word = word_bits // slot
    array = record.require_codes(codes)
    if array.ndim == 0 or array.shape[-1] % per_word:
        raise Refusal(
            f"shape {array.shape} does not end in a multiple of {per_word}, "
            f"the codes of {record.name} in {word_bits} bits",
            hint="pad the last axis with code 0",
        )
    groups = array.reshape(*array.shape[:-1], array.shape[-1] // per_word, per_word).astype(np.uint32)
    return np.asarray(np.bitwise_or.reduce(groups << _shifts(per_word, slot), axis=-1).astype(f"u{word_bits // 8}"))


def unpack_words(words: Words, record: FloatFormat) -> npt.NDArray[np.uint8]:
    """The codes of packed words, element 0 from the lowest bits; undoes `pack_words`.

    Args:
        words: uint8, uint16 or uint32 array [..., n].

    Returns:
        uint8 codes [..., n * word bits / slot_bits].

    Raises:
        Refusal: another word type, or a slot holds more than a code of the format (6-bit formats: top two bits set).
    """
    array = np.asarray(words)
    if array.dtype.kind != "u" or array.itemsize * 8 not in _WORD_BITS or array.ndim == 0:
        raise Refusal(f"words of type {array.dtype} and shape {array.shape} are no array of uint8, uint16 or uint32")
    slot = slot_bits(record)
    per_word = array.itemsize * 8 // slot
    slots = array[..., np.newaxis].astype(np.uint32) >> _shifts(per_word, slot) & np.uint32(2**slot - 1)
    return record.require_codes(slots.reshape(*array.shape[:-1], array.shape[-1] * per_word))


def pack_pair(first: npt.ArrayLike, second: npt.ArrayLike, record: FloatFormat) -> Words:
    """Packs two operands as PTX `cvt....x2 d, first, second` does: `first` in the upper half (PTX ISA 9.1, cvt).

    Args:
        first: codes of `record`, any shape.
        second: codes of `record`, the same shape.

    Returns:
        uint16 array of that shape; uint8 for a 4-bit format.

    Raises:
        Refusal: a code is wider than the format, or the shapes differ.
    """
    upper, lower = record.require_codes(first), record.require_codes(second)
    if upper.shape != lower.shape:
        raise Refusal(f"shapes {upper.shape} and {lower.shape} of a pair differ")
    return pack_words(np.stack([lower, upper], axis=-1), record, word_bits=2 * slot_bits(record))[..., 0]


def _shifts(per_word: int, slot: int) -> npt.NDArray[np.uint32]:
    return np.arange(per_word, dtype=np.uint32) * np.uint32(slot)
