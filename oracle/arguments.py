"""What callers mistype: whole numbers and members of an enumeration, checked where they come in.

numpy's integers wrap at their width and its comparisons of unlike types round, so a rule reckons in Python integers
only. A text that equals a member's value is no member, and a rule that asks `is` would take its other branch.
"""

import operator
from enum import Enum

from tileproof.oracle.refusal import Refusal


def whole(name: str, value: object) -> int:
    """A whole number as a Python integer.

    Args:
        name: of the argument, for messages.
        value: an int or a numpy integer scalar.

    Raises:
        Refusal: anything else; a bool and an array of one element among them.
    """
    if isinstance(value, bool) or getattr(value, "shape", ()) != ():
        raise _no_whole(name, value)
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise _no_whole(name, value) from None


def wholes(**values: object) -> tuple[int, ...]:
    """`whole` of each, in order."""
    return tuple(whole(name, value) for name, value in values.items())


def require_member(choices: type[Enum], name: str, value: object) -> None:
    """Refuses what is no member of an enumeration, a member's value or name among it."""
    if not isinstance(value, choices):
        known = ", ".join(f"{choices.__name__}.{member.name}" for member in choices)
        raise Refusal(f"{name} is {value!r}, no member of {choices.__name__}", hint=f"give one of {known}")


def _no_whole(name: str, value: object) -> Refusal:
    return Refusal(
        f"{name} = {value!r} of type {type(value).__name__} is no whole number",
        hint="give an int or a numpy integer scalar",
    )
