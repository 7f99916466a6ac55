"""Every state that a model can reach: proved right, or the shortest way to what is wrong.

Two reductions, both of which the tests hold to the search without them:

* **Symmetry**: of states that differ by an exchange of processes of one role, the one with ascending rows is looked at.
* **Partial order**: where all that a process's thread can do may be taken alone (`movers.py`), nothing else is; else
  what happens beside threads is put off until it matters (`put_off.py`).

Three things can be wrong: an action breaks a rule; nothing can happen and a process is not done; or a state has no way
to the end any more, though something can always happen. The last takes another look at all states.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols import compiled_search, side_by_side
from tileproof.simulators.protocols.compiled_search import (
    ASKED,
    ASKS,
    AT_CODE,
    AT_PROCESS,
    AT_STATE,
    BACK,
    BATCH,
    BESIDE,
    BROKEN,
    CLASH,
    COUNT,
    DEPTH,
    DONE,
    ENDS,
    FULL,
    LEVEL_END,
    NEXT,
    NOTES,
    PAUSED,
    STEPS,
    STUCK,
    UNTIL,
    Queue,
    Room,
    room_for,
)
from tileproof.simulators.protocols.definition import ALL_REDUCTIONS, Reductions, canonical, check_first
from tileproof.simulators.protocols.layout import layout_of, packed
from tileproof.simulators.protocols.model import FIRST_RULE, Model, Role
from tileproof.simulators.protocols.movers import Movers
from tileproof.simulators.protocols.put_off import PutOff
from tileproof.simulators.protocols.side_by_side import Team, threads_of_machine
from tileproof.simulators.protocols.step_memory import StepMemory
from tileproof.simulators.protocols.tables import Ints, Words, tables_of
from tileproof.simulators.protocols.trace import Trace, broken, process_names, trace_along

DEFAULT_STATES = 50_000_000
MOST_STATES = (1 << 31) - 2
"""Numbers of states have 32 bits."""
# Room that is not used costs nothing but addresses.
_FIRST_ROOM, _GROWTH = 1 << 20, 4
# States between two looks at the clock, and at whether the user has interrupted.
_SLICE = 1 << 16
_STROLLS = 100


@dataclass(frozen=True)
class Progress:
    """How far a search is: states found, states looked at, steps from the first state on, and seconds."""

    states: int
    looked_at: int
    depth: int
    seconds: float


Watch = Callable[[Progress], None]


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
        depth: steps from the first state to the last one that was looked at.
        seconds: that the search took, without loading it.
    """

    model: Model
    wrong: str
    trace: Trace | None
    states: int
    steps: int
    ends: int
    depth: int
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether the model is proved right."""
        return not self.wrong


def decide(model: Model, *, most_states: int = DEFAULT_STATES, watch: Watch | None = None) -> Verdict:
    """Prove a model right, or find the shortest trace to what is wrong.

    Args:
        model: the model.
        most_states: where to give up.
        watch: is told now and then how far it is.

    Raises:
        Refusal: the model has more than `most_states` states, or is no model.
    """
    verdict = search(model, most_states=most_states, watch=watch)
    if verdict.is_right:
        return verdict
    return search(model, Reductions(partial_order=False), most_states=most_states, watch=watch)


def search(
    model: Model,
    reductions: Reductions = ALL_REDUCTIONS,
    *,
    most_states: int = DEFAULT_STATES,
    progress: bool = True,
    watch: Watch | None = None,
) -> Verdict:
    """Look at every reachable state that is not left out, until one is wrong.

    Args:
        model: the model.
        reductions: what is left out.
        most_states: where to give up.
        progress: see that every state has a way to the end, too.
        watch: is told now and then how far it is.

    Raises:
        Refusal: the model has more than `most_states` states, or is no model.
    """
    return Search(model, reductions, most_states, watch).run(progress)


class Search:
    """One search, and what it knows: for those that measure it. Arguments as of `search`.

    Attributes:
        threads: how many look at states side by side; by default as many as make sense here.
    """

    def __init__(
        self,
        model: Model,
        reductions: Reductions,
        most_states: int = DEFAULT_STATES,
        watch: Watch | None = None,
        threads: int | None = None,
    ) -> None:
        self._model, self._reductions, self._most_states, self._watch = model, reductions, most_states, watch
        self.threads = threads_of_machine() if threads is None else threads
        if most_states > MOST_STATES:
            raise Refusal(f"{most_states} states; a search has room for {MOST_STATES} at most")
        check_first(model)
        self._layout = layout_of(model)
        self._tables = tables_of(model, self._layout)
        self._memory = StepMemory(model, self._layout, self._tables)
        self._branching = _branching(model)
        self._room = self._room_of(BATCH * self._branching)
        self._team: Team | None = None
        self._queue = self._queue_of(_FIRST_ROOM + len(self._room.out))
        start = canonical(model, model.first) if reductions.symmetry else model.first
        self._queue.states[0] = packed(self._layout, start)
        self._queue.parents[0] = -1
        self._notes: Ints = np.zeros(NOTES, np.int64)
        self._batch: Ints = np.zeros(NOTES, np.int64)
        self._has_scouted = False
        self._index()
        self._begin()

    def _begin(self) -> None:
        """With the first state, and all that is known of steps."""
        self._memory.begin()
        self._notes[:] = 0
        self._notes[COUNT] = 1
        self._queue.lasts[:] = 0
        self._table[:] = 0
        compiled_search.fill(self._table, self._queue.states, 1)

    def _room_of(self, successors: int) -> Room:
        things = max(map(int, self._tables.things))
        return room_for(len(self._layout.cells), self._layout.words, things, self._branching, successors)

    def _queue_of(self, room: int) -> Queue:
        return Queue(
            np.zeros((room, self._layout.words), np.uint64), np.zeros(room, np.int32), np.zeros(room, np.int32)
        )

    @property
    def _count(self) -> int:
        return int(self._notes[COUNT])

    def _index(self) -> None:
        """A table with room for all states that the queue has room for."""
        size = 1 << (len(self._queue.states) * 3 // 2).bit_length()
        self._table: Words = np.zeros(size, np.uint64)
        compiled_search.fill(self._table, self._queue.states, self._count)

    def _grow(self) -> None:
        room = _GROWTH * len(self._queue.states)
        try:
            self._make_room(room)
        except MemoryError:
            raise Refusal(f"{self._model.name}: no memory for more than {self._count} states") from None

    def _make_room(self, room: int) -> None:
        queue, known = self._queue_of(room), slice(self._count)
        queue.states[known] = self._queue.states[known]
        queue.parents[known] = self._queue.parents[known]
        queue.lasts[known] = self._queue.lasts[known]
        self._queue = queue
        self._index()

    def run(self, progress: bool) -> Verdict:
        """Search, and then see that every state can end."""
        self._advance(np.zeros(NOTES, np.int64))  # loads the compiled search: there is nothing to look at
        began = time.perf_counter()
        try:
            status = self._go_on(began)
        finally:
            self._dismiss()
        stranded = self._stranded() if status == DONE and progress else None
        seconds = time.perf_counter() - began
        wrong, trace = self._found(status, stranded)
        states, steps, ends, depth = (int(self._notes[slot]) for slot in (COUNT, STEPS, ENDS, DEPTH))
        return Verdict(self._model, wrong, trace, states, steps, ends, depth, seconds)

    def _go_on(self, began: float) -> int:
        """Search until it is done or something is wrong."""
        movers = self._memory.movers
        while True:
            self._go_on_together()
            self._notes[UNTIL] = self._notes[NEXT] + self._slice()
            status = self._advance(self._notes)
            if status == ASKS:
                self._learn()
            elif status == FULL:
                self._grow()
            elif status == PAUSED:
                self._scout()
            elif status == CLASH:
                self._drop()
            elif status == DONE:
                movers.break_circles()
            self._tell(time.perf_counter() - began)
            if self._reductions.partial_order and self._memory.is_stale:
                self._begin()
            elif status in (DONE, BROKEN, STUCK):
                return status

    def _slice(self) -> int:
        """States to look at by one thread."""
        return _SLICE if self.threads < 2 else side_by_side.LARGE

    def _go_on_together(self) -> None:
        """Look at states by several threads, if there are many to look at."""
        if self.threads < 2 or self._count - self._notes[NEXT] < side_by_side.LARGE:
            return
        if self._team is None:
            symmetry, partial = self._reductions.symmetry, self._reductions.partial_order
            self._team = Team(self._tables, self._room_of, self.threads, symmetry, partial)
        self._team.go_on(self._memory.arrays, self._queue, self._table, self._notes)

    def _dismiss(self) -> None:
        if self._team is not None:
            self._team.close()
            self._team = None

    def _learn(self) -> None:
        asked = self._batch[ASKED]
        self._memory.learn(self._room.asked_at[:asked], self._room.asked[:asked].tolist())
        self._room.clash[:] = 0

    def _drop(self) -> None:
        """Of a step that touched what others hold: take the actions that held it alone no more."""
        changed, looked_at = (_joined(row) for row in np.split(self._room.clash, 2))
        words = self._room.at.tolist()
        holders = [
            (role, words[place.word] >> place.shift & place.mask)
            for process, (place, role) in enumerate(zip(self._layout.cells, self._layout.roles, strict=True))
            if process != self._batch[AT_PROCESS] or self._batch[BESIDE]
        ]
        self._memory.movers.drop(holders, changed, looked_at)
        self._memory.refresh()
        self._room.clash[:] = 0

    def _scout(self) -> None:
        """Before the search becomes large, follow some runs to their end: clashes there would be seen late in it."""
        if self._has_scouted or not self._reductions.partial_order:
            return
        self._has_scouted = True
        for seed in range(_STROLLS):
            state = self._queue.states[0].copy()
            while (status := self._stroll(state, seed)) != DONE:
                if status == CLASH:
                    self._drop()
                    state = self._queue.states[0].copy()
                else:
                    self._learn()

    def _stroll(self, state: Words, seed: int) -> int:
        status: int = compiled_search.stroll(
            self._tables,
            self._memory.arrays,
            state,
            self._batch,
            self._room,
            self._reductions.symmetry,
            self._reductions.partial_order,
            seed,
        )
        return status

    def _tell(self, seconds: float) -> None:
        """Say how far it is. Raises: Refusal where that is too far."""
        if self._count > self._most_states:
            raise Refusal(
                f"{self._model.name}: more than {self._most_states} states",
                hint="ask for a smaller one, or for more by --states",
            )
        if self._watch is not None:
            self._watch(Progress(self._count, int(self._notes[NEXT]), int(self._notes[DEPTH]), seconds))

    @property
    def queue(self) -> Queue:
        """The states that it has found, in their order, and room for more."""
        return self._queue

    @property
    def asked(self) -> int:
        """How often the model was asked what an action does."""
        return self._memory.asked

    @property
    def movers(self) -> Movers:
        """Which steps it takes alone."""
        return self._memory.movers

    @property
    def left_out(self) -> PutOff:
        """What it leaves out."""
        return self._memory.put_off

    @property
    def not_alone(self) -> frozenset[str]:
        """Actions that were found not to be such as may be taken alone."""
        roles = self._model.roles
        return frozenset(roles[role].actions[action].words for role, action in self._memory.movers.dropped)

    def rewind(self) -> None:
        """Go back to the first state, with all that is known and all room; to be followed by `again`."""
        self._states_before = self._count
        for slot in (NEXT, STEPS, ENDS, DEPTH, LEVEL_END, BACK):
            self._notes[slot] = 0
        self._notes[COUNT] = 1
        self._table[:] = 0
        self._queue.lasts[:] = 0
        compiled_search.fill(self._table, self._queue.states, 1)

    def again(self) -> None:
        """Search once more: what the compiled search takes by itself."""
        status = PAUSED
        while status == PAUSED:
            self._go_on_together()
            self._notes[UNTIL] = self._notes[NEXT] + self._slice()
            status = self._advance(self._notes)
        assert status == DONE
        assert self._count == self._states_before

    def _advance(self, notes: Ints) -> int:
        status: int = compiled_search.advance(
            self._tables,
            self._memory.arrays,
            self._queue,
            self._table,
            notes,
            self._batch,
            self._room,
            self._reductions.symmetry,
            self._reductions.partial_order,
        )
        return status

    def _stranded(self) -> int | None:
        """The first state from which there is no way to the end; None if all have one.

        Where each has a successor that was found later, all have. Else it follows the successors that were found last;
        only if that goes round does it look at all states again.
        """
        if not self._notes[BACK] or not compiled_search.goes_round(
            self._queue.lasts, np.zeros(self._count, np.int32), self._count
        ):
            return None
        good = np.zeros(self._count, np.bool_)
        while compiled_search.settle(
            self._tables,
            self._memory.arrays,
            self._queue.states,
            self._table,
            self._count,
            self._batch,
            self._room,
            good,
            self._reductions.symmetry,
            self._reductions.partial_order,
        ):
            pass
        return None if good.all() else int(good.argmin())

    def _found(self, status: int, stranded: int | None) -> tuple[str, Trace | None]:
        if stranded is not None:
            trace = self._trace(stranded)
            return f"no way to the end any more: {_whereabouts(self._model, trace)}", trace
        if status == DONE:
            return "", None
        trace = self._trace(int(self._batch[AT_STATE]))
        if status == STUCK:
            return f"nobody can go on: {_whereabouts(self._model, trace)}", trace
        rule = int(self._batch[AT_CODE]) - FIRST_RULE
        return self._model.rules[rule], broken(self._model, trace, rule)

    def _trace(self, state: int) -> Trace:
        way = [state]
        while self._queue.parents[way[-1]] >= 0:
            way.append(int(self._queue.parents[way[-1]]))
        packed_way = [tuple(self._queue.states[one].tolist()) for one in reversed(way)]
        return trace_along(self._model, self._layout, packed_way, sorts=self._reductions.symmetry)


def _joined(words: Words) -> int:
    return sum(word << 64 * number for number, word in enumerate(words.tolist()))


def _branching(model: Model) -> int:
    """Successors that a state can have at most."""
    return sum(
        len(role.starts) * max(_choices(role, place) for place in range(len(role.places))) for role in model.roles
    )


def _choices(role: Role, place: int) -> int:
    return sum(len(action.choices) for action in role.actions if not action.at or place in action.at)


def _whereabouts(model: Model, trace: Trace) -> str:
    return ", ".join(f"{name} {place}" for name, place in zip(process_names(model), trace.places, strict=True))
