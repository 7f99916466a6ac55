"""Comparison by bits: where two tensors differ, how, and in which elements, said so that a person can act on it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.bits import Raw, describe, is_nan, magnitude, ordinal, steps
from tileproof.conformance.contract import Mask, TensorSpec
from tileproof.conformance.division import Divides, particular_units_of
from tileproof.conformance.finding import Finding, FindingKind, InputClass, Mismatch, Witness

MAP_ROWS = 16
MAP_COLUMNS = 64

SEVERAL = "in several classes"
CHANCE = 1e-3
"""A class explains a difference if as many elements at random would all fall into it more rarely than this."""


def raw_bits(array: NDArray[Any]) -> Raw:
    """The stored bits of a tensor, as unsigned integers of the element's width."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def compare_bits(
    spec: TensorSpec,
    expected: Raw,
    observed: Raw,
    *,
    classes: Mapping[str, Mask] | None = None,
    skip: Mask | None = None,
    division: Divides | None = None,
) -> Finding | None:
    """A finding where the bits of one output differ from the expected ones.

    Args:
        spec: the tensor.
        expected: its right bits.
        observed: its bits after the launch, same shape.
        classes: input classes, as masks of the tensor's shape.
        skip: elements that another finding covers (never written).
        division: how the kernel divides the output, where that is known.

    Returns:
        None where every element that is not skipped agrees.
    """
    differs = expected != observed
    if skip is not None:
        differs &= ~skip
    if not differs.any():
        return None
    evidence = difference(spec, expected, observed, differs, classes or {}, division)
    change, direction = _change(spec.format, expected[differs], observed[differs])
    where, words = explaining_class(differs, classes or {}), where_words(differs, classes or {})
    message = (
        f"{spec.name}: {evidence.count} of {evidence.of} elements differ ({change}{direction}; {words}); first at "
        f"{_place(evidence.index)}: expected {evidence.expected}, got {evidence.observed}"
    )
    return Finding(FindingKind.MISMATCH, message, f"mismatch/{spec.name}/{change}/{where}", spec.name, evidence)


def difference(
    spec: TensorSpec,
    expected: Raw,
    observed: Raw,
    differs: Mask,
    classes: Mapping[str, Mask],
    division: Divides | None = None,
) -> Mismatch:
    """The evidence for a difference; `differs` has at least one element set."""
    index = tuple(int(i) for i in np.argwhere(differs)[0])
    return Mismatch(
        index=index,
        count=int(differs.sum()),
        of=differs.size,
        expected=describe(spec.format, int(expected[index])),
        observed=describe(spec.format, int(observed[index])),
        witnesses=(),
        largest_step=int(steps(spec.format, expected[differs], observed[differs]).max()),
        map=draw_map(differs),
        classes=_count_classes(differs, classes),
        units=particular_units_of(division, differs) if division else None,
    )


def draw_map(differs: Mask) -> tuple[str, ...]:
    """Rows down, columns across: `.` all agree, `+` some differ, `#` all differ; the first line gives the scale.

    Marks stand for equally many rows and columns, so that one can count to an element; the last ones for what is left.
    A tensor of one dimension is one row.
    """
    plane = differs.reshape(-1, differs.shape[-1]) if differs.ndim > 1 else differs.reshape(1, -1)
    down, across = _pieces(plane.shape[0], MAP_ROWS), _pieces(plane.shape[1], MAP_COLUMNS)
    head = (
        f"rows 0-{plane.shape[0] - 1} down, columns 0-{plane.shape[1] - 1} across; "
        f"a mark is {len(down[0])} x {len(across[0])}"
        if differs.ndim > 1
        else f"elements 0-{plane.shape[1] - 1} across; a mark is {len(across[0])}"
    )
    return (head, *("".join(_mark(plane[np.ix_(rows, columns)]) for columns in across) for rows in down))


def _pieces(extent: int, most: int) -> list[range]:
    """At most so many pieces, as large as one another but for the last."""
    size = -(-extent // most)
    return [range(first, min(first + size, extent)) for first in range(0, extent, size)]


def explaining_class(differs: Mask, classes: Mapping[str, Mask]) -> str:
    """The first class that holds every differing element, in words, unless chance alone could have put them there.

    The words are a part of signatures, which files of earlier versions hold; `where_words` says them to a person.
    """
    count = int(differs.sum())
    for name, mask in classes.items():
        if not (differs & ~mask).any() and not is_chance(int(mask.sum()), mask.size, count):
            return f"only in {name}"
    return "everywhere" if differs.all() else SEVERAL


def is_chance(members: int, of: int, count: int) -> bool:
    """Whether so many elements at random would all fall into a class of so many members not so rarely."""
    return (members / of) ** count >= CHANCE


def where_words(differs: Mask, classes: Mapping[str, Mask]) -> str:
    """`explaining_class` for a message: where chance leaves it open which class it is, it says that."""
    where = explaining_class(differs, classes)
    if where == SEVERAL and any(not (differs & ~mask).any() for mask in classes.values() if not mask.all()):
        return "too few to say in which class"
    return where


def witness(spec: TensorSpec, values: Raw, index: tuple[int, ...]) -> Witness:
    """One explaining value, named as `x[2,17]`."""
    return Witness(f"{spec.name}{_place(index)}", describe(spec.format, int(values[index])))


def _mark(block: Mask) -> str:
    return "#" if block.all() else "+" if block.any() else "."


def _place(index: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, index)) + "]"


def _count_classes(differs: Mask, classes: Mapping[str, Mask]) -> tuple[InputClass, ...]:
    counted = [InputClass(name, int((differs & mask).sum()), int(mask.sum())) for name, mask in classes.items()]
    return tuple(sorted((c for c in counted if c.of), key=lambda c: -c.differing / c.of))


def _change(format_name: str, expected: Raw, observed: Raw) -> tuple[str, str]:
    """How values moved, coarse on purpose since it groups findings; and a direction, which small counts lack."""
    nan_expected, nan_observed = is_nan(format_name, expected), is_nan(format_name, observed)
    if (nan_expected & nan_observed).all():
        return "another NaN", ""
    if (nan_observed & ~nan_expected).all():
        return "NaN instead of a number", ""
    if (nan_expected & ~nan_observed).all():
        return "a number instead of NaN", ""
    growth = magnitude(format_name, observed) - magnitude(format_name, expected)
    if not growth.any():
        return "sign", ""
    distance = np.abs(ordinal(format_name, observed) - ordinal(format_name, expected)).max()
    direction = " toward zero" if (growth <= 0).all() else " away from zero" if (growth >= 0).all() else " both ways"
    return ("one step" if distance == 1 else "many steps"), direction
