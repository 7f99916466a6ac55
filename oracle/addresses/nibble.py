"""Two 4-bit codes in a byte: element 0 in the low nibble, as in the words of every layout here.

The other order (element 0 in the high nibble) exists in the field and is a defect where it is not meant; `swap` makes
one from the other. Example: codes 1, 2 are the byte 0x21, swapped 0x12.

Source: PTX ISA 9.1, e2m1x2 in memory; AutoAWQ and GPTQ shift element i of a word by 4 · i bits.
"""

import numpy as np
import numpy.typing as npt

from tileproof.oracle.refusal import Refusal

Codes = npt.NDArray[np.uint8]


def join(codes: Codes) -> Codes:
    """Bytes of 4-bit codes.

    Args:
        codes: uint8 [n], n even, each below 16.

    Returns:
        uint8 [n / 2].

    Raises:
        Refusal: an odd count, another type or rank, or a code above 15.
    """
    array = np.asarray(codes)
    if array.dtype != np.uint8 or array.ndim != 1 or array.size % 2:
        raise Refusal(f"codes of type {array.dtype} and shape {array.shape}; join takes uint8 [n] with n even")
    if np.any(array > 15):
        raise Refusal(f"code {array.max()} is above 15, the largest of 4 bits")
    return np.asarray(array[0::2] | array[1::2] << np.uint8(4))


def split(packed: Codes) -> Codes:
    """4-bit codes of bytes, low nibble first; undoes `join`.

    Args:
        packed: uint8 [n].

    Returns:
        uint8 [2 n].

    Raises:
        Refusal: another type or rank.
    """
    array = np.asarray(packed)
    if array.dtype != np.uint8 or array.ndim != 1:
        raise Refusal(f"packed codes of type {array.dtype} and shape {array.shape}; split takes uint8 [n]")
    return np.stack([array & np.uint8(15), array >> np.uint8(4)], axis=1).reshape(-1)


def swap(packed: Codes) -> Codes:
    """Both nibbles of every byte exchanged."""
    return np.asarray(packed << np.uint8(4) | packed >> np.uint8(4))
