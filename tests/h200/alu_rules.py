"""On which elements each rule of `alu.assumption` decides the result."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.operands import Bits, read_types
from tileproof.simulators.ptx.alu import assumption as rule
from tileproof.simulators.ptx.alu.assumption import Assumption
from tileproof.simulators.ptx.alu.forms import Form
from tileproof.simulators.ptx.alu.ieee import BINARIES, decode, is_nan, magnitude
from tileproof.simulators.ptx.alu.operation import resolve
from tileproof.simulators.ptx.alu.scalar import SCALARS, unpack

Mask = NDArray[np.bool_]
ASSUMPTIONS = [value for value in vars(rule).values() if isinstance(value, Assumption)]


def decides(assumption: Assumption, form: Form, values: Sequence[Bits]) -> Mask:
    """Where the rule matters."""
    return _DECIDES.get(assumption.text, _nan_source)(form, values)


def _plain(form: Form, values: Sequence[Bits], *dropped: str) -> list[Bits]:
    """The lanes of the result of the same opcode without some qualifiers."""
    operation = resolve(form.mnemonic, (*(flag for flag in form.qualifiers if flag not in dropped), *form.types))
    assert operation is not None
    result, scalar = operation.compute(values)[0], SCALARS[form.types[0]]
    return list(unpack(result, scalar.lanes, scalar.bits // scalar.lanes))


def _zero_divisor(form: Form, values: Sequence[Bits]) -> Mask:
    return np.equal(values[1], 0)


def _minimum(form: Form, values: Sequence[Bits]) -> Mask:
    scalar = SCALARS[form.types[0]]
    least = np.equal(values[0], np.uint64(1 << (scalar.bits - 1)))
    return least if len(values) == 1 else least & np.equal(values[1], np.uint64(scalar.mask))


def _nan_source(form: Form, values: Sequence[Bits]) -> Mask:
    found = np.zeros(values[0].shape, np.bool_)
    for scalar, bits in zip(read_types(form), values, strict=True):
        for lane in unpack(bits, scalar.lanes, scalar.bits // scalar.lanes):
            found |= is_nan(lane, BINARIES[scalar.lane.name]) if scalar.is_float else False
    return found


def _nan_result(form: Form, values: Sequence[Bits]) -> Mask:
    return is_nan(form.operation.compute(values)[0], BINARIES[form.types[0]])


def _negative_zero(form: Form, values: Sequence[Bits]) -> Mask:
    scalar = SCALARS[form.types[0]]
    sign = np.uint64(1 << (scalar.bits // scalar.lanes - 1))
    negative: Mask = np.logical_or.reduce([lane == sign for lane in _plain(form, values, "sat", "relu")])
    return negative


def _flushed(form: Form, values: Sequence[Bits]) -> Mask:
    """The exact result is subnormal and rounds to the smallest normal number."""
    result, source = SCALARS[form.types[0]], SCALARS[form.types[-1]]
    binary, from_binary = BINARIES[result.lane.name], BINARIES[source.lane.name]
    lanes = [unpack(bits, source.lanes, source.bits // source.lanes) for bits in values]
    found = np.zeros(values[0].shape, np.bool_)
    rounded = _plain(form, values, "ftz", "sat", "relu", "satfinite")
    for number, code in enumerate(rounded):
        numbers = [decode(operand[number], from_binary) for operand in lanes]
        with np.errstate(all="ignore"):
            size = np.abs(_EXACT[form.mnemonic](*numbers))
        least = 2.0**binary.minimum_exponent
        found |= (size > 0) & (size < least) & (magnitude(code, binary) == np.uint64(binary.smallest_normal))
    return found


_EXACT: dict[str, Callable[..., NDArray[np.float64]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "mad": lambda a, b, c: a * b + c,
    "div": lambda a, b: a / b,
    "rcp": lambda a: 1 / a,
    "sqrt": np.sqrt,
    "cvt": lambda a: a,
}


def _beyond(form: Form, values: Sequence[Bits]) -> Mask:
    """Start or length is above 255."""
    return np.greater(np.maximum(values[-2], values[-1]), 255)


def _everywhere(form: Form, values: Sequence[Bits]) -> Mask:
    return np.ones(values[0].shape, np.bool_)


_DECIDES: dict[str, Callable[[Form, Sequence[Bits]], Mask]] = {
    rule.ZERO_DIVISOR.text: _zero_divisor,
    rule.MINIMUM_OVERFLOW.text: _minimum,
    rule.FLUSH_TINY.text: _flushed,
    rule.SATURATED_ZERO.text: _negative_zero,
    rule.DOUBLE_NAN.text: _nan_result,
    rule.TF32_NAN.text: _everywhere,
    rule.FIELD_RANGE.text: _beyond,
    rule.VIDEO_LANES.text: _everywhere,
    rule.FIND_BASE.text: lambda form, values: np.greater(values[1], 31) | np.equal(values[2], 1 << 31),
    rule.XORSIGN.text: _everywhere,
    rule.BORROW.text: _everywhere,
    rule.SCALE_RULE.text: _everywhere,
}
