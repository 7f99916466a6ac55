"""What a model's actions mean, and the search through its states as plain Python: the definition.

It is written to be read: no packing, no trees, no machine code. That an action which may not act has changed nothing,
and that numbers stay within what is declared, is seen where the model is asked (`asking.py`).
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tileproof.simulators.protocols.asking import Answer, Numbers, ask, check_numbers, questions
from tileproof.simulators.protocols.model import AT, FIRST_RULE, WAITS, Model, Role, State
from tileproof.simulators.protocols.touched import Thing, Touched, touched_by


@dataclass(frozen=True)
class Reductions:
    """What a search leaves out.

    Args:
        symmetry: states that are another one with processes of one role exchanged.
        partial_order: orders of steps that may be taken alone (`movers.py`), and of things beside the threads that may
            be put off (`put_off.py`). A trace is then not always the shortest.
    """

    symmetry: bool = True
    partial_order: bool = True


ALL_REDUCTIONS = Reductions()
NOTHING_LEFT_OUT = Reductions(symmetry=False, partial_order=False)


@dataclass(frozen=True)
class Step:
    """One action of one process.

    Args:
        process: its number, over all roles.
        action: number of the action within the role.
        which: of several like things.
        code: that the action answered.
        state: afterwards.
    """

    process: int
    action: int
    which: int
    code: int
    state: State

    @property
    def rule(self) -> int:
        """Number of the rule that it breaks; negative if none."""
        return self.code - FIRST_RULE


def moves(model: Model, role: Role, shared: tuple[int, ...], own: tuple[int, ...]) -> Iterator[Answer]:
    """What a process may do.

    Raises:
        Refusal: the model is no model: see the module.
    """
    answers = (ask(model, role, question, shared, own) for question in questions(role, own))
    return (answer for answer in answers if answer.code != WAITS)


def steps(model: Model, state: State) -> Iterator[Step]:
    """Everything that may happen next. Raises: Refusal, as `moves`."""
    for process, (role, _) in enumerate(model.processes):
        for move in moves(model, role, state.shared, state.rows[process]):
            yield _step(state, process, move)


def _step(state: State, process: int, move: Answer) -> Step:
    """The state behind a move."""
    rows = (*state.rows[:process], move.own, *state.rows[process + 1 :])
    return Step(process, move.action, move.which, move.code, State(move.shared, rows))


def check_first(model: Model) -> None:
    """Raises: Refusal where the first state has a number that lies outside its range."""
    check_numbers(model, model.fields, dict(enumerate(model.start)))
    for role in model.roles:
        for start in role.starts:
            check_numbers(model, role.row, dict(enumerate(start)))


def canonical(model: Model, state: State) -> State:
    """Of all states with rows of one role exchanged, the one with ascending rows."""
    rows: list[tuple[int, ...]] = []
    for role in model.roles:
        rows += sorted(state.rows[len(rows) : len(rows) + len(role.starts)])
    return State(state.shared, tuple(rows))


def has_ended(model: Model, state: State) -> bool:
    """Whether all processes are done."""
    return all(row[AT] == role.end for (role, _), row in zip(model.processes, state.rows, strict=True))


@dataclass(frozen=True)
class Explored:
    """What a search saw.

    Args:
        states: how many.
        steps: how many.
        ends: states in which nothing can happen and all processes are done.
        broken: a state, and the step by which a rule is broken there; None if none is.
        stuck: a state in which nothing can happen although a process is not done.
        depth: steps of the shortest way to what is wrong, the last one included.
    """

    states: int
    steps: int
    ends: int
    broken: tuple[State, Step] | None = None
    stuck: State | None = None
    depth: int = 0


class LeftOut(Protocol):
    """What a search leaves out, as it has learned it: see `movers.py` and `put_off.py`."""

    def takes_alone(self, role: int, own: Numbers, answer: Answer, /) -> bool:
        """Whether a step of a process of a role, from a row, may be taken alone."""

    def of_thread(self, role: int, own: Numbers, /) -> Touched:
        """What the thread with a row touches of it, and what of the shared numbers it holds."""

    def things(self, role: int, /) -> Mapping[Thing, Touched]:
        """What can happen beside a thread, and all that it touches."""


def explore(model: Model, *, symmetry: bool = False, left_out: LeftOut | None = None) -> Explored:
    """All states, breadth first, until a rule is broken or nothing can happen.

    Args:
        model: the model.
        symmetry: leave out states with rows exchanged.
        left_out: leave out such orders of steps.

    Raises:
        Refusal: as `steps`.
    """
    start = canonical(model, model.first) if symmetry else model.first
    known, queue = {start: 0}, deque([start])
    taken = ends = 0
    while queue:
        state = queue.popleft()
        following = list(_following(model, state, symmetry, left_out))
        if not following:
            if not has_ended(model, state):
                return Explored(len(known), taken, ends, stuck=state, depth=known[state])
            ends += 1
        for step in following:
            taken += 1
            if step.rule >= 0:
                return Explored(len(known), taken, ends, broken=(state, step), depth=known[state] + 1)
            after = canonical(model, step.state) if symmetry else step.state
            if after not in known:
                known[after] = known[state] + 1
                queue.append(after)
    return Explored(len(known), taken, ends)


def _following(model: Model, state: State, symmetry: bool, left_out: LeftOut | None) -> Iterator[Step]:
    """The steps to look at; of those of processes with one role and row the first's."""
    processes = [
        process
        for process, (_, number) in enumerate(model.processes)
        if not (symmetry and number and state.rows[process] == state.rows[process - 1])
    ]
    if left_out is None:
        return _steps_of(model, state, processes)
    found = next(filter(None, (_taken_alone(model, state, process, left_out) for process in processes)), [])
    return iter(found or _not_put_off(model, state, processes, left_out) or _steps_of(model, state, processes))


