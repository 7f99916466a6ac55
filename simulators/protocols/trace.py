"""A way through a model's states, step by step: who did what, where that stands in the kernel, and what it changed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tileproof.simulators.protocols.definition import Step, canonical, steps
from tileproof.simulators.protocols.layout import Layout, packed
from tileproof.simulators.protocols.model import AT, Action, Field, Model, Source, State


@dataclass(frozen=True)
class TraceStep:
    """One step of a trace.

    Args:
        process: its number, over all roles.
        name: of the process.
        words: what it did.
        action: that it took.
        which: of several like things.
        changes: of numbers that have a name, as "name 0 > 1"; places are left out.
        broken: the rule that this step breaks; "" if none.
    """

    process: int
    name: str
    words: str
    action: Action
    which: int
    changes: tuple[str, ...]
    broken: str = ""

    @property
    def source(self) -> Source | None:
        """What the step stands for in a kernel."""
        return self.action.source


@dataclass(frozen=True)
class Trace:
    """Steps from the first state on, and where every process is in the end."""

    steps: tuple[TraceStep, ...]
    last: State
    places: tuple[str, ...]


def process_names(model: Model) -> list[str]:
    """Role and number; the number is left out where there is one."""
    return [f"{role.name} {number}" if len(role.starts) > 1 else role.name for role, number in model.processes]


def trace_along(model: Model, layout: Layout, way: Sequence[tuple[int, ...]], *, sorts: bool) -> Trace:
    """The trace along packed states, each of which is, but for an exchange of rows, a successor of the one before.

    It is made of the definition's steps: a way that the compiled search made up would not be found again.
    """
    at, taken = model.first, []
    for words in way[1:]:
        step = next(step for step in steps(model, at) if _words(model, layout, step.state, sorts) == words)
        taken.append(_traced(model, at, step))
        at = step.state
    return Trace(tuple(taken), at, _places(model, at))


def _words(model: Model, layout: Layout, state: State, sorts: bool) -> tuple[int, ...]:
    return packed(layout, canonical(model, state) if sorts else state)


def broken(model: Model, trace: Trace, rule: int) -> Trace:
    """The trace with the step at its end that breaks a rule."""
    step = next(step for step in steps(model, trace.last) if step.rule == rule)
    return Trace((*trace.steps, _traced(model, trace.last, step)), step.state, _places(model, step.state))


def _places(model: Model, state: State) -> tuple[str, ...]:
    return tuple(role.places[row[AT]] for (role, _), row in zip(model.processes, state.rows, strict=True))


def _traced(model: Model, before: State, step: Step) -> TraceStep:
    role, _ = model.processes[step.process]
    action = role.actions[step.action]
    return TraceStep(
        step.process,
        process_names(model)[step.process],
        action.words.replace("{}", action.choices[step.which]),
        action,
        step.which,
        tuple(_changes(model, before, step)),
        model.rules[step.rule] if step.rule >= 0 else "",
    )


def _changes(model: Model, before: State, step: Step) -> Iterator[str]:
    role, _ = model.processes[step.process]
    yield from _differences(model.fields, before.shared, step.state.shared)
    own = before.rows[step.process], step.state.rows[step.process]
    yield from _differences(role.fields, own[0][1:], own[1][1:])


def _differences(fields: Sequence[Field], before: Sequence[int], after: Sequence[int]) -> Iterator[str]:
    for field, old, new in zip(fields, before, after, strict=True):
        if old != new:
            yield f"{field.name} {old} > {new}"


def lines(trace: Trace) -> list[str]:
    """A trace in words, a line a step."""
    wide = max((len(step.name) for step in trace.steps), default=0)
    long = max((len(step.words) for step in trace.steps), default=0)
    rows = []
    for number, step in enumerate(trace.steps, start=1):
        changes = ", ".join(step.changes)
        rows.append(f"{number:3}  {step.name:{wide}}  {step.words:{long}}  {changes}".rstrip())
    return rows
