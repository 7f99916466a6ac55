"""The trace of one element, told to a person."""

import re
from collections.abc import Iterator, Sequence

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.trace.contribution import Contribution, runs
from tileproof.simulators.ptx.trace.trace import Element, Input, Trace

_ELEMENT = re.compile(r"\s*(\d+)\s*\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]\s*")


def parse_element(text: str) -> Element:
    """`2[3,5]`: element [3, 5] of argument 2, both counted from 0.

    Raises:
        Refusal: another form.
    """
    match = _ELEMENT.fullmatch(text)
    if match is None:
        raise Refusal(f"--trace {text!r} is no element", hint='e.g. --trace "2[3,5]": element [3, 5] of argument 2')
    return Element(int(match[1]), tuple(map(int, match[2].split(","))))


def describe_trace(trace: Trace, arguments: Sequence[str]) -> Iterator[str]:
    """The trace in lines: instructions in the order of first execution, then where the values came from.

    Args:
        trace: what to tell.
        arguments: for each argument its text.
    """
    yield f"where {trace.element} came from"
    if not trace.steps:
        yield "      the launch did not write it"
    for step in trace.steps:
        yield from _step(step)
    for each in trace.inputs:
        yield f"      from   {_input(each, arguments)}"
    if trace.parameters:
        yield f"      from   parameters {', '.join(trace.parameters)}"
    if trace.constants:
        yield f"      from   constants {', '.join(trace.constants)}"
    if trace.unwritten:
        yield "      from   something that nothing wrote"


def _step(step: Contribution) -> Iterator[str]:
    times = "once" if step.executions == 1 else f"{step.executions} times"
    copies = f" and {step.copies - 1} more of that line" if step.copies > 1 else ""
    yield f"  {step.opcode} at {step.where}{copies}: {times}, {step.lanes}"
    yield f"      e.g.   {step.example}"
    if step.places:
        yield f"      at     {step.places}"


def _input(each: Input, arguments: Sequence[str]) -> str:
    flat = each.elements.tolist()
    if each.argument is None:
        return f"memory at 0x{each.address:x}, bytes {runs(flat)}"
    count = "1 element" if len(flat) == 1 else f"{len(flat)} elements"
    return f"argument {each.argument}  {arguments[each.argument]}: {count}, {elements(flat, each.shape)}"


def elements(flat: Sequence[int], shape: tuple[int, ...]) -> str:
    """`[3, 0..15]`: flat indices by row, or by rows that have the same columns."""
    if len(shape) < 2:
        return f"[{runs(list(flat))}]"
    rows: dict[int, list[int]] = {}
    for index in flat:
        rows.setdefault(index // shape[-1], []).append(index % shape[-1])
    alike: dict[tuple[int, ...], list[int]] = {}
    for row, columns in rows.items():
        alike.setdefault(tuple(columns), []).append(row)
    texts = [f"[{_leading(same, shape[:-1])}, {runs(list(columns))}]" for columns, same in list(alike.items())[:4]]
    return ", ".join(texts) + (", ..." if len(alike) > len(texts) else "")


def _leading(rows: list[int], shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return runs(rows)
    outer, last = shape[:-1], shape[-1]
    by_outer: dict[int, list[int]] = {}
    for row in rows:
        by_outer.setdefault(row // last, []).append(row % last)
    first, *more = by_outer
    text = f"{_leading([first], outer)}, {runs(by_outer[first])}"
    return text if not more else f"{text} and {len(more)} more"