def _steps_of(model: Model, state: State, processes: Sequence[int]) -> Iterator[Step]:
    for process in processes:
        for move in moves(model, model.processes[process][0], state.shared, state.rows[process]):
            yield _step(state, process, move)


def _taken_alone(model: Model, state: State, process: int, left_out: LeftOut) -> list[Step]:
    """What the thread of a process can do, if all of that may be taken alone and nobody else can give it more to do."""
    own, number = state.rows[process], _role_number(model, process)
    open_ones = [one for one in _asked_of_thread(model, state, process) if one.code != WAITS or one.shared_seen]
    if not all(answer.code != WAITS and left_out.takes_alone(number, own, answer) for answer in open_ones):
        return []
    return [_step(state, process, answer) for answer in open_ones]


def _asked_of_thread(model: Model, state: State, process: int) -> list[Answer]:
    (role, _), own = model.processes[process], state.rows[process]
    questions_of_thread = (one for one in questions(role, own) if not role.actions[one[0]].beside)
    return [ask(model, role, question, state.shared, own) for question in questions_of_thread]


def _role_number(model: Model, process: int) -> int:
    return next(number for number, role in enumerate(model.roles) if role is model.processes[process][0])


def _not_put_off(model: Model, state: State, processes: Sequence[int], left_out: LeftOut) -> list[Step]:
    """The steps of all threads, and of the things beside them that these meet, and so on."""
    roles = {process: _role_number(model, process) for process in range(len(state.rows))}
    rows = {process: left_out.of_thread(roles[process], row) for process, row in enumerate(state.rows)}
    shared = Touched()
    for process in processes:
        for answer in _asked_of_thread(model, state, process):
            shared |= touched_by(answer).of_others
    for row in rows.values():
        shared |= row.of_others
    taken: set[tuple[int, Thing]] = set()
    is_growing = True
    while is_growing:
        is_growing = False
        for process in processes:
            for thing, touched in left_out.things(roles[process]).items():
                if (process, thing) not in taken and touched.meets(shared | rows[process].of_row):
                    taken.add((process, thing))
                    shared |= touched.of_others
                    rows[process] |= touched
                    is_growing = True
    return [
        step
        for step in _steps_of(model, state, processes)
        if (step.process, (step.action, step.which)) in taken
        or not model.processes[step.process][0].actions[step.action].beside
    ]
