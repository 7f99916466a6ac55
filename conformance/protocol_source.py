"""Where the actions of a model stand in the kernels."""

from functools import cache

from tileproof.kernels.source import source_text
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.model import Source


def place_of(source: Source | None) -> str:
    """File and line; "" for what hardware or a host does."""
    return "" if source is None else f"{source.file}:{line_of(source)}"


@cache
def line_of(source: Source) -> int:
    """The line on which a text begins, from 1.

    Raises:
        Refusal: it does not occur there exactly once: the kernel has moved on, and the model with it must.
    """
    text = source_text(source.file)
    found = text.count(source.text)
    if found != 1:
        raise Refusal(f"{source.file} holds the model's text {found} times, not once: {source.text!r}")
    before = text[: text.index(source.text) + len(source.text) - len(source.text.lstrip())]
    return before.count("\n") + 1
