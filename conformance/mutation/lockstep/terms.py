"""What arithmetic steps compute, as terms of the theory of bit vectors.

Integers and comparisons are exact. A division is a function of which only some facts are known (quotient and remainder
are at most the dividend, a remainder is below the divisor; where both numbers fit half the bits it is the division of
the halves). So is what else has no term here, most of floating point: the same operation of the same operands gives the
same. Each exact term is held to the device's own arithmetic by a test.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tileproof.conformance.mutation.lockstep.solver import z3
from tileproof.simulators.ptx.alu.operation import Operation
from tileproof.simulators.ptx.alu.scalar import SCALARS

Term = Any
"""A z3 term: a bit vector of a register's bits; a Boolean of a predicate."""


def width(name: str) -> int:
    """Bits of a PTX type; a predicate has 1."""
    return 1 if name == "pred" else SCALARS[name].bits


def fit(term: Term, bits: int, *, signed: bool = False) -> Term:
    """As many bits of a vector, or more with zeros or its sign before it."""
    have = term.size()
    if have > bits:
        return z3.Extract(bits - 1, 0, term)
    if have < bits:
        return (z3.SignExt if signed else z3.ZeroExt)(bits - have, term)
    return term


class Terms:
    """Terms of operations, and the facts about those that are functions.

    Attributes:
        facts: what holds whatever the kernel is given.
    """

    def __init__(self) -> None:
        self.facts: list[Term] = []
        self._applied: list[tuple[Callable[[Sequence[int]], list[int]], list[Term], list[Term]]] = []
        self._divided: dict[tuple[int, int], Term] = {}
        self._products: list[tuple[Term, Term, Term]] = []

    def results(self, operation: Operation, sources: Sequence[Term]) -> list[Term]:
        """One term a destination of the operation; of functions that need not be exact."""
        words = operation.name.split(".")
        operands = [
            one if kind == "pred" else fit(one, width(kind))
            for one, kind in zip(sources, operation.sources, strict=True)
        ]
        for at in operation.inverted:
            operands[at] = z3.Not(operands[at])
        made = self._exact(words, operation, operands)
        return made if made is not None else self._function(operation, operands)

    def _function(self, operation: Operation, operands: Sequence[Term]) -> list[Term]:
        """An uninterpreted function of the operation's name; of a pack of two conversions one function a half."""
        words = operation.name.split(".")
        packs = words[0] == "cvt" and any(word.endswith("x2") for word in words)
        if packs and operation.sources == ("f32", "f32"):
            bits = width(operation.destinations[0]) // 2
            upper, lower = (self._half(operation, one, bits) for one in operands)
            return [z3.Concat(upper, lower)]
        made = [
            z3.Function(f"{operation.name}#{at}", *(one.sort() for one in operands), _sort(kind))(*operands)
            for at, kind in enumerate(operation.destinations)
        ]
        if operation.allowed is None:
            self._applied.append((partial(_computed, operation), list(operands), made))
        return made

    def _half(self, operation: Operation, operand: Term, bits: int) -> Term:
        """What one operand of a packing conversion becomes."""
        made = z3.Function(f"half of {operation.name}", operand.sort(), z3.BitVecSort(bits))(operand)
        if operation.allowed is None:
            self._applied.append((partial(_computed_half, operation, bits), [operand], [made]))
        return made

    def corrected(self, model: Any) -> bool:
        """Whether a model takes a function for another than it is; then what it is at those operands is a fact now."""
        found = False
        for compute, operands, made in self._applied:
            values = [model.eval(one, model_completion=True) for one in operands]
            for term, meant in zip(made, compute([_number(one) for one in values]), strict=False):
                if _number(model.eval(term, model_completion=True)) == meant:
                    continue
                found = True
                same = z3.substitute(term, *zip(operands, values, strict=True))
                self.facts.append(same == (z3.BoolVal(bool(meant)) if z3.is_bool(term) else meant))
        return found

    def _exact(self, words: list[str], operation: Operation, operands: list[Term]) -> list[Term] | None:
        kind = operation.sources[0] if operation.sources else ""
        flags = {*words[1:]} - {*operation.sources} - {*operation.destinations}
        scalar = SCALARS.get(kind)
        if words[0] in ("setp", "selp"):
            return self._chosen(words, flags, operation, operands)
        if words[0] in ("and", "or", "xor", "not") and not flags:
            return [_bitwise(words[0], operands, kind == "pred")]
        if words[0] == "mov" and len(operands) == 1 and not flags:
            return [operands[0]]
        if words[0] == "cvt" and not flags and all(word[0] in "su" and word[1:].isdigit() for word in words[1:]):
            return [fit(operands[0], width(words[1]), signed=words[2][0] == "s")]
        if scalar is None or scalar.lanes > 1:
            return None
        if scalar.is_float:
            return _float(words[0], flags, kind, operands)
        if flags <= {"lo", "hi", "wide"} and words[0] in ("mul", "mad"):
            return [self._product(words, scalar.signed, operands)]
        if flags & {"sat", "cc"} or words[0] in ("addc", "subc", "madc"):
            return None
        if words[0] == "sub":
            return [self._difference(*operands)]
        if words[0] in ("div", "rem"):
            return [self._division(words[0], operands, signed=scalar.signed)]
        simple = _SIMPLE.get(words[0])
        return None if simple is None else simple(operands, scalar.signed, flags)

    def _chosen(
        self, words: list[str], flags: set[str], operation: Operation, operands: list[Term]
    ) -> list[Term] | None:
        if words[0] == "selp":
            return [z3.If(operands[2], operands[0], operands[1])]
        comparison = words[1]
        kind = operation.sources[0]
        if SCALARS[kind].lanes > 1:
            return None
        holds = _compared(comparison, kind, flags, operands)
        if holds is None:
            return None
        both = [holds, z3.Not(holds)]
        combine = next((word for word in words[2:] if word in ("and", "or", "xor")), None)
        if combine is not None:
            both = [_bitwise(combine, [one, operands[2]], True) for one in both]
        return both[: len(operation.destinations)]

    def _product(self, words: list[str], signed: bool, operands: list[Term]) -> Term:
        a, b = operands[:2]
        bits = a.size()
        if "wide" in words or "hi" in words:
            made = self._times(fit(a, 2 * bits), fit(b, 2 * bits))
            if (
                signed
            ):  # NOTE: said twice, because a solver sees that signs are clear sooner than that products are equal
                other = fit(a, 2 * bits, signed=True) * fit(b, 2 * bits, signed=True)
                made = z3.If(z3.And(a >= 0, b >= 0), made, other)
        else:
            made = self._times(a, b)
        if "hi" in words:
            made = z3.Extract(2 * bits - 1, bits, made)
        return made + operands[2] if words[0] == "mad" else made

    def _times(self, a: Term, b: Term) -> Term:
        made = a * b
        self._remember(a, b, made)
        return made

    def _remember(self, a: Term, b: Term, made: Term) -> None:
        """A product: what is below a * b is below a when divided by b, even where a * b wraps."""
        self._products.append((a, b, made))
        for first, second in ((a, b), (b, a)):
            for (_, _), (over, under, quotient) in list(self._divided.items()):
                self._below(over, under, quotient, first, second, made)

    def _difference(self, a: Term, b: Term) -> Term:
        """a - a / c * c is the remainder."""
        for over, under, quotient in self._divided.values():
            if over.eq(a) and (b.eq(quotient * under) or b.eq(under * quotient)):
                return z3.If(under == 0, a - b, self._unsigned("rem", a, under))
        return a - b

    def _below(self, over: Term, under: Term, quotient: Term, a: Term, b: Term, made: Term) -> None:
        if over.size() == made.size() and under.eq(b):
            self.facts.append(z3.Implies(z3.ULT(over, made), z3.ULT(quotient, a)))

    def _division(self, name: str, operands: list[Term], *, signed: bool) -> Term:
        a, b = operands
        bits = a.size()
        if signed:
            other = z3.Function(f"{name}.s{bits}", a.sort(), b.sort(), a.sort())(a, b)
            return z3.If(z3.And(a >= 0, b >= 0), self._unsigned(name, a, b), other)
        return self._unsigned(name, a, b)

    def _unsigned(self, name: str, a: Term, b: Term) -> Term:
        bits = a.size()
        if z3.is_bv_value(b) and b.as_long() & (b.as_long() - 1) == 0 and b.as_long():
            by = b.as_long().bit_length() - 1
            return z3.LShR(a, by) if name == "div" else a & (b.as_long() - 1)
        if bits == 64:
            low = fit(self._unsigned(name, fit(a, 32), fit(b, 32)), 64)
            fits = z3.And(z3.Extract(63, 32, a) == 0, z3.Extract(63, 32, b) == 0)
            made = self._of(name, a, b)
            self.facts.append(z3.Implies(fits, made == low))
            return made
        return self._of(name, a, b)

    def _of(self, name: str, a: Term, b: Term) -> Term:
        """The function of two numbers, with what is known of it."""
        quotient, remainder = (
            z3.Function(f"{one}.u{a.size()}", a.sort(), b.sort(), a.sort())(a, b) for one in ("div", "rem")
        )
        key = (a.get_id(), b.get_id())
        if key not in self._divided:
            self._divided[key] = (a, b, quotient)
            whole = b != 0
            self.facts += [
                z3.Implies(whole, z3.And(z3.ULE(quotient, a), z3.ULE(remainder, a), z3.ULT(remainder, b))),
                z3.Implies(whole, z3.And(z3.UGE(a, quotient), z3.Implies(z3.ULT(a, b), quotient == 0))),
            ]
            for first, second, made in self._products:
                self._below(a, b, quotient, first, second, made)
                self._below(a, b, quotient, second, first, made)
        return quotient if name == "div" else remainder


