"""A case and its id: contract / kernel / route / shape / input family / data seed.

The id `ninfer_quantize/fp8_quantize_rows/vector/T3.K129.f32.xpad3.xoff1/ties/0` says everything that the inputs
and the expected outputs depend on; target, architecture and schedule are run coordinates and not part of it.

The shape token holds dimensions (`T3.K129`), an element type (`f32`) where the contract has more than one, and views
(`xpad3.xoff1`: tensor x has rows 3 elements further apart than they are long, and begins 1 element after an aligned
address). There is one spelling of each case: `str(parse_case(text)) == text` for every text that is accepted.
"""

import hashlib
import re
from dataclasses import dataclass

import numpy as np

from tileproof.oracle.refusal import Refusal

_FORM = "contract/kernel/route/shape/family/seed"
_EXAMPLE = "ninfer_quantize/fp8_quantize_rows/vector/T3.K129.f32.xpad3/ties/0"
_WORD = re.compile(r"[a-z0-9]+(?:[_-][a-z0-9]+)*")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_DIMENSION = re.compile(r"([A-Z][A-Za-z]*)(0|[1-9][0-9]{0,17})")
_DTYPE = re.compile(r"[a-z]+[0-9]+(?:[a-z]+[0-9]+)*")
_VIEW = re.compile(r"([a-z]+?)(pad|off)([1-9][0-9]{0,17})")


@dataclass(frozen=True)
class Dimension:
    """One named extent, for example T = 3."""

    name: str
    size: int

    def __str__(self) -> str:
        return f"{self.name}{self.size}"


@dataclass(frozen=True)
class View:
    """How a tensor lies in its allocation, in elements; the contiguous, aligned view has no token.

    Args:
        tensor: the short name that the contract gives the tensor, lower-case letters.
        pad: elements between the end of a row and the start of the next.
        offset: elements between an aligned address and the first element.
    """

    tensor: str
    pad: int = 0
    offset: int = 0

    def __str__(self) -> str:
        parts = [f"{self.tensor}pad{self.pad}"] * (self.pad > 0) + [f"{self.tensor}off{self.offset}"] * (
            self.offset > 0
        )
        return ".".join(parts)


@dataclass(frozen=True)
class Shape:
    """Dimensions in the contract's order, the element type or "", and the views that are not plain, by tensor name."""

    dimensions: tuple[Dimension, ...]
    dtype: str = ""
    views: tuple[View, ...] = ()

    def size(self, name: str) -> int:
        """The extent called `name`. Raises: Refusal where the shape has none."""
        for dimension in self.dimensions:
            if dimension.name == name:
                return dimension.size
        raise Refusal(f"shape {self} has no dimension {name}", hint="`tileproof list` shows shapes that fit")

    def view(self, tensor: str) -> View:
        """The view of one tensor: the plain one where the token says nothing."""
        return next((view for view in self.views if view.tensor == tensor), View(tensor))

    def __str__(self) -> str:
        return ".".join([*map(str, self.dimensions), *([self.dtype] if self.dtype else []), *map(str, self.views)])


@dataclass(frozen=True)
class Case:
    """One question with one right answer; `str(case)` is its id."""

    contract: str
    kernel: str
    route: str
    shape: Shape
    family: str
    seed: int = 0

    def __str__(self) -> str:
        return "/".join((self.contract, self.kernel, self.route, str(self.shape), self.family, str(self.seed)))

    def random(self) -> np.random.Generator:
        """A generator seeded by the id alone, so that neither order nor selection changes the data."""
        return np.random.default_rng(int.from_bytes(hashlib.sha256(str(self).encode()).digest()[:16], "little"))


def parse_case(text: str) -> Case:
    """The case that `text` names. Whether the contract knows its parts is checked by `Contract.check`.

    Raises:
        Refusal: not of the form, or not the one spelling (a leading zero, `pad0`, views out of order).
    """
    parts = text.split("/")
    if len(parts) != 6:
        raise Refusal(f"case id {text!r} has {_counted(len(parts))}, not 6", hint=f"{_FORM}, such as {_EXAMPLE}")
    contract, kernel, route, shape, family, seed = parts
    for word in (contract, kernel, route, family):
        if not _WORD.fullmatch(word):
            raise Refusal(f"case id {text!r}: {word!r} is not a name", hint="lower-case letters, digits, - and _")
    if not _NUMBER.fullmatch(seed):
        raise Refusal(f"case id {text!r}: seed {seed!r} is not a number", hint=f"{_FORM}, such as {_EXAMPLE}")
    return Case(contract, kernel, route, parse_shape(shape), family, int(seed))


def _counted(parts: int) -> str:
    return "1 part" if parts == 1 else f"{parts} parts"


def parse_shape(text: str) -> Shape:
    """The shape that a token such as `T3.K129.f32.xpad3.xoff1` names. Raises: Refusal, as `parse_case`."""
    tokens = text.split(".")
    dimensions = tuple(
        Dimension(found[1], int(found[2])) for found in map(_DIMENSION.fullmatch, tokens) if found is not None
    )
    rest = tokens[len(dimensions) :]
    typed = bool(rest) and _DTYPE.fullmatch(rest[0]) is not None and _VIEW.fullmatch(rest[0]) is None
    if not dimensions and not typed:
        raise Refusal(f"shape {text!r} has no dimensions", hint="such as T3.K129.f32.xpad3")
    shape = Shape(dimensions, rest[0] if typed else "", _parse_views(text, rest[typed:]))
    if str(shape) != text or len({dimension.name for dimension in dimensions}) != len(dimensions):
        raise Refusal(f"shape {text!r} is not spelled as {str(shape)!r}", hint="each case has one spelling")
    return shape


def _parse_views(text: str, tokens: list[str]) -> tuple[View, ...]:
    amounts: dict[str, dict[str, int]] = {}
    for token in tokens:
        found = _VIEW.fullmatch(token)
        if found is None:
            raise Refusal(f"shape {text!r}: {token!r} is not a view", hint="such as xpad3 or xoff1, amounts above 0")
        amounts.setdefault(found[1], {})[found[2]] = int(found[3])
    return tuple(View(name, by.get("pad", 0), by.get("off", 0)) for name, by in amounts.items())
