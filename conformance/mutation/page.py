"""The report of a kernel's mutants: its CUDA source with a mark at each line that was mutated, in one HTML file."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import jinja2

from tileproof.conformance.mutation.result import Outcome, Result
from tileproof.conformance.mutation.summary import Rate, by, ordering, rate, survivors
from tileproof.conformance.visible import visible_data


@dataclass(frozen=True)
class MarkedLine:
    """A line of the source and what became of its mutants.

    Args:
        number: from 1.
        text: of the line.
        mark: the worst outcome, in the order of _WORST; "" without mutants.
        rate: of its mutants.
        alive: those that survived.
        mutants: all of them, by id.
    """

    number: int
    text: str
    mark: str
    rate: Rate
    alive: tuple[Result, ...]
    mutants: tuple[Result, ...]


_WORST = (Outcome.SURVIVED, Outcome.UNFINISHED, Outcome.REFUSED, Outcome.KILLED, Outcome.EQUIVALENT)


def page(kernel: str, results: Sequence[Result]) -> str:
    """The report, self-contained: it loads nothing.

    Args:
        kernel: stem of its file.
        results: of its mutants.
    """
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=visible_data,
    )
    template = environment.from_string(resources.files(__package__).joinpath("page.html").read_text())
    return template.render(
        kernel=kernel,
        total=rate(results),
        order=rate(ordering(results)),
        operators=by(results, lambda one: one.operator),
        alive=survivors(results),
        files=_files(kernel, results),
    )


def _files(kernel: str, results: Sequence[Result]) -> dict[str, list[MarkedLine]]:
    """The kernel's file, then the headers that have mutants."""
    by_line: dict[tuple[str, int], list[Result]] = defaultdict(list)
    for one in results:
        by_line[one.file, one.line].append(one)
    own = f"{kernel}.cu"
    names = [own, *sorted({one.file for one in results} - {own})]
    shown: dict[str, list[MarkedLine]] = {}
    for name in names:
        path = resources.files("tileproof.kernels").joinpath(name)
        if name and path.is_file():
            lines = path.read_text().splitlines()
            shown[name] = [_marked(at, text, by_line.get((name, at), [])) for at, text in enumerate(lines, 1)]
    return shown


def _marked(number: int, text: str, results: Sequence[Result]) -> MarkedLine:
    outcomes = {one.outcome for one in results}
    mark = next((str(one) for one in _WORST if one in outcomes), "")
    ordered = tuple(sorted(results, key=lambda one: one.id))
    return MarkedLine(number, text, mark, rate(results), tuple(survivors(results)), ordered)