def _computed(operation: Operation, values: Sequence[int]) -> list[int]:
    """What the device computes."""
    right = operation.compute([np.array([value], np.uint64) for value in values])
    return [int(np.asarray(one).reshape(-1)[0]) for one in right]


def _computed_half(operation: Operation, bits: int, values: Sequence[int]) -> list[int]:
    return [_computed(operation, (values[0], values[0]))[0] & ((1 << bits) - 1)]


def _number(value: Any) -> int:
    """Of a constant."""
    return int(z3.is_true(value)) if z3.is_bool(value) else int(value.as_long())


def _sort(kind: str) -> Term:
    return z3.BoolSort() if kind == "pred" else z3.BitVecSort(width(kind))


def _bitwise(name: str, operands: Sequence[Term], predicate: bool) -> Term:
    if name == "not":
        return z3.Not(operands[0]) if predicate else ~operands[0]
    a, b = operands
    if predicate:
        return {"and": z3.And, "or": z3.Or, "xor": z3.Xor}[name](a, b)
    return a & b if name == "and" else a | b if name == "or" else a ^ b


_RELATIONS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
              "lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}  # fmt: skip


def _compared(comparison: str, kind: str, flags: set[str], operands: Sequence[Term]) -> Term | None:
    a, b = operands[:2]
    if kind == "f32":
        return _float_compared(comparison, flags, a, b)
    if SCALARS[kind].is_float or comparison not in _RELATIONS:
        return None
    relation = _RELATIONS[comparison]
    if relation in ("eq", "ne"):
        return a == b if relation == "eq" else a != b
    if SCALARS[kind].signed:
        return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[relation]
    return {"lt": z3.ULT, "le": z3.ULE, "gt": z3.UGT, "ge": z3.UGE}[relation](a, b)


