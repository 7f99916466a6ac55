"""Wrong ways to make 8-bit codes of float32 values."""

from collections.abc import Callable, Iterator
from functools import partial

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.triage.cause import Cause
from tileproof.oracle.formats import E4M3FN, E5M2, FloatFormat

Values = NDArray[np.float32]
Codes = NDArray[np.uint8]
Encode = Callable[[Values], Codes]


def encode_rules(record: FloatFormat) -> Iterator[tuple[Cause, str, Encode]]:
    """Each wrong encoding, the usual mistakes first."""

    def right(values: Values) -> Codes:
        with np.errstate(all="ignore"):
            return np.asarray(record.encode(values))

    yield Cause.ROUNDING, "codes are cut toward zero", lambda v: _with_sign(record, v, "toward-zero")
    yield Cause.ROUNDING, "ties go away from zero", lambda v: _ties_away(record, v)
    for name, dtype in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
        yield Cause.DOUBLE_ROUNDING, f"values are rounded to {name} first", _through(right, dtype)
    yield (
        Cause.OVERFLOW,
        "values beyond the range keep the low bits of their exponent",
        lambda v: right(_wrapped(record, v)),
    )
    for overflow in ("nan", "inf"):
        if overflow == "nan" or record is E5M2:
            yield Cause.OVERFLOW, f"values beyond the range become {overflow}", _beyond(record, overflow)
    yield Cause.OVERFLOW, "the largest binade saturates", lambda v: _binade_early(record, right(v))
    yield Cause.SUBNORMALS, "subnormal codes become zero", lambda v: _flushed(record, right(v))
    for vector in (4, 8, 16):
        text = f"in whole vectors of {vector} codes, of each four the last two are zero"
        yield Cause.PART_LOST, text, partial(lambda vector, v: _half(right(v), vector), vector)
    yield Cause.HALVES_SWAPPED, "of each two codes the first comes last", lambda v: _exchanged(right(v), 1)
    yield Cause.HALVES_SWAPPED, "of each four codes the first two come last", lambda v: _exchanged(right(v), 2)
    if record in (E4M3FN, E5M2):
        other = E5M2 if record is E4M3FN else E4M3FN
        yield Cause.FORMAT, f"codes are those of {other.name}", lambda v: np.asarray(other.encode(v))


def _with_sign(record: FloatFormat, values: Values, rounding: str) -> Codes:
    return np.asarray(record.encode(values, rounding=rounding))


def _ties_away(record: FloatFormat, values: Values) -> Codes:
    """Nearest, and of the two nearest the larger magnitude."""
    low, even = (np.asarray(record.encode(values, rounding=how)) for how in ("toward-zero", "nearest-even"))
    up = np.where(low & 0x7F < record.max_code & 0x7F, low + 1, low).astype(np.uint8)
    with np.errstate(all="ignore"):
        magnitude = np.abs(values.astype(np.float64))
        middle = (np.abs(record.decode(low)) + np.abs(record.decode(up))) / 2
    return np.where(magnitude == middle, up, even).astype(np.uint8)


def _through(encode: Encode, dtype: type) -> Encode:
    def rounded(values: Values) -> Codes:
        with np.errstate(all="ignore"):
            return encode(values.astype(dtype).astype(np.float32))

    return rounded


def _wrapped(record: FloatFormat, values: Values) -> Values:
    """A float32 beyond the range loses the second bit of its exponent, which makes 512 a 2."""
    limit = np.float32(464 if record is E4M3FN else 61440)
    bits = values.view(np.uint32)
    return np.where(np.abs(values) >= limit, bits & np.uint32(0xBFFFFFFF), bits).view(np.float32)


def _beyond(record: FloatFormat, overflow: str) -> Encode:
    return lambda values: np.asarray(record.encode(values, overflow=overflow))


def _binade_early(record: FloatFormat, codes: Codes) -> Codes:
    top = record.max_code & 0x7F
    first = top >> record.mantissa_bits << record.mantissa_bits
    return np.where((codes & 0x7F >= first) & (codes & 0x7F <= top), codes & 0x80 | top, codes).astype(np.uint8)


def _flushed(record: FloatFormat, codes: Codes) -> Codes:
    return np.where(codes & 0x7F < 1 << record.mantissa_bits, codes & 0x80, codes).astype(np.uint8)


def _half(codes: Codes, vector: int) -> Codes:
    found = codes.copy()
    whole = codes.shape[-1] // vector * vector
    found[..., 2:whole:4] = found[..., 3:whole:4] = 0
    return found


def _exchanged(codes: Codes, distance: int) -> Codes:
    place = np.arange(codes.shape[-1])
    other = place ^ distance
    return codes[..., np.where(other < codes.shape[-1] // (2 * distance) * 2 * distance, other, place)]
