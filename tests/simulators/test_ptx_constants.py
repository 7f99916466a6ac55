import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileproof.simulators.ptx.text.constants import MAX_NESTING, read_constant
from tileproof.simulators.ptx.text.syntax import Immediate, PtxSyntaxError
from tileproof.simulators.ptx.text.tokens import Cursor


def constant(text: str) -> Immediate:
    cursor = Cursor(text + ";")
    value = read_constant(cursor)
    cursor.expect(";", "after the constant")
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("42U", 42),
        ("017", 15),
        ("00", 0),
        ("0x7F", 127),
        ("0b101U", 5),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("- 8", -8),
        ("--8", 8),
        ("~0", -1),
        ("!0", 1),
        ("!7", 0),
        ("WARP_SZ", 32),
        ("WARP_SZ-1", 31),
        ("4*8+(1<<2)", 36),
        ("10-2-3", 5),
        ("2+3*4", 14),
        ("1|2^3&1", 3),
    ],
)
def test_integer_constants_have_their_value(text: str, value: int) -> None:
    assert constant(text) == Immediate(value)


@pytest.mark.parametrize(
    ("text", "bits", "float_type"),
    [
        ("0f3F800000", 0x3F800000, "f32"),
        ("0FFFC00001", 0xFFC00001, "f32"),
        ("0d7ff8000000000001", 0x7FF8000000000001, "f64"),
        ("1.5", 0x3FF8000000000000, "f64"),
        ("-0.0", 1 << 63, "f64"),
        (".5e1", 0x4014000000000000, "f64"),
    ],
)
def test_float_constants_keep_their_bits(text: str, bits: int, float_type: str) -> None:
    value = constant(text)
    assert (value.bits, value.float_type) == (bits, float_type)


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0.0))
def test_decimal_floats_round_as_python_reads_them(value: float) -> None:
    text = repr(value)
    assert constant(text).bits == int.from_bytes(struct.pack("<d", value), "little")


@settings(deadline=None)
@given(
    st.recursive(
        st.integers(0, 1000).map(str), lambda inner: st.tuples(inner, inner).map(lambda p: f"({p[0]}-{p[1]}*2)")
    )
)
def test_expressions_agree_with_python(text: str) -> None:
    assert constant(text).bits == eval(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("18446744073709551616", "'18446744073709551616' is out of range"),
        ("0x1ffffffffffffffff", "is out of range"),
        ("09", "'09' is out of range"),
        ("1e999", "'1e999' is out of range"),
        ("1" * 10_000, "is out of range"),
        ("0x7fffffffffffffff*4", "needs more than 64 bits"),
        ("1<<64", "shifted by 64, not by 0 to 63"),
        ("1<<-1", "shifted by -1"),
        ("1.5+1", "arithmetic on float constants is not modelled"),
        ("-0f3F800000", "arithmetic on float constants is not modelled"),
        ("4/2", "found '/'"),
        ("8>>1", "found '>>'"),
        ("1?2:3", "found '?'"),
        ("(1", "expected '\\)' at the end of the constant expression, found ';'"),
        ("1+", "expected a number, found ';'"),
        ("x", "expected a number, found 'x'"),
        ("(" * 5000 + "1" + ")" * 5000, f"nested deeper than {MAX_NESTING}"),
        ("-" * 5000 + "1", f"nested deeper than {MAX_NESTING}"),
    ],
)
def test_constants_out_of_range_or_not_modelled_are_refused(text: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError, match=message):
        constant(text)
