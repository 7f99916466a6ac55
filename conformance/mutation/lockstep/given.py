"""What both kernels are given: numbers of thread and block, parameters, what memory answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial

from tileproof.conformance.mutation.lockstep.fact import Fact
from tileproof.conformance.mutation.lockstep.flow import Flow
from tileproof.conformance.mutation.lockstep.solver import z3
from tileproof.conformance.mutation.lockstep.terms import Term, fit
from tileproof.conformance.mutation.possible import _MOST_BLOCKS, _MOST_THREADS
from tileproof.simulators.ptx.program import SINK, Kind, Program, StateSpace, Step

Claim = Callable[[Mapping[int, Term]], Term]
"""Of what counters are at the head of a turn, by slot."""

_MULTIPLES = (2, 4, 8, 16, 32, 64, 128)
_COUNTS = frozenset({"add", "sub", "mov", "selp"})
"""Operations of a register that may be a counter or an address."""
_INTEGERS = frozenset({"s32", "u32", "b32", "s64", "u64", "b64"})


class Given:
    """Symbols of one kernel.

    Attributes:
        facts: what is known of them in every legal launch.

    Args:
        program: the kernel.
        flow: of it.
        premises: what its launcher promises.
    """

    def __init__(self, program: Program, flow: Flow, premises: Sequence[Fact]) -> None:
        self._program = program
        self._flow = flow
        self.facts: list[Term] = [*self._of_specials(), *(self._of_premise(one) for one in premises)]
        self._counters = {head: tuple(sorted(_counters(flow, head))) for head in flow.loops}
        self._bounds = {head: tuple(sorted(_bounds(flow, head, program))) for head in flow.loops}

    def value(self, program: Program, slot: int) -> Term:
        """Of a slot that nothing in the kernel has written."""
        bits = program.slot_bits[slot]
        if slot in program.constants:
            value = program.constants[slot]
            return z3.BoolVal(bool(value)) if bits == 1 else z3.BitVecVal(value, bits)
        if slot in program.specials:
            return _symbol(program.specials[slot], bits)
        if slot in program.shared_symbols:
            name, offset = program.shared_symbols[slot]
            return fit(_symbol(f"shared {name}", 64) + offset, bits)
        if slot in program.globals_used:
            variable, offset = program.globals_used[slot]
            return fit(_symbol(f"global {variable.name}", 64) + offset, bits)
        return _symbol(f"initially {slot}", bits)

    def fresh(self, slot: int, name: str) -> Term:
        """A symbol for what a register holds."""
        return _symbol(f"{name} {slot}", self._program.slot_bits[slot])

    def answer(self, step: Step, slot: int, number: int, at: int) -> Term:
        """What an effect gives: of a parameter its value, of anything else a symbol."""
        if step.kind is not Kind.LOAD:
            return _symbol(f"answer {at} {number}", self._program.slot_bits[slot])
        assert step.access is not None
        bits = 8 * step.access.size
        source = step.sources[0]
        if step.access.space is StateSpace.PARAM and source in self._program.constants:
            return _parameter(self._program.constants[source] + step.access.offset + number * step.access.size, bits)
        return _symbol(f"answer {at} {number}", bits)

    def counters(self, head: int) -> tuple[int, ...]:
        """Slots of which something may hold at the head of a loop."""
        return self._counters[head]

    def bounds(self, head: int) -> tuple[int, ...]:
        """Slots that a loop does not write and compares others with."""
        return self._bounds[head]

    def claims(self, head: int, first: Mapping[int, Term], slot: int) -> Iterator[tuple[str, Claim]]:
        """What may hold of a counter at the head of a loop.

        Args:
            head: of the loop.
            first: what counters and bounds are where the loop is entered.
            slot: of the counter.
        """
        yield "as at first, because there is one turn", lambda turn: turn[slot] == first[slot]
        yield "not negative", lambda turn: turn[slot] >= 0
        yield "negative", lambda turn: turn[slot] < 0
        yield "positive", lambda turn: turn[slot] > 0
        yield "not less than at first", lambda turn: turn[slot] >= first[slot]
        for factor in _MULTIPLES:
            yield f"a multiple of {factor}", partial(_is_multiple, slot, factor)
        for other in self._counters[head]:
            if other > slot and first[other].size() == first[slot].size():
                yield f"goes with {other}", partial(_go_together, slot, other, first)
                yield f"goes against {other}", partial(_go_apart, slot, other, first)
        for bound in self._bounds[head]:
            if first[bound].size() == first[slot].size():
                yield f"below {bound}", partial(_below, slot, first[bound])

    def _of_specials(self) -> Iterator[Term]:
        limit = self._program.thread_limit
        threads = _MOST_THREADS if limit is None else limit[0] * limit[1] * limit[2]
        for axis in "xyz":
            thread, extent = (_symbol(f"%{name}.{axis}", 32) for name in ("tid", "ntid"))
            block, blocks = (_symbol(f"%{name}.{axis}", 32) for name in ("ctaid", "nctaid"))
            yield z3.And(z3.ULE(extent, threads), z3.ULT(thread, extent))
            yield z3.And(z3.ULE(blocks, _MOST_BLOCKS[axis]), z3.ULT(block, blocks))
        yield z3.ULT(_symbol("%laneid", 32), 32)

    def _of_premise(self, fact: Fact) -> Term:
        begin = self._program.parameter_offsets[fact.parameter] + fact.offset
        term = _symbol(fact.special, 32) if fact.special else _parameter(begin, fact.bits)
        inside = z3.And(term >= fact.least, term <= fact.most)
        return inside if fact.multiple == 1 else z3.And(inside, z3.URem(term, fact.multiple) == 0)


def _is_multiple(slot: int, factor: int, turn: Mapping[int, Term]) -> Term:
    return turn[slot] & (factor - 1) == 0


def _go_together(slot: int, other: int, first: Mapping[int, Term], turn: Mapping[int, Term]) -> Term:
    return turn[slot] - first[slot] == turn[other] - first[other]


def _go_apart(slot: int, other: int, first: Mapping[int, Term], turn: Mapping[int, Term]) -> Term:
    return turn[slot] + turn[other] == first[slot] + first[other]


def _below(slot: int, bound: Term, turn: Mapping[int, Term]) -> Term:
    return turn[slot] < bound


@cache
def _symbol(name: str, bits: int) -> Term:
    return z3.Bool(name) if bits == 1 else z3.BitVec(f"{name} b{bits}", bits)


def _parameter(offset: int, bits: int) -> Term:
    """Bytes of the parameter area, which is made of words of 32 bits."""
    words = [_symbol(f"parameter {at}", 32) for at in range(offset & ~3, offset + bits // 8, 4)]
    joined = words[0] if len(words) == 1 else z3.Concat(*reversed(words))
    low = 8 * (offset & 3)
    return joined if joined.size() == bits else z3.Extract(low + bits - 1, low, joined)


def _counters(flow: Flow, head: int) -> Iterator[int]:
    """Registers that a loop's body writes by additions and moves alone."""
    loop = flow.loops[head]
    others: set[int] = set()
    for block in loop.body:
        for step in flow.steps[block : flow.blocks[block]]:
            name = step.operation.name.split(".") if step.operation is not None else [""]
            counts = step.kind is Kind.ARITHMETIC and name[0] in _COUNTS and name[-1] in _INTEGERS
            if not counts:
                others |= {*step.destinations}
    yield from (slot for slot in (loop.writes - others) & flow.live[head] if slot != SINK)


def _bounds(flow: Flow, head: int, program: Program) -> Iterator[int]:
    """Registers that a loop compares others with and does not write."""
    loop = flow.loops[head]
    found: set[int] = set()
    for block in loop.body:
        for step in flow.steps[block : flow.blocks[block]]:
            if step.operation is not None and step.operation.name.startswith("setp."):
                found |= {slot for slot in step.sources[:2] if slot in program.registers and slot not in loop.writes}
    yield from found & flow.live[head]
