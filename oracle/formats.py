"""The number formats by name, with `decode` and `encode` on arrays and `number` and `round` on one exact number.

Codes are unsigned integers, one right-aligned code an element (uint8 for the eight narrow formats). Example:

    >>> E4M3FN.encode(np.array([1.0, 464.0, 1e9, -0.0, np.nan], np.float32))
    array([ 56, 126, 126, 128, 127], dtype=uint8)
    >>> E4M3FN.decode(np.array([56, 126], np.uint8))
    array([  1., 448.])

How a conversion rounds is defined in `convert`, on single numbers; arrays take `convert_array` or, for speed, `lookup`.
"""

from functools import cache
from typing import Any, TypeVar, overload

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tileproof.oracle.numbers.convert import decode_number, encode_number
from tileproof.oracle.numbers.convert_array import Codes, in_chunks, join_parts, split_codes, split_integers
from tileproof.oracle.numbers.format_record import FormatRecord, NanRule, Specials
from tileproof.oracle.numbers.lookup import encode_by_table, has_table
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding, choose
from tileproof.oracle.refusal import Refusal

Out = TypeVar("Out", bound=npt.NDArray[Any])


class FloatFormat(FormatRecord):
    """A number format that converts: the record of its widths and rules, and the conversions that follow from them."""

    def __repr__(self) -> str:
        return self.name

    @overload
    def decode(self, codes: npt.ArrayLike, *, out: None = None) -> npt.NDArray[np.float64]: ...

    @overload
    def decode(self, codes: npt.ArrayLike, *, out: Out) -> Out: ...

    def decode(self, codes: npt.ArrayLike, *, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """The values of codes, exactly.

        Args:
            codes: integers 0 .. 2^bits - 1, any shape.
            out: float32 or float64, contiguous and of that shape, to be written; formats of at most 16 bits only. This
                is the fast way, see `compiled_convert`.

        Returns:
            `out`, or a float64 array of the same shape; a NaN code gives the quiet NaN.

        Raises:
            Refusal: not an integer array, a code is wider than the format, or another `out`.
        """
        bits = self.require_codes(codes)
        if out is not None:
            return _decode_into(self, bits, out)
        if self.bits <= 16:
            return np.asarray(_values(self)[bits])
        return in_chunks(lambda chunk: _to_float64(self, chunk), bits, np.dtype(np.float64))

    def encode(
        self,
        values: npt.ArrayLike,
        *,
        rounding: str = "nearest-even",
        overflow: str = "saturate",
        out: Codes | None = None,
    ) -> Codes:
        """The codes of values, rounded once from the type that the values have.

        Args:
            values: float64, float32, float16, bfloat16 or any integer type, any shape and byte order. A list is first
                made an array by numpy.
            rounding: "nearest-even" | "toward-zero" | "up" | "down", see `rounding.Rounding`.
            overflow: "saturate" | "nan" | "inf": what infinities, and finite values beyond the largest finite value
                after rounding, become; see `rounding.Overflow`.
            out: of `code_dtype`, contiguous and of the values' shape, to be written. This is the fast way: by
                nearest-even from float32, float16 or bfloat16 to a narrower format it runs `compiled_convert`.

        Returns:
            `out`, or an array of `code_dtype` and the same shape. NaN becomes `nan_code`; see `nan_table`.

        Raises:
            Refusal: another type; an unknown rounding or overflow, or one that the format lacks; for E8M0 a zero or
                negative value; another `out`.
        """
        array = np.asarray(values)
        direction, rule = choose(Rounding, rounding, "rounding"), choose(Overflow, overflow, "overflow")
        self.overflow_code(rule)  # refuses a mode that the format lacks
        if out is not None:
            return _encode_into(self, array, direction, rule, out)
        if array.dtype.kind in "iu":
            return in_chunks(lambda i: join_parts(self, split_integers(i), direction, rule), array, self.code_dtype)
        source = source_format(array.dtype)
        bits = array.astype(array.dtype.newbyteorder("="), copy=False).view(source.code_dtype)
        if has_table(self, source):
            return encode_by_table(self, source, bits, direction, rule)
        return in_chunks(lambda b: join_parts(self, split_codes(source, b), direction, rule), bits, self.code_dtype)

    def number(self, code: int) -> Number:
        """The exact number of one code; see `convert.decode_number`."""
        return decode_number(self, code)

    def round(
        self, number: Number, rounding: Rounding = Rounding.NEAREST_EVEN, overflow: Overflow = Overflow.SATURATE
    ) -> int:
        """The code of one exact number, rounded once; see `convert.encode_number`."""
        return encode_number(self, number, rounding, overflow)

    def require_codes(self, codes: npt.ArrayLike) -> Codes:
        """The codes as an array of `code_dtype`.

        Raises:
            Refusal: not an integer array, or a code is wider than the format.
        """
        array = np.asarray(codes)
        if array.size == 0 and array.dtype.kind in "iuf":
            return np.zeros(array.shape, self.code_dtype)  # numpy calls an empty list float64
        if array.dtype.kind not in "iu":
            raise Refusal(
                f"codes of {self.name} are integers, not {array.dtype}", hint=f"view them as {self.code_dtype}"
            )
        if array.dtype == self.code_dtype and array.itemsize * 8 == self.bits:
            return array
        wrong = np.flatnonzero((array < 0) | (array > 2**self.bits - 1))
        if wrong.size:
            raise Refusal(
                f"code {array.flat[wrong[0]]} (element {wrong[0]}) is outside 0..{2**self.bits - 1}, "
                f"the codes of {self.name}",
                hint="codes are right-aligned, one an element; unpack words first (packing.unpack_words)",
            )
        return array.astype(self.code_dtype, copy=False)


_OFP8 = "OCP 8-bit Floating Point Specification (OFP8) 1.0, section 4"
_MX = "OCP Microscaling Formats (MX) 1.0, section 5"
_FNUZ = "Noune et al., 8-bit Numerical Formats for Deep Neural Networks, arXiv 2206.02915"
_IEEE = "IEEE 754-2019, 3.4"
_CVT = "PTX ISA 9.1, cvt"

E4M3FN = FloatFormat(
    name="E4M3FN",
    exponent_bits=4,
    mantissa_bits=3,
    specials=Specials.ALL_ONES_NAN,
    nan_rule=NanRule.ALL_ONES,
    nan_source=f"{_CVT}.e4m3x2",
    source=_OFP8,
)
E5M2 = FloatFormat(
    name="E5M2",
    exponent_bits=5,
    mantissa_bits=2,
    specials=Specials.IEEE,
    nan_rule=NanRule.ALL_ONES,
    nan_source=f"{_CVT}.e5m2x2",
    source=_OFP8,
)
E4M3FNUZ = FloatFormat(
    name="E4M3FNUZ",
    exponent_bits=4,
    mantissa_bits=3,
    specials=Specials.NEGATIVE_ZERO_NAN,
    nan_rule=NanRule.NEGATIVE_ZERO,
    nan_source="the format has one NaN",
    source=_FNUZ,
)
E5M2FNUZ = FloatFormat(
    name="E5M2FNUZ",
    exponent_bits=5,
    mantissa_bits=2,
    specials=Specials.NEGATIVE_ZERO_NAN,
    nan_rule=NanRule.NEGATIVE_ZERO,
    nan_source="the format has one NaN",
    source=_FNUZ,
)
E2M1FN = FloatFormat(
    name="E2M1FN",
    exponent_bits=2,
    mantissa_bits=1,
    specials=Specials.NONE,
    nan_rule=NanRule.LARGEST,
    nan_source=f"{_CVT}.e2m1x2",
    source=_MX,
)
E2M3FN = FloatFormat(
    name="E2M3FN",
    exponent_bits=2,
    mantissa_bits=3,
    specials=Specials.NONE,
    nan_rule=NanRule.LARGEST,
    nan_source=f"{_CVT}.e2m3x2",
    source=_MX,
)
E3M2FN = FloatFormat(
    name="E3M2FN",
    exponent_bits=3,
    mantissa_bits=2,
    specials=Specials.NONE,
    nan_rule=NanRule.LARGEST,
    nan_source=f"{_CVT}.e3m2x2",
    source=_MX,
)
E8M0FNU = FloatFormat(
    name="E8M0FNU",
    exponent_bits=8,
    mantissa_bits=0,
    specials=Specials.ALL_ONES_NAN,
    nan_rule=NanRule.ALL_ONES,
    nan_source=f"{_CVT}.ue8m0x2",
    source=_MX,
    signed=False,
    has_subnormals=False,
)
BFLOAT16 = FloatFormat(
    name="BFLOAT16",
    exponent_bits=8,
    mantissa_bits=7,
    specials=Specials.IEEE,
    nan_rule=NanRule.ALL_ONES,
    nan_source=f"{_CVT}.bf16",
    source="PTX ISA 9.1, alternate floating-point data formats",
)
FLOAT16 = FloatFormat(
    name="FLOAT16",
    exponent_bits=5,
    mantissa_bits=10,
    specials=Specials.IEEE,
    nan_rule=NanRule.ALL_ONES,
    nan_source=f"{_CVT}.f16",
    source=_IEEE,
)
FLOAT32 = FloatFormat(
    name="FLOAT32",
    exponent_bits=8,
    mantissa_bits=23,
    specials=Specials.IEEE,
    nan_rule=NanRule.ALL_ONES,
    nan_source="PTX ISA 9.1, floating point instructions: canonical NaN",
    source=_IEEE,
)
FLOAT64 = FloatFormat(
    name="FLOAT64",
    exponent_bits=11,
    mantissa_bits=52,
    specials=Specials.IEEE,
    nan_rule=NanRule.QUIET,
    nan_source="IEEE 754-2019, 6.2.1",
    source=_IEEE,
)

#: The narrow formats by name.
FORMATS: dict[str, FloatFormat] = {
    record.name: record for record in (E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ, E2M1FN, E2M3FN, E3M2FN, E8M0FNU)
}

_SOURCES: dict[np.dtype[Any], FloatFormat] = {
    np.dtype(np.float64): FLOAT64,
    np.dtype(np.float32): FLOAT32,
    np.dtype(np.float16): FLOAT16,
    np.dtype(ml_dtypes.bfloat16): BFLOAT16,
}


def source_format(dtype: np.dtype[Any]) -> FloatFormat:
    """The format of a numpy float type, in either byte order.

    Raises:
        Refusal: it is none of float64, float32, float16, bfloat16.
    """
    native = dtype.newbyteorder("=")
    if native not in _SOURCES:
        known = ", ".join(str(known) for known in _SOURCES)
        raise Refusal(f"values of type {dtype} have no exact reading here", hint=f"use {known} or an integer type")
    return _SOURCES[native]


@cache
def _values(record: FloatFormat) -> npt.NDArray[np.float64]:
    """The values of all codes in order, read-only."""
    values = _to_float64(record, np.arange(2**record.bits, dtype=record.code_dtype))
    values.flags.writeable = False
    return values


def _to_float64(record: FloatFormat, codes: Codes) -> npt.NDArray[np.float64]:
    """Exact: FLOAT64 holds every value of every format here."""
    parts = split_codes(record, codes)
    return join_parts(FLOAT64, parts, Rounding.NEAREST_EVEN, Overflow.INF).view(np.float64)


def _encode_into(record: FloatFormat, values: Codes, rounding: Rounding, overflow: Overflow, out: Codes) -> Codes:
    # numba takes 0.3 s to import, so only those who ask for speed pay for it.
    from tileproof.oracle.numbers.compiled_convert import can_encode, encode_bits, plan_encode

    _require_out(out, (record.code_dtype,), values.shape)
    source = None if values.dtype.kind in "iu" else source_format(values.dtype)
    if source is None or rounding is not Rounding.NEAREST_EVEN or not can_encode(record, source):
        out[...] = record.encode(values, rounding=rounding, overflow=overflow)
        return out
    native = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    encode_bits(native.reshape(-1).view(f"i{native.itemsize}"), out.reshape(-1), plan_encode(record, source, overflow))
    return out


def _decode_into(record: FloatFormat, codes: Codes, out: npt.NDArray[Any]) -> npt.NDArray[Any]:
    from tileproof.oracle.numbers.compiled_convert import look_up

    if record.bits > 16:
        raise Refusal(f"{record.name} has {record.bits} bits; decoding into an array takes formats of at most 16")
    _require_out(out, (np.dtype(np.float32), np.dtype(np.float64)), codes.shape)
    look_up(np.ascontiguousarray(codes).reshape(-1), out.reshape(-1), _values_as(record, out.dtype))
    return out


def _require_out(out: npt.NDArray[Any], dtypes: tuple[np.dtype[Any], ...], shape: tuple[int, ...]) -> None:
    if out.dtype not in dtypes or out.shape != shape or not out.flags.c_contiguous or not out.flags.writeable:
        order = "contiguous" if out.flags.c_contiguous else "not contiguous"
        raise Refusal(
            f"out is {out.dtype} {out.shape}, {order}{'' if out.flags.writeable else ', read-only'}",
            hint=f"give a writable contiguous array of {' or '.join(map(str, dtypes))}, shape {shape}",
        )


@cache
def _values_as(record: FloatFormat, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The values of all codes as float32 or float64. Exact: float32 holds every value of at most 16 bits here."""
    return _values(record).astype(dtype)


def nan_table() -> str:
    """The rules for NaN and what is near them, as a Markdown table with one row for each format.

    "-nan" and "-0" are a NaN with its sign bit set and a negative zero as input; "overflow nan" is what a positive and
    a negative value beyond the largest finite value become with `overflow="nan"`.
    """
    head = ("format", "NaN codes", "nan", "-nan", "overflow nan", "-0", "rule for NaN", "source")
    rows = [head, tuple("---" for _ in head), *(_nan_row(record) for record in FORMATS.values())]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _nan_row(record: FloatFormat) -> tuple[str, ...]:
    codes = np.flatnonzero(np.isnan(record.decode(np.arange(2**record.bits))))
    nan, negative_nan = (_hex(record, np.array(bits, np.uint32).view(np.float32)) for bits in (0x7FC00000, 0xFFC00000))
    signs = (1, -1) if record.signed else (1,)
    beyond = [_hex(record, np.float64(sign * np.inf), "nan") for sign in signs] if record.has_nan else ["refused"]
    return (
        record.name,
        " ".join(f"0x{code:02X}" for code in codes) or "none",
        nan,
        negative_nan,
        " ".join(beyond),
        _hex(record, np.float64(-0.0)) if record.signed else "refused",
        record.nan_rule.value,
        record.nan_source,
    )


def _hex(record: FloatFormat, value: npt.ArrayLike, overflow: str = "saturate") -> str:
    return f"0x{int(record.encode(value, overflow=overflow)):02X}"
