"""What a model's actions mean, and the search through its states as plain Python: the definition.

It is written to be read: no packing, no trees, no machine code. That an action which may not act has changed nothing,
and that numbers stay within what is declared, is seen where the model is asked (`asking.py`).
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tileproof.simulators.protocols.asking import Answer, Numbers, ask, check_numbers, questions
from tileproof.simulators.protocols.model import AT, FIRST_RULE, WAITS, Model, Role, State


@dataclass(frozen=True)
class Reductions:
    """What a search leaves out.

    Args:
        symmetry: states that are another one with processes of one role exchanged.
        partial_order: orders of steps that may be taken alone (`movers.py`). A trace is then not always the shortest.
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


Alone = Callable[[int, Numbers, Answer], bool]
"""Whether a step of a process of a role, from a row, may be taken alone."""


def explore(model: Model, *, symmetry: bool = False, alone: Alone | None = None) -> Explored:
    """All states, breadth first, until a rule is broken or nothing can happen.

    Args:
        model: the model.
        symmetry: leave out states with rows exchanged.
        alone: leave out orders of such steps.

    Raises:
        Refusal: as `steps`.
    """
    start = canonical(model, model.first) if symmetry else model.first
    known, queue = {start: 0}, deque([start])
    taken = ends = 0
    while queue:
        state = queue.popleft()
        following = list(_following(model, state, symmetry, alone))
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


def _following(model: Model, state: State, symmetry: bool, alone: Alone | None) -> Iterator[Step]:
    """The steps to look at: of those of processes with one role and row the first's; or what one thread takes alone."""
    processes = [
        process
        for process, (_, number) in enumerate(model.processes)
        if not (symmetry and number and state.rows[process] == state.rows[process - 1])
    ]
    if alone is not None:
        found = next(filter(None, (_taken_alone(model, state, process, alone) for process in processes)), [])
        if found:
            yield from found
            return
    for process in processes:
        for move in moves(model, model.processes[process][0], state.shared, state.rows[process]):
            yield _step(state, process, move)


def _taken_alone(model: Model, state: State, process: int, alone: Alone) -> list[Step]:
    """What the thread of a process can do, if all of that may be taken alone and nobody else can give it more to do."""
    (role, _), own = model.processes[process], state.rows[process]
    questions_of_thread = (one for one in questions(role, own) if not role.actions[one[0]].beside)
    answers = [ask(model, role, question, state.shared, own) for question in questions_of_thread]
    open_ones = [answer for answer in answers if answer.code != WAITS or answer.shared_seen]
    number = next(number for number, one in enumerate(model.roles) if one is role)
    if not all(answer.code != WAITS and alone(number, own, answer) for answer in open_ones):
        return []
    return [_step(state, process, answer) for answer in open_ones]
