"""One walk through a kernel and its mutant side by side, in terms of what a thread is given.

Both read the same symbols: parameters, thread and block numbers, what memory and other lanes answer. At each *effect*
(access of memory, barrier, exchange with other lanes, matrix product, end) it must be shown that both are there under
the same condition with the same operands; then the answer is the same, too, because everything before it was the same
for all threads. Between effects the two may differ as they like: the ways of a branch, a register that nobody reads.

A loop is walked once, with symbols for what its body writes. That these are the same in both at the head of every
turn, and what is known of them (not negative, a multiple), is assumed there, and must hold where the loop is entered
and behind every turn; what does not is given up, and the walk begins again.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tileproof.conformance.mutation.lockstep.effects import alike, operands_of, same_effect
from tileproof.conformance.mutation.lockstep.flow import Flow
from tileproof.conformance.mutation.lockstep.given import Claim, Given
from tileproof.conformance.mutation.lockstep.pair import Pair
from tileproof.conformance.mutation.lockstep.solver import z3
from tileproof.conformance.mutation.lockstep.terms import Term, Terms, fit
from tileproof.simulators.ptx.program import NO_GUARD, SINK, Kind, Step

COMPUTES = frozenset({Kind.ARITHMETIC, Kind.PACK, Kind.UNPACK, Kind.NOTHING})

_MOST_CORRECTIONS = 12
"""Of functions that the solver took for others than they are, in one question."""

Sides = tuple[Term, Term]
State = dict[int, Sides]
"""Slot to its term in the kernel and in the mutant."""


class NotShown(Exception):
    """Something may differ."""


class GivenUp(Exception):
    """Something assumed of a loop does not hold: the walk begins again without it."""


@dataclass
class Assumed:
    """What is assumed at the heads of loops.

    Attributes:
        unlike: slots, by head, that may differ between the two.
        dropped: what does not hold of the kernel, by head, slot and name.
        claims: whether anything else is assumed at all.
    """

    unlike: set[tuple[int, int]] = field(default_factory=set)
    dropped: set[tuple[int, int, str]] = field(default_factory=set)
    claims: bool = True


class Walk:
    """One pass over both kernels.

    Args:
        both: kernel and mutant.
        flow: of the kernel.
        given: terms of special registers and parameters, and what is known of them.
        assumed: of loops.
        milliseconds: the solver's time for one question.
        end: processor time at which the walk is given up.
    """

    def __init__(
        self,
        both: Pair,
        flow: Flow,
        given: Given,
        assumed: Assumed,
        milliseconds: int,
        end: float,
    ) -> None:
        self._both = both
        self._flow = flow
        self._given = given
        self._assumed = assumed
        self._milliseconds = milliseconds
        self._end = end
        self._terms = Terms()
        self._facts: list[Term] = list(given.facts)
        self._ends: dict[int, State] = {}
        self._reached: dict[int, Sides] = {}
        self._edges: dict[tuple[int, int], Sides] = {}
        self._entered: dict[int, State] = {}

    def run(self) -> None:
        """Raises: NotShown, GivenUp."""
        for block in self._flow.order:
            state, here = self._begin(block)
            self._reached[block] = here
            for at in range(block, self._flow.blocks[block]):
                self._step(at, state, here)
            self._ends[block] = state
            self._leave(block, state, here)

    # --- questions

    def same(self, here: Term, sides: Sides) -> bool:
        """Whether two terms are the same wherever `here` holds."""
        a, b = sides
        return a.eq(b) or self._holds(here, a == b)

    def _united(self, here: Sides, sides: Sides) -> Sides:
        """One term for both where that can be shown, wherever either of the two is here."""
        somewhere = here[0] if here[0].eq(here[1]) else z3.Or(*here)
        return (sides[0], sides[0]) if self.same(somewhere, sides) else sides

    def _holds(self, here: Term, claim: Term) -> bool:
        claim = z3.simplify(claim)
        if z3.is_true(claim):
            return True
        if time.process_time() > self._end:
            raise NotShown("it took too long")
        solver = z3.Solver()
        solver.set("timeout", self._milliseconds)
        solver.add(*self._facts, here, z3.Not(claim))
        known = 0
        for _ in range(_MOST_CORRECTIONS):
            solver.add(*self._terms.facts[known:])
            known = len(self._terms.facts)
            answer = solver.check()
            if answer != z3.sat or not self._terms.corrected(solver.model()):
                return bool(answer == z3.unsat)
        return False

    # --- blocks

    def _begin(self, block: int) -> tuple[State, Sides]:
        """Registers and condition at the beginning of a block."""
        loop = self._flow.loops.get(block)
        before = [one for one in self._flow.before[block] if loop is None or one not in loop.body]
        if block == 0:
            state: State = {}
            here: Sides = (z3.BoolVal(True), z3.BoolVal(True))
            if loop is None:
                return state, here
        else:
            state, here = self._merged(block, before)
        return (state, here) if loop is None else self._head(block, state, here)

    def _merged(self, block: int, before: Sequence[int]) -> tuple[State, Sides]:
        edges = [(self._edges[one, block], self._ends[one]) for one in before]
        if len(edges) == 1:
            return dict(edges[0][1]), edges[0][0]
        state: State = {}
        here = self._condition(block, edges)
        for slot in self._flow.live[block]:
            if not any(slot in end for _, end in edges):
                continue
            known = [(edge, end[slot] if slot in end else self._unwritten(slot)) for edge, end in edges]
            state[slot] = self._united(here, (self._joined(known, 0), self._joined(known, 1)))
        return state, here

    def _unwritten(self, slot: int) -> Sides:
        """What a register holds that nothing has written: the same in both, and nothing is known of it."""
        value = self._given.value(self._both.original, slot)
        return value, value

    @staticmethod
    def _joined(known: Sequence[tuple[Sides, Sides]], side: int) -> Term:
        (_, first), *others = known
        term = first[side]
        for edge, value in others:
            if not value[side].eq(term):
                term = z3.If(edge[side], value[side], term)
        return term

    def _condition(self, block: int, edges: Sequence[tuple[Sides, State]]) -> Sides:
        """Where every way from a block's dominator leads here, the condition is the dominator's."""
        dominator = self._flow.dominator[block]
        inside = [loop for loop in self._flow.loops.values() if dominator in loop.body and block not in loop.body]
        if block in self._flow.inevitable[dominator] and not inside:
            return self._reached[dominator]
        return (_either([edge[0] for edge, _ in edges]), _either([edge[1] for edge, _ in edges]))

    def _head(self, head: int, entered: State, here: Sides) -> tuple[State, Sides]:
        """The beginning of any turn of a loop."""
        if not self.same(z3.BoolVal(True), here):
            raise NotShown(f"step {head}: whether the loop is entered")
        self._entered[head] = entered
        self._turn(head, entered, here[0])
        state = dict(entered)
        for slot in self._flow.loops[head].writes:
            if slot not in self._flow.live[head]:
                state.pop(slot, None)
                continue
            ours = self._given.fresh(slot, f"turn.{head}")
            theirs = self._given.fresh(slot, f"turn.{head}.mutant") if (head, slot) in self._assumed.unlike else ours
            state[slot] = (ours, theirs)
        turn = self._known(head, state)
        for key, claim in self._claims(head):
            if key not in self._assumed.dropped:
                self._facts.append(z3.Implies(here[0], claim(turn)))
        return state, (here[0], here[0])

    def _known(self, head: int, state: State) -> dict[int, Term]:
        """Of the kernel, what counters and bounds are."""
        slots = (*self._given.counters(head), *self._given.bounds(head))
        return {slot: (state.get(slot) or self._unwritten(slot))[0] for slot in slots}

    def _turn(self, head: int, state: State, here: Term) -> None:
        """What is assumed of a loop holds on a way to its head."""
        failed = False
        for slot in self._flow.loops[head].writes & self._flow.live[head]:
            sides = state.get(slot) or self._unwritten(slot)
            if (head, slot) not in self._assumed.unlike and not self.same(here, sides):
                self._assumed.unlike.add((head, slot))
                failed = True
        turn = self._known(head, state)
        for key, claim in self._claims(head):
            if key not in self._assumed.dropped and not self._holds(here, claim(turn)):
                self._assumed.dropped.add(key)
                failed = True
        if failed:
            raise GivenUp

    def _claims(self, head: int) -> Iterator[tuple[tuple[int, int, str], Claim]]:
        """What may hold of a loop's counters at its head, by head, counter and name."""
        if not self._assumed.claims:
            return
        first = self._known(head, self._entered[head])
        for slot in self._given.counters(head):
            for name, claim in self._given.claims(head, first, slot):
                yield (head, slot, name), claim

    def _leave(self, block: int, state: State, here: Sides) -> None:
        """Conditions of the ways out of a block."""
        at = self._flow.blocks[block] - 1
        following = self._flow.after[block]
        old, new = self._both.original.steps[at], self._both.ours[at]
        jumps = old.kind is Kind.BRANCH or (new.kind is Kind.BRANCH)
        if not jumps:
            stays = self._guards(state, (old, new), negated=True) if old.kind in (Kind.EXIT, Kind.TRAP) else None
            for one in following:
                self._edge(block, one, state, here, stays)
            return
        taken = self._guards(state, (old, new))
        for number, one in enumerate(following):
            guard = taken if number == 0 else (z3.Not(taken[0]), z3.Not(taken[1]))
            self._edge(block, one, state, here, guard if len(following) > 1 else None)

    def _guards(self, state: State, steps: tuple[Step, Step], *, negated: bool = False) -> Sides:
        made = []
        for side, step in enumerate(steps):
            moves = step.kind in (Kind.BRANCH, Kind.EXIT, Kind.TRAP)
            term = self._guard(side, state, step) if moves else z3.BoolVal(False)
            made.append(z3.Not(term) if negated else term)
        return made[0], made[1]

    def _edge(self, block: int, to: int, state: State, here: Sides, guard: Sides | None) -> None:
        edge = here if guard is None else (_both(here[0], guard[0]), _both(here[1], guard[1]))
        loop = next((one for one in self._flow.loops.values() if block in one.body and to not in one.body), None)
        back = to in self._flow.loops and block in self._flow.loops[to].body
        if (loop is not None or back) and not self.same(z3.BoolVal(True), edge):
            raise NotShown(f"step {block}: whether the loop ends")
        if back:
            self._turn(to, state, edge[0])
        self._edges[block, to] = edge

    # --- steps

    def _step(self, at: int, state: State, here: Sides) -> None:
        old, new = self._both.original.steps[at], self._both.ours[at]
        if old.kind is Kind.BRANCH or new.kind is Kind.BRANCH:
            return
        if old.kind in COMPUTES and new.kind in COMPUTES:
            self._compute(state, here, old, new)
        else:
            self._effect(at, state, here, old, new)

    def _compute(self, state: State, here: Sides, old: Step, new: Step) -> None:
        unchanged = old is new or alike(self._both, old, new)
        made: list[Mapping[int, Term]] = []
        for side, step in enumerate((old, new)):
            if (
                side
                and unchanged
                and all(self._alike(state, slot) for slot in (*step.sources, *step.destinations))
                and (step.guard == NO_GUARD or self._alike(state, step.guard))
            ):
                made.append(made[0])
            else:
                made.append(self._made(side, state, step))
        for slot in {**made[0], **made[1]}:
            sides = tuple(one[slot] if slot in one else self._value(side, state, slot) for side, one in enumerate(made))
            state[slot] = self._united(here, (sides[0], sides[1]))

    def _alike(self, state: State, slot: int) -> bool:
        return slot not in state or state[slot][0].eq(state[slot][1])

    def _made(self, side: int, state: State, step: Step) -> Mapping[int, Term]:
        """What a computing step writes."""
        if step.kind is Kind.NOTHING:
            return {}
        narrow = step.narrow or (0,) * len(step.sources)
        sources = [
            fit(one, bits) if bits and not z3.is_bool(one) else one
            for one, bits in zip((self._value(side, state, slot) for slot in step.sources), narrow, strict=True)
        ]
        if step.kind is Kind.PACK:
            results = [z3.Concat(*(fit(one, step.element_bits) for one in reversed(sources)))]
        elif step.kind is Kind.UNPACK:
            bits = step.element_bits
            results = [z3.Extract(bits * (at + 1) - 1, bits * at, sources[0]) for at in range(len(step.destinations))]
        else:
            assert step.operation is not None
            results = self._terms.results(step.operation, sources)
        signs = step.sign_from or (0,) * len(step.destinations)
        return {
            slot: self._written(side, state, step, slot, result, sign)
            for slot, result, sign in zip(step.destinations, results, signs, strict=False)
            if slot != SINK
        }

    def _written(self, side: int, state: State, step: Step, slot: int, result: Term, sign: int) -> Term:
        """A result as its register holds it, or what it held where the guard does not hold."""
        bits = self._both.original.slot_bits[slot]
        if not z3.is_bool(result):
            result = fit(result, bits, signed=bool(sign))
        if step.guard == NO_GUARD:
            return result
        return z3.If(self._guard(side, state, step), result, self._value(side, state, slot))

    def _guard(self, side: int, state: State, step: Step) -> Term:
        if step.guard == NO_GUARD:
            return z3.BoolVal(True)
        value = self._value(side, state, step.guard)
        return z3.Not(value) if step.guard_negated else value

    def _value(self, side: int, state: State, slot: int) -> Term:
        if slot in state:
            return state[slot][side]
        program = self._both.changed if side else self._both.original
        return self._given.value(program, slot)

    # --- effects

    def _effect(self, at: int, state: State, here: Sides, old: Step, new: Step) -> None:
        when = tuple(_both(here[side], self._guard(side, state, step)) for side, step in enumerate((old, new)))
        if not same_effect(old, new):
            dropped = new.kind is Kind.NOTHING
            if self._holds(z3.BoolVal(True), z3.Not(when[0] if dropped else z3.Or(*when))):
                return
            raise NotShown(f"step {at}: {old.opcode} for {new.opcode}")
        if not self.same(z3.BoolVal(True), (when[0], when[1])):
            raise NotShown(f"step {at}: whether {old.opcode} happens")
        operands = [self._operand(state, one) for one in zip(operands_of(old), operands_of(new), strict=True)]
        if old.access is not None and new.access is not None and old.access.offset != new.access.offset:
            a, b = operands[0]
            operands[0] = (a + old.access.offset, b + new.access.offset)
        if old.kind is Kind.STORE and old.access is not None:  # of a register as much as is stored
            bits = 8 * old.access.size
            operands[1:] = [(_cut(a, bits), _cut(b, bits)) for a, b in operands[1:]]
        for sides in operands:
            if not self.same(when[0], sides):
                raise NotShown(f"step {at}: an operand of {old.opcode}")
        self._answer(at, state, old, new)

    def _operand(self, state: State, slots: tuple[int, int]) -> Sides:
        return self._value(0, state, slots[0]), self._value(1, state, slots[1])

    def _answer(self, at: int, state: State, old: Step, new: Step) -> None:
        """What an effect gives is the same in both, and nothing is known of it."""
        for number, slot in enumerate(old.destinations):
            if slot == SINK:
                continue
            symbol = self._given.answer(old, slot, number, at)
            sides = [
                self._written(side, state, step, slot, symbol, step.sign_from[number] if step.sign_from else 0)
                for side, step in enumerate((old, new))
            ]
            state[slot] = (sides[0], sides[1])


def _cut(term: Term, bits: int) -> Term:
    return term if z3.is_bool(term) or term.size() <= bits else fit(term, bits)


def _both(a: Term, b: Term) -> Term:
    return b if z3.is_true(a) else a if z3.is_true(b) else z3.And(a, b)


def _either(terms: Sequence[Term]) -> Term:
    return terms[0] if len(terms) == 1 else z3.Or(*terms)
