"""What a model's actions mean, and the search through its states as plain Python: the definition.

It is written to be read, and checks what the compiled search takes for granted: that an action which may not act has
changed nothing, and that numbers stay within what is declared.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.model import AT, FIRST_RULE, WAITS, Field, Model, Role, State


@dataclass(frozen=True)
class Reductions:
    """What a search leaves out.

    Args:
        symmetry: states that are another one with processes of one role exchanged.
        partial_order: interleavings of private actions. A trace is then not always the shortest.
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


@dataclass(frozen=True)
class Move:
    """What a process may do, by its own row and the shared numbers alone.

    Args:
        action: number of the action within the role.
        which: of several like things.
        code: that the action answered.
        shared: shared numbers afterwards.
        own: the row afterwards.
    """

    action: int
    which: int
    code: int
    shared: tuple[int, ...]
    own: tuple[int, ...]


def moves(model: Model, role: Role, shared: tuple[int, ...], own: tuple[int, ...]) -> Iterator[Move]:
    """What a process may do.

    Raises:
        Refusal: the model is no model: see the module.
    """
    for number, action in enumerate(role.actions):
        if action.at and own[AT] not in action.at:
            continue
        for which in range(len(action.choices)):
            if action.bits is not None and not own[action.bits] >> which & 1:
                continue
            shared_after, own_after = list(shared), list(own)
            code = action.effect(list(model.constants), shared_after, own_after, which)
            move = Move(number, which, code, tuple(shared_after), tuple(own_after))
            if code != WAITS:
                _check_numbers(model, model.fields, move.shared)
                _check_numbers(model, role.row, move.own)
                yield move
            elif (move.shared, move.own) != (shared, own):
                raise Refusal(f"{model.name}: {action.words!r} may not act and changed the state")


def steps(model: Model, state: State) -> Iterator[Step]:
    """Everything that may happen next. Raises: Refusal, as `moves`."""
    for process, (role, _) in enumerate(model.processes):
        for move in moves(model, role, state.shared, state.rows[process]):
            rows = (*state.rows[:process], move.own, *state.rows[process + 1 :])
            yield Step(process, move.action, move.which, move.code, State(move.shared, rows))


def check_first(model: Model) -> None:
    """Raises: Refusal where the first state has a number that lies outside its range."""
    _check_numbers(model, model.fields, model.start)
    for role in model.roles:
        for start in role.starts:
            _check_numbers(model, role.row, start)


def _check_numbers(model: Model, fields: tuple[Field, ...], row: tuple[int, ...]) -> None:
    """Raises: Refusal for a number that is more than its most, or negative."""
    for field, value in zip(fields, row, strict=True):
        if not 0 <= value <= field.most:
            raise Refusal(f"{model.name}: {field.name} became {value}; it must lie in 0..{field.most}")


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


def explore(model: Model, reductions: Reductions = NOTHING_LEFT_OUT) -> Explored:
    """All states, breadth first, until a rule is broken or nothing can happen. Raises: Refusal, as `steps`."""
    start = canonical(model, model.first) if reductions.symmetry else model.first
    known, queue = {start: 0}, deque([start])
    taken = ends = 0
    while queue:
        state = queue.popleft()
        following = _following(model, state, reductions.partial_order)
        if not following:
            if not has_ended(model, state):
                return Explored(len(known), taken, ends, stuck=state, depth=known[state])
            ends += 1
        for step in following:
            taken += 1
            if step.rule >= 0:
                return Explored(len(known), taken, ends, broken=(state, step), depth=known[state] + 1)
            after = canonical(model, step.state) if reductions.symmetry else step.state
            if after not in known:
                known[after] = known[state] + 1
                queue.append(after)
    return Explored(len(known), taken, ends)


def _following(model: Model, state: State, partial_order: bool) -> list[Step]:
    """The steps to look at: all, or a private one alone."""
    following = list(steps(model, state))
    if partial_order:
        for step in following:
            if model.processes[step.process][0].actions[step.action].private and step.rule < 0:
                return [step]
    return following
