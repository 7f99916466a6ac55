"""The checks that contracts share: which cases are there for a property, and what every run of a case looks at."""

from collections.abc import Iterable

from tileproof.conformance.case import Case
from tileproof.conformance.contract import REFUSED
from tileproof.conformance.properties.declaration import By, Check
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH


def families(*names: str) -> Check:
    """Cases of these families of inputs, where something is launched."""
    return Check(By.CASES, f"inputs {', '.join(names)}", lambda case: case.family in names and launches(case))


def zero_and_one(*dimensions: str) -> Check:
    """Cases in which one of these extents is 0 or 1, empty calls and refusals among them."""
    name = f"{', '.join(dimensions)} of 0 and 1"
    return Check(By.CASES, name, lambda case: any(case.shape.size(one) <= 1 for one in dimensions))


def residues(**multiples: int) -> Check:
    """Cases in which one of these extents is no multiple of what a tile, a vector or a stage takes."""
    name = ", ".join(f"{one} mod {multiple}" for one, multiple in multiples.items())

    def takes(case: Case) -> bool:
        return launches(case) and any(case.shape.size(one) % multiple for one, multiple in multiples.items())

    return Check(By.CASES, name, takes)


def at_least(dimension: str, least: int, of: str) -> Check:
    """Cases in which an extent is so large."""
    return Check(By.CASES, of, lambda case: case.shape.size(dimension) >= least and launches(case))


def views() -> Check:
    """Cases whose tensors have padded rows or begin at an offset; those that must be refused among them."""
    return Check(By.CASES, "offset and padded views", lambda case: bool(case.shape.views))


def refusals() -> Check:
    """Cases that the launcher must refuse."""
    return Check(By.CASES, "shapes to refuse", lambda case: case.route == REFUSED)


def tokens(*parts: str) -> Check:
    """Cases whose element type's token has one of these parts."""
    return Check(By.CASES, f"types with {', '.join(parts)}", lambda case: any(one in case.shape.dtype for one in parts))


def programs(*routes: str) -> Check:
    """Cases of these routes."""
    return Check(By.CASES, f"routes {', '.join(routes)}", lambda case: case.route in routes)


def other_padding() -> Check:
    """The second launch of a case, with other values around the elements; of cases that have something around them."""
    return Check(By.RUN, "a second launch with other padding", lambda case: bool(case.shape.views) and launches(case))


def poison() -> Check:
    """Two poisons in the outputs, exact bounds or red zones, inputs held to their images."""
    return Check(By.RUN, "poison, bounds, images of inputs", launches)


def equal_bits() -> Check:
    """The second launch of a case gives the bits of the first, with other poison, at another place of shared memory."""
    return Check(By.RUN, "a second launch with other poison", launches)


def order() -> Check:
    """The CPU device orders all accesses of a launch, whatever their values."""
    return Check(By.RUN, "order of all accesses", launches, on_gpu=False)


def route() -> Check:
    """The launcher's route is held to the contract's rule."""
    return Check(By.RUN, "the route that was taken", lambda case: True)


def state(*names: str) -> Check:
    """Tensors of state are outputs of the contract, every word of them held to the oracle."""
    return Check(By.RUN, f"every word of {', '.join(names)}", launches)


def probe(name: str, *cases: str) -> Check:
    """A probe on these cases; see `probes`."""
    return Check(By.PROBE, name, cases=cases)


def tested(test: str) -> Check:
    """A test outside cases, as `tests/kernels/test_x.py::test_that_it_holds`."""
    return Check(By.TEST, test)


def launches(case: Case) -> bool:
    """Whether a case launches anything."""
    return case.route not in (REFUSED, NOTHING_TO_LAUNCH)


def named(checks: Iterable[Check]) -> str:
    """For a table."""
    return "; ".join(check.name for check in checks)
