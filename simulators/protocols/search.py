"""Every state that a model can reach: proved right, or the shortest way to what is wrong.

Two reductions, both of which the tests hold to the search without them:

* **Symmetry**: of states that differ by an exchange of processes of one role, the one with ascending rows is looked at.
* **Partial order**: a process that can take a private action takes it at once, and all others wait. It commutes with
  everything that others can do, and breaks no rule.

Three things can be wrong: an action breaks a rule; nothing can happen and a process is not done; or a state has no way
to the end any more, though something can always happen. The last takes another look at all states.
"""

import time
from dataclasses import dataclass

import numpy as np

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols import compiled_search
from tileproof.simulators.protocols.compiled_search import (
    ASKED,
    ASKS,
    AT_CODE,
    AT_STATE,
    COUNT,
    DONE,
    ENDS,
    FULL,
    NOTES,
    STEPS,
    STUCK,
    room_for,
)
from tileproof.simulators.protocols.definition import ALL_REDUCTIONS, Reductions, canonical, check_first
from tileproof.simulators.protocols.layout import layout_of, packed
from tileproof.simulators.protocols.model import FIRST_RULE, Model, Role
from tileproof.simulators.protocols.step_memory import StepMemory
from tileproof.simulators.protocols.tables import Ints, Words, tables_of
from tileproof.simulators.protocols.trace import Trace, broken, process_names, trace_along

DEFAULT_STATES = 50_000_000
_FIRST_ROOM, _GROWTH = 1 << 14, 2