# Float32 as bits: sign, 8 bits of exponent, 23 of fraction.
_NO_SIGN, _INFINITY, _LEAST_NORMAL = 0x7FFFFFFF, 0x7F800000, 0x00800000
_NAN = 0x7FFFFFFF
"""What a result that is NaN is, whatever went in."""


def _is_nan(a: Term) -> Term:
    return z3.UGT(a & _NO_SIGN, z3.BitVecVal(_INFINITY, 32))


def _flushed(a: Term, flags: set[str]) -> Term:
    if "ftz" not in flags:
        return a
    return z3.If(z3.ULT(a & _NO_SIGN, z3.BitVecVal(_LEAST_NORMAL, 32)), a & z3.BitVecVal(1 << 31, 32), a)


def _rank(a: Term) -> Term:
    """A signed number that grows with the float; both zeros are 0."""
    return z3.If(z3.Extract(31, 31, a) == 1, -(a & _NO_SIGN), a)


def _float_compared(comparison: str, flags: set[str], a: Term, b: Term) -> Term | None:
    relation = comparison.removesuffix("u") if comparison not in ("num", "nan") else comparison
    a, b = _flushed(a, flags), _flushed(b, flags)
    unordered = z3.Or(_is_nan(a), _is_nan(b))
    if relation in ("num", "nan"):
        return unordered if relation == "nan" else z3.Not(unordered)
    if relation not in ("eq", "ne", "lt", "le", "gt", "ge"):
        return None
    first, second = _rank(a), _rank(b)
    holds = {
        "eq": first == second,
        "ne": first != second,
        "lt": first < second,
        "le": first <= second,
        "gt": first > second,
        "ge": first >= second,
    }[relation]
    return z3.Or(unordered, holds) if comparison.endswith("u") else z3.And(z3.Not(unordered), holds)


def _float(name: str, flags: set[str], kind: str, operands: Sequence[Term]) -> list[Term] | None:
    """Sizes, negatives and flushes; of the rest nothing is known but that it is a function."""
    if kind != "f32" or flags - {"ftz"}:
        return None
    if name in ("min", "max"):
        return [_float_extreme(*(_flushed(one, flags) for one in operands), least=name == "min")]
    if name in ("abs", "neg") and "ftz" not in flags:
        made = operands[0] & _NO_SIGN if name == "abs" else operands[0] ^ z3.BitVecVal(1 << 31, 32)
        return [z3.If(_is_nan(operands[0]), z3.BitVecVal(_NAN, 32), made)]
    return None


