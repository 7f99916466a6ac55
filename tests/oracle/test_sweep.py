"""The compiled encoder against the table form on every float32 pattern; and the sweep sees what it must see."""

import time

import pytest

from tileproof.oracle.formats import BFLOAT16, E4M3FN, E5M2, E5M2FNUZ, E8M0FNU, FLOAT16, FLOAT32, FORMATS, FloatFormat
from tileproof.oracle.numbers import sweep
from tileproof.oracle.numbers.compiled_convert import EncodePlan, can_encode, plan_encode
from tileproof.oracle.numbers.format_record import FormatRecord
from tileproof.oracle.numbers.rounding import Overflow
from tileproof.oracle.numbers.sweep import sweep_float32
from tileproof.oracle.refusal import Refusal

SIGNED = [record for record in FORMATS.values() if record.signed]
#: Every 251st upper half, all exponents and signs; those of the infinities, and of 480, which has no code.
SAMPLE = [*range(0, 1 << 16, 251), 0x43F0, 0xC3F0, 0x7F80, 0xFF80]


@pytest.mark.parametrize("record", SIGNED, ids=lambda record: record.name)
def test_compiled_and_table_agree_on_a_sample_of_all_exponents(record: FloatFormat) -> None:
    result = sweep_float32(record, heads=SAMPLE)
    assert (result.different, result.patterns) == (0, len(SAMPLE) << 16)


@pytest.mark.parametrize("heads", [range(0x4380, 0x4400), range(0xC380, 0xC400), range(0x7F7E, 0x8002)])
def test_compiled_and_table_agree_near_the_ends_in_every_overflow_mode(heads: range) -> None:
    assert sweep_float32(E4M3FN, Overflow.NAN, heads=heads).different == 0
    assert sweep_float32(E5M2, Overflow.INF, heads=heads).different == 0
    assert sweep_float32(E5M2, Overflow.NAN, heads=heads).different == 0


@pytest.mark.slow
@pytest.mark.parametrize("record", [E4M3FN, E5M2], ids=lambda record: record.name)
def test_compiled_and_table_agree_on_all_float32_patterns(record: FloatFormat) -> None:
    started = time.perf_counter()
    result = sweep_float32(record)
    assert (result.different, result.patterns) == (0, 1 << 32)
    assert time.perf_counter() - started < 60, "15 s for both formats on two idle cores"


WRONG_PLANS: dict[str, dict[str, int]] = {
    "one mantissa bit fewer": {"target_mantissa": 2},
    "subnormals one binade lower": {"smallest_normal": 120},
    "largest code too large": {"max_code": 0x7F},
    "overflow to NaN": {"beyond": 0x7F},
    "NaN saturates": {"nan_code": 0x7E},
    "infinity is NaN": {"source_infinity": 0x7F7FFFFF},
    "sign of zero lost": {"zero_sign": 0},
    "sign lost": {"sign_bit": 0},
}


@pytest.mark.parametrize("fault", WRONG_PLANS)
def test_the_sweep_sees_a_wrong_encoder(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(target: FormatRecord, source: FormatRecord, overflow: Overflow) -> EncodePlan:
        right = plan_encode(target, source, overflow)
        changed = {name: type(right.max_code)(value) for name, value in WRONG_PLANS[fault].items()}
        return right._replace(**changed)

    monkeypatch.setattr(sweep, "plan_encode", wrong)
    assert sweep_float32(E4M3FN, heads=SAMPLE).different


def test_one_wrong_pattern_is_counted_and_located(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only infinity changes: one pattern of each sign."""
    right = plan_encode(E4M3FN, FLOAT32, Overflow.SATURATE)
    lower = right._replace(source_infinity=right.source_infinity - right.source_infinity.dtype.type(1))
    monkeypatch.setattr(sweep, "plan_encode", lambda *_: lower)
    result = sweep_float32(E4M3FN, heads=[0x7F7F, 0x7F80, 0x7F81, 0xFF80, 0xFF81])
    assert (result.different, result.heads) == (2, (0x7F80, 0xFF80))


def test_what_the_formula_cannot_do_is_known() -> None:
    assert can_encode(E4M3FN, FLOAT32)
    assert can_encode(BFLOAT16, FLOAT32)
    assert can_encode(FLOAT16, FLOAT32)
    assert can_encode(E5M2, FLOAT16)
    assert not can_encode(E5M2FNUZ, FLOAT16), "a subnormal of float16 would have to be normalised"
    assert not can_encode(FLOAT16, BFLOAT16), "the mantissa grows"
    assert not can_encode(E8M0FNU, FLOAT32), "refuses values"
    with pytest.raises(Refusal, match="E8M0FNU has no table"):
        sweep_float32(E8M0FNU)
    with pytest.raises(Refusal, match="no code for overflow 'inf'"):
        sweep_float32(E4M3FN, Overflow.INF)