@dataclass(frozen=True)
class Verdict:
    """What a search found.

    Args:
        model: the model.
        wrong: what is wrong, in words; "" where the model is proved right.
        trace: the way there; None where there is none.
        states: that were looked at.
        steps: that were looked at.
        ends: states in which all processes are done.
        seconds: that the search took, without loading it.
    """

    model: Model
    wrong: str
    trace: Trace | None
    states: int
    steps: int
    ends: int
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether the model is proved right."""
        return not self.wrong


def decide(model: Model, *, most_states: int = DEFAULT_STATES) -> Verdict:
    """Prove a model right, or find the shortest trace to what is wrong.

    Raises:
        Refusal: the model has more than `most_states` states, or is no model.
    """
    verdict = search(model, most_states=most_states)
    return verdict if verdict.is_right else search(model, Reductions(partial_order=False), most_states=most_states)


def search(
    model: Model,
    reductions: Reductions = ALL_REDUCTIONS,
    *,
    most_states: int = DEFAULT_STATES,
    progress: bool = True,
) -> Verdict:
    """Look at every reachable state that is not left out, until one is wrong.

    Args:
        model: the model.
        reductions: what is left out.
        most_states: where to give up.
        progress: see that every state has a way to the end, too.

    Raises:
        Refusal: the model has more than `most_states` states, or is no model.
    """
    return Search(model, reductions, most_states).run(progress)


class Search:
    """One search, and what it knows: for those that measure it. Arguments as of `search`."""

    def __init__(self, model: Model, reductions: Reductions, most_states: int = DEFAULT_STATES) -> None:
        self._model, self._reductions, self._most_states = model, reductions, most_states
        check_first(model)
        self._layout = layout_of(model)
        self._tables = tables_of(model, self._layout)
        self._memory = StepMemory(model, self._layout, self._tables)
        self._room = room_for(len(self._layout.cells), self._layout.words, _branching(model))
        self._notes: Ints = np.zeros(NOTES, np.int64)
        self._states: Words = np.zeros((_FIRST_ROOM + len(self._room.out), self._layout.words), np.uint64)
        self._parents: Ints = np.zeros(len(self._states), np.int64)
        start = canonical(model, model.first) if reductions.symmetry else model.first
        self._states[0] = packed(self._layout, start)
        self._notes[COUNT] = 1
        self._parents[0] = -1
        self._index()

    @property
    def _count(self) -> int:
        return int(self._notes[COUNT])

    def _index(self) -> None:
        """A table with room for all states that the queue has room for."""
        size = 1 << (len(self._states) * 3 // 2).bit_length()
        self._table: Words = np.zeros((size, self._layout.words), np.uint64)
        compiled_search.fill(self._table, self._states, self._count)

    def _grow(self) -> None:
        if self._count > self._most_states:
            raise Refusal(
                f"{self._model.name}: more than {self._most_states} states", hint="ask for a smaller one, or for more"
            )
        room = _GROWTH * len(self._states)
        states, parents = np.zeros((room, self._layout.words), np.uint64), np.zeros(room, np.int64)
        states[: self._count], parents[: self._count] = self._states[: self._count], self._parents[: self._count]
        self._states, self._parents = states, parents
        self._index()

    def run(self, progress: bool) -> Verdict:
        """Search, and then see that every state can end."""
        self._advance(np.zeros(NOTES, np.int64))  # loads the compiled search: there is nothing to look at
        began = time.perf_counter()
        while (status := self._advance(self._notes)) in (FULL, ASKS):
            if status == FULL:
                self._grow()
            else:
                self._memory.learn(self._states, self._room.asked[: self._notes[ASKED]].tolist())
        stranded = self._stranded() if status == DONE and progress else None
        seconds = time.perf_counter() - began
        wrong, trace = self._found(status, stranded)
        states, steps, ends = (int(self._notes[slot]) for slot in (COUNT, STEPS, ENDS))
        return Verdict(self._model, wrong, trace, states, steps, ends, seconds)

    @property
    def asked(self) -> int:
        """Pairs of a row and shared numbers of which the model was asked what happens next."""
        return self._memory.known

    def again(self) -> None:
        """Search once more, knowing all steps and with all room: what the compiled search takes by itself."""
        states = self._count
        self._notes[:] = 0
        self._notes[COUNT] = 1
        self._index()
        status = self._advance(self._notes)
        assert status == DONE
        assert self._count == states

    def _advance(self, notes: Ints) -> int:
        status: int = compiled_search.advance(
            self._tables,
            self._memory.arrays,
            self._states,
            self._parents,
            self._table,
            notes,
            self._room,
            self._reductions.symmetry,
            self._reductions.partial_order,
        )
        return status

    def _stranded(self) -> int | None:
        """The first state from which there is no way to the end; None if all have one."""
        good = np.zeros(len(self._table), np.bool_)
        while compiled_search.settle(
            self._tables,
            self._memory.arrays,
            self._states,
            self._table,
            self._notes,
            self._room,
            good,
            self._reductions.symmetry,
            self._reductions.partial_order,
        ):
            pass
        first: int = compiled_search.first_without(self._table, self._states, good, self._count)
        return None if first < 0 else first

    def _found(self, status: int, stranded: int | None) -> tuple[str, Trace | None]:
        if stranded is not None:
            trace = self._trace(stranded)
            return f"no way to the end any more: {_whereabouts(self._model, trace)}", trace
        if status == DONE:
            return "", None
        trace = self._trace(int(self._notes[AT_STATE]))
        if status == STUCK:
            return f"nobody can go on: {_whereabouts(self._model, trace)}", trace
        rule = int(self._notes[AT_CODE]) - FIRST_RULE
        return self._model.rules[rule], broken(self._model, trace, rule)

    def _trace(self, state: int) -> Trace:
        way = [state]
        while self._parents[way[-1]] >= 0:
            way.append(int(self._parents[way[-1]]))
        packed_way = [tuple(self._states[one].tolist()) for one in reversed(way)]
        return trace_along(self._model, self._layout, packed_way, sorts=self._reductions.symmetry)


def _branching(model: Model) -> int:
    """Successors that a state can have at most."""
    return sum(
        len(role.starts) * max(_choices(role, place) for place in range(len(role.places))) for role in model.roles
    )


def _choices(role: Role, place: int) -> int:
    return sum(len(action.choices) for action in role.actions if not action.at or place in action.at)


def _whereabouts(model: Model, trace: Trace) -> str:
    return ", ".join(f"{name} {place}" for name, place in zip(process_names(model), trace.places, strict=True))
