"""Which of the collected cases a run takes, and in which order: one of several like parts; routes in turns."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Self

from tileproof.conformance.case import Case
from tileproof.oracle.refusal import Refusal

MAX_PARTS = 10_000


@dataclass(frozen=True)
class Part:
    """One of several parts of a run, for machines that share it.

    Args:
        number: 1 to `parts`.
        parts: how many there are.
    """

    number: int = 1
    parts: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """The part that "2/8" names.

        Raises:
            Refusal: the text is of another form, or names no part.
        """
        found = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text, re.ASCII)
        if found is None:
            raise Refusal(f"--shard {text!r} is no part", hint="the second of eight parts is --shard 2/8")
        part = cls(*map(int, found.groups()))
        if not 1 <= part.number <= part.parts <= MAX_PARTS:
            raise Refusal(f"--shard {text}: there is no such part", hint=f"parts are 1 to N, N at most {MAX_PARTS}")
        return part

    def of(self, cases: Sequence[Case]) -> tuple[Case, ...]:
        """Every `parts`-th case, so that each part has its share of every contract and route.

        Raises:
            Refusal: no case is left for this part.
        """
        chosen = tuple(cases[self.number - 1 :: self.parts])
        if not chosen:
            raise Refusal(f"part {self} of {len(cases)} cases is empty", hint=f"take at most {len(cases)} parts")
        return chosen

    def __str__(self) -> str:
        return f"{self.number}/{self.parts}"


def in_turns(cases: Iterable[Case]) -> tuple[Case, ...]:
    """The first case of every route, then the second of each, and so on: what a run cut short has reached most of."""
    by_route: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        by_route.setdefault((case.contract, case.kernel, case.route), []).append(case)
    return tuple(case for case in chain.from_iterable(zip_longest(*by_route.values())) if case is not None)