def _float_extreme(a: Term, b: Term, *, least: bool) -> Term:
    """The other number of a NaN; of two NaN the canonical one; -0 is less than +0."""
    first, second = (z3.If(z3.Extract(31, 31, one) == 1, ~one ^ z3.BitVecVal(1 << 31, 32), one) for one in (a, b))
    below = first < second if least else first > second
    number = z3.If(_is_nan(a), b, z3.If(_is_nan(b), a, z3.If(below, a, b)))
    return z3.If(z3.And(_is_nan(a), _is_nan(b)), z3.BitVecVal(_NAN, 32), number)


Simple = Callable[[Sequence[Term], bool, set[str]], "list[Term] | None"]


def _shift(function: Callable[[Term, Term], Term], full: Callable[[Term], Term]) -> Simple:
    def made(operands: Sequence[Term], signed: bool, flags: set[str]) -> list[Term]:
        a, amount = operands
        bits = a.size()
        inside = z3.ULT(amount, z3.BitVecVal(bits, 32))
        return [z3.simplify(z3.If(inside, function(a, fit(amount, bits)), full(a)))] if z3.is_bv_value(amount) else [
            z3.If(inside, function(a, fit(amount, bits)), full(a))
        ]  # fmt: skip

    return made


def _right(operands: Sequence[Term], signed: bool, flags: set[str]) -> "list[Term] | None":
    if signed:
        return _shift(lambda a, by: a >> by, lambda a: a >> (a.size() - 1))(operands, signed, flags)
    return _shift(z3.LShR, lambda a: z3.BitVecVal(0, a.size()))(operands, signed, flags)


def _left(operands: Sequence[Term], signed: bool, flags: set[str]) -> "list[Term] | None":
    return _shift(lambda a, by: a << by, lambda a: z3.BitVecVal(0, a.size()))(operands, signed, flags)


def _extreme(least: bool) -> Simple:
    def made(operands: Sequence[Term], signed: bool, flags: set[str]) -> list[Term] | None:
        if flags:
            return None
        a, b = operands
        below = a < b if signed else z3.ULT(a, b)
        return [z3.If(below, a, b) if least else z3.If(below, b, a)]

    return made


def _field(operands: Sequence[Term], signed: bool, flags: set[str]) -> "list[Term] | None":
    """bfe with a position and a length that are constants and lie inside."""
    a, start, length = operands
    if not (z3.is_bv_value(start) and z3.is_bv_value(length)):
        return None
    first, bits = start.as_long(), length.as_long()
    if not bits or first + bits > a.size():
        return None
    return [fit(z3.Extract(first + bits - 1, first, a), a.size(), signed=signed)]


def _insert(operands: Sequence[Term], signed: bool, flags: set[str]) -> "list[Term] | None":
    """bfi with a position and a length that are constants and lie inside."""
    a, b, start, length = operands
    if not (z3.is_bv_value(start) and z3.is_bv_value(length)):
        return None
    first, bits, size = start.as_long(), length.as_long(), a.size()
    if first + bits > size:
        return None
    mask = z3.BitVecVal(((1 << bits) - 1) << first, size)
    return [(b & ~mask) | ((a << first) & mask)]


def _funnel(operands: Sequence[Term], signed: bool, flags: set[str]) -> "list[Term] | None":
    a, b, amount = operands
    if not z3.is_bv_value(amount):
        return None
    by = amount.as_long() & 31 if "wrap" in flags else min(amount.as_long(), 32)
    joined = z3.Concat(b, a)
    moved = z3.LShR(joined << by, 32) if "l" in flags else z3.LShR(joined, by)
    return [z3.Extract(31, 0, moved)]


def _permuted(operands: Sequence[Term], signed: bool, flags: set[str]) -> "list[Term] | None":
    """prmt whose selector is a constant and replicates no sign."""
    a, b, control = operands
    if flags or not z3.is_bv_value(control) or control.as_long() & 0x8888:
        return None
    joined = z3.Concat(b, a)
    chosen = [control.as_long() >> 4 * at & 7 for at in range(4)]
    return [z3.Concat(*(z3.Extract(8 * one + 7, 8 * one, joined) for one in reversed(chosen)))]


_SIMPLE: dict[str, Simple] = {
    "add": lambda operands, *_: [operands[0] + operands[1]],
    "neg": lambda operands, *_: [-operands[0]],
    "abs": lambda operands, *_: [z3.If(operands[0] < 0, -operands[0], operands[0])],
    "min": _extreme(True),
    "max": _extreme(False),
    "shl": _left,
    "shr": _right,
    "bfe": _field,
    "bfi": _insert,
    "shf": _funnel,
    "prmt": _permuted,
}
