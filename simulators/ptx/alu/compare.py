"""Comparisons: setp, set, testp (PTX ISA, "Comparison and Selection Instructions").

`setp.lt.and.s32 p|q, a, b, c` with t = a < b sets p = t and c, q = not t and c: the second result complements the
comparison, not the combination. With a NaN every ordered comparison is false, `ne`
included, and `equ` to `geu` are true.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.definedness import everything_if, union, whole
from tileproof.simulators.ptx.alu.ieee import BINARIES, Binary, decode, flush_subnormals, is_nan, magnitude
from tileproof.simulators.ptx.alu.logic import BOOLEAN, BOOLEAN_UNDEFINED
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.scalar import Bits, Flags, Kind, Scalar, as_signed, pack, to_bits, unpack

_RELATION: dict[str, Callable[[NDArray[Any], NDArray[Any]], Flags]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_UNORDERED = {f"{relation}u": relation for relation in _RELATION}
_PERMITTED = {
    Kind.BITS: ("eq", "ne"),
    Kind.UNSIGNED: (*_RELATION, *_UNSIGNED),
    Kind.SIGNED: (*_RELATION,),
    Kind.FLOAT: (*_RELATION, *_UNORDERED, "num", "nan"),
}
_HALVES = ("f16x2", "bf16x2")
_TYPES = (*[kind + bits for kind in "bus" for bits in ("16", "32", "64")], "f16", "bf16", "f32", "f64")

Test = Callable[[Bits, Bits], Bits]


def _test(opcode: Opcode, scalar: Scalar) -> Test:
    """The comparison itself, 0 or 1."""
    if scalar.name not in _TYPES:
        raise opcode.refuse(f"it does not compare .{scalar.name}")
    opcode.permit(*_PERMITTED[scalar.kind], *BOOLEAN, *(["ftz"] if scalar.name in ("f16", "f32") else []))
    comparison = opcode.choose(*_PERMITTED[scalar.kind])
    if scalar.is_float:
        return _float_test(comparison, BINARIES[scalar.name], flush="ftz" in opcode.flags)
    relation = _RELATION[_UNSIGNED.get(comparison, comparison)]
    if scalar.signed:
        return lambda a, b: to_bits(relation(as_signed(a, scalar.bits), as_signed(b, scalar.bits)))
    return lambda a, b: to_bits(relation(a, b))


def _float_test(comparison: str, binary: Binary, *, flush: bool) -> Test:
    def test(a: Bits, b: Bits) -> Bits:
        if flush:
            a, b = flush_subnormals(a, binary), flush_subnormals(b, binary)
        unordered = is_nan(a, binary) | is_nan(b, binary)
        if comparison in ("num", "nan"):
            return to_bits(unordered == (comparison == "nan"))
        relation = _RELATION[_UNORDERED.get(comparison, comparison)]
        holds = relation(decode(a, binary), decode(b, binary))
        return to_bits(np.where(unordered, comparison in _UNORDERED, holds))

    return test


def _setp(opcode: Opcode) -> Operation:
    if len(opcode.types) != 1:
        raise opcode.refuse("it takes one type")
    scalar = opcode.types[0]
    if scalar.name in _HALVES:
        return _setp_packed(opcode, scalar)
    test = _test(opcode, scalar)
    combined = opcode.choose(*BOOLEAN, default="none")
    # A comparison of single halves has no complement: ptxas 13.0.88 refuses `p|q` there.
    count = 1 if scalar.name in ("f16", "bf16") else 2
    destinations = ("pred",) * count
    if combined == "none":

        def compare(values: Sequence[Bits]) -> tuple[Bits, ...]:
            result = test(*values)
            return (result, result ^ np.uint64(1))[:count]

        return Operation(
            opcode.name, destinations, (scalar.name,) * 2, compare, whole(*(1,) * count), optional=count - 1
        )
    combine, combine_undefined = BOOLEAN[combined], BOOLEAN_UNDEFINED[combined]

    def compare_and_combine(values: Sequence[Bits]) -> tuple[Bits, ...]:
        result = test(values[0], values[1])
        return (combine(result, values[2]), combine(result ^ np.uint64(1), values[2]))[:count]

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        result, unknown = test(values[0], values[1]), everything_if(union(masks[:2]), 1)
        return tuple(
            combine_undefined((t, values[2]), (unknown, masks[2]))[0] & np.uint64(1)
            for t in (result, result ^ np.uint64(1))[:count]
        )

    sources = (scalar.name, scalar.name, "pred")
    return Operation(opcode.name, destinations, sources, compare_and_combine, undefined, optional=count - 1)


def _setp_packed(opcode: Opcode, scalar: Scalar) -> Operation:
    """`setp.lt.f16x2 p|q, a, b`: p of the lower halves, q of the upper ones, each combined with the same predicate."""
    test = _test(opcode, scalar.lane)
    combined = opcode.choose(*BOOLEAN, default="none")
    predicate = () if combined == "none" else ("pred",)

    def halves(a: Bits, b: Bits) -> list[Bits]:
        return [test(*pair) for pair in zip(unpack(a, 2, 16), unpack(b, 2, 16), strict=True)]

    def compare(values: Sequence[Bits]) -> tuple[Bits, ...]:
        results = halves(values[0], values[1])
        return tuple(BOOLEAN[combined](result, values[2]) if predicate else result for result in results)

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        unknown = [everything_if(half, 1) for half in unpack(masks[0] | masks[1], 2, 16)]
        if not predicate:
            return tuple(unknown)
        rule, results = BOOLEAN_UNDEFINED[combined], halves(values[0], values[1])
        pairs = zip(results, unknown, strict=True)
        return tuple(rule((t, values[2]), (u, masks[2]))[0] & np.uint64(1) for t, u in pairs)

    sources = (scalar.operand, scalar.operand, *predicate)
    return Operation(opcode.name, ("pred", "pred"), sources, compare, undefined, optional=1)


def _set(opcode: Opcode) -> Operation:
    if len(opcode.types) != 2:
        raise opcode.refuse("it takes the type of its result and the type to compare")
    destination, scalar = opcode.types
    if not _gives(destination, scalar):
        raise opcode.refuse(f"a comparison of .{scalar.name} gives no .{destination.name}")
    if "ftz" in opcode.flags and destination.name == "bf16":
        raise opcode.refuse(".ftz with a .bf16 result")
    test = _test(opcode, scalar.lane if scalar.name in _HALVES else scalar)
    combined = opcode.choose(*BOOLEAN, default="none")
    width = destination.bits // scalar.lanes
    true = np.uint64(BINARIES[destination.lane.name].one if destination.is_float else (1 << width) - 1)

    def compare(a: Bits, b: Bits, *predicate: Bits) -> Bits:
        result = BOOLEAN[combined](test(a, b), predicate[0]) if predicate else test(a, b)
        return result * true

    def by_half(a: Bits, b: Bits, *predicate: Bits) -> Bits:
        pairs = zip(unpack(a, 2, 16), unpack(b, 2, 16), strict=True)
        return pack([compare(x, y, *predicate) for x, y in pairs], 16)

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        unknown = unpack(masks[0] | masks[1], scalar.lanes, scalar.bits // scalar.lanes)
        given = masks[2] if len(masks) > 2 else np.zeros_like(masks[0])
        return (pack([everything_if(lane | given, width) for lane in unknown], width),)

    sources = (scalar.operand, scalar.operand, *(() if combined == "none" else ("pred",)))
    function = by_half if scalar.lanes > 1 else compare
    return opcode.operation((destination.operand,), sources, function, undefined)


def _gives(destination: Scalar, scalar: Scalar) -> bool:
    """Whether `set` has a result of this type (PTX ISA, "set", "Half Precision Comparison Instructions")."""
    if scalar.name in _HALVES:
        return destination.name in (scalar.name, "u32", "s32")
    if destination.name in ("u16", "s16"):
        return scalar.name in ("f16", "bf16")
    if (destination.name, scalar.name) == ("f16", "bf16"):
        return False
    return scalar.lanes == 1 and destination.name in ("u32", "s32", "f32", "f16", "bf16")


def _testp(opcode: Opcode) -> Operation:
    kinds = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    opcode.permit(*kinds)
    scalar = opcode.scalar(("f32", "f64"))
    kind, binary = opcode.choose(*kinds), BINARIES[scalar.name]

    def test(a: Bits) -> Bits:
        size = magnitude(a, binary)
        holds = {
            "finite": size < binary.infinity,
            "infinite": size == binary.infinity,
            "number": size <= binary.infinity,
            "notanumber": size > binary.infinity,
            # Zeros count as normal (PTX ISA, "testp").
            "normal": ((size >= binary.smallest_normal) & (size < binary.infinity)) | (size == 0),
            "subnormal": (size > 0) & (size < binary.smallest_normal),
        }
        return to_bits(holds[kind])

    return opcode.operation(("pred",), (scalar.name,), test, whole(1))


FAMILIES = {"setp": _setp, "set": _set, "testp": _testp}
