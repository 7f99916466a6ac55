"""What a contract says of a property: that it applies and who checks it, or that it does not, and why.

Who checks: cases that are there for it, every run of a case (two launches with other poison and padding, the order of
accesses, the route), a probe, which runs cases in another way than a case runs (`probes`), or a test outside cases.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tileproof.conformance.case import Case
from tileproof.conformance.properties.catalogue import PROPERTIES
from tileproof.oracle.refusal import Refusal

LEAST_REASON = 20
"""Letters of a sentence that says why."""


class By(StrEnum):
    """Who checks."""

    CASES = "cases"
    RUN = "every run"
    PROBE = "probe"
    TEST = "test"


@dataclass(frozen=True)
class Check:
    """One check of a property.

    Args:
        by: who checks.
        name: in words; of a probe its name, of a test its file and function, as pytest names it.
        takes: the cases that count for it, among those of the contract; of a test none.
        on_gpu: whether a GPU can show it: order of accesses, for one, only the CPU device sees.
        cases: of a probe, the ids of the cases that it runs.
    """

    by: By
    name: str
    takes: Callable[[Case], bool] = lambda case: False
    on_gpu: bool = True
    cases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Applies:
    """The property applies, and these check it."""

    checks: tuple[Check, ...]

    def takes(self, case: Case) -> bool:
        """Whether a case counts for any of the checks."""
        return any(check.takes(case) for check in self.checks)


@dataclass(frozen=True)
class Absent:
    """The property does not apply."""

    why: str


@dataclass(frozen=True)
class Open:
    """The property applies and nothing checks it yet."""

    why: str


Declaration = Applies | Absent | Open
Declarations = Mapping[str, Declaration]
"""By the property's id."""


def declare(**said: Declaration) -> Declarations:
    """The declarations of a contract: one of each property of the catalogue.

    Raises:
        Refusal: a property is left out or unknown, a check is missing, or a reason is no sentence.
    """
    if missing := PROPERTIES.keys() - said.keys():
        raise Refusal(f"nothing is said of {', '.join(sorted(missing))}", hint="applies(...), or absent(why)")
    if unknown := said.keys() - PROPERTIES.keys():
        raise Refusal(f"no property {min(unknown)}", hint="P1 to P24")
    for name, declaration in said.items():
        if isinstance(declaration, Applies) and not declaration.checks:
            raise Refusal(f"{name} applies, and nothing checks it", hint="name a check, or say Open(why)")
        if not isinstance(declaration, Applies) and len(declaration.why) < LEAST_REASON:
            raise Refusal(f"{name}: {declaration.why!r} is no reason", hint="a sentence")
    return {name: said[name] for name in PROPERTIES}


def applies(*checks: Check) -> Applies:
    """The property applies, and these check it."""
    return Applies(checks)
